"""Putting checkpoints from elsewhere into a track: the union by id by time, the same commits for all."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gitbaton.codec import ROOT_MESSAGE
from gitbaton.errors import RecordError
from gitbaton.git.objects import NewObject, RefChange, commit_data, new_object, parse_commit
from gitbaton.model import Oid
from gitbaton.store.read import Store
from gitbaton.store.refs import chain_ref
from gitbaton.values import value

ROOT_AUTHOR = b"gitbaton <gitbaton@localhost> 0 +0000"


@value
class Link:
    """One checkpoint without its place: its bytes as they are stored, so that its id survives. ``commit`` is where it
    stands now, or None."""

    id: Oid
    created: datetime
    message: bytes
    tree: Oid
    base: Oid | None
    author: bytes
    commit: Oid | None = None


def links(store: Store, track: str) -> list[Link]:
    """A track's checkpoints, oldest first. Raises RecordError for a chain with a broken record: it must not be rewritten."""
    history = store.history(track)
    if history.problems:
        raise RecordError(f"track '{track}' has a broken record: {history.problems[0].reason}")
    result = []
    for stored in reversed(history.items):
        found = store.objects.read(stored.commit)
        if found is None or found.data is None:
            raise RecordError(f"commit {stored.commit} cannot be read")
        raw = parse_commit(found.data)
        result.append(
            Link(
                id=stored.id,
                created=stored.checkpoint.created,
                message=raw.message,
                tree=raw.tree,
                base=stored.base,
                author=raw.author,
                commit=stored.commit,
            )
        )
    return result


def insert(store: Store, track: str, more: Iterable[Link]) -> int:
    """Put links into a track that may not exist yet; how many were new. Called with the lock held.

    The common beginning keeps its commits; what comes after the first new one is written again with its own bytes.
    Raises RefConflictError when somebody moved the chain meanwhile.
    """
    tip = store.objects.info(chain_ref(track))
    have = links(store, track) if tip is not None else []
    known = {link.id for link in have}
    new = {link.id: link for link in more if link.id not in known}
    if not new:
        return 0
    union = sorted([*have, *new.values()], key=lambda link: (link.created, link.id))
    objects: list[NewObject] = _root(store)
    parent, same = objects[-1].oid, True
    for place, link in enumerate(union):
        same = same and place < len(have) and have[place].id == link.id
        if same and link.commit is not None:
            parent = link.commit
            continue
        parents = (parent, link.base) if link.base and link.base != parent else (parent,)
        data = commit_data(tree=link.tree, parents=parents, author=link.author, message=link.message)
        objects.append(new_object(store.objects.algorithm, "commit", data))
        parent = objects[-1].oid
    store.objects.write(objects)
    store.objects.update([RefChange(name=chain_ref(track), new=parent, old=tip.oid if tip else None)])
    return len(new)


def _root(store: Store) -> list[NewObject]:
    algorithm = store.objects.algorithm
    empty = new_object(algorithm, "tree", b"")
    data = commit_data(tree=empty.oid, parents=(), author=ROOT_AUTHOR, message=ROOT_MESSAGE)
    return [empty, new_object(algorithm, "commit", data)]
