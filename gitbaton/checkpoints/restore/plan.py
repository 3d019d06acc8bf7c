"""Restore plans: what becomes of each path on the way to a goal, decided on one capture. Only objects are written."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.base.clients import KNOWN
from gitbaton.base.codec import Json, canonical, in_quotes, path_document
from gitbaton.base.errors import DamagedIndexError
from gitbaton.base.model import INSIDE, Oid, covered
from gitbaton.base.values import replace
from gitbaton.checkpoints.render import first_few, path_in_quotes, some
from gitbaton.checkpoints.restore.bytes import Bytes
from gitbaton.checkpoints.restore.goal import Goal
from gitbaton.checkpoints.restore.values import CHANGING, IGNORED_THEN, UNKNOWN, UNMERGED, PathAction, RestorePlan
from gitbaton.git.gone import missing, promised
from gitbaton.git.loose import index_anew
from gitbaton.git.objects import object_id
from gitbaton.git.worktree.checkout import (
    GITLINK,
    INVALID,
    NESTED,
    Difference,
    GitEntry,
    Guard,
    changed_tree,
    hidden,
    refused_names,
)
from gitbaton.git.worktree.filetrees import LINK, parents
from gitbaton.git.worktree.heldbytes import HeldOid
from gitbaton.git.worktree.index import store_anew
from gitbaton.git.worktree.staged import Scope, stages_now
from gitbaton.git.worktree.untracked import ignored_by

_CLIENTS = "|".join(of.runs for of in KNOWN.values())
_UNASKED = re.compile(
    rf"(?:.*/)?(?:{_CLIENTS}|\.husky/.*|\.vscode/(?:mcp|settings|tasks)\.json|\.envrc)", re.IGNORECASE | re.DOTALL
)  # what agents, editors and shells run, or take commands from, when they are opened there


def _run_unasked(goal: Goal, changing: Iterable[Difference]) -> list[str]:
    """Note which of a stranger's files are run without being asked for."""
    found = [d.path for d in changing if d.then is not None and _UNASKED.fullmatch(d.path)] if goal.target.foreign else []
    names = some(len(found), first_few(found))
    return [f"agents, editors or shells run this without being asked, and it is a stranger's: {names}"] if found else []


