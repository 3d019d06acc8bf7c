"""Stored words as they are shown: a mark for what cannot be seen, quotes that no word ends, long texts cut to size. Words on a
terminal, a page, in Markdown, JSON, a completion or for a model come from here."""

from __future__ import annotations

import errno
import os
import re
import unicodedata
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MARK = "?"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Default_Ignorable_Code_Point (DerivedCoreProperties.txt of Unicode 16) among letters and marks: joiners, fillers and variation
# selectors. The rest of it has a category of what cannot be seen.
_IGNORED = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)
# Cc, Cf, Zl, Zp, Cs, Co, noncharacters and the rest of it, written down: Python's tables differ from version to version.
_UNSEEN = (
    "\0-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\uf8ff\ufdd0-\ufdef\ufeff\ufff0-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0xE0000, 0x10000))
    + "\U000e0000-\U000e0fff\U000efffe-\U0010ffff"
)
# Extended_Pictographic (emoji-data.txt), in few ranges: what stands between its blocks has no emoji sequences.
_PICTURE = (
    "[\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23fa\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935\u2b05-\u2b55\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff]"
)
_IDLE = (
    r"(?i)"
    r"(?:(?:ok(?:ay)?|yes|yep|yeah|yup|y|no|nope|n|sure|please|thanks?|thank you|great|good|nice|perfect|cool|right|fine|now"
    r"|and|or|then|just|so|go|on|ahead|continue|carry|keep|going|proceed|next|resume|do|it|this|that|these|those|them|all|both|of|the"
    r"|first|second|third|last|one|ones|two|three|option|choice|number|point|points|with|let'?s|let us|i"
    r"|agree|agreed|approved?|correct|exactly|absolutely|definitely|sounds|looks|works|for me|to me|as|you|suggest(?:ed)?"
    r"|propose[ds]?|recommend(?:ed)?|lgtm|hi|hello|hey|weiter|ja|nein|bitte|retry|again|try|\#?[0-9]{1,2}|[a-e])"
    r"(?:[\s.,!:;)&+]|\Z)+)+\Z"
)
_IDLE_LENGTH = 80
_BANNERS = ("gbeng", "gbsct", "gbwls")  # the flags whose tags are no hidden text
_ENDS = r"""['"`\\()\[\]<>]|[,;:.!?](?=\s|\Z)|\A\W*\Z|\A\s|\s\Z"""
_QUOTES = str.maketrans({char: f"\\{char}" for char in "'\"`\\"})
HEAD, TAIL = 250, 600
"""Characters that stay of a long text, of its beginning and of its end."""
GAP = "[...]"
"""The line that stands for what was cut out."""
_ENDED = r"[.!?:;][\"'`*_)\]]*\s*\Z"
_SENTENCE = r"(?<=[^\W\d_][^\W_]|.[)\]`'\"*_])[.!?][\"'`*_)\]]*[ \t]+(?=\S)"
_OWN = r"[ \t]*(?:[-*+>#|\u2022\u2610-\u2612\u2713-\u2718]|\(?[0-9]{1,3}[.)][ \t]|```|~~~|\Z)"
"""How a line begins that goes on with no sentence of the line before: a point, a heading, a row, a fence, nothing."""
_FENCE = r"[ \t]*(```+|~~~+)"
_ROW = r"[ \t]*\|"
ODD_BLANKS = frozenset("\xa0\u1680\u202f\u205f\u2800\u3000").union(map(chr, range(0x2000, 0x200B)))
"""What could be taken for a space: category Zs, and the Braille pattern without dots."""


def is_hidden(char: str) -> bool:
    """Whether a character cannot be seen, drives a terminal, or has no meaning that this Python knows of."""
    return char in _IGNORED if char.isprintable() else unicodedata.category(char) != "Zs"


def plain(text: str, keep: str = "") -> str:
    """``text`` with every character that cannot be seen as ``?``, except those in ``keep`` and those of emoji."""
    if _is_plain(text, keep):
        return text
    return _each(text, lambda part: "".join(MARK if is_hidden(c) and c not in keep else c for c in part))


def _is_plain(text: str, keep: str) -> bool:
    """Whether a text hides nothing, which nearly always can be told at once."""
    for char in keep:
        text = text.replace(char, "")
    return text.isprintable() and (text.isascii() or _IGNORED.isdisjoint(text))


def stable(text: str, keep: str = "") -> str:
    """Make a text plain as ``plain`` does, and the same in every version of Python: for what is stored."""
    if text.isascii():
        return plain(text, keep)
    return _each(text, lambda part: _unseen().sub(lambda found: found[0] if found[0] in keep else MARK, part))


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(f"[{_UNSEEN}{''.join(_IGNORED)}]")


