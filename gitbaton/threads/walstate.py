"""Shared state of the write-ahead log: attached processes, their page of memory, recovery by the first one that opens it."""

from __future__ import annotations

import contextlib
import fcntl
import io
import mmap
import os
import struct
import time
from collections.abc import Callable

from gitbaton.errors import GitError
from gitbaton.system.files import sync_paths
from gitbaton.threads.walfile import (
    KINDS,
    START,
    Share,
    damaged,
    failed,
    fdatasync,
    opened,
    path_of,
    scan,
    unshared,
)

_PAGE = 4096
_MAGIC = int.from_bytes(b"gbstate1", "little")
_SLOT = struct.Struct("@7Q")
_PACK, _UNPACK = _SLOT.pack_into, _SLOT.unpack_from
_WAIT = 60.0

Place = tuple[int, int, int, int, int, int, int]
"""Epoch, oldest segment, active segment, where its records end (0: it has none), the last one's checksum, and how many
records and bytes were appended since it was last rotated."""
Records = list[tuple[int, bytes]]
"""Segment and payload of each."""


class State:
    """The page: word 1 counts changes and says which of two slots holds; so a change is there whole or not at all, whoever
    is killed. It is believed only while somebody has a shared lock of the file. Raises OSError, ValueError."""

    __slots__ = ("fd", "page", "words")

    def __init__(self, path: str, *, writable: bool = True) -> None:
        self.fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            if os.fstat(self.fd).st_size < _PAGE:
                raise ValueError(path)
            self.page = mmap.mmap(self.fd, _PAGE, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
            self.words = memoryview(self.page).cast("Q")
            if self.words[0] != _MAGIC:
                raise ValueError(path)
        except BaseException:
            os.close(self.fd)
            raise

    def get(self) -> tuple[int, Place]:
        """How many changes there were, and what holds since the last. Under the lock of the log."""
        count = self.words[1]
        return count, _UNPACK(self.page, 128 if count & 1 else 64)

    def put(self, count: int, place: Place) -> None:
        """Make change number ``count``. Under the lock of the log."""
        _PACK(self.page, 128 if count & 1 else 64, *place)
        self.words[1] = count

    @property
    def strict(self) -> bool:
        """Whether anybody waits for the disk."""
        return bool(self.words[2])

    def be_strict(self) -> None:
        """Say that somebody waits for the disk."""
        self.words[2] = 1


def _new_state(folder: str, place: Place, share: Share) -> State:
    """Begin a page; who still has an older one mapped keeps that."""
    raw = bytearray(_PAGE)
    struct.pack_into("@QQ", raw, 0, _MAGIC, 2)
    _PACK(raw, 64, *place)
    for name in ("lock", "flush"):
        path = os.path.join(folder, name)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        share(path)
    path = os.path.join(folder, "state")
    fd = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        share(fd)
        if os.write(fd, raw) != _PAGE:
            raise OSError(28, os.strerror(28))
    finally:
        os.close(fd)
    os.rename(f"{path}.new", path)
    return State(path)


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


def _gate(folder: str, flags: int, share: Share = unshared) -> io.FileIO:
    """One process at a time opens or closes the log: until the file that this gives is closed, which ``with`` does whatever a
    signal handler raises. Raises FileNotFoundError when there is no log, and none is to be made."""
    path, end = os.path.join(folder, "users"), time.monotonic() + _WAIT
    while True:
        try:
            file = io.FileIO(os.open(path, flags & ~os.O_CREAT | os.O_CLOEXEC))
        except FileNotFoundError:  # there is no log, or the last one has just removed the folder
            if not flags & os.O_CREAT:
                raise
            _begin(folder, path, share)
            continue
        try:
            if not locked(file.fileno(), fcntl.LOCK_EX, end - time.monotonic()):
                raise GitError(f"the log of threads in '{folder}' is being opened or closed by another process")
            if _same(file.fileno(), path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _begin(folder: str, path: str, share: Share) -> None:
    """Make the folder and the file that says who opens it."""
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
        share(os.path.dirname(folder))
        share(folder)
    with contextlib.suppress(FileNotFoundError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
        share(path)


def _same(fd: int, path: str) -> bool:
    """Whether a path still is the file that was opened."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def join(folder: str, *, sync: bool, share: Share) -> State:
    """Become one who has the log open. Who is alone recovers it first. Raises OSError, GitError."""
    with _gate(folder, os.O_RDWR | os.O_CREAT, share):
        state = _shared_state(folder)
        if state is None:
            place = recover(folder, sync=sync)
            state = _new_state(folder, place, share)
            if sync or place[5]:  # records are of somebody who has ended, and may have waited for the disk
                state.be_strict()
        try:
            fcntl.flock(state.fd, fcntl.LOCK_SH)
        except BaseException:
            os.close(state.fd)
            raise
        return state


def _shared_state(folder: str) -> State | None:
    """The page, when somebody has the log open."""
    try:
        state = State(os.path.join(folder, "state"))
    except (FileNotFoundError, ValueError):
        return None
    try:
        if not locked(state.fd, fcntl.LOCK_EX, 0):
            return state
    except BaseException:
        os.close(state.fd)
        raise
    os.close(state.fd)
    return None


def look(folder: str) -> State | tuple[int, Records]:
    """The log for one who may not write there: its page, or when nobody else has it open the active segment that would be and
    the records in it. Raises OSError, GitError."""
    try:
        with _gate(folder, os.O_RDONLY):
            with contextlib.suppress(FileNotFoundError, ValueError):
                state = State(os.path.join(folder, "state"), writable=False)
                if not locked(state.fd, fcntl.LOCK_EX, 0):
                    fcntl.flock(state.fd, fcntl.LOCK_SH)
                    return state
                os.close(state.fd)
            found = _segments(folder)
            return max(found, default=0) + 1, [(n, item) for n in sorted(found) for item in _read(found[n])[0]]
    except FileNotFoundError:
        return 1, []


def leave(state: State, folder: str, last: Callable[[], bool]) -> None:
    """Be no longer one who has the log open. Who is the last calls ``last``, and removes all files if that says so. Raises
    GitError."""
    try:
        with _gate(folder, os.O_RDWR):
            if locked(state.fd, fcntl.LOCK_EX, 0) and last():
                names = [n for n in os.listdir(folder) if n.startswith((*KINDS, "state")) or n in ("lock", "flush")]
                for name in [*names, "users"]:
                    os.unlink(os.path.join(folder, name))
                with contextlib.suppress(OSError):  # the next one may already be in it
                    os.rmdir(folder)
    except FileNotFoundError:  # somebody removed the repository
        pass
    except OSError as error:
        raise failed(error, "closed") from None
    finally:
        try:  # the mapped page keeps the file open, and so the lock, while anything refers to it
            fcntl.flock(state.fd, fcntl.LOCK_UN)
        except OSError:
            pass


def recover(folder: str, *, sync: bool) -> Place:
    """Make the files ready for one who has the log alone: what is in it."""
    found = _segments(folder)
    for entry in list(os.scandir(folder)):
        if entry.name.startswith(KINDS) and entry.path not in found.values():
            os.unlink(entry.path)
    if max(found, default=0) - min(found, default=0) > 1 << 15:
        raise damaged(folder, f"segments {min(found)} and {max(found)} are of one log")
    records = total = 0
    for path in found.values():
        count, size = _count(path, sync=sync)
        records, total = records + count, total + size
    moved = {path_of(folder, n): path for n, path in found.items() if path != path_of(folder, n)}
    for right, path in moved.items():  # after a power cut a file may have the name of an older segment
        os.rename(path, f"{right}.was")
    for right in moved:
        os.rename(f"{right}.was", right)
    if sync:
        sync_paths([folder])
    return 1, min(found, default=1), max(found, default=0) + 1, 0, 0, records, total


def _segments(folder: str) -> dict[int, str]:
    """The files that hold segments: a file's header says which, its name may be that of an older one."""
    found: dict[int, str] = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name, reverse=True):
        if entry.name.startswith(KINDS):
            fd = os.open(entry.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                head = opened(fd)
            finally:
                os.close(fd)
            if head is not None:
                found.setdefault(head[0], entry.path)
    return found


def _read(path: str) -> tuple[list[bytes], int, int, bool]:
    """As ``scan``, of a whole segment."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = opened(fd)
        return scan(fd, START, head[1], os.fstat(fd).st_size) if head else ([], 0, 0, True)
    finally:
        os.close(fd)


def _count(path: str, *, sync: bool) -> tuple[int, int]:
    """How many records a segment has, and their bytes; they are on disk before anything follows them."""
    records, pos, _, _ = _read(path)
    if sync:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fdatasync(fd)
        finally:
            os.close(fd)
    return len(records), pos - START
