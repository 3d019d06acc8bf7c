"""Pack deltas: cheap ones, for objects that mostly agree at the same offsets."""

from __future__ import annotations

import re
from functools import lru_cache

_EQUAL = re.compile(rb"\0{8,}")
_PART = 2048
_FUTILE = 8192  # bytes that differ after which no more is looked at, where most did
_COPY = 0xFFFFFF
_INSERT = 127
_BYTES = [bytes((number,)) for number in range(256)]


def delta(base: bytes, data: bytes) -> bytes | None:
    """``data`` as a delta against ``base``, in git's format; None when it is more than half as long as ``data`` itself.

    Found is what stands at the same distance from the beginning in both, and a common end: an entry of a tree that was
    replaced, a list to which something was appended.
    """
    limit = len(data) // 2
    end = _common_end(base, data) if len(base) != len(data) else 0
    parts = [_number(len(base)), _number(len(data))]
    done, size = 0, 0
    for start, stop in _equal(base, data, min(len(base), len(data)) - end, limit):
        if start < 0:
            return None
        size += start - done
        if size > limit:
            return None
        parts += (_insert(data[done:start]), _copy(start, stop - start))
        done = stop
    parts += (_insert(data[done : len(data) - end]), _copy(len(base) - end, end))
    result = b"".join(parts)
    return result if len(result) <= limit else None


def _common_end(base: bytes, data: bytes) -> int:
    most, length = min(len(base), len(data)), 0
    if not most or base[-1] != data[-1]:
        return 0
    step = most
    while step > 0:
        if length + step <= most and _ends_alike(base, data, length, step):
            length += step
        else:
            step = min(step, most - length) // 2
    return length


def _ends_alike(base: bytes, data: bytes, skip: int, size: int) -> bool:
    b, d = len(base) - skip, len(data) - skip
    return base[b - size : b] == data[d - size : d]


def _equal(base: bytes, data: bytes, size: int, limit: int) -> list[tuple[int, int]]:
    """The ranges of the first ``size`` bytes that are the same in both; a single (-1, -1) when too little is."""
    found: list[tuple[int, int]] = []
    begin, wrong = -1, 0
    for at in range(0, size, _PART):
        stop = min(at + _PART, size)
        b, d = base[at:stop], data[at:stop]
        if b == d:
            begin = at if begin < 0 else begin
            continue
        mixed = (int.from_bytes(b, "big") ^ int.from_bytes(d, "big")).to_bytes(stop - at, "big")
        ranges = [(at + same.start(), at + same.end()) for same in _EQUAL.finditer(mixed)]
        wrong += stop - at - sum(e - s for s, e in ranges)
        if wrong > limit or (wrong > _FUTILE and wrong > at // 2):
            return [(-1, -1)]
        for start, last in ranges:
            if begin >= 0:
                found.append((begin, last if start == at else at))
                begin = -1
                if start == at:
                    continue
            found.append((start, last))
        if begin >= 0:
            found.append((begin, at))
            begin = -1
    return [*found, (begin, size)] if begin >= 0 else found


@lru_cache(1024)
def _number(value: int) -> bytes:
    result = bytearray()
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


@lru_cache(4096)  # trees of one thread differ at the same places
def _copy(at: int, size: int) -> bytes:
    if size > _COPY:
        return _copy(at, _COPY) + _copy(at + _COPY, size - _COPY)
    if not size:
        return b""
    op, word = 0x80, b""
    for place, byte in enumerate(at.to_bytes(4, "little") + size.to_bytes(3, "little")):
        if byte:
            op |= 1 << place
            word += _BYTES[byte]
    return _BYTES[op] + word


def _insert(data: bytes) -> bytes:
    if len(data) <= _INSERT:
        return _BYTES[len(data)] + data if data else b""
    return b"".join(_insert(data[at : at + _INSERT]) for at in range(0, len(data), _INSERT))


def apply(base: bytes, delta: bytes, limit: int = 1 << 62) -> bytes:
    """What a delta makes of its base. Raises ValueError where it breaks the format, or makes more than ``limit`` bytes."""
    size, at = _varint(delta, 0)
    if size != len(base):
        raise ValueError("its delta is of another base")
    size, at = _varint(delta, at)
    if size > limit:
        raise ValueError("it is too large")
    parts: list[bytes] = []
    end, made = len(delta), 0
    while at < end:
        op = delta[at]
        at += 1
        if op & 0x80:
            start = length = 0
            for shift in (0, 8, 16, 24):
                if op & 1:
                    start |= delta[at] << shift
                    at += 1
                op >>= 1
            for shift in (0, 8, 16):
                if op & 1:
                    length |= delta[at] << shift
                    at += 1
                op >>= 1
            length = length or 0x10000
            parts.append(base[start : start + length])
            made += length
        elif op:
            parts.append(delta[at : at + op])
            at += op
            made += op
        else:
            raise ValueError("its delta is malformed")
        if made > size:
            raise ValueError("its delta is malformed")
    result = b"".join(parts)
    if len(result) != size:
        raise ValueError("its delta is malformed")
    return result


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
