"""Attribution, for restores: the present content of a path is the work of our track, of another track, or of a later commit;
of which session on our track, in ``session_work``.

Ours is what the track captured before it was committed, and an edit upon our own that was not captured, committed here or not.
What the track's whole-tree captures merely hold, because a merge or another agent brought it, has no owner.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise, takewhile
from math import inf

from gitbaton.base.codec import first_line, in_double_quotes, in_quotes, timestamp
from gitbaton.base.errors import GitError, NotFoundError, RecordError
from gitbaton.base.model import BEFORE_PROMPT, ENDED, Agent, Oid, Stored, WorktreeId, session_key
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.restore.values import UNDECIDED
from gitbaton.checkpoints.store import Store, safety_ref
from gitbaton.checkpoints.store.chain import AFTER, MAX_COMMIT, in_beside
from gitbaton.checkpoints.store.pathhistory import (
    FORMAT,
    ChainHistory,
    Contents,
    PlacedCheckpoint,
    Step,
    changes,
    first_parents,
    listed,
    newest_lines,
    nothing,
    read_lines,
    tree_of,
)
from gitbaton.checkpoints.store.standing import last_steps
from gitbaton.git.objects import parse_commit
from gitbaton.git.questions import made_here

if TYPE_CHECKING:
    from gitbaton.checkpoints.store.turns import Span
    from gitbaton.git.worktree.checkout import GitEntry

FEW = 20  # tracks that are sooner read than chosen from
_AHEAD = 50  # how much further each round of reading looks
_LONGEST = 60  # characters of a prompt that are told

_Held = tuple[ChainHistory, PlacedCheckpoint]
_Look = Generator[int, None, PlacedCheckpoint | None]


@value
class Owner:
    """The origin of a path's present content: the other ``track`` (None: a commit) and the id of that checkpoint or commit.
    ``certain``: that checkpoint shows it; else it merely holds content of unknown origin."""

    path: str
    track: str | None
    where: Oid
    certain: bool = True


def others(
    store: Store, then: Stored, head: Oid | None, worktree: WorktreeId, present: Mapping[str, GitEntry | None]
) -> dict[str, Owner]:
    """Return the owners of present content that is not ours, by path.

    ``present`` are paths that differ from the checkpoint ``then`` now, with what is there; ``head`` is HEAD's commit now.
    Among the checkpoints of this work tree, and those of the track from anywhere, the earliest that holds a content is its
    origin: another track's; ours where its own head does not hold it; else that of the commit on HEAD's first-parent line
    since ``then`` which brought it, unless it was made in this work tree, on the branch of ``then``: the agent's own, most
    often. What none of them holds is ours, unless another track's checkpoint changed the path last. For a path that is
    absent, and for one that is as the commit has it that ``then`` stands on, only checkpoints after ``then`` count. Reads
    only.
    """
    wanted = {path: f"{entry.mode} {entry.oid}" if entry else "" for path, entry in present.items()}
    chains = store.chains()[0] if wanted else {}
    commits = _commits(store, then.checkpoint.head, head) if wanted else []
    alone = chains.keys() <= {then.checkpoint.track}
    made = [step for _, step in commits]
    base = tree_of(store, then.checkpoint.head) or nothing(store) if wanted else ""
    first = (nothing(store), base)
    changed = changes(store, [first, *made], wanted) if alone and commits else {}
    brought = _brought(store, then, commits, changed, wanted)
    if alone:  # then only what a commit brought can be anybody's
        wanted = {path: wanted[path] for path in brought}
    if not wanted:
        return {}
    refs: dict[str | None, Oid] = {track: chains[track] for track in _near(store, chains, then.checkpoint.track, worktree)}
    state = store.objects.info(safety_ref(store.repo.layout.git_dir, store.repo.layout.common_dir))
    refs |= {None: state.oid} if state is not None and state.kind == "commit" else {}
    newest = newest_lines(store, refs, then.commit) if alone else None
    lines = newest if newest is not None else read_lines(store, refs)
    steps = [step for line in lines for step in line.steps(base)]
    known = changed | changes(store, [*([] if alone else [first, *made]), *steps], wanted)
    contents = {path: content for path, content in known.get(first, {}).items() if path in wanted}
    for line in lines:
        line.follow(base, contents, known)
    brought = brought if alone else _brought(store, then, commits, known, wanted)
    return _OwnerSearch(store, then, worktree, wanted, contents, lines, brought).owners()


def _near(store: Store, chains: Mapping[str, Oid], own: str, worktree: WorktreeId) -> Iterable[str]:
    """Return the tracks that may have a checkpoint of a work tree, and the ``own`` one; of few tracks all."""
    if len(chains) <= FEW or not store.facts.load():
        return chains
    walked = store.objects.chains(chains.values())
    return [
        track
        for track, tip in chains.items()
        if track == own
        or not (oids := walked.get(tip))
        or not store.facts.elsewhere((o for o in oids if o != store.root), worktree)
    ]


def _commits(store: Store, since: Oid | None, head: Oid | None) -> list[tuple[Oid, Step]]:
    """Return HEAD's first-parent line since a commit, newest first, with the trees of each one's first parent and its own.

    Empty where it cannot be told.
    """
    if head is None or head == since or (since is not None and not tree_of(store, since)):
        return []
    until = [] if since is None else [f"^{since}"]
    result = store.repo.git.run("rev-list", "--first-parent", *FORMAT, "--end-of-options", head, *until, "--")
    if result.code != 0:
        return []
    line = list(first_parents(listed(result.out), head))
    trees = [*(item.tree for item in line[1:]), *([_tree_before(store, line[-1].oid)] if line else [])]
    return [(item.oid, (before, item.tree)) for item, before in zip(line, trees, strict=True) if before]


def _tree_before(store: Store, oid: Oid) -> Oid | None:
    """Return the tree of a commit's first parent, the empty one when it has none; None when that is not there (a shallow
    clone)."""
    try:
        found = store.objects.read(oid)
        commit = parse_commit(found.data) if found is not None and found.data is not None else None
    except (GitError, RecordError):
        return None
    if commit is None or commit.parents:
        return tree_of(store, commit.parents[0]) if commit else None
    return nothing(store)


def _brought(
    store: Store, then: Stored, commits: Sequence[tuple[Oid, Step]], changed: Mapping[Step, Contents], wanted: Contents
) -> dict[str, Oid]:
    """By path, the newest commit that brought its present content, where that was not made in this work tree, on the branch
    that the checkpoint was taken on."""
    found = {
        path: oid
        for oid, step in reversed(commits)
        for path, content in changed.get(step, {}).items()
        if content == wanted.get(path)
    }
    made = made_here(store.repo, then.checkpoint.branch) if found else frozenset[Oid]()
    return {path: oid for path, oid in found.items() if oid not in made}


class _OwnerSearch:
    """Lines of one repository, asked for one work tree. ``then`` is the checkpoint to come back, ``base`` what its ``head`` has
    at the wanted paths, ``brought`` says which commit brought a content since."""

    def __init__(
        self,
        store: Store,
        then: Stored,
        worktree: WorktreeId,
        wanted: Contents,
        base: Contents,
        lines: Sequence[ChainHistory],
        brought: Mapping[str, Oid],
    ) -> None:
        self.store, self.worktree, self.wanted, self.base, self.lines = store, worktree, wanted, base, lines
        self.brought = {path: Owner(path=path, track=None, where=oid) for path, oid in brought.items()}
        self.track, self.created = then.checkpoint.track, then.checkpoint.created
        self._tracks = sorted((n for n in lines if n.track is not None and n.links), key=lambda n: -n.links[-1].seconds)
        self._states = [n for n in lines if n.track is None]
        self._heads: dict[Step, Contents] = {}
        self._written: dict[Oid, Contents] | None = None

    def late(self, path: str) -> bool:
        """Whether only checkpoints after ``then`` count: a path is absent, or as the commit has it that ``then`` stands on."""
        return self.wanted[path] in ("", self.base.get(path, ""))

    def rank(self, seen: PlacedCheckpoint) -> tuple[datetime, bool, Oid, str]:
        """Return the sort key of two candidates for an owner: the earlier one, ours at a tie."""
        return seen.created, seen.track != self.track, seen.stored.id, seen.track

    # The owner of each path.

    def owners(self) -> dict[str, Owner]:
        """Return the owners of the paths with present content that is not ours."""
        holders = self.holders()
        first = {path: min((seen for _, seen in held), key=self.rank) for path, held in holders.items()}
        self.compare_with_heads(seen for seen in first.values() if seen.track == self.track)
        found = ((path, self._owner(path, first.get(path), holders.get(path, ()))) for path in self.wanted)
        return {path: owner for path, owner in found if owner is not None}

    def _owner(self, path: str, first: PlacedCheckpoint | None, held: Sequence[_Held]) -> Owner | None:
        """Return the owner of a path of which lines ``held`` the content, the ``first`` of them before the others."""
        if first is None and path in self.brought:
            return self.brought[path]
        if first is not None and first.track == self.track and path not in self.apart_from_head(first):
            return self.brought.get(path)  # it merely holds what was there
        doubtful = self._doubtful(first, held) if first is not None and first.track == self.track else None
        whose = self.changer(path) if first is None else doubtful or first
        if whose is None or whose.track == self.track:
            return None
        c = whose.stored.checkpoint
        by_no_turn = c.kind == "auto" and (c.step == BEFORE_PROMPT or (c.turn is None and c.step.startswith(ENDED)))
        return Owner(path=path, track=whose.track, where=whose.stored.id, certain=doubtful is None and not by_no_turn)

    def _doubtful(self, first: PlacedCheckpoint, held: Sequence[_Held]) -> PlacedCheckpoint | None:
        """Return a checkpoint of another track that holds a content of ours as well, and before which one was pruned that may
        have had it before us."""
        other = [(line, seen) for line, seen in held if line.track is not None and seen.track != first.track]
        found = [seen for line, seen in other if self.gap_before(line, seen, first.created)]
        return min(found, key=self.rank, default=None)

    # Who held it first.

    def holders(self) -> dict[str, list[_Held]]:
        """Return by path the first checkpoint of each line that holds its wanted content."""
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
        found: dict[str, list[_Held]] = {}
        for line, path, seen in self._carry_out(searches):
            found.setdefault(path, []).append((line, seen))
        return found

    def _fits(self, line: ChainHistory, path: str) -> Callable[[PlacedCheckpoint], bool]:
        """Whether a checkpoint that has the content counts for a path; a state before a restore does for what that wrote."""
        late, knows = self.late(path), self._knows(path, self.wanted[path])

        def fits(seen: PlacedCheckpoint) -> bool:
            if (late and seen.created <= self.created) or not knows(seen):
                return False
            return line.track is not None or path in self.written(seen)

        return fits

    @staticmethod
    def _knows(path: str, content: str) -> Callable[[PlacedCheckpoint], bool]:
        """Whether a checkpoint knows that a path has a content. One that had to skip it does not know it absent."""
        parts = path.split("/")
        above = {"/".join(parts[:n]) for n in range(1, len(parts) + 1)} if not content else set()
        return lambda seen: above.isdisjoint(seen.skipped)

    @staticmethod
    def _look(line: ChainHistory, spans: Sequence[tuple[int, int]], fits: Callable[[PlacedCheckpoint], bool]) -> _Look:
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

    def _carry_out(
        self, searches: list[tuple[ChainHistory, str, _Look]]
    ) -> Iterable[tuple[ChainHistory, str, PlacedCheckpoint]]:
        """Run all searches side by side: each round reads what they ask for, and further ahead than the one before."""
        ahead = 1
        while searches:
            waiting, asked = [], dict[ChainHistory, set[int]]()
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

    def changer(self, path: str) -> PlacedCheckpoint | None:
        """Return the checkpoint taken here that changed a path last, or the state before a restore that wrote it since."""
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

    def _newest(self, path: str, without: str | None = None) -> tuple[PlacedCheckpoint, str] | None:
        """Return the newest checkpoint here that knows a path, perhaps one at which it has another content; and what it has
        there."""
        found: tuple[PlacedCheckpoint, str] | None = None
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

    def _newest_restored(self, path: str, since: PlacedCheckpoint | None) -> PlacedCheckpoint | None:
        """Return the state before the newest restore that wrote a path, after a checkpoint."""
        for line in self._states:
            places = range(len(line.links) - 1, self._after(line, since) - 1, -1)
            return self._first(line, places, lambda seen: self._follows(seen, since) and path in self.written(seen))
        return None

    def _first_since(self, path: str, content: str, since: PlacedCheckpoint | None) -> PlacedCheckpoint | None:
        """Return the oldest checkpoint here after another; it knows a path to have a content, as all since then do."""
        found, knows = [], self._knows(path, content)
        for line in self._tracks:
            if since is not None and line.links[-1].seconds < _seconds(since.created):
                break
            places = range(self._after(line, since), len(line.links))
            found.append(self._first(line, places, lambda seen: self._follows(seen, since) and knows(seen)))
        return min((seen for seen in found if seen is not None), key=self.rank, default=None)

    def _follows(self, seen: PlacedCheckpoint, since: PlacedCheckpoint | None) -> bool:
        return since is None or self.rank(seen) > self.rank(since)

    @staticmethod
    def _after(line: ChainHistory, since: PlacedCheckpoint | None) -> int:
        """Return the first place of a line that may be after a checkpoint."""
        return line.recent(_seconds(since.created)) if since is not None else 0

    def _first(self, line: ChainHistory, places: range, fits: Callable[[PlacedCheckpoint], bool]) -> PlacedCheckpoint | None:
        """Return the first of some places at which a checkpoint was taken here that fits."""
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

    def apart_from_head(self, seen: PlacedCheckpoint) -> Contents:
        """Return the wanted paths that a checkpoint has otherwise than the commit that it stands on; none where that is not
        there."""
        step = self._from_head(seen)
        if step is None:
            return {}
        if step not in self._heads:
            self.compare_with_heads([seen])
        return self._heads[step]

    def compare_with_heads(self, items: Iterable[PlacedCheckpoint]) -> None:
        """Look at many checkpoints at once, for ``apart_from_head``."""
        steps = {step for seen in items if (step := self._from_head(seen))}
        self._heads |= {step: {} for step in steps} | changes(self.store, steps, self.wanted)

    def _from_head(self, seen: PlacedCheckpoint) -> Step | None:
        head = seen.stored.checkpoint.head
        tree = tree_of(self.store, head) if head else nothing(self.store)
        return (tree, seen.stored.tree) if tree else None

    def written(self, seen: PlacedCheckpoint) -> Contents:
        """Return the wanted paths that the restore of a kept state wrote."""
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

    def gap_before(self, line: ChainHistory, seen: PlacedCheckpoint, moment: datetime) -> bool:
        """Whether a checkpoint of a line, taken before a moment perhaps, was pruned just before one that is there."""
        if seen.place == 0:
            return seen.stored.checkpoint.previous is not None
        oid = line.links[seen.place - 1].oid
        try:
            prior = self.store.stored(self.store.objects.read(oid, MAX_COMMIT), line.track, oid)
        except (GitError, RecordError):
            return True
        return prior.id != seen.stored.checkpoint.previous and prior.checkpoint.created < moment

    def _read(self, places: Sequence[tuple[ChainHistory, int]]) -> None:
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
            line.note(place, PlacedCheckpoint(stored=stored, place=place, here=here, skipped=skipped) if counts else None)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp() // 1)


@value
class Work:
    """The paths that sessions changed. ``theirs``: by path another session that wrote it last, in words; ``own``: the paths
    that changed after the newest checkpoint, which is not the one that comes back, and outside of any turn."""

    theirs: Mapping[str, str]
    own: Collection[str]


def session_work(baton: Baton, then: Stored, now: Oid, paths: Collection[str]) -> Work:
    """Return what other sessions on a checkpoint's track wrote last since it, by the checkpoints of this work tree; ``now`` is
    the tree of the present state. Reads only.

    The checkpoint's own session is not another one; where that did nothing since, the one with the first turn is not."""
    if not paths:
        return Work(theirs={}, own=())
    store, start, here = baton.store, then.checkpoint.created.timestamp(), baton.repo.worktree_id()
    tip = _tip(baton, then.checkpoint.track)
    chain = takewhile(lambda s: s.checkpoint.created.timestamp() > start, store.newest(tip) if tip is not None else ())
    taken = [s for s in chain if s.checkpoint.files is not None and s.checkpoint.files.worktree.same(here)][::-1]
    stored = (then, *taken)  # the states on the way from the checkpoint to now
    moments = [*(s.checkpoint.created.timestamp() for s in stored), inf]
    spans = _turns_since(baton, then, taken)
    last = _last_changes(baton, [*(s.tree for s in stored), now], paths)
    ours, theirs, own = _ours(then.checkpoint.agent, spans), dict[str, str](), list[str]()
    several = any(session_key(span.session) != ours for span in spans)
    fresh = [path for path, places in last.items() if places[-1] == len(stored)]
    put_back = _put_back(baton, moments[-2], fresh, now) if fresh and (several or taken) else set()
    for path, places in last.items():
        for place in reversed(places):
            known = (span for span in spans if span.owns(path))
            writers = [span for span in known if _goes_on(span, moments[place - 1], moments[place])]
            if place == len(stored) and (path in put_back or not writers):
                if path in put_back:
                    break
                own.append(path)
                continue  # an edit upon what another session wrote is not worth less than that
            whose = _whose(path, writers, ours) if several else ""
            if whose:
                theirs[path] = whose
            break
    return Work(theirs=theirs, own=[path for path in own if taken and path not in theirs])


