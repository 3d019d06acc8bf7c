"""Putting checkpoints from elsewhere into a track: the union by id, in the order of time, the same commits for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from gitbaton.errors import RecordError
from gitbaton.git.objects import Algorithm, Commit, NewObject, RefChange, commit_data, new_object, parse_commit
from gitbaton.model import Oid, Stored
from gitbaton.store.read import Store, root_objects
from gitbaton.store.refs import chain_ref
from gitbaton.values import replace, value

_INDEX_MESSAGE = b"gitbaton index 1\n"
_MAX_COMMIT = 3 << 20


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


@value
class Joined:
    """What putting links into a track comes to: ``added`` new ids, the objects to write, the move of the chain's ref (None
    when it stays), and the links of the whole chain, oldest first."""

    added: int
    objects: tuple[NewObject, ...]
    change: RefChange | None
    links: tuple[Link, ...]


def links(store: Store, track: str, start: Oid | None = None) -> list[Link]:
    """A chain's checkpoints, oldest first: the track's own, or that of the commit ``start`` read as this track.

    Raises RecordError for a chain that is broken anywhere: what cannot be read would be lost by writing it again.
    """
    if start is None:
        tip = store.objects.info(chain_ref(track))
        if tip is None:
            return []
        start = tip.oid
    found = list(_records(store, track, store.objects.first_parents(start)))[::-1]
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
    root = store.root
    for oid, found in zip(oids, store.objects.read_many(oids, _MAX_COMMIT), strict=True):
        if oid == root:
            return
        try:
            stored = store.stored(found, track, oid)
        except RecordError as error:
            raise RecordError(f"track '{track}' has a broken record: {error.message}") from None
        yield stored, parse_commit(found.data if found is not None and found.data is not None else b"")
    raise RecordError(f"track '{track}' has a broken record: its chain does not begin at the root")


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


def joined(store: Store, track: str, more: Iterable[Link]) -> Joined:
    """Plan to put links into a track that may not exist yet; reads only. Called with the lock held.

    The common beginning keeps its commits; what comes after the first difference is written again with its own bytes.
    Whatever the order and the way in which the same checkpoints come together, the same chain comes out. Raises RecordError
    when a chain is broken, or a link's tree or base is not there.
    """
    tip = store.objects.info(chain_ref(track))
    have = links(store, track)
    union = merged(have, more)
    objects, links_now = _placed(store.objects.algorithm, have, union)
    _require(store, links_now, objects)
    added = len({link.id for link in union} - {link.id for link in have})
    last = links_now[-1].commit if links_now else None
    if last is None or (tip is not None and last == tip.oid):
        return Joined(added=0, objects=(), change=None, links=tuple(links_now))
    change = RefChange(name=chain_ref(track), new=last, old=tip.oid if tip else None)
    return Joined(added=added, objects=tuple(objects), change=change, links=tuple(links_now))


def insert(store: Store, track: str, more: Iterable[Link]) -> int:
    """Carry out what ``joined`` plans, and nothing that is derived from the chain; how many ids were new.

    Raises RefConflictError when somebody moved the chain meanwhile.
    """
    plan = joined(store, track, more)
    if plan.change is not None:
        store.objects.write(plan.objects)
        store.objects.update([plan.change])
    return plan.added


def merged(have: Iterable[Link], more: Iterable[Link]) -> list[Link]:
    """The union by id in the order of time. Pure.

    Of two links with one id that differ in what surrounds the checkpoint's bytes, everybody takes the same one: the longer
    message, so that later paragraphs are kept, then one with a base.
    """
    chosen: dict[Oid, Link] = {}
    for link in (*have, *more):
        other = chosen.get(link.id)
        if other is None or _rank(link) > _rank(other):
            chosen[link.id] = link
    return sorted(chosen.values(), key=lambda link: (link.created, link.id))


def _rank(link: Link) -> tuple[object, ...]:
    return len(link.message), link.message, link.base is not None, link.base or "", link.tree, link.author


def _placed(algorithm: Algorithm, have: Sequence[Link], union: Sequence[Link]) -> tuple[list[NewObject], list[Link]]:
    """The commits of a union and the objects to write for them: links that stand where they stood keep theirs. Pure."""
    objects = root_objects(algorithm)
    tree, parent, same = objects[0].oid, objects[1].oid, True
    result = []
    for place, link in enumerate(union):
        same = same and place < len(have) and have[place] == link and link.commit is not None
        if not same:
            parents = (parent,) if link.base is None else (parent, link.base)
            if link.base == parent:  # the parents of a commit are never equal: a commit of the index stands in
                data = commit_data(tree=tree, parents=(parent,), author=link.author, message=_INDEX_MESSAGE)
                objects.append(new_object(algorithm, "commit", data))
                parents = (parent, objects[-1].oid)
            data = commit_data(tree=link.tree, parents=parents, author=link.author, message=link.message)
            objects.append(new_object(algorithm, "commit", data))
        moved = link.commit if same and link.commit is not None else objects[-1].oid
        result.append(replace(link, commit=moved))
        tree, parent = link.tree, moved
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
