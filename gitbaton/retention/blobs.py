"""The files of forgotten checkpoints: what they have beyond their HEAD, what they brought in, and what nothing else holds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from gitbaton.baton import Baton
from gitbaton.errors import RecordError
from gitbaton.git import usage
from gitbaton.model import Oid, Stored
from gitbaton.retention.looking import Found, existing
from gitbaton.store import CHAINS, SAFETY, TIPS, Store
from gitbaton.store.safety import beside
from gitbaton.store.sound import own_refs, theirs

_LEAST = 12  # bytes of a compressed blob: below it is empty


def changed(baton: Baton, parts: Sequence[Stored]) -> dict[Oid, bytes]:
    """The blobs of checkpoints, of their work tree and index, that their HEAD does not have, each with a path."""
    paths: dict[Oid, bytes] = {}
    for stored in parts:
        head = baton.store.tree_of(stored.checkpoint.head)
        paths |= _beyond(baton, stored, [head] if head else [])
    sizes = usage.sizes(baton.repo, paths)
    empty = {oid for oid, size in sizes.items() if size.kind == "blob" and size.bytes < _LEAST}
    return {oid: path for oid, path in paths.items() if oid in sizes and sizes[oid].kind == "blob" and oid not in empty}


def brought(
    baton: Baton, parts: Sequence[Stored], chains: Iterable[Sequence[Stored]], files: Collection[Oid]
) -> frozenset[Oid]:
    """Those of some files that the checkpoint before each of these, as its chain has it, did not hold either."""
    before = {one.id: other for items in chains for one, other in pairwise(items)}
    found: set[Oid] = set()
    for stored in parts:
        older = before.get(stored.id)
        trees = [baton.store.tree_of(stored.checkpoint.head), *(_trees(baton.store, older) if older else ())]
        there = existing(baton.store, (tree for tree in trees if tree))
        found |= _beyond(baton, stored, there).keys() & set(files)
    return frozenset(found)


def alone(
    baton: Baton, found: Found, rest: Iterable[Stored], dropped: Collection[str], files: Collection[Oid]
) -> frozenset[Oid]:
    """Those of some files that neither the checkpoints ``rest`` nor any other ref holds that stays, the safety checkpoints
    apart. ``dropped``: refs that go. Raises RecordError."""
    if not files:
        return frozenset()
    left = {*dropped, *found.broken}
    ours = {**own_refs(baton.store), **found.refs}
    tips = {oid for ref, oid in ours.items() if not ref.startswith((CHAINS, TIPS, SAFETY)) and ref not in left}
    tips |= {oid for s in rest for oid in (s.tree, s.base) if oid}
    kept = usage.reached(baton.repo, existing(baton.store, tips.union(theirs(baton.store))))
    return frozenset(files) - kept.keys()


def _trees(store: Store, stored: Stored) -> list[Oid | None]:
    files = stored.checkpoint.files
    return [stored.tree, store.tree_of(stored.base), beside(store, stored), files.index.tree if files else None]


def _beyond(baton: Baton, stored: Stored, without: Sequence[Oid]) -> Mapping[Oid, bytes]:
    """What a checkpoint's work tree and index hold and some trees do not."""
    trees = existing(baton.store, (tree for tree in _trees(baton.store, stored) if tree))
    try:
        return usage.reached(baton.repo, trees, without)
    except RecordError:
        if stored.base is not None:
            raise
        return {}  # of what was removed before, git may have collected some
