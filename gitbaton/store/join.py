"""Join: merge fetched tracks into local ones, the union by id in order of time, the same commits everywhere."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise

from gitbaton.codec import decode, payload, timestamp
from gitbaton.errors import RecordError
from gitbaton.git.objects import Algorithm, Commit, NewObject, RefChange, commit_data, new_object, object_id, parse_commit
from gitbaton.model import Oid, Stored
from gitbaton.store.chain import root_objects
from gitbaton.store.meta import NOTHING, Meta
from gitbaton.store.read import Store
from gitbaton.store.refs import chain_ref
from gitbaton.store.values import MAX_COMMIT
from gitbaton.values import replace, value

_INDEX_MESSAGE = b"gitbaton index 1\n"
_CREATED = re.compile(rb'\n  "created": "([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)",\n')
Mark = tuple[bytes, Oid]  # a checkpoint's place in the order: its time as it is stored, and its id


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
        """The manual checkpoint whose words it takes along. Raises RecordError for bytes that are no checkpoint."""
        raw = payload(self.message)
        carried = decode(raw).carried if b'"carried"' in raw else None
        return carried.id if carried is not None else None


@value
class Joined:
    """What putting links into a track comes to.

    ``fresh``: the links that are new, ``added`` their number; ``removed``: ids that are no longer in the chain; ``objects`` to
    write; ``change``: the move of the chain's ref, None when it stays, its end when no checkpoint is left. ``links``: the
    chain as it will be above its first ``kept`` checkpoints, which nothing can have changed, oldest first.
    """

    fresh: tuple[Link, ...] = ()
    removed: tuple[Oid, ...] = ()
    objects: tuple[NewObject, ...] = ()
    change: RefChange | None = None
    links: tuple[Link, ...] = ()
    kept: int = 0

    @property
    def added(self) -> int:
        """How many ids are new."""
        return len(self.fresh)


def links(store: Store, track: str, start: Oid | None = None) -> list[Link]:
    """A chain's checkpoints, oldest first: the track's own, or that of the commit ``start`` read as this track.

    Raises RecordError for a chain that is broken anywhere: what cannot be read would be lost by writing it again.
    """
    if start is None:
        tip = store.objects.info(chain_ref(track))
        start = tip.oid if tip is not None else None
    return linked(store, track, _commits(store, track, start))


def news(store: Store, track: str, start: Oid) -> list[Link]:
    """The checkpoints of the chain at ``start`` above the last commit that it has in common with the track's own chain.

    As ``links``, and as good for a join; what both chains hold is not looked at. Raises RecordError.
    """
    tip = store.objects.info(chain_ref(track))
    own = set(_commits(store, track, tip.oid)) if tip is not None else set()
    oids = store.objects.first_parents(start)
    common = next((place for place, oid in enumerate(oids) if oid in own), None)
    if common is None:
        return links(store, track, start)
    return linked(store, track, oids[:common][::-1])


def _commits(store: Store, track: str, start: Oid | None) -> list[Oid]:
    """The commits of a chain, oldest first, without its root."""
    if start is None:
        return []
    oids = store.objects.first_parents(start)
    if oids[-1] != store.root:
        list(_records(store, track, oids[-1:]))
        raise RecordError(f"track '{track}' has a broken record: its chain does not begin at the root")
    return oids[-2::-1]


def linked(store: Store, track: str, oids: Sequence[Oid]) -> list[Link]:
    """Chain commits, the oldest first, without their places. Raises RecordError for one that is broken."""
    found = list(_records(store, track, oids))
    bases = _bases(store, found)
    return [
        Link(
            id=stored.id,
            created=stored.checkpoint.created,
            message=raw.message,
            tree=raw.tree,
            base=bases.get(stored.commit, stored.base),
            author=raw.author,
            commit=stored.commit,
        )
        for stored, raw in found
    ]


def _records(store: Store, track: str, oids: Sequence[Oid]) -> Iterator[tuple[Stored, Commit]]:
    for oid, found in zip(oids, store.objects.read_many(oids, MAX_COMMIT), strict=True):
        try:
            stored = store.stored(found, track, oid)
        except RecordError as error:
            raise RecordError(f"track '{track}' has a broken record: {error.message}") from None
        yield stored, parse_commit(found.data if found is not None and found.data is not None else b"")


def _bases(store: Store, found: Sequence[tuple[Stored, Commit]]) -> dict[Oid, Oid]:
    """The heads of those chain commits whose second parent only stands in for HEAD, because HEAD was the first one.

    Elsewhere in a chain they need no stand-in; kept, it would make the commits depend on the way the chain grew.
    """
    asked = [(stored, raw, stored.base, stored.checkpoint.head) for stored, raw in found if _may_stand_in(stored)]
    wanted = [oid for _, _, base, head in asked for oid in (base, head) if oid is not None]
    read = iter(store.objects.read_many(wanted))
    result = {}
    for stored, raw, _, head in asked:
        base, then = (parse_commit(o.data) if o and o.kind == "commit" and o.data else None for o in (next(read), next(read)))
        if base is None or then is None or head is None:
            continue
        if base == Commit(tree=then.tree, parents=(head,), author=raw.author, message=_INDEX_MESSAGE):
            result[stored.commit] = head
    return result


def _may_stand_in(stored: Stored) -> bool:
    files, head = stored.checkpoint.files, stored.checkpoint.head
    flagged = files is not None and (files.index.flags or files.index.flags_more or files.index.unmerged)
    return head is not None and stored.base is not None and stored.base != head and not flagged


def joined(
    store: Store, track: str, more: Iterable[Link] = (), *, meta: Meta = NOTHING, keep: Collection[Oid] | None = None
) -> Joined:
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
        return Joined()
    own = _commits(store, track, tip.oid if tip is not None else None)
    kept = _untouched(store, own, coming, dropped)
    have = linked(store, track, own[kept:])
    union = [link for link in merged(have, coming) if not dropped(link.id)]
    below, tree = _below(store, own, kept)
    objects, placed = on_top(store.objects.algorithm, below, tree, union)
    _require(store, placed, objects)
    last = placed[-1].commit if placed else below if kept else None
    old = tip.oid if tip is not None else None
    if last == old:
        return Joined(links=tuple(placed), kept=kept)
    before, after = {link.id for link in have}, {link.id for link in placed}
    return Joined(
        fresh=tuple(link for link in placed if link.id not in before),
        removed=tuple(link.id for link in have if link.id not in after),
        objects=tuple(objects),
        change=RefChange(name=chain_ref(track), new=last, old=old),
        links=tuple(placed),
        kept=kept,
    )


def _untouched(store: Store, own: Sequence[Oid], coming: Iterable[Link], dropped: Callable[[Oid], bool]) -> int:
    """How many of a chain's first checkpoints stay as they are, whatever comes: none of them is dropped, and each is before
    all that comes. Where the chain is not in order, or that cannot be seen, none."""
    found = list(marks(store, own))
    if any(mark is None for mark in found):
        return 0
    order = [mark for mark in found if mark is not None]
    if any(first >= second for first, second in pairwise(order)):
        return 0
    first = min(((timestamp(link.created).encode(), link.id) for link in coming), default=None)
    place = len(order) if first is None else bisect_left(order, first)
    return next((n for n, (_, oid) in enumerate(order[:place]) if dropped(oid)), place)


def marks(store: Store, oids: Sequence[Oid]) -> Iterator[Mark | None]:
    """The places of chain commits in the order of time, taken from their bytes; None for one that does not show its own.

    Their JSON is not taken apart, so this says nothing of whether they can be used.
    """
    for found in store.objects.read_many(oids, MAX_COMMIT):
        try:
            raw = payload(found.data.partition(b"\n\n")[2]) if found is not None and found.data is not None else b""
        except RecordError:
            raw = b""
        times = _CREATED.findall(raw)
        yield (times[0], object_id(store.objects.algorithm, "blob", raw)) if len(times) == 1 else None


def _below(store: Store, own: Sequence[Oid], kept: int) -> tuple[Oid, Oid]:
    """The commit on which the rest of a chain is put, and its tree."""
    if kept == 0:
        empty, root = root_objects(store.objects.algorithm)
        return root.oid, empty.oid
    tree = store.tree_of(own[kept - 1])
    if tree is None:
        raise RecordError(f"commit {own[kept - 1]} cannot be read")
    return own[kept - 1], tree


def merged(have: Iterable[Link], more: Iterable[Link]) -> list[Link]:
    """The union by id in the order of time. Pure.

    Of two commits with one id everybody takes the same: the one whose raw bytes without the parent lines are smaller, then the
    one with the smaller base id; one without a base comes last, because a base keeps a user's commit.
    """
    chosen: dict[Oid, Link] = {}
    for link in (*have, *more):
        other = chosen.get(link.id)
        if other is None or (not _alike(link, other) and _rank(link) < _rank(other)):
            chosen[link.id] = link
    return sorted(chosen.values(), key=lambda link: (link.created, link.id))


def _alike(one: Link, other: Link) -> bool:
    return (one.base, one.tree, one.author, one.message) == (other.base, other.tree, other.author, other.message)


def _rank(link: Link) -> tuple[bytes, bool, Oid]:
    raw = commit_data(tree=link.tree, parents=(), author=link.author, message=link.message)
    return raw, link.base is None, link.base or ""


def on_top(algorithm: Algorithm, parent: Oid, tree: Oid, union: Iterable[Link]) -> tuple[list[NewObject], list[Link]]:
    """The links on top of the commit ``parent`` with its ``tree``, each where it will stand, and the objects to write. Pure.

    A link that stands there already, byte for byte as it would be written, keeps its commit.
    """
    objects = root_objects(algorithm)
    result = []
    for link in union:
        parents, made = (parent,) if link.base is None else (parent, link.base), []
        if link.base == parent:  # the parents of a commit are never equal: a commit of the index stands in
            data = commit_data(tree=tree, parents=(parent,), author=link.author, message=_INDEX_MESSAGE)
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
    """Refuse to write a commit whose tree or base is not there: git could neither check, pack nor push the chain."""
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
