"""Where the ground is now: HEAD, what is under way, and how a checkpoint's commit relates to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitbaton import rewrites
from gitbaton.drift import Ground, compare
from gitbaton.errors import GitError, RecordError
from gitbaton.model import FileState, Head, Live, Oid, Operation, Since, Stored
from gitbaton.render import in_quotes
from gitbaton.store import Store
from gitbaton.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeGuard

    from gitbaton.git.untracked import Rules

_NEAR = 50
_SAME_HEAD = 200
_NAMED = 3
_OUTSIDE = ("excluded", "too-large", "untracked")


class Surveyor:
    """Looks at HEAD once and compares any number of checkpoints with it.

    With ``rules``, which say what a snapshot would take in now, the files are compared, too.
    """

    def __init__(self, store: Store, short: int, rules: Rules | None = None) -> None:
        self.store, self.objects, self.short, self.rules = store, store.objects, short, rules
        self.head: Head = self.objects.head()
        self.operation: Operation | None = store.repo.operation()
        self._rewritten: dict[Oid, Oid] | None = None
        self._distances: dict[Oid, tuple[int, int] | None] = {}

    def live(self, stored: Stored) -> Live:
        """The present against a checkpoint; files that cannot be compared are not counted, and it says why."""
        return self.lives((stored,))[0]

    def lives(self, items: Sequence[Stored]) -> list[Live]:
        """The present against each of several checkpoints, with one look at the work tree; as ``live``.

        An automatic checkpoint is compared by where its words were written: it stands where HEAD was a moment ago, and what has
        moved below the words must not hide behind it.
        """
        written = [self._as_written(stored) for stored in items]
        differing: dict[Oid, list[str]] = {}
        reason = None
        if self.rules is not None and self.store.repo.layout.root is not None:
            try:
                differing = self._differing(written)
            except GitError as error:
                reason = f"the changed files are not counted: {error.message}"
        return [self._live(stored, differing, reason) for stored in written]

    def _as_written(self, stored: Stored) -> Stored:
        """A checkpoint with the branch, HEAD, files and operation of the one whose words it carries."""
        c = stored.checkpoint
        if c.carried is None:
            return stored
        files, tree = c.files, c.carried.tree
        kept = None
        if files is not None and self._is_tree(tree):
            operation = Operation(kind=c.carried.operation) if c.carried.operation else None
            skipped = tuple(s for s in files.skipped if s.reason not in _OUTSIDE)  # the words' tree may hold those
            kept = replace(files, tree=tree, operation=operation, skipped=skipped)
        return replace(stored, checkpoint=replace(c, branch=c.carried.branch, head=c.carried.head, files=kept))

    def _live(self, stored: Stored, differing: dict[Oid, list[str]], reason: str | None) -> Live:
        c = stored.checkpoint
        ground = self._ground(stored)
        counted = None
        if c.files is not None and c.files.tree in differing:
            paths = _held(differing[c.files.tree], c.files)
            counted = len(paths)
            ground = replace(ground, changed=counted, named=tuple(in_quotes(p) for p in paths[:_NAMED]))
        if c.files is None and c.carried is not None and c.carried.tree is not None and self.rules is not None:
            reason = "the changed files are not counted: those of the words are not in this repository"
        turns = c.carried.turns if c.carried else 0
        return Live(
            head=self.head,
            drift=compare(c, ground, self.abbreviate),
            files_changed=counted,
            uncounted=reason if c.files or c.carried else None,
            since=Since(turns=turns, files=counted, commits=self._made(c.head, self.head.oid)),
        )

    def _made(self, then: Oid | None, now: Oid | None) -> int | None:
        """How many commits ``now`` has and ``then`` had not; None where ``then`` is not there any more."""
        if then == now or now is None:
            return 0
        if then is None:
            return self.objects.count(now)
        distance = self._distance(now, then) if self._is_commit(then) else None
        return distance[0] if distance else None

    def recorded(self, stored: Stored, count_changed: Callable[[Oid, Oid], int]) -> Since | None:
        """What happened between the words that a checkpoint carries and the checkpoint; None when the words are its own."""
        c = stored.checkpoint
        if c.carried is None:
            return None
        files = count_changed(c.carried.tree, stored.tree) if c.files and self._is_tree(c.carried.tree) else None
        return Since(turns=c.carried.turns, files=files, commits=self._made(c.carried.head, c.head))

    def _is_tree(self, oid: Oid | None) -> TypeGuard[Oid]:
        found = self.objects.info(oid) if oid else None
        return found is not None and found.kind == "tree"

    def _differing(self, items: Sequence[Stored]) -> dict[Oid, list[str]]:
        from gitbaton.git.filedrift import changed_paths

        trees = [s.checkpoint.files.tree for s in items if s.checkpoint.files is not None]
        assert self.rules is not None
        return changed_paths(self.store.repo, self.rules, trees)

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
        carried = stored.checkpoint.carried  # which may lie below many automatic ones
        return {s.id for s in history if s.checkpoint.head == stored.checkpoint.head} | ({carried.id} if carried else set())


def _held(paths: list[str], files: FileState) -> list[str]:
    """The paths less those that the checkpoint says it does not hold, or that lie in a directory it could not read."""
    left = {s.path for s in files.skipped}
    closed = tuple(f"{s.path}/" for s in files.skipped if s.reason == "unreadable")
    return [p for p in paths if p not in left and not p.startswith(closed)]
