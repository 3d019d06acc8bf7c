"""The run as it would be after some of its steps, without doing them: what is served, what may move, and what is undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitbaton.errors import UsageError
from gitbaton.journal.state import EffectState, StepState
from gitbaton.journal.values import Cause, Logged, Record, Step
from gitbaton.running.context import Context
from gitbaton.running.decide import Present, differences, hit, present
from gitbaton.running.effects import Effect, compensation, live
from gitbaton.running.graph import edges, order
from gitbaton.running.recorded import step_of
from gitbaton.running.region import graph
from gitbaton.running.serving import Materials, materials, ours_of, result_of
from gitbaton.running.underway import noted
from gitbaton.running.writeset import same
from gitbaton.values import replace
from gitbaton.worktree import globs
from gitbaton.worktree.filesets import Entry


class Ahead:
    """A run as it would be after the steps that were told of so far. ``steps``: all of it, in the order in which they run.
    ``moving``: those that may give something else than they did."""

    def __init__(self, ctx: Context, steps: Sequence[Step]) -> None:
        self.ctx, self.state = ctx, ctx.state()
        try:
            self.steps = order(steps)
        except UsageError:  # steps of different times may wait for each other in a circle
            self.steps = tuple(steps)
        self.moving: dict[str, str] = {}
        self._files: dict[str, Entry | None] = {}  # what served steps would leave otherwise than it is
        self._needs = edges(self.steps)
        self._below = graph(self.steps, self.state, self._paths).below
        self._named = {step.name: step for step in self.steps}

    def known(self, name: str) -> StepState | None:
        """What the journal would say of a step."""
        return self.state.steps.get(name)

    def present(self, step: Step) -> Present:
        """A step's key as it would be."""
        return present(self.ctx, step, state=self.known, changed=self._files)

    def above(self, name: str) -> tuple[str, ...]:
        """The steps that may move and whose outputs a step uses."""
        uses = self._needs.get(name, {})
        return tuple(n for n in self.moving if n in uses or name in self._below.get(n, {}))

    def may_be_served(self, step: Step, now: Present) -> bool:
        """Whether a result of this run may stand for what a step's inputs become when the moving steps are done."""
        state = self.known(step.name)
        ends = (logged.record for logged in (state.ends if state is not None else ()))
        known = (record for record in ends if record.key is not None and hit(step, state, record.key) is not None)
        return any(self._may_be(step, now, record) for record in known)

    def may_stay(self, step: Step, now: Present) -> tuple[EffectState, ...]:
        """The effects of a step that are of what its inputs may become."""
        state = self.known(step.name)
        effects = state.effects if state is not None else ()
        return tuple(e for e in effects if e.state == "live" and self._may_be(step, now, e.logged.record))

    def _may_be(self, step: Step, now: Present, record: Record) -> bool:
        """Whether a record differs from now only in what moving steps make."""
        loose = globs.matcher([glob for name in self.moving for glob in self._named[name].writes])

        def open_(cause: Cause) -> bool:
            path = cause.path or ""
            return (cause.kind == "dep" and path in self.moving) or (cause.kind == "input" and loose(path))

        return all(map(open_, differences(step, record, now, self.ctx.entries)))

    def materials(self, step: Step, logged: Logged) -> Materials | None:
        """What serving a result would change in the work tree; None where it cannot be served."""
        ctx, state = self.ctx, self.known(step.name)
        here, result = ctx.files.scan(step.writes, store=step.store).entries, result_of(ctx, logged)
        other = {path: entry for path, entry in here.items() if not same(entry, result.get(path))}
        left = noted(ctx, step.name) is not None  # by an attempt: it is put back before
        found = materials(here, result, other.keys() if left else ours_of(ctx, step.name, state, other))
        return None if found.absent else found

    def serve(self, step: Step, now: Present, logged: Logged, found: Materials) -> None:
        """A result is served."""
        self._files |= found.want
        end = replace(logged, record=replace(logged.record, reads=now.reads))
        state = self.known(step.name) or StepState(name=step.name)
        self._put(replace(state, end=end, failed=None, begun=None))

    def undone(self, name: str, own: Sequence[EffectState], *, sure: bool) -> tuple[str, ...]:
        """The steps whose effects are undone with these of a step, in that order; ``sure``: they are."""
        if not own:
            return ()
        below = graph(self.steps, self.state, self._paths).descendants((name,))
        effects = [*live(self.state, [n for n in below if n != name]), *((name, effect) for effect in reversed(own))]
        effects = [pair for pair in effects if self._undoable(pair)]
        for n, effect in effects if sure else ():
            state = self.state.steps[n]
            left = tuple(replace(e, state="undone") if e.idem == effect.idem else e for e in state.effects)
            stands = state.end is not None and state.end.record.idem != effect.idem
            self._put(replace(state, effects=left, end=state.end if stands else None))
        return tuple(dict.fromkeys(n for n, _ in effects))

    def _undoable(self, pair: Effect) -> bool:
        name, effect = pair
        return compensation(self._named.get(name) or step_of(effect.logged.record), effect) is not None

    def _put(self, state: StepState) -> None:
        self.state = replace(self.state, steps={**self.state.steps, state.name: state})

    def _paths(self, tree: str) -> Mapping[str, Entry]:
        return self.ctx.entries(tree)
