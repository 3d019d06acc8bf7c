"""Join: merge chains of checkpoints and notes of commits, the same everywhere: the union by id in order of time."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import cast

from gitbaton.base.codec import Note, decode, earlier_ids, entry, in_quotes, parse_note, payload, short, timestamp, track_in
from gitbaton.base.codec.notes import MAX_ENTRIES
from gitbaton.base.errors import GitError, RecordError
from gitbaton.base.model import Checkpoint, Oid, Stored
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.store.chain import INDEX, MAX_COMMIT, payload_in, root_objects
from gitbaton.checkpoints.store.meta import NOTHING, Meta
from gitbaton.checkpoints.store.read import Store
from gitbaton.checkpoints.store.refs import NOTES, chain_ref
from gitbaton.git.objects import (
    MAX_READ,
    Algorithm,
    NewObject,
    Object,
    Objects,
    RawCommit,
    ReadAhead,
    RefChange,
    commit_data,
    edit_many_notes,
    exchange_notes,
    new_object,
    object_id,
    parse_commit,
    parse_tree,
    take_notes,
    walk_notes,
)
from gitbaton.git.publish import publish

_HEAD = re.compile(rb'\n  "head": "([0-9a-f]+)",\n')
_MANUAL = b'\n  "kind": "manual",\n'
_CREATED = re.compile(rb'\n  "created": "([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)",\n')
_IDS = re.compile(rb'"([0-9a-f]{40,64})"')
Settle = Callable[[Oid, Note], Note]
Row = tuple[Oid, str, bytes, Oid, "Oid | None", bytes, "Oid | None"]
"""A record at a commit: its id and time, the commit's message, tree, base and author, and the HEAD that the base may stand in
for."""
Mark = tuple[bytes, Oid]  # a checkpoint's place in the order: its time as it is stored, and its id
_LARGEST = 256 << 20  # bytes of a note, also of one that somebody else wrote
_CHUNK = 256
_MANY = 2000  # commits from which on a second process pays
_PART = 10  # commits of one chain that are read at a time, with those of others


@value
class Link:
    """One checkpoint without its place: its bytes as they are stored, so that its id survives.

    ``base`` is the commit it stands on, whatever its place did to the second parent; ``commit`` is where it stands now,
    or None.
    """

    id: Oid
    created: datetime
    message: bytes
    tree: Oid
    base: Oid | None
    author: bytes
    commit: Oid | None = None

    @property
    def carries(self) -> Oid | None:
        """The id of the manual checkpoint with the words that it takes along. Raises RecordError for bytes that are none."""
        raw = payload(self.message)
        carried = decode(raw).carried if b'"carried"' in raw else None
        return carried.id if carried is not None else None

    @property
    def earlier(self) -> tuple[Oid, ...]:
        """The ids that it had before its track was renamed or brought back, the newest first. Raises as ``carries``."""
        return earlier_ids(payload(self.message)) if b'"was"' in self.message else ()


@value
class JoinPlan:
    """A plan to put links into a track.

    ``fresh``: the links that are new, ``added`` their number; ``removed``: ids that are no longer in the chain; ``objects`` to
    write; ``change``: the move of the chain's ref, None when it stays, its end when no checkpoint is left. ``placed``: the ids
    in the chain as it will be above its first ``kept`` checkpoints, which nothing can have changed, each with its time, oldest
    first; ``newest``: the last of them. ``altered``: the ids that come to stand on another commit than here, as the other side
    has them: no id says what lies beside the index. ``moved``: those that get a new commit, each with the one it had and the
    base in its second parent.
    """

    fresh: tuple[Link, ...] = ()
    removed: tuple[Oid, ...] = ()
    objects: tuple[NewObject, ...] = ()
    change: RefChange | None = None
    placed: Mapping[Oid, datetime] = MappingProxyType({})
    newest: Link | None = None
    kept: int = 0
    altered: tuple[Oid, ...] = ()
    moved: tuple[tuple[Oid, Oid, Oid | None], ...] = ()

    @property
    def added(self) -> int:
        """The number of ids that are new."""
        return len(self.fresh)


def links(store: Store, track: str, start: Oid | None = None) -> list[Link]:
    """Return a chain's checkpoints, oldest first: the track's own, or that of the commit ``start`` read as this track.

    Raises RecordError for a chain that is broken anywhere: what cannot be read would be lost by writing it again.
    """
    if start is None:
        tip = store.objects.info(chain_ref(track))
        start = tip.oid if tip is not None else None
    return linked(store, track, _commits(store, track, start))


def news(store: Store, track: str, start: Oid, meta: Meta = NOTHING) -> list[Link]:
    """Return the checkpoints of the chain at ``start`` above the last commit that it has in common with the track's own chain.

    As ``links``, and as good for a join; what both chains hold is not looked at. None where all are as they are here, or are
    dropped by ``meta``: a chain that was pruned here. Raises RecordError.
    """
    tip = store.objects.info(chain_ref(track))
    own = dict.fromkeys(_commits(store, track, tip.oid)) if tip is not None else {}
    oids = store.walk(start)
    common = next((place for place, oid in enumerate(oids) if oid in own), None)
    if meta.drops and tip is not None and tip.oid not in oids and (common is not None or oids[-1] == store.root):
        mine, more = apart(store, own, oids)
        here = dict(_bodies(store, mine))
        kept = not any(map(meta.dropped, here))  # else what was dropped meanwhile has to go
        if kept and all(oid and (meta.dropped(oid) or here.get(oid) == body) for oid, body in _bodies(store, more)):
            return []
    if common is None:
        return links(store, track, start)
    return linked(store, track, oids[:common][::-1])


def apart(store: Store, own: Collection[Oid], there: Sequence[Oid]) -> tuple[list[Oid], list[Oid]]:
    """Return the commits of a chain, the oldest first and without its root, that another one, newest first, has not, and those
    of the other above the newest that both have, in these orders."""
    theirs, end = frozenset(there), {*own, store.root}
    return [oid for oid in own if oid not in theirs], [*takewhile(lambda oid: oid not in end, there)]


def _bodies(store: Store, oids: Sequence[Oid]) -> Iterator[tuple[Oid, RawCommit]]:
    """Yield the ids of the checkpoints at chain commits, empty for none, with the commits but for their places in a chain."""
    for at, found in zip(oids, store.commits(oids), strict=True):
        raw = payload_in(found.data) if found is not None and found.data is not None else b""
        if found is None or found.data is None or not raw:
            yield "", RawCommit(tree="", parents=(), author=b"", message=b"")
            continue
        commit, mark = parse_commit(found.data), _mark(store, raw)
        oid = object_id(store.objects.algorithm, "blob", raw) if mark is None else mark[1]
        if mark is not None:
            store.met[at] = oid
        yield oid, replace(commit, parents=commit.parents[1:])


def _commits(store: Store, track: str, start: Oid | None) -> list[Oid]:
    """Return the commits of a chain, oldest first, without its root."""
    if start is None:
        return []
    oids = store.walk(start)
    if oids[-1] != store.root:
        list(_rows(store, track, oids[-1:]))
        raise RecordError(f"track {in_quotes(track)} has a broken record: its chain does not begin at the root")
    return oids[-2::-1]


def linked(store: Store, track: str, oids: Sequence[Oid]) -> list[Link]:
    """Return chain commits, the oldest first, without their places. Raises RecordError for one that is broken."""
    with store.reading(track):
        rows = list(_rows(store, track, oids))
    bases = _bases(store, zip(oids, rows, strict=True))
    return [
        Link(
            id=oid,
            created=datetime.fromisoformat(created),
            message=message,
            tree=tree,
            base=bases.get(commit, base),
            author=author,
            commit=commit,
        )
        for commit, (oid, created, message, tree, base, author, _) in zip(oids, rows, strict=True)
    ]


@contextmanager
def reading_ahead(store: Store, chains: Iterable[tuple[str, Sequence[Oid]]], least: int = _MANY) -> Iterator[None]:
    """Read commits of chains, given by their tracks, so that until the end of the block ``linked`` has each once; ``least`` or
    more by two processes. Of what stands in two chains of a track the record is decoded once."""
    from gitbaton.base.system.parallel import mapped

    parts = [(track, oids[at : at + _PART]) for track, oids in chains for at in range(0, len(oids), _PART)]
    read, rows = dict[Oid, Object | None](), dict[tuple[str, Oid | bytes], Row | str]()

    def before(some: Sequence[tuple[str, Sequence[Oid]]]) -> None:
        oids = [oid for _, part in some for oid in part]
        read.clear()
        read.update(zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True))

    def work(part: tuple[str, Sequence[Oid]]) -> list[Row | str]:
        with store.reading(part[0]):
            return [_row_or_why(store, part[0], oid, read[oid]) for oid in part[1]]

    if sum(len(oids) for _, oids in parts) >= least:
        with suppress(GitError):  # whoever asks for one reads it then
            found = mapped(work, parts, 0, before=before, forked=store.objects.forked)
            for (track, oids), made in zip(parts, found, strict=True):
                rows |= {(track, oid): row for oid, row in zip(oids, made, strict=True)}
    outer, store.rows = store.rows, rows
    try:
        yield
    finally:
        store.rows = outer


def _rows(store: Store, track: str, oids: Sequence[Oid]) -> Iterator[Row]:
    """Yield the records at commits of a track's chain. Raises RecordError for one that is broken."""
    made = [store.rows.pop((track, oid), None) if store.rows else None for oid in oids]
    rest = store.commits([oid for oid, row in zip(oids, made, strict=True) if row is None])
    for oid, row in zip(oids, made, strict=True):
        told = _row_or_why(store, track, oid, next(rest)) if row is None else row
        if isinstance(told, str):
            raise RecordError(f"track {in_quotes(track)} has a broken record: {told}")
        if store.rows is not None:
            store.rows[track, told[2]] = told
        yield told


