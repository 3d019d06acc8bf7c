"""Display of stored values as JSON or lines: nothing that the data names is imported, and no character drives a terminal."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gitbaton.base.codec import plain
from gitbaton.base.errors import ScanError
from gitbaton.base.values import value
from gitbaton.langgraph.threads.codec import Typed

Doc = Any
WIDTH = 100
MOST = 300
_INDENT = "  "
_SMALL = 24  # characters up to which several values share a line
_BLOCK = 60  # characters from which a text of several lines is shown as such
_MESSAGES = "langchain_core.messages"
_SHORT = ("builtins", "datetime", "collections", "decimal", "uuid")  # whose small names need no module before them


"""A JSON value. An object whose keys begin with ``$`` stands for what JSON has no word for: ``$type`` with ``$value``,
``$args`` or ``$fields``; ``$text`` the beginning of a long text; ``$cut`` says what is left out. What was stored with such keys
itself comes as ``{"$type": "dict", "$value": [[key, value], ...]}``, so none can be forged."""

_SINGLE, _ARGS, _FIELDS, _METHOD, _MODEL_1, _MODEL_2, _ARRAY, _DELTA = range(8)  # what LangGraph's serialiser calls its codes
_OVERLAP = 4096  # characters beyond a cut that are looked at, so that no half of a secret stays


@value
class Limits:
    """Limits of what is shown of one value: ``depth`` of nesting, ``items`` of each list or map, ``text`` characters or bytes
    of each string, ``nodes`` in all."""

    depth: int
    items: int
    text: int
    nodes: int


SCREEN = Limits(depth=12, items=50, text=2000, nodes=1500)
WHOLE = Limits(depth=64, items=1 << 40, text=1 << 40, nodes=1 << 40)


class _Ext:
    """A value of a type of its own as msgpack has it, still closed."""

    __slots__ = ("code", "data")

    def __init__(self, code: int, data: bytes) -> None:
        self.code, self.data = code, data


def readable() -> bool:
    """Whether values in msgpack can be read: ormsgpack is there, which comes with ``gitbaton[langgraph]``."""
    try:
        return _unpacked(b"\xc0") is None
    except ValueError:
        return False


def opaque(kind: str) -> str:
    """Why values of a type are never opened; empty for those that are."""
    if kind in ("null", "empty", "bytes", "bytearray", "json", "msgpack"):
        return ""
    if "+" in kind:
        return "encrypted, not opened"
    return "never opened" if kind == "pickle" else "of a type that is not known"


def opened(typed: Typed) -> object:
    """Decode a stored value; extension types in it stay closed. Raises ValueError, in words, for what is not what its type
    says, for one that is never opened, and where msgpack cannot be read."""
    kind, data = typed
    if opaque(kind):
        raise ValueError(opaque(kind))
    if kind in ("null", "empty"):
        return None
    if kind == "msgpack":
        return _unpacked(data)
    if kind != "json":
        return bytes(data)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("not JSON, as its type says") from None


def document(content: object, limits: Limits, clean: Callable[[str], str]) -> Doc:
    """Return a decoded value as JSON; ``clean`` takes secrets out of a long text before it is cut."""
    return _Walk(limits, clean).doc(content, 0)


def _unpacked(data: bytes) -> object:
    try:
        import ormsgpack
    except ImportError:
        raise ValueError("not read") from None
    try:
        return ormsgpack.unpackb(data, ext_hook=_Ext, option=ormsgpack.OPT_NON_STR_KEYS)
    except (ValueError, TypeError, RecursionError):
        raise ValueError("not msgpack, as its type says") from None


class _Walk:
    """One value, from its top, as long as the limits allow it."""

    def __init__(self, limits: Limits, clean: Callable[[str], str]) -> None:
        self.limits, self.clean, self.left = limits, clean, limits.nodes

    def doc(self, content: object, depth: int) -> Doc:
        """The JSON of what was read."""
        self.left -= 1
        if isinstance(content, str):
            return self._text(content)
        if content is None or isinstance(content, (bool, int)):
            return content
        if isinstance(content, float):
            return content if math.isfinite(content) else {"$type": "float", "$value": repr(content)}
        if isinstance(content, bytes):
            return self._bytes(content)
        if depth >= self.limits.depth:
            return {"$cut": f"nested deeper than {self.limits.depth}"}
        if isinstance(content, Mapping):
            return self._map(content, depth + 1)
        if isinstance(content, (list, tuple)):
            return self._list(content, depth + 1)
        return self._ext(content, depth + 1) if isinstance(content, _Ext) else {"$type": plain(type(content).__name__)}

    def _text(self, text: str) -> Doc:
        most = self.limits.text
        self.left -= min(len(text), most) // 100  # a long text counts as many short ones
        if len(text) <= most:
            return text
        head = self.clean(text[: most + _OVERLAP])[:most]
        return {"$text": head, "$cut": f"{len(text) - most:,} more characters"}

    def _bytes(self, data: bytes) -> Doc:
        most = self.limits.text
        head = self.clean(data[: most + _OVERLAP].decode("latin-1")).encode("latin-1")[:most]
        doc: dict[str, Doc] = {"$type": "bytes", "$value": base64.b64encode(head).decode("ascii")}
        return doc if len(data) <= most else {**doc, "$cut": f"{len(data) - most:,} more bytes"}

    def _list(self, items: list[object] | tuple[object, ...], depth: int) -> Doc:
        found: list[Doc] = []
        for item in items[: min(len(items), self.limits.items)]:
            if self.left <= 0:
                break
            found.append(self.doc(item, depth))
        return found if len(found) == len(items) else [*found, {"$cut": f"{len(items) - len(found):,} more"}]

    def _map(self, content: Mapping[Any, object], depth: int) -> Doc:
        if any(not isinstance(key, str) or key.startswith("$") or len(key) > self.limits.text for key in content):
            pairs: list[object] = [[key, item] for key, item in content.items()]
            return {"$type": "dict", "$value": self._list(pairs, depth)}
        found: dict[str, Doc] = {}
        for key, item in content.items():
            if self.left <= 0 or len(found) >= self.limits.items:
                break
            found[key] = self.doc(item, depth)
        return found if len(found) == len(content) else {**found, "$cut": f"{len(content) - len(found):,} more"}

    def _ext(self, ext: _Ext, depth: int) -> Doc:
        """Return what LangGraph's serialiser would construct, by name and arguments."""
        if self.left <= 0:
            return {"$cut": f"{len(ext.data):,} bytes"}
        try:
            inner = _unpacked(ext.data)
        except ValueError:
            return self._closed(ext)
        if ext.code == _DELTA:
            return {"$type": "_DeltaSnapshot", "$value": self.doc(inner, depth)}
        if not isinstance(inner, list) or len(inner) < 3 or not _SINGLE <= ext.code <= _ARRAY:
            return self._closed(ext)
        if ext.code == _ARRAY:
            size = len(inner[3]) if len(inner) > 3 and isinstance(inner[3], bytes) else 0
            fields = {"dtype": self.doc(inner[0], depth), "shape": self.doc(inner[1], depth)}
            return {"$type": "numpy.ndarray", "$fields": {**fields, "$cut": f"{size:,} bytes"}}
        module, name, arguments = inner[0], inner[1], inner[2]
        if not isinstance(module, str) or not isinstance(name, str):
            return self._closed(ext)
        return {"$type": _name(module, name), **self._arguments(ext.code, arguments, depth)}

    def _arguments(self, code: int, arguments: object, depth: int) -> dict[str, Doc]:
        if code == _ARGS and isinstance(arguments, list):
            return {"$args": self._list(arguments, depth)}
        if code in (_FIELDS, _MODEL_1, _MODEL_2) and isinstance(arguments, dict):
            made = self._map(arguments, depth)
            return {"$value" if "$type" in made else "$fields": made}
        return {"$value": self.doc(arguments, depth)}

    def _closed(self, ext: _Ext) -> Doc:
        """Return the code and size of an unknown extension."""
        return {"$type": f"ext {ext.code}", "$cut": f"{len(ext.data):,} bytes"}


