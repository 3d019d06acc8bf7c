"""Open log: the files and locks by which a process has the write-ahead log, its waits for the disk, and what a fork does."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import threading
import weakref
from collections.abc import Callable
from fcntl import LOCK_EX, LOCK_NB, LOCK_UN, flock
from functools import partial
from operator import call
from time import perf_counter

from gitbaton.errors import GitError, UsageError
from gitbaton.system.files import sync_paths
from gitbaton.threads import walfile
from gitbaton.threads.walfile import Share, failed, fdatasync, unshared
from gitbaton.threads.walstate import Place, Records, State, join, locked, look

LOCK_WAIT = 60.0
"""Seconds for which the lock of the log is waited for."""
_NEARLY = 0.8  # of the time that the disk takes at its best
_CALL: Callable[[object], object] = call  # type: ignore[assignment]
_LEAVING = 20  # calls, one in the other, that letting go may need
_GONE = [0, -1]
_alive: weakref.WeakSet[Opened] = weakref.WeakSet()


class Tail:
    """The active segment as one process has it open: ``number`` is -1 and ``room`` 0 before there is one. ``appended`` counts
    our records, ``synced`` those that are on disk. ``back`` is when, by ``time.perf_counter``, the disk is nearly done with
    what is waited for, 0 when nobody waits. ``broken`` says why nothing can be appended any more: what a disk refused to take
    once it may later pretend to have."""

    __slots__ = (
        *("_guard", "_looked", "_maker", "_retired", "_usual", "appended", "back", "broken", "fd", "number", "room", "share"),
        *("strict", "synced"),
    )

    def __init__(self, strict: bool, share: Share = unshared) -> None:
        self.strict, self.share = strict, share
        self.fd = self.number = -1
        self.room = self.appended = self.synced = 0
        self.broken = ""
        self.back, self._usual = 0.0, 0.0
        self._guard = threading.RLock()  # a signal handler may put, too
        self._retired: list[int] = []
        self._looked = False
        self._maker: threading.Thread | None = None

    def use(self, fd: int, number: int) -> None:
        """Append to another segment from now on. What was before it is on disk: who sealed it saw to that."""
        room, before = os.fstat(fd).st_size, self.fd
        self.synced = self.appended
        # Before the other one is retired: it must not be closed while it is in use, whatever cuts in.
        self.fd, self.number, self.room, self._looked = fd, number, room, False
        if before >= 0:
            self._retired.append(before)
        if not self.strict:
            self._close_retired()

    def _close_retired(self) -> None:
        while self._retired:
            close_all([self._retired.pop()])

    def sync(self, token: int) -> None:
        """Return when so many of our records are on disk: one wait serves all who wait. Raises GitError."""
        with self._guard:
            if token <= self.synced:
                return
            if self.broken or self.fd < 0:
                raise GitError(
                    self.broken or "a record of the log of threads was appended before a fork: its own process syncs it"
                )
            upto, fd, began = self.appended, self.fd, perf_counter()
            self.back = began + _NEARLY * self._usual
            try:
                fdatasync(fd)
                spent = perf_counter() - began
                # At its best: of a disk that others use, some waits are a hundred times as long, and say nothing.
                self._usual = min(spent, 1.05 * self._usual) if self._usual else spent
            except OSError as error:
                self.broken = failed(error, "brought to disk").message
                raise GitError(self.broken) from None
            finally:
                self.back = 0.0
            if fd == self.fd:  # else another thread went on in the next segment, and this one is on disk
                self.synced = max(self.synced, upto)
            self._close_retired()

    def prepare(self, folder: str, oldest: int, *, strict: bool) -> None:
        """Make a file for the next segment ready in the background, unless there is one. Under the log's lock. Never raises:
        whoever needs the file makes it if this could not."""
        self._looked = True
        if self._maker is not None and self._maker.is_alive():
            return
        with contextlib.suppress(OSError, RuntimeError):  # no thread begins when the interpreter is about to end
            if not any(room >= self.room for room, _ in walfile.spare(folder, oldest)):
                maker = threading.Thread(target=_make, args=(folder, self.likely, strict, self.share), daemon=True)
                maker.start()
                self._maker = maker

    @property
    def due(self) -> bool:
        """Whether it is time to prepare the next segment."""
        return not self._looked

    @property
    def likely(self) -> int:
        """The bytes that the next segment should have: more where one was filled."""
        return min(max(4 * self.room, walfile.SMALL), walfile.LARGE)

    def rest(self) -> None:
        """Wait for what is done in the background."""
        if self._maker is not None:
            self._maker.join()

    def let_go(self) -> None:
        """Close the files, by numbers that are forgotten first: a child that is forked in between must not close others."""
        fds, self.fd, self.number, self.room = [*self._retired, self.fd], -1, -1, 0
        self._retired = []
        close_all(fds)


def close_all(fds: list[int]) -> None:
    """Close descriptors; those below zero are none."""
    for fd in fds:
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _make(folder: str, size: int, sync: bool, share: Share) -> None:
    """Make a spare file; if it cannot be, who needs one says why."""
    with contextlib.suppress(OSError):
        name = f"{'free' if sync else 'loose'}-{os.urandom(6).hex()}"
        walfile.make(folder, os.path.join(folder, name), size, sync=sync, share=share, named=sync)


def _room(depth: int) -> None:
    """Raise RecursionError, with nothing locked yet, where the stack has no room for so many calls."""
    if depth:
        _room(depth - 1)


class Mutual:
    """What the threads of a process share of one lock: ``fd`` is the file that processes lock, below zero where none is."""

    __slots__ = ("fd", "frees", "mutex", "taken")

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        self.taken: Lock | None = None  # who has it, or had it last
        self.use(-1)

    def use(self, fd: int) -> None:
        """Lock another file from now on."""
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
    """Has a lock of a log while in ``with``. ``ready`` is called, with the log, where there is no file; ``wait`` gives
    seconds, None for as long as it takes; ``said`` is what the error says when another has it for longer. UsageError is raised
    where this very thread has it: then a signal handler came in between.

    What a handler raises comes between any two steps of Python, at the first of an ``__exit__``, too. That of IOBase is none:
    it calls ``close``, and what is put there is not written in Python either."""

    closed = True  # or it would be closed when it is collected

    def __init__(
        self, wal: object, of: Mutual, ready: Callable[..., None], wait: Callable[[], float | None], said: str
    ) -> None:
        self.wal, self.of, self.ready, self.wait, self.said = weakref.ref(wal), of, ready, wait, said

    def __enter__(self) -> None:  # type: ignore[override]
        of, fd, owned = self.of, -1, self.of.mutex._is_owned  # type: ignore[attr-defined]
        if owned():
            raise UsageError("the log of threads is in use by this very thread, which a signal handler or a callback cut into")
        _room(_LEAVING)
        try:
            if not of.mutex.acquire(False) and not of.mutex.acquire(timeout=-1 if (wait := self.wait()) is None else wait):
                raise GitError(f"{self.said} another thread")
            if of.fd < 0:
                if (wal := self.wal()) is None:
                    raise UsageError("the log of threads is closed")
                self.ready(wal)
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
                raise failed(error, "locked") from None
            raise


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
