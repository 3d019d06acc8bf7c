"""How a process has the write-ahead log open: its files, its locks, and what a fork does to them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager

from gitbaton.errors import GitError, UsageError
from gitbaton.threads.waldisk import Tail, close_all
from gitbaton.threads.walfile import failed
from gitbaton.threads.walstate import Place, Records, State, join, locked, look

LOCK_WAIT = 60.0
"""Seconds for which the lock of the log is waited for."""
_GONE = [0, -1]
_alive: weakref.WeakSet[Opened] = weakref.WeakSet()


class Opened:
    """What Wal stands on."""

    def __init__(self, folder: str, *, sync: bool = True) -> None:
        self.folder, self._strict = os.path.abspath(folder), sync
        self.opened, self.readonly = 0, False
        self._shift = 0  # what is added to segments' numbers: they go up, also where a log is another one than before
        self._lock_fd = self._flush_fd = -1
        self._reset()
        self._open()
        _alive.add(self)

    def _reset(self) -> None:
        """Begin as one who has seen nothing."""
        self._mutex, self._flushes, self._opening = threading.Lock(), threading.Lock(), threading.Lock()
        self._words: memoryview | list[int] | _Watch = _GONE
        self._state: State | None = None
        self._dead: Records = []  # what is in a log that nobody has open, and that we may not write to
        self._held = self._ending = self._closed = False
        self._seen = self._dead_at = 0
        self._place: Place = (0, 0, 0, 0, 0, 0, 0)
        self._read_to = (0, 0, 0)  # segment, place, checksum
        self._tail = Tail(self._strict)

    def _open(self) -> None:
        self._shift += self._place[2]
        self._place, self._read_to, self._seen = (0, 0, 0, 0, 0, 0, 0), (0, 0, 0), 0
        try:
            try:
                state, self.readonly = join(self.folder, sync=self._strict), False
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                self._look()
            else:
                self._attach(state)
        except OSError as error:
            self._let_go()
            raise failed(error, "opened") from None
        self.opened += 1

    def _attach(self, state: State) -> None:
        self._state, flags = state, os.O_RDONLY if self.readonly else os.O_RDWR
        self._lock_fd, self._flush_fd = (
            os.open(os.path.join(self.folder, name), flags | os.O_CLOEXEC) for name in ("lock", "flush")
        )
        if self._strict and not self.readonly:
            state.be_strict()
        self._words = state.words

    def _look(self) -> None:
        """Open the log as one who may not write there."""
        self.readonly, watch = True, _Watch(self.folder)
        stamp, there = watch[1], look(self.folder)
        if isinstance(there, State):
            self._attach(there)
        else:
            active, self._dead = there
            self._words, self._dead_at, self._seen = watch, stamp, stamp - 1  # not yet read
            self._place = (0, 1, active, 0, 0, len(self._dead), sum(len(item) for _, item in self._dead))

    def lock(self) -> AbstractContextManager[None]:
        """The lock for read, append, rotate, drop and bump: one thread of one process has it. Raises GitError after LOCK_WAIT
        seconds, UsageError once the log is closed."""
        return _Locked(self)

    @contextlib.contextmanager
    def flushing(self, wait: float | None = None) -> Iterator[None]:
        """The lock of who flushes: one thread of one process has it. Raises GitError when it cannot be had in ``wait`` seconds
        (None: as long as it takes), or when the log is read-only."""
        mutex = self._flushes
        if not mutex.acquire(timeout=-1 if wait is None else wait):
            raise GitError("the threads are being written to git by another thread")
        try:
            if self._state is None:
                self._again()
            if self.readonly:
                raise unwritable()
            fd, opened = self._flush_fd, self.opened
            if not locked(fd, fcntl.LOCK_EX, wait):
                raise GitError("the threads are being written to git by another process")
            try:
                yield
            finally:
                if (self.opened, self._flush_fd) == (opened, fd):  # not in a child that was forked in here
                    fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            mutex.release()

    def _again(self) -> None:
        """Open the log in a child, or look whether one that may only be read has changed."""
        with self._opening:
            if self._closed:
                raise UsageError("the log of threads is closed")
            if self._state is None and self._words[1] != self._dead_at:
                self._open()

    def _let_go(self) -> None:
        """Close every file, by numbers that are forgotten first: a child that is forked in between must not close others."""
        fds, state = [self._lock_fd, self._flush_fd], self._state
        self._lock_fd = self._flush_fd = -1
        self._state, self._words, self._dead = None, _GONE, []
        self._tail.let_go()
        close_all([*fds, state.fd if state else -1])

    def __del__(self) -> None:
        if hasattr(self, "_tail"):
            self._let_go()

    def __copy__(self) -> Opened:
        return self

    def __deepcopy__(self, memo: object) -> Opened:
        return self


class _Locked:
    """The lock of a log, for a while."""

    __slots__ = ("wal",)

    def __init__(self, wal: Opened) -> None:
        self.wal = wal

    def __enter__(self) -> None:
        wal = self.wal
        if not wal._mutex.acquire(timeout=LOCK_WAIT):
            raise GitError("the log of threads is locked by another thread")
        try:
            if wal._state is None:
                wal._again()
            if wal._lock_fd >= 0:
                try:
                    fcntl.flock(wal._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if not locked(wal._lock_fd, fcntl.LOCK_EX, LOCK_WAIT):
                        raise GitError("the log of threads is locked by another process") from None
            wal._held = True
        except BaseException:
            wal._mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        wal = self.wal
        if wal._held:  # not in a child that was forked in here
            wal._held = False
            if wal._lock_fd >= 0:
                fcntl.flock(wal._lock_fd, fcntl.LOCK_UN)
            wal._mutex.release()


class _Watch:
    """In place of the page where nobody has the log open: word 1 is another number whenever the folder changed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __getitem__(self, _: int) -> int:
        try:
            found = os.stat(self.folder)
        except OSError:
            return 0
        return found.st_mtime_ns ^ found.st_ino


def unwritable() -> GitError:
    """The error for who may only read."""
    return GitError("the log of threads cannot be written: no permission to write in the repository")


def _forked() -> None:
    """In a child: what the parent has open is the parent's."""
    for wal in list(_alive):
        closed = wal._closed
        wal._let_go()
        wal._reset()
        wal._closed = closed


os.register_at_fork(after_in_child=_forked)