def _row_or_why(store: Store, track: str, oid: Oid, found: Object | None) -> Row | str:
    """Return the record at a commit of a track's chain, decoded strictly; why it is broken, where it is."""
    data = found.data or b"" if found is not None else b""
    seen, algorithm = store.recalled(oid), store.objects.algorithm
    if seen is not None and (seen.checkpoint.track != track or object_id(algorithm, "blob", payload_in(data)) != seen.id):
        seen = None
    if store.rows and found is not None and found.kind == "commit" and data:
        raw = parse_commit(data)
        same: Row | None = store.rows.get((track, raw.message))
        base = raw.parents[1] if len(raw.parents) == 2 else None
        if same is not None and 1 <= len(raw.parents) <= 2 and (raw.tree, base, raw.author) == same[3:6]:
            return same
    try:
        stored = seen or store.stored(found, track, oid)
    except RecordError as error:
        return error.message
    raw, c = parse_commit(data), stored.checkpoint
    head = c.head if _may_stand_in(stored) else None
    return stored.id, c.created.isoformat(), raw.message, raw.tree, stored.base, raw.author, head


def _bases(store: Store, found: Iterable[tuple[Oid, Row]]) -> dict[Oid, Oid]:
    """Return the heads of chain commits with a second parent that only stands in for HEAD, since HEAD was the first one.

    Elsewhere in a chain they need no stand-in; kept, it would make the commits depend on the way the chain grew.
    """
    asked = [(commit, base, author, head) for commit, (*_, base, author, head) in found if base and head]
    read = iter(store.objects.read_many([oid for _, base, _, head in asked for oid in (base, head)]))
    result = {}
    for commit, _, author, head in asked:
        base, then = (parse_commit(o.data) if o and o.kind == "commit" and o.data else None for o in (next(read), next(read)))
        if base is None or then is None:
            continue
        if base == RawCommit(tree=then.tree, parents=(head,), author=author, message=INDEX):
            result[commit] = head
    return result


