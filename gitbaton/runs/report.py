"""Forecast and report of a run: what would become of each step if it went on now, and what is known of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError, NotFoundError
from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, cast, replace, value
from gitbaton.git.worktree import globs
from gitbaton.git.worktree.filetrees import FileEntry, same
from gitbaton.runs.claims import Held
from gitbaton.runs.context import Context
from gitbaton.runs.decide import (
    Present,
    Verdict,
    borrowed,
    decide,
    hit,
    key_differences,
    may_be_lost,
    may_borrow,
    present,
    why,
)
from gitbaton.runs.effects import compensation, live, noted
from gitbaton.runs.graph import as_they_run, edges, graph
from gitbaton.runs.journal.state import EffectState, RunState, StepState
from gitbaton.runs.journal.values import Cause, Logged, Plan, Record, Step
from gitbaton.runs.outputs import Materials, materials, ours_of, result_of
from gitbaton.runs.plans import exit_of, newest, step_of, whole

if TYPE_CHECKING:
    from typing import Literal

    Would = Literal["cached", "run", "depends", "gate", "rejected", "probe", "trust", "waits", "conflict", "error"]
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

STANDS = ("cached", "conflict")  # what a step with a result that moves no other may become
FORCED = ("named", "path", "since", "widened")  # causes that make a step run even where its key is the same


@value
class Forecast:
    """Forecast of a step. ``cached``: its result (``logged``) is served. ``run``: it runs, for ``cause``. ``depends``: it
    runs only if one of the steps ``on`` gives something else than before; with a ``cause``: unless they give what they once
    gave. ``gate``: it waits for approval, ``waits``: for a step that does. ``rejected``: its gate is closed. ``probe``: its
    outcome is unknown and is asked for first. ``trust``: its effect happened, and what lies there is taken if it holds.
    ``undo``: the steps whose effects are compensated before it runs, in that order; where one that runs anyway has ``on``:
    unless these give what they once gave. ``conflict``: its result is not served, because of a foreign file at one of its
    outputs, the path ``problem``. ``error``: it cannot be told, for ``problem``. ``key``: its key, after what is served
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


def forecast(
    ctx: Context, steps: Sequence[Step], of: Plan | None = None, force: Mapping[str, Cause] | None = None
) -> tuple[Forecast, ...]:
    """Foretell what would become of these steps, in their order, were they done in the order in which they run. ``of``: the
    plan that they are of; ``force``: those that are run even where nothing changed. Objects of the files that are read are
    written: redirect the repository first where nothing may be left."""
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
    state, now = ahead.state.step(step.name), present(ahead.ctx, step, state=ahead.state.step, changed=ahead.files)
    above = ahead.above(step.name)
    blocked = tuple(name for name in above if ahead.moving[name] in ("gate", "rejected", "waits"))
    if blocked:
        return Forecast(step=step, would="waits", key=now.key, on=blocked, now=now)
    verdict = decide(step, state, now, force)
    served = verdict.logged if verdict.what == "hit" else None
    if served is None and not above and force is None and may_borrow(step, verdict):
        served = borrowed(ahead.ctx, now)
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
    if verdict.what == "run" and may_be_lost(ahead.ctx, step, state, now):
        return Forecast(step=step, would="probe", key=now.key, now=now)
    if verdict.what != "run":
        return Forecast(step=step, would=cast("Would", verdict.what), key=now.key, now=now)
    cause = _cause(ahead, step, now, verdict)
    loose = bool(above) and (force is None or force.kind != "named")  # what it did before may be of what its inputs become
    perhaps = loose and any(e.state == "live" and ahead.may_be(step, now, e.logged.record) for e in state.effects)
    effects = state.standing if perhaps else verdict.undo
    undo = ahead.undone(step.name, effects, sure=not perhaps)
    return Forecast(step=step, would="run", key=now.key, cause=cause, on=above if perhaps else (), undo=undo, now=now)


def _depends(ahead: Ahead, step: Step, now: Present, above: tuple[str, ...]) -> Forecast:
    """A step that is served if those above it give what they gave, and else runs; then its effects are undone first."""
    undo = ahead.undone(step.name, ahead.state.step(step.name).standing, sure=False)
    return Forecast(step=step, would="depends", key=now.key, on=above, undo=undo, now=now)


def _cause(ahead: Ahead, step: Step, now: Present, verdict: Verdict) -> Cause | None:
    """Why it runs; of changed inputs the first file."""
    cause = verdict.cause
    if cause is None or cause.kind == "input":
        cause = why(step, ahead.state.step(step.name), now, ahead.ctx.entries) or cause
    return cause


