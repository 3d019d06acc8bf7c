"""What a run's records tell of its steps: each as it was asked for, the plan that they are of, how one ended, what it said."""

from __future__ import annotations

import hashlib
import os

from gitbaton.codec import in_quotes
from gitbaton.errors import RecordError, RunError, UsageError
from gitbaton.git.objects import Objects
from gitbaton.journal.state import RunState, StepState
from gitbaton.journal.values import MAX_PLAN, PLAN, Logged, Plan, Record, Step
from gitbaton.model import Oid
from gitbaton.render import in_shell
from gitbaton.running import plans
from gitbaton.running.context import OUTPUTS, TIMEOUT, UNKNOWN, Context
from gitbaton.values import replace


def step_of(record: Record) -> Step:
    """The step that a record of it tells of. What no record holds (retries, times, --catch) is as if it was not asked for, and
    so are lines that a secret was taken out of. Raises RecordError for one that names files outside the work tree: anybody may
    have written it."""
    step = Step(
        name=record.step or "",
        argv=record.argv,
        cwd=record.cwd or ".",
        after=tuple(name for name, _ in record.deps),
        reads=record.reads.globs if record.reads else (),
        writes=record.writes.globs if record.writes else (),
        env=tuple(name for name, _ in record.env),
        extra=record.extra,
        effect=record.effect or "none",
        compensate=in_full(record, record.compensate),
        probe=in_full(record, record.probe),
        verify=in_full(record, record.verify),
    )
    try:
        return plans.within(step)
    except UsageError as error:
        raise RecordError(f"record {record.seq} of run '{record.run}': {error.message}") from None


def in_full(record: Record, line: str | None) -> str | None:
    """A shell line of a record; None where a secret was taken out of it: what is left must never run."""
    return None if record.redacted and line is not None and "[redacted:" in line else line


def newest(state: StepState) -> Logged | None:
    """The record that tells best what a step is: how its newest attempt began, or ended."""
    told = (state.last, state.end, *state.ends[-1:], *(effect.logged for effect in state.effects[-1:]))
    found = [logged for logged in told if logged is not None]
    return max(found, key=lambda logged: logged.record.seq, default=None)


def defined(state: StepState, objects: Objects | None) -> Step | None:
    """A step of the command line as it was asked for, all of it; None where no record says so."""
    logged, plan = newest(state), _stored(objects, state.defined, alone=True) if objects is not None else None
    if logged is None or plan is None or len(plan.steps) != 1:
        return None
    step, record = plan.steps[0], logged.record
    same = step.name == state.name and (step.argv == record.argv or record.argv_more > 0)
    return step if same and not record.redacted else None


def steps_of(state: RunState, objects: Objects | None = None) -> tuple[Step, ...]:
    """All steps of a run, in the order in which they first began; with ``objects`` all that was asked for."""
    known = [(one, logged.record) for one in state.steps.values() if (logged := newest(one)) is not None]
    return tuple(defined(one, objects) or step_of(record) for one, record in known)


def kept_plan(state: RunState, objects: Objects) -> Plan | None:
    """The plan that a run follows, as its journal keeps it; None without one, and where it cannot be read."""
    return _stored(objects, state.plan.parts.get(PLAN)) if state.plan is not None and not state.over else None


def _stored(objects: Objects, oid: Oid | None, *, alone: bool = False) -> Plan | None:
    """The plan in a blob beside a record, ``alone`` as for plans.read; None where it cannot be read: anybody may have written
    it."""
    found = objects.read(oid, MAX_PLAN) if oid is not None else None
    try:
        return plans.read(found.data, "", alone=alone) if found is not None and found.data is not None else None
    except (UsageError, ValueError):
        return None


def whole(plan: Plan | None, state: RunState, objects: Objects | None = None) -> Plan:
    """A plan with the recorded steps that it does not name, after its own; ``objects`` as for ``steps_of``."""
    named = {step.name for step in plan.steps} if plan else set()
    others = tuple(step for step in steps_of(state, objects) if step.name not in named)
    if plan is None:
        return Plan(steps=others)
    return replace(plan, steps=(*plan.steps, *others)) if others else plan


