"""Who has the write-ahead log open, the page of memory that they share, and what is done when nobody had."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Callable

from gitbaton.errors import GitError
from gitbaton.threads.walfile import HEAD, START, failed, fdatasync, opened, path_of, scan, seal

_PAGE = 4096
_MAGIC = int.from_bytes(b"gbstate1", "little")
_SLOT = struct.Struct("@7Q")
_PACK, _UNPACK = _SLOT.pack_into, _SLOT.unpack_from
_WAIT = 60.0
_OURS = ("seg-", "free-", "new-")

Place = tuple[int, int, int, int, int, int, int]
"""Epoch, oldest segment, active segment, where its records end (0: it has none), the last one's checksum, and how many
records and bytes were appended since it was last rotated."""


class State:
    """The page: word 1 counts changes and says which of two slots holds; so a change is there whole or not at all, whoever
    is killed. It is never believed when nobody had the log open."""

    def __init__(self, path: str, *, writable: bool = True) -> None:
        fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_size < _PAGE:
                raise ValueError(path)
            self.page = mmap.mmap(fd, _PAGE, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
        finally:
            os.close(fd)
        self.words = memoryview(self.page).cast("Q")
        if self.words[0] != _MAGIC:
            raise ValueError(path)

    def get(self) -> tuple[int, Place]:
        """How many changes there were, and what holds since the last. Under the lock."""
        count = self.words[1]
        return count, _UNPACK(self.page, 128 if count & 1 else 64)

    def put(self, count: int, place: Place) -> None:
        """Change ``count``. Under the lock."""
        _PACK(self.page, 128 if count & 1 else 64, *place)
        self.words[1] = count

    @property
    def strict(self) -> bool:
        """Whether anybody waits for the disk."""
        return bool(self.words[2])

    def be_strict(self) -> None:
        """Say that somebody waits for the disk."""
        self.words[2] = 1


def new_state(path: str, place: Place) -> None:
    """Begin a page; who still has an older one mapped keeps that."""
    raw = bytearray(_PAGE)
    struct.pack_into("@QQ", raw, 0, _MAGIC, 2)
    _PACK(raw, 64, *place)
    fresh = f"{path}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        if os.write(fd, raw) != _PAGE:
            raise OSError(28, os.strerror(28))
    finally:
        os.close(fd)
    os.rename(fresh, path)


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


def join(folder: str, *, sync: bool) -> tuple[int, State]:
    """Become one who has the log open: the descriptor that says so, and the page. Who is alone recovers the log first.
    Raises OSError, GitError."""
    path, end = os.path.join(folder, "users"), time.monotonic() + _WAIT
    while time.monotonic() < end:
        os.makedirs(folder, exist_ok=True)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # the last one has just removed the folder
            continue
        try:
            if locked(fd, fcntl.LOCK_EX, 0) and _same(fd, path):
                recover(folder, sync=sync)
            state = _attached(fd, path, folder)
            if state is not None:
                fd, kept = -1, fd
                return kept, state
        finally:
            if fd >= 0:
                os.close(fd)
        time.sleep(0.001)
    raise GitError(f"the log of threads in '{folder}' is being opened or closed by another process all the time")


def _attached(fd: int, path: str, folder: str) -> State | None:
    """The page, once nobody can remove it any more; None when it must be tried again."""
    if not locked(fd, fcntl.LOCK_SH, _WAIT) or not _same(fd, path):  # from exclusive to shared there is a gap
        return None
    try:
        return State(os.path.join(folder, "state"))
    except (FileNotFoundError, ValueError):
        return None


def _same(fd: int, path: str) -> bool:
    """Whether a path still is the file that was opened."""
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return False
    here = os.fstat(fd)
    return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def recover(folder: str, *, sync: bool) -> None:
    """Begin a page for what is in the files. Only for who has the log alone."""
    found: dict[int, str] = {}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.startswith("new-"):
            os.unlink(path)
        elif name.startswith(_OURS):
            number = _number(path)
            if number is not None and number not in found:
                found[number] = path
            else:
                os.unlink(path)
    records = total = 0
    for number in sorted(found):
        count, size = _close_segment(found[number], sync=sync)
        records, total = records + count, total + size
        _name(folder, found, number)
    oldest = min(found, default=1)
    new_state(os.path.join(folder, "state"), (1, oldest, max(found, default=0) + 1, 0, 0, records, total))


def _number(path: str) -> int | None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = opened(fd)
    finally:
        os.close(fd)
    return head[0] if head else None


def _name(folder: str, found: dict[int, str], number: int) -> None:
    """Give a segment the name that it should have: after a power cut it may have an older one."""
    right = path_of(folder, number)
    if found[number] == right:
        return
    other = next((n for n, path in found.items() if path == right), None)
    if other is not None:
        found[other] = f"{right}.was"
        os.rename(right, found[other])
    os.rename(found[number], right)
    found[number] = right


def _close_segment(path: str, *, sync: bool) -> tuple[int, int]:
    """Seal a segment after its last whole record; how many there are, and their bytes."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        head, size = opened(fd), os.fstat(fd).st_size
        assert head is not None
        records, pos, chain, sealed = scan(fd, START, head[1], size)
        if not sealed and pos + HEAD <= size:
            os.pwrite(fd, seal(chain), pos)
        if sync:
            fdatasync(fd)
        return len(records), pos - START
    finally:
        os.close(fd)


def leave(fd: int, folder: str, last: Callable[[], bool]) -> None:
    """Be no longer one who has the log open. Who is the last calls ``last``, and removes all files if that says so."""
    try:
        if locked(fd, fcntl.LOCK_EX, 0) and _same(fd, os.path.join(folder, "users")) and last():
            names = [
                name for name in os.listdir(folder) if name.startswith(_OURS) or name in ("lock", "flush", "state", "state.new")
            ]
            for name in [*names, "users"]:
                os.unlink(os.path.join(folder, name))
            with contextlib.suppress(OSError):  # the next one may already be in it
                os.rmdir(folder)
    except OSError as error:
        raise failed(error, "removed") from None
    finally:
        os.close(fd)
