"""How many bytes a change of our refs frees once git collects garbage: packs, their indexes and loose objects together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.errors import GitError
from gitbaton.git import usage
from gitbaton.git.objects import NewObject, RefChange, parse_commit, parse_tree
from gitbaton.git.usage import Size
from gitbaton.model import Oid
from gitbaton.retention.looking import Found
from gitbaton.store import Store
from gitbaton.store.refs import REMOTES

_ATTEMPTS = 3
_MUCH = 256 << 20  # bytes on disk up to which all is weighed again
_ENTRY = {"sha1": 28, "sha256": 40}  # bytes of a pack's index for each object


def freed(store: Store, found: Found, objects: Sequence[NewObject], changes: Sequence[RefChange]) -> int:
    """What ``git gc --prune=now`` frees after ``changes``, for which ``objects`` are written; 0 where it would grow.

    Git is asked to pack what stays, because what was stored as a difference to what goes must be stored anew. What else waits
    to be collected is not counted, but for what gitbaton itself left behind. Where git packs anew beside us, it is asked again.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _freed(store, found, objects, changes)
        except GitError:
            continue
    return _freed(store, found, objects, changes)


def _freed(store: Store, found: Found, objects: Sequence[NewObject], changes: Sequence[RefChange]) -> int:
    new = {item.oid: item for item in objects if item.oid not in found.objects}
    after = {**found.refs, **{change.name: change.new for change in changes}}
    tips = [oid for ref, oid in after.items() if oid is not None and not ref.startswith(REMOTES)]
    stays = _reached(store, found, tips, new)
    gone = {oid: found.sizes[oid] for oid in found.objects if oid not in stays}
    gone |= _left_behind(store, found, stays)
    loose = usage.loose(store.repo)
    entry = _ENTRY[store.objects.algorithm]
    before = sum(size.bytes + (entry if oid not in loose else 0) for oid, size in gone.items())
    paths, now = _packed_anew(store, found, gone, stays)
    then = usage.packed(store.repo, new.values(), paths) + entry * len(new)
    return max(before + sum(size.bytes for size in now.values()) - then, 0)


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
    return usage.reached(store.repo, _ours(found, wanted), found.others, logs=True)


def _ours(found: Found, wanted: Iterable[Oid]) -> list[Oid]:
    """Those of some objects that are ours alone: what others reach as well need not be walked."""
    return [oid for oid in wanted if oid in found.objects]


def _left_behind(store: Store, found: Found, stays: Collection[Oid]) -> dict[Oid, Size]:
    """The JSON of checkpoints that were once a track's newest: git has them as blobs, and nothing refers to them."""
    ids = {stored.id for chain in (*found.tracks, *found.safety) for stored in chain.items}
    asked = [oid for oid in ids if oid not in stays and oid not in found.sizes]
    return usage.sizes(store.repo, asked)


def _packed_anew(
    store: Store, found: Found, gone: Collection[Oid], stays: Mapping[Oid, bytes]
) -> tuple[dict[Oid, bytes], dict[Oid, Size]]:
    """What git may pack in another way than before, each with a path, and how large all of it is now: our objects that stay,
    the user's since the first checkpoint, and whatever is stored as a difference to what goes. What these in turn are
    differences to is with them. Of very much only what must be packed anew."""
    paths = dict(found.since)
    paths |= {oid: found.objects[oid] for oid in stays if oid in found.objects}
    orphans = {oid: base for oid, base in usage.built_on(store.repo, gone).items() if oid not in gone}
    paths |= {oid: paths.get(oid) or found.objects.get(base, b"") for oid, base in orphans.items()}
    known = dict(found.sizes) | usage.sizes(store.repo, paths.keys() - found.sizes.keys())
    paths = {oid: path for oid, path in paths.items() if oid in known}  # git has collected the others meanwhile
    if sum(known[oid].bytes for oid in paths) > _MUCH:
        paths = {oid: paths[oid] for oid in orphans if oid in paths}
    asked = {known[oid].delta for oid in paths}
    while more := {oid for oid in asked if oid and oid not in gone and oid not in paths}:
        known |= usage.sizes(store.repo, more - known.keys())
        paths |= dict.fromkeys(more & known.keys(), b"")
        asked = {known[oid].delta for oid in more & known.keys()}
    return paths, {oid: known[oid] for oid in paths}
