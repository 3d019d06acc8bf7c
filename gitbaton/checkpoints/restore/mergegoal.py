"""Goal of a merge: another track's work taken into this work tree, three-way against what the two have in common."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import datetime

from gitbaton.base.codec import first_line, in_quotes
from gitbaton.base.errors import MENDS, BatonError, NotFoundError, RecordError, UsageError
from gitbaton.base.model import IGNORED, IGNORED_HELD, INSIDE, KEPT, Oid, Stored, WorktreeId, covered
from gitbaton.base.system.files import write_atomic
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.overlap import overlapping, why
from gitbaton.checkpoints.render import first_few, in_shell, some, title
from gitbaton.checkpoints.restore.bytes import stepped
from gitbaton.checkpoints.restore.goal import FREE, Goal, files_of, no_match, tree_in
from gitbaton.checkpoints.restore.plan import made
from gitbaton.checkpoints.restore.scene import PresentState, looked
from gitbaton.checkpoints.restore.values import LONGEST, MARKED, SHORT, Action, Order, PathAction, RestorePlan
from gitbaton.checkpoints.store import SAFETY, safety_ref
from gitbaton.checkpoints.store.chain import LEFT, paths_beside, replay
from gitbaton.checkpoints.store.pathhistory import nothing
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.gone import missing
from gitbaton.git.loose import put_in
from gitbaton.git.mergetree import (
    Conflict,
    MergeAnswer,
    MergeAsk,
    MergeSide,
    common_commit,
    drivers,
    merged,
    renames,
    side_commit,
    undriven,
)
from gitbaton.git.objects import LARGEST, new_object
from gitbaton.git.questions import is_ancestor
from gitbaton.git.worktree.checkout import (
    GITLINK,
    INVALID,
    Difference,
    GitEntry,
    changed_tree,
    differences,
    entry_at,
    refused_names,
)
from gitbaton.git.worktree.modes import Permits, recorded
from gitbaton.git.worktree.staged import Scope, Staged

_MARKERS = (b"<<<<<<<", b"|||||||", b"=======", b">>>>>>>")
_DRIVER = "driver"  # why a path stays that a driver of the user's merges
_LONG = 10_000  # checkpoints of a track among which one is looked for
_MOST = 64 << 20  # bytes of a file of which the lines are looked at
_BEFORE = "taken in before, and as it was left since"  # why a path is kept
_GIVEN = "it is there from here, and was changed here since"
_STILL = "conflict markers of a merge before are in it"
_COMMITTED = "committed here with it, and changed since"

_Rows = dict[str, GitEntry | None]  # what stands at paths
_NONE = object()


@contextmanager
def merging(baton: Baton, order: Order, lock: AbstractContextManager[None] = FREE) -> Iterator[RestorePlan]:
    """Yield the plan of a merge, good until the block ends; ``lock`` is held from before the look. Raises BatonError; no lock
    is taken where the words are wrong."""
    target = baton.resolve(order.checkpoint)
    files, own, name = files_of(target), baton.chosen(automatic=True), target.checkpoint.track
    if name == baton.current() and not target.foreign:
        back = "'git baton help restore' says how files of its own checkpoints are put back"
        raise BatonError(f"{in_quotes(name)} is the track of this work tree: a merge takes in another one's work", back)
    if target.foreign and not order.foreign and baton.repo.layout.root is not None:
        theirs = in_shell(order.checkpoint)
        hint = f"'git baton merge -n {theirs}' shows what it would do; --foreign merges it all the same"
        raise BatonError(f"checkpoint '{baton.short(target.id)}' was fetched from elsewhere", hint)
    with lock, looked(baton, (files.tree,)) as scene:
        yield made(MergeGoal(scene, target, order, own))


@value
class _Outcome:
    """Outcome of a merge: how entries of our tree change, and the paths that stay as they are because of a conflict.
    ``marked``: those of the former that hold git's markers."""

    changes: Mapping[str, Difference]
    stays: Mapping[str, Conflict]
    marked: frozenset[str] = frozenset()

    @property
    def touched(self) -> Set[str]:
        """The paths at which the merge has anything to do."""
        return self.changes.keys() | self.stays.keys()

    def touches(self, path: str) -> bool:
        """Whether the merge has anything to do at a path."""
        return path in self.changes or path in self.stays