def escaped(json: str) -> str:
    """JSON with every character that cannot be seen as ``\\u`` and four digits, once or twice: what it says stays the same."""
    if json.isascii() or _is_plain(json, "\n"):
        return json
    return _each(json, lambda part: "".join(_unit(c) if c != "\n" and is_hidden(c) else c for c in part))


def _unit(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


@cache
def _emoji() -> re.Pattern[str]:
    """Sequences of UTS #51, in which what cannot be seen alone means something; of flags by tags only those in use."""
    one = f"{_PICTURE}[\U0001f3fb-\U0001f3ff\ufe0f]?"
    flags = "|".join("".join(chr(0xE0000 + ord(c)) for c in name) for name in _BANNERS)
    return re.compile(f"\U0001f3f4(?:{flags})\U000e007f|[0-9#*]\ufe0f\u20e3|{one}(?:\u200d{one})*")


def _each(text: str, shown: Callable[[str], str]) -> str:
    """A text, all of it but emoji as it is ``shown``."""
    if "\u200d" not in text and "\ufe0f" not in text and "\U000e007f" not in text:
        return shown(text)
    parts, at = [], 0
    for found in _emoji().finditer(text):
        parts += [shown(text[at : found.start()]), found[0]]
        at = found.end()
    return "".join([*parts, shown(text[at:])])


def first_line(text: str) -> str:
    """The first line of ``text`` that is not blank, without blanks around it, safe for a terminal; empty when there is none."""
    lines = (line.strip() for line in text.split("\n"))
    return plain(next((line for line in lines if line), ""))


def idle(text: str) -> bool:
    """Whether a prompt says nothing of what is wanted: ``continue``, ``ok``, ``yes, go on``, ``2``, ``the first one``."""
    said = text.strip().strip("\"'")
    return len(said) <= _IDLE_LENGTH and re.match(_IDLE, said) is not None


def in_quotes(text: str) -> str:
    """A stored word in a sentence of ours: in single quotes; in double ones, and escaped, where it holds a quote of any kind or
    ends in a backslash. Nothing in it ends the quotes, and no other blank passes for a space."""
    shown = plain(text)
    if not shown.isascii():
        shown = "".join(MARK if char in ODD_BLANKS else char for char in shown)
    if shown.endswith("\\") or any(quote in shown for quote in "'\"`"):
        return f'"{shown.translate(_QUOTES)}"'
    return f"'{shown}'"


def os_error(error: BaseException) -> str:
    """An error of the system in a line of ours: the path that it is about, where a call had one, and the system's words; of any
    other its own words."""
    if not isinstance(error, OSError):
        return str(error)
    path = error.filename2 or error.filename  # of a rename the name that stays
    unnamed = "a file cannot be written: " if error.errno in _NO_ROOM else ""
    name = f"{in_quotes(os.fsdecode(path))}: " if isinstance(path, (str, bytes)) else unnamed
    return f"{name}{error.strerror or error}"


def in_double_quotes(text: str) -> str:
    """A longer stored text in a sentence of ours, or at the end of one: in double quotes, which nothing in it ends."""
    return f'"{quotable(plain(text))}"'


def quotable(text: str) -> str:
    """A text as it stands between double quotes: escaped only where it could end them."""
    return re.sub(r'["\\]', r"\\\g<0>", text) if '"' in text or text.endswith("\\") else text


def bare(text: str, *, blanks: bool = False) -> str:
    """A stored word in a sentence of ours that needs no quotes where it cannot be taken for more than itself: it is one word,
    or with ``blanks`` several, and holds no sign that a sentence has."""
    if text.isascii() and text.isalnum():
        return text
    quoted = in_quotes(text)
    one = quoted == f"'{text}'" and (blanks or " " not in text) and not re.search(_ENDS, text)
    return text if one else quoted


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
    start = start or (0 if re.match(_FENCE, text) or re.match(_ROW, text) else _any(text, 0, most))
    return "\n".join(filter(None, (text[:start].rstrip(), GAP, text[end:].strip("\n"))))


def _places(text: str) -> tuple[list[int], int]:
    """Find where a text may be cut, and where its last paragraph begins."""
    places, last, at = list[int](), 0, 0
    fence, before = "", ""
    for number, row in enumerate(text.split("\n")):
        mark = re.match(_FENCE, row)
        if not fence and number and _cuttable(before, row):
            places.append(at)
        if not fence and number and not before.strip() and row.strip():
            last = at
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        elif not fence and not re.match(_ROW, row):
            places += (at + found.end() for found in re.finditer(_SENTENCE, row))
        before, at = row, at + len(row) + 1
    return places, last


def _cuttable(before: str, row: str) -> bool:
    """Whether a text may be cut between two lines that stand in no fence."""
    if re.match(_ROW, before) and re.match(_ROW, row):
        return False
    return bool(
        not before.strip() or re.match(_OWN, row) or re.search(_ENDED, before) or (row[:1].isupper() and re.match(_OWN, before))
    )


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
