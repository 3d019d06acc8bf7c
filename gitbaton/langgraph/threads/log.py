"""Write-ahead log of threads: one file of checksummed records for all processes; a put is durable when `sync` returns."""

from __future__ import annotations

import contextlib
import errno
import io
import mmap
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, flock
from functools import partial
from operator import call
from zlib import crc32

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError, UsageError
from gitbaton.base.system.files import open_lasting, open_regular, sync_paths
from gitbaton.langgraph.threads.logfile import (
    BUMP,
    HEAD,
    MOST,
    START,
    damaged,
    failed,
    header,
    old_names,
    old_records,
    opened,
    pack_record,
    refuse_living,
    remove_old,
    scan,
)

LOCK_WAIT = 60.0
"""Seconds for which the lock of the log is waited for."""
SMALL, LARGE = 64 << 10, (4 << 20) + (64 << 10)
"""Bytes that a log begins with, and at most what it grows by and is made anew with; one with a longer record has more."""

_END = bytes(HEAD)  # what follows the newest record
_SEAL = b"\0\0\0\0\xff\xff\xff\xff"  # instead of that: all goes on in the file that now has this one's name
_CHUNK = 256 << 10
_NEARLY = 0.8  # of the time that the disk takes at its best
_FILES = ("users", "lock", "flush")
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
fdatasync = getattr(os, "fdatasync", os.fsync)
_alive: weakref.WeakSet[Log] = weakref.WeakSet()
_CALL: Callable[[object], object] = call  # type: ignore[assignment]
_EXIT_DEPTH = 20  # nested calls that a release may need

Share = Callable[[str | int], None]
"""Gives a file or folder that was just made, by path or descriptor, the mode that the repository asks for."""
Records = list[tuple[int, bytes]]
"""Number and payload of each: numbers go up with time, in all processes and also where the log was removed in between."""