def _may_stand_in(stored: Stored) -> bool:
    head = stored.checkpoint.head
    if head is None or stored.base in (None, head):
        return False
    files = stored.checkpoint.files
    flagged = files is not None and (files.index.flags or files.index.flags_more or files.index.unmerged)
    return not flagged


def joined(
    store: Store, track: str, more: Iterable[Link] = (), *, meta: Meta = NOTHING, keep: Collection[Oid] | None = None
) -> JoinPlan:
    """Plan to put links into a track that may not exist yet, less what ``meta`` drops and, with ``keep``, less all but these
    ids; reads only. Called with the lock held.

    The common beginning keeps its commits; what comes after the first difference is written again with its own bytes.
    Whatever the order and the way in which the same checkpoints come together, the same chain comes out. Raises RecordError
    when a chain is broken, or a link's tree or base is not there.
    """

    def dropped(oid: Oid) -> bool:
        return meta.dropped(oid) or (keep is not None and oid not in keep)

    coming = [link for link in more if not dropped(link.id)]
    tip = store.objects.info(chain_ref(track))
    if not coming and (tip is None or not (meta.drops or keep is not None)):
        return JoinPlan()
    own = _commits(store, track, tip.oid if tip is not None else None)
    found = list(marks(store, own))
    kept = _untouched(found, coming, dropped)
    # What is dropped needs no place, and is not read further than to its id.
    gone = {oid: mark[1] for oid, mark in zip(own[kept:], found[kept:], strict=True) if mark is not None and dropped(mark[1])}
    have = linked(store, track, [oid for oid in own[kept:] if oid not in gone])
    union = [link for link in merged(have, coming) if not dropped(link.id)]
    below, tree = _below(store, own, kept)
    objects, placed = on_top(store.objects.algorithm, below, tree, union)
    if coming or keep is None:  # a removal has looked at all of it before
        _require(store, placed, objects)
    last = placed[-1].commit if placed else below if kept else None
    old = tip.oid if tip is not None else None
    after, newest = {link.id: link.created for link in placed}, placed[-1] if placed else None
    if last == old:
        return JoinPlan(placed=after, newest=newest, kept=kept)
    before = {link.id: link.base for link in have}
    ids = gone | {link.commit: link.id for link in have if link.commit is not None}
    return JoinPlan(
        fresh=tuple(link for link in placed if link.id not in before),
        removed=tuple(ids[oid] for oid in own[kept:] if ids[oid] not in after),
        objects=tuple(objects),
        change=RefChange(name=chain_ref(track), new=last, old=old),
        placed=after,
        newest=newest,
        kept=kept,
        altered=tuple(link.id for link in union if link.id in before and link.base != before[link.id]),
        moved=tuple(_moved(below, union, placed)),
    )


