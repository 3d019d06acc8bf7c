"""Tracks: what each holds here and, where it exists only as fetched, at remotes; the newest that can be read."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gitbaton.errors import MENDS, GitError, NotFoundError, RecordError
from gitbaton.git.repo import Repo
from gitbaton.model import Stored
from gitbaton.store.chain import Chains
from gitbaton.store.refs import chain_ref
from gitbaton.store.values import History, Problem
from gitbaton.values import replace


class Store(Chains):
    """The tracks of one repository."""

    def __init__(self, repo: Repo) -> None:
        super().__init__(repo)
        self.unread: dict[str, str] = {}  # the tracks of which ``readable`` could not show the newest, each with what to say

    def settle(self) -> list[str]:
        """Finish a change of several refs that a killed process had begun; what is in the way is said. Called with the lock
        held. Where there is none, it costs one look at a file's name."""
        if not os.path.lexists(os.path.join(self.repo.shared_dir, "revision")):
            return []
        from gitbaton.store import intent

        return intent.settle(self)

    def all_tips(self) -> History:
        """As ``tips``, and those of the tracks that exist only as fetched."""
        own = self.tips()
        if not self.strange():
            return own
        from gitbaton.store import fetched

        found = fetched.tips(self)
        items = sorted((*own.items, *found.items), key=lambda s: (s.checkpoint.created, s.id), reverse=True)
        return History(items=tuple(items), problems=(*own.problems, *found.problems))

    def tip(self, track: str) -> Stored | None:
        """The newest checkpoint of a track, a foreign one where the track exists only as fetched; None when there is no such
        track. Raises RecordError when it is broken."""
        stored = self.own_tip(track)
        if stored is None and self.at_remotes(track):
            from gitbaton.store import fetched

            stored = fetched.tip(self, track)
        return stored

    def readable(self, track: str) -> Stored | None:
        """As ``tip``, for who only looks: where the newest checkpoint cannot be read, the newest that can, and ``unread`` says
        so. Raises RecordError when there is none."""
        try:
            return self.tip(track)
        except RecordError as error:
            from gitbaton.store import sound

            found = sound.newest(self, track)
            if found is None:
                raise RecordError(error.message, MENDS) from None
            said = "the newest checkpoint that can be read is shown"
            self.unread[track] = f"{error.message}; {said}, and '{MENDS}' goes on from what is left"
            return found

    def has(self, track: str) -> bool:
        """Whether there is a track, here or as fetched, also one whose newest checkpoint cannot be read."""
        return self._pointed(chain_ref(track)) is not None or bool(self.at_remotes(track))

    def before(self, track: str) -> Stored | None:
        """As ``tip``, for what a snapshot can do without: where only a remote's copy is broken, there is none."""
        try:
            return self.tip(track)
        except RecordError:
            return self.own_tip(track)

    def history(self, track: str, limit: int | None = None) -> History:
        """A track's checkpoints, newest first; a broken one is named and left out. Raises NotFoundError."""
        try:
            return self.chain(chain_ref(track), track, limit)
        except NotFoundError:
            if track not in self.fetched():
                raise
        return self._fetched_history(track, limit)

    def _fetched_history(self, track: str, limit: int | None) -> History:
        from gitbaton.store import fetched

        return fetched.history(self, track, limit)

    def everything(self, tracks: Iterable[str], limit: int | None = None) -> History:
        """All checkpoints of several tracks, or the newest of each, newest first."""
        items: list[Stored] = []
        problems: list[Problem] = []
        for track in tracks:
            try:
                found = self._fetched_history(track, limit) if self._is_strange(track) else self.history(track, limit)
            except (RecordError, NotFoundError, GitError) as error:
                problems.append(Problem(where=chain_ref(track), reason=error.message))
                continue
            items += found.items
            problems += found.problems
        items.sort(key=lambda s: (s.checkpoint.created, s.id), reverse=True)
        return History(items=tuple(items), problems=tuple(problems))

    def whole(self, limit: int | None = None) -> History:
        """All checkpoints of all tracks, newest first, also those that exist only as fetched."""
        if limit is not None:
            from gitbaton.store.latest import latest

            return latest(self, limit, self.everything)
        chains, broken = self.chains()
        own = self.everything([*chains, *self.strange()])
        own = replace(own, problems=(*broken, *own.problems))
        if not self.elsewhere():
            return own
        from gitbaton.store import fetched

        more = fetched.apart(self, chains, {s.id for s in own.items})
        items = sorted((*own.items, *more.items), key=lambda s: (s.checkpoint.created, s.id), reverse=True)
        return History(items=tuple(items), problems=(*own.problems, *more.problems), origins=more.origins)
