"""Pack index lookup through memory maps, for repositories that libgit2 does not open."""

from __future__ import annotations

import mmap
import os
import struct
import zlib

from gitbaton.git.objects import Kind
from gitbaton.git.packfile import Id
from gitbaton.git.packread import Bases, Mapped

_BEGIN = b"\377tOc\0\0\0\2"
_FAN = struct.Struct(">256I")
_IDS = len(_BEGIN) + _FAN.size
_FAR = 1 << 31


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
