"""How a process has the write-ahead log open: its files, its locks, and what a fork does to them."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import weakref

from gitbaton.errors import GitError, UsageError
from gitbaton.system.files import sync_paths
from gitbaton.threads.waldisk import Tail, close_all
from gitbaton.threads.walfile import Share, failed, unshared
from gitbaton.threads.wallock import Lock, Mutual
from gitbaton.threads.walstate import Place, Records, State, join, locked, look

LOCK_WAIT = 60.0
"""Seconds for which the lock of the log is waited for."""
_GONE = [0, -1]
_alive: weakref.WeakSet[Opened] = weakref.WeakSet()


class Opened:
    """What Wal stands on."""

    def __init__(self, folder: str, *, sync: bool = True, share: Share = unshared) -> None:
        self.folder, self._strict = os.path.abspath(folder), sync
        self.opened, self.readonly = 0, False
        self._shift = 0  # what is added to segments' numbers: they go up, also where a log is another one than before
        self.share = share
        self._appends, self._flushes = Mutual(), Mutual()
        self._reset()
        self._open()
        _alive.add(self)

    def _reset(self) -> None:
        """Begin as one who has seen nothing."""
        self._lock = Lock(self, self._appends, Opened._ready, lambda: LOCK_WAIT, "the log of threads is locked by")
        self._opening = threading.Lock()
        self._words: memoryview | list[int] | _Watch = _GONE
        self._state: State | None = None
        self._dead: Records = []  # what is in a log that nobody has open, and that we may not write to
        self._ending = self._closed = False
        self._seen = self._dead_at = 0
        self._place: Place = (0, 0, 0, 0, 0, 0, 0)
        self._read_to = (0, 0, 0)  # segment, place, checksum
        self._tail = Tail(self._strict, self.share)

    def _open(self) -> None:
        self._shift += self._place[2]
        self._place, self._read_to, self._seen = (0, 0, 0, 0, 0, 0, 0), (0, 0, 0), 0
        try:
            try:
                state, self.readonly = join(self.folder, sync=self._strict, share=self.share), False
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                    raise
                self._look()
            else:
                self._attach(state)
        except BaseException as error:
            self._let_go()
            if isinstance(error, OSError):
                raise failed(error, "opened") from None
            raise
        self.opened += 1

    def _attach(self, state: State) -> None:
        self._state, flags = state, os.O_RDONLY if self.readonly else os.O_RDWR
        for lock, name in ((self._appends, "lock"), (self._flushes, "flush")):
            lock.use(os.open(os.path.join(self.folder, name), flags | os.O_CLOEXEC))
        if self._strict and not self.readonly and not state.strict:
            self._be_strict(state)
        self._words = state.words

    def _be_strict(self, state: State) -> None:
        """Wait for the disk where nobody has until now: for the names of files, too, and nobody makes one meanwhile."""
        if not locked(self._appends.fd, fcntl.LOCK_EX, LOCK_WAIT):
            raise GitError("the log of threads is locked by another process")
        try:
            state.be_strict()
            sync_paths([self.folder])
        finally:
            fcntl.flock(self._appends.fd, fcntl.LOCK_UN)

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

    def lock(self) -> Lock:
        """The lock for read, append, rotate, drop and bump: one thread of one process has it. Raises GitError after LOCK_WAIT
        seconds, UsageError once the log is closed, and where this very thread has it."""
        return self._lock

    def flushing(self, wait: float | None = None) -> Lock:
        """The lock of who flushes: one thread of one process has it. Raises GitError when it cannot be had in ``wait`` seconds
        (None: as long as it takes), or when the log is read-only; UsageError where this very thread has it."""
        if self._state is not None and self.readonly:
            raise unwritable()
        return Lock(self, self._flushes, Opened._for_flush, lambda: wait, "the threads are being written to git by")

    def _ready(self) -> None:
        if self._state is None:
            self._again()

    def _for_flush(self) -> None:
        self._ready()
        if self.readonly:
            raise unwritable()

    def _again(self) -> None:
        """Open the log in a child, or look whether one that may only be read has changed."""
        with self._opening:
            if self._closed:
                raise UsageError("the log of threads is closed")
            if self._state is None and self._words[1] != self._dead_at:
                self._open()

    def _let_go(self) -> None:
        """Close every file, by numbers that are forgotten first: a child that is forked in between must not close others."""
        fds, state = [self._appends.fd, self._flushes.fd], self._state
        self._appends.use(-1)
        self._flushes.use(-1)
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
        wal._appends.forked()
        wal._flushes.forked()
        wal._reset()
        wal._closed = closed


os.register_at_fork(after_in_child=_forked)
