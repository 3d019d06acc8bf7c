"""The console script: lets git begin before typer is imported, and leaves without Python's clean-up."""

from __future__ import annotations

import gc

gc.disable()  # a process of milliseconds: collecting while typer is imported costs a tenth of its start

import os
import sys
from typing import NoReturn

from gitbaton import terminal
from gitbaton.commands import VERBS
from gitbaton.errors import BatonError
from gitbaton.git.repo import Repo, discover

_SIGPIPE = 141


def head_start(words: list[str]) -> Repo | None:
    """Find the repository and, for a snapshot, let git look at the work tree while typer is imported. Only reads.

    Nothing is begun with options before the verb, with a call for help or for a dry run; the verb then begins by itself.
    """
    given = set(words)
    if not words or words[0] not in dict(VERBS) or given & {"-h", "--help", "--dry-run", "-n"}:
        return None
    try:
        repo = discover(None, door="binary")
        repo.prefetch_settings()
        if words[0] == "snapshot":
            repo.prefetch_identity()
            if "--no-files" not in given:
                from gitbaton.git.index import list_ahead

                list_ahead(repo)
    except BatonError:
        return None  # the verb meets the same error and says it
    return repo


def run() -> NoReturn:
    """Carry out the command line of this process. What Python would clean up, the kernel frees sooner."""
    terminal.prepare()
    words = sys.argv[1:]
    if words[:2] == ["hook", "git"]:  # a hook is waited for: no typer
        from gitbaton.hooks import dispatch

        dispatch(words[1:])
        sys.stderr.flush()
        os._exit(0)
    begun = head_start(words)
    from gitbaton.cli import call

    code = call(words, begun)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = _SIGPIPE
    os._exit(code)