def _moved(below: Oid, union: Iterable[Link], placed: Iterable[Link]) -> Iterator[tuple[Oid, Oid, Oid | None]]:
    """Yield what moves, as a JoinPlan has it, but for what gets a stand-in for its base."""
    for old, new in zip(union, placed, strict=True):
        if old.commit is not None and new.commit is not None and old.commit != new.commit and new.base != below:
            yield old.commit, new.commit, new.base
        below = new.commit or below


def _untouched(found: Sequence[Mark | None], coming: Iterable[Link], dropped: Callable[[Oid], bool]) -> int:
    """Count the first checkpoints of a chain, by their places, that stay as they are, whatever comes: none of them is dropped,
    and each is before all that comes. Where the chain is not in order, or that cannot be seen, 0."""
    if any(mark is None for mark in found):
        return 0
    order = [mark for mark in found if mark is not None]
    if any(first >= second for first, second in pairwise(order)):
        return 0
    first = min(((timestamp(link.created).encode(), link.id) for link in coming), default=None)
    place = len(order) if first is None else bisect_left(order, first)
    return next((n for n, (_, oid) in enumerate(order[:place]) if dropped(oid)), place)


def marks(store: Store, oids: Sequence[Oid]) -> Iterator[Mark | None]:
    """Yield the places of chain commits in the order of time, taken from their bytes; None for one that does not show its own.

    Their JSON is not taken apart, so this says nothing of whether they can be used.
    """
    unknown = _payloads(store, [oid for oid in oids if store.recalled(oid) is None])
    for oid in oids:
        stored = store.recalled(oid)
        if stored is not None:
            yield timestamp(stored.checkpoint.created).encode(), stored.id
        else:
            yield _mark(store, next(unknown))


