"""Repair: a plan whose named steps are forced. What they reach runs where its inputs change, and nothing else does."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gitbaton.codec import in_quotes
from gitbaton.errors import NoAnswerError, NotFoundError, RunError
from gitbaton.journal.values import Cause, Logged, Plan
from gitbaton.running.context import Context, Done, Outcome, crash_at
from gitbaton.running.effects import undo_begun
from gitbaton.running.graph import Graph, as_they_run, graph, readers, touched
from gitbaton.running.recorded import rebuilt, whole
from gitbaton.running.report import FORCED, Forecast, forecast
from gitbaton.running.step import perform
from gitbaton.values import replace, value


@value
class Order:
    """What is to be repaired: ``steps`` by name, the steps that read any of ``paths`` (quoted globs) or of ``changed`` (files
    that differ since a checkpoint; None: not asked for); where nothing is asked for, what failed and what changed."""

    steps: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None


@value
class Repair:
    """What a repair would do. ``seeds``: where it begins, and why; ``region``: those and all that hangs on them, in order, of
    which those run whose inputs come out different; ``forecasts`` of the region's steps; ``writes``: the globs below which
    files may change."""

    run: str
    seeds: tuple[tuple[str, Cause], ...]
    region: tuple[str, ...]
    forecasts: tuple[Forecast, ...]
    writes: tuple[str, ...]


def plan(ctx: Context, order: Order, of: Plan, scope: Collection[str]) -> Repair:
    """What a repair would do now. ``of``: all steps of the run; ``scope``: those that belong to it still, as its plan says.
    Others are only done again where they are named. Raises NotFoundError for a step that is none of them, NoAnswerError for a
    path that no step reads."""
    of = replace(of, steps=as_they_run([step for step in of.steps if step.name in {*scope, *order.steps}]))
    edges = graph(of.steps, ctx.state(), ctx.entries)
    seeds = _seeds(ctx, order, of, edges)
    force = {name: cause for name, cause in seeds.items() if cause.kind in FORCED}
    region = edges.descendants(seeds)
    known = {step.name: step for step in of.steps}
    ordered = [known[name] for name in region]
    writes = tuple(dict.fromkeys(glob for step in ordered for glob in step.writes))
    return Repair(
        run=ctx.run,
        seeds=tuple((name, seeds[name]) for name in region if name in seeds),
        region=region,
        forecasts=forecast(ctx, ordered, of, force),
        writes=writes,
    )


def _seeds(ctx: Context, order: Order, of: Plan, edges: Graph) -> dict[str, Cause]:
    """The steps at which the repair begins, and why."""
    state, seeds = ctx.state(), {}
    for name in order.steps:
        if name not in edges.names:
            raise NotFoundError(f"run '{ctx.run}' has no step {in_quotes(name)}", f"it has {', '.join(edges.names[:20])}")
        seeds[name] = Cause(kind="named", path=name)
    for path in order.paths:
        found = readers(of.steps, state, ctx.entries, (path,))
        if not found:
            raise NoAnswerError(f"no step of run '{ctx.run}' reads {in_quotes(path)}")
        for name, read in found.items():
            seeds.setdefault(name, Cause(kind="path", path=read))
    for name, read in touched(of.steps, state, ctx.entries, order.changed or ()).items():
        seeds.setdefault(name, Cause(kind="since", path=read))
    if not seeds and order.changed is None:
        return {f.step.name: f.cause for f in forecast(ctx, of.steps, of) if f.would == "run" and f.cause is not None}
    return _with_needed(ctx, of, edges, seeds) if seeds else seeds


def _with_needed(ctx: Context, of: Plan, edges: Graph, seeds: dict[str, Cause]) -> dict[str, Cause]:
    """The seeds, and what the region cannot be right without: steps above it that have no result, or one from other inputs."""
    above = edges.ancestors(edges.descendants(seeds))
    wanted = [step for step in of.steps if step.name in above and step.name not in seeds]
    region = edges.descendants(seeds)
    for item in forecast(ctx, wanted, of):
        needed = item.would == "run" and item.step.name not in region
        if needed and item.cause is not None and item.cause.kind not in ("not-cacheable", "unstable"):
            seeds[item.step.name] = item.cause
    return seeds


def apply(ctx: Context, repair: Repair, of: Plan, scope: Collection[str]) -> Outcome:
    """Carry a repair out: its record first, then the region. Raises RunError 79 of a guard."""
    states: list[Done] = []
    if not repair.seeds:
        return Outcome(code=0, run=ctx.run)
    seeds = dict(repair.seeds)
    cause = repair.seeds[0][1]
    ctx.append(ctx.record("repair", region=repair.region, cause=cause, text=encoded(seeds)))
    crash_at("in-repair")
    code = _carry_out(ctx, of, {*scope, *repair.region}, seeds, states)
    return Outcome(code=code, states=tuple(states), run=ctx.run)


def _carry_out(ctx: Context, of: Plan, scope: Collection[str], seeds: Mapping[str, Cause], states: list[Done]) -> int:
    """Carry out once each of the steps that the seeds reach, also by what they come to write, and record how that ended. The
    exit status of the first step that does not come to its result, or 0."""
    steps = {step.name: step for step in as_they_run([step for step in of.steps if step.name in scope])}
    done: set[str] = set()

    def region() -> tuple[str, ...]:
        return graph(tuple(steps.values()), ctx.state(), ctx.entries).descendants(seeds)

    def note(state: str, text: str | None = None) -> None:
        ctx.append(ctx.record("repair", region=region(), cause=next(iter(seeds.values())), state=state, text=text))

    try:
        while left := [name for name in region() if name not in done]:
            for name in left:
                cause = seeds.get(name)
                force = cause if cause is not None and cause.kind in FORCED else None
                last = perform(ctx, steps[name], of, force=force)
                states.append(last)
                if last.state == "failed":
                    note("stopped", f"step {in_quotes(name)} failed with {last.code}")
                if not last.good:
                    return last.code
                done.add(name)
    except RunError as error:
        note("stopped", error.message)
        raise
    note("complete")
    return 0


def encoded(seeds: Mapping[str, Cause]) -> str:
    """Seeds as a record's text: a line each, the step, the kind of its cause, and what that names."""
    return "\n".join(" ".join((name, cause.kind, *((cause.path,) if cause.path else ()))) for name, cause in seeds.items())


