"""A checkpoint as git has it, a commit and its flat tree: an Entry to bytes and back. Pure; no git, no I/O."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable, Mapping
from functools import lru_cache

from gitbaton.errors import RecordError
from gitbaton.threads.codec import REST, WIDTH, Entry, Id, Jump, Parts, loads, text_json
from gitbaton.threads.names import Cut, cut, name_of, ref_of, tree_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.objects import Algorithm

AUTHOR = b"gitbaton <gitbaton@localhost>"
VERSION = 1
_WIDE = 72  # bytes of a subject
_TEXT = rb'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"'
_JUMP = rb'\["([0-9a-f]{40}|[0-9a-f]{64})",(' + _TEXT + rb"),(\d{1,15})\]"
_COMMIT = re.compile(
    rb"tree ([0-9a-f]{40}|[0-9a-f]{64})\n(?:parent ([0-9a-f]{40}|[0-9a-f]{64})\n)?"
    rb"author gitbaton <gitbaton@localhost> (\d{1,12}) \+0000\ncommitter gitbaton <gitbaton@localhost> \3 \+0000\n\n"
    rb'([^\n]*)\n\n\{"v":1,"id":(' + _TEXT + rb'),"pid":(' + _TEXT + rb'|null),"seq":(\d{1,15}),"jump":\[([^\n]*?)\],'
    rb'"size":\[(\d{1,12}),(\d{1,12})\],((?:"thread":' + _TEXT + rb',"ns":' + _TEXT + rb',)?)"ck":'
)
_NAMES = re.compile(rb'"thread":(' + _TEXT + rb'),"ns":(' + _TEXT + rb"),")
_JUMPS = re.compile(_JUMP)
_VERSION = re.compile(rb'\n\n[^\n]*\n\n\{"v":(\d{1,9}),"id":')
_MIDDLE, _END = b',"md":', b"}\n"
_NULL = b"null"
# As LangGraph writes them: a look at the first fields costs a tenth of reading the whole.
_TS = re.compile(rb'\{"v":\d+,(?:"id":"[^"\\]*",)?"ts":"([^"\\]*)"')
_SAID = re.compile(rb'\{"source":"([^"\\]*)","step":(-?(?:0|[1-9]\d{0,17}))[,}]')
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])(\d\d):(\d\d))?\Z", re.ASCII)
_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ODD = re.compile(r"[^ -~]")


def commit_data(entry: Entry) -> bytes:
    """The commit of an entry whose ``tree``, ``up``, ``seq``, ``jump`` and ``subject`` are set."""
    tree = entry.tree or b""
    parent = b"parent %s\n" % entry.up.hex().encode() if entry.up is not None else b""
    jumps = b",".join([b'["%s",%s,%d]' % (oid.hex().encode(), text_json(id), seq) for oid, id, seq in entry.jump])
    pid = text_json(entry.parent) if entry.parent is not None else _NULL
    ck, md = entry.ck or _NULL, entry.md or _NULL
    who = b"%s %d +0000" % (AUTHOR, _seconds(entry.ck))
    return (
        b"tree %s\n%sauthor %s\ncommitter %s\n\n%s\n\n"
        b'{"v":1,"id":%s,"pid":%s,"seq":%d,"jump":[%s],"size":[%d,%d],%s"ck":%s,"md":%s}\n'
    ) % (
        *(tree.hex().encode(), parent, who, who, entry.subject),
        *(text_json(entry.id), pid, entry.seq, jumps, len(ck), len(md), entry.names, ck, md),
    )


def entry_of(commit: Id, data: bytes, algorithm: Algorithm, load: Callable[[Entry], Parts] | None) -> Entry:
    """The checkpoint in a commit; ``load`` reads its tree when that is needed. Its ``ck`` and ``md`` are not looked into:
    ``loads`` does. Raises RecordError when it is not a commit of ours."""
    found = _COMMIT.match(data)
    if found is None or not data.isascii():
        raise _malformed(data)
    oid, up, _, subject, id, pid, number, jumps, first, second, names = found.groups()
    middle = found.end() + int(first)
    start = middle + len(_MIDDLE)
    end = start + int(second)
    seq = int(number)
    if data[middle:start] != _MIDDLE or data[end:] != _END or (seq == 0) != (up is None) or len(oid) != 2 * WIDTH[algorithm]:
        raise _malformed(data)
    ck, md = data[found.end() : middle], data[start:end]
    return Entry(
        _text(id),
        None if pid == _NULL else _text(pid),
        b"" if ck == _NULL else ck,
        b"" if md == _NULL else md,
        None,
        commit=commit,
        up=None if up is None else bytes.fromhex(up.decode()),
        seq=seq,
        jump=_jumps(jumps, data) if jumps else (),
        tree=bytes.fromhex(oid.decode()),
        subject=subject,
        load=load,
        names=names,
    )


def names_data(thread: str, namespace: str) -> bytes:
    """What each commit of a thread says of its names: nothing where the ref holds them."""
    if not cut(ref_of(thread, namespace)) or isinstance(thread, Cut) or isinstance(namespace, Cut):
        return b""
    return b'"thread":%s,"ns":%s,' % (text_json(thread), text_json(namespace))


def named(names: tuple[str, str], head: Entry | None) -> tuple[str, str]:
    """Thread and namespace, whole as far as a checkpoint of theirs says so: it cannot say what the ref does not stand for."""
    found = _NAMES.match(head.names) if head is not None else None
    if found is None or not any(isinstance(name, Cut) for name in names):
        return names
    said = _text(found[1]), _text(found[2])
    return said if ref_of(*said) == ref_of(*names) else names


def _malformed(data: bytes) -> RecordError:
    version = _VERSION.search(data)
    if version is not None and int(version.group(1)) != VERSION:
        return RecordError(f"thread has format version {int(version.group(1))}; this gitbaton reads {VERSION}")
    return RecordError("commit is not a checkpoint of a thread")


def _jumps(raw: bytes, data: bytes) -> tuple[Jump, ...]:
    jumps, at = [], 0
    for found in _JUMPS.finditer(raw):
        if found.start() != at:
            break
        oid, id, seq = found.groups()
        jumps.append((bytes.fromhex(oid.decode()), _text(id), int(seq)))
        at = found.end() + (raw[found.end() : found.end() + 1] == b",")
    if at != len(raw) or raw.endswith(b","):
        raise _malformed(data)
    return tuple(jumps)


def _text(raw: bytes) -> str:
    if b"\\" not in raw:
        return raw[1:-1].decode("ascii")
    text = loads(raw)
    if type(text) is not str:
        raise RecordError("commit is not a checkpoint of a thread")
    return text


def _seconds(ck: bytes) -> int:
    """The seconds since 1970 of a checkpoint's own ``ts``; 0 where it has none that can be read."""
    found = _TS.match(ck)
    if found is not None:
        return _time(found.group(1).decode("ascii", "replace"))
    try:
        document = loads(ck) if ck else None
    except RecordError:
        document = None
    text = document.get("ts") if isinstance(document, dict) else None
    return _time(text) if isinstance(text, str) else 0


