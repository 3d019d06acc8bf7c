"""Drift: a checkpoint's git state against HEAD, the operation in progress and the work tree of now, as words of a closed list.

The list is in checkpoint_protocol.md. A new word counts as a move of HEAD, for which ``verify`` exits 1 and hooks warn, unless
``model.Drift.moved`` leaves it out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice

from gitbaton.base.codec import counted, in_quotes, parse_note, track_in
from gitbaton.base.codec.words import stable
from gitbaton.base.errors import MENDS, GitError, RecordError
from gitbaton.base.model import (
    IGNORED,
    INSIDE,
    KEPT,
    Checkpoint,
    Drift,
    DriftWord,
    FileState,
    Head,
    Live,
    Oid,
    Operation,
    Since,
    Stored,
)
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.render import first_few, some
from gitbaton.checkpoints.store import Store
from gitbaton.checkpoints.store.chain import MAX_COMMIT, beside
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.git import questions
from gitbaton.git.objects import Object, TreeEntry, new_object
from gitbaton.git.repo import no_id
from gitbaton.git.treediff import (
    Pair,
    RawRecords,
    changed_in_none,
    differences,
    raw_differences,
    read_entries,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import TypeGuard

    from gitbaton.git.ancestry import Ancestry
    from gitbaton.git.worktree.untracked import CaptureRules

_NEAR = 50
_SAME_HEAD = 200
_BELOW = 4  # checkpoints below one among many that are read with those of the others
_OUTSIDE = ("excluded", "too-large", "too-much", IGNORED, "untracked")


@value
class _Stand:
    """Position of a track: a checkpoint, and the trees that it captured; ``staged`` is None where it is not known."""

    stored: Stored
    files: FileState | None
    staged: Oid | None

    @property
    def head(self) -> Oid | None:
        """The commit that HEAD was."""
        return self.stored.checkpoint.head


@value
class _Commits:
    """Commits of HEAD since a track stood elsewhere: so many of just what was captured, else the paths of those that hold
    something else, as far as that can be said."""

    count: int = 0
    strange: tuple[str, ...] = ()


if TYPE_CHECKING:
    _Asking = Generator[list[Pair], None, _Commits]


class Surveyor:
    """Looks at HEAD once and compares any number of checkpoints with it.

    With ``rules``, which say what a snapshot would take in now, the files are compared, too. ``brief``: of what was committed
    since, and not as it was captured, no paths are told. ``ancestry``, where it is set, knows the history of what is compared.
    """

    def __init__(self, store: Store, short: int, rules: CaptureRules | None = None, *, brief: bool = False) -> None:
        self.store, self.objects, self.short, self.rules, self.brief = store, store.objects, short, rules, brief
        self.ancestry: Ancestry | None = None
        self.head, self.unread = read_head(store)
        self.operation: Operation | None = store.repo.operation()
        self._rewritten: dict[Oid, Oid] | None = None
        self._distances: dict[Pair, tuple[int, int] | None] = {}
        self._trees: dict[Oid, Oid | None] = {}
        self._near: dict[Oid, dict[Oid, list[tuple[Oid, str]]]] = {}
        self._notes: dict[Oid, list[TreeEntry]] = {}
        self._read: dict[Oid, dict[bytes, bytes]] = {}
        self._apart: dict[Pair, dict[str, str]] = {}
        self._kinds: dict[Oid, str] = {}
        self._commits: dict[Oid, Object] = {}
        self._noting: list[Oid | None] = []
        self._heads: set[Oid] = set()  # those of all that know what this one knows
        self._learnt: tuple[Sequence[Stored], list[_Commits]] = (), []  # what commits hold, of these and what they carry
        self.apart: RawRecords | None = None  # of trees that files are compared with, where that was asked for before
        self.scratch: str | None = None

    def follow(self, other: Surveyor, ancestry: Ancestry) -> None:
        """Know what another one of this repository knows and will learn of what no work tree changes, and the history of what
        will be compared."""
        self.ancestry, self._near, self._notes, self._noting = ancestry, other._near, other._notes, other._noting
        self._read, self._trees, self._distances = other._read, other._trees, other._distances
        self._kinds, self._apart, self._heads, self._commits = other._kinds, other._apart, other._heads, other._commits
        self._heads |= {self.head.oid} if self.head.oid else set()

    def learn(self, oids: Iterable[Oid | None], commits: Iterable[Oid | None]) -> None:
        """Ask at once which objects there are, and for the trees of commits; what cannot be read is asked for again by
        itself."""
        heads = [oid for oid in dict.fromkeys(commits) if oid]
        asked = list(dict.fromkeys([*filter(None, oids), *heads]))
        for oid, found in zip(asked, self.objects.read_many(asked, 0), strict=True):
            self._kinds |= {oid: found.kind} if found is not None else {}
        with suppress(RecordError):
            self._trees |= self.store.trees_of(heads)

    def learn_commits(self, asked: Sequence[tuple[Surveyor, Sequence[Stored]]]) -> None:
        """Learn at once what the commits hold that several surveyors, each of some newest checkpoints, will ask about."""
        each = [(one, items, one._own_and_carried(items)) for one, items in asked]
        if self.brief:
            with suppress(GitError, RecordError):
                pairs = [one._pairs(_stand(s), one.head.oid) or () for one, _, both in each for s in both]
                read_entries(self.objects, (tree for found in pairs for pair in found for tree in pair), self._read)
        self._commits |= self.store.near((s for _, _, both in each for s in both if _moved(s)), _BELOW)
        made = iter(self._told([one._followed(s) for one, _, both in each for s in both]))
        for one, items, both in each:
            one._learnt = items, list(islice(made, len(both)))

    @contextmanager
    def learn_files(self, asked: Sequence[tuple[Surveyor, Sequence[Stored]]]) -> Iterator[None]:
        """Begin to tell apart at once the trees that several surveyors, each of some newest checkpoints, will compare the files
        of their work trees with; until the end of the block."""
        from gitbaton.git.worktree.filedrift import scratch_folder, tree_pairs
        from gitbaton.git.worktree.index import kept_tree

        pairs = list[Pair]()
        for one, items in asked:
            trees, staged = one._compared_trees(items, one._all_written(items), tests=True), kept_tree(one.store.repo)
            pairs += tree_pairs(trees, staged if self._is(staged, "tree") else None) if trees else ()
        with ExitStack() as stack:
            with suppress(GitError):  # then each asks for itself, and says why that fails
                apart = RawRecords(self.store.repo, pairs)
                stack.callback(apart.stop)
                folder = stack.enter_context(scratch_folder())
                for one, _ in asked:
                    one.apart, one.scratch = apart, folder
            yield

    def _own_and_carried(self, items: Sequence[Stored]) -> list[Stored]:
        """Return checkpoints without the words that they carry, and then those that carry some."""
        own = [replace(s, checkpoint=replace(s.checkpoint, carried=None)) for s in items]
        return [*own, *(s for s in items if s.checkpoint.carried is not None)]

    def live(self, stored: Stored) -> Live:
        """The present against a checkpoint; files that cannot be compared are not counted, and it says why."""
        return self.lives((stored,), tests=True)[0]

    def lives(self, items: Sequence[Stored], *, tests: bool = False) -> list[Live]:
        """The present against each of several checkpoints, and against where the words were written that they carry, with one
        look at the work tree; as ``live``. ``tests``: also against the files that test runs on record were of.
        """
        written = self._all_written(items)
        differing, unsaved, said = dict[Oid, list[str]](), list[str](), ""
        reason = None
        if self.rules is not None and self.store.repo.layout.root is not None:
            from gitbaton.git.worktree.filedrift import compare_files

            try:
                trees = self._compared_trees(items, written, tests=tests)
                differing, unsaved, said = compare_files(
                    self.store.repo, self.rules, trees, apart=self.apart, scratch=self.scratch
                )
            except GitError as error:
                reason = f"the changed files are not counted: {error.message}"
        asked = self._own_and_carried(items)
        known, made = self._learnt
        if known is not items:
            made = self._told([self._followed(stored) for stored in asked])
        later, below = made[: len(items)], iter(zip(written, made[len(items) :], strict=True))
        found = []
        for stored, alone, commits in zip(items, asked[: len(items)], later, strict=True):
            live = self._live(alone, commits, differing, unsaved, reason)
            words = self._live(*next(below), differing, unsaved, reason) if stored.checkpoint.carried is not None else None
            found.append(
                replace(
                    live,
                    said=said,
                    words=words,
                    since=self._happened(stored.checkpoint, (words or live).files_changed, self.head),
                )
            )
        return found

    def _all_written(self, items: Iterable[Stored]) -> list[Stored]:
        return [self.written(stored) for stored in items if stored.checkpoint.carried is not None]

    def _compared_trees(self, items: Sequence[Stored], written: Sequence[Stored], *, tests: bool) -> list[Oid]:
        """The trees that the files of the work tree are compared with."""
        ran = [run for s in items if tests and s.checkpoint.observed for run in s.checkpoint.observed.tests]
        trees = [
            *(s.checkpoint.files.tree for s in (*items, *written) if s.checkpoint.files is not None),
            *(run.tree for run in ran if self._is(run.tree, "tree")),
        ]
        return list(dict.fromkeys(trees))

    def edited(self, stored: Stored, places: Sequence[str]) -> list[str]:
        """The paths at or below some places, seen from the top, at which the work tree is another one than a checkpoint's; only
        these are looked at. Raises GitError."""
        files = stored.checkpoint.files
        if files is None or self.rules is None or self.store.repo.layout.root is None:
            return []
        from gitbaton.git.worktree.filedrift import compare_files

        specs = [":(top)" if place == "." else f":(top,literal){place}" for place in dict.fromkeys(places)]
        return files.holding(compare_files(self.store.repo, self.rules, [files.tree], specs)[0].get(files.tree, []))

    def written(self, stored: Stored) -> Stored:
        """Return a checkpoint with the branch, HEAD, files and operation of the manual one that it carries."""
        c = stored.checkpoint
        if c.carried is None:
            return stored
        files, tree = c.files, c.carried.tree
        kept = None
        if files is not None and self._is(tree, "tree"):
            operation = Operation(kind=c.carried.operation) if c.carried.operation else None
            skipped = tuple(s for s in files.skipped if s.reason not in _OUTSIDE)  # the words' tree may hold those
            kept = replace(files, tree=tree, operation=operation, skipped=skipped)
        return replace(stored, checkpoint=replace(c, branch=c.carried.branch, head=c.carried.head, files=kept))

    def _live(
        self, stored: Stored, commits: _Commits, differing: dict[Oid, list[str]], unsaved: list[str], reason: str | None
    ) -> Live:
        c = stored.checkpoint
        ground = replace(self._ground(stored), committed=commits.count, strange=commits.strange)
        changed, hidden = None, tuple[str, ...]()
        if c.files is not None and c.files.tree in differing:
            paths = c.files.holding(differing[c.files.tree])
            if held := self._held_moved(stored, c.files):
                paths = sorted({*paths, *held}, key=os.fsencode)
            changed, hidden = len(paths), self._hidden(c.files, unsaved, paths)
            ground = replace(ground, changed=tuple(paths))
        if c.files is None and c.carried is not None and c.carried.tree is not None and self.rules is not None:
            reason = "the changed files are not counted: those of the words are not in this repository"
        after = [differing.get(run.tree or "") for run in c.observed.tests] if c.observed else []
        tests = (None if paths is None else tuple(c.files.holding(paths) if c.files else paths) for paths in after)
        return Live(
            head=self.head,
            drift=compare(c, ground, self.abbreviate),
            files_changed=changed,
            uncounted=reason if c.files or c.carried else None,
            unsaved=hidden,
            tests=tuple(tests),
        )

    def _held_moved(self, stored: Stored, files: FileState) -> list[str]:
        """The paths that did not pass their filter, and of which other bytes than a checkpoint keeps stand here now."""
        shut, root = {s.path for s in files.skipped if s.reason in KEPT}, self.store.repo.layout.root
        if not shut or root is None:
            return []
        from gitbaton.git.worktree.heldbytes import moved
        from gitbaton.git.worktree.rawbytes import read_kept

        with suppress(GitError, RecordError):
            tree = beside(self.store, stored)
            kept = read_kept(self.objects, tree) if tree else {}
            return moved(self.store.repo, root, {path: oid for path, oid in kept.items() if path in shut})
        return []

    def _happened(self, c: Checkpoint, files: int | None, now: Head) -> Since:
        """Return what has happened between the words of a checkpoint and a moment at which HEAD was ``now``."""
        then, turns = c.place, c.carried.turns if c.carried else 0
        made, gone = self._moves(then.oid, now.oid)
        branch = None if then.branch == now.branch else (then.branch, now.branch)
        return Since(turns=turns, files=files, commits=made, gone=gone, branch=branch)

    def _moves(self, then: Oid | None, now: Oid | None) -> tuple[int | None, int | None]:
        """Count the commits that ``now`` has and ``then`` had not, and that it has not any more, but for those that were only
        rewritten; None where ``then`` is not there any more."""
        if then == now or now is None:
            return 0, 0
        if now == self.head.oid and self.unread:
            return None, None
        if then is None:
            return self.objects.count(now), 0
        made, gone = self._distance(now, then) or (None, None)
        if gone and any(self._is_before(oid, now) for oid in self._successors(then)[1:]):
            gone = 0
        return made, gone

    def _hidden(self, files: FileState, unsaved: list[str], differing: list[str]) -> tuple[str, ...]:
        """Submodules and nested repositories that stand where they stood, and hold, or held then, what is not committed."""
        root, found = self.store.repo.layout.root or "", {*unsaved, *(s.path for s in files.skipped if s.reason in INSIDE)}
        return tuple(p for p in sorted(found.difference(differing)) if os.path.isdir(os.path.join(root, p)))

    def recorded(self, stored: Stored, count_changed: Callable[[Oid, Oid], int]) -> Since | None:
        """Return what happened between the words that a checkpoint carries and the checkpoint; None when the words are its
        own."""
        c = stored.checkpoint
        if c.carried is None:
            return None
        files = count_changed(c.carried.tree, stored.tree) if c.files and self._is(c.carried.tree, "tree") else None
        return self._happened(c, files, Head(branch=c.branch, oid=c.head))

    def _is(self, oid: Oid | None, kind: str) -> TypeGuard[Oid]:
        """Whether an object of this kind is here."""
        if oid in self._kinds:
            return self._kinds[oid] == kind
        found = self.objects.info(oid) if oid else None
        return found is not None and found.kind == kind

    def _told(self, asking: Sequence[_Asking]) -> list[_Commits]:
        """Carry out questions about commits together: in each round one comparison for the pairs of trees that all of them
        ask for. What cannot be compared is no more at home than it looks."""
        found, left = [_Commits()] * len(asking), dict(enumerate(asking))
        while left:
            wanted: dict[int, list[Pair]] = {}
            for n, one in left.items():
                try:
                    wanted[n] = next(one)
                except StopIteration as end:
                    found[n] = end.value
                except (GitError, RecordError):
                    pass
            left = {n: left[n] for n in wanted}
            with suppress(GitError):  # then each asks for itself
                self._differences([pair for pairs in wanted.values() for pair in pairs])
        return found

    def _followed(self, stored: Stored) -> _Asking:
        """Follow HEAD from where it is to where the words were written: each of its moves must be a rewrite, or commits of what
        the checkpoint before it captured. They are counted from the newest checkpoint that stood elsewhere. Yields the pairs of
        trees that it needs next; returns what the commits hold that HEAD has made since."""
        later, count, strange = self.head.oid, 0, set[str]()
        if later is None or stored.checkpoint.place.oid == later or (self.brief and self._is_strange(stored, later)):
            return _Commits()
        for stand in self._stands(stored):
            pairs = self._pairs(stand, later)
            if pairs is not None:
                yield pairs
            paths = self._uncaptured(stand, pairs)
            if paths is not None:
                strange.update(paths)
                count = count or self._moves(stand.head, later)[0] or 0
            elif stand.head != later:
                begun = count or strange or stored.checkpoint.place.oid != stand.head  # else nothing could come of it
                if not begun or stand.head is None or later is None or self._is_before(stand.head, later):
                    return _Commits()
                if later not in self._successors(stand.head) and self._noted(stand.stored, later) != later:
                    return _Commits()  # it is not the stand's commit under a new id
            later = stand.head
        return _Commits(count=0 if strange else count, strange=tuple(sorted(strange)))

    def _stands(self, stored: Stored) -> Iterator[_Stand]:
        """Yield the track's position at its newest checkpoint and, where that one carries words, below it down to those."""
        yield _stand(stored)
        carried = stored.checkpoint.carried
        if carried is None or not _moved(stored):
            return
        for below in islice(self.store.newest(stored, self._commits), 1, _SAME_HEAD):
            known = below.checkpoint.carried
            if below.id != carried.id and (known is None or known.id != carried.id):
                break
            yield _stand(below)
            if below.id == carried.id:
                return
        words = self.written(stored)
        yield _Stand(stored=words, files=words.checkpoint.files, staged=None)

    def _is_before(self, oid: Oid, later: Oid) -> bool:
        distance = self._distance(later, oid)
        return distance is not None and not distance[1]

    def _pairs(self, stand: _Stand, later: Oid | None) -> list[Pair] | None:
        """The trees to tell apart: HEAD's two, then each captured one and HEAD's later one. None where HEAD did not go straight
        on from there, or nothing was captured."""
        if later is None or stand.files is None or stand.head == later:
            return None
        if stand.head is not None and not self._is_before(stand.head, later):
            return None
        before, after = self._tree(stand.head), self._tree(later)
        if before is None or after is None or not self._is(stand.files.tree, "tree"):
            return None
        captured = [stand.files.tree] + ([stand.staged] if self._is(stand.staged, "tree") else [])
        return [(before, after), *((tree, after) for tree in captured)]

    def _is_strange(self, stored: Stored, later: Oid | None) -> bool:
        """Whether commits plainly hold something else than a checkpoint captured, so that it is not at home."""
        stand = _stand(stored)
        pairs = self._pairs(stand, later)
        if pairs is None or stand.files is None or stand.files.skipped or stand.files.index.whole is None:
            return False  # what was not captured has to be told apart
        (before, after), *captured = pairs
        return changed_in_none(self.objects, before, after, [tree for tree, _ in captured], self._read)

    def _uncaptured(self, stand: _Stand, pairs: list[Pair] | None) -> list[str] | None:
        """The paths that changed in HEAD since a stand and that are there neither as in its captured tree nor as in its index,
        by the ``_pairs`` of both; None where that cannot be said, or nothing changed."""
        if pairs is None or stand.files is None:
            return None
        changed, *captured = self._differences(pairs)
        gone = [path for path, record in changed.items() if record.endswith("D")]
        # What was not captured is not there, either; that says nothing.
        doubts = [set(gone).difference(stand.files.holding(gone)), set() if stand.files.index.whole else set(gone)]
        looks = list(zip(captured, doubts, strict=False))
        return sorted(p for p in changed if all(p in apart or p in doubt for apart, doubt in looks)) if changed else None

    def _differences(self, pairs: Sequence[Pair]) -> list[dict[str, str]]:
        """Return the differences between the trees of each pair as raw records by path, asked once."""
        self._apart |= raw_differences(self.store.repo, (pair for pair in pairs if pair not in self._apart))
        return [self._apart[pair] for pair in pairs]

    def _tree(self, commit: Oid | None) -> Oid | None:
        """The tree of a commit, the empty one for no commit."""
        if commit is None:
            return new_object(self.objects.algorithm, "tree", b"").oid
        if commit not in self._trees:
            self._trees[commit] = self.store.tree_of(commit)
        return self._trees[commit]

    def abbreviate(self, oid: Oid) -> str:
        """A short form of an object's id; with ``brief``, where no sentence is told, its first digits."""
        return oid[: self.short] if self.brief else self.objects.abbreviate(oid, min(self.short, len(oid)))

    def _ground(self, stored: Stored) -> DriftFacts:
        then, here = stored.checkpoint.head, self.head.oid
        if then == here or here is None or self.unread:
            return DriftFacts(head=self.head, operation=self.operation, unread=self.unread)
        if then is None:
            return DriftFacts(head=self.head, operation=self.operation, total=self.objects.count(here))
        straight = self._distance(here, then)
        if straight is not None and not straight[1]:  # HEAD still has the very commit: what it became elsewhere is no matter
            return DriftFacts(head=self.head, operation=self.operation, distance=straight)
        path = self._successors(then)
        if here in path:
            return DriftFacts(head=self.head, operation=self.operation, home=True)
        known = [oid for oid in reversed(path) if self._is(oid, "commit")]
        reached = (oid for oid in known if (self._distance(here, oid) or (0, 1))[1] == 0)
        start = next(reached, known[0] if known else None)
        if start is None:
            return DriftFacts(head=self.head, operation=self.operation, exists=False, distance=None)
        rewritten = start != then
        distance = self._distance(here, start)
        if not rewritten and (distance is None or distance[1]):
            noted = self._noted(stored, here)
            if noted == here:
                return DriftFacts(head=self.head, operation=self.operation, home=True)
            if noted is not None:
                rewritten, distance = True, self._distance(here, noted)
        return DriftFacts(head=self.head, operation=self.operation, rewritten=rewritten, distance=distance)

    def _distance(self, here: Oid, there: Oid) -> tuple[int, int] | None:
        """Return Objects.distance, once for all tracks that stand on the same commit; None where one is not there any more."""
        pair = (here, there)
        if pair not in self._distances and self.ancestry is not None:
            with suppress(LookupError):
                self._distances[pair] = self.ancestry.distance(here, there)
        if pair not in self._distances:
            known = self._is(there, "commit") and (here == self.head.oid or self._is(here, "commit"))
            self._distances[pair] = self.objects.distance(here, there) if known else None
        return self._distances[pair]

    def _successors(self, oid: Oid) -> list[Oid]:
        """``oid`` and the commits that it became, by the pairs that post-rewrite kept, oldest first."""
        if self._rewritten is None:
            self._rewritten = questions.rewritten_commits(self.store.repo)
        path = [oid]
        while len(path) <= questions.MAX_REWRITES:
            after = self._rewritten.get(path[-1])
            if after is None or after in path:
                break
            path.append(after)
        return path

    def _noted(self, stored: Stored, here: Oid) -> Oid | None:
        """Return the commit near HEAD with a note that names a checkpoint of this track that has this checkpoint's head.

        Git copies notes on amend and rebase, so that commit is the checkpoint's under a new id.
        """
        try:
            if not self._noting:
                self._noting.append(self.store.notes_tree()[1])
            tree = self._noting[0]
            if tree is None:
                return None
            c = stored.checkpoint
            known = self._near_notes(here, tree)
            own, told = of_track(c.track), stable(c.track).rstrip()
            if not any(
                track in (told, "") or self.store.ours.has(own, oid) for found in known.values() for oid, track in found
            ):
                return None
            wanted = {s.id for s in self.store.history(c.track, _SAME_HEAD).items if s.checkpoint.head == c.head}
            wanted |= {c.carried.id} if c.carried else set()  # it may lie below many automatic ones
            return next((commit for commit, found in known.items() if any(oid in wanted for oid, _ in found)), None)
        except (RecordError, GitError):
            pass
        return None

    def _near_notes(self, here: Oid, tree: Oid) -> dict[Oid, list[tuple[Oid, str]]]:
        """Return the checkpoints that the notes of the commits near one name, each with the track that is told, as ``noted``
        has them."""
        if here not in self._near:
            near = {head: self._below(head) for head in {here, *self._heads}.difference(self._near)}
            notes = self.store.notes({commit for commits in near.values() for commit in commits}, tree, self._notes)
            told = {commit: [(oid, track_in(text)) for oid, text in parse_note(raw).entries] for commit, raw in notes.items()}
            self._near |= {head: {oid: told[oid] for oid in commits if told.get(oid)} for head, commits in near.items()}
        return self._near[here]

    def _below(self, here: Oid) -> list[Oid]:
        """Return the commits near one, by first parents."""
        if self.ancestry is not None:
            with suppress(LookupError):
                return self.ancestry.first_parents(here, _NEAR)
        return self.objects.first_parents(here, _NEAR)


