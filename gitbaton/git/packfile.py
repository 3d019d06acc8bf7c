"""Pack and index formats: objects deflated one by one into files that every git reads."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator

from gitbaton.git.objects import Algorithm, Kind
from gitbaton.git.packdelta import delta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import _Hash

Id = bytes
"""An object id as its 20 or 32 bytes."""

NUMBER = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
Entry = tuple[Kind, Id, bytes] | tuple[Kind, Id, bytes, Id | None]
KINDS: dict[int, Kind] = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
# Up to so many bytes: the level, window and memory level of zlib. Its own start takes 25 microseconds to clear tables that a
# small object never needs.
_SMALL = ((2048, 6, 12, 6), (4096, 3, 13, 7), (12288, 3, 13, 8))
_LEVEL = 4  # of larger ones: they are waited for, and level 6 takes twice the time for 2 to 5% less room
_LARGE = 4096  # bytes from which an object may be a delta of a delta
_LONGEST, _STEP = 64, 8
_LEAST = 128  # bytes below which nothing is tried
_BYTES = [bytes((number,)) for number in range(256)]
_STORED = struct.Struct("<HH")
_OFFSET = 6
_FAR = 1 << 31
_BEGIN = 12


def deflate(data: bytes) -> bytes:
    """``data`` as one zlib stream."""
    size = len(data)
    for limit, level, bits, memory in _SMALL:
        if size <= limit:
            stream = zlib.compressobj(level, zlib.DEFLATED, bits, memory)
            return stream.compress(data) + stream.flush()
    return zlib.compress(data, _LEVEL)


def stored(data: bytes) -> bytes:
    """``data``, of less than 64 KiB, as a zlib stream that deflates nothing: for what would hardly become shorter."""
    size = len(data)
    return b"\x78\x01\x01" + _STORED.pack(size, size ^ 0xFFFF) + data + zlib.adler32(data).to_bytes(4, "big")


def head(number: int, size: int) -> bytes:
    """What an entry of a pack begins with: type and size in groups of seven bits."""
    first, size = number << 4 | size & 15, size >> 4
    if not size:
        return _BYTES[first]
    result = _BYTES[first | 0x80]
    while size > 0x7F:
        result += _BYTES[size & 0x7F | 0x80]
        size >>= 7
    return result + _BYTES[size]


def _back(distance: int) -> bytes:
    """How far before a delta its base begins, as packs have it."""
    result = [distance & 0x7F]
    while distance := distance >> 7:
        distance -= 1
        result.append(distance & 0x7F | 0x80)
    return bytes(reversed(result))


def hasher(algorithm: Algorithm) -> Callable[..., _Hash]:
    """The hash of an object format."""
    import hashlib

    return hashlib.sha1 if algorithm == "sha1" else hashlib.sha256


def _go_on() -> None:
    return


class Packing:
    """A pack being made: ``parts`` gives its bytes, ``index`` those of its index once they were all taken. Where its objects
    are not all known before, ``add`` takes them one by one, and ``whole`` ends it.

    A fourth element of an object names another, before it in the pack, that it is probably much like. Without one, a tree is
    held against the tree before it, and a large blob against the last one that begins alike. ``pause`` is called after each
    object, for whoever shares the interpreter.
    """

    def __init__(self, algorithm: Algorithm, objects: Iterable[Entry] = (), pause: Callable[[], object] | None = None) -> None:
        self.algorithm, self._hash, self._pause = algorithm, hasher(algorithm), pause or _go_on
        self.objects = {item[1]: item for item in objects}
        self.checksum = b""
        self._clear()

    def _clear(self) -> None:
        self.offsets: dict[Id, int] = {}
        self._sums: dict[Id, int] = {}
        self._stands: dict[Id, tuple[int, Id, Id]] = {}
        self._like: dict[bytes, Id] = {}
        self._end = _BEGIN

    def parts(self, size: int = 1 << 18) -> Iterator[bytes]:
        """The pack, in parts of about ``size`` bytes."""
        pause, summed = self._pause, self._hash()
        part, length = [self._begin()], _BEGIN
        self._clear()
        for item in self.objects.values():
            entry = self.add(item)
            part.append(entry)
            length += len(entry)
            pause()
            if length >= size:
                joined = b"".join(part)
                summed.update(joined)
                yield joined
                part, length = [], 0
        joined = b"".join(part)
        summed.update(joined)
        self.checksum = summed.digest()
        yield joined + self.checksum

    def _begin(self) -> bytes:
        return b"PACK" + struct.pack(">II", 2, len(self.objects))

    def add(self, item: Entry) -> bytes:
        """What the pack has of one more object; nothing where it has it already."""
        oid, at = item[1], self._end
        if oid in self.offsets:
            return b""
        self.objects[oid] = item
        entry = self._entry(item, at)
        self.offsets[oid], self._sums[oid] = at, zlib.crc32(entry)
        self._end += len(entry)
        return entry

    def whole(self, added: Iterable[bytes]) -> bytes:
        """The pack of all that ``add`` gave, in that order."""
        pack = b"".join((self._begin(), *added))
        self.checksum = self._hash(pack).digest()
        return pack + self.checksum

    def _entry(self, item: Entry, at: int) -> bytes:
        kind, oid, data = item[:3]
        found = self._delta(kind, oid, data, item[3] if len(item) > 3 else self._guess(kind, oid, data))
        if found is None:
            return head(NUMBER[kind], len(data)) + deflate(data)
        base, change = found
        squeezed = stored(change) if len(change) < _LEAST else deflate(change)
        return head(_OFFSET, len(change)) + _back(at - self.offsets[base]) + squeezed

    def _guess(self, kind: Kind, oid: Id, data: bytes) -> Id | None:
        if kind == "tree":
            key = b""
        elif kind == "blob" and len(data) >= _LARGE:
            key = data[32:64]  # the head of a list has its length, which changes
        else:
            return None
        base = self._like.get(key)
        self._like[key] = oid
        return base

    def _delta(self, kind: Kind, oid: Id, data: bytes, base: Id | None) -> tuple[Id, bytes] | None:
        """A base and the delta against it.

        Small objects stand on whole ones only: two deltas would save little and double the time of reading. Large ones stand
        on every eighth of their like, and these on each other, so that few are to be put together for one.
        """
        if base is None or base not in self.offsets or len(data) < _LEAST:
            return None
        count, root, step = self._stands.get(base, (0, base, base))
        count, base = count + 1, step if len(data) >= _LARGE else root
        if count > _LONGEST or self.objects[base][0] != kind:
            return None
        change = delta(self.objects[base][2], data)
        if change is None:
            return None
        self._stands[oid] = count, root, oid if count % _STEP == 0 and len(data) >= _LARGE else base
        return base, change

    def index(self) -> bytes:
        """The index of version 2."""
        pause = self._pause
        folders: list[list[Id]] = [[] for _ in range(256)]
        for oid in self.offsets:
            folders[oid[0]].append(oid)
        total, fan, ordered = 0, [], list[Id]()
        for ids in folders:
            ids.sort()
            ordered += ids
            total += len(ids)
            fan.append(total)
            pause()
        offsets = [self.offsets[oid] for oid in ordered]
        far = [at for at in offsets if at >= _FAR]
        places = iter(range(len(far)))
        near = [at if at < _FAR else 1 << 31 | next(places) for at in offsets]
        pause()
        body = b"".join(
            (
                b"\377tOc" + struct.pack(">I256I", 2, *fan),
                *ordered,
                struct.pack(f">{total}I", *[self._sums[oid] for oid in ordered]),
                struct.pack(f">{total}I", *near),
                struct.pack(f">{len(far)}Q", *far),
                self.checksum,
            )
        )
        return body + self._hash(body).digest()
