"""Goal of a restore: the files and the index of a checkpoint, all or those of some PATHs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property

from gitbaton.base.codec import first_line, in_double_quotes, plain
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.base.model import IGNORED, INSIDE, KEPT, Oid, Stored, covered
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import first_few, some, title
from gitbaton.checkpoints.restore.attribution import Work, session_work
from gitbaton.checkpoints.restore.bytes import held_ignored
from gitbaton.checkpoints.restore.goal import FREE, Goal, files_of, no_match, tree_in
from gitbaton.checkpoints.restore.plan import made
from gitbaton.checkpoints.restore.scene import PresentState, looked
from gitbaton.checkpoints.restore.values import COMMITTED, LONGEST, SHORT, Order, RestorePlan
from gitbaton.checkpoints.store.pathhistory import changes, nothing, tree_of
from gitbaton.git.objects import lookup
from gitbaton.git.questions import is_ancestor, made_here, now_called
from gitbaton.git.worktree.checkout import Difference, differences, entry_at, readable_differences
from gitbaton.git.worktree.modes import Permits, recorded
from gitbaton.git.worktree.staged import Scope, listed_now
from gitbaton.git.worktree.untracked import anything_in, ignored_by

SUBJECT = 60  # of a commit
_LOOKED = "the checkpoint or a capture of the work tree holds"


@contextmanager
def planned(baton: Baton, order: Order, lock: AbstractContextManager[None] = FREE) -> Iterator[RestorePlan]:
    """Yield the plan of a restore, good until the block ends; ``lock`` is held from before the look. Raises BatonError;
    nothing is changed then, and no lock taken where the words are wrong."""
    target = baton.resolve(order.checkpoint)
    files = files_of(target)
    if target.foreign and not order.foreign and baton.repo.layout.root is not None:
        hint = f"'git baton diff {baton.short(target.id)}' shows what it holds; --foreign restores it all the same"
        raise BatonError(f"checkpoint '{baton.short(target.id)}' was fetched from elsewhere", hint)
    if order.exact and files.skipped_more:
        said = f"checkpoint '{baton.short(target.id)}' left out more paths than it lists; --exact cannot tell them from others"
        raise BatonError(said)
    with lock, looked(baton, (files.tree,), held_ignored(baton, target)) as scene:
        yield made(CheckpointGoal(scene, target, order))


class CheckpointGoal(Goal):
    """A checkpoint's state."""

    op = "restore"

    def __init__(self, scene: PresentState, target: Stored, order: Order) -> None:
        super().__init__(scene, target, order)
        self.files, self.whole = files_of(target), not order.paths
        self.again = target.id[:SHORT]
        self.what = f"restore of {target.id[:SHORT]}: {first_line(title(target)[0])[:LONGEST]}"
        self.tree = self.rules = tree_in(scene, target)
        self.since, self.operation = target.checkpoint.created, self.files.operation
        lost = self.bring(lambda repo, side: Permits(repo, recorded(self.store.objects, side)))
        self.left = {**lost, **{s.path: s.reason for s in self.files.skipped if s.reason not in KEPT}}
        self.entries = Scope()
        if order.index and self.asked:
            only = self.asked.among({scene.tree, self.tree, scene.facts.tree, self.staged.tree})
            listed = listed_now(scene.repo, self.asked.directory, self.asked.specs)
            self.entries = Scope(only=frozenset(only | listed))
        self._worked = frozenset[str](), Work(theirs={}, own=())

    def skipped_since(self, differing: Collection[str]) -> list[Difference]:
        """Return the paths that git was told to skip after the checkpoint was taken, and that are not on disk."""
        then = {path for path, bits in self.staged.flags.items() if "s" in bits}
        since = [f.path for f in self.scene.facts.flags if "s" in f.bits and f.path not in then and f.path not in differing]
        found = []
        for path in (p for p in since if not os.path.lexists(os.path.join(self.scene.root, p))):
            there = entry_at(self.store.objects, self.tree, path)
            if there is not None:
                found.append(Difference(path=path, now=None, then=there))
        return found

    def scope(self, differing: Sequence[Difference], in_bytes: Sequence[Difference]) -> list[Difference]:
        """Return the differences at the PATHs. Raises UsageError for PATHs that name nothing: that is a mistake, and not a
        wish that is fulfilled already."""
        if not self.asked:
            return [*differing, *in_bytes]
        here = self.git.changed({}, directory=self.asked.directory)
        asked = {d.path for d in differences(here, self.scene.tree, self.tree, self.asked.specs)}
        scope = [d for d in differing if d.path in asked]
        if in_bytes:
            inside = self.asked.among([self.tree])
            scope += [d for d in in_bytes if d.path in inside]
        for spec in () if scope or self.gone() else self.asked.specs:
            if not self._matches(spec):
                raise UsageError(no_match(spec, _LOOKED), *(self._gone() or ["ignored files are never touched"]))
        return scope

    def _matches(self, spec: str) -> bool:
        return bool(self.asked.among((self.scene.tree,), [spec]) or self.asked.among((self.tree,), [spec]))

    def stay(self, wanted: Collection[str]) -> Collection[str]:
        """Return the paths that HEAD has otherwise than the checkpoint's commit; all where that commit is not there. With
        their entries of then the index would take back what was committed since, and the next commit with it."""
        if self.target.checkpoint.head == self.scene.head.oid:
            return ()
        step = self.heads
        return wanted if step is None else changes(self.store, [step], dict.fromkeys(wanted, "")).get(step, {})

    # Whose it is.

    def owners(self, moved: Sequence[Difference]) -> Mapping[str, str]:
        """Return the owners, in words, of the paths with present content that is not ours."""
        found = super().owners(moved)
        theirs = self._work({d.path for d in moved}).theirs
        self.strangers = theirs.keys() - found.keys()
        return {**self._only_committed(moved), **theirs, **found}

    def own(self, changing: Sequence[Difference]) -> Sequence[str]:
        """Return the edits that were made after the newest checkpoint, outside of any turn, and that HEAD does not have."""
        mine = set(self._work({d.path for d in changing}).own)
        if not mine:
            return ()
        head = self.store.base_tree(self.scene.head.oid)
        found = readable_differences(self.scene.repo, self.scene.tree, head)
        apart = {d.path for d in found.differences}
        return sorted(path for path in mine if path in apart or covered(path, found.gone))

    def _work(self, paths: Collection[str]) -> Work:
        if not self._worked[0].issuperset(paths):
            self._worked = frozenset(paths), session_work(self.baton, self.target, self.scene.tree, paths)
        return self._worked[1]

    def _only_committed(self, moved: Sequence[Difference]) -> Mapping[str, str]:
        """Return the paths that are now as HEAD has them, and were then as HEAD had them, where that is another branch."""
        if not self.elsewhere or self.heads is None:
            return {}
        before, after = self.heads
        apart = {d.path: d for d in self._apart(after, before)}
        return {d.path: f"as committed {self._here}" for d in moved if d == apart.get(d.path)}

    @property
    def _here(self) -> str:
        """The branch or commit that HEAD is at, in words."""
        head = self.scene.head
        return f"on {plain(head.branch)}" if head.branch is not None else f"at {self.baton.abbreviate(head.oid)}"

    @cached_property
    def elsewhere(self) -> str:
        """The places where the checkpoint was recorded and where HEAD is, if that is another branch, or detached another line
        of commits; else ""."""
        c, head = self.target.checkpoint, self.scene.head
        then = now_called(self.scene.repo, c.branch) if c.branch is not None and c.branch != head.branch else c.branch
        if then == head.branch and (then is not None or self._on_one_line(c.head, head.oid)):
            return ""
        was = f"on {plain(c.branch)}" if c.branch is not None else f"at {self.baton.abbreviate(c.head)}"
        now = f"you are on {plain(head.branch)}" if head.branch is not None else f"HEAD is at {self.baton.abbreviate(head.oid)}"
        return f"recorded {was}; {now}"

    def _on_one_line(self, one: Oid | None, other: Oid | None) -> bool:
        if one is None or other is None or one == other:
            return True
        return is_ancestor(self.scene.repo, one, other) or is_ancestor(self.scene.repo, other, one)

    def unknown(self, paths: Collection[str]) -> Mapping[str, str]:
        """Return the paths that HEAD has: they were committed since, or are on another branch."""
        head = self.scene.head.oid
        after = tree_of(self.store, head) if head and head != self.target.checkpoint.head else None
        if after is None:
            return {}
        step = self.heads or (nothing(self.store), after)
        there = changes(self.store, [step], dict.fromkeys(paths, "")).get(step, {})
        reason = f"committed {self._here}" if self.elsewhere or self.heads is None else COMMITTED
        return {path: reason for path, content in there.items() if content}

    def notes(self, changing: Sequence[Difference]) -> list[str]:
        """Return the notes that it is of another branch, which commits stay, and how many own edits no checkpoint holds."""
        return [self.elsewhere] if self.elsewhere else self._commits({d.path for d in changing})

    def _commits(self, changing: Collection[str]) -> list[str]:
        """Return the line that says which commits since stay."""
        then, head = self.target.checkpoint.head, self.scene.head.oid
        if then is None or head is None or then == head:
            return []
        both = self.stay(changing)
        if not (self.whole or both) or not is_ancestor(self.scene.repo, then, head):
            return []
        rows = self.git.run("log", "-z", "--format=%H%x01%P%x01%s", "--no-show-signature", head, f"^{then}", "--").out
        commits = [row.split("\x01", 2) for row in rows.decode("utf-8", "replace").split("\0") if row]
        short, span = self.baton.abbreviate(head), f"{self.baton.abbreviate(then)}..{self.baton.abbreviate(head)}"
        one = len(commits) == 1
        said = f"1 commit since stays: {short} {in_double_quotes(first_line(commits[0][2])[:SUBJECT])}"
        said = said if one else f"{len(commits):,} commits since stay: {span}"
        if any(" " in parents for _, parents, _ in commits) or made_here(self.scene.repo).isdisjoint(c[0] for c in commits):
            return [said]  # git reverts no merge without being told which side, and who pulled does not mean to
        back, it = f"git revert {short if one else span}", "it" if one else "them"
        if both:
            too = f"to take {it} back as well, commit what this restore leaves, or run '{back}' in its place"
            return [f"{said}; {too}"]
        return [f"{said}; to take {it} back: {back}"]

    def known(self) -> Collection[str]:
        """Return the paths that the checkpoint's commit or index had and its work tree had not: they were deleted then."""
        trees = {self.files.index.tree, self.store.tree_of(self.target.checkpoint.head)} - {None, self.tree}
        return {d.path for tree in trees if tree for d in self._apart(self.tree, tree) if d.now is None}

    def _apart(self, one: Oid, other: Oid) -> list[Difference]:
        """Return the differences of two trees, where they only say more of what changes: of a folder that is lost nothing is
        known."""
        return readable_differences(self.scene.repo, one, other).differences

    def absent(self, scope: Sequence[Difference]) -> Mapping[str, str]:
        """Return, with the reason, the paths that no capture holds now, where the checkpoint has something else there, or
        --exact nothing."""
        there = {d.path for d in scope}
        skipped = self.scene.skipped.items()
        found = {p: r for p, r in skipped if p not in there and r not in INSIDE and not covered(p, self.left)}
        found = {p: r for p, r in found.items() if self.asked.covers(p)}
        held = {p for p in found if lookup(self.store.objects, self.tree, os.fsencode(p)) is not None}
        if not self.order.exact:
            return {p: found[p] for p in held}
        # What was ignored at the checkpoint, too, is left alone without a word, as all that is ignored.
        hidden = {anything_in(self.scene.root, p): p for p, r in found.items() if r == IGNORED and p not in held}
        then = ignored_by(self.scene.repo, self.scene.folder, self.tree, list(hidden)) if hidden else set[str]()
        return {p: r for p, r in found.items() if p not in {hidden[name] for name in then}}

    def warnings(self, changing: Sequence[Difference]) -> list[str]:
        """Return warnings of what was left out of the checkpoint and is gone, and of PATHs that name nothing beside others
        that do."""
        several = self.asked.specs if len(self.asked.specs) > 1 else ()
        return [*(no_match(spec, _LOOKED) for spec in several if not self._matches(spec)), *self._gone(), *self._inside()]

    def _inside(self) -> list[str]:
        """Return warnings that what was changed inside other repositories stays, and does not come back."""
        now = {p for p, reason in self.scene.skipped.items() if reason in INSIDE and self.asked.covers(p)}
        then = {s.path for s in self.files.skipped if s.reason in INSIDE and self.asked.covers(s.path)} - now
        there = [some(len(paths), first_few(sorted(paths))) for paths in (now, then) if paths]
        found = [f"what was changed inside {there[0]} is in no checkpoint, and stays as it is"] if now else []
        return found + ([f"what was changed inside {there[-1]} then is in no checkpoint"] if then else [])

    def _gone(self) -> list[str]:
        """Return the warning that what was left out of the checkpoint, was asked for and is gone does not come back."""
        absent = [p for p in self.left if self.asked.covers(p) and not os.path.lexists(os.path.join(self.scene.root, p))]
        gone = [path for path in absent if lookup(self.store.objects, self.tree, os.fsencode(path)) is None]
        they = "it is" if len(gone) == 1 else "they are"
        why = f"'git baton show {self.baton.short(self.target.id)}' says why"
        said = f"the checkpoint does not hold {some(len(gone), first_few(gone))}, and {they} no longer here; {why}"
        return [said] if gone else []
