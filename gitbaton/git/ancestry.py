"""Ancestry: how many commits lie between each two of many, by one walk."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush

from gitbaton.base.model import Oid
from gitbaton.git.repo import Repo

MANY = 20_000
"""Commits from which on what all have in common is left out."""


class Ancestry:
    """The history of some commits. Of each commit it is known which of them reach it, as the bits of a number; those of which
    that is the same are counted together."""

    def __init__(self, repo: Repo, asked: Iterable[Oid], many: int = MANY) -> None:
        asked = list(dict.fromkeys(asked))
        self._bits: dict[Oid, int] = {}
        self._groups: Counter[int] = Counter()
        self._of: dict[Oid, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        self._parents: dict[Oid, list[Oid]] = {}
        self._at: dict[Oid, int] = {}  # each stands before those that it reaches
        self.related = False
        words = ("rev-list", "--parents", "--topo-order", "--ignore-missing", "--stdin")
        said = repo.git.run(*words, f"--max-count={many}", stdin="".join(f"{oid}\n" for oid in asked).encode())
        if said.code == 0 and said.out.count(b"\n") == many:
            base = repo.git.run("merge-base", "--octopus", "--end-of-options", *asked).out.decode("ascii").split()
            self.related = bool(base)
            said = repo.git.run(
                *words, stdin="".join(f"{oid}\n" for oid in (*asked, *(f"^{oid}" for oid in base[:1]))).encode()
            )
        if said.code == 0:
            rows = [line.split(" ") for line in said.out.decode("ascii").splitlines()]
            self._parents = {} if self.related else {oid: parents for oid, *parents in rows}
            self._at = {oid: n for n, oid in enumerate(self._parents)}
            self._count(asked, rows)

    def _count(self, asked: list[Oid], rows: list[list[Oid]]) -> None:
        listed = {row[0] for row in rows}
        self._bits = {oid: 1 << n for n, oid in enumerate(asked) if oid in listed}
        reached = dict(self._bits)
        for oid, *parents in rows:  # a commit stands before those that it reaches
            by = reached.pop(oid, 0)
            self._groups[by] += 1
            for parent in parents:
                reached[parent] = reached.get(parent, 0) | by

    def distance(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """Count the commits that only ``here`` and only ``there`` reach; None when they have no common ancestor. Raises
        LookupError for commits that were not asked for, or cannot be read."""
        if here not in self._bits or there not in self._bits:
            return self._walked(here, there)
        one, other = self._bits[here], self._bits[there]
        if here not in self._of:
            rows = self._groups.items()
            self._of[here] = [row for row in rows if row[0] & one], [row for row in rows if not row[0] & one]
        mine, rest = self._of[here]
        ahead = sum([count for by, count in mine if not by & other])
        behind = sum([count for by, count in rest if by & other])
        return (ahead, behind) if self.related or any(by & other for by, _ in mine) else None

    def _walked(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """Count as ``distance``, of commits below those that were asked for: each commit in its order is marked with those of
        the two that reach it, until both reach all that is left."""
        marks = {here: 1}
        marks[there] = marks.get(there, 0) | 2
        waiting = sorted((self._at[oid], oid) for oid in marks)
        counts, apart = [0, 0, 0, 0], sum(by != 3 for by in marks.values())
        while apart:
            _, oid = heappop(waiting)
            by = marks[oid]
            counts[by] += 1
            apart -= by != 3
            for parent in self._parents[oid]:
                known = marks.get(parent, 0)
                if not known:
                    heappush(waiting, (self._at[parent], parent))
                marks[parent] = known | by
                apart += (known | by != 3) - (known in (1, 2))
        return (counts[1], counts[2]) if waiting or counts[3] else None

    def first_parents(self, start: Oid, limit: int) -> list[Oid]:
        """Return a commit and its chain of first parents, so many. Raises LookupError where it was not walked."""
        found, at = list[Oid](), [start]
        while at and len(found) < limit:
            found.append(at[0])
            at = self._parents[at[0]][:1]
        return found
