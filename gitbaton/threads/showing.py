"""Decoded values as lines for people: bounded, in Python's notation, and no character in them drives a terminal."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

from gitbaton.threads.decoding import Doc
from gitbaton.values import value

WIDTH = 100
MOST = 300
_INDENT = "  "
_SMALL = 24  # characters up to which several values share a line
_BLOCK = 60  # characters from which a text of several lines is shown as such
_MESSAGES = "langchain_core.messages"
_SHORT = ("builtins", "datetime", "collections", "decimal", "uuid")  # whose small names need no module before them


@value
class _Group:
    """What stands between two brackets: each item after its name and ``=`` or its key and ``: ``."""

    open: str
    items: tuple[tuple[str, Doc], ...]
    close: str


def pretty(doc: Doc, before: str = "", most: int = MOST) -> list[str]:
    """A value as lines, the first one after ``before``: one line where it fits, else an item a line, at most ``most``."""
    rows = _rows(doc, before)
    if len(rows) <= most:
        return rows
    return [*rows[:most], f"... {len(rows) - most:,} more lines; --json has them all"]


def flat(doc: Doc) -> str:
    """A value in one line, however long."""
    if not isinstance(doc, (list, dict)):
        return repr(doc)
    group = _group(doc)
    if isinstance(group, str):
        return group
    return group.open + ", ".join(before + flat(item) for before, item in group.items) + group.close


def _rows(doc: Doc, before: str) -> list[str]:
    one = before + flat(doc)
    if isinstance(doc, str):
        return _block(doc, before) if "\n" in doc and len(doc) > _BLOCK else [one]
    group = _group(doc) if isinstance(doc, (list, dict)) else ""
    if isinstance(group, str) or (len(one) <= WIDTH and not _broken(doc)):
        return [one]
    rows = [before + group.open]
    small = [flat(item) for _, item in group.items] if isinstance(doc, list) else []
    if small and max(map(len, small)) <= _SMALL:
        return [*rows, *(_INDENT + row for row in _filled(small)), group.close]
    for name, item in group.items:
        inner = _rows(item, name)
        inner[-1] += "," if not inner[-1].startswith("...") else ""
        rows += [_INDENT + row for row in inner]
    return [*rows, group.close]


def _filled(words: list[str]) -> list[str]:
    """Short values, as many in a line as fit."""
    rows = [""]
    for word in words:
        word += "," if not word.startswith("...") else ""
        if rows[-1] and len(rows[-1]) + 1 + len(word) > WIDTH - len(_INDENT):
            rows.append("")
        rows[-1] += f" {word}" if rows[-1] else word
    return rows


def _broken(doc: Doc) -> bool:
    """Whether a text of several lines is in it, which is read better line by line."""
    if isinstance(doc, str):
        return "\n" in doc and len(doc) > _BLOCK
    inner = doc.values() if isinstance(doc, dict) else doc if isinstance(doc, list) else ()
    return any(_broken(item) for item in inner)


def _block(text: str, before: str) -> list[str]:
    """A text of several lines, one line each, as Python joins texts that follow each other."""
    rows = [repr(row) for row in text.splitlines(keepends=True)]
    return [before + rows[0], *(_INDENT + row for row in rows[1:])]


def _group(doc: list[Doc] | dict[str, Doc]) -> _Group | str:
    """The parts of a value that has any, or all of it."""
    if isinstance(doc, list):
        return _Group(open="[", items=tuple(_items(doc)), close="]")
    if "$text" in doc:
        return f"{doc['$text']!r}... {_said(doc)}"
    kind, cut = doc.get("$type"), doc.get("$cut")
    if kind is None:
        return f"... {_said(doc)}" if list(doc) == ["$cut"] else _Group(open="{", items=tuple(_pairs(doc)), close="}")
    if kind == "bytes":
        return _bytes(doc)
    if kind == "float":
        return str(doc.get("$value"))
    pairs = doc.get("$value")
    if kind == "dict" and isinstance(pairs, list):
        return _Group(open="{", items=tuple(_keyed(pairs)), close="}")
    name = _short(str(kind))
    if "$args" in doc and isinstance(doc["$args"], list):
        return _Group(open=f"{name}(", items=tuple(_items(doc["$args"])), close=")")
    fields = doc.get("$fields")
    if isinstance(fields, dict):
        return _Group(open=f"{name}(", items=tuple(_fields(str(kind), fields)), close=")")
    if "$value" in doc:
        return _Group(open=f"{name}(", items=(("", doc["$value"]),), close=")")
    return f"{name}({_said(doc)})" if cut is not None else f"{name}()"


def _said(doc: dict[str, Doc]) -> str:
    return str(doc.get("$cut", ""))


def _items(items: list[Doc]) -> Iterator[tuple[str, Doc]]:
    yield from (("", item) for item in items)


def _pairs(doc: dict[str, Doc]) -> Iterator[tuple[str, Doc]]:
    for key, item in doc.items():
        yield ("", {"$cut": item}) if key == "$cut" else (f"{key!r}: ", item)


def _keyed(pairs: list[Doc]) -> Iterator[tuple[str, Doc]]:
    """A map whose keys are not all plain texts."""
    for pair in pairs:
        whole = isinstance(pair, list) and len(pair) == 2
        yield (f"{flat(pair[0])}: ", pair[1]) if whole else ("", pair)


def _fields(kind: str, fields: dict[str, Doc]) -> Iterator[tuple[str, Doc]]:
    """The fields of an object by name. What a message leaves empty is left out, as is its type, which its name says."""
    message = kind.startswith(_MESSAGES)
    for key, item in fields.items():
        if message and (item in (None, [], {}) or key == "type"):
            continue
        if key == "$cut":
            yield "", {"$cut": item}
        else:
            yield (f"{key}=" if key.isidentifier() and key.isascii() else f"{key!r}="), item


def _bytes(doc: dict[str, Doc]) -> str:
    try:
        data = base64.b64decode(str(doc.get("$value")), validate=True)
    except (binascii.Error, ValueError):
        return "bytes"  # a secret in it was taken out
    return f"{data!r}... {_said(doc)}" if "$cut" in doc else repr(data)


def _short(kind: str) -> str:
    """A type's own name; with its module where it is a function or unknown."""
    module, _, name = kind.rpartition(".")
    small = name[:1].islower() and module not in _SHORT
    return kind if small or kind.startswith("type ") else name
