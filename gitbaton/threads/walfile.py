"""The files of the write-ahead log: segments of records that are chained by checksums, so that stale bytes are never read."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterable
from zlib import crc32

from gitbaton.errors import GitError, RecordError
from gitbaton.system.files import sync_paths

START = 32
"""Where the first record of a segment begins, in bytes."""
HEAD = 8
"""What a record takes beside its payload, in bytes; the seal of a segment takes as much."""
SMALL, LARGE = 256 << 10, (4 << 20) + (64 << 10)
"""The least and the most that is made ready for a segment; one for a longer record is as long as that needs."""
MOST = 1 << 30
"""The longest payload."""
KINDS = ("seg-", "free-", "loose-", "new-")
"""How names of files begin that may hold a segment: one of the log; what is ready to be one, and is on disk; the same where
nobody waited for the disk; and what is being made."""
Share = Callable[[str | int], None]
"""Gives a file or folder that was just made, by path or descriptor, the mode that the repository asks for."""
fdatasync = getattr(os, "fdatasync", os.fsync)

_MAGIC = b"gbwal 1\n"
_HEADER = struct.Struct("<8sQII")  # magic, number, salt, crc of these
_RECORD = struct.Struct("<II")  # length, crc of the payload begun with the record's before it (the salt) xor the length
_SEALED = b"sealed"
_CHUNK = 256 << 10
_SPARE_BYTES = 2 * LARGE

pack_record = _RECORD.pack


def unshared(made: str | int) -> None:
    """The ``Share`` that leaves the mode to our umask."""


def header(number: int, salt: int) -> bytes:
    """The first bytes of a segment."""
    raw = _HEADER.pack(_MAGIC, number, salt, 0)[:-4]
    return (raw + crc32(raw).to_bytes(4, "little")).ljust(START, b"\0")


def opened(fd: int) -> tuple[int, int] | None:
    """Number and salt of a segment; None when the file is none, or was dropped."""
    raw = os.pread(fd, _HEADER.size, 0)
    if len(raw) < _HEADER.size:
        return None
    magic, number, salt, crc = _HEADER.unpack(raw)
    return (number, salt) if magic == _MAGIC and crc == crc32(raw[:-4]) and 0 < number < 1 << 48 else None


def seal(chain: int) -> bytes:
    """What follows the last record of a segment that is full."""
    return pack_record(0, crc32(_SEALED, chain))


def scan(fd: int, pos: int, chain: int, end: int) -> tuple[list[bytes], int, int, bool]:
    """The records of a segment from ``pos`` on, where ``chain`` is the checksum of the record before, up to ``end`` or the
    first that is not whole: payloads, where they end, the last one's checksum, and whether a seal follows."""
    found: list[bytes] = []
    base, data = pos, os.pread(fd, min(_CHUNK, max(end - pos, 0)), pos)
    need = HEAD
    while pos + need <= end:
        at = pos - base
        if at + need > len(data):
            base, at, data = pos, 0, os.pread(fd, min(max(_CHUNK, need), end - pos), pos)
            if need > len(data):  # the file is shorter than it was
                break
        size, crc = _RECORD.unpack_from(data, at)
        if not size:
            return found, pos, chain, crc == crc32(_SEALED, chain)
        if need != HEAD + size and at + HEAD + size > len(data):
            need = HEAD + size
            continue
        need, payload = HEAD, data[at + HEAD : at + HEAD + size]
        if crc32(payload, chain ^ size) != crc:
            break
        found.append(payload)
        pos, chain = pos + HEAD + size, crc
    return found, pos, chain, False


def path_of(folder: str, number: int) -> str:
    """Where a segment is."""
    return os.path.join(folder, f"seg-{number:08x}")


def number_of(name: str) -> int | None:
    """The number in a segment's name; None for other names."""
    try:
        return int(name[4:], 16) if name.startswith("seg-") else None
    except ValueError:
        return None


