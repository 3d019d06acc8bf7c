"""How far a conversation has come: bytes, lines, and the id of its last message."""

from __future__ import annotations

import os

from gitbaton.agents.conversation import message_id
from gitbaton.model import Transcript
from gitbaton.transcripts.files import blocks

_MAX_COUNTED = 1 << 30
_LOOKED = 64 << 20
_WINDOW = 64 << 10


def measure(fd: int, agent: str, before: Transcript | None, most: int | None = None) -> Transcript | None:
    """Where the last whole line ends, of ``most`` bytes at most; what lies before ``before`` is not read again."""
    size = os.fstat(fd).st_size if most is None else most
    known = before is not None and 0 < before.size <= size and os.pread(fd, 1, before.size - 1) == b"\n"
    start, lines, last = (before.size, before.lines, before.last) if before is not None and known else (0, 0, None)
    if size - start > _MAX_COUNTED:
        return None
    end = at = start
    for block in blocks(fd, start, size):
        lines += block.count(b"\n")
        end = at + block.rfind(b"\n") + 1 if b"\n" in block else end
        at += len(block)
    if end == 0:
        return None
    return Transcript(size=end, lines=lines, last=_last(fd, agent, start, end) or last)


def _last(fd: int, agent: str, start: int, end: int) -> str | None:
    """The id of the last message between two places, looked for backwards."""
    at, window, rest = end, _WINDOW, b""
    while at > start and end - at < _LOOKED:
        begin = max(start, at - window)
        lines = (os.pread(fd, at - begin, begin) + rest).split(b"\n")
        rest = lines.pop(0) if begin > start else b""
        for line in reversed(lines):
            found = message_id(agent, line)
            if found:
                return found
        at, window = begin, window * 2
    return None
