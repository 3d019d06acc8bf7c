"""Decisions: which action each path gets (write, create, remove, keep, refuse). Whose a path is: attribution.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gitbaton.codec import in_quotes
from gitbaton.model import INSIDE, covered
from gitbaton.restore.values import CHANGING, UNKNOWN, Step
from gitbaton.values import value
from gitbaton.worktree.checkout import GITLINK, NESTED, Difference, Guard
from gitbaton.worktree.filetrees import parents


@value
class Facts:
    """What is known of the paths that differ.

    ``unsafe``: why a path's present content is in no capture; ``left``: why the checkpoint does not know a path, by path;
    ``known``: paths that the checkpoint knew and did not have; ``ignored_then``: what its ignore rules cover; ``hidden``:
    what git was told to skip, and is not on disk; ``named``: paths that the user named one by one. ``absent``: what must come
    back or go and is in no capture at all, with the reason.
    """

    unsafe: Callable[[str], str | None]
    left: Mapping[str, str]
    known: Collection[str]
    ignored_then: Callable[[list[str]], Collection[str]]
    hidden: Collection[str]
    named: Collection[str]
    absent: Mapping[str, str]
    exact: bool
    force: bool
    always: bool = False


class Decider:
    """The steps for the differences in scope; ``everything`` are those of the whole work tree."""

    def __init__(self, scope: Sequence[Difference], everything: Sequence[Difference], guard: Guard, facts: Facts) -> None:
        self.scope, self.guard, self.facts = scope, guard, facts
        self.held = {d.path for d in everything if d.now is not None and not (guard.within and d.now.mode == GITLINK)}
        self.replaced = self._replaced()
        self.steps = {d.path: self._first(d) for d in scope}
        self._exact()
        self.steps |= {path: Step(path=path, action="refuse", reason=reason) for path, reason in facts.absent.items()}

    def _replaced(self) -> set[str]:
        """Files and links that stand where the checkpoint has a directory: it knows the name, if not the file."""
        coming = _above(d.path for d in self.scope if d.then is not None)
        return {d.path for d in self.scope if d.then is None and d.path in coming}

    def _first(self, d: Difference) -> Step:
        reason = self._never(d) or self._nested(d)
        if reason is not None:
            return Step(path=d.path, action="refuse", reason=reason)
        if d.then is None:
            wanted = self.facts.always or d.path in self.facts.known or d.path in self.replaced
            return Step(path=d.path, action="remove") if wanted else Step(path=d.path, action="keep", reason=UNKNOWN)
        if d.now is not None:
            return Step(path=d.path, action="write")
        reason = self.guard.in_the_way(d.path)
        return Step(path=d.path, action="refuse", reason=reason) if reason else Step(path=d.path, action="create")

    def _never(self, d: Difference) -> str | None:
        """Why a path is not touched whatever is asked."""
        if any(entry is not None and entry.mode == GITLINK for entry in (d.now, d.then)):
            return "submodule"
        reason = self.facts.unsafe(d.path)
        if reason in INSIDE and d.now is None and self.guard.within:
            reason = None  # nothing of it is there to be lost
        reason = reason or covered(d.path, self.facts.left)
        asked = self.facts.force or self.facts.always or d.path in self.facts.named
        if reason is None and d.path in self.facts.hidden and not asked:
            reason = "skip-worktree"
        return reason

    def _nested(self, d: Difference) -> str | None:
        """Why a path is not touched that lies in a repository of its own: what is there is that one's. What a step took from
        there comes back."""
        back = self.guard.within and d.then is not None
        return NESTED if not back and self.guard.in_repository(d.path) else None

    def _exact(self) -> None:
        """What goes, but for what the checkpoint's ignore rules cover: known deletions, and with --exact what is unknown."""
        going = ("keep", "remove") if self.facts.exact else ("remove",)
        steps = self.steps.values()
        unknown = [s.path for s in steps if s.action in going and s.path not in self.replaced and not self.facts.always]
        if not unknown:
            return
        ignored = self.facts.ignored_then(unknown)
        for path in unknown:
            if path in ignored:
                self.steps[path] = Step(path=path, action="keep", reason="ignored at the checkpoint")
            else:
                self.steps[path] = Step(path=path, action="remove")

    def changing(self) -> list[Difference]:
        """The differences that are to be changed as things stand."""
        return [d for d in self.scope if self.steps[d.path].action in CHANGING]

    def leave(self, reasons: Mapping[str, str]) -> None:
        """Leave paths alone that are somebody else's, unless they are named or forced."""
        for path, reason in reasons.items():
            if not self.facts.force and path not in self.facts.named:
                self.steps[path] = Step(path=path, action="conflict", reason=reason)

    def settle(self) -> list[Step]:
        """The steps, after every path has made way, or has not been made way for."""
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
                self.steps[d.path] = Step(path=d.path, action="refuse", reason=f"{in_quotes(blocker)} is in the way")
                found = True
        return found

    def _needless(self) -> bool:
        """Keep a file that was to make way for a directory of which nothing comes."""
        coming = _above(d.path for d in self.changing() if d.then is not None)
        always = self.facts.always or self.facts.exact
        found = False
        for path in self.replaced:
            step = self.steps[path]
            if step.action == "remove" and path not in coming and path not in self.facts.known and not always:
                self.steps[path] = Step(path=path, action="keep", reason=UNKNOWN)
                found = True
        return found


def _above(paths: Iterable[str]) -> set[str]:
    return {folder for path in paths for folder in parents(path)}
