"""A clock that is late, for a process that plays what happened a while ago: ``TRIALS_LATE`` seconds behind; and one that goes
slowly, where a hook is to take its time."""

from __future__ import annotations

import datetime
import os
import signal
import time
from typing import Self

LATE = float(os.environ.get("TRIALS_LATE", "0"))
_REAL: type = datetime.datetime
_time, _time_ns = time.time, time.time_ns
_TIMES = 30


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _REAL)


class Late(datetime.datetime, metaclass=_Kind):
    """Python's own, but for what time it is."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Self:
        """The time, so much earlier."""
        return cls.fromtimestamp(_time() - LATE, tz)


if LATE:
    datetime.datetime = Late  # type: ignore[misc]
    time.time = lambda: _time() - LATE
    time.time_ns = lambda: _time_ns() - int(LATE * 1e9)
if "GITBATON_TEST_PATIENT" in os.environ:
    _monotonic, _begun, _arm, _armed = time.monotonic, time.monotonic(), signal.setitimer, signal.getitimer
    time.monotonic = lambda: _begun + (_monotonic() - _begun) / _TIMES
    signal.setitimer = lambda which, seconds, interval=0.0: _arm(which, seconds * _TIMES, interval * _TIMES)
    signal.getitimer = lambda which: (_armed(which)[0] / _TIMES, _armed(which)[1] / _TIMES)
