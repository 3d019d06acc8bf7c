"""A hook's own time limit: whoever waits for it waits no longer, whatever git or a disk are doing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GRACE = 0.5  # seconds in which what was begun may be cleaned up


class DeadlineError(BaseException):
    """The time is over. No ``except Exception`` on the way may take it for an error of its own."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise DeadlineError in the main thread when the time is over; a little later the process ends with exit status 0.

    One may stand within another; the outer time goes on.
    """
    over = False

    def ring(_signal: int, _frame: FrameType | None) -> None:
        nonlocal over
        if over:
            os._exit(0)
        over = True
        signal.setitimer(signal.ITIMER_REAL, GRACE)
        raise DeadlineError

    begun, before = time.monotonic(), signal.signal(signal.SIGALRM, ring)
    outer = signal.setitimer(signal.ITIMER_REAL, seconds)[0]
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            signal.setitimer(signal.ITIMER_REAL, max(outer - (time.monotonic() - begun), 0.001))
