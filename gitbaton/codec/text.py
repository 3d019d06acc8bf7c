"""Canonical JSON and plain text: the same bytes for the same value, and none that drives a terminal."""

from __future__ import annotations

import json
import re
import unicodedata
from datetime import UTC, datetime

from gitbaton.errors import RecordError

Json = None | bool | int | str | list["Json"] | dict[str, "Json"]

MAX_BYTES = 1 << 20
MAX_DEPTH = 8
_SURROGATE = re.compile("[\ud800-\udfff]")
_SPECIAL = re.compile(r"[^ !#-\[\]-~]")
_CONTROL = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs"})


def is_control(char: str) -> bool:
    """Whether a character could drive a terminal or hide text: Unicode categories Cc, Cf, Zl, Zp and Cs."""
    return unicodedata.category(char) in _CONTROL


def plain(text: str, keep: str = "") -> str:
    """``text`` with every control and format character as ``?``, except those in ``keep``."""
    if text.isprintable():
        return text
    return "".join("?" if is_control(c) and c not in keep else c for c in text)


def first_line(text: str) -> str:
    """The first line of ``text`` that is not blank, without blanks around it, safe for a terminal; empty when there is none."""
    lines = (line.strip() for line in text.split("\n"))
    return plain(next((line for line in lines if line), ""))


def canonical(value: Json) -> bytes:
    """The canonical bytes of a JSON value: key order as given, two-space indent, UTF-8, one newline at the end."""
    return (_dump(value, "\n") + "\n").encode("utf-8")


def _dump(value: Json, newline: str) -> str:
    if isinstance(value, str):
        return '"' + _SPECIAL.sub(_escape, value) + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    inner = newline + "  "
    if isinstance(value, dict):
        items = [_dump(k, inner) + ": " + _dump(v, inner) for k, v in value.items()]
        opening, closing = "{", "}"
    else:
        items = [_dump(v, inner) for v in value]
        opening, closing = "[", "]"
    return opening + inner + ("," + inner).join(items) + newline + closing if items else opening + closing


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in '"\\':
        return "\\" + char
    if char == "\n":
        return "\\n"
    if char == "\t":
        return "\\t"
    if not is_control(char):
        return char
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def parse(raw: bytes) -> Json:
    """The value of JSON bytes that anybody may have written.

    Raises RecordError when they are over 1 MiB, not UTF-8, not JSON, deeper than 8, or hold a float, a key twice or half of
    a surrogate pair.
    """
    if len(raw) > MAX_BYTES:
        raise RecordError(f"record of {len(raw)} bytes is over the limit of {MAX_BYTES}")
    try:
        value: Json = json.loads(
            raw.decode("utf-8"), object_pairs_hook=unique, parse_float=_no_number, parse_constant=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise RecordError(f"record is not JSON: {plain(str(error))[:100]}") from None
    _check(value, MAX_DEPTH)
    return value


def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The object of some pairs of JSON. Raises ValueError for a key that stands twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _no_number(text: str) -> Json:
    raise ValueError(f"number {text[:20]} is not an integer")


def _check(value: Json, left: int) -> None:
    """Refuse what is nested too deep, and text that no UTF-8 can hold."""
    if not isinstance(value, (dict, list)):
        value = [value]
        left += 1
    if left == 0:
        raise RecordError(f"record is nested deeper than {MAX_DEPTH}")
    for item in (*value, *value.values()) if isinstance(value, dict) else value:
        if isinstance(item, str):
            if not item.isprintable() and _SURROGATE.search(item):
                raise RecordError("record holds half of a surrogate pair")
        elif isinstance(item, (dict, list)):
            _check(item, left - 1)


def counted(number: int, noun: str) -> str:
    """``1 checkpoint``, ``2 checkpoints``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def timestamp(value: datetime) -> str:
    """RFC 3339 in UTC with microseconds."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")