def telling(store: Store, tips: Mapping[str, Oid], ids: Collection[Oid]) -> set[str]:
    """Return the refs of chains with a checkpoint that is one of ``ids`` or names one of them, and those that cannot be walked
    or have a commit that shows no place. No JSON is taken apart."""
    named, chains = [oid.encode() for oid in ids], store.objects.chains(tips.values())
    oids = list(dict.fromkeys(oid for chain in chains.values() for oid in chain if oid != store.root))
    hits = set[Oid]()
    for oid, raw in zip(oids, _payloads(store, oids), strict=True):
        mark = _mark(store, raw)
        if mark is None or mark[1] in ids or any(name in raw for name in named):
            hits.add(oid)
    told = {tip for tip, chain in chains.items() if chain[-1:] != [store.root] or not hits.isdisjoint(chain)}
    return {ref for ref, tip in tips.items() if tip in told or tip not in chains}


def _payloads(store: Store, oids: Sequence[Oid]) -> Iterator[bytes]:
    """Yield the JSON of chain commits; empty where one has none."""
    for found in store.objects.read_many(oids, MAX_COMMIT):
        yield payload_in(found.data) if found is not None and found.data is not None else b""


def having(store: Store, tips: Mapping[str, Oid], drops: Meta, named: Collection[Oid]) -> list[str]:
    """Return the tracks, given by their tips, with a checkpoint that is dropped, or that mentions one of ``named``, in order of
    their names; those that cannot be read are among them. The records are not taken apart."""
    walks = {track: store.walk(oid) for track, oid in tips.items()}
    commits = list(dict.fromkeys(oid for walk in walks.values() for oid in walk if oid != store.root))
    asked, found = frozenset(oid.encode() for oid in named), set[Oid]()
    algorithm = store.objects.algorithm
    for commit, raw in zip(commits, _payloads(store, commits), strict=True):
        named_there = bool(asked) and not asked.isdisjoint(_IDS.findall(raw))
        if not raw or named_there or drops.dropped(object_id(algorithm, "blob", raw)):
            found.add(commit)
    return sorted(track for track, walk in walks.items() if walk[-1] != store.root or not found.isdisjoint(walk))


def _mark(store: Store, raw: bytes) -> Mark | None:
    times = _CREATED.findall(raw)
    return (times[0], object_id(store.objects.algorithm, "blob", raw)) if len(times) == 1 else None


def _below(store: Store, own: Sequence[Oid], kept: int) -> tuple[Oid, Oid]:
    """Return the commit on which the rest of a chain is put, and its tree."""
    if kept == 0:
        empty, root = root_objects(store.objects.algorithm)
        return root.oid, empty.oid
    tree = store.tree_of(own[kept - 1])
    if tree is None:
        raise RecordError(f"commit {own[kept - 1]} cannot be read")
    return own[kept - 1], tree


def merged(have: Iterable[Link], more: Iterable[Link]) -> list[Link]:
    """Return the union by id in the order of time. Pure.

    Of two commits with one id every clone takes the same: the one with the smaller raw bytes without the parent lines, then
    the one with the smaller base id; one without a base comes last, because a base keeps a user's commit.
    """
    chosen: dict[Oid, Link] = {}
    for link in (*have, *more):
        other = chosen.get(link.id)
        if other is None or _rank(link) < _rank(other):
            chosen[link.id] = link
    return sorted(chosen.values(), key=lambda link: (link.created, link.id))


def _rank(link: Link) -> tuple[bytes, bool, Oid]:
    raw = commit_data(tree=link.tree, parents=(), author=link.author, message=link.message)
    return raw, link.base is None, link.base or ""


def on_top(algorithm: Algorithm, parent: Oid, tree: Oid, union: Iterable[Link]) -> tuple[list[NewObject], list[Link]]:
    """Put the links on top of the commit ``parent`` with its ``tree``; return the objects to write, and each link where it will
    stand. Pure.

    A link that stands there already, byte for byte as it would be written, keeps its commit.
    """
    objects = root_objects(algorithm)
    result = []
    for link in union:
        parents, made = (parent,) if link.base is None else (parent, link.base), []
        if link.base == parent:  # the parents of a commit are never equal: a commit of the index stands in
            data = commit_data(tree=tree, parents=(parent,), author=link.author, message=INDEX)
            made.append(new_object(algorithm, "commit", data))
            parents = (parent, made[-1].oid)
        data = commit_data(tree=link.tree, parents=parents, author=link.author, message=link.message)
        made.append(new_object(algorithm, "commit", data))
        tree, parent = link.tree, made[-1].oid
        if parent != link.commit:
            objects += made
        result.append(replace(link, commit=parent))
    return objects, result


