"""A clock of this process that does not wait: whoever sleeps finds that the time has passed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def hurry(patch: pytest.MonkeyPatch, asleep: Callable[[float], object] = lambda seconds: None, *, pace: int = 1) -> list[float]:
    """Until ``patch`` ends: ``time.sleep`` calls ``asleep`` and returns, and ``time.monotonic`` is ``pace`` times as much
    later. The seconds that went by so."""
    gone, now = list[float](), time.monotonic

    def sleep(seconds: float) -> None:
        gone.append(pace * seconds)
        asleep(seconds)

    patch.setattr(time, "sleep", sleep)
    patch.setattr(time, "monotonic", lambda: now() + sum(gone))
    return gone
