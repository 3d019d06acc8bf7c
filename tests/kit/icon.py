"""The plugin's icon, a PNG made without a library: a baton that leads from one hand to the next."""

from __future__ import annotations

import struct
import zlib

SIZE, EDGE = 512, 96  # pixels; the radius of the corners
PAPER, DONE, NEXT = (13, 17, 23), (63, 185, 80), (230, 237, 243)
BEGIN, END = (136.0, 376.0), (376.0, 136.0)


def icon() -> bytes:
    """The picture, the same bytes each time."""
    rows = b"".join(b"\0" + b"".join(_pixel(x + 0.5, y + 0.5) for x in range(SIZE)) for y in range(SIZE))
    head = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _pixel(x: float, y: float) -> bytes:
    far = [max(EDGE - at, at - (SIZE - EDGE), 0) for at in (x, y)]
    alpha = _inside(EDGE - (far[0] ** 2 + far[1] ** 2) ** 0.5)
    along = max(0.0, min(1.0, ((x - BEGIN[0]) - (y - BEGIN[1])) / (2 * (END[0] - BEGIN[0]))))
    at = (BEGIN[0] + along * (END[0] - BEGIN[0]), BEGIN[1] + along * (END[1] - BEGIN[1]))
    bar = _inside(44 - ((x - at[0]) ** 2 + (y - at[1]) ** 2) ** 0.5)
    ink = DONE if along < 0.5 else NEXT
    return bytes((*(round(p + (i - p) * bar) for p, i in zip(PAPER, ink, strict=True)), round(255 * alpha)))


def _inside(depth: float) -> float:
    """How much of a pixel lies inside of an edge that is so far away."""
    return max(0.0, min(1.0, depth + 0.5))