def rebuilt(state: StepState, objects: Objects | None = None) -> Step:
    """The step of an unfinished beginning, ready to be carried out. Raises RunError 76 where its words are not all there."""
    step = defined(state, objects)
    if step is not None:
        return step
    logged = state.begun or newest(state)
    if logged is None or logged.record.redacted or logged.record.argv_more or not logged.record.argv:
        raise RunError(
            f"step {in_quotes(state.name)} cannot be taken up: its command is not recorded in full (a secret, or too long)",
            "run it again with the line that it was begun with",
            code=UNKNOWN,
        )
    return step_of(logged.record)


MAX_OUTPUT = 4 << 20


def exit_of(record: Record) -> int | None:
    """The exit status that an attempt was said to end with: of a failure never 0."""
    if record.type != "fail" or record.exit is None:
        return record.exit
    return TIMEOUT if record.timeout else record.exit or OUTPUTS


def output(objects: Objects, logged: Logged) -> tuple[bytes, bytes]:
    """What is kept of a step's standard output and standard error, at most their tails; empty where nothing is kept."""
    kept = [objects.read(logged.parts[name], MAX_OUTPUT) if name in logged.parts else None for name in ("stdout", "stderr")]
    out, err = ((found.data or b"") if found is not None and found.kind == "blob" else b"" for found in kept)
    return out, err


def everything(ctx: Context, plan: Plan | None = None, *, strict: bool = True) -> tuple[Plan, tuple[str, ...]]:
    """All steps of a run, those of its plan (the one given, or the one that the journal keeps) and those that are only
    recorded; and the names of those that belong to it still. Where the plan cannot be had: raises UsageError, or without
    ``strict`` warns, and then all recorded steps belong to it."""
    state = ctx.state()
    if plan is None and state.plan is not None:
        try:
            plan = opened(ctx, state.plan)
        except UsageError as error:
            if strict:
                raise
            ctx.emit("warning", text=error.message)
    of = whole(plan, state, ctx.objects)
    return of, tuple(step.name for step in (plan or of).steps)


def opened(ctx: Context, claim: Logged) -> Plan:
    """The plan that a run follows, as the journal keeps it; where a secret was taken out of its text, the file that it was
    read from, if it is still the same. Raises UsageError."""
    record = claim.record
    oid, name = claim.parts.get(PLAN), record.plan or PLAN
    found = ctx.objects.read(oid, MAX_PLAN) if oid else None
    text = found.data if found is not None else None
    path = record.plan if not claim.foreign else None  # what somebody else's record names is not opened
    there = _file(ctx, path, record.key)
    if text is None or (record.key is not None and hashlib.sha256(text).hexdigest() != record.key):
        text = there
    if text is None:
        raise UsageError(
            f"run '{ctx.run}' does not keep the text of its plan {in_quotes(name)}, and the file is not there as it was",
            "name the plan: git baton run --plan FILE",
        )
    if path is not None and there is None and os.path.exists(os.path.join(ctx.root, path)):
        said = f"{in_quotes(name)} is another plan now; run '{ctx.run}' follows the one that it was begun with"
        ctx.emit("warning", text=f"{said} ('git baton run --plan {in_shell(path)} --run {ctx.run}' takes up the new one)")
    return replace(plans.read(text, ctx.root, name=name), path=record.plan)


def digest(plan: Plan) -> str | None:
    """The digest of a plan's text, by which a claim names it; None of a plan without one."""
    return hashlib.sha256(plan.text).hexdigest() if plan.text is not None else None


def _file(ctx: Context, path: str | None, key: str | None) -> bytes | None:
    """What a plan's file holds, if that is what it held when it was taken up."""
    if path is None or key is None:
        return None
    try:
        text = plans.load(os.path.join(ctx.root, path))
    except (OSError, ValueError):
        return None
    return text if hashlib.sha256(text).hexdigest() == key else None
