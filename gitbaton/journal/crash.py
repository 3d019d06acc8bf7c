"""The points at which a test kills this process, to see what the next one makes of what is left."""

from __future__ import annotations

import os

VARIABLE = "GIT_BATON_CRASH_AT"
POINTS = (
    *("before-begin", "after-begin", "in-clearing", "in-command", "after-command", "after-collect", "in-bring-back"),
    *("before-end", "after-end", "after-fail", "in-materialize", "in-repair"),
    *("after-comp-begin", "in-compensation", "before-comp-end"),
)


def crash_at(point: str) -> None:
    """Nothing, unless the environment variable GIT_BATON_CRASH_AT names this point: then this process is killed with SIGKILL,
    as by a power cut of its own, and nothing that it holds is tidied up. ``point`` is one of POINTS."""
    if os.environ.get(VARIABLE) == point:
        import signal

        os.kill(os.getpid(), signal.SIGKILL)