def spare(folder: str, oldest: int) -> list[tuple[int, str]]:
    """The files that no segment needs any more, or none yet, with their sizes, the smallest first."""
    found = []
    for entry in os.scandir(folder):
        number = number_of(entry.name)
        if entry.name.startswith(("free-", "loose-")) or (number is not None and number < oldest):
            found.append((entry.stat().st_size, entry.path))
    return sorted(found)


def take(folder: str, number: int, oldest: int, need: int, size: int, *, sync: bool, share: Share = unshared) -> int:
    """A file for a segment that begins, of at least ``need`` bytes; a new one has ``size``. Returns it open. ``sync``: there is
    a file with that header also after a power cut, whatever its name is then."""
    path, lasting = path_of(folder, number), False
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)  # of one who was killed before a record was in it
        if os.fstat(fd).st_size >= need:
            if sync:
                _sync_tree(folder, fd)
            return fd
        os.close(fd)
        os.unlink(path)
    except FileNotFoundError:
        pass
    fits = [where for room, where in spare(folder, oldest) if room >= need]
    if fits:
        lasting = os.path.basename(fits[-1]).startswith("free-")
        os.rename(fits[-1], path)
    else:
        _make_any(folder, path, {max(need, size): 0, max(need, SMALL): 0, need: 0}, sync=sync, share=share)
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    if sync and not lasting:
        _sync_tree(folder, fd)
    return fd


def _sync_tree(folder: str, fd: int) -> None:
    """Have a file's blocks and its name on disk; the file is closed if that fails."""
    try:
        os.fsync(fd)
        sync_paths((folder, os.path.dirname(folder), os.path.dirname(os.path.dirname(folder))))
    except BaseException:
        os.close(fd)
        raise


def _make_any(folder: str, path: str, sizes: Iterable[int], *, sync: bool, share: Share) -> None:
    """As ``make``, of the first size that there is room for."""
    *others, least = sizes
    for size in others:
        try:
            return make(folder, path, size, sync=sync, share=share)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise
    return make(folder, path, least, sync=sync, share=share)


def make(folder: str, path: str, size: int, *, sync: bool, share: Share = unshared, named: bool = False) -> None:
    """A file of really written zeros: a write into it changes nothing but data, and cannot find the disk full. ``named``: on
    disk under the name that it has while it is made."""
    fresh = os.path.join(folder, f"new-{os.getpid()}-{os.urandom(4).hex()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        share(fd)
        zeros, left = bytes(_CHUNK), -(-size // 4096) * 4096
        while left:
            left -= os.write(fd, zeros[:left])
        if sync:
            os.fsync(fd)
        if named:
            sync_paths([folder])
        os.rename(fresh, path)
    except OSError:
        os.unlink(fresh)
        raise
    finally:
        os.close(fd)


def wipe(paths: Iterable[str], *, sync: bool) -> None:
    """Make segments files that hold none, durably and in order: a power cut leaves none without all that follow it."""
    for path in paths:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            os.pwrite(fd, bytes(START), 0)
            if sync:
                fdatasync(fd)
        finally:
            os.close(fd)


def trim(folder: str, oldest: int, *, sync: bool) -> None:
    """Remove spare files that are too small, and of others the largest first, until they take no more than two large ones;
    what is left gets a name that says so. ``sync``: it is on disk, whatever its name is then."""
    left = spare(folder, oldest)
    while left and left[0][0] < SMALL:
        os.unlink(left.pop(0)[1])
    while left and (sum(size for size, _ in left) > _SPARE_BYTES or left[-1][0] > LARGE):
        os.unlink(left.pop()[1])
    kind, named = ("free-" if sync else "loose-"), [path for _, path in left]
    named = [path for path in named if not os.path.basename(path).startswith(("free-", kind))]
    if named and sync:
        sync_paths([folder])
    for path in named:
        os.rename(path, os.path.join(folder, f"{kind}{os.urandom(6).hex()}"))


def failed(error: OSError, what: str) -> GitError:
    """The error of the log for one of the system."""
    return GitError(f"the log of threads cannot be {what}: {error.strerror}")


def damaged(folder: str, what: str) -> RecordError:
    """The error for a log that is not as it was written."""
    return RecordError(f"the log of threads in '{folder}' is damaged: {what}")
