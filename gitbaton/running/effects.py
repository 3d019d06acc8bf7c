"""What steps did outside git: which effects stand, and undoing them, the dependents' first, each noted before and after."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from gitbaton.codec import in_quotes
from gitbaton.errors import NoAnswerError, RunError, UsageError
from gitbaton.journal.state import EffectState, RunState, StepState
from gitbaton.journal.values import Logged, Plan, Step
from gitbaton.running.claims import Claim
from gitbaton.running.context import (
    UNDO_FAILED,
    UNKNOWN,
    Context,
    compensation_key,
    crash_at,
    environment,
    launch,
    said,
    settling,
    shell,
    status,
)
from gitbaton.running.graph import Graph, as_they_run, graph
from gitbaton.running.recorded import in_full, step_of, whole
from gitbaton.values import replace

Effect = tuple[str, EffectState]  # of which step
_NOT_IN_FULL = "its line is not recorded in full (a secret): the plan, or --compensate, must give it"


def live(state: RunState, names: Sequence[str]) -> tuple[Effect, ...]:
    """The effects that stand of steps (given in their order), the last first: the order in which they are to be undone."""
    found = []
    for name in reversed(names):
        found += [(name, effect) for effect in reversed(state.step(name).standing)]
    return tuple(found)


def _graph(ctx: Context, plan: Plan | None) -> Graph:
    """What hangs on what, of all steps of the run."""
    state = ctx.state()
    return graph(as_they_run(whole(plan, state).steps), state, ctx.entries)


def undo(ctx: Context, plan: Plan | None, effects: Iterable[Effect], claims: dict[str, Claim] | None = None) -> int:
    """Undo effects one after the other; 0, or 77 as soon as a compensation fails. ``claims``: of steps that are held already.
    An effect without a compensation stays, and a warning says so. Raises UsageError for one that was recorded elsewhere."""
    held = claims or {}
    for name, effect in effects:
        step = (plan.step(name) if plan is not None else None) or step_of(effect.logged.record)
        command = compensation(step, effect)
        if command is None and effect.logged.record.compensate is not None:
            ctx.emit("compensation-failed", name, _NOT_IN_FULL, code=UNDO_FAILED, key=effect.key)
            return UNDO_FAILED
        if command is None:
            ctx.emit("warning", name, f"step {in_quotes(name)} has an effect that nothing undoes: it declares no compensation")
            continue
        if effect.logged.foreign and not ctx.foreign:
            raise UsageError(
                f"the effect of step {in_quotes(name)} was recorded elsewhere",
                "its compensation is run only with --foreign: " + command,
            )
        if name in held:
            code = _one(ctx, held[name], step, effect, command)
        else:
            with ctx.claimed(name, (), tuple(held.values())) as claim:
                # Another process may have done it meanwhile.
                stands = any(e.idem == effect.idem for e in ctx.step_state(name).standing)
                code = _one(ctx, claim, step, effect, command) if stands else 0
        if code:
            return code
    return 0


def undo_own(ctx: Context, plan: Plan | None, name: str, own: Collection[EffectState], claim: Claim) -> int:
    """Undo effects of a step whose claim is held, those of all that hang on it first; 0, or 77. Raises as ``still``."""
    if not own:
        return 0
    with still(ctx, plan, (name,), {name: claim}) as held:
        others = tuple(n for n in _graph(ctx, plan).descendants((name,)) if n != name)
        mine = tuple((name, effect) for effect in own)
        return undo(ctx, plan, live(ctx.state(), others) + mine[::-1], held)


@contextmanager
def still(
    ctx: Context, plan: Plan | None, names: Collection[str], claims: Mapping[str, Claim] | None = None
) -> Iterator[dict[str, Claim]]:
    """Hold back all that hangs on these steps while effects are undone, when it is known what of it happened; gives all claims
    that are held. ``claims``: those held already. Raises RunError 78 where another process is at one of them and stays for
    longer than is waited, 76 where nobody knows what one of them did, UsageError for a fetched probe."""
    mine = dict(claims or {})
    at_work = {held.step for held in ctx.claims.others() if held.run == ctx.run}
    state = ctx.state()
    with ExitStack() as stack:
        for name in _graph(ctx, plan).descendants(names):
            step = state.step(name)
            known = step.begun or any(effect.state != "undone" for effect in step.effects)
            if name not in mine and (name in at_work or known):
                mine[name] = stack.enter_context(ctx.claimed(name, (), tuple(mine.values()), patient=False))
        for name, claim in mine.items():
            if name not in (claims or {}):
                _known(ctx, plan, name, claim)
        yield mine


def _known(ctx: Context, plan: Plan | None, name: str, claim: Claim) -> None:
    """Make sure that it is known whether the effects of a step happened: its probe is asked. Raises RunError 76."""
    while (effect := ctx.step_state(name).unknown) is not None:
        step = (plan.step(name) if plan is not None else None) or step_of(effect.logged.record)
        answer = ask(ctx, claim, step, effect)
        if answer is None:
            raise asked(name)
        settled(ctx, step, effect, "done" if answer else "undone", "the probe says so")


def is_dropped(state: StepState, names: Collection[str]) -> bool:
    """Whether a step is none of these, the plan's, any more; one of the command line never was."""
    return state.name not in names and state.defined is None