class MergeGoal(Goal):
    """The present state with what another track did since the two had the same."""

    op = "merge"
    composed = True

    def __init__(self, scene: PresentState, target: Stored, order: Order, own: str) -> None:
        super().__init__(scene, target, order)
        self.track, self.again = own, in_shell(order.checkpoint)
        self.name, self.files = _named(scene.baton, target, order.checkpoint), files_of(target)
        words = "" if target.foreign_words else first_line(title(target)[0])[:LONGEST]
        self.what = f"merge of {self.name}" + (f": {words}" if words else "")
        self.left = self.bring(lambda repo, side: Permits(repo, recorded(self.store.objects, side)))
        self.unmerged, self.local, self.hidden = frozenset(self.staged.stages), None, ()
        self.scratch = os.path.join(scene.folder, "merge")
        os.makedirs(self.scratch, exist_ok=True)
        self.further: dict[str, PathAction] = {}
        self.fork: Oid | None = None
        self.stood: Collection[str] = ()  # paths at which a merge of before stands
        self.met: frozenset[str] = frozenset()  # paths at which merges of before are known
        self.given: Collection[str] = ()  # paths that the track has from here
        self.base = self._base()
        self.theirs = self.rules = self._known(tree_in(scene, target))
        self.wanted = self._wanted()
        self.tree = changed_tree(scene.index, self.wanted) if self.wanted else scene.tree
        same = {path for path, entry in self.wanted.items() if entry is not None and entry == self._entry(self.theirs, path)}
        self.kept = {path: oid for path, oid in self.kept.items() if path in same}
        self.links = same.intersection(self.links)
        self.entries = Scope(only=frozenset())
        self.staged = Staged(tree=scene.facts.tree, files=self.tree, flags={}, stages={}, held={})

    def _entry(self, tree: Oid, path: str) -> GitEntry | None:
        return entry_at(self.store.objects, tree, path)

    # What is merged with what.

    def _base(self) -> Oid:
        """Return the tree of what the two have in common; the empty one where one of them has no commit yet. Raises
        BatonError."""
        here, there = self.scene.head.oid, self.target.checkpoint.head
        if here is None or there is None:
            return nothing(self.store)
        self.fork = common_commit(self.scene.repo, here, there)
        if self.fork is not None:
            return self.store.base_tree(self.fork)
        cut = os.path.exists(os.path.join(self.scene.repo.layout.common_dir, "shallow"))
        both = f"HEAD ({self.baton.abbreviate(here)}) and {self.name} (on {self.baton.abbreviate(there)})"
        hints = ["the history is cut short here: git fetch --unshallow"] if cut else []
        raise BatonError(f"{both} have unrelated histories: no commit is in both", *hints)

    def _unknown(self) -> dict[str, str]:
        """Return, with the reason, the paths that the checkpoint could not take in, or has from before a command that was to
        remove them though git ignores them: what the track did there is not known, or no work of it."""
        skipped = ((s.path, s.reason) for s in self.files.skipped)
        return {p: why for p, why in skipped if why == IGNORED_HELD or why not in (*KEPT, *INSIDE)}

    def _known(self, tree: Oid) -> Oid:
        """Return a tree of the track, with the base's entries where nothing is known of it."""
        unknown, more = self._unknown(), self.files.skipped_more
        apart = differences(self.git, self.base, tree) if unknown or more else []
        rows = {d.path: d.now for d in apart if covered(d.path, unknown) or (more and d.then is None)}
        return changed_tree(self.scene.index, rows, tree) if rows else tree

    def _wanted(self) -> dict[str, GitEntry | None]:
        """Decide which paths change, and how; of others an action says why they stay. What merges of before brought,
        or else what HEAD has of theirs, is not taken in twice, and what was done with it since stays; but for a path that PATH
        names."""
        head, tree = self.scene.head.oid, self.scene.tree
        theirs = MergeSide(tree=self.theirs, head=self.target.checkpoint.head)
        at_head, before = self.store.tree_of(head) if head is not None else None, self._before()
        self.asks = [MergeAsk(ours=MergeSide(tree=tree, head=head), theirs=theirs)]
        if before is not None:
            self.asks.append(MergeAsk(ours=MergeSide(tree=tree, head=before), theirs=replace(theirs, head=before)))
        if at_head is not None and at_head != tree:
            self.asks.append(MergeAsk(ours=MergeSide(tree=at_head, head=head), theirs=theirs))
        plain, *other = (self._outcome(ask, answer) for ask, answer in zip(self.asks, self._merged(self.asks), strict=True))
        named, apart, reason = self.asked.names(), frozenset[str](), _BEFORE
        committed: Set[str] = frozenset()
        closer = on_top = other.pop(0) if before is not None else plain
        if other and at_head is not None and (before is None or not self.met.issuperset(closer.touched)):
            left = other[0].marked.union(other[0].stays)
            on_top = self._on_top(at_head, other[0], left)
            if before is None:
                closer, apart, reason = on_top, left, _COMMITTED
            else:  # where no merge of before had a part
                committed = closer.touched - on_top.touched - left - self.met - named
        taken = dict[str, _Outcome]()
        for path in {*plain.touched, *closer.touched, *self.stood}:
            taken[path] = plain if path in named or path in apart else on_top if path in committed else closer
            if taken[path].touches(path):
                continue
            if (plain.touches(path) or path in self.stood) and self._holds_markers(path):
                self._tell(path, "conflict", _STILL)
            elif plain.touches(path):
                self._tell(path, "keep", _GIVEN if path in self.given else _COMMITTED if path in committed else reason)
        found = {path: d for path, got in taken.items() if (d := self._decided(path, got)) is not None}
        found = self._asked(found)
        for path in refused_names(
            self.scene.index, [(d.path, end.mode) for d in found.values() for end in (d.now, d.then) if end]
        ):
            self.further[path] = PathAction(path=path, action="refuse", reason=INVALID)
            del found[path]
        self._keep_renamed(found, {path for path, got in taken.items() if got.touches(path)})
        marked = {path for path in found if path in taken[path].marked}
        for path in marked:
            self._tell(path, "create" if found[path].now is None else "write", MARKED)
        return self._brought(found, marked)

    def _on_top(self, at_head: Oid, into: _Outcome, left: Collection[str]) -> _Outcome:
        """Merge theirs into HEAD first, but for what is ``left``, and what is not committed on top of that."""
        head = self.scene.head.oid
        rows = {path: d.then for path, d in into.changes.items() if path not in left}
        both = changed_tree(self.scene.index, rows, at_head) if rows else at_head
        ask = MergeAsk(ours=MergeSide(tree=self.scene.tree, head=head), theirs=MergeSide(tree=both, head=head))
        self.asks.append(ask)
        return self._outcome(ask, self._merged([ask])[0])

    def _merged(self, asks: Sequence[MergeAsk]) -> list[MergeAnswer | None]:
        return merged(self.scene.repo, asks, self.scratch)

    def _outcome(self, ask: MergeAsk, answer: MergeAnswer | None) -> _Outcome:
        """Read an answer as an outcome for our tree. Raises RecordError."""
        if answer is None:
            raise RecordError(f"{self.name} cannot be merged: an object of it is not here, or torn", MENDS)
        git = self.scene.repo.apart(self.scene.repo.git, self.scratch)
        changes = {d.path: d for d in differences(git, ask.ours.tree, answer.tree)}
        stays, marked = dict[str, Conflict](), set[str]()
        for path, one in answer.conflicts.items():
            if path not in (one.here, one.there):  # git's name for a file where a folder stands
                changes.pop(path, None)
            if self.order.merge and path in changes and _is_text(one):
                marked.add(path)
                continue
            for at in (one.here, one.there):
                stays.setdefault(at, one)
        for path in undriven(self.scene.repo, self._both_changed(ask, changes, stays)):
            entry = self._entry(ask.ours.tree, path)
            stays[path] = Conflict(reason=_DRIVER, stages=(None, str(entry), None), here=path, there=path)
        return _Outcome(changes=changes, stays=stays, marked=frozenset(marked))

    def _both_changed(self, ask: MergeAsk, changes: Collection[str], stays: Collection[str]) -> list[str]:
        """Return the paths at which theirs has something else than the base and than ours, and that stay without a word."""
        apart = differences(self.git, self.base, ask.theirs.tree) if drivers(self.scene.repo) else []
        doubtful = [d for d in apart if d.now is not None and d.path not in changes and d.path not in stays]
        return [d.path for d in doubtful if self._entry(ask.ours.tree, d.path) not in (d.now, d.then, None)]

    def _decided(self, path: str, got: _Outcome) -> Difference | None:
        """Return how a path changes; None where it does not, with a word about it where one is due."""
        change, conflict, unsafe = got.changes.get(path), got.stays.get(path), self.scene.unsafe(path)
        if change is None and conflict is None:
            return None
        if unsafe is not None:
            self._tell(path, "refuse", unsafe)
        elif path in self.unmerged:
            self._tell(path, "conflict", f"unmerged in {self.name}")
        elif conflict is not None:
            if conflict.reason == _DRIVER:
                self._tell(path, "conflict", "both changed it, and the driver that merges it is not run")
            elif conflict.reason != "rename/rename" or conflict.stages[0] is not None:  # told by the name that it had
                self._tell(conflict.here, "conflict", why(overlapping(conflict), self.name))
        elif change is not None and change.now and change.then and self._is_shut(change):
            self._tell(path, "conflict", "both changed it, and it is not passed by its filter")
        else:
            return change
        return None

    def _is_shut(self, change: Difference) -> bool:
        """Whether texts were merged that only stand for a file's bytes."""
        shut = {s.path for s in self.files.skipped if s.reason in KEPT}.union(self.scene.captured.shut)
        return change.path in shut and change.then != self._entry(self.theirs, change.path)

    def _tell(self, path: str, action: Action, reason: str) -> None:
        """Name a path that is not simply taken in."""
        self.further.setdefault(path, PathAction(path=path, action=action, reason=reason))

    def _asked(self, found: dict[str, Difference]) -> dict[str, Difference]:
        """Return the changes that the PATHs name. Raises UsageError for PATHs that name nothing."""
        if not self.asked:
            return found
        trees = {self.scene.tree, self.theirs, self.base}
        for spec in self.asked.specs:
            if not self.asked.among(trees, [spec]):
                raise UsageError(no_match(spec, f"{self.name} or this work tree holds"))
        inside = {*self.asked.among(trees), *filter(self.asked.covers, {*found, *self.further})}
        self.further = {path: step for path, step in self.further.items() if path in inside}
        return {path: d for path, d in found.items() if path in inside}

    def _keep_renamed(self, found: dict[str, Difference], touched: set[str]) -> None:
        """Keep what they renamed, where it cannot come under its new name: nothing would be left of it."""
        going = {path for path, d in found.items() if d.then is None}
        guard = self.scene.guard({path for path, d in found.items() if d.now is not None})
        there = {p for p, d in found.items() if d.then is not None and (d.now is not None or guard.in_the_way(p) is None)}
        if not going or there.issuperset(touched - going):
            return
        for path, to in renames(self.scene.repo, self.base, self.theirs).items():
            if path in going and to in touched and to not in there:
                del found[path]
                self._tell(path, "keep", f"{self.name} renamed it to {in_quotes(to)}, which is not taken in")

    def _brought(self, found: Mapping[str, Difference], marked: Collection[str]) -> dict[str, GitEntry | None]:
        """Store the texts that were merged, the sides called by their names in git's markers; return what each path becomes."""
        wanted = {path: d.then for path, d in found.items()}
        there = {path: e for path, e in wanted.items() if e is not None and e.mode != GITLINK}
        new = missing(self.store.objects, [entry.oid for entry in there.values()])
        made_here = {path: entry for path, entry in there.items() if entry.oid in new}
        if not made_here:
            return wanted
        repo, layout = self.scene.repo, self.scene.repo.layout
        names = {side_commit(repo, side).oid.encode(): name for ask in self.asks for side, name in self._names(ask)}
        reads = BinaryObjects(repo.apart(repo.git, self.scratch), layout.git_dir, layout.common_dir, layout.algorithm)
        with closing(reads) as reader:
            for path, entry in made_here.items():
                data = reader.read(entry.oid, LARGEST)
                if data is None or data.data is None:  # it is theirs, and not here: the plan says so
                    continue
                text = data.data
                for oid, name in names.items() if path in marked else ():
                    text = text.replace(oid, name)
                blob = new_object(layout.algorithm, "blob", text)
                self.store.objects.write([blob])
                wanted[path] = GitEntry(mode=entry.mode, oid=blob.oid)
        return wanted

    def _names(self, ask: MergeAsk) -> tuple[tuple[MergeSide, bytes], ...]:
        return (ask.ours, b"now"), (ask.theirs, self.name.replace("'", "").encode())

    # What was merged before.

    def _before(self) -> Oid | None:
        """Return a commit of the base with what merges of before brought, of the same track here, of ours there and of a third
        one at both, and that still stands; None where none does. The commit is in the scratch folder only."""
        layout, theirs = self.scene.repo.layout, self.files.worktree
        us = self._taken(safety_ref(layout.git_dir, layout.common_dir), self.scene.repo.worktree_id(), self.scene.tree)
        them, apart = dict[str, _Rows](), [] if self.target.foreign else self.store.objects.refs(SAFETY)
        for ref in apart:
            with suppress(BatonError):
                state = self.store.chain(ref, None, 1).items[0].checkpoint.files
                until = self.target.checkpoint.created
                them |= (
                    self._taken(ref, theirs, self.theirs, until) if state is not None and state.worktree.same(theirs) else {}
                )
        mine, there = us.pop(self.target.checkpoint.track, {}), them.pop(self.track, {})
        ours = self._still(there, mine) if there else {}
        both = [{p: entry for p, entry in us[t].items() if them[t].get(p, _NONE) == entry} for t in us.keys() & them.keys()]
        found = [rows for rows in (mine, ours, *both) if rows]
        if not found:
            return None
        self.stood = {d.path for d in differences(self.git, self.theirs, self.scene.tree)}.intersection(mine)
        self.given, self.met = ours.keys() - mine.keys(), frozenset().union(*found)
        commit = side_commit(self.scene.repo, MergeSide(tree=self._joined(found), head=None))
        put_in(self.scratch, [commit])
        return commit.oid

    def _joined(self, found: Sequence[_Rows]) -> Oid:
        """Return the base with all of it; what was taken over crosswise is merged, as git merges several bases."""
        start = side_commit(self.scene.repo, MergeSide(tree=self.base, head=None))
        put_in(self.scratch, [start])
        tree, *more = (changed_tree(self.scene.index, rows, self.base) for rows in found)
        for other in more:
            ask = MergeAsk(ours=MergeSide(tree=tree, head=start.oid), theirs=MergeSide(tree=other, head=start.oid))
            (answer,) = self._merged([ask])
            tree = answer.tree if answer is not None else tree
        return tree

    def _still(self, rows: _Rows, mine: _Rows) -> _Rows:
        """Return those of the rows which our track had that still stand here, also by what came back from there since."""
        ends = [Difference(path=path, now=self._entry(self.base, path), then=entry) for path, entry in rows.items()]
        ends = [d for d in ends if d.now != d.then]
        stands = self._standing(ends, self.scene.tree)
        back = {path for path in rows.keys() & mine.keys() if mine[path] == self._entry(self.scene.tree, path)}
        return {d.path: d.then for d in ends if d in stands or (back and d.path not in back)}

    def _taken(self, ref: str, place: WorktreeId, files: Oid, until: datetime | None = None) -> dict[str, _Rows]:
        """Return what merges of a work tree brought that still stands in its files: of each track its entries by path."""
        taken = dict[str, _Rows]()
        try:
            chain = self.store.chain(ref, None).items
        except NotFoundError:
            return taken
        found, known = replay(self.store, chain), {s.id: s for s in chain}
        for step in found.undo:
            begun, state = known[found.begun.get(step.id, step.id)], step.checkpoint.files
            done = begun.checkpoint.restore
            if done is None or done.op != "merge" or state is None or not state.worktree.same(place):
                continue
            if until is not None and begun.checkpoint.created > until:
                continue
            with suppress(BatonError):  # what is gone, or cannot be read, is merged as if it had not been
                then, (_, after, touched) = self.baton.resolve(done.target), stepped(self.store, step)
                if self._is_older(then.checkpoint.head) or self._is_another(then):
                    continue
                standing = self._standing(touched, files)
                paths = self._theirs(then.tree, after, standing) if standing else set[str]()
                both = self._agreed(then.tree, after, begun) if len(standing) == len(touched) else set[str]()
                rows = taken.setdefault(then.checkpoint.track, {})
                rows |= {path: self._entry(then.tree, path) for path in paths | both}
        return taken

    def _is_another(self, then: Stored) -> bool:
        """Whether what was merged is of another's track of the same name."""
        apart = then.checkpoint.track == self.target.checkpoint.track and then.foreign != self.target.foreign
        return apart and then.commit not in self.store.objects.first_parents(self.target.commit, _LONG)

    def _is_older(self, head: Oid | None) -> bool:
        """Whether what stood on a commit of theirs is older than what both have committed."""
        return head is not None and self.fork not in (head, None) and is_ancestor(self.scene.repo, head, str(self.fork))

    def _theirs(self, then: Oid, after: Oid, standing: Sequence[Difference]) -> set[str]:
        """Return the paths of theirs that a step took in: what it wrote at these, under the name that it had there."""
        paths = {d.path for d in standing}
        here = [d.path for d in standing if d.then is not None and self._entry(then, d.path) is None]
        moved = renames(self.scene.repo, then, after) if here else {}
        return paths.union(old for old, new in moved.items() if new in paths)

    def _agreed(self, then: Oid, after: Oid, begun: Stored) -> set[str]:
        """Return the paths at which theirs was another than the base, and ours the same as theirs after a step; not those at
        which that step left a conflict, by that name or by another that either side gave the file."""
        left = {*(paths_beside(self.store, begun, LEFT) or ())}
        apart = {d.path for d in differences(self.git, then, after)} | left
        for tree in (then, after) if left else ():
            apart.update(old for old, new in renames(self.scene.repo, self.base, tree).items() if new in left)
        return {d.path for d in differences(self.git, self.base, then)} - apart

    def _standing(self, touched: Sequence[Difference], files: Oid) -> list[Difference]:
        """Return the paths at which a merge that touched these stands in files: all, if anything that it brought is there, as a
        reset, a stash or another branch take back all of it; else those of which the very lines were changed since."""
        now = {d.path: self._entry(files, d.path) for d in touched}
        texts = {d.path: self._texts(now[d.path], d) for d in touched if now[d.path] not in (d.now, d.then)}
        if any(now[d.path] == d.then for d in touched) or any(_has_lines(*three) for three in texts.values() if three):
            return [*touched]
        return [d for d in touched if (three := texts.get(d.path)) and not self._comes_anew(*three)]

    def _texts(self, now: GitEntry | None, step: Difference) -> tuple[bytes, bytes, bytes] | None:
        """Return a file as it is now, as it was before a step, and as that left it; None where one is not a file."""
        ends = (now, step.now, step.then)
        if any(end is not None and not end.mode.startswith("100") for end in ends) or now is None or step.then is None:
            return None
        found = self.store.objects.read_many([end.oid for end in ends if end is not None], _MOST)
        data = [item.data for item in found if item is not None and item.data is not None]
        if len(data) < sum(end is not None for end in ends):
            return None
        return data[0], data[1] if step.now is not None else b"", data[-1]

    def _comes_anew(self, now: bytes, before: bytes, after: bytes) -> bool:
        """Whether the hunks of a step merge with a text once more: their lines are as they were."""
        names = [os.path.join(self.scratch, name) for name in ("now", "before", "after")]
        for name, data in zip(names, (now, before, after), strict=True):
            write_atomic(name, data)
        return self.git.run("merge-file", "-p", *names).code == 0

    def _holds_markers(self, path: str) -> bool:
        """Whether a text still has a conflict in it."""
        now = self._entry(self.scene.tree, path)
        (found,) = self.store.objects.read_many([now.oid], _MOST) if now is not None and now.mode != GITLINK else (None,)
        lines = found.data.splitlines() if found is not None and found.data is not None else []
        return all(any(line.startswith(mark + b" ") for line in lines) for mark in (_MARKERS[0], _MARKERS[-1]))

    # What the planner asks.

    def scope(self, differing: Sequence[Difference], in_bytes: Sequence[Difference]) -> list[Difference]:
        """Return the paths that are to change, with those of which the bytes follow attributes that do."""
        changing = {*self.wanted, *filter(self.asked.covers, self.converted)}
        return [d for d in (*differing, *in_bytes) if d.path in changing]

    def known(self) -> Collection[str]:
        """Return the paths that the track removed, or that come."""
        return self.wanted

    def moved(self, changing: Sequence[Difference]) -> Collection[str]:
        """Return no path: what was changed here is merged."""
        return ()

    def warnings(self, changing: Sequence[Difference]) -> list[str]:
        """Return warnings of what is not known of the track's work, and of an operation that it is in the middle of."""
        found = []
        hidden = (IGNORED, IGNORED_HELD, "ignored", "excluded", "untracked")  # somebody has said that it is no work
        unknown = sorted(p for p, reason in self._unknown().items() if reason not in hidden and self.asked.covers(p))
        short = self.baton.short(self.target.id)
        if unknown:
            there = some(len(unknown), first_few(unknown))
            found.append(f"{self.name} does not hold {there}, and it is left as it is here; 'git baton show {short}' says why")
        if self.files.skipped_more:
            found.append(f"checkpoint '{short}' left out more paths than it lists; what it does not hold is not removed here")
        if self.files.operation is not None:
            found.append(f"{self.name} was in the middle of a {self.files.operation.kind}")
        return found


def _named(baton: Baton, target: Stored, name: str) -> str:
    """Return a checkpoint as its track in words, with its id where it is not the newest one."""
    track = target.checkpoint.track
    if target.foreign and name.endswith(f"/{track}"):
        return f"track {in_quotes(name)}"
    with suppress(BatonError):
        if baton.tip(track).id == target.id:
            return f"track {in_quotes(track)}"
    return f"track {in_quotes(track)} at {target.id[:SHORT]}"


def _has_lines(now: bytes, before: bytes, after: bytes) -> bool:
    """Whether a text has a line that a step brought, or lacks one that it took, where it brought none."""
    here, older, newer = ({*data.splitlines()} for data in (now, before, after))
    brought = {line for line in newer - older if line.strip() and not line.startswith(_MARKERS)}
    return bool(brought & here) if brought else bool(older - newer - here)


def _is_text(one: Conflict) -> bool:
    """Whether git writes a conflict into the file, between markers."""
    _, ours, theirs = one.stages
    both = ours is not None and theirs is not None and ours.startswith("100") and theirs.startswith("100")
    return both and one.reason in ("contents", "add/add")
