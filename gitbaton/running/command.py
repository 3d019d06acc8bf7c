"""The commands of a step: what they see of the run, where they run, and the check of its outputs apart from it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from gitbaton.journal import crash, keys
from gitbaton.journal.crash import crash_at
from gitbaton.journal.values import Step
from gitbaton.running.claims import Claim
from gitbaton.running.context import Context
from gitbaton.running.results import TIMEOUT
from gitbaton.system import children
from gitbaton.system.children import Command, Ended
from gitbaton.system.groups import Child
from gitbaton.values import value
from gitbaton.worktree.crashmarker import Marker
from gitbaton.worktree.filesets import TEMPORARY, swap
from gitbaton.worktree.filetrees import Entry

SHORT_TEXT = 4000  # characters of a command's words that a record's text keeps
_MINIMAL = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SHELL")


def environment(ctx: Context, step: str, idem: str, attempt: int, **more: str) -> dict[str, str]:
    """What a command of a step sees: our own environment, and which run, step and attempt it is."""
    return {
        **{name: text for name, text in os.environ.items() if name != crash.VARIABLE},
        "GIT_BATON_RUN": ctx.run,
        "GIT_BATON_STEP": step,
        "GIT_BATON_ATTEMPT": str(attempt),
        "GIT_BATON_IDEMPOTENCY_KEY": idem,
        **more,
    }


def minimal() -> dict[str, str]:
    """The environment of a check that must not know what the step knew."""
    return {name: text for name, text in os.environ.items() if name in _MINIMAL or name.startswith("LC_")}


def idempotency_key(ctx: Context, step: str, key: str) -> str:
    """The idempotency key of a step's effect: the same for all attempts. It is a new one when an effect of the very same key
    was compensated, or undone by hand, because a service that remembers the old one would not do it again."""
    state = ctx.step_state(step)
    return keys.idem(ctx.lineage, step, key, state.undone.count(key) if state is not None else 0)


def compensation_key(ctx: Context, step: str, idem: str) -> str:
    """The idempotency key of an effect's compensation: the same however often it is tried."""
    return keys.idem(ctx.lineage, step, f"undo {idem}")


def launch(
    ctx: Context,
    claim: Claim | None,
    step: Step,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    root: str | None = None,
    timeout: float | None = None,
    show: bool = True,
    point: str | None = None,
    runs: Callable[[Child], None] = lambda child: None,
) -> Ended:
    """Run a command below ``root`` (default: the work tree) in the step's folder, and wait for it without the lock. ``point``:
    where a test kills this process once the command has been let go; ``runs`` is told of it as the claim is. Raises GitError
    when it cannot be started."""
    cwd = os.path.normpath(os.path.join(root or ctx.root, step.cwd))
    command = Command(argv=tuple(argv), cwd=cwd, env=env, timeout=timeout, grace=step.grace, show=show and ctx.show)

    def started(child: Child) -> None:
        runs(child)
        if claim is not None:
            claim.child(child)

    def tick(seconds: float) -> None:
        with ctx.hold():
            ctx.emit("progress", step.name, seconds=seconds)

    def begun() -> None:
        if point is not None:
            crash_at(point)

    locks = (claim.lock_fd,) if claim is not None else ()
    output = ctx.output if command.show else None
    with ctx.away():
        ended = children.run(command, started=started, tick=tick, output=output, locks=locks, begun=begun)
    for fault in ended.faults:
        ctx.emit("warning", step.name, fault)
    return ended


def shell(line: str) -> tuple[str, ...]:
    """The words of a shell line."""
    return ("sh", "-c", line)


def said(ended: Ended) -> str:
    """The end of what a command said, for a record's text."""
    text = (ended.out + ended.err).decode("utf-8", "replace").strip()
    return text if len(text) <= SHORT_TEXT else "..." + text[-SHORT_TEXT:]


def status(ended: Ended) -> str:
    """How a command ended, for people."""
    if ended.timeout:
        return "its time was over"
    if ended.asked and ended.exit == 0:
        return "it was asked to end"
    return f"it was ended by {ended.signal}" if ended.signal else f"exit {ended.exit}"


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
    marker = Marker(ctx.repo)
    try:
        away = ctx.files.outward(reads.values())  # neither these links nor what they lead to
        there = {path: entry for path, entry in reads.items() if path not in away and not TEMPORARY.match(path)}
        swap(ctx.repo, marker.path, {**there, **outputs}, {}, source=root)
        os.makedirs(os.path.join(marker.path, step.cwd), exist_ok=True)  # even where it has no file
        argv, root = shell(step.verify), marker.path
        ended = launch(ctx, claim, step, argv, minimal(), root=root, timeout=step.timeout, show=False, runs=marker.runs)
    finally:
        marker.remove()
    return Checked(exit=TIMEOUT if ended.timeout else ended.exit, text=said(ended), interrupted=ended.interrupted)