class Decider:
    """The steps for the differences in scope; ``everything`` are those of the whole work tree.

    ``left``: why the checkpoint does not know a path, by path; ``hidden``: what git was told to skip, and is not on disk.
    """

    def __init__(
        self,
        goal: Goal,
        scope: Sequence[Difference],
        everything: Sequence[Difference],
        guard: Guard,
        left: Mapping[str, str],
        hidden: Collection[str],
    ) -> None:
        self.goal, self.scope, self.guard, self.left, self.hidden = goal, scope, guard, left, hidden
        self.named, self.exact, self.force = goal.asked.names(), goal.order.exact, goal.order.force
        self.known = goal.known() if any(d.then is None for d in scope) else ()
        absent = {**goal.absent(scope), **goal.gone()}
        self.held = {d.path for d in everything if d.now is not None and not (guard.within and d.now.mode == GITLINK)}
        coming = _above(d.path for d in scope if d.then is not None)
        self.replaced = {d.path for d in scope if d.then is None and d.path in coming}  # files and links in a directory's place
        self.steps = {d.path: self._first(d) for d in scope}
        self._exact()
        self.steps |= {path: PathAction(path=path, action="refuse", reason=reason) for path, reason in absent.items()}

    def _first(self, d: Difference) -> PathAction:
        reason = self._never(d) or self._nested(d)
        if reason is not None:
            return PathAction(path=d.path, action="refuse", reason=reason)
        if d.then is None:
            wanted = self.goal.always or d.path in self.known or d.path in self.replaced
            return (
                PathAction(path=d.path, action="remove") if wanted else PathAction(path=d.path, action="keep", reason=UNKNOWN)
            )
        if d.now is not None:
            return PathAction(path=d.path, action="write")
        reason = self.guard.in_the_way(d.path)
        return PathAction(path=d.path, action="refuse", reason=reason) if reason else PathAction(path=d.path, action="create")

    def _never(self, d: Difference) -> str | None:
        """Return the reason for which a path is not touched whatever is asked, or None."""
        if any(entry is not None and entry.mode == GITLINK for entry in (d.now, d.then)):
            return "submodule"
        reason = self.goal.scene.unsafe(d.path)
        if reason in INSIDE and d.now is None and self.guard.within:
            reason = None  # nothing of it is there to be lost
        reason = reason or covered(d.path, self.left)
        asked = self.force or self.goal.always or d.path in self.named
        if reason is None and d.path in self.hidden and not asked:
            reason = "skip-worktree"
        return reason

    def _nested(self, d: Difference) -> str | None:
        """Return the reason for which a path is not touched that is in a repository of its own, or None: what is there is that
        one's. What a step took from there comes back."""
        back = self.guard.within and d.then is not None
        return NESTED if not back and self.guard.in_repository(d.path) else None

    def _exact(self) -> None:
        """Mark for removal what goes, but for what the checkpoint's ignore rules cover: known deletions, and with --exact
        unknown paths."""
        going = ("keep", "remove") if self.exact else ("remove",)
        steps = self.steps.values()
        unknown = [s.path for s in steps if s.action in going and s.path not in self.replaced and not self.goal.always]
        if not unknown:
            return
        ignored = ignored_by(self.goal.scene.repo, self.goal.scene.folder, self.goal.rules, unknown)
        for path in unknown:
            if path in ignored:
                self.steps[path] = PathAction(path=path, action="keep", reason=IGNORED_THEN)
            else:
                self.steps[path] = PathAction(path=path, action="remove")

    def changing(self) -> list[Difference]:
        """Return the differences that are to be changed as things stand."""
        return [d for d in self.scope if self.steps[d.path].action in CHANGING]

    def leave(self, reasons: Mapping[str, str]) -> None:
        """Leave paths alone that are another's, unless they are named or forced."""
        for path, reason in reasons.items():
            if not self.force and path not in self.named:
                self.steps[path] = PathAction(path=path, action="conflict", reason=reason)

    def finished(self) -> list[PathAction]:
        """Return the actions, after every path has made way, or has not been made way for."""
        while self._blocked() or self._needless():
            pass
        return [self.steps[path] for path in sorted(self.steps, key=os.fsencode)]

    def _blocked(self) -> bool:
        """Refuse what cannot be put where something else stays."""
        coming = {d.path for d in self.changing() if d.then is not None}
        staying = {p for p in self.held if p not in self.steps or self.steps[p].action != "remove"}
        above = _above(staying)
        found = False
        for d in self.changing():
            if d.then is None:
                continue
            blocker = next((folder for folder in parents(d.path) if folder in staying or folder in coming), None)
            if blocker is None and d.now is None and d.path in above:
                blocker = next(p for p in sorted(staying) if p.startswith(d.path + "/"))
            if blocker is not None:
                self.steps[d.path] = PathAction(path=d.path, action="refuse", reason=f"{in_quotes(blocker)} is in the way")
                found = True
        return found

    def _needless(self) -> bool:
        """Keep a file that was to make way for a directory of which nothing comes."""
        coming = _above(d.path for d in self.changing() if d.then is not None)
        always = self.goal.always or self.exact
        found = False
        for path in self.replaced:
            step = self.steps[path]
            if step.action == "remove" and path not in coming and path not in self.known and not always:
                self.steps[path] = PathAction(path=path, action="keep", reason=UNKNOWN)
                found = True
        return found


def _above(paths: Iterable[str]) -> set[str]:
    return {folder for path in paths for folder in parents(path)}


_TOLD = 10  # paths whose exact bytes do not come back, and that are named


def made(goal: Goal) -> RestorePlan:
    """Return the plan that leads to a goal from the state of its scene. Raises BatonError."""
    return _Planner(goal).plan()


