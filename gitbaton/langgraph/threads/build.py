"""A thread's chain of commits, built anew with what has come: sorted by id, and no commit changed that need not be; and the
join of two versions of it, against the one that both had before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import NotFoundError
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.langgraph.threads.chain import (
    Batch,
    LateWrites,
    Object,
    ThreadChain,
    commit_data,
    fold,
    jump_numbers,
    merged,
    stated,
    subject_of,
    tree_data,
)
from gitbaton.langgraph.threads.codec import Id, Row, ThreadCheckpoint, hasher, key, loads, rows_blob, rows_of, typed_of

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from gitbaton.git.objects import Kind

    Made = tuple[Id | None, Id | None, Sequence[Object]]
    Find = Callable[[str], ThreadCheckpoint | None]
    Metadata = Callable[[ThreadCheckpoint], Any]
    Rows = Mapping[tuple[str, int], Row]
    T = TypeVar("T")
NEAR = 32
_COUNTERS = "counters_since_delta_snapshot"


@value
class Built:
    """New state of a chain: ``tip`` and ``late_tip`` are what the refs are to point at (None: nothing is left), ``objects``
    what git does not have yet, each once, but for the blobs of channels, which the log or git has."""

    tip: Id | None
    late_tip: Id | None
    objects: list[Object]


def rebuild(
    chain: ThreadChain,
    puts: Mapping[str, ThreadCheckpoint | None],
    rows: Mapping[str, Sequence[Batch]],
    late: LateWrites,
    *,
    names: bytes | None = None,
) -> Built:
    """Build as ``building``, all at once."""
    steps = building(chain, puts, rows, late, names=names)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Built = end.value
            return made


def building(
    chain: ThreadChain,
    puts: Mapping[str, ThreadCheckpoint | None],
    rows: Mapping[str, Sequence[Batch]],
    late: LateWrites,
    *,
    names: bytes | None = None,
    pause: Callable[[], object] | None = None,
) -> Generator[list[Object], None, Built]:
    """Build the chain with checkpoints put (None: removed, with the writes it had) and writes of ``rows`` folded in.

    A checkpoint that is put again keeps its writes. Writes for a checkpoint within 32 of the new tip, or that is written anew
    anyhow, become part of it, with its late ones; all others go to ``late``. ``names``: what commits say of thread and
    namespace, see ``names_data`` (None: what each checkpoint said). Yields new objects as they are made; ``pause`` is called
    after each checkpoint, so that other threads run. Raises RecordError and GitError of the chain below; then nothing has
    happened."""
    pause = pause or int
    old, base = _above(chain, puts, [id for id in rows if puts.get(id) is None], pause)
    if not old and not any(puts.values()):
        late_tip, objects = late.changed([id for id in puts if id in late.ids()], rows)
        yield objects
        return Built(tip=chain.tip, late_tip=late_tip, objects=objects)
    work = _ChainBuilder(chain, base, late, names)
    kept = {entry.id: entry for entry in old}
    for id in sorted({*kept, *puts}):
        before = kept.get(id)
        entry = puts.get(id, before)
        if entry is not None:
            work.add(entry, before, rows.get(id, ()))
            yield work.fresh
            work.fresh = []
        pause()
    gone = [id for id in (*work.folded, *(id for id, entry in puts.items() if entry is None)) if id in late.ids()]
    late_tip, objects = late.changed(gone, {id: batches for id, batches in rows.items() if id not in work.folded})
    tip = work.last.commit if work.last is not None else None
    yield objects
    return Built(tip=tip, late_tip=late_tip, objects=[*work.objects.values(), *objects])


def _above(
    chain: ThreadChain, puts: Mapping[str, ThreadCheckpoint | None], others: Iterable[str], pause: Callable[[], object]
) -> tuple[list[ThreadCheckpoint], ThreadCheckpoint | None]:
    """Return the checkpoints of a chain that are written anew, oldest first, and the one below them."""
    low, wanted = min(puts, default=None), set(others)
    old: list[ThreadCheckpoint] = []
    entry = chain.head()
    while entry is not None and low is not None and entry.id >= low:
        old.append(entry)
        entry = chain.below(entry)
        pause()
    count = len({item.id for item in old} | puts.keys()) - sum(item is None for item in puts.values())
    base, start = entry, len(old)
    bottom = min(wanted, default=None)
    while entry is not None and bottom is not None and entry.id >= bottom and count + len(old) - start < NEAR:
        old.append(entry)
        found, entry = entry.id in wanted, chain.below(entry)
        if found:
            base, count, start = entry, count + len(old) - start, len(old)
    del old[start:]
    return old[::-1], base


class _ChainBuilder:
    """Chain that grows upwards from ``base``."""

    def __init__(self, chain: ThreadChain, base: ThreadCheckpoint | None, late: LateWrites, names: bytes | None) -> None:
        self.chain, self.base, self.late, self.last, self.names = chain, base, late, base, names
        self.objects: dict[Id, Object] = {}
        self.fresh: list[Object] = []
        self.folded: set[str] = set()
        # what the next old checkpoint must have stood on for its subject to be right; b"" when that is no more
        self._under = base.commit if base is not None else None
        self._numbers: dict[int, ThreadCheckpoint] = {}
        self._identify = hasher(chain.algorithm)
        self._late = set(late.ids())

    def add(self, entry: ThreadCheckpoint, before: ThreadCheckpoint | None, batches: Sequence[Batch]) -> None:
        """Add the next checkpoint: as it was put or, where it is ``before``, as it was."""
        id, last = entry.id, self.last
        if id in self._late:
            batches = (*self.late.of(id), *batches)
        self.folded.add(id)
        same = before is not None and before.up == self._under
        if entry is before and not batches:
            if same and before.up == (last.commit if last is not None else None):
                self._place(before, before)
                return
            subject = before.subject if same else subject_of(before, last)
            made = ThreadCheckpoint(
                id, entry.parent, entry.ck, entry.md, None, load=entry.load, tree=entry.tree, subject=subject
            )
            if entry.load is None:
                made.channels, made.rest, made.written = entry.channels, entry.rest, entry.written
        else:
            written = self._written(before, batches)
            made = ThreadCheckpoint(id, entry.parent, entry.ck, entry.md, entry.channels, rest=entry.rest, written=written)
            made.subject = before.subject if same and entry is before else subject_of(made, last)
            made.tree = self._object("tree", tree_data(made), before.tree if before is not None else None)
        made.memo, made.names = entry.memo, entry.names if self.names is None else self.names
        if last is not None:
            made.up, made.seq = last.commit, last.seq + 1
            made.jump = tuple([(at.commit or b"", at.id, at.seq) for at in map(self._at, jump_numbers(made.seq))])
        else:
            made.seq = 0
        made.commit = self._object("commit", commit_data(made), before.commit if before is not None else None)
        self._place(made, before if entry is before else None)

    def _place(self, made: ThreadCheckpoint, before: ThreadCheckpoint | None) -> None:
        self.last = self._numbers[made.seq] = made if made is before else self.chain.keep(made)
        self._under = before.commit if before is not None else b""

    def _at(self, seq: int) -> ThreadCheckpoint:
        found = self._numbers.get(seq)
        if found is None:
            assert self.base is not None
            found = self._numbers[seq] = self.chain.at(self.base, seq)
        return found

    def _object(self, kind: Kind, data: bytes, known: Id | None) -> Id:
        oid = self._identify(kind, data)
        if oid != known:
            self.objects[oid] = made = (kind, oid, data)
            self.fresh.append(made)
        return oid

    def _written(self, before: ThreadCheckpoint | None, batches: Sequence[Batch]) -> dict[str, Id]:
        """Return the blobs of a checkpoint's writes, with more folded in."""
        written = dict(before.written) if before is not None else {}
        new: dict[str, list[Batch]] = {}
        for rows, replace in batches:
            for row in rows:
                new.setdefault(row[1], []).append(((row,), replace))
        for task, more in new.items():
            known = written.get(task)
            own: tuple[Row, ...] = rows_of(self._blob(known), task) if known is not None else ()
            written[task] = self._object("blob", rows_blob(merged(own, more)), known)
        return written

    def _blob(self, oid: Id) -> bytes:
        found = self.objects.get(oid)
        return found[2] if found is not None else self.chain.read(oid)[1]