def tell_dropped(ctx: Context, names: Collection[str]) -> None:
    """Say which effects stand, or may, of steps that are none of these, the plan's, any more; those of the command line never
    were."""
    gone = "the plan does not name the step any more"
    for name, state in ctx.state().steps.items():
        if not is_dropped(state, names):
            continue
        if state.unknown is not None:
            ctx.emit("warning", name, f"nobody knows whether its effect happened, and {gone}; {settling(name)} decides")
        elif state.standing:
            undoes = any(effect.logged.record.compensate for effect in state.standing)
            hint = f"'git baton run compensate {name}' undoes it"
            hint = hint if undoes else f"nothing undoes it ('git baton run settle {name} --undone': it was undone by hand)"
            ctx.emit("warning", name, f"its effect stands, and {gone}; {hint}")


def undo_begun(ctx: Context, plan: Plan) -> int:
    """Go on with compensations that have begun and not ended well: before that nothing runs on. 0, or 77."""
    names = [step.name for step in plan.steps]
    return undo(ctx, plan, [(name, effect) for name, effect in live(ctx.state(), names) if effect.state == "undoing"])


def compensation(step: Step, effect: EffectState) -> str | None:
    """The command that undoes an effect: the one that was recorded with it, or where that failed, or cannot be told any more,
    the one that the step has now."""
    recorded = in_full(effect.logged.record, effect.logged.record.compensate)
    if effect.state == "undoing" or recorded is None:
        return step.compensate or recorded
    return recorded


def _one(ctx: Context, claim: Claim, step: Step, effect: EffectState, command: str) -> int:
    """One compensation, from its begin to its end."""
    idem = compensation_key(ctx, step.name, effect.idem)
    records = [logged.record for logged in ctx.step_state(step.name).records]
    number = sum(1 for r in records if r.type == "comp-begin" and r.compensates == effect.idem) + 1
    fields = {"key": effect.key, "idem": idem, "compensates": effect.idem, "compensate": command, "attempt": number}
    ctx.emit("compensate", step.name, command, key=effect.key, attempt=number)
    ctx.append(ctx.record("comp-begin", step.name, **fields))
    crash_at("after-comp-begin")
    if not os.path.isdir(os.path.join(ctx.root, step.cwd)):
        text = f"{in_quotes(step.cwd)}, where step {in_quotes(step.name)} ran, is not there"
        text += ": its effect is undone from the top of the work tree"
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
    of theirs stays because it has none. Raises NoAnswerError where none of them has an effect that stands, and as ``still``."""
    nothing = NoAnswerError(f"no effect of {', '.join(repr(name) for name in names)} stands")
    if not live(ctx.state(), names) and all(ctx.step_state(name).unknown is None for name in names):
        raise nothing
    with still(ctx, plan, names) as held:
        if not live(ctx.state(), names):  # as a probe said
            raise nothing
        effects = live(ctx.state(), _graph(ctx, plan).descendants(names))
        return undo(ctx, plan, effects, held) or int(bool(live(ctx.state(), names)))


def to_compensate(ctx: Context, names: Sequence[str], plan: Plan | None = None) -> tuple[Effect, ...]:
    """The effects that compensating steps by name would undo, in that order. Raises RunError 76 for one that is unknown."""
    every = _graph(ctx, plan).descendants(names)
    _answered(ctx, every)
    return live(ctx.state(), every)


def _answered(ctx: Context, names: Sequence[str]) -> None:
    """Refuse what cannot be undone because nobody knows whether it happened. Raises RunError 76."""
    for name in names:
        if ctx.step_state(name).unknown is not None:
            raise asked(name)


def approve(ctx: Context, step: Step, reject: bool = False, plan: Plan | None = None) -> int:
    """Open the gate at which a step waits, or that was closed, or close it: then the effects of all that leads to it are
    undone. 0, or 77 when a compensation fails. Raises NoAnswerError where it does not wait, RunError 76 where nobody knows
    whether an effect that leads to it happened."""
    state = ctx.step_state(step.name)
    if state.gate == "none" or (state.gate == "approved" and not reject):
        raise NoAnswerError(f"step {in_quotes(step.name)} does not wait at a gate")
    if state.gate != "rejected" or not reject:
        word = "rejected" if reject else "approved"
        ctx.append(ctx.record("approve", step.name, key=state.gate_key, state=word))
        ctx.emit("settled", step.name, word, key=state.gate_key)
    if not reject:
        return 0
    plan = plan or Plan(steps=(step,))
    names = _graph(ctx, plan).ancestors((step.name,))
    code = undo(ctx, plan, live(ctx.state(), names))
    if not code:
        _answered(ctx, names)
    return code


def ask(ctx: Context, claim: Claim, step: Step, effect: EffectState) -> bool | None:
    """What the probe says: 0 it happened, 1 it did not, all else (and no probe) nobody knows. Raises UsageError for a fetched
    one without --foreign."""
    record = effect.logged.record
    probe = in_full(record, record.probe) or step.probe
    if probe is None:
        return None
    if effect.logged.foreign and not ctx.foreign:
        raise UsageError(
            f"the probe of step {in_quotes(step.name)} was recorded elsewhere", "it is run only with --foreign: " + probe
        )
    env = environment(ctx, step.name, effect.idem, record.attempt or 1)
    ended = launch(ctx, claim, step, shell(probe), env, timeout=step.timeout, show=False)
    return {0: True, 1: False}.get(ended.exit) if not ended.timeout else None


def settled(ctx: Context, step: Step, effect: EffectState, word: str, text: str) -> Logged:
    """Write down what became of an effect: ``done`` or ``undone``, and who says so."""
    logged = ctx.append(ctx.record("settle", step.name, key=effect.key, idem=effect.idem, state=word, text=text))
    ctx.emit("settled", step.name, word, key=effect.key)
    return logged


def asked(name: str) -> RunError:
    """The question that only a person can answer."""
    return RunError(
        f"nobody knows whether the effect of step {in_quotes(name)} happened",
        f"look, and decide: {settling(name)}",
        code=UNKNOWN,
    )