class Log:
    """The log in a folder, which is made when there is none. ``sync``: whether ``sync`` waits for the disk.

    ``epoch`` goes up when records were dropped or refs were changed; records with numbers below ``oldest`` are gone, as of the
    last read; ``segment`` is the number of the record that was just appended. ``ending``: nothing is appended any more.
    ``readonly`` says that we may not write there: what others have in the log can be read. ``back`` is when a thread of this
    process that waits for the disk is likely to go on, as ``time.perf_counter`` counts; 0 when none waits. ``broken`` says why
    nothing can be appended: what a disk refused to take once it may later pretend to have. Raises GitError when the log cannot
    be opened, or an older gitbaton has its own open."""

    def __init__(self, folder: str, *, sync: bool = True, share: Share = lambda made: None) -> None:
        self.folder, self.share, self._strict = os.path.abspath(folder), share, sync
        self.path = os.path.join(self.folder, "log")
        self.readonly = self.ending = False
        self.epoch = self.oldest = self.segment = self._synced = self._read_to = 0
        self.back, self._usual, self.broken = 0.0, 0.0, ""
        self._due = self._first = True  # all that is in the log is yet to be read; and never was
        self._appends = LockState("the log of threads is locked by")
        self._flushes = LockState("the threads are being written to git by")
        self._guard = threading.RLock()
        self._files: dict[str, io.FileIO] = {}
        self._cuts: dict[int, int] = {}  # the checksum at which a number begins
        self._next: tuple[io.FileIO, str, int, int] | None = None  # where it goes on from a number, so many bytes are in it
        # The file, its map, what a place in it lacks to its number, the place where records end, the last one's checksum: in
        # one, so that nothing that cuts in leaves a part of it changed.
        self._at: tuple[io.FileIO | None, mmap.mmap | _Absent, int, int, int] = (None, _Absent(self.path), 0, 0, 0)
        try:
            self._open()
        except BaseException as error:
            self._let_go()
            if isinstance(error, OSError):
                raise failed(error, "opened") from None
            raise
        _alive.add(self)

    @property
    def changed(self) -> bool:
        """Whether another process appended or dropped since our last read."""
        at = self._at
        place = at[3]
        return at[1][place : place + HEAD] != _END or self._due

    def lock(self) -> Lock:
        """Return the lock for read, append, rotate, drop and bump: one thread of one process holds it. To enter raises GitError
        after LOCK_WAIT seconds, UsageError once the log is closed, and where this very thread holds it."""
        return Lock(self._appends, LOCK_WAIT)

    def flushing(self, wait: float | None = None) -> Lock:
        """Return the lock for flushes: one thread of one process holds it. To enter raises GitError after ``wait`` seconds
        (None: it waits for ever), UsageError once the log is closed, and where this very thread holds it. Raises GitError when
        the log is read-only."""
        if self.readonly:
            raise _unwritable()
        return Lock(self._flushes, wait)

    # -- opening and closing -------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._join()
            self._appends.open(self._made("lock").fileno())
            self._flushes.open(self._made("flush").fileno())
        except OSError as error:
            if error.errno not in _FORBIDDEN:
                raise
            self.readonly = True  # no lock is needed: a record is read whole or not at all
            refuse_living(self.folder)
            return
        with self.lock():
            if old_names(self.folder):
                self._take_in()

    def _take_in(self) -> None:
        """Append what an older log has, and remove that: after a kill in between the next process does it again, to the same
        result."""
        refuse_living(self.folder)
        self.read()
        for payload in old_records(self.folder):
            self.append(payload)
        if self._at[0] is not None:
            os.fsync(self._at[0].fileno())
        self.rewind()
        remove_old(self.folder)

    def _join(self) -> None:
        """Take the shared users lock; retry if the file was removed. While it is held the log is not removed, and no older
        gitbaton, which locks that file to open or close its own log, gets in."""
        end = time.monotonic() + LOCK_WAIT
        while True:
            file = self._made("users")
            if not locked(file.fileno(), LOCK_SH, end - time.monotonic()):
                raise GitError(f"the log of threads in {in_quotes(self.folder)} is being opened or closed by another process")
            with contextlib.suppress(FileNotFoundError):  # whoever closed it last has just removed it
                if os.path.samestat(os.fstat(file.fileno()), os.stat(file.name)):
                    return
            file.close()

    def _made(self, name: str) -> io.FileIO:
        path = os.path.join(self.folder, name)
        try:
            there = os.path.exists(path)
            file = self._files[name] = open(path, "ab", buffering=0, opener=lambda at, _: open_lasting(at, append=True))
        except FileNotFoundError:
            os.makedirs(self.folder, exist_ok=True)
            self.share(os.path.dirname(self.folder))
            self.share(self.folder)
            return self._made(name)
        if not there:
            self.share(file.fileno())
        return file

    def __del__(self) -> None:
        if hasattr(self, "_at"):
            self._let_go()

    def close(self, last: Callable[[], object] = lambda: None) -> None:
        """Close the log; nothing is appended from now on, and waiters in ``sync`` are served. When no other process has it
        open, ``last`` is called, which should write it to git, and its files are removed if nothing is left in it. Raises
        GitError, and what ``last`` raises: the files then stay. To close again does nothing."""
        try:
            with self.lock():
                again, self.ending = self.ending, True
        except UsageError:  # it is closed, or this very thread is in the middle of something
            return
        if again:
            return
        failure = None
        try:
            try:
                self.sync(self._at[2] + self._at[3])
            except GitError as error:
                failure = error
            if not self.readonly and locked(self._files["users"].fileno(), LOCK_EX, 0):
                last()
                self._clear()
        except FileNotFoundError:  # somebody removed the repository
            pass
        except OSError as error:
            raise failed(error, "closed") from None
        finally:
            self._leave()
            with self._appends.mutex:
                self._let_go()
        if failure is not None and self.broken:
            raise failure

    def _clear(self) -> None:
        """Remove all files, if no record is left."""
        with self.lock():
            self.rewind()
            if not self.read():
                file, _, _, pos, _ = self._at
                if file is not None:  # one who may only read has it open still
                    os.pwrite(file.fileno(), _SEAL, pos)
                # That one last: who opens the log then begins with locks of its own.
                for name in sorted(os.listdir(self.folder), key="users".__eq__):
                    if name in _FILES or name.startswith("log"):
                        os.unlink(os.path.join(self.folder, name))
                with contextlib.suppress(OSError):  # the next one may already be in it
                    os.rmdir(self.folder)

    def _let_go(self) -> None:
        """Close every file; what a child that is forked closes stays locked for its parent."""
        self._due = True  # a reader then asks for the lock, which says that the log is closed
        at = self._at
        self._appends.close()
        self._flushes.close()
        self._at = (None, _Absent(self.path), at[2] + at[3], 0, 0)
        with self._guard:
            for file in (*self._files.values(), at[0], *(self._next or ())[:1]):
                if file is not None:
                    file.close()
        self._files, self._next = {}, None

    def _forked(self) -> None:
        """Close the log in a forked child: what is open is the parent's, and the child opens its own."""
        for state in (self._appends, self._flushes):
            state.forked()
        self._guard = threading.RLock()
        self._let_go()

    def __copy__(self) -> Log:
        return self

    def __deepcopy__(self, memo: object) -> Log:
        return self

    # -- reading -------------------------------------------------------------------------------------------------------------

    def read(self) -> Records:
        """Return what other processes appended since the last read, in order; the first time all that is in the log. Under the
        lock. Raises RecordError, GitError."""
        if not self.changed:
            return []
        if not self._appends.mine:
            raise UsageError("the log of threads is used without its lock")
        found: Records = []
        try:
            older = old_records(self.folder) if self.readonly and self._due else []
            while self._at[0] is not None or self._follow():
                file, _, base, start, chain = self._at
                assert file is not None
                payloads, pos, chain, sealed = scan(file.fileno(), start, chain)
                for payload in payloads:
                    if payload == BUMP:
                        self.epoch += 1
                    elif base + start >= self._read_to:
                        found.append((base + start, payload))
                    start += HEAD + len(payload)
                view = self._at[1] if len(self._at[1]) >= pos + HEAD else _mapped(file)
                self._at, self._read_to = (file, view, base, pos, chain), max(self._read_to, base + pos)
                if not sealed:
                    if not self.readonly and os.pread(file.fileno(), HEAD, pos) != _END:  # one who was killed began a record
                        os.pwrite(file.fileno(), _END, pos)
                    break
                if not self._follow():
                    break
            if found and self._first and self._strict and not self.readonly:  # of one who was killed before it had them there
                fdatasync(self._at[0].fileno())  # type: ignore[union-attr]
        except OSError as error:
            raise failed(error, "read") from None
        self._due = self._first = False
        # What was read in a file before the last one may have been dropped by then.
        return [(self.oldest, payload) for payload in older] + [item for item in found if item[0] >= self.oldest]

    def rewind(self) -> None:
        """Let the next ``read`` give all that is in the log, our own records, too: for a process that lost what it had read.
        Under the lock."""
        file, view, base, _, _ = self._at
        head = opened(file.fileno()) if file is not None else None
        if head is not None:
            self._at = (file, view, base, START, head[1])
        self._due, self._read_to = True, 0

    def _follow(self) -> bool:
        """Switch to the file that has the log's name now; whether there is another."""
        before, _, base, pos, _ = self._at
        try:
            if self.readonly:
                file = open(self.path, "rb", buffering=0, opener=lambda at, _: open_regular(at))
            else:
                file = open(self.path, "r+b", buffering=0, opener=lambda at, _: open_lasting(at, make=False))
        except FileNotFoundError:
            self._use((None, _Absent(self.path), base + pos, 0, 0), base + pos)
            return False
        head = opened(file.fileno())
        if head is None:
            file.close()
            raise damaged(self.folder, "it does not begin as one does")
        number, salt = head
        if before is not None and os.path.samestat(os.fstat(before.fileno()), os.fstat(file.fileno())):
            file.close()
            if self.readonly:
                return False
            self._replace(number, salt)  # one who was killed had begun to
        else:
            self._use((file, _mapped(file), number - START, START, salt), number)
        return True

    def _use(self, at: tuple[io.FileIO | None, mmap.mmap | _Absent, int, int, int], oldest: int) -> None:
        """Switch to another file, or none; what was in the old one is on disk there, or in git."""
        before, _, base, pos, _ = self._at
        self._at, self.oldest, self.epoch = at, max(self.oldest, oldest), self.epoch + 1
        with self._guard:  # nobody waits for the one that is closed
            self._synced = max(self._synced, base + pos)
            if before is not None:
                before.close()

    # -- writing -------------------------------------------------------------------------------------------------------------

    def append(self, payload: bytes) -> int:
        """Add a record; a token for ``sync``. Under the lock, after ``read``. Raises GitError when it cannot be written, for
        want of room or because the log is read-only, and then the log is as it was; UsageError for a payload that is empty or
        longer than 1 GiB, and once the log is being closed."""
        size = len(payload)
        if self.changed or self.ending or self.broken or self.readonly or not self._appends.mine or not 0 < size <= MOST:
            self._writable()
            if not 0 < size <= MOST:
                raise UsageError(f"a record of {size} bytes does not go into the log of threads")
            if self.ending:
                raise UsageError("the log of threads is closed")
            if self.broken:
                raise GitError(self.broken)
        try:
            if self._at[0] is None or self._at[3] + size + 2 * HEAD > len(self._at[1]):
                self._make_room(size)
            file, view, base, pos, chain = self._at
            crc = crc32(payload, chain ^ size)
            raw = pack_record(size, crc) + payload + _END
            if os.pwrite(file.fileno(), raw, pos) != len(raw):  # type: ignore[union-attr]
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise failed(error, "written") from None
        end = pos + HEAD + size
        self._at, self.segment = (file, view, base, end, crc), base + pos
        self._read_to = base + end
        return base + end

    def _writable(self) -> None:
        if not self._appends.mine:
            raise UsageError("the log of threads is used without its lock")
        if self.readonly:
            raise _unwritable()
        if self.changed:
            raise UsageError("the log of threads is written to without having been read")

    def _make_room(self, size: int) -> None:
        """Make room for one more record; zeros are really written, so that later a record changes nothing but data, and cannot
        find the disk full."""
        file, _, base, pos, chain = self._at
        if file is None:
            number, salt = max(time.time_ns(), base + pos), int.from_bytes(os.urandom(4), "little")
            need = START + size + 2 * HEAD
            file, path = self._fresh(max(need, SMALL), header(number, salt))
            os.rename(path, self.path)
            above = os.path.dirname(self.folder)
            sync_paths((self.folder, above, os.path.dirname(above)))
            self._at = (file, _mapped(file), number - START, START, salt)
            return
        room, need = os.fstat(file.fileno()).st_size, pos + size + 2 * HEAD
        try:
            _fill(file, room, max(need, min(4 * room, room + LARGE)))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
            _fill(file, os.fstat(file.fileno()).st_size, need)
        self._at = (file, _mapped(file), base, pos, chain)

    def _fresh(self, room: int, head: bytes) -> tuple[io.FileIO, str]:
        """Write and fsync a new file that begins so, with zeros after it; return it and its name for now."""
        path = f"{self.path}.{os.getpid()}-{os.urandom(4).hex()}"
        file = open(path, "x+b", buffering=0)
        try:
            self.share(file.fileno())
            _write(file, head, 0)
            _fill(file, len(head), room)
            os.fsync(file.fileno())
        except BaseException:
            file.close()
            os.unlink(path)
            raise
        return file, path

    def sync(self, token: int) -> None:
        """Return when a record is on disk, with all before it; at once where the log was opened without sync. Not under the
        lock. One fsync serves all waiters. Raises GitError when the disk fails: nothing is appended then until what is in the
        log is in git and dropped."""
        if token > self._synced and self._strict:
            with self._guard:
                if token <= self._synced:
                    return
                upto = self._at[2] + self._at[3]  # before the file: another one has all that
                file, began = self._at[0], time.perf_counter()
                if self.broken or file is None:
                    raise GitError(self.broken or "a record of the log of threads was appended before a fork")
                self.back = began + _NEARLY * self._usual
                try:
                    fdatasync(file.fileno())
                    spent = time.perf_counter() - began
                    # At its best: of a disk that others use, some waits are a hundred times as long, and say nothing.
                    self._usual = min(spent, 1.05 * self._usual) if self._usual else spent
                except OSError as error:
                    self.broken = failed(error, "brought to disk").message
                    raise GitError(self.broken) from None
                finally:
                    self.back = 0.0
                self._synced = max(self._synced, upto)

    # -- dropping ------------------------------------------------------------------------------------------------------------

    def rotate(self) -> int:
        """Return the number of the next record: all that was appended so far is below it. Under the lock, after ``read``.
        Raises GitError."""
        self._writable()
        _, _, base, pos, chain = self._at
        self._cuts[base + pos] = chain
        return base + pos

    @contextlib.contextmanager
    def prepared(self, n: int) -> Iterator[None]:
        """Write the next file of the log before the block, with the records from a number on, and close the old file after it:
        puts need not wait for either. For the flusher, without the lock; a file that cannot be made is no error."""
        before = -1
        try:
            with contextlib.suppress(OSError):
                with self.lock():
                    file, _, base, pos, _ = self._at
                    if file is not None and not self.ending and n in self._cuts and n > base + START:
                        before = os.dup(file.fileno())
                if before >= 0:
                    raw = os.pread(before, pos - (n - base), n - base)
                    room = max(min(max(SMALL, pos), LARGE), START + len(raw) + HEAD + SMALL)
                    self._leave()
                    self._next = (*self._fresh(room, header(n, self._cuts[n]) + raw), n, len(raw))
            yield
        finally:
            if before >= 0:
                os.close(before)  # the last to have it open frees its blocks

    def _leave(self) -> None:
        """Remove the prepared next file."""
        there, self._next = self._next, None
        if there is not None:
            there[0].close()
            with contextlib.suppress(OSError):
                os.unlink(there[1])

    def drop(self, n: int) -> None:
        """Drop the records below a number that ``rotate`` gave: they are in git. They are never read again, also after a power
        cut. The epoch goes up. Under the lock, after ``read``, for the flusher. Raises GitError; UsageError for another
        number."""
        self._writable()
        if n not in self._cuts:
            raise UsageError(f"number {n} is not one at which the log of threads was rotated")
        chain, self._cuts = self._cuts[n], {}
        file, _, base, pos, _ = self._at
        try:
            if file is None or n <= base + START:
                return
            if self.ending and n == base + pos:
                os.pwrite(file.fileno(), _SEAL, pos)
                os.unlink(self.path)
                sync_paths([self.folder])
                self._use((None, _Absent(self.path), n, 0, 0), n)
            else:
                self._replace(n, chain)
            self.broken = ""
        except OSError as error:
            raise failed(error, "written") from None

    def _replace(self, number: int, chain: int) -> None:
        """Switch to another file with the records from a number on; it is fsynced before it gets the log's name, and so is the
        name."""
        file, _, base, pos, last = self._at
        assert file is not None
        size = pos - (number - base)
        if self._next is None or self._next[2] != number:
            self._leave()
            self._next = (*self._fresh(max(SMALL, START + size + HEAD), header(number, chain)), number, 0)
        fresh, path, _, done = self._next
        room, need = os.fstat(fresh.fileno()).st_size, START + size + HEAD
        if room < need:
            _fill(fresh, room, need)
        raw = os.pread(file.fileno(), size - done, number - base + done)
        _write(fresh, raw, START + done)
        os.fsync(fresh.fileno())
        # First this: who is killed in between leaves a log that whoever comes next replaces, and no other that goes on in it.
        os.pwrite(file.fileno(), _SEAL, pos)
        os.rename(path, self.path)
        self._next = None
        sync_paths([self.folder])
        self._use((fresh, _mapped(fresh), number - START, START + size, last), number)

    def bump(self) -> None:
        """Raise the epoch: refs were changed. Under the lock, after ``read``. Raises GitError."""
        self.append(BUMP)
        self.epoch += 1


