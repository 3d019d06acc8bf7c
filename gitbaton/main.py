"""The console script: starts git before the rest is imported, and exits without Python's clean-up."""

from __future__ import annotations

import gc

gc.disable()  # a process of milliseconds: collecting while we are imported costs a tenth of its start

import os
import sys

from gitbaton import terminal
from gitbaton.commands import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from gitbaton.git.repo import Repo

_FATAL, _SIGINT, _SIGPIPE = 128, 130, 141


def head_start(words: list[str]) -> Repo | None:
    """Find the repository and, where files count, let git look at the work tree while the rest is imported. Only reads.

    Nothing is begun with options before the verb, with a call for help or for a dry run; the verb then begins by itself.
    """
    given = set(words)
    verb, rest = find(words)
    if (rest and not verb) or given & {"-h", "--help", "--dry-run", "-n"}:
        return None
    from gitbaton.errors import BatonError
    from gitbaton.git.repo import discover

    try:
        repo = discover(None, door="binary")
        repo.prefetch_settings()
        if verb in ("snapshot", "restore", "undo", "redo"):
            repo.prefetch_identity()
            if "--no-files" not in given and not any(w == "-" or w.endswith("=-") for w in words):
                from gitbaton.worktree.index import list_ahead

                list_ahead(repo)
        elif verb in ("run", "run repair", "run settle", "run approve", "run compensate"):
            repo.prefetch_identity()
        elif verb in ("", "verify", "status") or (verb == "resume" and "--live" in given):
            from gitbaton.worktree import filedrift

            filedrift.list_ahead(repo)
    except BatonError:
        return None  # the verb meets the same error and says it
    return repo


def run() -> NoReturn:
    """Carry out the command line of this process. What Python would clean up, the kernel frees sooner."""
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    except KeyboardInterrupt:
        code = _SIGINT
    except BrokenPipeError:
        code = _SIGPIPE
    except OSError as error:
        code = _FATAL
        os.write(2, f"fatal: the output cannot be written: {error.strerror}\n".encode())
    os._exit(0 if sys.argv[1:2] == ["hook"] else code)  # a guard never breaks the guarded


def _run(words: list[str]) -> int:
    terminal.prepare()
    if words[:1] == ["hook"] and len(words) > 2:  # a hook is waited for: no command line
        from gitbaton.hooks import dispatch

        dispatch(words[1:])
        return 0
    begun = head_start(words)
    from gitbaton.cli import call

    return call(words, begun)
