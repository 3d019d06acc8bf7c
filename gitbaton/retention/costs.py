"""Disk cost: bytes of each track, of the conversations and the rest, own and shared; and what git frees after a prune."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.errors import GitError
from gitbaton.git import objectlists
from gitbaton.git.damage import loose
from gitbaton.git.objectlists import Size
from gitbaton.git.objects import NewObject, RefChange, parse_commit, parse_tree
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.retention.inventory import Found, kind_of
from gitbaton.store import Store
from gitbaton.store.read import own_refs, user_tips
from gitbaton.store.refs import REMOTES
from gitbaton.values import value
from gitbaton.worktree.heldbytes import HeldStore

_ORDER = ("track", "safety", "transcripts", "runs", "threads", "log", "held", "notes", "fetched", "other")
_ATTEMPTS = 3
_MUCH = 256 << 20  # bytes on disk up to which all is weighed again
_ENTRY = {"sha1": 28, "sha256": 40}  # bytes of a pack's index for each object


@value
class Cost:
    """What one part takes on disk. ``kind``: ``track``, ``safety``, ``transcripts``, ``runs``, ``threads``, ``log`` (of
    threads: what git does not have yet), ``held`` (what passed no filter, in files), ``notes``, ``fetched``; ``name``: the
    track, or the remote. ``own``: bytes that nothing else reaches; ``shared``: bytes that other parts of ours reach as well.
    What the user's own refs reach costs nothing and is in neither."""

    kind: str
    name: str
    own: int
    shared: int


def costs(baton: Baton) -> tuple[Cost, ...]:
    """What everything of ours costs: tracks by name, then the rest. Raises RecordError for what cannot be read."""
    store = baton.store
    refs = own_refs(store)
    there = set(store.present(oid for oid in refs.values() if oid.strip("0")))  # what is broken costs nothing
    parts: dict[tuple[str, str], list[Oid]] = {}
    for ref, oid in refs.items():
        if oid in there:
            kind, named = kind_of(ref)
            name = (named if isinstance(named, str) else ref) if kind in ("track", "fetched", "other") else ""
            parts.setdefault((kind, name), []).append(oid)
    others = set(user_tips(store)) - {oid for oids in parts.values() for oid in oids}
    since = objectlists.reached(baton.repo, others, _first(store, parts)).keys()
    reached = {part: objectlists.reached(baton.repo, oids, others).keys() - since for part, oids in parts.items()}
    times = Counter(oid for oids in reached.values() for oid in oids)
    sizes = {oid: size.bytes for oid, size in objectlists.disk_sizes(baton.repo, times.keys()).items()}

    def total(oids: Iterable[Oid], *, alone: bool) -> int:
        return sum(sizes.get(oid, 0) for oid in oids if (times[oid] == 1) == alone)

    found = [
        Cost(kind=kind, name=name, own=total(oids, alone=True), shared=total(oids, alone=False))
        for (kind, name), oids in reached.items()
    ]
    if log := _log(baton.repo):
        found.append(Cost(kind="log", name="", own=log, shared=0))
    if held := sum(HeldStore(baton.repo).names().values()):
        found.append(Cost(kind="held", name="", own=held, shared=0))
    return tuple(sorted(found, key=lambda cost: (_ORDER.index(cost.kind), cost.name)))


def _log(repo: Repo) -> int:
    """Bytes that the log of threads takes on disk; it goes when the last process that uses it has ended."""
    try:
        with os.scandir(os.path.join(repo.shared_dir, "wal")) as files:
            return sum(file.stat(follow_symlinks=False).st_blocks * 512 for file in files)
    except OSError:
        return 0


def _first(store: Store, parts: Mapping[tuple[str, str], list[Oid]]) -> list[Oid]:
    """What the first checkpoint of each chain stands on."""
    found: list[Oid] = []
    for (kind, _), tips in parts.items():
        for tip in tips if kind in ("track", "safety") else ():
            info = store.objects.info(tip)
            chain = store.objects.first_parents(tip) if info is not None and info.kind == "commit" else []
            first = store.commit(chain[-2]) if len(chain) > 1 else None
            found += first.parents[1:] if first is not None else ()
    return list(store.present(found))


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
    # The JSON of checkpoints that were once a track's newest: git has them as blobs, and nothing refers to them.
    ids = {stored.id for chain in (*found.tracks, *found.safety) for stored in chain.items}
    gone |= objectlists.disk_sizes(store.repo, [oid for oid in ids if oid not in stays and oid not in found.sizes])
    apart = {oid for oid, _ in loose(store.repo)}
    entry = _ENTRY[store.objects.algorithm]
    before = sum(size.bytes + (entry if oid not in apart else 0) for oid, size in gone.items())
    paths, now = _packed_anew(store, found, gone, stays)
    then = objectlists.packed_size(store.repo, new.values(), paths) + entry * len(new)
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
    ours = [oid for oid in wanted if oid in found.objects]  # what others reach as well need not be walked
    return objectlists.reached(store.repo, ours, found.others, logs=True)


def _packed_anew(
    store: Store, found: Found, gone: Collection[Oid], stays: Mapping[Oid, bytes]
) -> tuple[dict[Oid, bytes], dict[Oid, Size]]:
    """What git may pack in another way than before, each with a path, and how large all of it is now: our objects that stay,
    the user's since the first checkpoint, and whatever is stored as a difference to what goes. What these in turn are
    differences to is with them. Of very much only what must be packed anew."""
    paths = dict(found.since)
    paths |= {oid: found.objects[oid] for oid in stays if oid in found.objects}
    orphans = {oid: base for oid, base in objectlists.built_on(store.repo, gone).items() if oid not in gone}
    paths |= {oid: paths.get(oid) or found.objects.get(base, b"") for oid, base in orphans.items()}
    known = dict(found.sizes) | objectlists.disk_sizes(store.repo, paths.keys() - found.sizes.keys())
    paths = {oid: path for oid, path in paths.items() if oid in known}  # git has collected the others meanwhile
    if sum(known[oid].bytes for oid in paths) > _MUCH:
        paths = {oid: paths[oid] for oid in orphans if oid in paths}
    asked = {known[oid].delta for oid in paths}
    while more := {oid for oid in asked if oid and oid not in gone and oid not in paths}:
        known |= objectlists.disk_sizes(store.repo, more - known.keys())
        paths |= dict.fromkeys(more & known.keys(), b"")
        asked = {known[oid].delta for oid in more & known.keys()}
    return paths, {oid: known[oid] for oid in paths}
