"""A thread as git has it, read: its chain of commits, by id and downwards, and the writes that came late, beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from gitbaton.errors import BatonError, RecordError
from gitbaton.git.objects import Kind
from gitbaton.threads.codec import WIDTH, Entry, Id, Jump, Parts, Row, hasher, key, replaces, rows_blob, rows_of
from gitbaton.threads.commits import AUTHOR, entry_of, file_entry, tree_parts, tree_rows
from gitbaton.threads.names import name_of, tree_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.objects import Algorithm

    Read = Callable[[Id], tuple[Kind, bytes]]

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
        self._held: dict[Id, Entry] = {}
        self._guard = threading.Lock()
        self.get = self._held.get

    def add(self, entry: Entry) -> Entry:
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


def _cost(entry: Entry) -> int:
    return _COST + len(entry.ck) + len(entry.md) + len(entry.names)


def jump_numbers(seq: int) -> tuple[int, ...]:
    """The numbers of the checkpoints that the one with number ``seq`` points at beside the one below it: Myers's jump of its
    own and that of the one below, furthest first."""
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


class Chain:
    """The checkpoints of a thread in one namespace, as the commit ``tip`` and those below it have them, by their ids.

    ``read`` gives an object's kind and bytes or raises GitError. Whatever the commits say is checked: RecordError when one
    that is needed is not ours; a jump that lies is not followed.
    """

    __slots__ = ("_entries", "_load", "algorithm", "read", "tip")

    def __init__(self, read: Read, algorithm: Algorithm, tip: Id | None, entries: Entries | None = None) -> None:
        self.read, self.algorithm, self.tip = read, algorithm, tip
        self._entries = Entries() if entries is None else entries
        width = WIDTH[algorithm]

        def load(entry: Entry) -> Parts:
            kind, data = read(entry.tree or b"")
            if kind != "tree":
                raise RecordError("commit is not a checkpoint of a thread")
            return tree_parts(data, width, entry)

        self._load = load

    def entry(self, commit: Id) -> Entry:
        """The checkpoint in a commit."""
        found = self._entries.get(commit)
        if found is None:
            kind, data = self.read(commit)
            if kind != "commit":
                raise RecordError("object is not a checkpoint of a thread")
            found = self._entries.add(entry_of(commit, data, self.algorithm, self._load))
        return found

    def keep(self, entry: Entry) -> Entry:
        """Know an entry that was made here, so that it need not be read."""
        return self._entries.add(entry)

    def head(self) -> Entry | None:
        """The newest checkpoint: the one with the greatest id."""
        return self.entry(self.tip) if self.tip is not None else None

    def below(self, entry: Entry) -> Entry | None:
        """The checkpoint with the next smaller id. Raises RecordError where the chain is out of order."""
        if entry.up is None:
            return None
        found = self.entry(entry.up)
        if found.seq != entry.seq - 1 or found.id >= entry.id:
            raise RecordError(f"chain is out of order below checkpoint '{entry.id[:100]}'")
        return found

    def find(self, id: str) -> Entry | None:
        """The checkpoint with an id; reads no more than about twice the binary logarithm of the chain's length of commits."""
        found = self.floor(id)
        return found if found is not None and found.id == id else None

    def floor(self, id: str) -> Entry | None:
        """The newest checkpoint that is not newer than an id."""
        entry = self.head()
        while entry is not None and entry.id > id:
            for jump in entry.jump:
                if jump[1] >= id and (target := self._target(entry, jump)) is not None:
                    entry = target
                    break
            else:
                entry = self.below(entry)
        return entry

    def at(self, entry: Entry, seq: int) -> Entry:
        """The checkpoint with number ``seq`` at or below an entry."""
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

    def _target(self, entry: Entry, jump: Jump) -> Entry | None:
        """Where a jump leads; None when that is not what it says, or not further down."""
        commit, id, seq = jump
        if not (id < entry.id and 0 <= seq < entry.seq):
            return None
        try:
            found = self.entry(commit)
        except BatonError:
            return None
        return found if found.id == id and found.seq == seq else None

    def walk(self, below: str | None = None, start: Entry | None = None) -> Iterator[Entry]:
        """The checkpoints, newest first; those with a smaller id than ``below``, which may be given as ``start``. Reads one
        commit each, and no trees."""
        entry = start or (self.head() if below is None else self.floor(below))
        if entry is not None and entry.id == below:
            entry = self.below(entry)
        while entry is not None:
            yield entry
            entry = self.below(entry)

    @property
    def length(self) -> int:
        """How many checkpoints there are."""
        head = self.head()
        return head.seq + 1 if head is not None else 0

    def rows(self, entry: Entry) -> tuple[Row, ...]:
        """The writes that stand in a checkpoint's own commit."""
        return tuple(row for task, oid in entry.written.items() for row in rows_of(self.blob(oid), task))

    def blob(self, oid: Id) -> bytes:
        """The bytes of a blob. Raises RecordError for another object."""
        kind, data = self.read(oid)
        if kind != "blob":
            raise RecordError(f"object {oid.hex()} is not a blob")
        return data

    def holds(self, entry: Entry) -> bool:
        """Whether this chain has the very commit of an entry; a chain whose pointers lie may have it and say no."""
        try:
            found = self.find(entry.id)
        except BatonError:
            return False
        return found is not None and found.commit == entry.commit

    def is_below(self, other: Chain) -> bool:
        """Whether this chain is a beginning of the other, or all of it."""
        try:
            head = self.head()
        except BatonError:
            return False
        return head is not None and other.holds(head)

    def verify(self, *known: Chain) -> list[Entry]:
        """The checkpoints that no ``known`` chain has, newest first, with their trees; each jump is held against its target.

        A jump into another chain that has the same ids shows only here. Raises RecordError, and GitError for what is missing.
        """
        found: list[Entry] = []
        below: Entry | None = None
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
    """A checkpoint's own writes with later ones folded in, in the order of ``writes_sort_key``."""
    held = {key(row): row for row in own}
    fold(held, batches)
    return tuple(sorted(held.values()))


