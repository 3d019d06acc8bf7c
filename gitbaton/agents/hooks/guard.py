"""Time limit of a hook, and its log; ``agent.run`` catches what goes wrong within, so that the client sees no error."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from gitbaton.base.errors import BatonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from gitbaton.git.repo import Repo

LATE = "GIT_BATON_LATE"
"""Names the step of a checkpoint that is due, in the process that goes on with it; empty: ask again."""
CAME_AT = "GIT_BATON_CAME_AT"
"""When the event came, in milliseconds since 1970; a process of its own may go on with it."""
LOG_BYTES = 1 << 20
GRACE = 0.5  # seconds in which what was begun may be cleaned up


class DeadlineError(BaseException):
    """The time is over. No ``except Exception`` on the way may take it for an error of its own."""


class AgainError(BatonError):
    """An operation that cannot be ended now; a detached process may begin it anew."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise DeadlineError in the main thread when the time is over; a little later the process ends with exit status 0.

    One may stand within another: then the outer time goes on, and only its end ends the process.
    """
    begun, before = time.monotonic(), signal.getsignal(signal.SIGALRM)
    outer, over = signal.getitimer(signal.ITIMER_REAL)[0], False

    def hand_back() -> None:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, max(outer - (time.monotonic() - begun), 0.001) if outer else 0)

    def ring(_signal: int, _frame: FrameType | None) -> None:
        nonlocal over
        if over:
            os._exit(0)
        over = True
        if outer:
            hand_back()
        else:
            signal.setitimer(signal.ITIMER_REAL, GRACE)
        raise DeadlineError

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, outer) if outer else seconds)
    try:
        yield
    finally:
        if not (over and outer):
            hand_back()


def log(repo: Repo, text: str) -> None:
    """One line in the log of the repository, ``<common dir>/baton/log``; a log over 1 MiB starts anew. Never raises."""
    from gitbaton.base.codec import plain, timestamp
    from gitbaton.git.repo import add

    path = os.path.join(repo.shared_dir, "log")
    with suppress(OSError, BatonError):
        if os.path.exists(path) and os.stat(path).st_size > LOG_BYTES:
            os.replace(path, path + ".old")
        add(repo, path, f"{timestamp(datetime.now(UTC))} {plain(text)}\n".encode("utf-8", "replace"))