class _Planner:
    """The facts for one plan, collected as they are needed."""

    def __init__(self, goal: Goal) -> None:
        self.goal, self.scene, self.order = goal, goal.scene, goal.order

    def plan(self) -> RestorePlan:
        """Decide what becomes of every path that differs."""
        goal = self.goal
        if self.order.index and self.scene.captured.warning:
            said = "the index is damaged: its entries cannot come back"
            raise DamagedIndexError(said, index_anew(self.scene.repo.layout.index))
        self.scene.repo.progress("comparing files", 0, 0)
        differing = self._present(self.scene.against(goal.tree))
        conversion = goal.conversion(differing)
        kept = Bytes(self.scene, goal.kept, goal.tree, goal.since, conversion)
        arrived = kept.arrived(differing)
        differing = [d for d in differing if d.path not in arrived]
        in_bytes = kept.differences(differing) + goal.replaced_links({d.path for d in differing})
        goal.converted = kept.converted
        scope = goal.scope(differing, in_bytes)
        everything = [*differing, *(d for d in scope if d.now == d.then)]
        guard = self.scene.guard({d.path for d in everything if d.now is not None})
        never = dict.fromkeys(self.scene.rules.never, "excluded")
        left = {**goal.left, **kept.away, **self._lasting(scope, kept), **dict(self.order.left), **never}
        decision = Decider(goal, scope, everything, guard, left, self.hidden)
        now, then = self._unmerged()
        decision.leave(self._conflicts(now - then, decision.changing()))
        found = self._with_further(self._explained(decision.finished()))
        wanted = {d.path: d.then for d in scope if decision.steps[d.path].action in CHANGING}
        self.scene.take_out(self.hidden & wanted.keys())
        inside = self._inside(wanted, differing)
        tree = self._tree({path: entry for path, entry in wanted.items() if path not in inside}, differing)
        changing = [d for d in scope if d.path in wanted]
        named = self.goal.asked.names()
        own = tuple(sorted(p for p in goal.own(changing) if p not in named))
        # With --exact no file may appear at the paths that were asked for.
        self.scene.mark(changing, self.goal.asked.covers if self.order.exact else None)
        return RestorePlan(
            op=goal.op,
            target=goal.target,
            what=goal.what,
            track=goal.track,
            steps=tuple(found),
            index=self.order.index,
            scope=self._narrowed(now, then, found, wanted),
            staged=goal.staged,
            hidden=goal.hidden,
            position=goal.position,
            wanted=wanted,
            raw=kept.wanted(changing),
            same=tuple(d.path for d in changing if d.now == d.then or d.path in inside),
            permits=goal.permits,
            conversion=conversion,
            links=frozenset(d.path for d in changing if d.then and d.then.mode == LINK and goal.is_link(d.path)),
            tree=tree,
            digest=self._digest(found, changing),
            notes=(*goal.notes(changing), *_run_unasked(goal, changing)),
            own=own,
            strangers=tuple(s.path for s in found if s.action == "conflict" and s.path in goal.strangers),
            warnings=(*self._warnings(changing), *self._told(kept)),
            scene=self.scene,
            whole=goal.whole,
            composed=goal.composed,
            again=goal.again,
        )

    def _explained(self, found: Sequence[PathAction]) -> list[PathAction]:
        """Return the steps, with a better reason where a path is kept that the goal knows more of."""
        kept = {step.path for step in found if step.action == "keep" and step.reason == UNKNOWN}
        reasons = self.goal.unknown(kept) if kept else {}
        return [replace(step, reason=reasons.get(step.path, step.reason)) if step.path in kept else step for step in found]

    def _with_further(self, found: Sequence[PathAction]) -> list[PathAction]:
        """Return the steps, with what the goal says of paths beside those that differ, or of how they change."""
        steps = {step.path: step for step in found}
        for path, step in self.goal.further.items():
            if path not in steps or steps[path].action in CHANGING:
                steps[path] = step
        return [steps[path] for path in sorted(steps, key=os.fsencode)]

    def _present(self, differing: list[Difference]) -> list[Difference]:
        """Return the differences, with paths as absent that a capture takes for unchanged because git was told to skip them,
        and without submodules that are plain folders here."""
        folders = {folder for d in differing for folder in parents(d.path)}
        plain = {d.path: d for d in differing if d.path in folders and self._is_plain(d)}
        self.scene.folders = frozenset(path for path, d in plain.items() if d.then is not None)
        differing = [d for d in differing if d.path not in plain]
        gone = [d.path for d in differing if d.now and not os.path.lexists(os.path.join(self.scene.root, d.path))]
        self.hidden = set(hidden(self.scene.index, gone)) if gone else set()
        found = [replace(d, now=None) if d.path in self.hidden else d for d in differing]
        since = self.goal.skipped_since({d.path for d in differing})
        self.hidden |= {d.path for d in since}
        return [d for d in (*found, *since) if d.now != d.then]

    def _is_plain(self, d: Difference) -> bool:
        """Whether the commit of a submodule comes or goes at a folder that is no repository."""
        alone = d.now or d.then if d.now is None or d.then is None else None
        place = os.path.join(self.scene.root, d.path)
        there = os.path.isdir(place) and not os.path.islink(place) and not os.path.lexists(os.path.join(place, ".git"))
        return alone is not None and alone.mode == GITLINK and there

    def _narrowed(
        self, now: Collection[str], then: Collection[str], found: Sequence[PathAction], wanted: Collection[str]
    ) -> Scope:
        """Return the index paths that come back, once it is decided what changes: no conflict's, and none with an entry that
        would end or begin one of a merge."""
        if self.scene.captured.warning:  # what is staged in an index that git cannot read is not written over
            return Scope(only=frozenset())
        known = self.goal.entries
        apart = known.apart.union((step.path for step in found if step.action == "conflict"), self.scene.facts.lost)
        if self.order.index:
            return Scope(only=known.only, apart=apart)
        operation, head = self.goal.operation, self.goal.target.checkpoint.head
        still = operation is not None and head == self.scene.head.oid and operation == self.scene.repo.operation()
        stay = {*now, *(() if still else then), *self.goal.stay(wanted)}
        return Scope(only=(frozenset(wanted) if known.only is None else known.only) - stay, apart=apart)

    def _unmerged(self) -> tuple[set[str], set[str]]:
        """Return the paths that are unmerged now, but for a conflict that the very step brought which is taken back; and those
        that were unmerged then."""
        now = stages_now(self.scene.facts)
        brought = self.goal.brought() if now else {}
        return {path for path in now if now[path] != brought.get(path)}, set(self.goal.staged.stages)

    def _tree(self, wanted: Mapping[str, GitEntry | None], differing: Sequence[Difference]) -> Oid:
        """Return the work tree's tree afterwards."""
        if all(d.path in wanted for d in differing) and not self.hidden:
            return self.goal.tree
        return changed_tree(self.scene.index, wanted) if wanted else self.scene.tree

    def _inside(self, wanted: Collection[str], differing: Sequence[Difference]) -> set[str]:
        """Return the paths that come back into a repository of its own: no tree holds them beside its commit."""
        nested = {d.path for d in differing if d.now is not None and d.now.mode == GITLINK}
        return {path for path in wanted if not nested.isdisjoint(parents(path))} if nested else set()

    def _lasting(self, scope: Sequence[Difference], kept: Bytes) -> dict[str, str]:
        """Return, with the reason, the paths that git would not put back, or of which an object is gone and not on disk
        either."""
        ends = [(d.path, end) for d in scope for end in (d.now, d.then) if end is not None and end.mode != GITLINK]
        found = dict.fromkeys(refused_names(self.scene.index, [(path, end.mode) for path, end in ends]), INVALID)
        wanted = [(path, end.oid) for path, end in ends]
        wanted += [(d.path, oid) for d in scope if d.then and (oid := kept.then.get(d.path)) and not isinstance(oid, HeldOid)]
        gone = missing(self.goal.store.objects, [oid for _, oid in wanted])
        if gone and store_anew(self.scene.index, [d.path for d in scope if d.now is not None and d.now.oid in gone]):
            gone = missing(self.goal.store.objects, gone)
        remotes = promised(self.scene.repo, gone) if gone else []
        if remotes:
            said = f"is not here, and {in_quotes(remotes[0])} did not give what it promised"
            gone = {oid: f"object {oid} {said}" for oid in missing(self.goal.store.objects, gone)}
        return found | {path: gone[oid] for path, oid in wanted if oid in gone}

    def _conflicts(self, resolved: Collection[str], changing: Sequence[Difference]) -> Mapping[str, str]:
        """Return, with the reason, the paths with present content of another, and those of which a conflict of now would be
        gone."""
        if self.order.force:
            return {}
        moved = self.goal.moved(changing)
        owners = self.goal.owners([d for d in changing if d.now != d.then and d.path in moved])
        inside = {path for path in resolved if self.order.index and self.goal.entries.has(path)}
        return {**owners, **dict.fromkeys(inside.union({d.path for d in changing}.intersection(resolved)), UNMERGED)}

    def _digest(self, found: Sequence[PathAction], changing: Sequence[Difference]) -> str:
        """Return a digest that is equal for the same plan against the same state of what it touches."""
        rows: list[Json] = [[path_document(s.path), s.action, s.reason] for s in found if s.action != "keep"]
        facts = self.scene.facts
        flags: list[Json] = [[path_document(f.path), f.bits] for f in facts.flags]
        state: list[Json] = [facts.tree, flags, self.scene.head.oid]
        ends: list[Json] = [[f"{entry.mode} {entry.oid}" if entry else None for entry in (d.now, d.then)] for d in changing]
        value: dict[str, Json] = {"op": self.goal.op, "to": self.goal.target.id, "now": state, "ends": ends, "steps": rows}
        value["index"] = self.order.index
        return object_id(self.goal.store.objects.algorithm, "blob", canonical(value))

    def _warnings(self, changing: Sequence[Difference]) -> list[str]:
        then, now = self.goal.operation, self.scene.repo.operation()
        found = [*self.goal.warnings(changing), *self.scene.said]
        if said := self.scene.captured.warning:
            anew = index_anew(self.scene.repo.layout.index)
            found.append(f"{said}; it is left as it is, and files come back alone; to make it anew: {anew}")
        if now is not None:
            found.append(f"a {now.kind} is in progress; its own files are left alone")
        if then is not None and (now is None or now.kind != then.kind):
            found.append(f"a {then.kind} was in progress at the checkpoint; its own files do not come back")
        return found

    def _told(self, kept: Bytes) -> list[str]:
        """Return lines on exact bytes that do not come back, though a checkout gives what their filter made."""
        paths = [path for path in kept.cleaned if self.goal.asked.covers(path)]
        return [f"{path_in_quotes(path)}: {kept.cleaned[path]}" for path in paths[:_TOLD]]
