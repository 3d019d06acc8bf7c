"""Pack stream: objects deflated one by one, whole, as git takes them in."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from gitbaton.git.objects import Algorithm, Kind, digest

Id = bytes
"""An object id as its 20 or 32 bytes."""
New = tuple[Kind, Id, bytes]
"""A new object: its kind, id and bytes."""

_NUMBER = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_AT_ONCE = 48  # objects between two pauses


def stream(algorithm: Algorithm, objects: Iterable[New], level: int = 1, pause: Callable[[], object] = int) -> bytes:
    """A pack of objects; ``level`` is zlib's. ``pause`` is called now and then."""
    parts = [b""]
    for kind, _, data in objects:
        if len(parts) % _AT_ONCE == 0:
            pause()
        parts.append(_head(_NUMBER[kind], len(data)) + zlib.compress(data, level))
    parts[0] = b"PACK\0\0\0\2" + (len(parts) - 1).to_bytes(4, "big")
    pack = b"".join(parts)
    return pack + digest(algorithm, pack)


def _head(number: int, size: int) -> bytes:
    """What an entry of a pack begins with: type and size in groups of seven bits."""
    result, size = bytearray((number << 4 | size & 15,)), size >> 4
    while size:
        result[-1] |= 0x80
        result.append(size & 0x7F)
        size >>= 7
    return bytes(result)
