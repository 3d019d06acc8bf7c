"""Locks of the log: one thread of one process has it, and what a signal handler raises anywhere leaves none behind."""

from __future__ import annotations

import fcntl
import io
import threading
import time
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from functools import partial
from operator import call

from gitbaton.errors import GitError, UsageError

_CALL: Callable[[object], object] = call  # type: ignore[assignment]
_LEAVING = 20  # calls, one in the other, that letting go may need


def locked(fd: int, how: int, wait: float | None) -> bool:
    """Take a flock, waiting at most so many seconds (None: as long as it takes)."""
    end, pause = (None if wait is None else time.monotonic() + wait), 0.00005
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if end is not None and time.monotonic() >= end:
                return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.002)


def _room(depth: int) -> None:
    """Raise RecursionError, with nothing locked yet, where the stack has no room for so many calls."""
    if depth:
        _room(depth - 1)


class Mutual:
    """What the threads of a process share of one lock: ``use`` says which open file processes lock, if any."""

    __slots__ = ("fd", "frees", "mutex", "taken")

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.taken: Lock | None = None  # who has it, or had it last
        self.use(-1)

    def use(self, fd: int) -> None:
        """Lock another file from now on, or none where it is below zero."""
        self.fd = fd
        self.frees = (partial(flock, fd, LOCK_UN), self.mutex.release) if fd >= 0 else (self.mutex.release,)

    @property
    def mine(self) -> bool:
        """Whether this very thread has it."""
        return self.mutex._is_owned()  # type: ignore[attr-defined,no-any-return]

    def forked(self) -> None:
        """In a child: nobody has it, and whoever leaves a ``with`` of the parent's leaves the parent's lock alone."""
        if self.taken is not None:
            self.taken.close = int  # type: ignore[method-assign,assignment]
        self.__init__()  # type: ignore[misc]


class Lock(io.IOBase):
    """Has a lock of a log while in ``with``. ``ready`` raises where there is none to be had; ``wait`` gives seconds, None for
    as long as it takes; ``said`` is what the error says when another has it for longer. UsageError is raised where this very
    thread has it: then a signal handler came in between.

    What a handler raises comes between any two steps of Python, at the first of an ``__exit__``, too. That of IOBase is none:
    it calls ``close``, and what is put there is not written in Python either."""

    closed = True  # or it would be closed when it is collected

    def __init__(self, of: Mutual, ready: Callable[[], object], wait: Callable[[], float | None], said: str) -> None:
        self.of, self.ready, self.wait, self.said = of, ready, wait, said

    def __enter__(self) -> None:  # type: ignore[override]
        of, fd, owned = self.of, -1, self.of.mutex._is_owned  # type: ignore[attr-defined]
        if owned():
            raise UsageError("the log of threads is in use by this very thread, which a signal handler or a callback cut into")
        _room(_LEAVING)
        try:
            if not of.mutex.acquire(False) and not of.mutex.acquire(timeout=-1 if (wait := self.wait()) is None else wait):
                raise GitError(f"{self.said} another thread")
            self.ready()
            fd = of.fd
            if fd >= 0:
                try:
                    flock(fd, LOCK_EX | LOCK_NB)
                except BlockingIOError:
                    if not locked(fd, LOCK_EX, self.wait()):
                        raise GitError(f"{self.said} another process") from None
            of.taken, self.close = self, partial(any, map(_CALL, of.frees))  # type: ignore[method-assign,assignment]
        except BaseException as error:
            if owned():
                if fd >= 0:
                    flock(fd, LOCK_UN)
                of.mutex.release()
            if isinstance(error, OSError):
                raise GitError(f"the log of threads cannot be locked: {error.strerror}") from None
            raise
