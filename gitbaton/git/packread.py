"""Pack reading through a memory map, which stays valid when git removes the file."""

from __future__ import annotations

import mmap
import zlib
from itertools import count

from gitbaton.git.objects import Kind
from gitbaton.git.packdelta import apply
from gitbaton.git.packfile import KINDS
from gitbaton.git.sizes import LARGEST

_SLACK = 64  # bytes that a stream may have beside its data; one that cannot be deflated grows by 5 for each 16 KiB
_OFFSET, _NAMED = 6, 7
_DEEPEST = 10_000
_HELD = 8 << 20
_numbers = count()
_AT_ONCE = 16 << 20  # bytes that are set aside before it is seen that the object is so large


class Bases:
    """What deltas were lately made into, by pack and place: the next one is mostly against one of these."""

    __slots__ = ("_found", "_size", "get")

    def __init__(self) -> None:
        # By the number of a pack: a pack that is a key would stay open when nobody else has it any more.
        self._found: dict[tuple[int, int], tuple[Kind, bytes]] = {}
        self._size = 0
        self.get = self._found.get

    def hold(self, pack: int, at: int, kind: Kind, data: bytes) -> None:
        """Have an object here for a while."""
        self._size += len(data) + 256
        if self._size > _HELD:
            self._found.clear()
            self._size = len(data) + 256
        if self._size <= _HELD:
            self._found[pack, at] = kind, data


class Mapped:
    """The objects of one pack by their place in it."""

    __slots__ = ("_bases", "_bytes", "_number", "path")

    def __init__(self, fd: int, path: str, bases: Bases) -> None:
        self.path, self._bases, self._number = path, bases, next(_numbers)
        self._bytes = memoryview(mmap.mmap(fd, 0, prot=mmap.PROT_READ))

    def read(self, at: int) -> tuple[Kind, bytes]:
        """The object whose entry begins at ``at``. Raises zlib.error, LookupError or ValueError where it is broken."""
        number, data, below = self._entry(at)
        return (KINDS[number], data) if below < 0 else self._changed(at, data, below)

    def _changed(self, at: int, data: bytes, below: int) -> tuple[Kind, bytes]:
        """A delta's object, by way of all that it stands on."""
        deltas = [(at, data)]
        while (found := self._bases.get((self._number, below))) is None:
            number, data, under = self._entry(below)
            if under < 0:
                found = KINDS[number], data
                self._bases.hold(self._number, below, *found)
                break
            deltas.append((below, data))
            below = under
            if len(deltas) > _DEEPEST:
                raise ValueError("it stands on itself")
        kind, data = found
        for place, change in reversed(deltas):
            data = apply(data, change, LARGEST)
            self._bases.hold(self._number, place, kind, data)
        return kind, data

    def named(self, at: int) -> tuple[int, int]:
        """The place of the base whose id stands at ``at``, negative when it is not here, and where that id ends."""
        return -1, at

    def _entry(self, at: int) -> tuple[int, bytes, int]:
        """Type, bytes and, for a delta, the place of its base; else -1."""
        raw, begin, below = self._bytes, at, -1
        byte = raw[at]
        at += 1
        number, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 0x80:
            byte = raw[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
        if number == _NAMED:
            below, at = self.named(at)
            if below < 0:
                raise ValueError("its base is not in the pack")
        elif number == _OFFSET:
            byte = raw[at]
            at += 1
            back = byte & 0x7F
            while byte & 0x80:
                byte = raw[at]
                at += 1
                back = (back + 1) << 7 | byte & 0x7F
            below = begin - back
            if not 0 < below < begin:
                raise ValueError("its base is not in the pack")
        if size > LARGEST:
            raise ValueError("it is too large")
        data = zlib.decompress(raw[at : at + size + (size >> 8) + _SLACK], 15, min(size, _AT_ONCE) or 1)
        if len(data) != size:
            raise ValueError("it is cut short")
        return number, data, below