def _tip(baton: Baton, track: str) -> Stored | None:
    """Return a track's newest checkpoint that can be read; None where it is not here, or none can."""
    try:
        return baton.store.own_tip(track)
    except RecordError:
        with suppress(RecordError, NotFoundError):
            return baton.store.readable(track)
        return None


def _turns_since(baton: Baton, then: Stored, taken: Sequence[Stored]) -> list[Span]:
    """Return the turns of its track that did not end before a checkpoint. Nothing is loaded where no agent was."""
    there = os.path.isdir(os.path.join(baton.repo.layout.git_dir, "baton", "sessions"))
    if not there and all(s.checkpoint.kind == "manual" for s in taken):
        return []
    from gitbaton.checkpoints.restore.turnchoice import turns_here
    from gitbaton.checkpoints.store.turns import until

    start = then.checkpoint.created.timestamp()
    try:
        return list(takewhile(lambda span: until(span) > start, turns_here(baton, then.checkpoint.track)))
    except RecordError:  # of a track that cannot be read to its end no turns are known
        return []


def _goes_on(span: Span, start: float, end: float) -> bool:
    """Whether a turn went on between two moments."""
    from gitbaton.checkpoints.store.turns import since, until

    return since(span) < end and until(span) > start


def _last_changes(baton: Baton, trees: Sequence[Oid], paths: Collection[str]) -> dict[str, list[int]]:
    """Return by path the places of the trees of states that changed it, in order."""
    steps = list(pairwise(trees))
    found, changed = dict[str, list[int]](), changes(baton.store, steps, dict.fromkeys(paths, ""))
    for place, step in enumerate(steps, 1):
        for path in changed.get(step, {}):
            found.setdefault(path, []).append(place)
    return found


