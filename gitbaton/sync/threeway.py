"""One namespace of a thread here, there, and as both last had it: what it becomes of the three. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gitbaton.errors import BatonError, NotFoundError, RecordError
from gitbaton.model import Oid
from gitbaton.threads.build import Built, rebuild
from gitbaton.threads.chain import Chain, Entries, jump_numbers
from gitbaton.threads.codec import key, loads, rows_of, typed_of
from gitbaton.threads.decoding import opaque, opened, readable
from gitbaton.threads.late import Late, fold
from gitbaton.threads.values import Entry, Id, Row
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from gitbaton.git.objects import Algorithm, Kind

    Read = Callable[[Id], tuple[Kind, bytes]]
    Rows = Mapping[tuple[str, int], Row]
    T = TypeVar("T")


@value
class Place:
    """Where a namespace of a thread stands in one repository: its chain, and the writes that came late."""

    tip: Oid | None = None
    late: Oid | None = None

    def __bool__(self) -> bool:
        return self.tip is not None or self.late is not None


class Version:
    """A checkpoint as one side has it: ``entry`` (None: only writes that wait for it), and all writes that count."""

    __slots__ = ("entry", "rows", "said")

    def __init__(self, entry: Entry | None, rows: Rows) -> None:
        self.entry, self.rows = entry, rows
        self.said = _said(entry) if entry is not None else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.said == other.said and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]


def _said(entry: Entry) -> tuple[object, ...]:
    """All that a checkpoint says, first its time: of two that differ the greater one is taken, in every clone."""
    try:
        found = loads(entry.ck) if entry.ck else None
    except RecordError:
        found = None
    ts = found.get("ts") if isinstance(found, dict) else None
    held = (sorted(entry.channels.items()), sorted(entry.rest.items()))
    return (ts if isinstance(ts, str) else "", entry.ck, entry.md, *held, entry.parent is not None, entry.parent or "")


class Side:
    """One of the three."""

    def __init__(self, read: Read, algorithm: Algorithm, place: Place, entries: Entries | None = None) -> None:
        self.read = read
        self.chain = Chain(read, algorithm, _id(place.tip), entries)
        self.late = Late(read, algorithm, _id(place.late))

    def holds(self, entry: Entry) -> bool:
        """Whether the chain, whose pointers are as they must be, has this very commit."""
        try:
            found = self.chain.find(entry.id)
        except BatonError:
            return False
        return found is not None and found.commit == entry.commit

    def is_below(self, other: Side) -> bool:
        """Whether the chain is a beginning of the other's, or all of it."""
        try:
            head = self.chain.head()
        except BatonError:
            return False
        return head is not None and other.holds(head)

    @property
    def length(self) -> int:
        """How many checkpoints the chain has."""
        head = self.chain.head()
        return head.seq + 1 if head is not None else 0

    def metadata(self, entry: Entry) -> object:
        """The metadata of a checkpoint that are no JSON; None where only a saver can open them."""
        try:
            return opened(typed_of(_blob(self.read, entry.rest["md"])))
        except ValueError:
            return None

    def versions(self, floor: str | None, more: Collection[str]) -> dict[str, Version]:
        """The checkpoints above ``floor``, and those of ``more``, as far as they are here."""
        entries: dict[str, Entry | None] = {}
        for entry in self.chain.walk():
            if floor is not None and entry.id <= floor:
                break
            entries[entry.id] = entry
        entries |= {id: self.chain.find(id) for id in more if id not in entries}
        found = {id: Version(entry, self.rows(id, entry)) for id, entry in entries.items()}
        return {id: version for id, version in found.items() if version.entry is not None or version.rows}

    def rows(self, id: str, entry: Entry | None) -> Rows:
        """The writes that belong to a checkpoint."""
        rows: dict[tuple[str, int], Row] = {}
        for task, oid in entry.written.items() if entry is not None else ():
            rows.update((key(row), row) for row in rows_of(_blob(self.read, oid), task))
        fold(rows, self.late.of(id))
        return rows