def _name(module: str, name: str) -> str:
    """A type's whole name, as the data has it, in a form that is a name and nothing else."""
    parts = f"{module}.{name}".split(".")
    fine = all(part.isidentifier() and part.isascii() for part in parts)
    text = ".".join(parts)
    return text if fine and len(text) <= 200 else f"type {text[:200]!r}"


def documents(items: Iterable[tuple[str, Doc]], redact: Callable[[bytes], bytes]) -> list[Doc]:
    """Named values without the secrets in them; a name counts, as ``api_key`` does. ``redact`` takes a line of JSON. Raises
    ScanError, also where what it gives is not as many values."""
    docs = list(items)
    raw = json.dumps([{name: doc} for name, doc in docs], ensure_ascii=True, allow_nan=False).encode("ascii")
    safe = redact(raw)
    if safe == raw:
        return [doc for _, doc in docs]
    try:
        found = [doc for row in json.loads(safe) for doc in row.values()]
    except (ValueError, AttributeError, TypeError):
        found = []
    if len(found) != len(docs):
        raise ScanError("nothing is shown: the scanner for secrets changed more than the secrets")
    return found


def pretty(doc: Doc) -> list[str]:
    """A value as lines: one line where it fits, else an item a line, at most MOST."""
    rows = _rows(doc, "")
    return rows if len(rows) <= MOST else [*rows[:MOST], f"... {len(rows) - MOST:,} more lines; --json has them all"]


