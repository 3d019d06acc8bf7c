"""Trimming the chains of states before each restore: old ones go, and undo and redo stay right."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from gitbaton.git import settings
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.git.repo import Repo, lock_file
from gitbaton.model import Oid, Stored
from gitbaton.retention.looking import Chain
from gitbaton.store import SAFETY, Store
from gitbaton.store.chain import root_objects
from gitbaton.store.join import Link, links, on_top
from gitbaton.store.safety import replay
from gitbaton.system.files import acquire

DAYS = 14


def old(store: Store, chain: Chain, now: datetime) -> tuple[Stored, ...]:
    """The checkpoints at the beginning of a safety chain that are older than 14 days, newest first; none where undo or redo
    of what stays would be another without them."""
    least = now - timedelta(days=DAYS)
    at = next((n for n, stored in enumerate(reversed(chain.items)) if stored.checkpoint.created >= least), len(chain.items))
    gone = chain.items[len(chain.items) - at :]
    return gone if gone and _same_steps(store, chain, {stored.id for stored in gone}) else ()


def _same_steps(store: Store, chain: Chain, gone: Collection[Oid]) -> bool:
    """Whether undo and redo mean the same without some checkpoints, but for these themselves."""
    before = replay(store, chain.items)
    after = replay(store, [stored for stored in chain.items if stored.id not in gone])
    pairs = ((before.undo, after.undo), (before.redo, after.redo))
    return all([s.id for s in was if s.id not in gone] == [s.id for s in now] for was, now in pairs)


def without(store: Store, chain: Chain, gone: Collection[Oid]) -> tuple[list[NewObject], RefChange]:
    """The objects to write and the move of the ref so that a safety chain no longer holds some checkpoints: the bytes of the
    others stay, and so do their ids. Raises RecordError."""
    return chained(store, chain, [link for link in links(store, chain.name, chain.tip) if link.id not in gone])


def chained(store: Store, chain: Chain, kept: Sequence[Link]) -> tuple[list[NewObject], RefChange]:
    """The objects to write and the move of the ref so that a safety chain holds these checkpoints, the oldest first."""
    tree, root = root_objects(store.objects.algorithm)
    made, placed = on_top(store.objects.algorithm, root.oid, tree.oid, kept)
    return made, RefChange(name=chain.ref, new=placed[-1].commit if placed else None, old=chain.tip)


@contextmanager
def resting(repo: Repo, chains: Sequence[Chain]) -> Iterator[frozenset[str]]:
    """The refs of those safety chains in whose work tree no restore is at work or waits to be ended; none begins meanwhile."""
    places = {SAFETY + prefix.rstrip("/"): git_dir for prefix, git_dir, _ in settings.worktrees(repo)}
    held: list[int] = []
    free = set()
    try:
        for chain in chains:
            git_dir = places.get(chain.ref)
            if git_dir is None or _free(repo, os.path.join(git_dir, "baton"), held):
                free.add(chain.ref)
        yield frozenset(free)
    finally:
        for fd in held:
            os.close(fd)


def _free(repo: Repo, folder: str, held: list[int]) -> bool:
    fd = lock_file(repo, os.path.join(folder, "restoring"))
    held.append(fd)
    return acquire(fd) and not os.path.lexists(os.path.join(folder, "restore"))