def _id(oid: Oid | None) -> Id | None:
    return bytes.fromhex(oid) if oid is not None else None


def _blob(read: Read, oid: Id) -> bytes:
    kind, data = read(oid)
    if kind != "blob":
        raise RecordError(f"object {oid.hex()} is not a blob")
    return data


@value
class Change:
    """What one side lacks: checkpoints by id (None: it must go), and writes that must stand."""

    puts: Mapping[str, Entry | None]
    rows: Mapping[str, tuple[Row, ...]]

    def __bool__(self) -> bool:
        return bool(self.puts or self.rows)

    def made(self, side: Side) -> Built:
        """The side's chain with the change in it."""
        return rebuild(side.chain, self.puts, {id: [(rows, True)] for id, rows in self.rows.items()}, side.late)


@value
class Apart:
    """How far two sides are apart: what each lacks of what both become; of the checkpoints, how many are new here, go from
    here, are changed here; and how many are new there, and go from there."""

    ours: Change
    theirs: Change
    added: int
    removed: int
    changed: int
    new: int
    gone: int


def apart(ours: Side, theirs: Side, base: Side | None, *, elsewhere: bool = False) -> Apart:
    """Compare what is here with what is there. Above the newest commit that both chains share, each checkpoint is looked at:
    what only one side has changed since ``base`` is taken, what it removed is removed; where both have changed something, a
    checkpoint that is there counts more than one that was removed, the greater one more than the other, and writes are
    united. A base of ``elsewhere`` tells what was here, and not what was there. Raises RecordError, GitError."""
    floor = next((entry.id for entry in theirs.chain.walk() if ours.holds(entry)), None)
    late = {id for side in (ours, theirs) for id in side.late.ids()}
    mine, other = ours.versions(floor, late), theirs.versions(floor, late)
    before = base.versions(floor, late) if base is not None else {}
    before = {id: version for id, version in before.items() if id in other} if elsewhere else before
    chosen = {id: _version(mine.get(id), other.get(id), before.get(id)) for id in sorted({*mine, *other})}
    result = {id: version for id, version in chosen.items() if version is not None}
    if len(result) < len(chosen):
        result |= _ancestors(ours, result, {**other, **mine})
    both = {id for id in result if result[id].entry is not None}
    here = {id for id, version in mine.items() if version.entry is not None}
    there = {id for id, version in other.items() if version.entry is not None}
    return Apart(
        ours=_change(mine, result),
        theirs=_change(other, result),
        added=len(both - here),
        removed=len(here - both),
        changed=sum(1 for id in both & here if result[id] != mine[id]),
        new=len(both - there),
        gone=len(there - both),
    )


def _ancestors(side: Side, result: Mapping[str, Version], all_: Mapping[str, Version]) -> dict[str, Version]:
    """Of what was removed, that from which delta channels of what stays are put together: without it they would read as empty.
    ``side`` has what lies further down."""
    from gitbaton.threads.edit import needed

    def find(id: str) -> Entry | None:
        version = result.get(id) or all_.get(id)
        return version.entry if version is not None and version.entry is not None else side.chain.find(id)

    found: set[str] = set()
    for id in result:
        try:
            found |= needed("", find, [id], side.metadata)
        except NotFoundError:  # it is incomplete on both sides
            continue
    return {id: all_[id] for id in found if id in all_ and id not in result}


def _three(mine: T | None, other: T | None, before: T | None, both: Callable[[T, T], T]) -> T | None:
    """What one thing becomes: where only one side has changed it since ``before``, what that side has; where both have, what
    is there counts more than what was removed, and of two things ``both`` makes one."""
    if mine == other or other == before:
        return mine
    if mine == before or mine is None:
        return other
    return both(mine, other) if other is not None else mine


