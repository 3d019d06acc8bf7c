"""Transcript files of clients: opened without blocking, and read by position."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

BLOCK = 1 << 20


def opened(path: str | None) -> int | None:
    """A regular file, open for reading; None for anything else, without waiting for it or waking a device."""
    if path is None or not os.path.isabs(path) or "\0" in path:
        return None
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def blocks(fd: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes between two places, in blocks; fewer where the file ends before."""
    while start < end and (block := os.pread(fd, min(BLOCK, end - start), start)):
        start += len(block)
        yield block


def lines(fd: int, start: int, end: int) -> Iterator[bytes]:
    """The lines between two places, with their ends."""
    with open(os.dup(fd), "rb", buffering=BLOCK) as file:
        file.seek(start)
        while start < end and (line := file.readline(end - start)):
            start += len(line)
            yield line
