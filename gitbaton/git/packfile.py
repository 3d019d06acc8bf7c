"""Packs of whole objects: a stream for git to index; and files with their index, of which git makes another, or that stay."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain

from gitbaton.git.objects import Algorithm, Kind, digest, hasher

Id = bytes
"""An object id as its 20 or 32 bytes."""
New = tuple[Kind, Id, bytes]
"""A new object: its kind, id and bytes."""
Encode = Callable[[bytes], Iterable[bytes | memoryview]]

_NUMBER = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_AT_ONCE = 48  # small objects between two pauses
_SIZES = struct.Struct("<BHH").pack
_BLOCK = 0xFFFF  # bytes that one block of zlib's holds as they are
LARGE = 16 << 20
"""Bytes of an object from which on it is not worth while to look for what is like it before it is stored."""
_HALF = 1 << 30  # bytes after which another pack begins: places in an index of version 2 have 31 bits
_PIECE = 1 << 20
_SAMPLES, _SAMPLE = 8, 32 << 10
_SAVED = 0.9  # of its size: what is deflated to no less than that is stored as it is


def stream(algorithm: Algorithm, objects: Iterable[New]) -> bytes:
    """Return a pack of objects, deflated one by one."""
    pack, count = bytearray(_begun(0)), 0
    for kind, _, data in objects:
        pack += _head(kind, len(data))
        pack += zlib.compress(data, 1)
        count += 1
    pack[: len(_begun(0))] = _begun(count)
    pack += digest(algorithm, bytes(pack))
    return bytes(pack)


def put_packs(
    folder: str, algorithm: Algorithm, objects: Sequence[New], encode: Encode, pause: Callable[[], object], most: int = _HALF
) -> list[str]:
    """Write packs of new objects and their indexes, not fsynced; return their names. ``encode`` gives the bytes of an object as
    zlib reads them: ``plain``, ``compressed`` or ``deflated``. Another pack begins after ``most`` bytes of objects. ``pause``
    is called now and then. Raises OSError."""
    os.makedirs(folder, exist_ok=True)
    names, left = list[str](), list(reversed(objects))
    while left:
        taken, size = list[New](), 0
        while left and size < most:
            taken.append(left.pop())
            size += len(taken[-1][2])
        names.append(os.urandom(len(taken[0][1])).hex())
        path, at, rows = os.path.join(folder, f"pack-{names[-1]}"), 12, list[tuple[Id, bytes, bytes]]()
        seal = hasher(algorithm, size)
        seal.update(_begun(len(taken)))
        with open(path + ".pack", "xb", opener=_unwritable) as file:
            file.write(_begun(len(taken)))
            for number, (kind, oid, data) in enumerate(taken):
                start, crc = at, 0
                for part in chain([_head(kind, len(data))], encode(data)):
                    if number % _AT_ONCE == 0 or len(data) > _BLOCK:
                        pause()
                    file.write(part)
                    seal.update(part)
                    crc, at = zlib.crc32(part, crc), at + len(part)
                rows.append((oid, crc.to_bytes(4, "big"), start.to_bytes(4, "big")))
            file.write(seal.digest())
        # Version 2 of git's index: ids in order, then the checksum of each, then its place.
        counts, columns = [0] * 256, zip(*sorted(rows), strict=True)
        for oid, _, _ in rows:
            counts[oid[0]] += 1
        index = b"".join(
            [b"\xfftOc\0\0\0\2", struct.pack(">256I", *accumulate(counts)), *map(b"".join, columns), seal.digest()]
        )
        with open(path + ".idx", "xb", opener=_unwritable) as file:
            file.write(index + digest(algorithm, index))
    return names


def _unwritable(path: str, flags: int) -> int:
    """Open a new file with the mode of git's packs."""
    return os.open(path, flags, 0o444)


def compressed(data: bytes) -> list[bytes | memoryview]:
    """Return an object deflated."""
    return [zlib.compress(data, 1)]


def deflated(data: bytes) -> Iterator[bytes | memoryview]:
    """Yield an object deflated, piece by piece; as it is, where samples say that deflating saves little."""
    step = len(data) // _SAMPLES
    found = b"".join([data[at : at + _SAMPLE] for at in range(0, len(data), max(step, 1))])
    if len(zlib.compress(found, 1)) > _SAVED * len(found):
        yield from plain(data)
        return
    work, view = zlib.compressobj(1), memoryview(data)
    for at in range(0, len(data), _PIECE):
        yield work.compress(view[at : at + _PIECE])
    yield work.flush()


def plain(data: bytes) -> list[bytes | memoryview]:
    """Return what zlib writes at level 0, without the 256 KiB that it clears for each object."""
    size, seal = len(data), zlib.adler32(data).to_bytes(4, "big")
    if size <= _BLOCK:
        return [b"".join([b"\x78\x01", _SIZES(1, size, size ^ _BLOCK), data, seal])]
    cuts = [memoryview(data)[at : at + _BLOCK] for at in range(0, size, _BLOCK)]
    parts = [part for cut in cuts for part in (_SIZES(cut is cuts[-1], len(cut), len(cut) ^ _BLOCK), cut)]
    return [b"\x78\x01", *parts, seal]


def _begun(count: int) -> bytes:
    return b"PACK\0\0\0\2" + count.to_bytes(4, "big")


def _head(kind: Kind, size: int) -> bytes:
    """Return the header of a pack entry: type and size in groups of seven bits."""
    result, size = bytearray((_NUMBER[kind] << 4 | size & 15,)), size >> 4
    while size:
        result[-1] |= 0x80
        result.append(size & 0x7F)
        size >>= 7
    return bytes(result)
