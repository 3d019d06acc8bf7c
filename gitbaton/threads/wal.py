"""The write-ahead log of a repository's threads: all processes append to it, and each sees what the others did."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from zlib import crc32

from gitbaton.errors import GitError, UsageError
from gitbaton.threads import walfile
from gitbaton.threads.walfile import HEAD, MOST, START, damaged, failed, fdatasync, pack_record
from gitbaton.threads.walstate import Place, State, join, leave, locked

LOCK_WAIT = 60.0
"""Seconds for which the lock of the log is waited for."""
_GONE = [0, -1]
_alive: weakref.WeakSet[Wal] = weakref.WeakSet()


class Wal:
    """The log in a folder, which is made when there is none. ``sync``: whether ``sync`` waits for the disk.

    ``opened`` says how often this object opened the log: it is 1, and goes up when a forked child uses it. From then on
    ``read`` gives everything anew. Raises GitError when the log cannot be opened."""

    def __init__(self, folder: str, *, sync: bool = True) -> None:
        self.folder, self._strict = folder, sync
        self.opened = 0
        self._users = self._lock_fd = self._flush_fd = -1
        self._reset()
        self._open()
        _alive.add(self)

    def _reset(self) -> None:
        """Begin as one who has seen nothing."""
        self._mutex, self._disk, self._flushes = threading.Lock(), threading.Lock(), threading.Lock()
        self._words: memoryview | list[int] = _GONE
        self._state: State | None = None
        self._held = self._closed = False
        self._seen = 0
        self._place: Place = (0, 0, 0, 0, 0, 0, 0)
        self._read_to = (0, 0, 0)  # segment, place, checksum
        self._fd, self._fd_of, self._room = -1, -1, 0
        self._retired: list[int] = []
        self._appended = self._synced = 0
        self._broken = ""
        self._looked = False
        self._maker: threading.Thread | None = None

    def _open(self) -> None:
        try:
            self._users, state = join(self.folder, sync=self._strict)
            self._lock_fd, self._flush_fd = (
                os.open(os.path.join(self.folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                for name in ("lock", "flush")
            )
        except OSError as error:
            self._let_go()
            raise failed(error, "opened") from None
        if self._strict:
            state.be_strict()
        self._state, self._words = state, state.words
        self.opened += 1

    # ---- locks

    def lock(self) -> AbstractContextManager[None]:
        """The lock for read, append, rotate, drop and bump: one thread of one process has it. Raises GitError after LOCK_WAIT
        seconds."""
        return _Locked(self)

    @contextlib.contextmanager
    def flushing(self, wait: float | None = None) -> Iterator[None]:
        """The lock of who flushes: one thread of one process has it. Raises GitError after ``wait`` seconds."""
        if self._state is None:
            self._again()
        mutex = self._flushes
        if not mutex.acquire(timeout=-1 if wait is None else wait):
            raise GitError("the threads are being written to git by another thread")
        try:
            if not locked(self._flush_fd, fcntl.LOCK_EX, wait):
                raise GitError("the threads are being written to git by another process")
            fd, opened = self._flush_fd, self.opened
            try:
                yield
            finally:
                if opened == self.opened and fd == self._flush_fd:
                    fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            mutex.release()

    def _again(self) -> None:
        if self._closed:
            raise UsageError("the log of threads is closed")
        with self._disk:
            if self._state is None:
                self._open()

    # ---- reading

    @property
    def changed(self) -> bool:
        """Whether anybody else appended or dropped since our last read."""
        return self._words[1] != self._seen

    @property
    def epoch(self) -> int:
        """How often segments were dropped, or refs changed otherwise, as of our last read."""
        return self._place[0]

    @property
    def oldest(self) -> int:
        """Records of segments below this one are gone, as of our last read."""
        return self._place[1]

    @property
    def segment(self) -> int:
        """The segment of a record that was just appended."""
        return self._place[2]

    @property
    def pending(self) -> tuple[int, int]:
        """How many records were appended since the log was last rotated, and their bytes, as of our last read."""
        return self._place[5:]

    def read(self) -> list[tuple[int, bytes]]:
        """Segment and payload of what others appended since the last read, in order; the first time of all that is in the log.
        Under the lock. Raises RecordError, GitError."""
        if self._words[1] == self._seen:
            return []
        state = self._own()
        seen, place = state.get()
        _, oldest, active, tail, chain, _, _ = place
        number, pos, last = self._read_to
        if number < oldest:
            number, pos, last = oldest, 0, 0
        found: list[tuple[int, bytes]] = []
        try:
            while number < active:
                found += [(number, payload) for payload in self._segment(number, pos, last, None)[0]]
                number, pos, last = number + 1, 0, 0
            if tail > pos:
                payloads, pos, last = self._segment(number, pos, last, tail)
                found += [(number, payload) for payload in payloads]
        except OSError as error:
            raise failed(error, "read") from None
        if (number, pos, last) != (active, tail, chain):
            raise damaged(self.folder, f"segment {active} does not end where it should")
        self._read_to, self._place, self._seen = (active, tail, chain), place, seen
        return found

    def _segment(self, number: int, pos: int, chain: int, end: int | None) -> tuple[list[bytes], int, int]:
        """The records of a segment from a place on."""
        own = number == self._fd_of
        try:
            fd = self._fd if own else os.open(walfile.path_of(self.folder, number), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return [], pos, chain
        try:
            if not pos:
                head = walfile.opened(fd)
                if head is None or head[0] != number:  # dropped by one who was killed before it could say so
                    return [], pos, chain
                pos, chain = START, head[1]
            return walfile.scan(fd, pos, chain, os.fstat(fd).st_size if end is None else end)[:3]
        finally:
            if not own:
                os.close(fd)

    def _own(self) -> State:
        if not self._held or self._state is None:
            raise UsageError("the log of threads is used without its lock")
        return self._state

    # ---- writing

    def append(self, payload: bytes) -> int:
        """Add a record; a token for ``sync``. Under the lock, after ``read``. Raises GitError when there is no room on the
        disk, and then the log is as it was; UsageError for a payload that is empty or longer than 1 GiB."""
        state, size = self._own(), len(payload)
        epoch, oldest, number, pos, chain, records, total = self._place
        try:
            fits = pos and size and number == self._fd_of and pos + size + 2 * HEAD <= self._room
            if not fits or self._broken or self._words[1] != self._seen:
                block, number, pos, chain = self._begin(size)
            else:
                block = b""
            crc = crc32(payload, chain ^ size)
            raw = pack_record(size, crc) + payload
            end = pos + HEAD + size
            if block:
                raw, pos = block + raw, 0
            if os.pwrite(self._fd, raw, pos) != len(raw):
                raise OSError(28, os.strerror(28))
        except OSError as error:
            raise failed(error, "written") from None
        place = (epoch, oldest, number, end, crc, records + 1, total + HEAD + size)
        self._appended = token = self._appended + 1
        state.put(self._seen + 1, place)
        self._read_to, self._place, self._seen = (number, end, crc), place, self._seen + 1
        if not self._looked and end > self._room >> 2:
            self._prepare()
        return token

    def _begin(self, size: int) -> tuple[bytes, int, int, int]:
        """Have a segment open that a record of this size fits in: its header if it is new, its number, where the record goes,
        and the checksum before it."""
        if not 0 < size <= MOST:
            raise UsageError(f"a record of {size} bytes does not go into the log of threads")
        if self._broken:
            raise GitError(self._broken)
        if self._words[1] != self._seen:
            raise UsageError("the log of threads is appended to without having been read")
        _, oldest, number, pos, chain, _, _ = self._place
        if pos and number != self._fd_of:
            self._use(os.open(walfile.path_of(self.folder, number), os.O_RDWR | os.O_CLOEXEC), number)
        if pos and pos + size + 2 * HEAD <= self._room:
            return b"", number, pos, chain
        if pos:
            self._seal()
            number += 1
        need, likely = START + size + 2 * HEAD, min(max(walfile.SMALL, 4 * self._room), walfile.LARGE)
        self._use(walfile.take(self.folder, number, oldest, need, likely, sync=self._strict), number)
        salt = int.from_bytes(os.urandom(4), "little")
        return walfile.header(number, salt), number, START, salt

    def _use(self, fd: int, number: int) -> None:
        """Append to another file from now on. What was before it is on disk: who sealed it saw to that."""
        old, room = self._fd, os.fstat(fd).st_size
        if old >= 0:
            self._retired.append(old)
        self._synced = self._appended
        self._fd, self._fd_of, self._room = fd, number, room
        self._looked = False
        if not self._strict:
            self._close_retired()

    def _close_retired(self) -> None:
        while self._retired:
            os.close(self._retired.pop())

    def _seal(self) -> None:
        """End the active segment."""
        state = self._own()
        epoch, oldest, number, pos, chain, records, total = self._place
        if number != self._fd_of:
            self._use(os.open(walfile.path_of(self.folder, number), os.O_RDWR | os.O_CLOEXEC), number)
        if os.pwrite(self._fd, walfile.seal(chain), pos) != HEAD:
            raise OSError(28, os.strerror(28))
        if state.strict and not self._broken:
            fdatasync(self._fd)
        self._put((epoch, oldest, number + 1, 0, 0, records, total))

    def _put(self, place: Place) -> None:
        self._own().put(self._seen + 1, place)
        self._read_to, self._place, self._seen = place[2:5], place, self._seen + 1

    def sync(self, token: int) -> None:
        """Return when a record is on disk, with all before it. Not under the lock. Raises GitError when the disk fails."""
        if token <= self._synced or not self._strict:
            return
        with self._disk:
            if token <= self._synced:
                return
            if self._broken:
                raise GitError(self._broken)
            upto, fd = self._appended, self._fd
            try:
                fdatasync(fd)
            except OSError as error:
                self._broken = failed(error, "brought to disk").message
                raise GitError(self._broken) from None
            if fd == self._fd:
                self._synced = max(self._synced, upto)
            self._close_retired()

    def rotate(self) -> int:
        """Go on in the next segment: all that was appended so far is in segments up to the number that is returned. Under the
        lock, after ``read``. Raises GitError."""
        self._own()
        epoch, oldest, number, pos, _, records, _ = self._place
        try:
            if pos:
                self._seal()
                number += 1
        except OSError as error:
            raise failed(error, "written") from None
        if records:
            self._put((epoch, oldest, number, 0, 0, 0, 0))
        return number - 1

    def drop(self, n: int) -> None:
        """Forget the segments up to ``n``: they are in git. They are never read again, also after a power cut. Under the lock,
        after ``read``. Raises GitError; UsageError for the active segment, which must be rotated first."""
        state = self._own()
        epoch, oldest, number, *rest = self._place
        if n >= number:
            raise UsageError(f"segment {n} of the log of threads is not sealed")
        try:
            walfile.wipe((walfile.path_of(self.folder, one) for one in range(oldest, n + 1)), sync=state.strict)
            oldest = max(oldest, n + 1)
            self._put((epoch + 1, oldest, number, *rest))  # type: ignore[arg-type]
            self._broken = self._broken if self._fd_of >= oldest else ""
            walfile.trim(self.folder, oldest)
        except OSError as error:
            raise failed(error, "dropped") from None

    def bump(self) -> None:
        """Let the epoch go up: refs were changed. Under the lock, after ``read``."""
        epoch, *rest = self._place
        self._put((epoch + 1, *rest))  # type: ignore[arg-type]

    def _prepare(self) -> None:
        """Make a file ready for the next segment, in the background, unless there is one."""
        self._looked = True
        busy = self._maker is not None and self._maker.is_alive()
        if not busy and not any(room >= self._room for room, _ in walfile.spare(self.folder, self.oldest)):
            size = min(max(4 * self._room, walfile.SMALL), walfile.LARGE)
            self._maker = threading.Thread(target=_make, args=(self.folder, size, self._strict), daemon=True)
            self._maker.start()

    # ---- the end

    def close(self, last: Callable[[], None] = lambda: None) -> None:
        """Let go of the log. When nobody else has it open, ``last`` is called, which should write it to git, and its files are
        removed if nothing is left in it. Who waits in ``sync`` is served first."""
        if self._closed or self._state is None:
            self._closed = True
            return
        with contextlib.suppress(GitError):  # what is not on disk then is in git, or is said below
            self.sync(self._appended)
        if self._maker is not None:
            self._maker.join()
        users, self._users = self._users, -1

        def ending() -> bool:
            last()
            with self.lock():
                self.read()
                _, oldest, active, tail, *_ = self._place
                return oldest == active and not tail

        try:
            leave(users, self.folder, ending)
        finally:
            with self._disk:
                self._closed = True
                self._let_go()
        if self._broken:
            raise GitError(self._broken)

    def _let_go(self) -> None:
        """Close every file, by names that are forgotten first: a fork in between must not close another's."""
        fds = [self._users, self._lock_fd, self._flush_fd, self._fd, *self._retired]
        self._users = self._lock_fd = self._flush_fd = self._fd = self._fd_of = -1
        self._retired, self._state, self._words = [], None, _GONE
        for fd in fds:
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)

    def __del__(self) -> None:
        if hasattr(self, "_retired"):
            self._let_go()

    def __copy__(self) -> Wal:
        return self

    def __deepcopy__(self, memo: object) -> Wal:
        return self