class Version:
    """A checkpoint as one side has it: ``entry`` (None: only writes that wait for it), and all writes that count."""

    __slots__ = ("entry", "rows", "said")

    def __init__(self, entry: ThreadCheckpoint | None, rows: Rows) -> None:
        self.entry, self.rows = entry, rows
        self.said = _said(entry) if entry is not None else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.said == other.said and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]


_NOTHING = Version(None, {})


def _said(entry: ThreadCheckpoint) -> tuple[object, ...]:
    """Return all that a checkpoint says, first its time: of two that differ the greater one is taken, in every clone."""
    ts = stated(entry.ck).get("ts")
    held = (sorted(entry.channels.items()), sorted(entry.rest.items()))
    return (ts if isinstance(ts, str) else "", entry.ck, entry.md, *held, entry.parent is not None, entry.parent or "")


class Side:
    """One namespace of a thread as one side has it: its chain, and the writes beside that."""

    __slots__ = ("chain", "late")

    def __init__(self, chain: ThreadChain, late: LateWrites) -> None:
        self.chain, self.late = chain, late

    def versions(self, floor: str | None, more: Collection[str]) -> dict[str, Version]:
        """Return the checkpoints above ``floor``, and those of ``more``, as far as they are here."""
        entries: dict[str, ThreadCheckpoint | None] = {}
        for entry in self.chain.walk():
            if floor is not None and entry.id <= floor:
                break
            entries[entry.id] = entry
        entries |= {id: self.chain.find(id) for id in more if id not in entries}
        found = {id: Version(entry, self.rows(id, entry)) for id, entry in entries.items()}
        return {id: version for id, version in found.items() if version.entry is not None or version.rows}

    def rows(self, id: str, entry: ThreadCheckpoint | None) -> Rows:
        """Return the writes that belong to a checkpoint."""
        rows = {key(row): row for row in self.chain.rows(entry)} if entry is not None else {}
        fold(rows, self.late.of(id))
        return rows

    def metadata(self, entry: ThreadCheckpoint) -> object:
        """Return the metadata of a checkpoint that are no JSON; None where only a saver can open them."""
        from gitbaton.langgraph.threads.decoding import opened

        try:
            return opened(typed_of(self.chain.blob(entry.rest["md"])))
        except ValueError:
            return None