def tests_then(store: Store, stored: Stored) -> tuple[tuple[str, ...] | None, ...]:
    """For each test run that a checkpoint holds the paths that changed from the checkpoint that told of it first to this one;
    None where that cannot be said."""
    runs = stored.checkpoint.observed.tests if stored.checkpoint.observed else ()
    found: dict[Oid, tuple[str, ...] | None] = {stored.tree: ()}
    for tree in {run.tree for run in runs if run.tree is not None} - {stored.tree}:
        try:
            found[tree] = tuple(differences(store.repo, [(tree, stored.tree)])[tree, stored.tree])
        except GitError:
            found[tree] = None
    return tuple(found.get(run.tree or "") for run in runs)


def compared(stored: Stored) -> Iterator[Oid | None]:
    """Yield the trees of a checkpoint, of the words that it carries, and of test runs, which the present is compared with."""
    c = stored.checkpoint
    yield c.files.tree if c.files else None
    yield c.files.index.tree if c.files else None
    yield c.carried.tree if c.carried else None
    yield from (run.tree for run in c.observed.tests) if c.observed else ()


def read_head(store: Store) -> tuple[Head, str]:
    """Read HEAD as far as that goes, and say why its branch or its commit cannot be read; empty if they can."""
    head = store.objects.head()
    if head.oid is None or store.present([head.oid], MAX_COMMIT):
        return head, no_id(store.repo, head)
    return head, f"HEAD's commit {head.oid} cannot be read"