def _require(store: Store, placed: Sequence[Link], objects: Sequence[NewObject]) -> None:
    """Raise RecordError for a commit to be written without its tree or base: git could neither check, pack nor push it."""
    kinds: dict[Oid, str] = {item.oid: item.kind for item in objects}
    written = [link for link in placed if link.commit in kinds]
    needs = [(link, oid, kind) for link in written for oid, kind in ((link.tree, "tree"), (link.base, "commit")) if oid]
    wanted = sorted({oid for _, oid, _ in needs} - kinds.keys())
    for oid, found in zip(wanted, store.objects.read_many(wanted, 0), strict=True):
        if found is not None:
            kinds[oid] = found.kind
    for link, oid, kind in needs:
        if kinds.get(oid) != kind:
            raise RecordError(f"{kind} {oid}, which checkpoint {link.id} stands on, is not in this repository")


@value
class ChainPlace:
    """A place of a checkpoint: its time as it is stored, its track, and its commit in that track's chain. ``noted``: the
    commit with an entry of it in its note, None where there is none."""

    created: bytes
    track: str
    commit: Oid
    noted: Oid | None = None


class Places:
    """The checkpoints of the chains here, by their tips as of the last listing: each is read from its newest on, as far as it
    must be."""

    def __init__(self, store: Store, tips: Mapping[str, Oid] | None = None) -> None:
        self.store, self._tips = store, tips
        self._known: dict[str, dict[Oid, ChainPlace]] = {}
        self._rest: dict[str, Iterator[dict[Oid, ChainPlace]]] = {}
        self._walks: dict[Oid, list[Oid]] = {}

    def find(self, oid: Oid, *tracks: str) -> ChainPlace | None:
        """Return the place of a checkpoint in the first of some tracks that has it; None where none that can be read does."""
        for track in tracks:
            known = self._known.setdefault(track, {})
            for more in () if oid in known else self._rest.setdefault(track, self._walk(track)):
                known |= more
                if oid in known:
                    break
            if oid in known:
                return known[oid]
        return None

    def anywhere(self, oid: Oid, text: bytes) -> ChainPlace | None:
        """Return the place of a checkpoint; the track that its entry names is looked at first."""
        return self.find(oid, track_in(text)) or self.find(oid, *sorted(self._chains))

    @cached_property
    def _chains(self) -> Mapping[str, Oid]:
        """Tips of the chains, listed once."""
        return self.store.chains()[0] if self._tips is None else self._tips

    def noted(self, target: Oid, tracks: Collection[str] | None = None) -> Iterator[tuple[Oid, ChainPlace]]:
        """Yield the checkpoints of all chains, or of some, that have an entry in the note of a commit."""
        asked = self._chains if tracks is None else tracks
        fresh = [self._chains[track] for track in asked if track in self._chains and track not in self._rest]
        self._walks |= self.store.linked(fresh) if len(fresh) > 1 else {}
        for track in asked:
            self.find("", track)  # no checkpoint's: all are read
            yield from ((oid, place) for oid, place in self._known[track].items() if place.noted == target)

    def settled(self, target: Oid, note: Note, gone: Callable[[Oid], bool]) -> Note:
        """Complete a note that says that it had older entries once from the chains: so it says so only where there are more
        than it holds, and is the same in each clone whatever it held before."""
        there = {oid: place for oid, place in self.noted(target) if not gone(oid)}
        entries, times = dict(note.entries), {oid: place.created for oid, place in there.items()}
        for oid, text in note.entries:
            place = None if oid in times else self.anywhere(oid, text)
            times |= {oid: place.created} if place is not None else {}
        order = sorted({*entries, *there}, key=lambda oid: (times.get(oid, b""), oid), reverse=True)[: MAX_ENTRIES + 1]
        texts = {oid: entries.get(oid) or entry(oid, self.checkpoint(there[oid])) for oid in order}
        return replace(note, entries=tuple(texts.items()), older=False)

    def checkpoint(self, place: ChainPlace) -> Checkpoint:
        """Return the checkpoint there. Raises RecordError."""
        return self.store.stored(self.store.objects.read(place.commit), place.track, place.commit).checkpoint

    def full(self, oid: Oid, text: bytes) -> bytes:
        """Return the entry of a checkpoint as its chain has it; the given text where none does."""
        place = self.anywhere(oid, text)
        try:
            return entry(oid, self.checkpoint(place)) if place is not None else text
        except RecordError:
            return text

    def _walk(self, track: str) -> Iterator[dict[Oid, ChainPlace]]:
        tip = self._chains.get(track)
        try:
            oids = self._walks.get(tip) or self.store.walk(tip) if tip is not None else []
        except GitError:  # a broken one knows none
            return
        for start in range(0, len(oids), _CHUNK):
            part = oids[start : start + _CHUNK]
            found = dict[Oid, ChainPlace]()
            for at, raw in zip(part, _payloads(self.store, part), strict=True):
                mark, head = _mark(self.store, raw), _HEAD.search(raw) if _MANUAL in raw else None
                if mark is not None:
                    noted = head.group(1).decode() if head is not None else None
                    found[mark[1]] = ChainPlace(created=mark[0], track=track, commit=at, noted=noted)
            yield found


