"""Restore plans: what a restore, an undo or a redo would do, decided on one capture. Only objects are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from gitbaton.baton import Baton
from gitbaton.codec import Json, canonical, counted, in_quotes, path_document
from gitbaton.errors import BatonError, NoAnswerError, NotFoundError, RecordError, UsageError
from gitbaton.git.objects import lookup, object_id
from gitbaton.model import IGNORED, INSIDE, KEPT, FileState, Oid, Op, Stored, covered
from gitbaton.render import first_few, path_in_quotes, some
from gitbaton.restore.attribution import Present, others
from gitbaton.restore.bytes import Bytes, after, after_raw, index_scope
from gitbaton.restore.decide import Decider, Facts
from gitbaton.restore.scene import Scene, inside, looked
from gitbaton.restore.values import CHANGING, UNMERGED, Order, Plan, Step
from gitbaton.store import safety_ref
from gitbaton.store.pathhistory import changes, nothing, tree_of
from gitbaton.store.safety import AFTER, beside, in_beside, steps
from gitbaton.values import replace
from gitbaton.worktree.checkout import Difference, Entry, changed_tree, differences, hidden, matching
from gitbaton.worktree.ignores import anything_in, ignored_by
from gitbaton.worktree.modes import Permits, recorded, step_back
from gitbaton.worktree.rawbytes import differing
from gitbaton.worktree.staged import Scope, listed_now, read_staged, stages_now

FREE: AbstractContextManager[None] = nullcontext()
_TOLD = 10  # paths whose exact bytes do not come back, and that are named


@contextmanager
def planned(baton: Baton, order: Order, lock: AbstractContextManager[None] = FREE) -> Iterator[Plan]:
    """The plan of a restore, good until the block ends; ``lock`` is held from before the look. Raises BatonError; nothing is
    changed then, and no lock taken where the words are wrong."""
    target = baton.resolve(order.checkpoint)
    files = _files(target)
    if target.foreign and not order.foreign:
        hint = f"'git baton diff {baton.short(target.id)}' shows what it holds; --foreign restores it all the same"
        raise BatonError(f"checkpoint '{baton.short(target.id)}' was fetched from elsewhere", hint)
    if order.exact and files.skipped_more:
        said = f"checkpoint '{baton.short(target.id)}' left out more paths than it lists; --exact cannot tell them from others"
        raise BatonError(said)
    with lock, looked(baton, (files.tree,)) as scene:
        yield _Planner(scene, target, order, "restore").plan()


@contextmanager
def stepping(baton: Baton, op: Op, order: Order, lock: AbstractContextManager[None] = FREE) -> Iterator[Plan]:
    """The plan of an undo or a redo, good until the block ends; of the order, ``force`` and ``left`` count.

    It touches what the step that it takes back touched, and nothing else. Raises NoAnswerError when there is no such step, or
    the next one was made in another work tree that had this one's name.
    """
    step = _next(baton, op)[0]  # what is refused takes no lock
    with lock, looked(baton, (step.tree, in_beside(baton.store, step, AFTER))) as scene:
        target, position = _next(baton, op)
        order = Order(
            force=order.force, left=order.left, index=bool(target.checkpoint.restore and target.checkpoint.restore.index)
        )
        yield _Planner(scene, target, order, op, position).plan()


def _next(baton: Baton, op: Op) -> tuple[Stored, int]:
    """The step to take back, and how many may be redone afterwards."""
    found = steps(baton.store, safety_ref(baton.repo.layout.git_dir, baton.repo.layout.common_dir))
    pile = found.undo if op == "undo" else found.redo
    if not pile:
        lists = "'git baton log' lists what 'git baton restore CHECKPOINT' brings back"
        raise NoAnswerError(f"there is nothing to {op} in this work tree", *([lists] if op == "undo" else []))
    target = pile[-1]
    here, there = baton.repo.worktree_id(), _files(target).worktree
    if not here.same(there) or _elsewhere(here.path, there.path):
        said = f"the next step to {op} was made in another work tree, {in_quotes(there.path)}, and not here"
        raise NoAnswerError(said, f"its files are still in checkpoint '{baton.short(target.id)}'")
    return target, len(found.redo) + (1 if op == "undo" else -1)


def _elsewhere(here: str, there: str) -> bool:
    """Whether two paths are two directories: with GIT_WORK_TREE one git directory may have several work trees."""
    return os.path.isdir(there) and os.path.realpath(here) != os.path.realpath(there)


def _files(target: Stored) -> FileState:
    files = target.checkpoint.files
    if files is None:
        raise BatonError(f"checkpoint '{target.id[:12]}' was recorded without files", "'git baton log --all' lists others")
    return files


def _no_match(spec: str) -> str:
    option = "; options stand before '--'" if spec.startswith("-") else ""
    return f"{in_quotes(spec)} matches no file that the checkpoint or a capture of the work tree holds{option}"


class _Planner:
    """The facts for one plan, collected as they are needed."""

    def __init__(self, scene: Scene, target: Stored, order: Order, op: Op, position: int = 0) -> None:
        self.scene, self.target, self.order, self.op, self.position = scene, target, order, op, position
        self.baton, self.store, self.git = scene.baton, scene.baton.store, scene.repo.git
        self.files = _files(target)
        self.directory = inside(scene.root, order.directory)
        if self.store.tree_of(target.commit) != self.files.tree:
            raise RecordError(f"commit {target.commit} does not hold the tree that it names")

    def plan(self) -> Plan:
        """Decide what becomes of every path that differs."""
        if self.op != "restore":
            self.after = after(self.store, self.target)
            made = {p: e for p, e in self.after.items() if e is not None}
            before = differences(self.git, self.files.tree, in_beside(self.store, self.target, AFTER))
            self.written = self.scene.take_in({d.path: made[d.path] for d in before if d.now is None and d.path in made})
        there = beside(self.store, self.target)
        recorded_then = Permits(self.scene.repo, recorded(self.store.objects, there))
        permits = recorded_then if self.op == "restore" else step_back(self.scene.repo, there)
        self.scene.repo.progress("comparing files", 0, 0)
        differing = self._present(differences(self.git, self.scene.tree, self.files.tree))
        kept = Bytes(self.scene, self.target, self.op)
        scope = self._scope(differing, kept.differences(differing))
        everything = [*differing, *(d for d in scope if d.now == d.then)]
        guard = self.scene.guard({d.path for d in everything if d.now is not None})
        decision = Decider(scope, everything, guard, self._facts(scope, kept))
        known, self.unmerged = self._index_scope(), self._unmerged()
        decision.leave(self._conflicts(known, decision.changing()))
        found = decision.settle()
        wanted = {d.path: d.then for d in scope if decision.steps[d.path].action in CHANGING}
        self.scene.take_out(self.hidden & wanted.keys())
        tree = self._tree(wanted, differing)
        changing = [d for d in scope if d.path in wanted]
        self.scene.mark(changing, {d.path for d in everything if d.now is not None}, self._unwelcome())
        return Plan(
            op=self.op,
            target=self.target,
            steps=tuple(found),
            index=self.order.index,
            scope=self._narrowed(known, found, wanted),
            position=self.position,
            wanted=wanted,
            raw=kept.wanted(changing),
            same=tuple(d.path for d in scope if d.now == d.then and d.path in wanted),
            permits=permits,
            tree=tree,
            digest=self._digest(found, changing),
            warnings=(*self._warnings(changing), *self._told(kept)),
            scene=self.scene,
            whole=not self.order.paths,
        )

    def _present(self, differing: list[Difference]) -> list[Difference]:
        """The differences, with paths as absent that a capture takes for unchanged because git was told to skip them."""
        gone = [d.path for d in differing if d.now and not os.path.lexists(os.path.join(self.scene.root, d.path))]
        self.hidden = set(hidden(self.scene.index, gone)) if gone else set()
        found = [replace(d, now=None) if d.path in self.hidden else d for d in differing]
        found += self._skipped_since({d.path for d in differing})
        return [d for d in found if d.now != d.then]

    def _skipped_since(self, differing: Collection[str]) -> list[Difference]:
        """Paths as absent that git was told to skip after the checkpoint was taken, and that are not on disk."""
        then = {f.path for f in self.files.index.flags if "s" in f.bits}
        since = [f.path for f in self.scene.facts.flags if "s" in f.bits and f.path not in then and f.path not in differing]
        gone = [path for path in since if not os.path.lexists(os.path.join(self.scene.root, path))]
        found = []
        for path in gone if self.op == "restore" else ():
            entry = lookup(self.store.objects, self.files.tree, os.fsencode(path))
            if entry is not None:
                then_entry = Entry(mode=entry.mode.decode("ascii", "replace"), oid=entry.oid)
                found.append(Difference(path=path, now=None, then=then_entry))
        self.hidden |= {d.path for d in found}
        return found

    def _index_scope(self) -> Scope:
        """The paths whose index entries come back, as far as that is known beforehand: without --index those that change."""
        if self.op != "restore":
            return index_scope(self.store, self.target)
        if not self.order.index or not self.order.paths:
            return Scope()
        facts, specs = self.scene.facts, self.order.paths
        trees = {self.scene.tree, self.files.tree, facts.tree, self.files.index.tree}
        only = {p for tree in trees for p in matching(self.scene.index, self.directory, tree, specs)}
        return Scope(only=frozenset(only | listed_now(self.scene.repo, self.directory, specs)))

    def _narrowed(self, known: Scope, found: Sequence[Step], wanted: Collection[str]) -> Scope:
        """The same, once it is decided what changes: no conflict's entry, and none that would end or begin one of a merge."""
        apart = known.apart.union(step.path for step in found if step.action == "conflict")
        if self.order.index:
            return Scope(only=known.only, apart=apart)
        now, then = self.unmerged
        stay = now | then if then and not self._same_operation() else now
        stay = stay | self._committed_since(wanted)
        return Scope(only=(frozenset(wanted) if known.only is None else known.only) - stay, apart=apart)

    def _committed_since(self, wanted: Collection[str]) -> set[str]:
        """The paths that HEAD has otherwise than the commit that the checkpoint stands on; all where that is not there. With
        their entries of then the index would take back what was committed since, and the next commit with it."""
        then, now = self.target.checkpoint.head, self.scene.head.oid
        if self.op != "restore" or then == now:
            return set()
        before, after = (tree_of(self.store, oid) if oid else nothing(self.store) for oid in (then, now))
        if before is None or after is None:
            return set(wanted)
        step = before, after
        return set(changes(self.store, [step], dict.fromkeys(wanted, "")).get(step, {}))

    def _unmerged(self) -> tuple[set[str], set[str]]:
        """The paths that are unmerged now, but for a conflict that the very step brought which is taken back; and those that
        were unmerged then."""
        now = stages_now(self.scene.facts)
        done = self.target.checkpoint.restore if now and self.op != "restore" else None
        try:
            brought = self._stages(self.baton.resolve(done.target)) if done else {}
        except (NotFoundError, RecordError):  # pruned or unreadable: nobody knows what it brought
            brought = {}
        return {path for path in now if now[path] != brought.get(path)}, set(self._stages(self.target))

    def _stages(self, stored: Stored) -> Mapping[str, tuple[tuple[str, Entry], ...]]:
        files = stored.checkpoint.files
        counted = files is not None and files.index.unmerged
        return read_staged(self.scene.repo, files, beside(self.store, stored)).stages if files and counted else {}

    def _same_operation(self) -> bool:
        """Whether the merge, or the rebase's step, that was in progress then still is."""
        then = self.files.operation
        still = then is not None and self.target.checkpoint.head == self.scene.head.oid
        return still and then == self.scene.repo.operation()

    def _resolved(self, known: Scope, changing: Sequence[Difference]) -> set[str]:
        """The paths whose conflict of now would be gone."""
        paths = self.unmerged[0] - self.unmerged[1]
        return {p for p in paths if known.has(p)} if self.order.index else paths.intersection(d.path for d in changing)

    def _tree(self, wanted: Mapping[str, Entry | None], differing: Sequence[Difference]) -> Oid:
        """The work tree's tree afterwards."""
        if all(d.path in wanted for d in differing) and not self.hidden:
            return self.files.tree
        return changed_tree(self.scene.index, wanted) if wanted else self.scene.tree

    def _scope(self, differing: Sequence[Difference], in_bytes: Sequence[Difference]) -> list[Difference]:
        """The differences that the user asked for; for undo and redo those that the step touched.

        ``in_bytes`` are paths whose blobs agree, and whose bytes on disk do not.
        """
        if self.op != "restore":
            return [d for d in (*differing, *in_bytes) if d.path in self.after]
        if not self.order.paths:
            return [*differing, *in_bytes]
        here = self.git.changed({}, directory=self.directory)
        asked = {d.path for d in differences(here, self.scene.tree, self.files.tree, self.order.paths)}
        scope = [d for d in differing if d.path in asked]
        if in_bytes:
            inside = matching(self.scene.index, self.directory, self.files.tree, self.order.paths)
            scope += [d for d in in_bytes if d.path in inside]
        if not scope:
            self._refuse_unknown()
        return scope

    def _refuse_unknown(self) -> None:
        """A PATH that names nothing is a mistake, and not a wish that is fulfilled already."""
        for spec in self.order.paths:
            if not self._matches(spec):
                raise UsageError(_no_match(spec), *(self._gone() or ["ignored files are never touched"]))

    def _matches(self, spec: str) -> bool:
        trees = (self.scene.tree, self.files.tree)
        return any(matching(self.scene.index, self.directory, tree, [spec]) for tree in trees)

    def _unmatched(self) -> list[str]:
        """The PATHs that name nothing, beside others that do, each as a warning."""
        several = self.order.paths if self.op == "restore" and len(self.order.paths) > 1 else ()
        return [_no_match(spec) for spec in several if not self._matches(spec)]

    def _overwritten(self, changing: Sequence[Difference]) -> list[str]:
        """That an undo, or a redo, puts other bytes over files that were committed or edited since the step that it takes
        back."""
        if self.op == "restore":
            return []
        then, now = self.target.checkpoint.head, self.scene.head.oid
        trees = [self.store.tree_of(oid) for oid in (now, then)] if now != then else []
        committed = {d.path: d.now for d in differences(self.git, *map(str, trees))} if trees and None not in trees else {}
        both = {d.path for d in changing if d.path in committed and committed[d.path] == d.now}
        edited = len(self._moved(changing) - both)
        said, found = f"this {self.op} puts other bytes over", list[str]()
        if both:
            files = counted(len(both), "file")
            found.append(f"HEAD has moved since that restore: {said} {files} committed since; HEAD has them")
        if edited:
            step, back = ("restore", "redo") if self.op == "undo" else ("undo", "undo")
            found.append(f"{said} {counted(edited, 'file')} edited since that {step}; 'git baton {back}' brings the edits back")
        return found

    def _moved(self, changing: Sequence[Difference]) -> set[str]:
        """The paths that are not as the step that is taken back left them."""
        doubtful = {d.path for d in changing} & self.scene.captured.shut  # their entries tell nothing of their bytes
        moved = {d.path for d in changing if d.path not in doubtful and d.now != self.after[d.path]}
        if not doubtful:
            return moved
        made, here = after_raw(self.store, self.target), self.scene.captured.kept.oids
        plain = [(p, e.mode, e.oid) for p in doubtful if p not in made and (e := self.after[p]) is not None]
        same = {p for p, _, _ in plain}.difference(differing(self.git, self.scene.root, plain))
        return moved | {p for p in doubtful - same if p not in made or here.get(p) != made[p]}

    def _named(self) -> set[str]:
        names = (os.path.normpath(os.path.join(self.directory, path)) for path in self.order.paths)
        return {os.path.relpath(name, self.scene.root) for name in names}

    @property
    def left(self) -> dict[str, str]:
        """The paths that the checkpoint does not hold, each with the reason."""
        return {s.path: s.reason for s in self.files.skipped if s.reason != KEPT}

    def _told(self, kept: Bytes) -> list[str]:
        """Whose exact bytes do not come back, though a checkout gives what their filter made."""
        paths = [path for path in kept.cleaned if not self.order.paths or self._asked(path)]
        return [f"{path_in_quotes(path)}: {kept.cleaned[path]}" for path in paths[:_TOLD]]

    def _facts(self, scope: Sequence[Difference], kept: Bytes) -> Facts:
        leaving = any(d.then is None for d in scope)
        left = (self.left if self.op == "restore" else {}) | kept.away
        return Facts(
            unsafe=self.scene.unsafe,
            left={**left, **dict(self.order.left), **dict.fromkeys(self.scene.rules.never, "excluded")},
            known=self._known() if leaving and self.op == "restore" else (),
            ignored_then=lambda paths: ignored_by(self.scene.repo, self.scene.folder, self.files.tree, paths),
            hidden=self.hidden,
            named=self._named().union(self.order.over),
            absent=self._absent(scope) if self.op == "restore" else dict.fromkeys(self.written, "ignored"),
            exact=self.order.exact,
            force=self.order.force,
            always=self.op != "restore",
        )

    def _absent(self, scope: Sequence[Difference]) -> dict[str, str]:
        """What no capture holds now, where the checkpoint has something else there, or --exact nothing."""
        there = {d.path for d in scope}
        left = self.left
        skipped = self.scene.skipped.items()
        open_paths = {p: r for p, r in skipped if p not in there and r not in INSIDE and not covered(p, left)}
        if self.order.paths and open_paths:
            open_paths = {p: r for p, r in open_paths.items() if self._asked(p)}
        held = {p for p in open_paths if lookup(self.store.objects, self.files.tree, os.fsencode(p)) is not None}
        if not self.order.exact:
            return {p: open_paths[p] for p in held}
        # What was ignored at the checkpoint, too, is left alone without a word, as all that is ignored.
        hidden = {anything_in(self.scene.root, p): p for p, r in open_paths.items() if r == IGNORED and p not in held}
        then = ignored_by(self.scene.repo, self.scene.folder, self.files.tree, list(hidden)) if hidden else set[str]()
        return {p: r for p, r in open_paths.items() if p not in {hidden[name] for name in then}}

    def _unwelcome(self) -> Callable[[str], bool] | None:
        """With --exact no file may appear where one was asked for."""
        if not self.order.exact:
            return None
        return self._asked if self.order.paths else lambda path: True

    def _asked(self, path: str) -> bool:
        """Whether a path that no tree holds is at or below one that the user gave."""
        return any(name in (path, ".") or path.startswith(name + "/") for name in self._named())

    def _known(self) -> set[str]:
        """What the checkpoint's commit or index had and its work tree had not: it was deleted then."""
        trees = {self.files.index.tree, self.store.tree_of(self.target.checkpoint.head)} - {None, self.files.tree}
        return {d.path for tree in trees if tree for d in differences(self.git, self.files.tree, tree) if d.now is None}

    def _conflicts(self, known: Scope, changing: Sequence[Difference]) -> Mapping[str, str]:
        """Paths whose present content is somebody else's, and whose; and those that wait in the middle of a merge."""
        if self.order.force:
            return {}
        moved = self._moved(changing) if self.op != "restore" else {d.path for d in changing}
        asked = [d for d in changing if d.now != d.then and d.path in moved]
        present = [Present(path=d.path, oid=d.now.oid if d.now else None, mode=d.now.mode if d.now else "") for d in asked]
        found = others(self.store, self.target, self.scene.head.oid, self.scene.repo.worktree_id(), present)
        whose = {path: self._whose(owner.track, owner.where) for path, owner in found.items()}
        return whose | dict.fromkeys(self._resolved(known, changing), UNMERGED)

    def _whose(self, track: str | None, where: Oid) -> str:
        if track is None:
            return f"commit {self.baton.abbreviate(where)}"
        return f"track {in_quotes(track)}, checkpoint {self.baton.short(where)}"

    def _gone(self) -> list[str]:
        """That what was left out of the checkpoint, was asked for and is not there any more does not come back, in a line."""
        left = list(self.left) if self.op == "restore" else []
        asked = [path for path in left if not self.order.paths or self._asked(path)]
        absent = [path for path in asked if not os.path.lexists(os.path.join(self.scene.root, path))]
        gone = [path for path in absent if lookup(self.store.objects, self.files.tree, os.fsencode(path)) is None]
        they = "it is" if len(gone) == 1 else "they are"
        why = f"'git baton show {self.baton.short(self.target.id)}' says why"
        return (
            [f"the checkpoint does not hold {some(len(gone), first_few(gone))}, and {they} no longer here; {why}"]
            if gone
            else []
        )

    def _digest(self, found: Sequence[Step], changing: Sequence[Difference]) -> str:
        """The same for the same plan against the same state of what it touches, whatever else moves in the work tree."""
        rows: list[Json] = [[path_document(s.path), s.action, s.reason] for s in found if s.action != "keep"]
        facts = self.scene.facts
        flags: list[Json] = [[path_document(f.path), f.bits] for f in facts.flags]
        state: list[Json] = [facts.tree, flags, self.scene.head.oid]
        ends: list[Json] = [[f"{entry.mode} {entry.oid}" if entry else None for entry in (d.now, d.then)] for d in changing]
        value: dict[str, Json] = {"op": self.op, "to": self.target.id, "now": state, "ends": ends, "steps": rows}
        value["index"] = self.order.index
        return object_id(self.store.objects.algorithm, "blob", canonical(value))

    def _warnings(self, changing: Sequence[Difference]) -> list[str]:
        then, now = self.files.operation, self.scene.repo.operation()
        found = self._overwritten(changing) + self._unmatched()
        found += [self.scene.captured.warning] if self.scene.captured.warning else []
        found += self._gone()
        if now is not None:
            found.append(f"a {now.kind} is in progress; its own files are left alone")
        if then is not None and (now is None or now.kind != then.kind):
            found.append(f"a {then.kind} was in progress at the checkpoint; its own files do not come back")
        return found
