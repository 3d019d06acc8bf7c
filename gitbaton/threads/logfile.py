"""Log file: a header and records that are chained by checksums, so that stale or torn bytes are never read."""

from __future__ import annotations

import os
import struct
from zlib import crc32

from gitbaton.errors import GitError, RecordError

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

pack_record = _RECORD.pack


def header(number: int, salt: int) -> bytes:
    """The first bytes of a file."""
    raw = _HEADER.pack(MAGIC, number, salt, 0)[:-4]
    return (raw + crc32(raw).to_bytes(4, "little")).ljust(START, b"\0")


def opened(fd: int, kind: bytes = MAGIC) -> tuple[int, int] | None:
    """Number and salt of a file; None when it is none of that kind."""
    raw = os.pread(fd, _HEADER.size, 0)
    if len(raw) < _HEADER.size:
        return None
    magic, number, salt, crc = _HEADER.unpack(raw)
    return (number, salt) if magic == kind and crc == crc32(raw[:-4]) and 0 < number < 1 << 63 else None


def scan(fd: int, pos: int, chain: int) -> tuple[list[bytes], int, int, bool]:
    """The records from ``pos`` on, where ``chain`` is the checksum of the record before, up to the first that is not whole:
    payloads, where they end, the last one's checksum, and whether a seal follows."""
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
    """All records of a file; none where it is gone, or none of that kind."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return []
    try:
        head = opened(fd, kind)
        return scan(fd, START, head[1])[0] if head is not None else []
    finally:
        os.close(fd)


def failed(error: OSError, what: str) -> GitError:
    """The error of the log for one of the system."""
    return GitError(f"the log of threads cannot be {what}: {error.strerror}")


def damaged(folder: str, what: str) -> RecordError:
    """The error for a log that is not as it was written."""
    return RecordError(f"the log of threads in '{folder}' is damaged: {what}")
