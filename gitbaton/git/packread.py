"""Pack reading through memory maps, which stay valid when git removes the file; and pack indexes that libgit2 does not open."""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from itertools import count

from gitbaton.git.objects import Kind
from gitbaton.git.packdelta import apply
from gitbaton.git.packfile import KINDS, Id
from gitbaton.git.sizes import LARGEST

_SLACK = 64  # bytes that a stream may have beside its data; one that cannot be deflated grows by 5 for each 16 KiB
_OFFSET, _NAMED = 6, 7
_DEEPEST = 10_000
_HELD = 8 << 20
_numbers = count()
_AT_ONCE = 16 << 20  # bytes that are set aside before it is seen that the object is so large
_BEGIN = b"\377tOc\0\0\0\2"
_FAN = struct.Struct(">256I")
_IDS = len(_BEGIN) + _FAN.size
_FAR = 1 << 31


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


class Indexed(Mapped):
    """One pack with its index. Raises ValueError for an index that is not of version 2."""

    __slots__ = ("_fan", "_index", "_width")

    def __init__(self, path: str, width: int, bases: Bases) -> None:
        with open(f"{path}.pack", "rb") as pack, open(f"{path}.idx", "rb") as index:
            super().__init__(pack.fileno(), path, bases)
            self._index = mmap.mmap(index.fileno(), 0, prot=mmap.PROT_READ)
        self._width = width
        if self._index[: len(_BEGIN)] != _BEGIN:
            raise ValueError("its index is of another version")
        self._fan = (0, *_FAN.unpack(self._index[len(_BEGIN) : _IDS]))
        if len(self._index) < _IDS + self._fan[-1] * (width + 8) + 2 * width:
            raise ValueError("its index is cut short")

    def place(self, oid: Id) -> int:
        """Where an object's entry begins; -1 when it is not in the pack."""
        index, width = self._index, self._width
        low, high = self._fan[oid[0]], self._fan[oid[0] + 1]
        while low < high:
            middle = (low + high) >> 1
            at = _IDS + middle * width
            found = index[at : at + width]
            if found == oid:
                return self._offset(middle)
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return -1

    def _offset(self, number: int) -> int:
        count = self._fan[-1]
        at = _IDS + count * (self._width + 4) + number * 4
        near = int.from_bytes(self._index[at : at + 4], "big")
        if near < _FAR:
            return near
        at = _IDS + count * (self._width + 8) + (near - _FAR) * 8
        return int.from_bytes(self._index[at : at + 8], "big")

    def named(self, at: int) -> tuple[int, int]:
        """See Mapped."""
        end = at + self._width
        return self.place(bytes(self._bytes[at:end])), end


class Packed:
    """All packs of one folder, those that git makes while it is open, too."""

    def __init__(self, objects_dir: str, width: int, bases: Bases) -> None:
        self._folder, self._width, self._bases = os.path.join(objects_dir, "pack"), width, bases
        self._packs: list[Indexed] = []
        self._seen = -1

    def find(self, oid: Id) -> tuple[Kind, bytes] | None:
        """An object; None for what is in no pack, or cannot be read."""
        try:
            if len(oid) != self._width:
                return None
            return self._find(oid) or (self._find(oid) if self._look() else None)
        except (OSError, ValueError, LookupError, zlib.error, MemoryError):
            return None

    def _find(self, oid: Id) -> tuple[Kind, bytes] | None:
        packs = self._packs
        for number, pack in enumerate(packs):
            at = pack.place(oid)
            if at >= 0:
                if number > 3:  # the next object is mostly in the same pack
                    self._packs = [pack, *packs[:number], *packs[number + 1 :]]
                return pack.read(at)
        return None

    def _look(self) -> bool:
        """Take in packs that came, and let go of those that went; whether anything may have changed."""
        changed = os.stat(self._folder).st_mtime_ns
        if changed == self._seen:
            return False
        names = {name[:-4] for name in os.listdir(self._folder) if name.endswith(".idx")}
        known = {os.path.basename(pack.path): pack for pack in self._packs}
        packs = [pack for name, pack in known.items() if name in names]
        for name in names - known.keys():
            try:
                packs.append(Indexed(os.path.join(self._folder, name), self._width, self._bases))
            except (OSError, ValueError):  # it has just gone, or git will say what is wrong with it
                continue
        self._packs, self._seen = packs, changed
        return True
