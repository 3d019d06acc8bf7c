"""Where the ground is now: HEAD, what is under way, and how a checkpoint's commit relates to them."""

from __future__ import annotations

from gitbaton import rewrites
from gitbaton.drift import Ground, compare
from gitbaton.errors import GitError, RecordError
from gitbaton.model import Head, Live, Oid, Operation, Stored
from gitbaton.store import Store

_NEAR = 50
_SAME_HEAD = 200


class Surveyor:
    """Looks at HEAD once and compares any number of checkpoints with it."""

    def __init__(self, store: Store, short: int) -> None:
        self.store, self.objects, self.short = store, store.objects, short
        self.head: Head = self.objects.head()
        self.operation: Operation | None = store.repo.operation()
        self._rewritten: dict[Oid, Oid] | None = None
        self._distances: dict[Oid, tuple[int, int] | None] = {}

    def live(self, stored: Stored) -> Live:
        """The present against a checkpoint."""
        drift = compare(stored.checkpoint, self._ground(stored), self.abbreviate)
        return Live(head=self.head, drift=drift)

    def abbreviate(self, oid: Oid) -> str:
        """A short form of an object's id."""
        return self.objects.abbreviate(oid, min(self.short, len(oid)))

    def _ground(self, stored: Stored) -> Ground:
        then, here = stored.checkpoint.head, self.head.oid
        if then == here or here is None:
            return Ground(head=self.head, operation=self.operation)
        if then is None:
            return Ground(head=self.head, operation=self.operation, total=self.objects.count(here))
        straight = self._distance(here, then) if self._is_commit(then) else None
        if straight is not None and not straight[1]:  # HEAD still has the very commit: what it became elsewhere is no matter
            return Ground(head=self.head, operation=self.operation, distance=straight)
        path = self._successors(then)
        if here in path:
            return Ground(head=self.head, operation=self.operation, home=True)
        known = [oid for oid in reversed(path) if self._is_commit(oid)]
        reached = (oid for oid in known if (self._distance(here, oid) or (0, 1))[1] == 0)
        start = next(reached, known[0] if known else None)
        if start is None:
            return Ground(head=self.head, operation=self.operation, exists=False, distance=None)
        rewritten = start != then
        distance = self._distance(here, start)
        if not rewritten and (distance is None or distance[1]):
            noted = self._noted(stored, here)
            if noted == here:
                return Ground(head=self.head, operation=self.operation, home=True)
            if noted is not None:
                rewritten, distance = True, self._distance(here, noted)
        return Ground(head=self.head, operation=self.operation, rewritten=rewritten, distance=distance)

    def _is_commit(self, oid: Oid) -> bool:
        found = self.objects.info(oid)
        return found is not None and found.kind == "commit"

    def _distance(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """As Objects.distance, once for all tracks that stand on the same commit."""
        if there not in self._distances:
            self._distances[there] = self.objects.distance(here, there)
        return self._distances[there]

    def _successors(self, oid: Oid) -> list[Oid]:
        """``oid`` and the commits that it became, by the pairs that post-rewrite kept, oldest first."""
        if self._rewritten is None:
            self._rewritten = rewrites.pairs(self.store.repo)
        path = [oid]
        while len(path) <= rewrites.KEPT:
            after = self._rewritten.get(path[-1])
            if after is None or after in path:
                break
            path.append(after)
        return path

    def _noted(self, stored: Stored, here: Oid) -> Oid | None:
        """The commit near HEAD whose note names a checkpoint of this track that has this checkpoint's head.

        Git copies notes on amend and rebase, so that commit is the checkpoint's under a new id.
        """
        try:
            tree = self.store.notes_tree()[1]
            if tree is None:
                return None
            wanted = self._same_head(stored)
            for commit in self.objects.first_parents(here, _NEAR):
                if wanted.intersection(self.store.noted(commit, tree)):
                    return commit
        except (RecordError, GitError):
            pass
        return None

    def _same_head(self, stored: Stored) -> set[Oid]:
        history = self.store.history(stored.checkpoint.track, _SAME_HEAD).items
        return {s.id for s in history if s.checkpoint.head == stored.checkpoint.head}