def decoded(text: str) -> dict[str, Cause]:
    """What ``encoded`` wrote."""
    found = {}
    for line in text.split("\n"):
        name, _, rest = line.partition(" ")
        kind, _, path = rest.partition(" ")
        if name and kind:
            found[name] = Cause(kind=kind, path=path or None)
    return found


def recover(ctx: Context, of: Plan, states: list[Done], others: Sequence[str] | None = None) -> int:
    """Finish what was interrupted: compensations, then a repair with its region, then, each once, the steps that have begun or
    failed, or of whose effect nobody knows, and are none of ``others`` (None: those are left). The exit status of the first
    that did not come to its result, or 0."""
    state = ctx.state()
    every = whole(of, state)
    names = [step.name for step in every.steps]
    code = undo_begun(ctx, every)
    if code:
        return code
    open_ = ctx.state().repair
    if open_ is not None:
        code = _finish(ctx, open_, every, states, {step.name for step in of.steps} or names)
    if others is not None and not code:
        code = _singles(ctx, every, states, others)
    return code


def _singles(ctx: Context, every: Plan, states: list[Done], others: Sequence[str]) -> int:
    """Each step that is none of ``others``, and has begun or failed, once more."""
    code, state = 0, ctx.state()
    for name, known in state.steps.items():
        effect = known.unknown or known.bare
        if name in others or not (known.begun or effect or (known.failed is not None and state.unfinished(known))):
            continue
        step = rebuilt(known, ctx.objects)
        if any(ctx.step_state(n).end is None for n in step.after):
            continue  # what it waits for has failed again
        ctx.defined.add(name)
        done = perform(ctx, step, every)
        states.append(done)
        if done.state == "interrupted":
            return done.code
        code = code or (0 if done.good else done.code)
    return code


def _finish(ctx: Context, record: Logged, of: Plan, states: list[Done], scope: Collection[str]) -> int:
    """Go on with a repair; seeds that have a result since its record are not forced again."""
    seeds, state = dict[str, Cause](), ctx.state()
    known = {step.name for step in of.steps}
    for name, cause in decoded(record.record.text or "").items():
        end = state.step(name).end
        done = end is not None and end.record.seq > record.record.seq
        if name in known:
            seeds[name] = Cause(kind="crashed") if done else cause
    return _carry_out(ctx, of, {*scope, *record.record.region}, seeds, states) if seeds else 0
