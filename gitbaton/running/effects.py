"""What steps did outside git: which effects stand, and undoing them, the dependents' first, each noted before and after."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence

from gitbaton.errors import NoAnswerError, RunError, UsageError
from gitbaton.journal.crash import crash_at
from gitbaton.journal.state import EffectState, RunState
from gitbaton.journal.values import Plan, Step
from gitbaton.running.claims import Claim
from gitbaton.running.context import Context
from gitbaton.running.graph import order
from gitbaton.running.launching import compensation_key, environment, launch, said, shell, status
from gitbaton.running.recorded import step_of, whole
from gitbaton.running.region import Graph, graph
from gitbaton.running.results import UNDO_FAILED
from gitbaton.values import replace

Effect = tuple[str, EffectState]  # of which step
_STANDING = ("live", "undoing")


def live(state: RunState, names: Sequence[str]) -> tuple[Effect, ...]:
    """The effects that stand of steps (given in their order), the last first: the order in which they are to be undone."""
    found = []
    for name in reversed(names):
        step = state.steps.get(name)
        found += [(name, e) for e in reversed(step.effects) if e.state in _STANDING] if step is not None else []
    return tuple(found)


def below(ctx: Context, plan: Plan | None, names: Collection[str]) -> tuple[str, ...]:
    """The steps that hang on any of these, themselves included, in their order."""
    return _graph(ctx, plan).descendants(names)


def above(ctx: Context, plan: Plan | None, names: Collection[str]) -> tuple[str, ...]:
    """The steps that these hang on, themselves included, in their order."""
    return _graph(ctx, plan).ancestors(names)


def _graph(ctx: Context, plan: Plan | None) -> Graph:
    state = ctx.state()
    steps = whole(plan, state).steps
    try:
        steps = order(steps)
    except UsageError:  # steps of different times may wait for each other in a circle
        pass
    return graph(steps, state, lambda tree: ctx.entries(tree).keys())


def to_undo(ctx: Context, plan: Plan | None, name: str, own: Iterable[EffectState]) -> tuple[Effect, ...]:
    """What must be undone for the effects ``own`` of a step: those of all that hang on it first. Nothing for none."""
    mine = tuple((name, effect) for effect in own)
    if not mine:
        return ()
    others = tuple(n for n in below(ctx, plan, (name,)) if n != name)
    return live(ctx.state(), others) + mine[::-1]


def undo(ctx: Context, plan: Plan | None, effects: Iterable[Effect], claims: dict[str, Claim] | None = None) -> int:
    """Undo effects one after the other; 0, or 77 as soon as a compensation fails. ``claims``: of steps that are held already.
    An effect without a compensation stays, and a warning says so. Raises UsageError for one that was recorded elsewhere."""
    held = claims or {}
    for name, effect in effects:
        step = (plan.step(name) if plan is not None else None) or step_of(effect.logged.record)
        command = compensation(step, effect)
        if command is None:
            ctx.emit("warning", name, f"step '{name}' has an effect that nothing undoes: it declares no compensation")
            continue
        if effect.logged.foreign and not ctx.foreign:
            raise UsageError(
                f"the effect of step '{name}' was recorded elsewhere", "its compensation is run only with --foreign: " + command
            )
        if name in held:
            code = _one(ctx, held[name], step, effect, command)
        else:
            with ctx.claimed(name, (), tuple(held.values())) as claim:
                code = _one(ctx, claim, step, effect, command) if _stands(ctx, name, effect) else 0
        if code:
            return code
    return 0


def _stands(ctx: Context, name: str, effect: EffectState) -> bool:
    """Whether an effect is still to be undone: another process may have done it while its claim was waited for."""
    state = ctx.step_state(name)
    return state is not None and any(e.idem == effect.idem and e.state in _STANDING for e in state.effects)


def compensation(step: Step, effect: EffectState) -> str | None:
    """The command that undoes an effect: the one that was recorded with it, or where that failed, or cannot be told any more,
    the one that the step has now."""
    recorded = None if effect.logged.record.redacted else effect.logged.record.compensate
    if effect.state == "undoing" or recorded is None:
        return step.compensate or recorded
    return recorded


def _one(ctx: Context, claim: Claim, step: Step, effect: EffectState, command: str) -> int:
    """One compensation, from its begin to its end."""
    idem = compensation_key(ctx, step.name, effect.idem)
    records = [logged.record for logged in ctx.of_step(step.name)]
    number = sum(1 for r in records if r.type == "comp-begin" and r.compensates == effect.idem) + 1
    fields = {"key": effect.key, "idem": idem, "compensates": effect.idem, "compensate": command, "attempt": number}
    ctx.emit("compensate", step.name, command, key=effect.key, attempt=number)
    ctx.append(ctx.record("comp-begin", step.name, **fields))
    crash_at("after-comp-begin")
    if not os.path.isdir(os.path.join(ctx.root, step.cwd)):
        text = f"'{step.cwd}', where step '{step.name}' ran, is not there: its effect is undone from the top of the work tree"
        ctx.emit("warning", step.name, text)
        step = replace(step, cwd=".")
    env = environment(ctx, step.name, idem, number, GIT_BATON_COMPENSATES=effect.idem)
    ended = launch(ctx, claim, step, shell(command), env, timeout=step.timeout, point="in-compensation")
    crash_at("before-comp-end")
    fields |= {"exit": ended.exit, "signal": ended.signal, "timeout": ended.timeout, "duration_ms": ended.duration_ms}
    if ended.exit == 0 and not ended.timeout:
        ctx.append(ctx.record("comp-end", step.name, **fields))
        ctx.emit("compensated", step.name, key=effect.key, seconds=ended.duration_ms / 1000)
        return 0
    ctx.append(ctx.record("comp-fail", step.name, **fields, text=said(ended) or None))
    ctx.emit("compensation-failed", step.name, status(ended), code=ended.exit, key=effect.key)
    return UNDO_FAILED


def compensate(ctx: Context, names: Sequence[str], plan: Plan | None = None) -> int:
    """Undo the effects of steps by name, those of all that hang on them first; 0, 77 when a compensation fails, or 1 when one
    of theirs stays because it has none. Raises NoAnswerError where none of them has an effect that stands."""
    effects = live(ctx.state(), below(ctx, plan, names))
    if not any(name in names for name, _ in effects):
        raise NoAnswerError(f"no effect of {', '.join(repr(name) for name in names)} stands")
    return undo(ctx, plan, effects) or int(bool(live(ctx.state(), names)))


def approve(ctx: Context, step: Step, reject: bool = False, plan: Plan | None = None) -> int:
    """Open the gate at which a step waits, or close it for good: then the effects of all that leads to it are undone. 0, or 77
    when a compensation fails. Raises NoAnswerError where it does not wait."""
    state = ctx.step_state(step.name)
    if state is None or state.gate == "none" or (state.gate != "waiting" and not reject):
        raise NoAnswerError(f"step '{step.name}' does not wait at a gate")
    if state.gate != "rejected":
        word = "rejected" if reject else "approved"
        ctx.append(ctx.record("approve", step.name, key=state.gate_key, state=word))
        ctx.emit("settled", step.name, word, key=state.gate_key)
    if not reject:
        return 0
    plan = plan or Plan(steps=(step,))
    return undo(ctx, plan, live(ctx.state(), above(ctx, plan, (step.name,))))


def unknown(state: RunState, name: str) -> EffectState | None:
    """The newest effect of a step of which nobody knows whether it happened."""
    step = state.steps.get(name)
    return next((e for e in reversed(step.effects) if e.state == "unknown"), None) if step is not None else None


def asked(name: str) -> RunError:
    """The question that only a person can answer."""
    return RunError(
        f"nobody knows whether the effect of step '{name}' happened",
        f"look, and decide: git baton settle {name} --done | --undone",
        code=76,
    )