def _moved(stored: Stored) -> bool:
    """Whether HEAD was another commit when the words were written that a checkpoint carries."""
    carried = stored.checkpoint.carried
    return carried is not None and carried.head != stored.checkpoint.head


def _stand(stored: Stored) -> _Stand:
    files = stored.checkpoint.files
    return _Stand(stored=stored, files=files, staged=files.index.tree if files else None)


@value
class DriftFacts:
    """The present, as far as one checkpoint needs it.

    ``home``: a note or a recorded rewrite says that HEAD is the checkpoint's commit under a new id. ``rewritten``: the
    checkpoint's commit is known to have become another one, and ``distance`` counts from that one. ``distance``: how many
    commits only HEAD has and only the checkpoint has; None without a common ancestor. ``exists``: the checkpoint's commit is in
    the repository; ``unread``: why HEAD's cannot be read. ``total``: how many commits HEAD reaches, asked only where the
    checkpoint had none. ``committed``: so many commits stand where just what was captured was committed, else 0. ``strange``:
    the paths of those commits that hold something else than what was captured. ``changed``: the paths of the work tree that
    differ from the captured ones, none where they were not counted.
    """

    head: Head
    operation: Operation | None
    home: bool = False
    rewritten: bool = False
    exists: bool = True
    unread: str = ""
    distance: tuple[int, int] | None = (0, 0)
    total: int = 0
    committed: int = 0
    strange: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def compare(then: Checkpoint, now: DriftFacts, short: Callable[[Oid], str]) -> Drift:
    """Return the drift of now from ``then``; ``short`` abbreviates ids for the sentences."""
    return Drift(words=(*_branch(then, now), *_head(then, now, short), *_operation(then, now), *_files(now)))