def flat(doc: Doc) -> str:
    """A value in one line, however long."""
    if not isinstance(doc, (list, dict)):
        return repr(doc)
    start, items, end = _group(doc)
    return start + ", ".join(before + flat(item) for before, item in items) + end


def _rows(doc: Doc, before: str) -> list[str]:
    one = before + flat(doc)
    if isinstance(doc, str):
        return _block(doc, before) if "\n" in doc and len(doc) > _BLOCK else [one]
    start, items, end = _group(doc) if isinstance(doc, (list, dict)) else (one, [], "")
    if not items or (len(one) <= WIDTH and not _broken(doc)):
        return [one]
    rows = [before + start]
    small = [flat(item) for _, item in items] if isinstance(doc, list) else []
    if small and max(map(len, small)) <= _SMALL:
        return [*rows, *(_INDENT + row for row in _filled(small)), end]
    for name, item in items:
        inner = _rows(item, name)
        inner[-1] += "," if not inner[-1].startswith("...") else ""
        rows += [_INDENT + row for row in inner]
    return [*rows, end]


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


def _group(doc: list[Doc] | dict[str, Doc]) -> tuple[str, list[tuple[str, Doc]], str]:
    """A value as what stands between two brackets, each item after its name and ``=`` or its key and ``: ``; one that has no
    parts, as the first of them."""
    if isinstance(doc, list):
        return "[", _items(doc), "]"
    if "$text" in doc:
        return f"{doc['$text']!r}... {_said(doc)}", [], ""
    kind, pairs, fields = doc.get("$type"), doc.get("$value"), doc.get("$fields")
    if kind is None:
        return (f"... {_said(doc)}", [], "") if list(doc) == ["$cut"] else ("{", _pairs(doc), "}")
    if kind == "bytes":
        return _bytes(doc), [], ""
    if kind == "float":
        return str(pairs), [], ""
    if kind == "dict" and isinstance(pairs, list):
        return "{", [(f"{flat(p[0])}: ", p[1]) if isinstance(p, list) and len(p) == 2 else ("", p) for p in pairs], "}"
    name = _short(str(kind))
    if isinstance(doc.get("$args"), list):
        return f"{name}(", _items(doc["$args"]), ")"
    if isinstance(fields, dict):
        return f"{name}(", _fields(str(kind), fields), ")"
    if "$value" in doc:
        return f"{name}(", [("", pairs)], ")"
    return f"{name}({_said(doc)})", [], ""


def _said(doc: dict[str, Doc]) -> str:
    return str(doc.get("$cut", ""))


def _items(items: list[Doc]) -> list[tuple[str, Doc]]:
    return [("", item) for item in items]


def _pairs(doc: dict[str, Doc]) -> list[tuple[str, Doc]]:
    return [("", {"$cut": item}) if key == "$cut" else (f"{key!r}: ", item) for key, item in doc.items()]


def _fields(kind: str, fields: dict[str, Doc]) -> list[tuple[str, Doc]]:
    """The fields of an object by name. What a message leaves empty is left out, as is its type, which its name says."""
    found = []
    for key, item in fields.items():
        if kind.startswith(_MESSAGES) and (item in (None, [], {}) or key == "type"):
            continue
        if key == "$cut":
            found.append(("", {"$cut": item}))
        else:
            found.append((f"{key}=" if key.isidentifier() and key.isascii() else f"{key!r}=", item))
    return found


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
