"""What is known of each step of a run, held against the work tree now: its state, and why it would run again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from gitbaton.errors import NotFoundError
from gitbaton.journal.state import StepState
from gitbaton.journal.values import Cause, Logged, Plan, Step
from gitbaton.model import Oid
from gitbaton.running.claims import Held
from gitbaton.running.context import Context
from gitbaton.running.decide import differences
from gitbaton.running.forecast import STANDS, Forecast, forecast
from gitbaton.running.outputs import result_of
from gitbaton.running.recorded import newest
from gitbaton.running.results import exit_of
from gitbaton.values import replace, value
from gitbaton.worktree.filetrees import same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Standing = Literal[
        "ok",
        "stale",
        "failed",
        "running",
        "crashed",
        "waiting",
        "rejected",
        "unknown",
        "undoing",
        "never-run",
        "dropped",
        "unreadable",
    ]
else:
    Standing = str


@value
class Line:
    """One step. ``state``: ``ok`` (its result stands), ``stale`` (it would run, or may: see ``would``),
    ``failed``, ``running`` (by process ``pid`` on ``host``; without ``pid`` its command has outlived that process),
    ``crashed`` (begun, and nobody is at it), ``waiting`` at its gate, ``rejected`` there, ``unknown`` (whether its effect
    happened), ``undoing`` (its compensation has not ended well), ``never-run``, ``dropped`` (the plan does not name it),
    ``unreadable`` (its files cannot be read: see ``would``).
    ``exit``, ``at`` (when its newest record ended) and ``duration_ms`` are of the newest attempt. ``effect``: ``none``,
    ``live``, ``unknown``, ``undoing`` or ``undone``. ``moved``: outputs that are not here as they were recorded."""

    step: str
    state: Standing
    would: Forecast
    exit: int | None = None
    at: datetime | None = None
    duration_ms: int | None = None
    key: str | None = None
    attempts: int = 0
    nondeterministic: bool = False
    effect: str = "none"
    pid: int | None = None
    host: str | None = None
    moved: tuple[str, ...] = ()


@value
class Report:
    """A run. ``finished``, and ``why`` not; ``plan``: the path of its plan; the steps in their order."""

    run: str
    finished: bool
    why: tuple[str, ...]
    plan: str | None
    lines: tuple[Line, ...]


@value
class Why:
    """All in which a step's inputs, its declaration and its outputs differ from its newest record, with old and new ids; empty
    where nothing does. ``would`` says what would become of it."""

    step: str
    would: Forecast
    differences: tuple[Cause, ...]


def report(ctx: Context, of: Plan, scope: Collection[str]) -> Report:
    """What is known of each step. ``of``: all steps of the run; ``scope``: those that belong to it still. Raises GitError."""
    state = ctx.state()
    held = {claim.step: claim for claim in ctx.claims.others() if claim.run == ctx.run}
    lines = []
    for item in _forecasts(ctx, of, scope):
        known = state.steps.get(item.step.name) or StepState(name=item.step.name)
        line = _line(ctx, item, known, held.get(item.step.name))
        lines.append(line if item.step.name in scope or line.state == "running" else replace(line, state="dropped"))
    plan = state.plan.record.plan if state.plan is not None else of.path
    return Report(run=ctx.run, finished=state.finished, why=state.why, plan=plan, lines=tuple(lines))


def _forecasts(ctx: Context, of: Plan, scope: Collection[str]) -> tuple[Forecast, ...]:
    """What would become of each step; one that does not belong to the run any more moves no other."""
    parts = [tuple(step for step in of.steps if (step.name in scope) == inside) for inside in (True, False)]
    found = {item.step.name: item for part in parts for item in forecast(ctx, part, of)}
    return tuple(found[step.name] for step in of.steps)


def why(ctx: Context, of: Plan, name: str, scope: Collection[str]) -> Why:
    """Why a step would run again, in full. ``of`` and ``scope`` as for ``report``. Raises NotFoundError when the run has no
    such step."""
    item = next((f for f in _forecasts(ctx, of, scope) if f.step.name == name), None)
    if item is None:
        names = ", ".join(step.name for step in of.steps[:20])
        raise NotFoundError(f"run '{ctx.run}' has no step '{name}'", *((f"it has {names}",) if names else ()))
    known = ctx.state().steps.get(name)
    logged = newest(known) if known is not None else None
    found: list[Cause] = []
    if logged is not None and known is not None and item.now is not None:
        found += differences(item.step, logged.record, item.now, ctx.entries)
        found += [Cause(kind="output", path=p, old=a, new=b) for p, a, b in _moved(ctx, item.step, item.logged or known.end)]
    causes = {(cause.kind, cause.path) for cause in found}
    if item.cause is not None and (item.cause.kind, item.cause.path) not in causes:
        found.insert(0, item.cause)
    return Why(step=name, would=item, differences=tuple(found))


def _line(ctx: Context, item: Forecast, known: StepState, held: Held | None) -> Line:
    logged = newest(known)
    record = logged.record if logged is not None else None
    moved = tuple(path for path, _, _ in _moved(ctx, item.step, item.logged))
    effect = known.effects[-1].state if known.effects else "none"
    state = _standing(item, known, effect, held)
    begun = known.begun if state == "crashed" else None
    return Line(
        step=item.step.name,
        state=state,
        would=item,
        exit=exit_of(record) if record is not None else None,
        at=record.at if record is not None else None,
        duration_ms=record.duration_ms if record is not None else None,
        key=record.key if record is not None else None,
        attempts=known.attempts,
        nondeterministic=any(end.record.nondeterministic for end in known.ends),
        effect=effect,
        pid=held.pid if held is not None and not held.dead else begun.record.pid if begun is not None else None,
        host=held.host if held is not None else None,
        moved=moved,
    )


def _standing(item: Forecast, known: StepState, effect: str, held: Held | None) -> Standing:
    if held is not None:
        return "running"
    if known.begun is not None:
        return "unknown" if known.begun.record.effect == "once" else "crashed"
    if effect == "undoing":
        return "undoing"
    if known.unknown is not None or item.would == "trust":
        return "unknown"
    if known.gate == "waiting" or item.would == "gate":
        return "waiting"
    if item.would == "rejected":
        return "rejected"
    if known.failed is not None:
        return "failed"
    if not known.ends:
        return "crashed" if known.attempts else "never-run"
    if item.would == "error":
        return "unreadable"
    return "ok" if item.would in STANDS else "stale"


def _moved(ctx: Context, step: Step, end: Logged | None) -> Iterator[tuple[str, Oid, Oid | None]]:
    """The outputs of a result that are not in the work tree as they were recorded: path, recorded and present blob."""
    if end is None:
        return
    now = ctx.files.scan(step.writes, store=step.store).entries
    for path, entry in sorted(result_of(ctx, end).items()):
        here = now.get(path)
        if not same(here, entry):
            yield path, entry.oid, here.oid if here is not None else None
