"""What the picker does to the repository: the plan that was shown, a conversation, branches, work trees, pins, labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from gitbaton import terminal
from gitbaton.agents.values import agent_of
from gitbaton.baton import Baton
from gitbaton.cli.common import warn_all
from gitbaton.cli.look import Cell, Look
from gitbaton.codec import counted, in_quotes, plain
from gitbaton.commands.restore import plan_conversation, show_plan, tell_written
from gitbaton.errors import BatonError, UsageError
from gitbaton.model import Op, Stored, is_turn
from gitbaton.restore.values import Order, Plan, Restored
from gitbaton.retention.pins import set_pin
from gitbaton.tools import branching, conversations, rewinding, worktrees
from gitbaton.values import replace


class Shown(NamedTuple):
    """A plan that somebody looks at. ``talk``: how the conversation would be written back; else ``why`` it cannot be."""

    order: Order
    plan: Plan
    talk: conversations.Plan | None = None
    why: str = ""

    @property
    def spoken(self) -> str:
        """What can become of the conversation, in a line."""
        lines = self.talk.data.count(b"\n") if self.talk else 0
        return f"{counted(lines, 'line')}, as a new session of {in_quotes(self.talk.agent)}" if self.talk else self.why


class Offers(NamedTuple):
    """What can be done at a row: ``plans``, of which the one at ``first`` is meant until another is picked; ``why`` a turn
    cannot be taken back, in words."""

    plans: tuple[Shown, ...]
    first: int = 0
    why: str = ""


class Deeds:
    """What was done, in its order: ``restored``, with what was said of each, and of all of it ``told``: what says it when the
    screen is gone. Every method raises BatonError."""

    def __init__(self, baton: Baton, look: Look) -> None:
        self.baton, self.look = baton, look
        self.restored: list[tuple[Restored, tuple[str, ...]]] = []
        self.told: list[Callable[[], None]] = []

    def shown(self, order: Order, op: Op, stored: Stored | None = None) -> Shown:
        """The plan of a restore, revert, undo or redo; with ``stored`` also what its conversation could become."""
        plan = rewinding.preview(self.baton, order, op)
        if stored is None:
            return Shown(order, plan)
        try:
            return Shown(order, plan, plan_conversation(self.baton, stored, foreign=order.foreign))
        except BatonError as error:
            return Shown(order, plan, why=plain(error.message))

    def offered(self, order: Order, stored: Stored | None, *, talk: bool) -> Offers:
        """To take back the turn of a checkpoint, or the open one, where it is of one, and to go back to it; with ``talk`` also
        what its conversation could become."""
        back = rewinding.of_turn(order, stored)
        if stored is None:
            return Offers((self.shown(back, "revert"),))
        there = self.shown(replace(order, checkpoint=stored.id), "restore", stored if talk else None)
        plan, why = rewinding.turn_back(self.baton, back)
        plans = (*([Shown(back, plan)] if plan else []), there)
        return Offers(plans, 0 if is_turn(stored.checkpoint.kind, stored.checkpoint.step) else len(plans) - 1, why)

    def carry_out(self, shown: Shown, *, files: bool, talk: bool) -> rewinding.Outcome | None:
        """Restore files, write the conversation, or both, just as shown; None for a conversation alone. Where the files would
        become something else now neither happens."""
        outcome = rewinding.carry_out(self.baton, shown.order, shown.plan) if files else None
        done = outcome.restored if outcome else None
        if outcome and done:
            said = (*outcome.said, *done.warnings)
            self.restored.append((done, said))
            self.told.append(partial(show_plan, done.plan, done.safety, said, dry_run=False, json=False))
        if talk and shown.talk and (done or not files):
            conversations.apply(shown.talk)
            self.told.append(partial(tell_written, shown.talk, shown.plan.target, dry_run=False))
        return outcome

    def branch(self, stored: Stored, name: str) -> str:
        """A branch of a checkpoint, as 'git baton branch' makes it."""
        plan = branching.plan(self.baton, name, stored)
        at = branching.apply(self.baton, plan)
        what = self.look.named(stored) if plan.commit else ((plan.reason, ""),)
        return self._said(f"branch {in_quotes(plan.name)} at {self.baton.abbreviate(at)}: ", what, plan.warnings)

    def worktree(self, stored: Stored, place: str) -> str:
        """A work tree of a checkpoint, as 'git baton worktree' makes it."""
        directory = os.path.expanduser(place)
        plan = worktrees.plan(self.baton, stored, directory)
        worktrees.apply(self.baton, plan)
        return self._said(f"checked out in {in_quotes(directory)}: ", self.look.named(stored), plan.warnings)

    def pin(self, stored: Stored) -> str:
        """A pin set, or the one there is taken back."""
        pinned = set_pin(self.baton, stored.id, pinned=True)[1]
        if not pinned:
            set_pin(self.baton, stored.id, pinned=False)
        return self._said("pinned " if pinned else "no longer pinned ", self.look.named(stored), ())

    def label(self, name: str) -> str:
        """A checkpoint of now with a label, of the current track, as 'git baton snapshot --label' takes it."""
        if not name.strip():
            raise UsageError("the label is empty")
        done = self.baton.snapshot(label=name, agent=agent_of(os.environ))
        return self._said(f"{plain(done.stored.checkpoint.track)} ", self.look.named(done.stored), done.warnings)

    def _said(self, text: str, what: Cell, warnings: Sequence[str]) -> str:
        """What was done, in a line, to be said again when the screen is gone."""
        self.told += [partial(terminal.say, self.look.fit(text, what)), partial(warn_all, list(warnings))]
        return "; ".join(["".join([text, *(piece for piece, _ in what)]), *map(plain, warnings)])