@value
class ThreadChange:
    """Change that one side lacks: checkpoints by id (None: it must go), and writes that must stand."""

    puts: Mapping[str, ThreadCheckpoint | None]
    rows: Mapping[str, tuple[Row, ...]]

    def __bool__(self) -> bool:
        return bool(self.puts or self.rows)

    def made(self, side: Side, names: bytes | None = None) -> Built:
        """Return the side's chain with the change in it; ``names`` as for ``building``."""
        rows = {id: [(rows, True)] for id, rows in self.rows.items()}
        return rebuild(side.chain, self.puts, rows, side.late, names=names)


@value
class Apart:
    """Difference of two sides: what each lacks of the join; of the checkpoints, how many are new here, go from here, are
    changed here; and how many are new there, and go from there."""

    ours: ThreadChange
    theirs: ThreadChange
    added: int
    removed: int
    changed: int
    new: int
    gone: int

    def made(self, ours: Side, theirs: Side) -> Made:
        """Return the tips of chain and late writes for both, the same whichever side makes them, and the objects that they
        need."""
        if self.ours and self.theirs:
            built = self.theirs.made(theirs)
            return built.tip, built.late_tip, built.objects
        side = ours if self.theirs else theirs
        return side.chain.tip, side.late.tip, ()


def apart(
    ours: Side,
    theirs: Side,
    base: Side | None,
    *,
    elsewhere: bool = False,
    both: Callable[[Any, Any], Any] = max,
) -> Apart:
    """Compare what is here with what is there. Above the newest commit that both chains share, each checkpoint is looked at:
    what only one side has changed since ``base`` is taken, what it removed is removed; where both have changed something, a
    checkpoint that is there counts more than one that was removed, ``both`` says which of two, and writes are united. A base of
    ``elsewhere`` tells what was here, and not what was there. Raises RecordError, GitError."""
    floor = next((entry.id for entry in theirs.chain.walk() if ours.chain.holds(entry)), None)
    late = {id for side in (ours, theirs) for id in side.late.ids()}
    mine, other = ours.versions(floor, late), theirs.versions(floor, late)
    before = base.versions(floor, late) if base is not None else {}
    before = {id: version for id, version in before.items() if id in other} if elsewhere else before
    chosen = {id: _version(mine.get(id), other.get(id), before.get(id), both) for id in sorted({*mine, *other})}
    result = {id: version for id, version in chosen.items() if version is not None}
    if len(result) < len(chosen):
        result |= _ancestors(ours, result, {**other, **mine})
    here, there, now = ({id for id in found if found[id].entry is not None} for found in (mine, other, result))
    return Apart(
        ours=_change(mine, result),
        theirs=_change(other, result),
        added=len(now - here),
        removed=len(here - now),
        changed=sum(1 for id in now & here if result[id] != mine[id]),
        new=len(now - there),
        gone=len(there - now),
    )