def _branch(then: Checkpoint, now: DriftFacts) -> list[DriftWord]:
    if then.branch == now.head.branch:
        return []
    before = f"branch {in_quotes(then.branch)}" if then.branch else "no branch (detached HEAD)"
    after = f"branch {in_quotes(now.head.branch)}" if now.head.branch else "no branch (detached HEAD)"
    return [DriftWord(word="branch-switched", sentence=f"the checkpoint was on {before}; HEAD is on {after}")]


def _head(then: Checkpoint, now: DriftFacts, short: Callable[[Oid], str]) -> list[DriftWord]:
    here = now.head.oid
    if now.unread:
        return [DriftWord(word="head-missing", sentence=f"{now.unread}; '{MENDS}' says what helps")]
    if here == then.head or now.home:
        return []
    if here is None:
        return [DriftWord(word="unborn", sentence="HEAD has no commit; the checkpoint stands on one")]
    if now.committed:
        said = f"HEAD {short(here)} is {counted(now.committed, 'commit')} ahead, with nothing but what was captured"
        return [DriftWord(word=f"committed:{now.committed}", sentence=said)]
    if then.head is None:
        said = f"the checkpoint stands on no commit; HEAD has {counted(now.total, 'commit')} ({short(here)}){_strange(now)}"
        return [DriftWord(word=f"head-ahead:{now.total}", sentence=said)]
    was = short(then.head)
    if not now.exists:
        said = f"the checkpoint's commit {was} is not in this repository; HEAD is {short(here)}"
        return [DriftWord(word="head-missing", sentence=said)]
    found = _distance(now.distance, _strange(now), f"the checkpoint's commit {was}", short(here)) if now.distance else []
    if now.rewritten:
        said = f"the checkpoint's commit {was} was rewritten (amend or rebase); distances count from its successor"
        found.append(DriftWord(word="head-rewritten", sentence=said))
    if now.distance is None:
        said = f"HEAD {short(here)} and the checkpoint's commit {was} have no common ancestor"
        found.append(DriftWord(word="head-unrelated", sentence=said))
    return found


