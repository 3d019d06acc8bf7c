"""Chain of a thread in git: checkpoints as commits with flat trees, read by id and downwards, and the late writes beside it."""

from __future__ import annotations

import re
import threading
from calendar import timegm
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from gitbaton.base.errors import BatonError, RecordError
from gitbaton.git.objects import Algorithm, Kind
from gitbaton.langgraph.threads.codec import (
    REST,
    WIDTH,
    Id,
    Jump,
    Parts,
    Row,
    ThreadCheckpoint,
    hasher,
    key,
    loads,
    replaces,
    rows_blob,
    rows_of,
    text_json,
)
from gitbaton.langgraph.threads.names import Cut, cut, name_of, ref_of, tree_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    Read = Callable[[Id], tuple[Kind, bytes]]

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


def commit_data(entry: ThreadCheckpoint) -> bytes:
    """Return the commit of an entry that has ``tree``, ``up``, ``seq``, ``jump`` and ``subject``."""
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


def entry_of(
    commit: Id, data: bytes, algorithm: Algorithm, load: Callable[[ThreadCheckpoint], Parts] | None
) -> ThreadCheckpoint:
    """Return the checkpoint in a commit; ``load`` reads its tree when that is needed. Its ``ck`` and ``md`` are not looked
    into: ``loads`` does. Raises RecordError when it is not a commit of ours."""
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
    return ThreadCheckpoint(
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
    """Return what each commit of a thread says of its names: nothing where the ref holds them."""
    if not cut(ref_of(thread, namespace)) or isinstance(thread, Cut) or isinstance(namespace, Cut):
        return b""
    return b'"thread":%s,"ns":%s,' % (text_json(thread), text_json(namespace))


def named(names: tuple[str, str], head: ThreadCheckpoint | None) -> tuple[str, str]:
    """Return thread and namespace, whole as far as a checkpoint of theirs says so: it cannot say what the ref does not stand
    for."""
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
    """Return the seconds since 1970 of a checkpoint's own ``ts``; 0 where it has none that can be read."""
    found = _TS.match(ck)
    if found is not None:
        return _time(found.group(1).decode("ascii", "replace"))
    text = stated(ck).get("ts")
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


def subject_of(entry: ThreadCheckpoint, below: ThreadCheckpoint | None) -> bytes:
    """Return the first line of an entry's message, for people: where it comes from, its step, and the channels that are not as
    in the checkpoint below. Printable ASCII, since what is printable beyond that changes with Python's tables."""
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
    """Return source and step of metadata."""
    found = _SAID.match(md)
    if found is not None:
        return found.group(1).decode("ascii", "replace"), int(found.group(2))
    said = stated(md)
    return said.get("source"), said.get("step")


def stated(text: bytes) -> Mapping[str, object]:
    """Return the JSON object in what a checkpoint says; an empty one where it says nothing, or nothing that can be read."""
    try:
        found = loads(text) if text else None
    except RecordError:
        return {}
    return found if isinstance(found, dict) else {}


@lru_cache(4096)
def file_entry(kind: str, name: str) -> bytes:
    """Return a tree's entry of a file, up to its id."""
    return f"100644 {kind}.{tree_name(name)}\0".encode("ascii")


@lru_cache(4096)
def _named(raw: bytes) -> tuple[bytes, str]:
    """Return kind and name of a tree's entry, up to the NUL. Raises RecordError when it is none of ours."""
    name = name_of(raw[9:])
    if raw[:7] != b"100644 " or raw[8:9] != b"." or name is None:
        raise RecordError("tree is not that of a thread")
    return raw[7:8], name


def tree_data(entry: ThreadCheckpoint) -> bytes:
    """Return the tree of an entry."""
    rows = [file_entry("c", name) + oid for name, oid in entry.channels.items()]
    rows += [file_entry("r", name) + oid for name, oid in entry.rest.items()]
    rows += [file_entry("w", name) + oid for name, oid in entry.written.items()]
    rows.sort()  # the NUL after a name sorts it as git does
    return b"".join(rows)


def tree_rows(data: bytes, width: int) -> list[tuple[bytes, Id]]:
    """Return the entries of a raw tree: mode, blank and name; and id. Raises RecordError when it is malformed or out of
    order."""
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


def tree_parts(data: bytes, width: int, entry: ThreadCheckpoint) -> Parts:
    """Return the channels, rest and writes in the tree of an entry. Raises RecordError when it is not as ``tree_data`` makes
    it."""
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


Batch = tuple[tuple[Row, ...], bool]
"""Writes as they came: rows, and whether they replace those with the same task and index."""

Object = tuple[Kind, Id, bytes]
"""A new object: its kind, id and bytes."""

_COST = 2000  # bytes of an entry beside its texts, with its channels
_MESSAGE = b'late writes\n\n{"v":1}\n'
_HEAD = b"author %s 0 +0000\ncommitter %s 0 +0000\n\n%s" % (AUTHOR, AUTHOR, _MESSAGE)
_FOLDER = b"40000 i."
_KINDS = (b"100644 w.", b"100644 x.")  # a row that is there stays; it is replaced


class Entries:
    """Entries that were read, by commit; several chains and threads may share them. At most about ``limit`` bytes, without
    what readers keep in ``memo``."""

    def __init__(self, limit: int = 32 << 20) -> None:
        self.limit, self._bytes = limit, 0
        self._held: dict[Id, ThreadCheckpoint] = {}
        self._guard = threading.Lock()
        self.get = self._held.get

    def add(self, entry: ThreadCheckpoint) -> ThreadCheckpoint:
        """Keep an entry that has a commit; the one that is kept already, where there is one."""
        assert entry.commit is not None
        with self._guard:
            kept = self._held.setdefault(entry.commit, entry)
            if kept is entry:
                self._bytes += _cost(entry)
                while self._bytes > self.limit and len(self._held) > 1:
                    self._bytes -= _cost(self._held.pop(next(iter(self._held))))
        return kept

    def __len__(self) -> int:
        return len(self._held)


def _cost(entry: ThreadCheckpoint) -> int:
    return _COST + len(entry.ck) + len(entry.md) + len(entry.names)


def jump_numbers(seq: int) -> tuple[int, ...]:
    """Return the numbers of the checkpoints that the one with number ``seq`` points at beside the one below it: Myers's jump of
    its own and that of the one below, furthest first."""
    if seq < 2:
        return ()
    own, below = _jump(seq), _jump(seq - 1)
    return (below,) if own == seq - 1 else (own, below) if own < below else (own,)


@lru_cache(256)
def _jump(seq: int) -> int:
    """``seq`` less the last term when it is written as a sum of numbers 2^k - 1, the greatest first."""
    rest, term = seq, 0
    while rest:
        term = (1 << (rest + 1).bit_length() - 1) - 1
        rest -= term
    return seq - term


class ThreadChain:
    """The checkpoints of a thread in one namespace, as the commit ``tip`` and those below it have them, by their ids.

    ``read`` gives an object's kind and bytes or raises GitError. Whatever the commits say is checked: RecordError when one
    that is needed is not ours; a jump that lies is not followed.
    """

    __slots__ = ("_entries", "_load", "algorithm", "read", "tip")

    def __init__(self, read: Read, algorithm: Algorithm, tip: Id | None, entries: Entries | None = None) -> None:
        self.read, self.algorithm, self.tip = read, algorithm, tip
        self._entries = Entries() if entries is None else entries
        width = WIDTH[algorithm]

        def load(entry: ThreadCheckpoint) -> Parts:
            kind, data = read(entry.tree or b"")
            if kind != "tree":
                raise RecordError("commit is not a checkpoint of a thread")
            return tree_parts(data, width, entry)

        self._load = load

    def entry(self, commit: Id) -> ThreadCheckpoint:
        """Return the checkpoint in a commit."""
        found = self._entries.get(commit)
        if found is None:
            kind, data = self.read(commit)
            if kind != "commit":
                raise RecordError("object is not a checkpoint of a thread")
            found = self._entries.add(entry_of(commit, data, self.algorithm, self._load))
        return found

    def keep(self, entry: ThreadCheckpoint) -> ThreadCheckpoint:
        """Cache an entry that was made here, so that it need not be read."""
        return self._entries.add(entry)

    def head(self) -> ThreadCheckpoint | None:
        """Return the newest checkpoint: the one with the greatest id."""
        return self.entry(self.tip) if self.tip is not None else None

    def below(self, entry: ThreadCheckpoint) -> ThreadCheckpoint | None:
        """Return the checkpoint with the next smaller id. Raises RecordError where the chain is out of order."""
        if entry.up is None:
            return None
        found = self.entry(entry.up)
        if found.seq != entry.seq - 1 or found.id >= entry.id:
            raise RecordError(f"chain is out of order below checkpoint '{entry.id[:100]}'")
        return found

    def find(self, id: str) -> ThreadCheckpoint | None:
        """Return the checkpoint with an id; reads no more than about twice the binary logarithm of the chain's length of
        commits."""
        found = self.floor(id)
        return found if found is not None and found.id == id else None

    def floor(self, id: str) -> ThreadCheckpoint | None:
        """Return the newest checkpoint that is not newer than an id."""
        entry = self.head()
        while entry is not None and entry.id > id:
            for jump in entry.jump:
                if jump[1] >= id and (target := self._target(entry, jump)) is not None:
                    entry = target
                    break
            else:
                entry = self.below(entry)
        return entry

    def at(self, entry: ThreadCheckpoint, seq: int) -> ThreadCheckpoint:
        """Return the checkpoint with number ``seq`` at or below an entry."""
        while entry.seq > seq:
            for jump in entry.jump:
                if jump[2] >= seq and (target := self._target(entry, jump)) is not None:
                    entry = target
                    break
            else:
                found = self.below(entry)
                if found is None:
                    break
                entry = found
        if entry.seq != seq:
            raise RecordError("chain is out of order")
        return entry

    def _target(self, entry: ThreadCheckpoint, jump: Jump) -> ThreadCheckpoint | None:
        """Return the target of a jump; None when that is not what it says, or not further down."""
        commit, id, seq = jump
        if not (id < entry.id and 0 <= seq < entry.seq):
            return None
        try:
            found = self.entry(commit)
        except BatonError:
            return None
        return found if found.id == id and found.seq == seq else None

    def walk(self, below: str | None = None, start: ThreadCheckpoint | None = None) -> Iterator[ThreadCheckpoint]:
        """Yield the checkpoints, newest first; those with a smaller id than ``below``, which may be given as ``start``. Reads
        one commit each, and no trees."""
        entry = start or (self.head() if below is None else self.floor(below))
        if entry is not None and entry.id == below:
            entry = self.below(entry)
        while entry is not None:
            yield entry
            entry = self.below(entry)

    @property
    def length(self) -> int:
        """Number of checkpoints."""
        head = self.head()
        return head.seq + 1 if head is not None else 0

    def rows(self, entry: ThreadCheckpoint) -> tuple[Row, ...]:
        """Return the writes in a checkpoint's own commit."""
        return tuple(row for task, oid in entry.written.items() for row in rows_of(self.blob(oid), task))

    def blob(self, oid: Id) -> bytes:
        """Return the bytes of a blob. Raises RecordError for another object."""
        kind, data = self.read(oid)
        if kind != "blob":
            raise RecordError(f"object {oid.hex()} is not a blob")
        return data

    def holds(self, entry: ThreadCheckpoint) -> bool:
        """Whether this chain has the very commit of an entry; a chain with wrong pointers may have it and say no."""
        try:
            found = self.find(entry.id)
        except BatonError:
            return False
        return found is not None and found.commit == entry.commit

    def is_below(self, other: ThreadChain) -> bool:
        """Whether this chain is a beginning of the other, or all of it."""
        try:
            head = self.head()
        except BatonError:
            return False
        return head is not None and other.holds(head)

    def verify(self, *known: ThreadChain) -> list[ThreadCheckpoint]:
        """Return the checkpoints that no ``known`` chain has, newest first, with their trees; each jump is held against its
        target.

        A jump into another chain that has the same ids shows only here. Raises RecordError, and GitError for what is missing.
        """
        found: list[ThreadCheckpoint] = []
        below: ThreadCheckpoint | None = None
        for entry in self.walk():
            if any(chain.holds(entry) for chain in known):
                below = entry
                break
            found.append(entry)
        first = below.seq + 1 if below is not None else 0
        for entry in found:
            numbers = jump_numbers(entry.seq)
            targets = [found[first - 1 - n] if n >= first else self.at(below or entry, n) for n in numbers]
            if entry.jump != tuple((target.commit, target.id, target.seq) for target in targets):
                raise RecordError(f"checkpoint '{entry.id[:100]}' points at what is not below it")
            len(entry.channels)
        return found


def fold(held: dict[tuple[str, int], Row], batches: Iterable[Batch]) -> None:
    """Put writes into those of a checkpoint, by task and index, in the order in which they came."""
    for rows, replace in batches:
        for row in rows:
            if replaces(row, replace) or key(row) not in held:
                held[key(row)] = row


def merged(own: Iterable[Row], batches: Iterable[Batch]) -> tuple[Row, ...]:
    """Return a checkpoint's own writes with later ones folded in, in the order of ``writes_sort_key``."""
    held = {key(row): row for row in own}
    fold(held, batches)
    return tuple(sorted(held.values()))


class LateWrites:
    """The writes beside a chain, as a commit has them; ``tip`` is None where there are none. Everything is read on demand and
    kept; whatever is not ours raises RecordError."""

    __slots__ = ("_folders", "_rows", "_width", "algorithm", "read", "tip")

    def __init__(self, read: Read, algorithm: Algorithm, tip: Id | None) -> None:
        self.read, self.algorithm, self.tip = read, algorithm, tip
        self._width = WIDTH[algorithm]
        self._folders: dict[str, Id] | None = None
        self._rows: dict[str, tuple[Batch, ...]] = {}

    def ids(self) -> Iterable[str]:
        """Return the ids of checkpoints that have late writes."""
        return self._tree().keys()

    def of(self, id: str) -> tuple[Batch, ...]:
        """Return the late writes of a checkpoint, to be folded into its own: at most one batch of each kind."""
        found = self._rows.get(id)
        if found is None:
            folder = self._tree().get(id) if self.tip is not None else None
            if folder is None:
                return ()
            found = self._rows[id] = self._read_rows(folder)
        return found

    def changed(self, gone: Iterable[str], more: Mapping[str, Sequence[Batch]]) -> tuple[Id | None, list[Object]]:
        """Return the tip, and the new objects, once the writes of some checkpoints are gone and others have come to those there
        are; the same tip and none where that changes nothing."""
        before = self._tree()
        folders = {id: oid for id, oid in before.items() if id not in set(gone)}
        objects: list[Object] = []
        identify = hasher(self.algorithm)

        def made(kind: Kind, data: bytes) -> Id:
            oid = identify(kind, data)
            objects.append((kind, oid, data))
            return oid

        for id, batches in more.items():
            weak, strong = _joined((*self.of(id), *batches) if id in folders else batches)
            rows = [
                file_entry(kind, task) + made("blob", rows_blob(row for row in part if row[1] == task))
                for kind, part in (("w", weak), ("x", strong))
                for task in sorted({row[1] for row in part})
            ]
            if rows:
                folders[id] = made("tree", b"".join(sorted(rows)))
        if folders == before:
            return self.tip, []
        if not folders:
            return None, []
        named = sorted((f"i.{tree_name(id)}/".encode("ascii"), oid) for id, oid in folders.items())
        tree = made("tree", b"".join([b"40000 %s\0%s" % (name[:-1], oid) for name, oid in named]))
        return made("commit", b"tree %s\n%s" % (tree.hex().encode(), _HEAD)), objects

    def _tree(self) -> dict[str, Id]:
        if self._folders is None:
            self._folders = dict(self._read_tree(self.tip)) if self.tip is not None else {}
        return self._folders

    def _read_tree(self, tip: Id) -> Iterator[tuple[str, Id]]:
        data = self._data("commit", tip)
        digits = 2 * self._width
        try:
            tree = bytes.fromhex(data[5 : 5 + digits].decode("ascii"))
        except ValueError:
            raise _late_malformed() from None
        if data != b"tree %s\n%s" % (tree.hex().encode(), _HEAD):
            raise _late_malformed()
        for raw, oid in tree_rows(self._data("tree", tree), self._width):
            id = name_of(raw[len(_FOLDER) :])
            if not raw.startswith(_FOLDER) or id is None:
                raise _late_malformed()
            yield id, oid

    def _read_rows(self, folder: Id) -> tuple[Batch, ...]:
        held: dict[bytes, list[Row]] = {kind: [] for kind in _KINDS}
        for raw, oid in tree_rows(self._data("tree", folder), self._width):
            task = name_of(raw[9:])
            if raw[:9] not in held or task is None:
                raise _late_malformed()
            held[raw[:9]] += rows_of(self._data("blob", oid), task)
        return tuple((tuple(sorted(rows)), kind == _KINDS[1]) for kind, rows in held.items() if rows)

    def _data(self, kind: Kind, oid: Id) -> bytes:
        found, data = self.read(oid)
        if found != kind:
            raise _late_malformed()
        return data


def _late_malformed() -> RecordError:
    return RecordError("late writes are malformed")


def _joined(batches: Iterable[Batch]) -> tuple[list[Row], list[Row]]:
    """Return batches as one that leaves rows of the checkpoint alone, and one that replaces them: the last word for each
    key."""
    weak: dict[tuple[str, int], Row] = {}
    strong: dict[tuple[str, int], Row] = {}
    for rows, replace in batches:
        for row in rows:
            if replaces(row, replace):
                weak.pop(key(row), None)
                strong[key(row)] = row
            elif key(row) not in strong:
                weak.setdefault(key(row), row)
    return list(weak.values()), list(strong.values())
