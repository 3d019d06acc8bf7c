"""Where the ground is now: HEAD, what is under way, and how a checkpoint's commit relates to them."""

from __future__ import annotations

import os

from gitbaton.drift import Ground, compare
from gitbaton.errors import RecordError
from gitbaton.git.objects import OID
from gitbaton.model import Head, Live, Oid, Operation, Stored
from gitbaton.store import Store

REWRITES = 1000
_NEAR = 50
_SAME_HEAD = 200


class Surveyor:
    """Looks at HEAD once and compares any number of checkpoints with it."""

    def __init__(self, store: Store, short: int) -> None:
        self.store, self.objects, self.short = store, store.objects, short
        self.head: Head = self.objects.head()
        self.operation: Operation | None = store.repo.operation()
        self._rewritten: dict[Oid, Oid] | None = None

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
        start, rewritten = self._successor(then), False
        if start != then:
            rewritten = True
            if start == here:
                return Ground(head=self.head, operation=self.operation, home=True)
        found = self.objects.info(start)
        if found is None or found.kind != "commit":
            return Ground(head=self.head, operation=self.operation, exists=False, distance=None)
        distance = self.objects.distance(here, start)
        if not rewritten and (distance is None or distance[1]):
            noted = self._noted(stored, here)
            if noted == here:
                return Ground(head=self.head, operation=self.operation, home=True)
            if noted is not None:
                rewritten, distance = True, self.objects.distance(here, noted)
        return Ground(head=self.head, operation=self.operation, rewritten=rewritten, distance=distance)

    def _successor(self, oid: Oid) -> Oid:
        """The commit that ``oid`` became, by the pairs that post-rewrite kept."""
        if self._rewritten is None:
            self._rewritten = _pairs(os.path.join(self.store.repo.shared_dir, "rewritten"))
        for _ in range(REWRITES):
            after = self._rewritten.get(oid)
            if after is None:
                break
            oid = after
        return oid

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
        except RecordError:
            pass
        return None

    def _same_head(self, stored: Stored) -> set[Oid]:
        history = self.store.history(stored.checkpoint.track, _SAME_HEAD).items
        return {s.id for s in history if s.checkpoint.head == stored.checkpoint.head}


def _pairs(path: str) -> dict[Oid, Oid]:
    """Old and new ids of the last rewrites, one pair a line."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = file.read(1 << 20).splitlines()[-REWRITES:]
    except OSError:
        return {}
    pairs = (line.split() for line in lines)
    return {p[0]: p[1] for p in pairs if len(p) == 2 and OID.match(p[0]) and OID.match(p[1])}
