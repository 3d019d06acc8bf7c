"""Goal of an undo or a redo: the state before a step of this work tree, at the paths that the step touched."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property

from gitbaton.base.codec import counted, first_line, in_quotes
from gitbaton.base.errors import NoAnswerError, NotFoundError, RecordError
from gitbaton.base.model import COMPOSED, IGNORED_HELD, Op, Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import first_few, some, title
from gitbaton.checkpoints.restore.bytes import TOUCHED, after_raw, index_scope, stepped
from gitbaton.checkpoints.restore.goal import FREE, Goal, conversion_of_step, files_of, staged_by, tree_in
from gitbaton.checkpoints.restore.plan import made
from gitbaton.checkpoints.restore.scene import PresentState, looked
from gitbaton.checkpoints.restore.values import LONGEST, Order, RestorePlan
from gitbaton.checkpoints.store import safety_ref
from gitbaton.checkpoints.store.chain import AFTER, in_beside, paths_beside, steps
from gitbaton.git.worktree.checkout import INVALID, NESTED, Difference, GitEntry, entry_at, readable_differences, refused_names
from gitbaton.git.worktree.modes import step_back
from gitbaton.git.worktree.rawbytes import differing as differing_bytes
from gitbaton.git.worktree.staged import Restaging, Scope, Staged, stages_now

_BEFORE = re.compile(r"before (?:(?:undo|redo) of )*")  # what the step of a safety checkpoint begins with


@contextmanager
def stepping(baton: Baton, op: Op, order: Order, lock: AbstractContextManager[None] = FREE) -> Iterator[RestorePlan]:
    """Yield the plan of an undo or a redo, good until the block ends; of the order, ``force`` and ``left`` count.

    It touches what the step that it takes back touched, and nothing else. Raises NoAnswerError when there is no such step, or
    the next one was made in another work tree that had this one's name.
    """
    step = _next(baton, op)[0]  # what is refused takes no lock
    with lock, looked(baton, (step.tree, in_beside(baton.store, step, AFTER))) as scene:
        target, position = _next(baton, op)
        index = bool(target.checkpoint.restore and target.checkpoint.restore.index)
        yield made(StepGoal(scene, target, Order(force=order.force, left=order.left, index=index), op, position))


def _next(baton: Baton, op: Op) -> tuple[Stored, int]:
    """Return the step to take back, and how many may be redone afterwards."""
    found = steps(baton.store, safety_ref(baton.repo.layout.git_dir, baton.repo.layout.common_dir))
    pile = found.undo if op == "undo" else found.redo
    if not pile:
        lists = "'git baton log --all' lists what 'git baton restore CHECKPOINT' brings back"
        some = op == "undo" and baton.repo.layout.root is not None and baton.store.made_here()
        raise NoAnswerError(f"there is nothing to {op} in this work tree", *([lists] if some else []))
    target = pile[-1]
    if target.checkpoint.files is None:
        said = f"the next step to {op} cannot be carried out: its files are forgotten"
        raise NoAnswerError(said, "'git baton log --all' lists what 'git baton restore CHECKPOINT' brings back")
    here, there = baton.repo.worktree_id(), files_of(target).worktree
    # With GIT_WORK_TREE one git directory may have several work trees.
    several = os.path.isdir(there.path) and os.path.realpath(here.path) != os.path.realpath(there.path)
    if several or not here.same(there):
        said = f"the next step to {op} was made in another work tree, {in_quotes(there.path)}, and not here"
        if os.path.realpath(here.path) == os.path.realpath(there.path):
            gone = f"another work tree was here then, or {in_quotes(baton.repo.own_dir)} was removed since"
            said = f"the next step to {op} is not known to be of this work tree: {gone}"
        raise NoAnswerError(said, f"its files are still in checkpoint '{baton.short(target.id)}'")
    return target, len(found.redo) + (1 if op == "undo" else -1)


class StepGoal(Goal):
    """The state before a step."""

    always = True

    def __init__(self, scene: PresentState, target: Stored, order: Order, op: Op, position: int) -> None:
        super().__init__(scene, target, order)
        scene.within = True
        self.op, self.position, self.files = op, position, files_of(target)
        self.composed_then = target.checkpoint.restore is not None and target.checkpoint.restore.op in COMPOSED
        self.what = _BEFORE.sub("", first_line(title(target)[0])[:LONGEST], count=1)
        self.tree = self.rules = tree_in(scene, target)
        self.operation = self.files.operation
        before = stepped(self.store, target)[2]
        tree, same = in_beside(self.store, target, AFTER), paths_beside(self.store, target, TOUCHED) or ()
        self.after = {d.path: d.then for d in before} | {path: entry_at(self.store.objects, tree, path) for path in same}
        came = {p: e for p, e in self.after.items() if e is not None}
        over = {s.path for s in self.files.skipped if s.reason == IGNORED_HELD}
        new = {d.path for d in before if d.now is None or d.path in over}
        apart = {d.path for d in before}
        self.inside = [path for path, entry in self.after.items() if entry is None and path not in apart]
        self.written = scene.take_in({path: came[path] for path in new if path in came})
        self.left = self.bring(step_back)
        self.stays: Collection[str] = ()
        self.entries = self._entries(index_scope(self.store, target))

    def _entries(self, scope: Scope) -> Scope:
        """Return the index paths that come back: those that the step brought back, where the entry is as the step left it, and
        HEAD has not moved on."""
        repo, facts = self.scene.repo, self.scene.facts
        scope = replace(scope, apart=scope.apart.union(facts.lost))
        differing = Restaging(repo, facts, self.staged, scope).paths
        if not differing or self.scene.captured.warning:
            return scope
        if self.committed is None:
            return Scope(only=frozenset())
        moved = Restaging(repo, facts, self._left(), scope).paths.union(self.committed)
        self.stays = differing & moved
        return replace(scope, apart=scope.apart.union(self.stays))

    def _left(self) -> Staged:
        """Return the index of which the step brought entries back; HEAD's of then where the checkpoint is gone."""
        if self.source is not None or self.composed_then:
            with suppress(RecordError):
                return staged_by(self.scene, self.target, self.source)
        tree = self.heads[0] if self.heads else self.scene.facts.tree
        return Staged(tree=tree, files=tree, flags={}, stages={}, held={})

    @cached_property
    def source(self) -> Stored | None:
        """The checkpoint that the step brought back; None of a revert or a merge, and where it is gone, or its files are."""
        done = self.target.checkpoint.restore
        with suppress(NotFoundError, RecordError):
            found = self.baton.resolve(done.target) if done is not None and not self.composed_then else None
            return found if found is not None and found.checkpoint.files is not None else None
        return None

    @cached_property
    def committed(self) -> Mapping[str, GitEntry | None] | None:
        """The paths that HEAD has otherwise than when the step began, with what it has; None where that is not known."""
        if self.heads is None:
            return None
        return {d.path: d.then for d in readable_differences(self.scene.repo, *self.heads).differences}

    def scope(self, differing: Sequence[Difference], in_bytes: Sequence[Difference]) -> list[Difference]:
        """Return the differences that the step touched."""
        return [d for d in (*differing, *in_bytes) if d.path in self.after]

    def brought(self) -> Mapping[str, object]:
        """Return the stages of the conflicts that the very step brought."""
        return self._left().stages

    def gone(self) -> Mapping[str, str]:
        """Return the folders with unknown content in which the step changed something."""
        before, after = self.target.tree, in_beside(self.store, self.target, AFTER)
        return {path: reason for path, reason in super().gone().items() if self.apart(path, before, after)}

    def absent(self, scope: Sequence[Difference]) -> Mapping[str, str]:
        """Return the paths that the step wrote, that are ignored by now, and that are not as it wrote them; and what it
        brought into a repository of its own."""
        ends = [(path, entry.mode) for path in self.written if (entry := self.after[path]) is not None]
        names, guard = refused_names(self.scene.index, ends), self.scene.guard(())
        inside = [path for path in self.inside if os.path.lexists(os.path.join(self.scene.root, path))]
        kinds = ((INVALID, names), (NESTED, filter(guard.in_repository, (*self.written, *inside))))
        return dict.fromkeys(self.written, "ignored") | {path: reason for reason, paths in kinds for path in paths}

    def moved(self, changing: Sequence[Difference]) -> Collection[str]:
        """Return the paths that are not as the step left them."""
        doubtful = {d.path for d in changing} & self.scene.captured.shut  # their entries tell nothing of their bytes
        moved = {d.path for d in changing if d.path not in doubtful and d.now != self.after[d.path]}
        moved -= self._as_written([d for d in changing if d.path in moved])
        if not doubtful:
            return moved
        wrote, here = after_raw(self.store, self.target), self.scene.captured.kept.oids
        plain = [(p, e.mode, e.oid) for p in doubtful if p not in wrote and (e := self.after[p]) is not None]
        same = {p for p, _, _ in plain}.difference(differing_bytes(self.git, self.scene.root, plain))
        return moved | {p for p in doubtful - same if p not in wrote or here.get(p) != wrote[p]}

    def _as_written(self, moved: Sequence[Difference]) -> set[str]:
        """Return the files that hold what the step wrote, which git takes for something else by what converts files now."""
        wrote = after_raw(self.store, self.target) if moved else {}
        ends = [(d, end) for d in moved if (end := self.after[d.path]) is not None and d.path not in wrote]
        plain = [(d.path, end.mode, end.oid) for d, end in ends if d.now is not None and d.now.mode == end.mode]
        conversion = conversion_of_step(self.scene, self.target, self.source) if plain else None
        if conversion is None:
            return set()
        return {path for path, _, _ in plain}.difference(differing_bytes(conversion.git, self.scene.root, plain))

    def warnings(self, changing: Sequence[Difference]) -> list[str]:
        """Return warnings of other bytes that are put over files that were committed or edited since the step."""
        first, committed = self.what.partition(" ")[0], self.committed or {}  # "restore", "revert" or "merge"
        both = {d.path for d in changing if d.path in committed and committed[d.path] == d.now}
        edited = len(set(self.moved(changing)) - both)
        said, found = f"this {self.op} puts other bytes over", list[str]()
        step, back = (first, "redo") if self.op == "undo" else ("undo", "undo")
        if both:
            files = counted(len(both), "file")
            found.append(f"HEAD has moved since that {first}: {said} {files} committed since; HEAD has them")
        if edited:
            found.append(f"{said} {counted(edited, 'file')} edited since that {step}; 'git baton {back}' brings the edits back")
        if staged := sorted(set(self.stays).difference(committed, stages_now(self.scene.facts))):
            found.append(f"what was staged since that {step} stays staged: {some(len(staged), first_few(staged))}")
        return found
