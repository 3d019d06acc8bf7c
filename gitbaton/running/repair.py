"""Repair: the steps that a mistake reaches are done again, and nothing else; wider only where that does not help."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from gitbaton.codec import in_quotes
from gitbaton.errors import NoAnswerError, NotFoundError, RunError
from gitbaton.journal.values import Cause, Logged, Plan, Step
from gitbaton.running.context import Context, Done, Outcome, crash_at
from gitbaton.running.decide import present
from gitbaton.running.effects import live, undo_begun
from gitbaton.running.graph import Graph, graph, readers, touched
from gitbaton.running.recorded import rebuilt, whole
from gitbaton.running.report import FORCED, Forecast, forecast
from gitbaton.running.step import Guards, perform
from gitbaton.values import replace, value


@value
class Order:
    """What is to be repaired: ``steps`` by name, the steps that read any of ``paths`` (quoted globs) or of ``changed`` (files
    that differ since a checkpoint; None: not asked for); where nothing is asked for, what failed and what changed.
    ``radius``: so many levels of the steps whose outputs these use are done again, too."""

    steps: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None
    radius: int = 0


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
    edges = graph(of.steps, ctx.state(), ctx.entries).within({*scope, *order.steps})
    of = replace(of, steps=tuple(step for step in of.steps if step.name in edges.names or step.name in order.steps))
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
    for name in edges.widened(seeds, order.radius):
        seeds.setdefault(name, Cause(kind="widened", path=next(iter(seeds))))
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


def apply(ctx: Context, repair: Repair, of: Plan, guards: Guards, scope: Collection[str]) -> Outcome:
    """Carry a repair out: its record first, then the region, and where a step fails again the ladder: alone and isolated, with
    the steps whose outputs it uses, with the whole run. Raises RunError 79 of a guard."""
    if not repair.seeds:
        return Outcome(code=0, run=ctx.run)
    work = _Work(ctx, of, guards, {*scope, *repair.region})
    code = work.carry_out(dict(repair.seeds))
    return Outcome(code=code, states=tuple(work.states), run=ctx.run)


class _Work:
    """A repair under way."""

    def __init__(self, ctx: Context, of: Plan, guards: Guards, scope: Collection[str]) -> None:
        self.ctx, self.of, self.guards = ctx, of, guards
        self.steps = {step.name: step for step in of.steps if step.name in scope}
        self.states: list[Done] = []
        self._begins: dict[str, Cause] = {}  # all seeds so far
        self._keys: dict[str, str | None] = {}  # with which each step has its result
        self._alone: set[str] = set()

    def carry_out(self, seeds: dict[str, Cause], *, noted: bool = False) -> int:
        """All of it. ``noted``: the record of these seeds is in the journal."""
        try:
            bad = self._try(seeds, None, noted=noted)
            for rung in (self._isolated, self._inputs, self._everything):
                if bad is None or bad.state != "failed":
                    break
                more = rung(bad)
                if more is not None:
                    bad = self._try(more, bad)
        except RunError as error:
            self._note("stopped", text=error.message)
            raise
        if bad is None:
            self._note("complete")
        elif bad.state == "failed":
            self._note("stopped", text=f"step {in_quotes(bad.step.name)} failed with {bad.code}")
        return 0 if bad is None else bad.code

    def _try(self, seeds: dict[str, Cause], failed: Done | None, *, noted: bool = False) -> Done | None:
        """One rung of the ladder: the step that did not come to its result, None when all have."""
        self._begins |= {name: cause for name, cause in seeds.items() if name not in self._begins}
        if not noted:
            self._note(None, seeds, failed)
            crash_at("in-repair")
        bad = self._through({name: cause for name, cause in seeds.items() if cause.kind in FORCED})
        if bad is not None and bad.state == "failed":
            record = bad.logged.record if bad.logged else None
            stderr = record.stderr.oid if record is not None and record.stderr is not None else None
            self.guards.failed(bad.step.name, record.key if record else None, bad.code, stderr)
        return bad

    def _note(
        self, state: str | None, seeds: Mapping[str, Cause] | None = None, failed: Done | None = None, text: str = ""
    ) -> None:
        """A record of the repair: its region, why, and its seeds or how it ended."""
        region = self._edges().descendants(self._begins)
        causes = [*(seeds or {}).values(), *self._begins.values()]
        cause = Cause(kind="widened", path=failed.step.name) if failed is not None else causes[0]
        record = self.ctx.record("repair", region=region, cause=cause, state=state, text=text or encoded(seeds or {}) or None)
        self.ctx.append(record)

    def _edges(self) -> Graph:
        return graph(self.of.steps, self.ctx.state(), self.ctx.entries).within(self.steps)

    def _through(self, force: dict[str, Cause]) -> Done | None:
        """Go through the region until nothing in it is to be done; the step that did not come to its result, or None."""
        while True:
            moved = False
            for name in self._edges().descendants(self._begins):
                step = self.steps[name]
                if name not in force and self._keys.get(name) == present(self.ctx, step).key:
                    continue
                done = self._one(step, force.pop(name, None))
                if not done.good:
                    return done
                moved = True
            if not moved:
                return None

    def _one(self, step: Step, cause: Cause | None) -> Done:
        if step.name in self._alone:
            step = replace(step, isolate="tree", retries=0)
        done = perform(self.ctx, step, self.of, force=cause)
        self.states.append(done)
        if done.good and done.logged is not None:
            self._keys[step.name] = done.logged.record.key
            ends = {name: known.end.record for name, known in self.ctx.state().steps.items() if known.end is not None}
            trees = {name: record.writes.tree if record.writes else None for name, record in ends.items()}
            self.guards.outputs(step.name, trees)
        return done

    def _isolated(self, bad: Done) -> dict[str, Cause] | None:
        """The failed step again, from a clean start in a tree of its own; nothing new where that was done."""
        if bad.logged is None or (bad.logged.record.isolation or "none") != "none":
            return None
        self._alone.add(bad.step.name)
        return {bad.step.name: Cause(kind="failed", old=str(bad.code))}

    def _inputs(self, bad: Done) -> dict[str, Cause] | None:
        """The steps whose outputs the failed one uses."""
        return self._widened(bad, self._edges().inputs(bad.step.name))

    def _everything(self, bad: Done) -> dict[str, Cause] | None:
        """The whole run."""
        return self._widened(bad, [name for name in self.steps if name != bad.step.name])

    def _widened(self, bad: Done, names: Iterable[str]) -> dict[str, Cause] | None:
        """More steps, but none that would move an effect which stands: nobody asked for that to be undone."""
        cause, edges, state = Cause(kind="widened", path=bad.step.name), self._edges(), self.ctx.state()
        region = edges.descendants(self._begins)
        stands = {name for name, _ in live(state, edges.names)} - set(region)
        found = {
            name: cause
            for name in names
            if self.steps[name].effect == "none" and not stands.intersection(edges.descendants((name,)))
        }
        if found:
            self.ctx.emit("warning", bad.step.name, f"it fails again; {', '.join(sorted(found))} are done again, too")
        return found or None


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


def recover(ctx: Context, of: Plan, guards: Guards, states: list[Done], others: Sequence[str] | None = None) -> int:
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
        code = _finish(ctx, open_, every, guards, states, {step.name for step in of.steps} or names)
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


def _finish(ctx: Context, record: Logged, of: Plan, guards: Guards, states: list[Done], scope: Collection[str]) -> int:
    """Go on with a repair: seeds that have a result since its record are done."""
    seeds, state = decoded(record.record.text or ""), ctx.state()
    known = {step.name for step in of.steps}
    work = _Work(ctx, of, guards, {*scope, *record.record.region})
    left = {}
    for name, cause in seeds.items():
        end = state.step(name).end
        done = end is not None and end.record.seq > record.record.seq
        if name in known:
            left[name] = Cause(kind="crashed") if done and cause.kind in FORCED else cause
    try:
        return work.carry_out(left, noted=True) if left else 0
    finally:
        states += work.states