def plan_notes(
    store: Store,
    notes: Mapping[Oid, bytes],
    author: bytes,
    message: bytes,
    removed: Collection[Oid] = (),
    onto: tuple[Oid | None, Oid | None] | None = None,
    full: Callable[[Oid, bytes], bytes] | None = None,
    settle: Settle | None = None,
) -> tuple[list[NewObject], RefChange | None]:
    """Return the objects to write so that each text is the note of its commit, and the move of the notes ref, None when it
    stays.

    The entries of the checkpoints ``removed`` go from all notes, wherever git has copied them, and then the new commit has no
    parent, so that it does not lead to the old text. Reads only. ``author`` has a date; ``onto``: a commit of notes and its
    tree instead of ours; ``full``: see Note.render; ``settle``: what becomes of a note that says it had older entries, with the
    commit that it is for. Raises RecordError when something else stands at the ref.
    """
    old, tree = store.notes_tree() if onto is None else onto
    pending = _Pending(store.objects)
    if tree and removed:
        take_notes(pending, tree)
    blobs = _without(pending, tree, removed, full, settle) if tree and removed else {}
    if tree and blobs:
        texts = {blob: text and new_object(pending.algorithm, "blob", text) for blob, text in blobs.items()}
        made = exchange_notes(cast(Objects, pending), tree, {blob: new.oid if new else None for blob, new in texts.items()})
        pending.add(made)
        tree = made[-1].oid
    elif not notes:
        return [], None
    new = [made for made in texts.values() if made] if blobs else []
    fresh = {target: new_object(pending.algorithm, "blob", text) for target, text in notes.items()}
    new += fresh.values()
    tree = edit_many_notes(cast(Objects, pending), tree, {target: blob.oid for target, blob in fresh.items()}, pending.add)
    root = tree or new_object(pending.algorithm, "tree", b"").oid
    parents = (old,) if old and not blobs else ()
    data = commit_data(tree=root, parents=parents, author=author, message=message)
    commit = new_object(pending.algorithm, "commit", data)
    return [*new, *pending.below(root), commit], RefChange(name=NOTES, new=commit.oid, old=old)