def _strange(now: DriftFacts) -> str:
    """Describe the paths of the commits that are not what was captured."""
    if not now.strange:
        return ""
    many = len(now.strange)
    verb = "was" if many == 1 else "were"
    said = f"{counted(many, 'path')} {verb} committed since, not as the checkpoint holds {'it' if many == 1 else 'them'}"
    return f"; {said}: {some(many, first_few(now.strange))}"


def _distance(distance: tuple[int, int], strange: str, was: str, here: str) -> list[DriftWord]:
    ahead, behind = distance
    if ahead and behind:
        sides = f"{counted(ahead, 'commit')} only on HEAD, {counted(behind, 'commit')} only there"
        said = f"HEAD {here} and {was} have diverged: {sides}"
        return [DriftWord(word=f"head-diverged:{ahead}/{behind}", sentence=said)]
    if ahead:
        said = f"HEAD {here} is {counted(ahead, 'commit')} ahead of {was}{strange}"
        return [DriftWord(word=f"head-ahead:{ahead}", sentence=said)]
    if behind:
        return [DriftWord(word=f"head-behind:{behind}", sentence=f"HEAD {here} is {counted(behind, 'commit')} behind {was}")]
    return []


def _operation(then: Checkpoint, now: DriftFacts) -> list[DriftWord]:
    before = then.files.operation.kind if then.files and then.files.operation else None
    after = now.operation.kind if now.operation else None
    if before == after:
        return []
    if after is None:
        return [DriftWord(word="operation:none", sentence=f"the {before} that was in progress at the checkpoint is over")]
    return [DriftWord(word=f"operation:{after}", sentence=f"a {after} is in progress")]


def _files(now: DriftFacts) -> list[DriftWord]:
    if not now.changed:
        return []
    many = len(now.changed)
    differ = "path differs" if many == 1 else "paths differ"
    said = f"{many} {differ} from the captured work tree: {some(many, first_few(now.changed))}"
    return [DriftWord(word=f"files-changed:{many}", sentence=said)]
