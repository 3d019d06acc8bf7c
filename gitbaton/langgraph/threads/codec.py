"""Codec of threads: checkpoints with their channels and writes of tasks, as JSON, blobs and records of the log. No I/O."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.git.objects import LONGEST, Algorithm, Kind
from gitbaton.langgraph.threads.names import ref_of, tree_name

if TYPE_CHECKING:
    from typing import Any


Id = bytes
"""An object id as its 20 or 32 bytes; hexadecimal only where people or git's text formats need it."""

Typed = tuple[str, bytes]
"""A serialised value: what LangGraph's serialiser calls its type, and its bytes."""

Row = tuple[str, str, int, str, str, bytes]
"""One write of a task: task path, task id, index, channel, type, bytes. Rows compare in LangGraph's ``writes_sort_key``."""

Jump = tuple[Id, str, int]
"""A commit further down in a chain: its id, and the id and number of its checkpoint."""

Parts = tuple[Mapping[str, Id], Mapping[str, Id], Mapping[str, Id]]
"""What a checkpoint's tree holds: channels, rest, written."""


class ThreadCheckpoint:
    """One checkpoint of a thread in one namespace.

    ``id`` is the checkpoint's own and ``parent`` that of the checkpoint it follows, which need not be here. ``ck`` is the JSON
    text of the checkpoint without the values of its channels, ``md`` that of its metadata, both ASCII; an empty one stands in
    ``rest``. ``channels`` gives the blob of each channel's value, ``rest`` blobs of what JSON cannot carry (``ck``, ``md``),
    and ``written`` the blob of each task's writes, without those that came late. Of an entry of a chain these three are read
    from its ``tree`` when they are first asked for, which may raise GitError or RecordError. ``commit`` is None until it is in
    git; ``up`` is the commit below it, ``seq`` how many are below it, ``jump`` some that are further down, ``subject`` the
    first line of the commit's message, ``names`` what it says of thread and namespace where their ref cannot hold them.
    ``memo`` belongs to the reader of entries. All else never changes: a changed checkpoint is another Entry."""

    __slots__ = (
        *("__weakref__", "channels", "ck", "commit", "id", "jump", "load", "md", "memo", "names"),
        *("parent", "rest", "seq", "subject", "tree", "up", "written"),
    )
    if TYPE_CHECKING:
        channels: Mapping[str, Id]
        rest: Mapping[str, Id]
        written: Mapping[str, Id]

    def __init__(
        self,
        id: str,
        parent: str | None,
        ck: bytes,
        md: bytes,
        channels: Mapping[str, Id] | None,
        *,
        rest: Mapping[str, Id] | None = None,
        written: Mapping[str, Id] | None = None,
        commit: Id | None = None,
        up: Id | None = None,
        seq: int = -1,
        jump: tuple[Jump, ...] = (),
        tree: Id | None = None,
        subject: bytes = b"",
        load: Callable[[ThreadCheckpoint], Parts] | None = None,
        names: bytes = b"",
    ) -> None:
        self.id, self.parent, self.ck, self.md = id, parent, ck, md
        if channels is not None:
            self.channels, self.rest, self.written = channels, rest or {}, written or {}
        self.commit, self.up, self.seq, self.jump, self.tree = commit, up, seq, jump, tree
        self.subject, self.load, self.names = subject, load, names
        self.memo: Any = None

    def __getattr__(self, name: str) -> Any:  # of a slot that is not filled yet
        if name not in ("channels", "rest", "written") or self.load is None:
            raise AttributeError(name)
        self.channels, self.rest, self.written = self.load(self)
        return getattr(self, name)

    def bare(self) -> ThreadCheckpoint:
        """Return the checkpoint without its place in a chain and without writes."""
        return ThreadCheckpoint(self.id, self.parent, self.ck, self.md, self.channels, rest=self.rest, names=self.names)

    def __repr__(self) -> str:
        return f"ThreadCheckpoint({self.id!r}, commit={self.commit.hex() if self.commit else None})"


@value
class Put:
    """A checkpoint as the log has it: ``blobs`` are the contents (``type``, NUL, bytes) of its new blobs."""

    thread: str
    namespace: str
    entry: ThreadCheckpoint
    blobs: Mapping[Id, bytes]


@value
class PutWrites:
    """Writes of one task as the log has them. ``replace``: they all take the place of rows with the same task and index; else
    a row that is there stays, unless ``replaces`` says otherwise."""

    thread: str
    namespace: str
    id: str
    rows: tuple[Row, ...]
    replace: bool


