"""Removal: refs lose checkpoints in one transaction, planned without the lock; then LATEST and held bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from gitbaton.base.codec import os_error, plain
from gitbaton.base.errors import BatonError, RefConflictError, UsageError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.system.files import acquire
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.care.retention.inventory import CheckpointChain, Inventory, look
from gitbaton.care.retention.rules import turned
from gitbaton.checkpoints import mirror
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import NOTES, SAFETY, Store, chain_ref
from gitbaton.checkpoints.store.chain import root_objects
from gitbaton.checkpoints.store.join import Link, on_top
from gitbaton.checkpoints.store.provenance import STATES
from gitbaton.checkpoints.store.read import own_refs
from gitbaton.checkpoints.store.refs import META
from gitbaton.checkpoints.store.revision import Revision
from gitbaton.checkpoints.store.state import pending, settle
from gitbaton.git import questions
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.git.repo import lock_file
from gitbaton.git.worktree.heldbytes import LONGEST, HeldStore, parse_held

if TYPE_CHECKING:
    from typing import TypeVar

    from gitbaton.checkpoints.store.standing import Stands

    Plan = TypeVar("Plan")
    Done = TypeVar("Done")

_TRIES = 3


@value
class Trimmed:
    """A safety chain written again. ``remove``: the checkpoints that go, newest first. ``objects`` to write, and the ``change``
    of the ref; ``ours``: new ids of what was made here."""

    chain: CheckpointChain
    remove: tuple[Stored, ...]
    objects: tuple[NewObject, ...]
    change: RefChange
    ours: tuple[Oid, ...] = ()


def survey(baton: Baton, *, held: bool, wanted: Collection[str] | None = None) -> Inventory:
    """Return all that is ours, or of chains only those at ``wanted`` refs, once a killed change of several refs is finished;
    with the lock ``held`` that was tried before. Raises as ``look``."""
    if not held and pending(baton.repo):
        with baton.repo.lock(()):
            settle(baton.store)
    return look(baton.store, wanted)


def rebuilt(store: Store, chain: CheckpointChain, kept: Sequence[Link]) -> tuple[tuple[NewObject, ...], RefChange]:
    """Return the objects to write and the move of the ref so that a safety chain holds these checkpoints, the oldest first:
    their bytes stay, and so do their ids."""
    tree, root = root_objects(store.objects.algorithm)
    made, placed = on_top(store.objects.algorithm, root.oid, tree.oid, kept)
    return tuple(made), RefChange(name=chain.ref, new=placed[-1].commit if placed else None, old=chain.tip)


def draft_removal(
    baton: Baton,
    broken: Mapping[str, str],
    *,
    keep: Mapping[str, Iterable[Stored]],
    drop: Mapping[str, Oid],
    pruned: Iterable[Oid] = (),
    forgotten: Iterable[Oid] = (),
    unpinned: Iterable[Oid] = (),
    seen: Iterable[Stored] = (),
    moving: Sequence[Oid] = (),
) -> Revision:
    """Return a removal as one change, but for the safety chains. ``keep``: what stays of each track that loses any; without
    any it goes. ``drop``: further refs that go. ``pruned``, ``forgotten``: tombstones to leave, so that no clone brings them
    back. ``seen``: checkpoints of these tracks that were read, and need not be read again to be judged; ``moving``: the commits
    of those that stay and are written again, in that order."""
    revision = Revision(baton.store)
    revision.noted = NOTES not in broken
    meta = revision.meta
    for oid in unpinned:
        meta = turned(meta, oid)
    revision.meta = replace(meta, pruned=meta.pruned.union(pruned), forgotten=meta.forgotten.union(forgotten))
    chains = baton.store.pointing([chain_ref(track) for track in keep])
    with baton.store.ahead([*chains.values()]), baton.store.recalling(seen), baton.store.streaming(moving):
        for track, items in keep.items():
            revision.keep(track, [stored.id for stored in items])
    revision.also((), [RefChange(name=ref, new=None, old=oid) for ref, oid in drop.items()])
    return revision


@contextmanager
def locked_removal(
    baton: Baton, revision: Revision, refs: Iterable[str], trims: Sequence[Trimmed], *, held: bool
) -> Iterator[frozenset[str]]:
    """Write a removal's objects ahead, and hold the lock for the move of its ``refs``, unless it is ``held``. What is given:
    the refs of those safety chains that go along. The others wait: in their work tree a restore is at work or waits to be
    ended; none begins meanwhile."""
    for trim in trims:
        baton.store.objects.write(trim.objects)
        if trim.ours:
            baton.store.ours.add(STATES, trim.ours)
    revision.prepare()
    with ExitStack() as stack:
        if not held:
            stack.enter_context(baton.repo.lock((*refs, *(trim.chain.ref for trim in trims), META, NOTES)))
        places = (
            {SAFETY + prefix.rstrip("/"): git_dir for prefix, git_dir, _ in questions.worktrees(baton.repo)} if trims else {}
        )
        free = {trim.chain.ref: trim.change for trim in trims}
        for ref in [ref for ref in free if ref in places]:
            folder = os.path.join(places[ref], "baton")
            fd = lock_file(baton.repo, os.path.join(folder, "restoring"))
            stack.callback(os.close, fd)
            if not acquire(fd) or os.path.lexists(os.path.join(folder, "restore")):
                del free[ref]
        revision.also((), free.values())
        yield frozenset(free)
    sweep(baton)  # what cannot go now goes with the next removal


def moved(baton: Baton, seen: Mapping[str, Oid], counts: Callable[[str], bool]) -> str | None:
    """Return a ref of ours that ``counts`` and is not where it was ``seen``; None without one."""
    now = own_refs(baton.store)
    return min((ref for ref in now.keys() | seen.keys() if now.get(ref) != seen.get(ref) and counts(ref)), default=None)


def retry_under_lock(baton: Baton, made: Plan, again: Callable[[bool], Plan], apply: Callable[[Plan, bool], Done]) -> Done:
    """Carry a plan out; where checkpoints are recorded meanwhile, plan ``again``, a few times, and then under the lock. Both
    get whether the lock is held. Raises as both."""
    for _ in range(_TRIES):
        try:
            return apply(made, False)
        except RefConflictError:
            made = again(False)
    with baton.repo.lock((META, NOTES)):
        settle(baton.store)
        return apply(again(True), True)


def places(baton: Baton, root: str) -> Iterator[mirror.LatestPlace]:
    """Yield the places of LATEST in the work tree at ``root``: that of this Baton, and those that info/exclude names."""
    where = baton.latest
    found = [mirror.at(where, root)] if where is not None else []
    found += [
        mirror.LatestPlace(directory=os.path.normpath(os.path.join(root, inside)), inside=inside, root=root)
        for inside in mirror.listed(baton.repo)
    ]
    yield from dict.fromkeys(found)


def refresh(baton: Baton, done: mirror.LatestPlace | None = None) -> list[str]:
    """Bring all LATEST files of ours in line with the tracks, but for those at a place where that is ``done``; where there are
    none, none are made. What could not be written, and why, comes back."""
    said: list[str] = []
    known: dict[Oid, Stands] = {}
    for prefix, git_dir, root in questions.worktrees(baton.repo):
        try:
            said += _refresh(baton, root, done, known) if root and _may_have_files(baton, git_dir, root, done) else []
        except (BatonError, OSError) as error:
            said.append(f"the LATEST files of '{prefix.rstrip('/')}' are not written: {os_error(error)}")
    return said


def _may_have_files(baton: Baton, git_dir: str, root: str, done: mirror.LatestPlace | None) -> bool:
    """Whether LATEST files may stand in a work tree: what we wrote there is named in info/exclude, which all share."""
    found = (where for where in places(baton, root) if where != done)
    return os.path.lexists(os.path.join(git_dir, "config.worktree")) or any(map(mirror.has_files, found))


def _refresh(baton: Baton, root: str, done: mirror.LatestPlace | None, known: dict[Oid, Stands]) -> list[str]:
    said: list[str] = []
    with Baton(root, door="binary", clock=baton.clock) as there:
        for where in dict.fromkeys([*([there.latest] if there.latest else []), *places(baton, root)]):
            if where == done or not mirror.has_files(where):
                continue
            try:
                mirror.place(there.repo, where.inside or where.directory)
            except UsageError:  # what stands there is not ours
                continue
            if mirror.foreign(where) or questions.tracked(there.repo, where.paths()):
                continue
            with Baton(repo=there.repo, checkpoint_dir=where.inside or where.directory, clock=baton.clock) as one:
                one.share(baton, known)
                said += one.refresh(only_existing=True, track="" if done else None)  # then all tracks are in line already
    return said


_LEAST = 90  # bytes of a stand-in


def sweep(baton: Baton) -> list[str]:
    """Remove held bytes that no checkpoint names any more; return warnings. Without proof, and during a snapshot, nothing
    goes."""
    store = HeldStore(baton.repo)
    try:
        store.sweep(lambda: named(baton))
    except (BatonError, OSError) as error:
        return [f"what passed no filter is still kept in '{store.folder}': {plain(os_error(error))}"]
    return []


def named(baton: Baton) -> set[str]:
    """Return the tokens of all stand-ins that anything reaches. Raises GitError where that cannot be seen."""
    git = baton.repo.git
    listed = git.out("rev-list", "--objects", "--no-object-names", "--missing=allow-promisor", "--all", "--reflog")
    sizes = git.out("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", "--buffer", stdin=listed)
    rows = [row.split(" ") for row in sizes.decode("ascii", "replace").split("\n")[:-1]]
    small = [row[2] for row in rows if len(row) == 3 and row[0] == "blob" and _LEAST <= int(row[1]) <= LONGEST]
    found = set()
    for item in baton.repo.objects.read_many(small, LONGEST):
        held = parse_held(item.data) if item is not None and item.data is not None else None
        found |= {held.token} if held is not None else set()
    return found
