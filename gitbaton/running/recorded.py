"""Steps and plans as the records of a run tell them."""

from __future__ import annotations

from gitbaton.errors import RecordError, RunError, UsageError
from gitbaton.git.objects import Objects
from gitbaton.journal.state import RunState, StepState
from gitbaton.journal.values import Logged, Plan, Record, Step
from gitbaton.running.planfile import LARGEST, PLAN
from gitbaton.running.results import UNKNOWN
from gitbaton.values import replace
from gitbaton.worktree import globs


def step_of(record: Record) -> Step:
    """The step that a record of it tells of. What no record holds (retries, times, --catch) is as if it was not asked for, and
    so are lines that a secret was taken out of. Raises RecordError for one that names files outside the work tree: anybody may
    have written it."""
    return Step(
        name=record.step or "",
        argv=record.argv,
        cwd=_folder(record),
        after=tuple(name for name, _ in record.deps),
        reads=_globs(record, record.reads.globs if record.reads else ()),
        writes=_globs(record, record.writes.globs if record.writes else ()),
        env=tuple(name for name, _ in record.env),
        extra=record.extra,
        effect=record.effect or "none",
        compensate=in_full(record, record.compensate),
        probe=in_full(record, record.probe),
        verify=in_full(record, record.verify),
    )


def in_full(record: Record, line: str | None) -> str | None:
    """A shell line of a record; None where a secret was taken out of it: what is left must never run."""
    return None if record.redacted and line is not None and "[redacted:" in line else line


def _globs(record: Record, given: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(globs.check(glob) for glob in given)
    except UsageError as error:
        raise RecordError(f"record {record.seq} of run '{record.run}': {error.message}") from None


def _folder(record: Record) -> str:
    folder = record.cwd or "."
    if folder.startswith("/") or any(name == ".." or name.lower() == ".git" for name in folder.split("/")):
        raise RecordError(f"record {record.seq} of run '{record.run}' has the folder '{folder}', which is not of the work tree")
    return folder


def newest(state: StepState) -> Logged | None:
    """The record that tells best what a step is: how its newest attempt began, or ended."""
    told = (state.last, state.end, *state.ends[-1:], *(effect.logged for effect in state.effects[-1:]))
    found = [logged for logged in told if logged is not None]
    return max(found, key=lambda logged: logged.record.seq, default=None)


def defined(state: StepState, objects: Objects | None) -> Step | None:
    """A step of the command line as it was asked for, all of it; None where no record says so."""
    logged = newest(state)
    found = objects.read(state.defined, LARGEST) if objects is not None and state.defined is not None else None
    if logged is None or found is None or found.data is None:
        return None
    from gitbaton.running import plans

    try:
        (step,) = plans.read(found.data, "", alone=True).steps
    except (UsageError, ValueError):  # it was written elsewhere, by anybody
        return None
    record = logged.record
    same = step.name == state.name and (step.argv == record.argv or record.argv_more > 0)
    return step if same and not record.redacted else None


def steps_of(state: RunState, objects: Objects | None = None) -> tuple[Step, ...]:
    """All steps of a run, in the order in which they first began; with ``objects`` all that was asked for."""
    known = [(one, logged.record) for one in state.steps.values() if (logged := newest(one)) is not None]
    return tuple(defined(one, objects) or step_of(record) for one, record in known)


def kept_plan(state: RunState, objects: Objects) -> Plan | None:
    """The plan that a run follows, as its journal keeps it; None without one, and where it cannot be read."""
    oid = state.plan.parts.get(PLAN) if state.plan is not None and not state.over else None
    found = objects.read(oid, LARGEST) if oid is not None else None
    if found is None or found.data is None:
        return None
    from gitbaton.running import plans

    try:
        return plans.read(found.data, "")
    except (UsageError, ValueError):  # it was written elsewhere, by anybody
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
            f"step '{state.name}' cannot be taken up: its command is not recorded in full (a secret, or too long)",
            "run it again with the line that it was begun with",
            code=UNKNOWN,
        )
    return step_of(logged.record)