WIDTH = {"sha1": 20, "sha256": 32}
REST = ("ck", "md")
_HASH = {20: hashlib.sha1, 32: hashlib.sha256}
_NAME: Mapping[Kind, bytes] = {"commit": b"commit", "tree": b"tree", "blob": b"blob", "tag": b"tag"}
_WHOLE = 4096  # bytes up to which one call with a copy costs less than two
_DEPTH = 100  # what is nested deeper than this is left to the serialiser
_SHORT = 1100  # bytes of JSON whose names cannot be too long for git: what takes one byte here takes at most three there
_PUT, _WRITES = b"P", b"W"
_TEXT = frozenset({str})
_ROW = [str, str, int, str, str, bytes]
_SIMPLE = frozenset({str, int, float, bool, type(None)})
_BROKEN = (ValueError, TypeError, KeyError, IndexError)
_MARKS = re.compile(rb'"(?:[^"\\]|\\.)*+"|[][{}]')


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_dump: Callable[[object], str] = _ENCODER.encode
_make = getattr(json.encoder, "c_make_encoder", None)
if _make is not None:
    # one C encoder for all calls: JSONEncoder.encode makes a new one each time
    _chunks = _make(None, _ENCODER.default, json.encoder.encode_basestring_ascii, None, ":", ",", False, False, False)

    def _dump(item: object) -> str:
        return "".join(_chunks(item, 0))


_load = json.JSONDecoder(parse_constant=_refuse).decode


def loads(raw: bytes) -> Any:
    """Return the value of stored JSON text, a fresh one each time. Raises RecordError when it is not JSON."""
    try:
        return _load(raw.decode("ascii"))
    except RecursionError:
        _too_deep(raw)
    except ValueError:
        pass
    raise RecordError("stored text is not JSON")


def _too_deep(raw: bytes) -> None:
    """Raise RecursionError, unless a text is nested deeper than any of ours: then the stack was nearly full before, and the
    text is not to blame."""
    depth = most = 0
    for mark in _MARKS.findall(raw):
        depth += (mark in b"[{") - (mark in b"]}")
        most = max(most, depth)
    if most <= 2 * _DEPTH:
        raise RecursionError("the stack is too deep to read a stored text")


def text_json(text: str) -> bytes:
    """Return a text as JSON, with its quotes."""
    return json.encoder.encode_basestring_ascii(text).encode("ascii")


def json_text(item: object) -> bytes | None:
    """Return a value as JSON text: ASCII, on one line, without spaces. None when JSON would not give back the same value: for
    NaN, keys that are not text, bytes, objects and subclasses. A tuple becomes a list, as with LangGraph's own serialiser."""
    try:
        if not _exact(item, _DEPTH):
            return None
        text = _dump(item)
        if "\\ud" in text:  # halves of surrogate pairs: two that meet become one character
            back = _load(text)
            if _dump(back) != text or repr(back) != repr(_lists(item)):
                return None
        return text.encode("ascii")
    except (ValueError, TypeError, RecursionError):
        return None


def plain_text(item: object) -> bytes | None:
    """Return ``json_text`` of a value that is known to be plain: keys are text, no value is of a type that JSON has no word
    for, bytes excepted, and no text holds half of a surrogate pair."""
    try:
        text = _dump(item)
    except (ValueError, TypeError, RecursionError):
        return None
    return text.encode("ascii") if text.count("{") + text.count("[") < _DEPTH else json_text(item)


def _exact(item: object, depth: int) -> bool:
    kind = type(item)
    if kind is dict:
        inner: Iterable[object] = item.values()  # type: ignore[attr-defined]
        if not _TEXT.issuperset(map(type, item)):  # type: ignore[call-overload]
            return False
    elif kind is list or kind is tuple:
        inner = item  # type: ignore[assignment]
    else:
        return kind in _SIMPLE
    return _SIMPLE.issuperset(map(type, inner)) or (depth > 0 and all(_exact(each, depth - 1) for each in inner))


def _lists(item: object) -> object:
    if isinstance(item, dict):
        return {name: _lists(each) for name, each in item.items()}
    return [_lists(each) for each in item] if isinstance(item, (list, tuple)) else item


def hasher(algorithm: Algorithm) -> Callable[[Kind, bytes], Id]:
    """Return a function for git's id of an object, as bytes."""
    return _hasher(WIDTH[algorithm])


