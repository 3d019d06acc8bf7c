"""Reading a pack that we wrote ourselves: a map of its file, which stays readable when git removes the file."""

from __future__ import annotations

import mmap
import zlib

from gitbaton.git.objects import Kind
from gitbaton.git.packfile import KINDS

_SLACK = 64  # bytes that a stream may have beside its data; one that cannot be deflated grows by 5 for each 16 KiB


class Mapped:
    """The objects of one pack by their place in it."""

    __slots__ = ("_bytes", "path")

    def __init__(self, fd: int, path: str) -> None:
        self.path = path
        self._bytes = memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ))

    def read(self, at: int) -> tuple[Kind, bytes]:
        """The object whose entry begins at ``at``. Raises zlib.error or ValueError where it is broken."""
        raw = self._bytes
        byte = raw[at]
        at += 1
        kind = KINDS[byte >> 4 & 7]
        size, shift = byte & 15, 4
        while byte & 0x80:
            byte = raw[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
        data = zlib.decompress(raw[at : at + size + (size >> 8) + _SLACK], 15, size or 1)
        if len(data) != size:
            raise ValueError("it is cut short")
        return kind, data