def _ancestors(side: Side, result: Mapping[str, Version], all_: Mapping[str, Version]) -> dict[str, Version]:
    """Return the removed checkpoints that delta channels of the others are put together from: without them they would read as
    empty. ``side`` has what lies further down."""

    def find(id: str) -> ThreadCheckpoint | None:
        version = result.get(id) or all_.get(id)
        return version.entry if version is not None and version.entry is not None else side.chain.find(id)

    found: set[str] = set()
    for id in result:
        with suppress(NotFoundError):  # it is incomplete on both sides
            found |= needed("", find, [id], side.metadata).keys()
    return {id: all_[id] for id in found if id in all_ and id not in result}


def _three(mine: T | None, other: T | None, before: T | None, both: Callable[[T, T], T]) -> T | None:
    """Return the three-way merge of one thing: where only one side has changed it since ``before``, what that side has; where
    both have, what is there counts more than what was removed, and of two things ``both`` makes one."""
    if mine == other or other == before:
        return mine
    if mine == before or mine is None:
        return other
    return both(mine, other) if other is not None else mine


def _version(
    mine: Version | None, other: Version | None, before: Version | None, both: Callable[[Any, Any], Any]
) -> Version | None:
    def merged(mine: Version, other: Version) -> Version:
        said = _three(mine.said, other.said, before.said if before is not None else None, both)
        rows = dict(mine.rows)
        for name, row in other.rows.items():
            old = before.rows.get(name) if before is not None else None
            rows[name] = _three(rows.get(name, row), row, old, both) or row
        return Version(mine.entry if said == mine.said else other.entry, rows)

    return _three(mine, other, before, merged)


def _change(side: Mapping[str, Version], result: Mapping[str, Version]) -> ThreadChange:
    """Return what turns a side into the result."""
    puts: dict[str, ThreadCheckpoint | None] = {}
    rows: dict[str, tuple[Row, ...]] = {}
    for id in {*side, *result}:
        old, new = side.get(id, _NOTHING), result.get(id, _NOTHING)
        if old.said != new.said or new is _NOTHING:
            puts[id] = new.entry and new.entry.bare()
        more = tuple(sorted(row for name, row in new.rows.items() if old.rows.get(name) != row))
        if more:
            rows[id] = more
    return ThreadChange(puts=puts, rows=rows)


def metadata_of(entry: ThreadCheckpoint, metadata: Metadata | None) -> Mapping[str, Any]:
    """Return a checkpoint's metadata; what JSON does not carry is read by ``metadata``, and is nothing without it."""
    found = loads(entry.md) if entry.md else metadata(entry) if metadata is not None else None
    return found if isinstance(found, Mapping) else {}


def needed(thread: str, find: Find, ids: Iterable[str], metadata: Metadata | None) -> dict[str, ThreadCheckpoint]:
    """Return checkpoints that are here, and those before each, down to where each of its delta channels has a value. Raises
    NotFoundError where one of these is missing."""
    kept: dict[str, ThreadCheckpoint] = {}
    for head in filter(None, map(find, ids)):
        counters = metadata_of(head, metadata).get(_COUNTERS)
        missing = {name for name in counters if name not in head.channels} if isinstance(counters, Mapping) else set()
        line, at = {head.id: head}, head
        while missing and at.parent is not None and at.parent not in line:
            found = find(at.parent)
            if found is None:
                raise NotFoundError(
                    f"checkpoint {in_quotes(at.parent)} of thread {in_quotes(thread)} is not here, and channel"
                    f" {in_quotes(min(missing))} of {in_quotes(head.id)} is put together from it; nothing was pruned"
                )
            line[found.id] = at = found
            missing -= found.channels.keys()
        kept |= line
    return kept
