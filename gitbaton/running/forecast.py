"""What would happen with each step if a run went on now, without doing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gitbaton.errors import GitError
from gitbaton.journal.state import EffectState, StepState
from gitbaton.journal.values import Cause, Logged, Plan, Step
from gitbaton.model import Oid
from gitbaton.running.ahead import Ahead
from gitbaton.running.context import Context
from gitbaton.running.decide import Present, Verdict, decide, may_be_lost, may_borrow, why
from gitbaton.running.gates import closed
from gitbaton.running.recorded import whole
from gitbaton.running.region import Graph, graph
from gitbaton.values import cast, replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Would = Literal["cached", "run", "depends", "gate", "rejected", "probe", "trust", "waits", "conflict", "error"]
else:
    Would = str


STANDS = ("cached", "conflict")  # what a step with a result that moves no other may become
FORCED = ("named", "path", "since", "widened")  # causes that make a step run even where its key is the same


@value
class Forecast:
    """What would become of a step. ``cached``: its result (``logged``) is served. ``run``: it runs, for ``cause``. ``depends``:
    it runs only if one of the steps ``on`` gives something else than before; with a ``cause``: unless they give what they once
    gave. ``gate``: it waits for approval, ``waits``: for a step that does. ``rejected``: its gate is closed. ``probe``: its
    outcome is unknown and is asked for first. ``trust``: its effect happened, and what lies there is taken if it holds.
    ``undo``: the steps whose effects are compensated before it runs, in that order; where one that runs anyway has ``on``:
    unless these give what they once gave. ``conflict``: its result is not served, because of what somebody else wrote at one
    of its outputs, the path ``problem``. ``error``: it cannot be told, for ``problem``. ``key``: its key, after what is served
    before it; that of a step that depends on others may become another. ``now``: what that key is made from."""

    step: Step
    would: Would
    key: str
    cause: Cause | None = None
    on: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()
    logged: Logged | None = None
    now: Present | None = None
    problem: str = ""


def edges_of(ctx: Context, plan: Plan) -> Graph:
    """What hangs on what among the steps of a run, as the plan and the journal tell it now."""
    return graph(plan.steps, ctx.state(), lambda tree: paths(ctx, tree))


def paths(ctx: Context, tree: Oid) -> Collection[str]:
    """The paths of the files of a stored tree."""
    return ctx.entries(tree).keys()


def forecast(
    ctx: Context, steps: Sequence[Step], of: Plan | None = None, force: Mapping[str, Cause] | None = None
) -> tuple[Forecast, ...]:
    """What would become of these steps, in their order, were they done in the order in which they run. ``of``: the plan that
    they are of; ``force``: those that are run even where nothing changed. Objects of the files that are read are written:
    redirect the repository first where nothing may be left."""
    ahead = Ahead(ctx, whole(of or Plan(steps=tuple(steps)), ctx.state()).steps)
    wanted, found = {step.name: step for step in steps}, {}
    for step in ahead.steps:
        if step.name in wanted:
            try:
                made = _one(ahead, wanted[step.name], (force or {}).get(step.name))
            except GitError as error:  # a file that cannot be read: of the others it can be told
                made = Forecast(step=step, would="error", key="", problem=error.message)
            found[step.name] = made
            if made.would not in STANDS:
                ahead.moving[step.name] = made.would
    shut = closed(ctx, steps) if force is None else None
    return tuple(_behind(found[step.name], shut) if shut is not None else found[step.name] for step in steps)


def _behind(item: Forecast, shut: tuple[Step, str]) -> Forecast:
    """A step of a plan that ends at once, because a gate in it was rejected."""
    step, key = shut
    if item.step.name == step.name:
        return replace(item, would="rejected", key=key, cause=None, on=(), undo=())
    return item if item.would in STANDS else replace(item, would="waits", on=(step.name,), undo=())


def _one(ahead: Ahead, step: Step, force: Cause | None) -> Forecast:
    """The forecast of a step; what serving it would change is told to ``ahead``."""
    state, now = ahead.known(step.name), ahead.present(step)
    above = ahead.above(step.name)
    blocked = tuple(name for name in above if ahead.moving[name] in ("gate", "rejected", "waits"))
    if blocked:
        return Forecast(step=step, would="waits", key=now.key, on=blocked, now=now)
    verdict = decide(step, state, now, force)
    served = verdict.logged if verdict.what == "hit" else None
    if served is None and not above and force is None and may_borrow(step, verdict):
        served = ahead.ctx.journal.find(now.key, but=ahead.ctx.run)
    if served is not None and above:
        return _depends(ahead, step, now, above)
    if served is not None:
        found = ahead.materials(step, served)
        if found is not None:
            ahead.serve(step, now, served, found)
            if found.edited:
                return Forecast(step=step, would="conflict", key=now.key, logged=served, now=now, problem=found.edited[0])
            return Forecast(step=step, would="cached", key=now.key, logged=served, now=now)
        if verdict.what == "hit":
            verdict = decide(step, state, now, force or Cause(kind="output"))
    if verdict.what in ("run", "gate") and force is None and above and ahead.may_be_served(step, now):
        return replace(_depends(ahead, step, now, above), cause=_cause(ahead, step, now, verdict))
    if verdict.what == "run" and may_be_lost(ahead.ctx, step, state):
        return Forecast(step=step, would="probe", key=now.key, now=now)
    if verdict.what != "run":
        return Forecast(step=step, would=cast(Would, verdict.what), key=now.key, now=now)
    cause = _cause(ahead, step, now, verdict)
    perhaps = ahead.may_stay(step, now) if above and (force is None or force.kind != "named") else ()
    effects = _standing(state) if perhaps else verdict.undo
    undo = ahead.undone(step.name, effects, sure=not perhaps)
    return Forecast(step=step, would="run", key=now.key, cause=cause, on=above if perhaps else (), undo=undo, now=now)


def _depends(ahead: Ahead, step: Step, now: Present, above: tuple[str, ...]) -> Forecast:
    """A step that is served if those above it give what they gave, and else runs; then its effects are undone first."""
    undo = ahead.undone(step.name, _standing(ahead.known(step.name)), sure=False)
    return Forecast(step=step, would="depends", key=now.key, on=above, undo=undo, now=now)


def _standing(state: StepState | None) -> tuple[EffectState, ...]:
    return tuple(e for e in state.effects if e.state in ("live", "undoing")) if state is not None else ()


def _cause(ahead: Ahead, step: Step, now: Present, verdict: Verdict) -> Cause | None:
    """Why it runs; of changed inputs the first file."""
    cause = verdict.cause
    if cause is None or cause.kind == "input":
        cause = why(step, ahead.known(step.name), now, ahead.ctx.entries) or cause
    return cause