def _hasher(width: int) -> Callable[[Kind, bytes], Id]:
    make = _HASH[width]

    def identify(kind: Kind, data: bytes) -> Id:
        if len(data) < _WHOLE:
            return make(b"%b %d\0%b" % (_NAME[kind], len(data), data), usedforsecurity=False).digest()
        made = make(b"%b %d\0" % (_NAME[kind], len(data)), usedforsecurity=False)
        made.update(data)
        return made.digest()

    return identify


_IDENTIFY = {width: _hasher(width) for width in _HASH}


def blob_of(typed: Typed) -> bytes:
    """Return the content of a value's blob. Raises UsageError for a type that holds a NUL."""
    kind, data = typed
    if "\0" in kind:
        raise UsageError("the type of a stored value holds a NUL")
    return b"%s\0%s" % (kind.encode("utf-8", "surrogatepass"), data)


def typed_of(data: bytes) -> Typed:
    """Return the value that a blob holds. Raises RecordError when it holds none."""
    kind, found, payload = data.partition(b"\0")
    try:
        if found:
            return kind.decode("utf-8", "surrogatepass"), payload
    except UnicodeDecodeError:
        pass
    raise RecordError("blob is not a stored value")


def key(row: Row) -> tuple[str, int]:
    """Return the key of a write within a checkpoint: task and index."""
    return row[1], row[2]


def replaces(row: Row, replace: bool) -> bool:
    """Whether a write takes the place of one with the same key: where its call says so, and always on one of LangGraph's
    special channels, which have an index below zero."""
    return replace or row[2] < 0


def rows_blob(rows: Iterable[Row]) -> bytes:
    """Return the blob of writes: a line of JSON that lists them, then their bytes; in the order of ``writes_sort_key``."""
    ordered = sorted(rows)
    head = _dump([[*row[:5], len(row[5])] for row in ordered])
    return b"%s\n%s" % (head.encode("ascii"), b"".join([row[5] for row in ordered]))


def rows_of(data: bytes, task: str | None = None) -> tuple[Row, ...]:
    """Return the writes in a blob, in their order. Raises RecordError when it is not as ``rows_blob`` makes them, or where one
    is of another task than ``task``."""
    end = data.find(b"\n")
    try:
        rows = _rows(_load(data[:end].decode("ascii")), data, end + 1)
    except RecursionError:
        _too_deep(data[:end])
        raise RecordError("stored writes are malformed") from None
    except _BROKEN:
        raise RecordError("stored writes are malformed") from None
    if end < 0 or len({key(row) for row in rows}) != len(rows) or list(rows) != sorted(rows):
        raise RecordError("stored writes are malformed")
    if task is not None and any(row[1] != task for row in rows):
        raise RecordError("stored writes are of another task")
    return rows


def _rows(listed: Any, data: bytes, at: int) -> tuple[Row, ...]:
    """Return the writes that a list of ``[task_path, task_id, idx, channel, type, size]`` announces, from ``at`` to the end."""
    if type(listed) is not list:
        raise ValueError
    rows = []
    for path, task, index, channel, kind, size in listed:
        texts = {type(path), type(task), type(channel), type(kind)} == {str}
        if not texts or type(index) is not int or type(size) is not int or size < 0:
            raise ValueError
        rows.append((path, task, index, channel, kind, data[at : at + size]))
        at += size
    if at != len(data):
        raise ValueError
    return tuple(rows)


def encode_put(thread: str, namespace: str, entry: ThreadCheckpoint, blobs: Mapping[Id, bytes]) -> bytes:
    """Return the record of a checkpoint that is put: one line of JSON that says what follows, then texts, ids and blobs as they
    are.

    Raises UsageError for a name that git cannot hold, or that is no plain text.
    """
    channels, rest, ck, md = entry.channels, entry.rest, entry.ck, entry.md
    kinds = {type(thread), type(namespace), type(entry.id), *map(type, channels), *map(type, rest)}
    if kinds != _TEXT or not (entry.parent is None or type(entry.parent) is str):
        raise UsageError("a thread, namespace, checkpoint or channel has a name that is no plain text")
    if {name for name, text in zip(REST, (ck, md), strict=True) if not text} != rest.keys():
        raise UsageError("a checkpoint or its metadata are there twice, or not at all")
    if len(ck) + len(md) > LONGEST // 2:
        raise UsageError(
            f"a checkpoint's own JSON and its metadata's have {len(ck) + len(md):,} bytes; {LONGEST // 2:,} may be"
        )
    contents = [*blobs.values()]
    ids = b"".join([*channels.values(), *rest.values()])
    width = len(ids) // (len(channels) + len(rest)) if ids else 20
    sizes = [len(ck), len(md), *map(len, contents)]
    head = _head(thread, namespace, (entry.id, entry.parent, [*channels], [*rest], width, sizes), (*channels, entry.id))
    return b"".join([_PUT, head, b"\n", ck, md, ids, *contents])