class Ahead:
    """A run as it would be after the steps that were told of so far. ``steps``: all of it, in the order in which they run.
    ``moving``: those that may give something else than they did."""

    def __init__(self, ctx: Context, steps: Sequence[Step]) -> None:
        self.ctx, self.state = ctx, ctx.state()
        self.steps = as_they_run(steps)
        self.moving: dict[str, str] = {}
        self.files: dict[str, FileEntry | None] = {}  # what served steps would leave otherwise than it is
        self._needs = edges(self.steps)
        self._below = graph(self.steps, self.state, ctx.entries).below
        self._named = {step.name: step for step in self.steps}

    def above(self, name: str) -> tuple[str, ...]:
        """Return the steps that may move and feed a step."""
        uses = self._needs.get(name, {})
        return tuple(n for n in self.moving if n in uses or name in self._below.get(n, {}))

    def may_be_served(self, step: Step, now: Present) -> bool:
        """Whether a result of this run may stand for what a step's inputs become when the moving steps are done."""
        state = self.state.step(step.name)
        ends = (logged.record for logged in state.ends)
        known = (record for record in ends if record.key is not None and hit(step, state, record.key) is not None)
        return any(self.may_be(step, now, record) for record in known)

    def may_be(self, step: Step, now: Present, record: Record) -> bool:
        """Whether a record differs from now only in what moving steps make."""
        loose = globs.matcher([glob for name in self.moving for glob in self._named[name].writes])

        def open_(cause: Cause) -> bool:
            path = cause.path or ""
            return (cause.kind == "dep" and path in self.moving) or (cause.kind == "input" and loose(path))

        return all(map(open_, key_differences(step, record, now, self.ctx.entries)))

    def materials(self, step: Step, logged: Logged) -> Materials | None:
        """Return what serving a result would change in the work tree; None where it cannot be served."""
        ctx, state = self.ctx, self.state.step(step.name)
        here, result = ctx.files.scan(step.writes, store=step.store).entries, result_of(ctx, logged)
        other = {path: entry for path, entry in here.items() if not same(entry, result.get(path))}
        left = noted(ctx, step.name) is not None  # by an attempt: it is put back before
        found = materials(here, result, other.keys() if left else ours_of(ctx, state, other))
        return None if found.absent else found

    def serve(self, step: Step, now: Present, logged: Logged, found: Materials) -> None:
        """A result is served."""
        self.files |= found.want
        end = replace(logged, record=replace(logged.record, reads=now.reads))
        self._put(replace(self.state.step(step.name), end=end, failed=None, begun=None))

    def undone(self, name: str, own: Sequence[EffectState], *, sure: bool) -> tuple[str, ...]:
        """Return the steps whose effects are undone with these of a step, in that order; ``sure``: they are."""
        if not own:
            return ()
        below = graph(self.steps, self.state, self.ctx.entries).descendants((name,))
        effects = [*live(self.state, [n for n in below if n != name]), *((name, effect) for effect in reversed(own))]
        steps = {n: self._named.get(n) or step_of(effect.logged.record) for n, effect in effects}
        effects = [(n, effect) for n, effect in effects if compensation(steps[n], effect) is not None]
        for n, effect in effects if sure else ():
            state = self.state.steps[n]
            left = tuple(replace(e, state="undone") if e.idem == effect.idem else e for e in state.effects)
            stands = state.end is not None and state.end.record.idem != effect.idem
            self._put(replace(state, effects=left, end=state.end if stands else None))
        return tuple(dict.fromkeys(n for n, _ in effects))

    def _put(self, state: StepState) -> None:
        self.state = replace(self.state, steps={**self.state.steps, state.name: state})


def closed(ctx: Context, steps: Sequence[Step]) -> tuple[Step, str] | None:
    """Return the first of these steps (each after those it needs) whose gate was rejected for the inputs of now, and its
    key. The steps before it count as they ended last, if their own inputs are as they were then: their effects may be
    undone. Raises GitError."""
    last = ctx.state().steps
    if not any(step.gate is not None and step.name in last and last[step.name].gate == "rejected" for step in steps):
        return None
    last = {name: replace(one, end=one.end or next(reversed(one.ends), None)) for name, one in last.items()}
    as_they_ended = RunState(steps=last)
    needs = edges(steps)
    files: dict[str, FileEntry | None] = {}
    unchanged: set[str] = set()
    for step in steps:
        if step.name not in last or not unchanged.issuperset(needs.get(step.name, ())):
            continue
        known, now = last[step.name], present(ctx, step, state=as_they_ended.step, changed=files)
        if step.gate is not None and known.gate == "rejected" and known.gate_key == now.key:
            return step, now.key
        if known.end is not None and known.end.record.key == now.key:
            unchanged.add(step.name)
            files |= result_of(ctx, known.end)
    return None


