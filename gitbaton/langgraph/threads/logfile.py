"""Log file: a header and records that are chained by checksums, so that stale or torn bytes are never read; and the segments of
an older log, which are taken in once, unless its version is at work."""

from __future__ import annotations

import fcntl
import os
import struct
from zlib import crc32

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError, RecordError
from gitbaton.base.system.files import open_lasting, open_regular, sync_paths

START = 32
"""Where the first record of a file begins, in bytes."""
HEAD = 8
"""What a record takes beside its payload, in bytes."""
MOST = 1 << 30
"""The longest payload."""
BUMP = b"\0"
"""The record that says that refs were changed."""
MAGIC, OLD = b"gblog 2\n", b"gbwal 1\n"

_HEADER = struct.Struct("<8sQII")  # magic, number of the first record, salt, crc of these
_RECORD = struct.Struct("<II")  # length, crc of the payload begun with the record's before it (the salt) xor the length
_CHUNK = 256 << 10
_SEGMENTS = ("seg-", "free-", "loose-", "new-")  # how names of files begin that may hold a segment, whatever number that has

pack_record = _RECORD.pack


def header(number: int, salt: int) -> bytes:
    """Return the first bytes of a file."""
    raw = _HEADER.pack(MAGIC, number, salt, 0)[:-4]
    return (raw + crc32(raw).to_bytes(4, "little")).ljust(START, b"\0")


def opened(fd: int, kind: bytes = MAGIC) -> tuple[int, int] | None:
    """Return number and salt of a file; None when it is none of that kind."""
    raw = os.pread(fd, _HEADER.size, 0)
    if len(raw) < _HEADER.size:
        return None
    magic, number, salt, crc = _HEADER.unpack(raw)
    return (number, salt) if magic == kind and crc == crc32(raw[:-4]) and 0 < number < 1 << 63 else None


def scan(fd: int, pos: int, chain: int) -> tuple[list[bytes], int, int, bool]:
    """Return the records from ``pos`` on, where ``chain`` is the checksum of the record before, up to the first that is not
    whole: payloads, where they end, the last one's checksum, and whether a seal follows."""
    found: list[bytes] = []
    end = os.fstat(fd).st_size
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
            return found, pos, chain, crc != 0
        if need != HEAD + size and at + HEAD + size > len(data):
            need = HEAD + size
            continue
        need, payload = HEAD, data[at + HEAD : at + HEAD + size]
        if crc32(payload, chain ^ size) != crc:
            break
        found.append(payload)
        pos, chain = pos + HEAD + size, crc
    return found, pos, chain, False


def records(path: str, kind: bytes = MAGIC) -> list[bytes]:
    """Return all records of a file; none where it is gone, or none of that kind."""
    try:
        fd = open_regular(path)
    except FileNotFoundError:
        return []
    try:
        head = opened(fd, kind)
        return scan(fd, START, head[1])[0] if head is not None else []
    finally:
        os.close(fd)


def failed(error: OSError, what: str) -> GitError:
    """Return the error of the log for one of the system."""
    return GitError(f"the log of threads cannot be {what}: {error.strerror}")


def damaged(folder: str, what: str) -> RecordError:
    """Return the error for a damaged log."""
    return RecordError(f"the log of threads in {in_quotes(folder)} is damaged: {what}")


def old_names(folder: str) -> list[str]:
    """Return the files of an older log in a folder; but for locks, which have the names of ours."""
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith((*_SEGMENTS, "state")))
    except FileNotFoundError:
        return []


def refuse_living(folder: str) -> None:
    """Raise GitError when an older gitbaton has its log in a folder open: neither sees what the other puts."""
    try:
        fd = open_regular(os.path.join(folder, "state"))
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = _holders(os.fstat(fd).st_ino)
        said = f"process {' and '.join(who)} of an older gitbaton has" if who else "a process of an older gitbaton has"
        raise GitError(f"{said} the threads in {in_quotes(folder)} open; end it first, or give it the same version") from None
    finally:
        os.close(fd)


def _holders(inode: int) -> list[str]:
    """Return the processes that have a file locked, where the system tells."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    found = {row[4] for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5].endswith(f":{inode}")}
    return sorted(pid for pid in found if pid.isdecimal() and int(pid) > 0)


def old_records(folder: str) -> list[bytes]:
    """Return all records of an older log, in order. Raises RecordError, OSError."""
    found = _segments(folder)
    if max(found, default=0) - min(found, default=0) > 1 << 15:
        raise damaged(folder, f"segments {min(found)} and {max(found)} are of one log")
    return [payload for number in sorted(found) for payload in records(found[number], OLD)]


def _segments(folder: str) -> dict[int, str]:
    """Return the files that hold segments: a file's header says which, its name may be that of an older one."""
    found: dict[int, str] = {}
    for name in reversed(old_names(folder)):
        path = os.path.join(folder, name)
        fd = open_regular(path)
        try:
            head = opened(fd, OLD)
        finally:
            os.close(fd)
        if head is not None:
            found.setdefault(head[0], path)
    return found


def remove_old(folder: str) -> None:
    """Remove an older log once its records are elsewhere; durably and in order: after a power cut the records of a segment are
    there only with those of all that follow. Raises OSError."""
    found = _segments(folder)
    for number in sorted(found):
        fd = open_lasting(found[number], make=False)
        try:
            os.pwrite(fd, bytes(START), 0)
            os.fsync(fd)
        finally:
            os.close(fd)
    for name in old_names(folder):
        os.unlink(os.path.join(folder, name))
    sync_paths([folder])
