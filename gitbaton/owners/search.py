"""Searches in lines: who held a content first, and who changed a path last, with as few records read as can be."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from datetime import datetime

from gitbaton.codec import timestamp
from gitbaton.errors import GitError, RecordError
from gitbaton.model import Oid, Stored, WorktreeId
from gitbaton.owners.lines import MAX_COMMIT, Line, Seen
from gitbaton.owners.trees import changes, nothing, tree_of
from gitbaton.owners.values import Contents, Step
from gitbaton.store import Store
from gitbaton.store.safety import AFTER, in_beside

_AHEAD = 50  # how much further each round of reading looks

Held = tuple[Line, Seen]
Look = Generator[int, None, Seen | None]


class Search:
    """Lines of one repository, asked for one work tree. ``then`` is the checkpoint to come back, ``base`` what its ``head`` has
    at the wanted paths."""

    def __init__(
        self, store: Store, then: Stored, worktree: WorktreeId, wanted: Contents, base: Contents, lines: Sequence[Line]
    ) -> None:
        self.store, self.then, self.worktree, self.wanted, self.base, self.lines = store, then, worktree, wanted, base, lines
        self.track, self.created = then.checkpoint.track, then.checkpoint.created
        self._tracks = sorted((n for n in lines if n.track is not None and n.links), key=lambda n: -n.links[-1].seconds)
        self._states = [n for n in lines if n.track is None]
        self._heads: dict[Step, Contents] = {}
        self._written: dict[Oid, Contents] | None = None

    def late(self, path: str) -> bool:
        """Whether only checkpoints after ``then`` count: a path is absent, or as the commit has it that ``then`` stands on."""
        return self.wanted[path] in ("", self.base.get(path, ""))

    def rank(self, seen: Seen) -> tuple[datetime, bool, Oid, str]:
        """Who comes first; a tie is ours."""
        return seen.created, seen.track != self.track, seen.stored.id, seen.track

    # Who held it first.

    def holders(self) -> dict[str, list[Held]]:
        """By path, the first checkpoint of each line that holds its wanted content."""
        searches = []
        constant = {path for path, content in self.wanted.items() if self.base.get(path, "") == content}
        for line in self.lines:
            recent = line.recent(_seconds(self.created))
            for path in constant | line.moves.keys():
                late = self.late(path)
                runs = [(start, end) for start, end, content in line.runs(path) if content == self.wanted[path]]
                spans = [(max(start, recent), end) for start, end in runs] if late else runs
                if spans:
                    searches.append((line, path, self._look(line, spans, self._fits(line, path))))
        found: dict[str, list[Held]] = {}
        for line, path, seen in self._carry_out(searches):
            found.setdefault(path, []).append((line, seen))
        return found

    def _fits(self, line: Line, path: str) -> Callable[[Seen], bool]:
        """Whether a checkpoint that has the content counts for a path; a state before a restore does for what that wrote."""
        late, knows = self.late(path), self._knows(path, self.wanted[path])

        def fits(seen: Seen) -> bool:
            if (late and seen.created <= self.created) or not knows(seen):
                return False
            return line.track is not None or path in self.written(seen)

        return fits

    @staticmethod
    def _knows(path: str, content: str) -> Callable[[Seen], bool]:
        """Whether a checkpoint knows that a path has a content. One that had to skip it does not know it absent."""
        parts = path.split("/")
        above = {"/".join(parts[:n]) for n in range(1, len(parts) + 1)} if not content else set()
        return lambda seen: above.isdisjoint(seen.skipped)

    @staticmethod
    def _look(line: Line, spans: Sequence[tuple[int, int]], fits: Callable[[Seen], bool]) -> Look:
        """Yields a place that must be read before it can go on; returns the first one that fits."""
        for start, end in spans:
            place = line.next(start)
            while place < end:
                if place not in line.seen:
                    yield place
                seen = line.seen[place]
                if seen is not None and fits(seen):
                    return seen
                place = line.next(place + 1)
        return None

    def _carry_out(self, searches: list[tuple[Line, str, Look]]) -> Iterable[tuple[Line, str, Seen]]:
        """Run all searches side by side: each round reads what they ask for, and further ahead than the one before."""
        ahead = 1
        while searches:
            waiting, asked = [], dict[Line, set[int]]()
            for search in searches:
                line, path, steps = search
                try:
                    place = next(steps)
                except StopIteration as end:
                    if end.value is not None:
                        yield line, path, end.value
                    continue
                waiting.append(search)
                asked.setdefault(line, set()).update(range(place, min(place + ahead, len(line.links))))
            self._read([(line, place) for line, places in asked.items() for place in sorted(places)])
            searches, ahead = waiting, ahead * _AHEAD

    # Who changed it last.

    def changer(self, path: str) -> Seen | None:
        """The checkpoint taken here that changed a path last, or the state before a restore that wrote it since."""
        newest = self._newest(path) if any(path in line.moves for line in self.lines) else None
        if newest is None:
            return None
        last, content = newest
        before = self._newest(path, without=content)
        since = before[0] if before else None
        found = restored = self._newest_restored(path, since)
        if restored is None or (self.rank(restored) < self.rank(last) and self.written(restored)[path] != content):
            found = self._first_since(path, content, restored or since) or last
            if restored is None and since is None and path not in self.apart_from_head(found):
                return None
        return None if found is None or (self.late(path) and found.created <= self.created) else found

    def _newest(self, path: str, without: str | None = None) -> tuple[Seen, str] | None:
        """The newest checkpoint here that knows a path, perhaps one at which it has another content; and what it has there."""
        found: tuple[Seen, str] | None = None
        for line in self._tracks:
            if found is not None and line.links[-1].seconds < _seconds(found[0].created):
                break
            for start, end, content in reversed(line.runs(path)):
                fits = self._knows(path, content)
                seen = self._first(line, range(end - 1, start - 1, -1), fits) if content != without else None
                if seen is not None:
                    found = max(found, (seen, content), key=lambda pair: self.rank(pair[0])) if found else (seen, content)
                    break
        return found

    def _newest_restored(self, path: str, since: Seen | None) -> Seen | None:
        """The state before the newest restore that wrote a path, after a checkpoint."""
        for line in self._states:
            places = range(len(line.links) - 1, self._after(line, since) - 1, -1)
            return self._first(line, places, lambda seen: self._follows(seen, since) and path in self.written(seen))
        return None

    def _first_since(self, path: str, content: str, since: Seen | None) -> Seen | None:
        """The oldest checkpoint here after another; it knows a path to have a content, as all since then do."""
        found, knows = [], self._knows(path, content)
        for line in self._tracks:
            if since is not None and line.links[-1].seconds < _seconds(since.created):
                break
            places = range(self._after(line, since), len(line.links))
            found.append(self._first(line, places, lambda seen: self._follows(seen, since) and knows(seen)))
        return min((seen for seen in found if seen is not None), key=self.rank, default=None)

    def _follows(self, seen: Seen, since: Seen | None) -> bool:
        return since is None or self.rank(seen) > self.rank(since)

    @staticmethod
    def _after(line: Line, since: Seen | None) -> int:
        """The first place of a line that may be after a checkpoint."""
        return line.recent(_seconds(since.created)) if since is not None else 0

    def _first(self, line: Line, places: range, fits: Callable[[Seen], bool]) -> Seen | None:
        """The first of some places at which a checkpoint was taken here that fits."""
        ahead = 1
        while places:
            self._read([(line, place) for place in places[:ahead]])
            for place in places[:ahead]:
                seen = line.seen[place]
                if seen is not None and seen.here and fits(seen):
                    return seen
            places, ahead = places[ahead:], ahead * _AHEAD
        return None

    # What is read.

    def apart_from_head(self, seen: Seen) -> Contents:
        """The wanted paths that a checkpoint has otherwise than the commit that it stands on; none where that is not there."""
        step = self._from_head(seen)
        if step is None:
            return {}
        if step not in self._heads:
            self.compare_with_heads([seen])
        return self._heads[step]

    def compare_with_heads(self, items: Iterable[Seen]) -> None:
        """Look at many checkpoints at once, for ``apart_from_head``."""
        steps = {step for seen in items if (step := self._from_head(seen))}
        self._heads |= {step: {} for step in steps} | changes(self.store, steps, self.wanted)

    def _from_head(self, seen: Seen) -> Step | None:
        head = seen.stored.checkpoint.head
        tree = tree_of(self.store, head) if head else nothing(self.store)
        return (tree, seen.stored.tree) if tree else None

    def written(self, seen: Seen) -> Contents:
        """What the restore wrote that a state was kept for, of the wanted paths."""
        if self._written is None:
            self._written = self._all_written()
        return self._written.get(seen.stored.commit, {})

    def _all_written(self) -> dict[Oid, Contents]:
        self._read([(line, place) for line in self._states for place in range(len(line.links))])
        steps = {}
        for seen in (seen for line in self._states for seen in line.seen.values() if seen is not None):
            try:
                steps[seen.stored.commit] = seen.stored.tree, in_beside(self.store, seen.stored, AFTER)
            except (GitError, RecordError):
                continue
        found = changes(self.store, set(steps.values()), self.wanted)
        return {commit: found.get(step, {}) for commit, step in steps.items()}

    def gap_before(self, line: Line, seen: Seen, moment: datetime) -> bool:
        """Whether a checkpoint of a line, taken before a moment perhaps, was pruned just before one that is there."""
        if seen.place == 0:
            return seen.stored.checkpoint.previous is not None
        oid = line.links[seen.place - 1].oid
        try:
            prior = self.store.stored(self.store.objects.read(oid, MAX_COMMIT), line.track, oid)
        except (GitError, RecordError):
            return True
        return prior.id != seen.stored.checkpoint.previous and prior.checkpoint.created < moment

    def _read(self, places: Sequence[tuple[Line, int]]) -> None:
        places = [(line, place) for line, place in places if place not in line.seen]
        oids = [line.links[place].oid for line, place in places]
        born = timestamp(self.worktree.created).encode()
        for (line, place), found in zip(places, self.store.objects.read_many(oids, MAX_COMMIT), strict=True):
            own = line.track == self.track
            if not own and found is not None and found.data is not None and born not in found.data:  # decoding is what costs
                line.note(place, None)
                continue
            try:
                stored = self.store.stored(found, line.track, line.links[place].oid)
            except RecordError:
                line.note(place, None)
                continue
            files = stored.checkpoint.files
            here = files is not None and files.worktree.same(self.worktree)
            skipped = frozenset(s.path.rstrip("/") for s in files.skipped) if files else frozenset[str]()
            counts = here or (own and files is not None)
            line.note(place, Seen(stored=stored, place=place, here=here, skipped=skipped) if counts else None)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp() // 1)
