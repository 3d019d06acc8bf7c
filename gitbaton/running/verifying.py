"""Checking a step's outputs apart from the step: in a folder that holds only what it reads and writes, by exit status alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from gitbaton.journal.values import Step
from gitbaton.running.claims import Claim
from gitbaton.running.context import Context
from gitbaton.running.launching import launch, minimal, said, shell
from gitbaton.running.results import TIMEOUT
from gitbaton.values import value
from gitbaton.worktree.filesets import TEMPORARY, Entry, swap
from gitbaton.worktree.watcher import dismiss, new_path, watch


@value
class Checked:
    """The verdict on a step's outputs: the exit status of its --verify (0: they are good), and the end of what it said."""

    exit: int
    text: str = ""
    interrupted: bool = False


def verify(
    ctx: Context, claim: Claim, step: Step, reads: Mapping[str, Entry], outputs: Mapping[str, Entry], root: str
) -> Checked:
    """Run a step's --verify on copies of the files that it reads and of its outputs (those that are not in the store are copied
    from ``root``). It sees nothing else of the work tree, of the step's environment or of what the step said. Raises
    GitError."""
    if step.verify is None:
        return Checked(exit=0)
    with _folder() as folder:
        away = ctx.files.outward(reads.values())  # neither these links nor what they lead to
        there = {path: entry for path, entry in reads.items() if path not in away and not TEMPORARY.match(path)}
        swap(ctx.repo, folder, {**there, **outputs}, {}, source=root)
        _make(folder, step.cwd)
        ended = launch(ctx, claim, step, shell(step.verify), minimal(), root=folder, timeout=step.timeout, show=False)
    return Checked(exit=TIMEOUT if ended.timeout else ended.exit, text=said(ended), interrupted=ended.interrupted)


def _make(folder: str, cwd: str) -> None:
    """The folder that a check begins in, even where it has no file."""
    os.makedirs(os.path.join(folder, cwd), exist_ok=True)


@contextmanager
def _folder() -> Iterator[str]:
    """A folder that is removed when the block ends, and when this process is killed."""
    path = new_path()
    pipe, pid = watch(path)
    try:
        yield path
    finally:
        dismiss(pipe, pid, None, path)