class _Locked:
    """The lock of a log, for a while."""

    __slots__ = ("wal",)

    def __init__(self, wal: Wal) -> None:
        self.wal = wal

    def __enter__(self) -> None:
        wal = self.wal
        if not wal._mutex.acquire(timeout=LOCK_WAIT):
            raise GitError("the log of threads is locked by another thread")
        try:
            if wal._state is None:
                wal._again()
            if not locked(wal._lock_fd, fcntl.LOCK_EX, LOCK_WAIT):
                raise GitError("the log of threads is locked by another process")
            wal._held = True
        except BaseException:
            wal._mutex.release()
            raise

    def __exit__(self, *_: object) -> None:
        wal = self.wal
        if wal._held:  # not in a child that was forked in here
            wal._held = False
            fcntl.flock(wal._lock_fd, fcntl.LOCK_UN)
            wal._mutex.release()


def _make(folder: str, size: int, sync: bool) -> None:
    """Make a spare file; if it cannot be, who needs one says why."""
    with contextlib.suppress(OSError):
        walfile.make(folder, os.path.join(folder, f"free-{os.urandom(6).hex()}"), size, sync=sync)
        if sync:
            walfile.sync_folders([folder])


def _forked() -> None:
    """In a child: what the parent has open is the parent's."""
    for wal in list(_alive):
        opened, closed = wal.opened, wal._closed
        wal._let_go()
        wal._reset()
        wal.opened, wal._closed = opened, closed


os.register_at_fork(after_in_child=_forked)