def encode_writes(thread: str, namespace: str, id: str, rows: Sequence[Row], replace: bool) -> bytes:
    """Return the record of writes of a task. Raises UsageError for a name that git cannot hold, or that is no plain text."""
    if {type(thread), type(namespace), type(id)} != _TEXT or any([*map(type, row)] != _ROW for row in rows):
        raise UsageError("a thread, namespace, checkpoint, task or channel has a name that is no plain text")
    listed = [[*row[:5], len(row[5])] for row in rows]
    head = _head(thread, namespace, (id, replace, listed), (id, *{row[1] for row in rows}))
    return b"".join([_WRITES, head, b"\n", *[row[5] for row in rows]])


def _check(thread: str, namespace: str, names: Iterable[str]) -> None:
    """Raise UsageError where git cannot hold a name."""
    ref_of(thread, namespace)
    for name in names:
        tree_name(name)


def _head(thread: str, namespace: str, item: tuple[object, ...], names: tuple[str, ...]) -> bytes:
    text = _dump([thread, namespace, *item])
    if len(text) > _SHORT:
        _check(thread, namespace, names)
    if "\\ud" in text and _load(text) != [thread, namespace, *item]:
        raise UsageError("a name holds two halves of a surrogate pair, which no text does")
    return text.encode("ascii")


def decode(payload: bytes) -> Put | PutWrites:
    """Decode a record; the ids of its blobs are worked out anew. Raises RecordError when it is not one of ours."""
    end = payload.find(b"\n")
    try:
        head = _load(payload[1:end].decode("ascii"))
        if payload[:1] == _PUT:
            return _put(head, payload, end + 1)
        thread, namespace, id, replace, listed = head
        if payload[:1] == _WRITES and {type(thread), type(namespace), type(id)} == {str} and type(replace) is bool:
            rows = _rows(listed, payload, end + 1)
            if end > _SHORT:
                _check(thread, namespace, (id, *{row[1] for row in rows}))
            return PutWrites(thread=thread, namespace=namespace, id=id, rows=rows, replace=replace)
    except RecursionError:
        _too_deep(payload[1:end])
    except (*_BROKEN, UsageError):
        pass
    raise RecordError("record of the log is malformed")


def _put(head: Any, payload: bytes, at: int) -> Put:
    """The checkpoint in a record. Raises ValueError or TypeError when it is malformed."""
    thread, namespace, id, parent, names, rest, width, sizes = head
    if (
        (type(names) is not list or type(rest) is not list)
        or set(map(type, (thread, namespace, id, *names, *rest))) != {str}
        or not (parent is None or type(parent) is str)
        or (set(map(type, sizes)) != {int} or min(sizes) < 0 or len(sizes) < 2)
    ):
        raise ValueError
    if at > _SHORT:
        _check(thread, namespace, (id, *names))
    cuts = [at, at := at + sizes[0], at := at + sizes[1]]
    middle, last = at + width * len(names), at + width * (len(names) + len(rest))
    channels = dict(zip(names, [payload[n : n + width] for n in range(at, middle, width)], strict=True))
    others = dict(zip(rest, [payload[n : n + width] for n in range(middle, last, width)], strict=True))
    identify = _IDENTIFY[width]
    blobs, at = {}, last
    for size in sizes[2:]:
        content = payload[at : at + size]
        blobs[identify("blob", content)] = content
        at += size
    ck, md = payload[cuts[0] : cuts[1]], payload[cuts[1] : cuts[2]]
    if (
        at != len(payload)
        or len(channels) != len(names)
        or {name for name, text in zip(REST, (ck, md), strict=True) if not text} != {*rest}
    ):
        raise ValueError
    return Put(
        thread=thread, namespace=namespace, entry=ThreadCheckpoint(id, parent, ck, md, channels, rest=others), blobs=blobs
    )
