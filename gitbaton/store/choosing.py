"""Default track: which one is meant in this work tree where none is named."""

from __future__ import annotations

import os

from gitbaton.codec import check_new_track, check_track, in_quotes, looks
from gitbaton.errors import RecordError, UsageError
from gitbaton.git import questions
from gitbaton.model import Stored
from gitbaton.store import CURRENT, Store, tip_ref, track_of

DETACHED = "detached"


def choose(store: Store, configured: str | None, given: str | None = None, *, automatic: bool = False) -> str:
    """The track: the one given, GIT_BATON_TRACK, the current one, the only one of here, the one ``configured`` (baton.track),
    or one named after the branch.

    But for GIT_BATON_TRACK and the current one, it is never one that belongs to another work tree of this repository, nor one
    that looks like a track of another name, nor in a bare repository one that is there and that nobody named, nor where nobody
    writes words (``automatic``) a foreign one that is not given: then the name of this work tree's directory is added. Raises
    UsageError for a given name that cannot be one.
    """
    named, current = os.environ.get("GIT_BATON_TRACK"), store.current()
    if named and not given:
        return check_track(named)
    wanted = check_track(given) if given else current
    if wanted is not None and wanted == current:
        return current
    others, chains = _Others(store), store.chains()[0]
    own = store.made_here() if wanted is None else []
    wanted = wanted or (own[0] if len(own) == 1 else None)
    if wanted is not None and not others.have(wanted):
        return wanted
    asked = given or configured
    free = asked or store.objects.head().branch or DETACHED
    new = asked is None and store.repo.layout.root is None  # what is in a bare repository is there from others
    return _own(store, chains, free, others, automatic=automatic and not given, new=new)


def makes_current(store: Store, track: str) -> bool:
    """Whether a hook may make its track current: none is, and no other one of ours could have been meant in this work tree;
    never a foreign one."""
    if store.current() is not None or store.is_foreign(track):
        return False
    return all(other == track or store.is_foreign(other) for other in within_reach(store))


def within_reach(store: Store) -> set[str]:
    """The tracks that do not belong to another work tree."""
    others, tips = _Others(store), store.tips()
    unread = {track for problem in tips.problems if (track := track_of(problem.where)) is not None}
    near = {s.checkpoint.track for s in tips.items if not others.own(s.checkpoint.track, s)}
    return near | {track for track in unread if not others.own(track, None)}


def _own(store: Store, chains: dict[str, str], wanted: str, others: _Others, *, automatic: bool, new: bool) -> str:
    """A name of this work tree's own, as near to the one wanted as can be; ``new``: of no track that is there."""
    name, layout = _valid(wanted), store.repo.layout
    folder = os.path.basename(layout.root or layout.git_dir)
    for candidate in (name, _valid(f"{name} {folder}"), *(f"{name} {n}" for n in range(2, 1000))):
        twin = candidate if candidate in chains else next((t for t in chains if looks(t) == looks(candidate)), None)
        ours = twin is None or (twin == candidate and not new and not others.have(twin))
        if ours and not (automatic and store.is_foreign(candidate)):
            return candidate
    raise UsageError(f"no name is free for a track of this work tree beside {in_quotes(name)}")


def _valid(name: str) -> str:
    """A new track's name as near to ``name`` as can be."""
    try:
        return check_new_track(name)
    except UsageError:
        kept = "".join(c for c in name if c.isascii() and (c.isalnum() or c in "-_./ "))
        return check_new_track(kept.strip()[:100].strip() or DETACHED)


class _Others:
    """The other work trees of this repository that still exist: their current tracks, and what checkpoints call them."""

    def __init__(self, store: Store) -> None:
        self.store, repo = store, store.repo
        places = questions.others(repo)
        self.currents = {questions.current_ref(repo, git_dir, CURRENT) for git_dir, _ in places}
        self.met = [place for _, place in places if place is not None]
        self.here = repo.worktree_id() if places else None

    def have(self, track: str) -> bool:
        """Whether a track belongs to one of them."""
        try:
            return self.own(track, self.store.tip(track))
        except RecordError:
            return True  # it cannot be written, either

    def own(self, track: str, tip: Stored | None) -> bool:
        """Whether a track is current in one of them, or its newest checkpoint was taken there."""
        if tip_ref(track) in self.currents:
            return True
        taken = tip.checkpoint.files.worktree if tip and tip.checkpoint.files else None
        if taken is None or self.here is None or taken.same(self.here):
            return False
        return any(taken.same(place) for place in self.met)
