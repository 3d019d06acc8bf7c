"""What would happen with each step if a run went on now, without doing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gitbaton.journal.state import RunState
from gitbaton.journal.values import Cause, Plan, Step
from gitbaton.model import Oid
from gitbaton.running.context import Context
from gitbaton.running.decide import Present, Verdict, decide, present, why
from gitbaton.running.region import Graph, graph
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Would = Literal["cached", "run", "depends", "gate", "rejected", "probe", "trust", "waits"]
else:
    Would = str


FORCED = ("named", "path", "since", "widened")  # causes that make a step run even where its key is the same


@value
class Forecast:
    """What would become of a step. ``cached``: its result is served. ``run``: it runs, for ``cause``. ``depends``: it runs only
    if one of the steps ``on`` gives something else than before. ``gate``: it waits for approval, ``waits``: for a step that
    does. ``rejected``: its gate is closed. ``probe``: its outcome is unknown and is asked for first. ``trust``: its effect
    happened, and what lies there is taken if it holds. ``undo``: the steps whose effects are compensated before it runs, in
    that order. ``key``: its key now; that of a step that depends on others may become another."""

    step: Step
    would: Would
    key: str
    cause: Cause | None = None
    on: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()


def edges_of(ctx: Context, plan: Plan) -> Graph:
    """What hangs on what among the steps of a run, as the plan and the journal tell it now."""
    return graph(plan.steps, ctx.state(), lambda tree: paths(ctx, tree))


def paths(ctx: Context, tree: Oid) -> Collection[str]:
    """The paths of the files of a stored tree."""
    return ctx.entries(tree).keys()


def forecast(
    ctx: Context, steps: Sequence[Step], graph: Graph, force: Mapping[str, Cause] | None = None
) -> tuple[Forecast, ...]:
    """What would become of these steps, in their order. ``force``: those that are run even where nothing changed. Objects of
    the files that are read are written: redirect the repository first where nothing may be left. Raises GitError."""
    state, found = ctx.state(), {}
    moving: dict[str, Would] = {}  # the steps that may give something else than they did
    for step in steps:
        now = present(ctx, step)
        one = (force or {}).get(step.name)
        verdict = decide(step, state.steps.get(step.name), now, one)
        above = [name for name in graph.inputs(step.name) if name in moving]
        found[step.name] = made = _one(ctx, step, now, verdict, above, moving)
        if made.would != "cached":
            moving[step.name] = made.would
    undone: set[str] = set()
    return tuple(_with_undo(item, state, graph, undone) for item in found.values())


def _one(
    ctx: Context, step: Step, now: Present, verdict: Verdict, above: Sequence[str], moving: Mapping[str, Would]
) -> Forecast:
    blocked = tuple(name for name in above if moving[name] in ("gate", "rejected", "waits"))
    if blocked:
        return Forecast(step=step, would="waits", key=now.key, on=blocked)
    if verdict.what == "hit":
        return Forecast(step=step, would="depends" if above else "cached", key=now.key, on=tuple(above))
    if verdict.what != "run":
        return Forecast(step=step, would=verdict.what, key=now.key)
    cause = verdict.cause
    if not above and _borrowed(ctx, step, now, verdict):
        return Forecast(step=step, would="cached", key=now.key)
    if cause is None or cause.kind == "input":
        cause = why(step, ctx.state().steps.get(step.name), now, ctx.entries) or cause
    return Forecast(step=step, would="run", key=now.key, cause=cause)


def _borrowed(ctx: Context, step: Step, now: Present, verdict: Verdict) -> bool:
    """Whether a result of another run of this repository is served."""
    kind = verdict.cause.kind if verdict.cause is not None else ""
    if step.effect != "none" or not step.cacheable or verdict.undo or kind in (*FORCED, "failed", "unstable"):
        return False
    return ctx.journal.find(now.key, but=ctx.run) is not None


def _with_undo(item: Forecast, state: RunState, graph: Graph, undone: set[str]) -> Forecast:
    """The forecast with the effects that are undone first: those of what hangs on the step, from the last to the first, and
    then its own."""
    if item.would != "run" or not _live(state, item.step.name):
        return item
    if not _undoes(item, state):
        return item
    below = graph.descendants((item.step.name,))
    names = tuple(name for name in reversed(below) if _live(state, name) and name not in undone)
    undone.update(names)
    return Forecast(step=item.step, would=item.would, key=item.key, cause=item.cause, on=item.on, undo=names)


def _undoes(item: Forecast, state: RunState) -> bool:
    named = item.cause is not None and item.cause.kind == "named"
    live = [e for e in state.steps[item.step.name].effects if e.state in ("live", "undoing")]
    return any(named or e.state == "undoing" or e.key != item.key or e.logged.record.effect == "once" for e in live)


def _live(state: RunState, name: str) -> bool:
    known = state.steps.get(name)
    return known is not None and any(effect.state in ("live", "undoing") for effect in known.effects)
