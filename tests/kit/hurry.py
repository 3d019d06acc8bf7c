"""Clocks of this process for who waits: one that does not wait, and one that stands still."""

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


def stand_still(patch: pytest.MonkeyPatch, until: Callable[[], bool]) -> None:
    """Until something is so, ``time.monotonic`` stays where it is; then it goes on. So no limit is over before that."""
    now, behind = time.monotonic, list[float]()
    begun = now()

    def standing() -> float:
        if not behind and not until():
            return begun
        if not behind:
            behind.append(now() - begun)
        return now() - behind[0]

    patch.setattr(time, "monotonic", standing)