def _put_back(baton: Baton, newest: float, paths: Collection[str], now: Oid) -> set[str]:
    """Return the paths that are as a restore wrote them, after the newest checkpoint."""
    found = set[str]()
    for step in last_steps(baton.store, None):
        if step.checkpoint.created.timestamp() <= newest:
            break
        after = in_beside(baton.store, step, AFTER)
        pairs = (step.tree, after), (after, now)
        changed = changes(baton.store, pairs, dict.fromkeys(paths, ""))
        found |= changed.get(pairs[0], {}).keys() - changed.get(pairs[1], {}).keys()
    return found


def _ours(agent: Agent | None, spans: Sequence[Span]) -> tuple[str, str | None]:
    """Return the key of the session that a restore takes work back of: the checkpoint's, or where that did nothing since, the
    one with the turn that ended first."""
    active = [span for span in spans if span.open or span.changed()]
    if agent is not None and any(session_key(span.session) == session_key(agent) for span in active):
        return session_key(agent)
    return session_key(active[-1].session) if active else session_key(agent)


def _whose(path: str, writers: Sequence[Span], ours: tuple[str, str | None]) -> str:
    """Return the session, in words, that made a change while some turns were open; "" where it is ours."""
    named = [span for span in writers if path in span.edited] or writers
    strangers = [span for span in named if session_key(span.session) != ours]
    if not strangers:
        return ""
    mine = next((span for span in named if session_key(span.session) == ours), None)
    return _told(strangers[0]) if mine is None else f"{_told(mine)}, or {_told(strangers[0])}: {UNDECIDED}"


def _told(span: Span) -> str:
    whose = f"session {in_quotes(span.session.session or span.session.name)}" if span.session else "a session"
    return f"{whose}, {in_double_quotes(first_line(span.prompt)[:_LONGEST])}" if span.prompt else whose
