"""How many bytes a change of our refs frees once git collects garbage: packs, their indexes and loose objects together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gitbaton.git import usage
from gitbaton.git.objects import NewObject, RefChange, parse_commit, parse_tree
from gitbaton.git.usage import Size
from gitbaton.model import Oid
from gitbaton.retention.looking import Found
from gitbaton.store import Store
from gitbaton.store.refs import REMOTES

_ENTRY = {"sha1": 28, "sha256": 40}  # bytes of a pack's index for each object


def freed(store: Store, found: Found, objects: Iterable[NewObject], changes: Iterable[RefChange]) -> int:
    """What ``git gc --prune=now`` frees after ``changes``, for which ``objects`` are written; exact but for what git stores
    as differences, on a repository in which nothing else waits to be collected. 0 where it would grow."""
    new = {item.oid: item for item in objects if item.oid not in found.sizes}
    after = {**found.refs, **{change.name: change.new for change in changes}}
    tips = [oid for ref, oid in after.items() if oid is not None and not ref.startswith(REMOTES)]
    stays = _reached(store, found, tips, new)
    gone = {oid: size for oid, size in found.sizes.items() if oid not in stays}
    gone |= _left_behind(store, found, stays)
    lost = _without_base(found, gone, stays)
    loose = usage.loose(store.repo)
    entry = _ENTRY[store.objects.algorithm]
    before = sum(size.bytes + (entry if oid not in loose else 0) for oid, size in gone.items())
    again = sum(found.sizes[oid].bytes for oid in lost)
    written = usage.packed(store.repo, new.values(), lost) + entry * len(new)
    return max(before + again - written, 0)


def _reached(store: Store, found: Found, tips: Collection[Oid], new: Mapping[Oid, NewObject]) -> dict[Oid, bytes]:
    """What of our objects is reached afterwards. New commits and trees are not written yet: what they name is asked for."""
    wanted: set[Oid] = set()
    todo, seen = list(tips), set()
    while todo:
        oid = todo.pop()
        if oid in seen:
            continue
        seen.add(oid)
        item = new.get(oid)
        if item is None:
            wanted.add(oid)
        elif item.kind == "commit":
            commit = parse_commit(item.data)
            todo += [commit.tree, *commit.parents]
        elif item.kind == "tree":
            todo += [entry.oid for entry in parse_tree(item.data, store.objects.algorithm) if entry.mode != b"160000"]
    return usage.reached(store.repo, _ours(found, wanted), found.others) if wanted else {}


def _ours(found: Found, wanted: Iterable[Oid]) -> list[Oid]:
    """Those of some objects that are ours alone: what others reach as well need not be walked."""
    return [oid for oid in wanted if oid in found.sizes]


def _left_behind(store: Store, found: Found, stays: Collection[Oid]) -> dict[Oid, Size]:
    """The JSON of checkpoints that were once a track's newest: git has them as blobs, and nothing refers to them."""
    ids = {stored.id for chain in (*found.tracks, *found.safety) for stored in chain.items}
    asked = [oid for oid in ids if oid not in stays and oid not in found.sizes]
    return usage.sizes(store.repo, asked)


def _without_base(found: Found, gone: Collection[Oid], stays: Mapping[Oid, bytes]) -> dict[Oid, bytes]:
    """The objects that stay and are stored as a difference to one that goes, each with its path."""
    rows = ((oid, found.sizes[oid]) for oid in stays if oid in found.sizes)
    return {oid: stays[oid] for oid, size in rows if size.delta is not None and size.delta in gone}