class Late:
    """The writes beside a chain, as a commit has them; ``tip`` is None where there are none. Everything is read on demand and
    kept; whatever is not ours raises RecordError."""

    __slots__ = ("_folders", "_rows", "_width", "algorithm", "read", "tip")

    def __init__(self, read: Read, algorithm: Algorithm, tip: Id | None) -> None:
        self.read, self.algorithm, self.tip = read, algorithm, tip
        self._width = WIDTH[algorithm]
        self._folders: dict[str, Id] | None = None
        self._rows: dict[str, tuple[Batch, ...]] = {}

    def ids(self) -> Iterable[str]:
        """The checkpoints that have late writes."""
        return self._tree().keys()

    def of(self, id: str) -> tuple[Batch, ...]:
        """The late writes of a checkpoint, to be folded into its own: at most one batch of each kind."""
        found = self._rows.get(id)
        if found is None:
            folder = self._tree().get(id) if self.tip is not None else None
            if folder is None:
                return ()
            found = self._rows[id] = self._read_rows(folder)
        return found

    def changed(self, gone: Iterable[str], more: Mapping[str, Sequence[Batch]]) -> tuple[Id | None, list[Object]]:
        """The tip, and the new objects, once the writes of some checkpoints are gone and others have come to those there are;
        the same tip and none where that changes nothing."""
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
            rows = []
            for kind, part in (("w", weak), ("x", strong)):
                for task in sorted({row[1] for row in part}):
                    rows.append(file_entry(kind, task) + made("blob", rows_blob(row for row in part if row[1] == task)))
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
            raise _malformed() from None
        if data != b"tree %s\n%s" % (tree.hex().encode(), _HEAD):
            raise _malformed()
        for raw, oid in tree_rows(self._data("tree", tree), self._width):
            id = name_of(raw[len(_FOLDER) :])
            if not raw.startswith(_FOLDER) or id is None:
                raise _malformed()
            yield id, oid

    def _read_rows(self, folder: Id) -> tuple[Batch, ...]:
        held: dict[bytes, list[Row]] = {kind: [] for kind in _KINDS}
        for raw, oid in tree_rows(self._data("tree", folder), self._width):
            task = name_of(raw[9:])
            if raw[:9] not in held or task is None:
                raise _malformed()
            held[raw[:9]] += rows_of(self._data("blob", oid), task)
        return tuple((tuple(sorted(rows)), kind == _KINDS[1]) for kind, rows in held.items() if rows)

    def _data(self, kind: Kind, oid: Id) -> bytes:
        found, data = self.read(oid)
        if found != kind:
            raise _malformed()
        return data


def _malformed() -> RecordError:
    return RecordError("late writes are malformed")


def _joined(batches: Iterable[Batch]) -> tuple[list[Row], list[Row]]:
    """Batches as one that leaves rows of the checkpoint alone, and one that replaces them: the last word for each key."""
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
