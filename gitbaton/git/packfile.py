"""A pack and its index as bytes: objects deflated one by one, in the formats that every git reads."""

from __future__ import annotations

import hashlib
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator

from gitbaton.git.objects import Algorithm, Kind

Id = bytes
"""An object id as its 20 or 32 bytes."""

NUMBER = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
KINDS: dict[int, Kind] = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
# Up to so many bytes: the window and memory level of zlib. Its own start takes 25 microseconds to clear tables that a small
# object never needs.
_SMALL = ((2048, 12, 5), (4096, 13, 7), (12288, 13, 8))
_LEVEL = 6
_FAR = 1 << 31
_TURN = 0.0003  # seconds after which another thread gets its turn
_REST = 0.00002


class Turns:
    """Lets other threads run now and then: one that waits for the interpreter would get it after 5 milliseconds only."""

    __slots__ = ("_due",)

    def __init__(self) -> None:
        self._due = time.perf_counter() + _TURN

    def give(self) -> None:
        """Wait a little where this thread has been running for long. A wait of no time at all would let nobody in."""
        if time.perf_counter() >= self._due:
            time.sleep(_REST)
            self._due = time.perf_counter() + _TURN


def deflate(data: bytes) -> bytes:
    """``data`` as one zlib stream."""
    size = len(data)
    for limit, bits, memory in _SMALL:
        if size <= limit:
            stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, bits, memory)
            return stream.compress(data) + stream.flush()
    return zlib.compress(data, _LEVEL)


def head(number: int, size: int) -> bytes:
    """What an entry of a pack begins with: type and size in groups of seven bits."""
    first, size = number << 4 | size & 15, size >> 4
    result = bytearray()
    while size:
        result.append(first | 0x80)
        first, size = size & 0x7F, size >> 7
    result.append(first)
    return bytes(result)


def hasher(algorithm: Algorithm) -> Callable[..., hashlib._Hash]:
    """The hash of an object format."""
    return hashlib.sha1 if algorithm == "sha1" else hashlib.sha256


class Packing:
    """A pack being made: ``parts`` gives its bytes, ``index`` those of its index once they were all taken."""

    def __init__(self, algorithm: Algorithm, objects: Iterable[tuple[Kind, Id, bytes]]) -> None:
        self.algorithm, self._hash = algorithm, hasher(algorithm)
        self.objects = {item[1]: item for item in objects}
        self.offsets: dict[Id, int] = {}
        self.checksum = b""
        self._sums: dict[Id, int] = {}

    def parts(self, size: int = 1 << 18) -> Iterator[bytes]:
        """The pack, in parts of about ``size`` bytes."""
        begin = b"PACK" + struct.pack(">II", 2, len(self.objects))
        turns, summed = Turns(), self._hash()
        part, length, at = [begin], len(begin), len(begin)
        for kind, oid, data in self.objects.values():
            entry = head(NUMBER[kind], len(data)) + deflate(data)
            self.offsets[oid] = at
            self._sums[oid] = zlib.crc32(entry)
            part.append(entry)
            at += len(entry)
            length += len(entry)
            turns.give()
            if length >= size:
                joined = b"".join(part)
                summed.update(joined)
                yield joined
                part, length = [], 0
        joined = b"".join(part)
        summed.update(joined)
        self.checksum = summed.digest()
        yield joined + self.checksum

    def index(self) -> bytes:
        """The index of version 2."""
        turns = Turns()
        folders: list[list[Id]] = [[] for _ in range(256)]
        for oid in self.offsets:
            folders[oid[0]].append(oid)
        total, fan, ordered = 0, [], list[Id]()
        for ids in folders:
            ids.sort()
            ordered += ids
            total += len(ids)
            fan.append(total)
            turns.give()
        offsets = [self.offsets[oid] for oid in ordered]
        far = [at for at in offsets if at >= _FAR]
        places = iter(range(len(far)))
        near = [at if at < _FAR else _FAR | next(places) for at in offsets]
        turns.give()
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
