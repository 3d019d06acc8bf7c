"""Long texts cut to size: at their end, or in the middle, where a reader loses least."""

from __future__ import annotations

import re

HEAD, TAIL = 250, 600
"""Characters that stay of a long text, of its beginning and of its end."""
GAP = "[...]"
"""The line that stands for what was cut out."""
_ENDED = re.compile(r"[.!?:;][\"'`*_)\]]*\s*\Z")
_SENTENCE = re.compile(r"(?<=[^\W\d_][^\W_]|.[)\]`'\"*_])[.!?][\"'`*_)\]]*[ \t]+(?=\S)")
_OWN = re.compile(r"[ \t]*(?:[-*+>#|\u2022\u2610-\u2612\u2713-\u2718]|\(?[0-9]{1,3}[.)][ \t]|```|~~~|\Z)")
"""How a line begins that goes on with no sentence of the line before: a point, a heading, a row, a fence, nothing."""
_FENCE = re.compile(r"[ \t]*(```+|~~~+)")
_ROW = re.compile(r"[ \t]*\|")


def cut(text: str, size: int) -> str:
    """Keep a text, or its beginning and a mark that there was more."""
    return text if len(text) <= size else text[: size - 4].rstrip() + " ..."


def middle(text: str, head: int = HEAD, tail: int = TAIL) -> str:
    """Take the middle out of a text that is longer than ``head`` and ``tail`` together: the beginning, a line that says so,
    and the end with the last paragraph whole, as long as all of that has room.

    It is cut where a line ends and a sentence with it, or else between two sentences of a line, and never inside a table or
    a fence; in the midst of a sentence only where one alone is longer than the room.
    """
    text, room = text.strip(), head + tail
    size = len(text)
    if size <= room + len(GAP) + 2:
        return text
    places, last = _places(text)
    if tail < size - last <= room:
        end = last
    else:
        end = next((at for at in places if size - at <= tail), 0) or _any(text, size - tail, size)
    most = min(head, room - (size - end))
    start = next((at for at in reversed(places) if at <= most), 0)
    start = start or next((at for at in places if at <= 2 * most and at <= room - (size - end)), 0)
    start = start or (0 if _FENCE.match(text) or _ROW.match(text) else _any(text, 0, most))
    shown = (text[:start].rstrip(), GAP, text[end:].strip("\n"))
    return "\n".join(part for part in shown if part)


def _places(text: str) -> tuple[list[int], int]:
    """Find where a text may be cut, and where its last paragraph begins."""
    places, last, at = list[int](), 0, 0
    fence, before = "", ""
    for number, row in enumerate(text.split("\n")):
        mark = _FENCE.match(row)
        if not fence and number and _cuttable(before, row):
            places.append(at)
        if not fence and number and not before.strip() and row.strip():
            last = at
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and not _ROW.match(row):
            places += (at + found.end() for found in _SENTENCE.finditer(row))
        before, at = row, at + len(row) + 1
    return places, last


def _cuttable(before: str, row: str) -> bool:
    """Whether a text may be cut between two lines that stand in no fence."""
    if _ROW.match(before) and _ROW.match(row):
        return False
    return bool(not before.strip() or _OWN.match(row) or _ENDED.search(before) or (row[:1].isupper() and _OWN.match(before)))


def _any(text: str, low: int, high: int) -> int:
    """Find a place between two others where nothing better is: the last one of a beginning, or the first one of an end, where
    a line ends, or else a word, unless that leaves less than half."""
    half = (low + high) // 2
    if low == 0:
        return next((at for sign in "\n " if (at := text.rfind(sign, half, high)) >= 0), high)
    return next((at + 1 for sign in "\n " if (at := text.find(sign, low, half)) >= 0), low)


def ending(text: str, size: int = TAIL) -> str:
    """Keep the end of a text: its last paragraph whole and what before it has room, or its last sentences."""
    return middle(text, 0, size).removeprefix(GAP + "\n")
