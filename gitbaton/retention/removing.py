"""Removal: several refs lose checkpoints in one transaction, planned without the lock and moved under it; LATEST after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from gitbaton import mirror
from gitbaton.baton import Baton
from gitbaton.errors import BatonError, RefConflictError, UsageError
from gitbaton.git import questions
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.git.repo import lock_file
from gitbaton.model import Oid, Stored
from gitbaton.retention.holding import sweep
from gitbaton.retention.inventory import Chain, Found, look
from gitbaton.retention.pins import turned
from gitbaton.store import NOTES, SAFETY, Store
from gitbaton.store.chain import root_objects
from gitbaton.store.join import Link, on_top
from gitbaton.store.provenance import STATES
from gitbaton.store.read import own_refs
from gitbaton.store.refs import META
from gitbaton.store.revision import Revision
from gitbaton.store.state import pending, settle
from gitbaton.system.files import acquire
from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Plan = TypeVar("Plan")
    Done = TypeVar("Done")

_TRIES = 3


@value
class Trimmed:
    """A safety chain written again. ``remove``: the checkpoints that go, newest first. ``objects`` to write, and the ``change``
    of the ref; ``ours``: new ids of what was made here."""

    chain: Chain
    remove: tuple[Stored, ...]
    objects: tuple[NewObject, ...]
    change: RefChange
    ours: tuple[Oid, ...] = ()


def survey(baton: Baton, *, held: bool) -> Found:
    """All that is ours, once a change of several refs that was killed is ended; with the lock ``held`` that has been tried.
    Raises as ``look``."""
    if not held and pending(baton.repo):
        with baton.repo.lock(()):
            settle(baton.store)
    return look(baton.store)


def rebuilt(store: Store, chain: Chain, kept: Sequence[Link]) -> tuple[tuple[NewObject, ...], RefChange]:
    """The objects to write and the move of the ref so that a safety chain holds these checkpoints, the oldest first: their
    bytes stay, and so do their ids."""
    tree, root = root_objects(store.objects.algorithm)
    made, placed = on_top(store.objects.algorithm, root.oid, tree.oid, kept)
    return tuple(made), RefChange(name=chain.ref, new=placed[-1].commit if placed else None, old=chain.tip)


def drawn_up(
    baton: Baton,
    broken: Mapping[str, str],
    *,
    keep: Mapping[str, Iterable[Stored]],
    drop: Mapping[str, Oid],
    pruned: Iterable[Oid] = (),
    forgotten: Iterable[Oid] = (),
    unpinned: Iterable[Oid] = (),
) -> Revision:
    """A removal as one change, but for the safety chains. ``keep``: what stays of each track that loses any; without any it
    goes. ``drop``: further refs that go. ``pruned``, ``forgotten``: tombstones to leave, so that no clone brings them back."""
    revision = Revision(baton.store)
    revision.noted = NOTES not in broken
    meta = revision.meta
    for oid in unpinned:
        meta = turned(meta, oid)
    revision.meta = replace(meta, pruned=meta.pruned.union(pruned), forgotten=meta.forgotten.union(forgotten))
    for track, items in keep.items():
        revision.keep(track, [stored.id for stored in items])
    revision.also((), [RefChange(name=ref, new=None, old=oid) for ref, oid in drop.items()])
    return revision


@contextmanager
def moving(
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
    """A ref of ours that ``counts`` and that is not where it was ``seen``; None without one."""
    now = own_refs(baton.store)
    return min((ref for ref in now.keys() | seen.keys() if now.get(ref) != seen.get(ref) and counts(ref)), default=None)


def insist(baton: Baton, made: Plan, again: Callable[[bool], Plan], apply: Callable[[Plan, bool], Done]) -> Done:
    """Carry a plan out; where somebody records checkpoints meanwhile, plan ``again``, a few times, and then let them wait. Both
    are told whether the lock is held. Raises as both."""
    for _ in range(_TRIES):
        try:
            return apply(made, False)
        except RefConflictError:
            made = again(False)
    with baton.repo.lock((META, NOTES)):
        settle(baton.store)
        return apply(again(True), True)


def places(baton: Baton, root: str) -> Iterator[mirror.LatestPlace]:
    """Where LATEST may lie in the work tree at ``root``: as this Baton has it, and wherever info/exclude names it."""
    where = baton.latest
    found = [mirror.at(where, root)] if where is not None else []
    for inside in mirror.listed(baton.repo):
        found.append(mirror.LatestPlace(directory=os.path.normpath(os.path.join(root, inside)), inside=inside, root=root))
    yield from dict.fromkeys(found)


def refresh(baton: Baton) -> list[str]:
    """Bring all LATEST files of ours in line with the tracks; where there are none, none are made. What could not be written,
    and why, comes back."""
    said: list[str] = []
    for prefix, _, root in questions.worktrees(baton.repo):
        try:
            said += _refresh(baton, root) if root else []
        except (BatonError, OSError) as error:
            said.append(f"the LATEST files of '{prefix.rstrip('/')}' are not written: {error}")
    return said


def _refresh(baton: Baton, root: str) -> list[str]:
    said: list[str] = []
    with Baton(root, door="binary", clock=baton.clock) as there:
        for where in dict.fromkeys([*([there.latest] if there.latest else []), *places(baton, root)]):
            if not mirror.has_files(where):
                continue
            try:
                mirror.place(there.repo, where.inside or where.directory)
            except UsageError:  # what stands there is not ours
                continue
            if mirror.foreign(where) or questions.tracked(there.repo, where.paths()):
                continue
            with Baton(repo=there.repo, checkpoint_dir=where.inside or where.directory, clock=baton.clock) as one:
                said += one.refresh(only_existing=True)
    return said