@value
class Line:
    """One step. ``state``: ``ok`` (its result stands), ``stale`` (it would run, or may: see ``would``), ``failed``,
    ``running`` (by process ``pid`` on ``host``; without ``pid`` its command has outlived that process), ``crashed`` (begun,
    and no process is at it), ``waiting`` at its gate, ``rejected`` there, ``unknown`` (whether its effect happened),
    ``undoing`` (its compensation has not ended well), ``never-run``, ``dropped`` (the plan does not name it),
    ``unreadable`` (its files cannot be read: see ``would``). ``exit``, ``at`` (when its newest record ended) and
    ``duration_ms`` are of the newest attempt. ``effect``: ``none``, ``live``, ``unknown``, ``undoing`` or ``undone``.
    ``moved``: outputs that are not here as they were recorded."""

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


def report(ctx: Context, of: Plan, scope: Collection[str]) -> Report:
    """Report the state of each step. ``of``: all steps of the run; ``scope``: those that belong to it still. Raises
    GitError."""
    state = ctx.state()
    held = {claim.step: claim for claim in ctx.claims.others() if claim.run == ctx.run}
    lines = []
    for item in _forecasts(ctx, of, scope):
        known = state.step(item.step.name)
        line = _line(ctx, item, known, held.get(item.step.name))
        lines.append(line if item.step.name in scope or line.state == "running" else replace(line, state="dropped"))
    plan = state.plan.record.plan if state.plan is not None else of.path
    return Report(run=ctx.run, finished=state.finished, why=state.why, plan=plan, lines=tuple(lines))


def _forecasts(ctx: Context, of: Plan, scope: Collection[str]) -> tuple[Forecast, ...]:
    """Foretell what would become of each step; one that does not belong to the run any more moves no other."""
    parts = [tuple(step for step in of.steps if (step.name in scope) == inside) for inside in (True, False)]
    found = {item.step.name: item for part in parts for item in forecast(ctx, part, of)}
    return tuple(found[step.name] for step in of.steps)


def explain(ctx: Context, of: Plan, name: str, scope: Collection[str]) -> tuple[Forecast, tuple[Cause, ...]]:
    """Return what would become of a step, and why it would run again, in full: all in which its inputs, its declaration and
    its outputs differ from its newest record, with old and new ids; empty where nothing does. ``of`` and ``scope`` as for
    ``report``. Raises NotFoundError when the run has no such step."""
    item = next((f for f in _forecasts(ctx, of, scope) if f.step.name == name), None)
    if item is None:
        names = ", ".join(step.name for step in of.steps[:20])
        raise NotFoundError(f"run '{ctx.run}' has no step {in_quotes(name)}", *((f"it has {names}",) if names else ()))
    known = ctx.step_state(name)
    logged = newest(known)
    found: list[Cause] = []
    if logged is not None and item.now is not None:
        found += key_differences(item.step, logged.record, item.now, ctx.entries)
        found += [Cause(kind="output", path=p, old=a, new=b) for p, a, b in _moved(ctx, item.step, item.logged or known.end)]
    causes = {(cause.kind, cause.path) for cause in found}
    if item.cause is not None and (item.cause.kind, item.cause.path) not in causes:
        found.insert(0, item.cause)
    return item, tuple(found)


def _line(ctx: Context, item: Forecast, known: StepState, held: Held | None) -> Line:
    logged = newest(known)
    record = logged.record if logged is not None else None
    moved = tuple(path for path, _, _ in _moved(ctx, item.step, item.logged))
    effect = known.effects[-1].state if known.effects else "none"
    state = _state_of(item, known, effect, held)
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


def _state_of(item: Forecast, known: StepState, effect: str, held: Held | None) -> Standing:
    rows: tuple[tuple[bool, Standing], ...] = (  # the first that holds
        (held is not None, "running"),
        (known.begun is not None and known.begun.record.effect == "once", "unknown"),
        (known.begun is not None, "crashed"),
        (effect == "undoing", "undoing"),
        (known.unknown is not None or item.would == "trust", "unknown"),
        (known.gate == "waiting", "waiting"),
        (item.would == "rejected", "rejected"),
        (known.failed is not None, "failed"),
        (not known.ends and known.attempts > 0, "crashed"),
        (not known.ends, "never-run"),
        (item.would == "error", "unreadable"),
        (item.would in STANDS, "ok"),
    )
    return next((state for holds, state in rows if holds), "stale")


def _moved(ctx: Context, step: Step, end: Logged | None) -> Iterator[tuple[str, Oid, Oid | None]]:
    """The outputs of a result that are not in the work tree as they were recorded: path, recorded and present blob."""
    if end is None:
        return
    now = ctx.files.scan(step.writes, store=step.store).entries
    for path, entry in sorted(result_of(ctx, end).items()):
        here = now.get(path)
        if not same(here, entry):
            yield path, entry.oid, here.oid if here is not None else None