def _without(
    objects: ReadAhead,
    tree: Oid,
    removed: Collection[Oid],
    full: Callable[[Oid, bytes], bytes] | None,
    settle: Settle | None,
) -> dict[Oid, bytes]:
    """Return the blobs of a notes tree that have entries of checkpoints, or had some, and their text without these. Raises
    RecordError for one that cannot be read."""
    named: dict[Oid, Oid] = {}
    for target, blob in walk_notes(cast(Objects, objects), tree):
        named.setdefault(blob, target)
    gone = frozenset(removed)
    changed: dict[Oid, bytes] = {}
    for (blob, target), found in zip(named.items(), objects.objects.read_many(list(named), _LARGEST), strict=True):
        if found is None or found.data is None:
            raise RecordError(f"the note of {target} cannot be read, so that nothing can be removed from it")
        note = parse_note(found.data)
        kept = replace(note, entries=tuple(item for item in note.entries if item[0] not in gone))
        if note.older and settle is not None:
            kept = settle(target, kept)
        if kept != note:
            text = kept.render(full) if kept.entries or kept.preamble or kept.older else b""
            changed |= {blob: text} if text != found.data else {}
    return changed


def merged_note(
    raws: Iterable[bytes],
    new: Mapping[Oid, bytes],
    times: Mapping[Oid, bytes],
    dropped: Callable[[Oid], bool],
    full: Callable[[Oid, bytes], bytes] | None = None,
    settle: Callable[[Note], Note] | None = None,
) -> bytes:
    """Merge several notes of one commit and new entries into one: every clone that joins the same ones writes the same.

    ``times``: when checkpoints were created, as text that sorts; entries stand newest first, and one of unknown time
    after them. Entries of ``dropped`` checkpoints are left out; text that is not ours is kept; ``full``: see Note.render;
    ``settle``: what becomes of a note that says that it had older entries, and has no more than it can hold.
    """
    notes = [parse_note(raw) for raw in raws]
    entries: dict[Oid, bytes] = dict(new)
    for note in notes:
        for oid, text in note.entries:
            said = (text, entries.get(oid, text))
            entries[oid] = min(said, key=lambda text: (text == short(text), text)) if oid not in new else new[oid]
    order = sorted((oid for oid in entries if not dropped(oid)), key=lambda oid: (times.get(oid, b""), oid), reverse=True)
    preamble = b""
    for note in notes:
        preamble = _all_text(preamble, note.preamble)
    older = any(note.older for note in notes)
    made = Note(preamble=preamble, entries=tuple((oid, entries[oid]) for oid in order), older=older)
    if older and settle is not None and len(order) <= MAX_ENTRIES:
        made = settle(made)
    return made.render(full)


def _all_text(one: bytes, other: bytes) -> bytes:
    """Merge two texts that are not ours into one that has the paragraphs of both, in an order that is the same in all clones:
    whichever is first, and whatever was put together before. Only a text that nothing differs from keeps its own."""
    first, second = ({p.strip(b"\n") for p in text.split(b"\n\n")} - {b""} for text in (one, other))
    if not first or not second:
        return one if first else other
    if first == second:
        return min(one, other)
    return b"".join(sorted(paragraph + b"\n\n" for paragraph in first | second)).removesuffix(b"\n")


class _Pending(ReadAhead):
    """Objects to read from, with trees on top that are not written yet."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self.made: dict[Oid, NewObject] = {}

    def add(self, items: Iterable[NewObject]) -> None:
        """Make trees known."""
        self.made |= {item.oid: item for item in items}

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects; what exists is read once."""
        item = self.made.get(spec)
        if item is not None:
            return Object(oid=item.oid, kind=item.kind, size=len(item.data), data=item.data)
        return super().read(spec, limit)

    def below(self, root: Oid) -> list[NewObject]:
        """Return the new trees that a root reaches, what they point at first."""
        item = self.made.pop(root, None)
        if item is None:
            return []
        deeper = [made for entry in parse_tree(item.data, self.algorithm) if entry.is_tree for made in self.below(entry.oid)]
        return [*deeper, item]


def put_notes(store: Store, notes: Mapping[Oid, bytes], seconds: int) -> None:
    """Make each text the note of its commit, in one commit of the notes ref. Called with the lock held.

    ``seconds`` since 1970 date that commit. Raises RecordError when something else stands at the ref, RefConflictError when
    another process moved it meanwhile.
    """
    if not notes:
        return
    author = b"gitbaton <gitbaton@localhost> %d +0000" % seconds
    objects, change = plan_notes(store, notes, author, b"notes carried along\n")
    if change:
        publish(store.repo, [change], new=objects)