class _Absent:
    """Stand-in for the map where there is no log: it has changed when there is one."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __getitem__(self, _: slice) -> bytes:
        return b"" if os.path.exists(self.path) else _END

    def __len__(self) -> int:
        return 0


def _mapped(file: io.FileIO) -> mmap.mmap:
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _write(file: io.FileIO, raw: bytes, at: int) -> None:
    if os.pwrite(file.fileno(), raw, at) != len(raw):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _fill(file: io.FileIO, start: int, end: int) -> None:
    """Write zeros to a file."""
    at, end, zeros = start, -(-end // 4096) * 4096, bytes(_CHUNK)
    while at < end:
        at += os.pwrite(file.fileno(), zeros[: end - at], at)


def locked(fd: int, how: int, wait: float | None) -> bool:
    """Take a flock, waiting at most so many seconds (None: as long as it takes)."""
    end, pause = (None if wait is None else time.monotonic() + wait), 0.00005
    while True:
        try:
            flock(fd, how | LOCK_NB)
            return True
        except BlockingIOError:
            if end is not None and time.monotonic() >= end:
                return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.002)


def _require_stack(depth: int) -> None:
    """Raise RecursionError, with nothing locked yet, where the stack has no room for so many calls."""
    if depth:
        _require_stack(depth - 1)


class LockState:
    """State of one lock of a log, shared by the threads of this process: a mutex, and an open file that processes lock by
    flock. ``busy`` begins the error of a lock that another one holds for too long."""

    __slots__ = ("busy", "closed", "fd", "holder", "mutex", "release")

    def __init__(self, busy: str) -> None:
        self.busy, self.mutex, self.closed = busy, threading.RLock(), False
        self.holder: Lock | None = None  # the lock that holds it, or held it last
        self._set(-1, self.mutex.release)

    def _set(self, fd: int, *release: Callable[[], object]) -> None:
        self.fd, self.release = fd, release

    def open(self, fd: int) -> None:
        """Lock this file, too, from now on."""
        self._set(fd, partial(flock, fd, LOCK_UN), self.mutex.release)

    def close(self) -> None:
        """Lock no file any more, and refuse the lock from now on."""
        self.closed = True
        self._set(-1, self.mutex.release)

    @property
    def mine(self) -> bool:
        """Whether this very thread holds the lock."""
        return self.mutex._is_owned()  # type: ignore[attr-defined,no-any-return]

    def forked(self) -> None:
        """In a child: free the lock; a ``with`` of the parent's that ends here leaves the parent's lock alone."""
        if self.holder is not None:
            self.holder.close = int  # type: ignore[method-assign,assignment]
        self.__init__(self.busy)  # type: ignore[misc]


class Lock(io.IOBase):
    """Lock of a log, held while in ``with``. To enter raises UsageError where this very thread holds it, since a signal handler
    cut in, or the log is closed; GitError after ``wait`` seconds (None: it waits for ever).

    A signal handler may raise between any two steps of Python code, and the first step of an ``__exit__`` is one. That of
    IOBase is C and calls ``close``; what stands there is C, too, so nothing leaves the lock half released."""

    closed = True  # else it would be closed when it is collected

    def __init__(self, state: LockState, wait: float | None) -> None:
        self.state, self.wait = state, wait

    def __enter__(self) -> None:  # type: ignore[override]
        state, locked_fd, owned = self.state, -1, self.state.mutex._is_owned  # type: ignore[attr-defined]
        if owned():
            raise UsageError("the log of threads is in use by this very thread, which a signal handler or a callback cut into")
        _require_stack(_EXIT_DEPTH)
        try:
            if not state.mutex.acquire(timeout=-1 if self.wait is None else self.wait):
                raise GitError(f"{state.busy} another thread")
            if state.closed:
                raise UsageError("the log of threads is closed")
            if state.fd >= 0:
                locked_fd = state.fd  # before it is locked: an exception may come right after
                if not locked(state.fd, LOCK_EX, self.wait):
                    raise GitError(f"{state.busy} another process")
            state.holder, self.close = self, partial(any, map(_CALL, state.release))  # type: ignore[method-assign,assignment]
        except BaseException as error:
            if owned():
                if locked_fd >= 0:
                    flock(locked_fd, LOCK_UN)
                state.mutex.release()
            if isinstance(error, OSError):
                raise GitError(f"the log of threads cannot be locked: {error.strerror}") from None
            raise


def _unwritable() -> GitError:
    return GitError("the log of threads cannot be written: no permission to write in the repository")


def _forked() -> None:
    for log in list(_alive):
        log._forked()


os.register_at_fork(after_in_child=_forked)