def _version(mine: Version | None, other: Version | None, before: Version | None) -> Version | None:
    def merged(mine: Version, other: Version) -> Version:
        said = _three(mine.said, other.said, before.said if before is not None else None, max)
        rows = dict(mine.rows)
        for name, row in other.rows.items():
            old = before.rows.get(name) if before is not None else None
            rows[name] = _three(rows.get(name, row), row, old, max) or row
        return Version(mine.entry if said == mine.said else other.entry, rows)

    return _three(mine, other, before, merged)


def _change(side: Mapping[str, Version], result: Mapping[str, Version]) -> Change:
    """What makes the result of a side."""
    puts: dict[str, Entry | None] = {}
    rows: dict[str, tuple[Row, ...]] = {}
    for id in {*side, *result}:
        old, new = side.get(id, _NOTHING), result.get(id, _NOTHING)
        if old.said != new.said or new is _NOTHING:
            puts[id] = new.entry and bare(new.entry)
        more = tuple(sorted(row for name, row in new.rows.items() if old.rows.get(name) != row))
        if more:
            rows[id] = more
    return Change(puts=puts, rows=rows)


_NOTHING = Version(None, {})


def bare(entry: Entry) -> Entry:
    """A checkpoint without its place in a chain and without writes."""
    return Entry(entry.id, entry.parent, entry.ck, entry.md, entry.channels, rest=entry.rest, names=entry.names)


def _check(side: Side, known: Sequence[Side]) -> None:
    """Look at the checkpoints of a chain that none of the ``known`` has, and at all that they hold.

    Raises RecordError where something is not as we write it, GitError where it is missing.
    """
    found: list[Entry] = []
    below: Entry | None = None
    for entry in side.chain.walk():
        if any(other.holds(entry) for other in known):
            below = entry
            break
        found.append(entry)
    first = below.seq + 1 if below is not None else 0
    seen: set[Id] = set()
    for entry in found:
        for number, jump in zip(jump_numbers(entry.seq), entry.jump, strict=False):
            target = found[-1 - (number - first)] if number >= first else side.chain.at(below or entry, number)
            if jump != (target.commit, target.id, target.seq):
                raise RecordError(f"checkpoint '{entry.id[:100]}' points at what is not below it")
        if entry.names != found[0].names:
            raise RecordError(f"checkpoint '{entry.id[:100]}' is of a thread with another name")
        if len(entry.jump) != len(jump_numbers(entry.seq)):
            raise RecordError(f"checkpoint '{entry.id[:100]}' lacks what it must point at")
        _look(side, entry)
        for oid in {*entry.channels.values()} - seen:
            typed_of(_blob(side.read, oid))
            seen.add(oid)
        for task, oid in entry.written.items():
            rows_of(_blob(side.read, oid), task)
    for id in side.late.ids():
        side.late.of(id)


def _look(side: Side, entry: Entry) -> None:
    """Raise RecordError where a saver would refuse what a checkpoint says of itself. What is encrypted only it can open."""
    for kind, text in (("ck", entry.ck), ("md", entry.md)):
        found: object = loads(text) if text else None
        if not text:
            typed = typed_of(_blob(side.read, entry.rest[kind]))
            if opaque(typed[0]) or (typed[0] == "msgpack" and not readable()):
                continue
            try:
                found = opened(typed)
            except ValueError as error:
                raise RecordError(f"checkpoint '{entry.id[:100]}' is {error}") from None
        if not isinstance(found, dict):
            raise RecordError(f"checkpoint '{entry.id[:100]}' is no object")
        if kind == "ck" and found.get("id") != entry.id:
            raise RecordError(f"checkpoint '{entry.id[:100]}' says that it is another")


def broken(side: Side, *known: Side) -> str:
    """Why nobody can use what a side has; empty where everything is as we write it. What the ``known`` have is."""
    try:
        _check(side, known)
    except BatonError as error:
        return error.message
    return ""