@lru_cache(64)
def _time(text: str) -> int:
    found = _TIME.match(text)
    if found is None:
        return 0
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _MONTHS[month - 1] and hour < 24 and minute < 60 and second < 61):
        return 0
    away = (int(found.group(8)) * 3600 + int(found.group(9)) * 60) if found.group(7) else 0
    seconds = timegm((year, month, day, hour, minute, second)) if year >= 1970 else 0
    return max(0, seconds + (away if found.group(7) == "-" else -away))


def subject_of(entry: Entry, below: Entry | None) -> bytes:
    """The first line of an entry's message, for people: where it comes from, its step, and the channels that are not as in the
    checkpoint below. Printable ASCII, since what is printable beyond that changes with Python's tables."""
    source, step = _said(entry.md)
    text = source[:_WIDE] if isinstance(source, str) and source.strip() else "checkpoint"
    text += f" step {step}" if type(step) is int and abs(step) < 1 << 63 else ""
    before: Mapping[str, Id] = below.channels if below is not None else {}
    changed = sorted([name for name, oid in entry.channels.items() if before.get(name) != oid])
    for number, name in enumerate(changed):
        more, left = f"{', ' if number else ': '}{name[:_WIDE]}", len(changed) - number
        if len(text) + len(more) > _WIDE - 12:
            text += f" and {left} more" if number else f": {left} channel{'s' if left > 1 else ''}"
            break
        text += more
    return _ODD.sub("?", text).strip()[: 2 * _WIDE].encode("ascii")


def _said(md: bytes) -> tuple[object, object]:
    """Source and step of metadata."""
    found = _SAID.match(md)
    if found is not None:
        return found.group(1).decode("ascii", "replace"), int(found.group(2))
    try:
        said = loads(md) if md else None
    except RecordError:
        said = None
    return (said.get("source"), said.get("step")) if isinstance(said, dict) else (None, None)


@lru_cache(4096)
def file_entry(kind: str, name: str) -> bytes:
    """A tree's entry of a file, up to its id."""
    return f"100644 {kind}.{tree_name(name)}\0".encode("ascii")


@lru_cache(4096)
def _named(raw: bytes) -> tuple[bytes, str]:
    """Kind and name of a tree's entry, up to the NUL. Raises RecordError when it is none of ours."""
    name = name_of(raw[9:])
    if raw[:7] != b"100644 " or raw[8:9] != b"." or name is None:
        raise RecordError("tree is not that of a thread")
    return raw[7:8], name


def tree_data(entry: Entry) -> bytes:
    """The tree of an entry."""
    rows = [file_entry("c", name) + oid for name, oid in entry.channels.items()]
    rows += [file_entry("r", name) + oid for name, oid in entry.rest.items()]
    rows += [file_entry("w", name) + oid for name, oid in entry.written.items()]
    rows.sort()  # the NUL after a name sorts it as git does
    return b"".join(rows)


def tree_rows(data: bytes, width: int) -> list[tuple[bytes, Id]]:
    """The entries of a raw tree: mode, blank and name; and id. Raises RecordError when it is malformed or out of order."""
    rows, at, last, size = [], 0, b"", len(data)
    while at < size:
        end = data.find(b"\0", at)
        raw = data[at:end]
        at = end + 1 + width
        mode, _, name = raw.partition(b" ")
        name = name + b"/" if mode == b"40000" else name
        if end < 0 or at > size or name <= last:
            raise RecordError("tree is malformed")
        last = name
        rows.append((raw, data[at - width : at]))
    return rows


def tree_parts(data: bytes, width: int, entry: Entry) -> Parts:
    """What the tree of an entry holds. Raises RecordError when it is not as ``tree_data`` makes it."""
    held: dict[bytes, dict[str, Id]] = {b"c": {}, b"r": {}, b"w": {}}
    rows = tree_rows(data, width)
    for raw, oid in rows:
        kind, name = _named(raw)
        if kind not in held:
            raise RecordError("tree is not that of a thread")
        held[kind][name] = oid
    rest = held[b"r"]
    if {name for name, text in zip(REST, (entry.ck, entry.md), strict=True) if not text} != rest.keys():
        raise RecordError("tree is not that of its checkpoint")
    return held[b"c"], rest, held[b"w"]
