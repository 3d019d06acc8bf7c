"""Which track an agent's hook means in this work tree."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from gitbaton.baton import Baton
from gitbaton.codec import check_track
from gitbaton.errors import RecordError, UsageError
from gitbaton.git import settings
from gitbaton.model import WorktreeId
from gitbaton.store import CURRENT, tip_ref

DETACHED = "detached"


def choose(baton: Baton, given: str | None) -> str:
    """The track: the one given, GIT_BATON_TRACK, the current one, the only one, baton.track, or one named after the branch.

    A name that nobody gave for this work tree is never one whose newest checkpoint was taken in another work tree of this
    repository, nor one that differs from a track only in case. Raises UsageError for a given name that cannot be one.
    """
    named = given or os.environ.get("GIT_BATON_TRACK")
    if named:
        return check_track(named)
    current = baton.current()
    if current is not None:
        return current
    chains = baton.store.chains()[0]
    if len(chains) == 1:
        only = next(iter(chains))
        if not _elsewhere(baton, only):
            return only
    return _own(baton, chains)


def _own(baton: Baton, chains: dict[str, str]) -> str:
    """A name of this work tree's own."""
    name = _valid(baton.settings.track or baton.repo.objects.head().branch or DETACHED)
    folder = os.path.basename(baton.repo.layout.root or baton.repo.layout.git_dir)
    for candidate in (name, _valid(f"{name} {folder}"), *(f"{name} {n}" for n in range(2, 1000))):
        twin = next((t for t in chains if t.casefold() == candidate.casefold()), None)
        if twin is None or (twin == candidate and not _elsewhere(baton, twin)):
            return candidate
    raise UsageError(f"no name is free for a track of this work tree beside '{name}'")


def _valid(name: str) -> str:
    """A track's name as near to ``name`` as can be."""
    try:
        return check_track(name)
    except UsageError:
        kept = "".join(c for c in name if c.isascii() and (c.isalnum() or c in "-_./ "))
        return check_track(kept.strip()[:100].strip() or DETACHED)


def _elsewhere(baton: Baton, track: str) -> bool:
    """Whether a track belongs to another work tree of this repository that still exists: it is current there, or its newest
    checkpoint was taken there."""
    try:
        stored = baton.store.tip(track)
    except RecordError:
        return True  # it cannot be written, either
    mine = baton.repo.layout.git_dir
    others = [git_dir for _, git_dir, root in settings.worktrees(baton.repo) if root and git_dir != mine]
    if any(settings.current_ref(baton.repo, git_dir, CURRENT) == tip_ref(track) for git_dir in others):
        return True
    taken = stored.checkpoint.files.worktree if stored and stored.checkpoint.files else None
    if taken is None or taken.same(baton.repo.worktree_id()):
        return False
    births = (_born(git_dir) for git_dir in others)
    return any(born is not None and taken.same(WorktreeId(path="", created=born)) for born in births)


def _born(git_dir: str) -> datetime | None:
    """When gitbaton first met the work tree of a git directory, as Repo.worktree_id says it there."""
    try:
        born = os.stat(os.path.join(git_dir, "baton", "worktree")).st_mtime_ns
    except OSError:
        return None
    return datetime.fromtimestamp(born // 1_000_000_000, UTC).replace(microsecond=born // 1000 % 1_000_000)
