"""Engine: carries out a plan, a single step, a repair or what is unfinished of a run, with its lock held."""

from __future__ import annotations

import os
import random as chance
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

from gitbaton.base.codec import check_track, in_quotes
from gitbaton.base.errors import BatonError, NoAnswerError, NotFoundError, RecordError, RunError, UnreadableRunError, UsageError
from gitbaton.base.system.children import signals
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import chain_ref
from gitbaton.checkpoints.store.provenance import of_run
from gitbaton.checkpoints.store.write import refuse_name
from gitbaton.git.objects import parse_commit
from gitbaton.git.worktree.crashmarker import sweep
from gitbaton.runs.attempt import Guards, perform, rejected, waits
from gitbaton.runs.claims import PATIENCE, Claims
from gitbaton.runs.context import UNDO_FAILED, Context, Done, Event, Outcome, Take, crash_at
from gitbaton.runs.effects import tell_dropped, undo_begun
from gitbaton.runs.graph import Graph, Schedule, as_they_run, carry_out, edges, graph, readers, touched
from gitbaton.runs.journal.chain import Journal, remember, remembered
from gitbaton.runs.journal.state import NOTHING, fold
from gitbaton.runs.journal.values import PLAN, Cause, Logged, Plan, Step, check_run
from gitbaton.runs.plans import digest, everything, opened, rebuilt, whole
from gitbaton.runs.report import FORCED, Forecast, Report, closed, explain, forecast, report


@value
class RepairRequest:
    """Repair as it is asked for: ``steps`` by name, the steps that read any of ``paths`` (quoted globs) or of ``changed``
    (files that differ since a checkpoint; None: not asked for); where nothing is asked for, what failed and what changed."""

    steps: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None


@value
class Repair:
    """Plan of a repair. ``seeds``: where it begins, and why; ``region``: those and all that hangs on them, in order, of
    which those run whose inputs come out different; ``forecasts`` of the region's steps; ``writes``: the globs below which
    files may change."""

    run: str
    seeds: tuple[tuple[str, Cause], ...]
    region: tuple[str, ...]
    forecasts: tuple[Forecast, ...]
    writes: tuple[str, ...]


def plan_repair(ctx: Context, order: RepairRequest, of: Plan, scope: Collection[str]) -> Repair:
    """Plan a repair. ``of``: all steps of the run; ``scope``: those that belong to it still, as its plan says. Others are
    only done again where they are named. Raises NotFoundError for a step that is none of them, NoAnswerError for a path
    that no step reads."""
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


def _seeds(ctx: Context, order: RepairRequest, of: Plan, edges: Graph) -> dict[str, Cause]:
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


def apply_repair(ctx: Context, repair: Repair, of: Plan, scope: Collection[str]) -> Outcome:
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
    """Return the seeds that ``encoded`` wrote."""
    found = {}
    for line in text.split("\n"):
        name, _, rest = line.partition(" ")
        kind, _, path = rest.partition(" ")
        if name and kind:
            found[name] = Cause(kind=kind, path=path or None)
    return found


def finish_interrupted(ctx: Context, of: Plan, states: list[Done], others: Sequence[str] | None = None) -> int:
    """Finish what was interrupted: compensations, then a repair with its region, then, each once, the steps that have begun
    or failed, or whose effect is unknown, and are none of ``others`` (None: those are left). The exit status of the first
    that did not come to its result, or 0."""
    state = ctx.state()
    every = whole(of, state)
    names = [step.name for step in every.steps]
    code = undo_begun(ctx, every)
    if code:
        return code
    open_ = ctx.state().repair
    if open_ is not None:
        code = _finish_repair(ctx, open_, every, states, {step.name for step in of.steps} or names)
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


def _finish_repair(ctx: Context, record: Logged, of: Plan, states: list[Done], scope: Collection[str]) -> int:
    """Go on with a repair; seeds that have a result since its record are not forced again."""
    seeds, state = dict[str, Cause](), ctx.state()
    known = {step.name for step in of.steps}
    for name, cause in decoded(record.record.text or "").items():
        end = state.step(name).end
        done = end is not None and end.record.seq > record.record.seq
        if name in known:
            seeds[name] = Cause(kind="crashed") if done else cause
    return _carry_out(ctx, of, {*scope, *record.record.region}, seeds, states) if seeds else 0


SHOWN = 5  # steps that an error names
IDLE = ("plan", "cached", "wait", "progress", "finished", "warning")  # events by which nothing is done yet


class Engine:
    """Carries out runs in one repository. ``watch`` is given every Event; ``clock``: now, in UTC; ``sleep``: waits so many
    seconds; ``random``: a number from 0 to below 1; ``monotonic``: seconds that only go forward; ``show``: what commands write
    passes through live; ``output`` gets it before.

    Everywhere ``jobs`` is how many steps go side by side; ``wait`` for how many seconds another process is waited for that is
    at work on the same run, or the same files (None: for as long as it may take, and not at all); ``take`` what stands where an
    output was edited by hand; ``foreign`` allows a run that was fetched. What keeps a step from its result is in the Outcome,
    and exit status 79, of a guard against loops, is a RunError. Raises UsageError before anything happens, and BatonError when
    the repository or the journal fails.
    """

    def __init__(
        self,
        baton: Baton,
        journal: Journal,
        *,
        watch: Callable[[Event], None] = lambda event: None,
        clock: Callable[[], datetime] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = chance.random,
        monotonic: Callable[[], float] = time.monotonic,
        show: bool = True,
        output: Callable[[int, bytes], None] | None = None,
    ) -> None:
        self.baton, self.journal, self.watch, self.show, self.output = baton, journal, watch, show, output
        self.clock, self.sleep, self.random, self.monotonic = clock or baton.clock, sleep, random, monotonic

    def run_plan(
        self,
        plan: Plan,
        run: str,
        *,
        jobs: int = 1,
        only: Sequence[str] = (),
        foreign: bool = False,
        take: Take | None = None,
        wait: float | None = None,
    ) -> Outcome:
        """Bring the steps of a plan to their results: what is unchanged is served, what changed is done again. ``only``: these
        steps and what they need."""
        steps = chosen(plan, only)
        self._refuse_tracks(steps)
        with self._context(run, foreign, take, wait, plan.max_wall) as ctx, turn(ctx):
            return self._go(ctx, plan, steps, jobs)

    def run_step(
        self,
        step: Step,
        run: str,
        *,
        max_runs: int = 50,
        max_wall: float = 7200.0,
        foreign: bool = False,
        take: Take | None = None,
        wait: float | None = None,
    ) -> Outcome:
        """Bring one step to its result. Raises UsageError when a step that it waits for has none in this run."""
        self._refuse_tracks((step,))
        with self._context(run, foreign, take, wait, max_wall) as ctx, ctx.hold():
            for name in step.after:  # before anything is undone, or waited for
                if ctx.step_state(name).end is None:
                    raise waits(step, name, run)
            plan = whole(Plan(steps=(step,), max_runs=max_runs, max_wall=max_wall), ctx.state())
            ctx.guard = Guards(plan, ctx.state(), self.monotonic).before
            ctx.defined.add(step.name)
            if undo_begun(ctx, plan):
                ctx.emit("finished", code=UNDO_FAILED)
                return Outcome(code=UNDO_FAILED, run=run, left=(step.name,))
            done = perform(ctx, step, plan)
            ctx.emit("finished", code=done.code)
            return Outcome(code=done.code, states=(done,), run=run)

    def resume(
        self,
        run: str,
        *,
        plan: Plan | None = None,
        jobs: int = 1,
        foreign: bool = False,
        take: Take | None = None,
        wait: float | None = None,
    ) -> Outcome:
        """Go on with a run: interrupted compensations and repairs are finished, steps that have begun get their end, those of
        the command line that failed are run once more, and then its plan goes on. ``plan``: instead of the one that the
        journal keeps. Nothing happens in a run that is finished.
        Raises UsageError when the plan cannot be had, RunError 76 when a step cannot be rebuilt from its record."""
        with self._context(run, foreign, take, wait, new=False) as ctx, turn(ctx):
            state = ctx.state()
            if plan is None and state.plan is not None:
                plan = opened(ctx, state.plan)
            over = state.over
            if over and plan is not None:  # something of it may have failed, or begun, in a repair
                over = not any(state.unfinished(state.step(step.name)) for step in plan.steps)
            steps = () if plan is None or over else plan.steps
            outcome = self._go(ctx, plan or Plan(steps=()), steps, jobs, everything=True)
            if not outcome.code and ctx.state().cut:  # somebody goes on with it, and so it is finished again
                ctx.append(ctx.record("release", state="complete"))
            return outcome

    def dry_run(self, plan: Plan, run: str, *, only: Sequence[str] = ()) -> tuple[Forecast, ...]:
        """Return what would become of each step of a plan, and write nothing: the baton can do nothing else afterwards. A
        run that does not exist is one without records."""
        steps = chosen(plan, only)
        with looking(self.baton, run, self.watch) as ctx:
            tell_dropped(ctx, [step.name for step in plan.steps])
            return forecast(ctx, steps, plan)

    def repair(
        self,
        order: RepairRequest,
        run: str,
        *,
        plan: Plan | None = None,
        foreign: bool = False,
        take: Take | None = None,
        wait: float | None = None,
    ) -> tuple[Repair, Outcome]:
        """Do again what a mistake reaches, and nothing else. ``plan``: instead of the one that the journal keeps."""
        with self._context(run, foreign, take, wait, new=False) as ctx, turn(ctx):
            of, scope = everything(ctx, plan)
            ctx.guard = Guards(of, ctx.state(), self.monotonic).before
            ctx.named = scope
            made = plan_repair(ctx, order, of, scope)
            ctx.emit("plan", total=len(made.region))
            tell_dropped(ctx, scope)
            code = undo_begun(ctx, of)
            outcome = Outcome(code=code, run=run, left=made.region) if code else apply_repair(ctx, made, of, scope)
            ctx.emit("finished", code=outcome.code)
            return made, outcome

    def dry_repair(self, order: RepairRequest, run: str, *, plan: Plan | None = None) -> Repair:
        """Return what ``repair`` would do, and write nothing: the baton can do nothing else afterwards."""
        with looking(self.baton, run, self.watch) as ctx:
            return plan_repair(ctx, order, *everything(ctx, plan))

    def look(self, run: str, *, plan: Plan | None = None) -> Report:
        """Return the state of each step of a run against the work tree now; nothing is written, and the baton can do
        nothing else afterwards."""
        with looking(self.baton, run, self.watch) as ctx:
            return report(ctx, *everything(ctx, plan, strict=False))

    def why(self, run: str, step: str, *, plan: Plan | None = None) -> tuple[Forecast, tuple[Cause, ...]]:
        """Return what would become of a step, and why it would run again, in full; as ``look``."""
        with looking(self.baton, run, self.watch) as ctx:
            of, scope = everything(ctx, plan, strict=False)
            return explain(ctx, of, step, scope)

    def _refuse_tracks(self, steps: Sequence[Step]) -> None:
        """Raise UsageError for a track on which the checkpoint of a step could not be recorded when the step has run."""
        for track in dict.fromkeys(step.checkpoint for step in steps):
            if track is not None and self.baton.store.objects.info(chain_ref(check_track(track))) is None:
                refuse_name(self.baton.store, track)

    def _context(
        self, run: str, foreign: bool, take: Take | None, wait: float | None, patience: float = PATIENCE, *, new: bool = True
    ) -> Context:
        """The context of a run that may be worked on here; what killed ones left is removed. Raises UsageError."""
        check_run(run)
        sweep(self.baton.repo)
        if self.journal.tip(run) is None:
            copies = self.journal.fetched().get(run)
            if copies and not foreign:
                raise UsageError(f"run '{run}' was fetched from '{copies[0][0]}'", "--foreign allows to go on with it")
            if copies:
                self.journal.adopt(run)
            elif not new:
                raise UsageError(f"there is no run '{run}'")
        elif not foreign and self.journal.is_foreign(run):
            known = not self.journal.records(run)[0].foreign
            said = "goes on with records from elsewhere" if known else "was fetched, and nothing of it was done here"
            raise UsageError(f"run '{run}' {said}", "--foreign allows to go on with it")
        remember(self.baton.repo, run)
        return Context(
            self.baton,
            self.journal,
            Claims(self.baton.repo, clock=self.clock),
            run,
            watch=self.watch,
            clock=self.clock,
            sleep=self.sleep,
            random=self.random,
            wait=wait,
            patience=patience,
            take=take,
            foreign=foreign,
            show=self.show,
            output=self.output,
        )

    def _go(self, ctx: Context, plan: Plan, steps: Sequence[Step], jobs: int, *, everything: bool = False) -> Outcome:
        """Recover what is unfinished, and then carry out the steps."""
        ctx.guard = Guards(plan, ctx.state(), self.monotonic).before
        states: list[Done] = []
        todo = Schedule(steps, edges(plan.steps))
        with following(ctx, plan if steps else Plan(steps=())) as complete:
            ctx.emit("plan", total=len(steps))
            if plan.steps:
                ctx.named = [step.name for step in plan.steps]
                tell_dropped(ctx, ctx.named)
            code = finish_interrupted(ctx, plan, states, [step.name for step in steps] if everything else None)
            shut = closed(ctx, steps) if not code else None
            if shut is not None:
                states.append(rejected(ctx, *shut))
                code = states[-1].code
            elif not code:
                code = self._steps(ctx, plan, todo, jobs, states)
                if not code and len(steps) == len(plan.steps):
                    complete()
        ctx.emit("finished", code=code)
        left = tuple(name for name in todo.left if shut is None or name != shut[0].name)
        return Outcome(code=code, states=tuple(states), run=ctx.run, left=left)

    def _steps(self, ctx: Context, plan: Plan, steps: Schedule, jobs: int, states: list[Done]) -> int:
        def work(step: Step) -> int:
            with ctx.hold():
                done = perform(ctx, step, plan)
                states.append(done)
                return done.code

        if jobs == 1:
            return carry_out(steps, work)
        with ctx.away(), signals():
            return carry_out(steps, work, jobs)


def chosen(plan: Plan, only: Sequence[str]) -> tuple[Step, ...]:
    """The steps of a plan, or those named and what they need. Raises UsageError."""
    for name in only:
        if plan.step(name) is None:
            names = ", ".join(step.name for step in plan.steps[:20])
            raise UsageError(f"the plan has no step {in_quotes(name)}", f"it has {names}")
    wanted = graph(plan.steps, NOTHING, lambda tree: ()).ancestors(only)
    return tuple(step for step in plan.steps if not only or step.name in wanted)


@contextmanager
def looking(baton: Baton, run: str, watch: Callable[[Event], None] = lambda event: None) -> Iterator[Context]:
    """A context that only looks, with its lock held: what it must write goes into a temporary folder, and the baton can do
    nothing else afterwards."""
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
        cache = os.path.join(baton.repo.own_dir, "files.cache")
        if os.path.exists(cache):  # what was read before is not read again
            shutil.copy2(cache, folder)
        baton.redirect(folder)
        journal = Journal(baton.repo, author=b"", redactor=None, clock=baton.clock)
        ctx = Context(
            baton,
            journal,
            Claims(baton.repo),
            check_run(run),
            watch=watch,
            clock=baton.clock,
            sleep=time.sleep,
            random=chance.random,
            foreign=True,
        )
        with ctx, ctx.hold():
            yield ctx


@contextmanager
def turn(ctx: Context) -> Iterator[None]:
    """Wait until no other process works on a plan of this run, and keep others waiting meanwhile; the context's lock is
    held inside. Raises RunError 78 that names the process, UsageError in a step of the very run, which would wait for
    itself."""
    if os.environ.get("GIT_BATON_RUN") == ctx.run and "GIT_BATON_STEP" in os.environ:
        step = os.environ["GIT_BATON_STEP"]
        raise UsageError(
            f"step {in_quotes(step)} of run '{ctx.run}' cannot work on the plan of its own run", "name another with --run"
        )
    said = lambda text: ctx.emit("wait", text=text)  # noqa: E731
    with ctx.claims.turn(ctx.run, wait=ctx.wait, patience=ctx.patience, said=said), ctx.hold():
        yield


def free(journal: Journal, run: str, path: str) -> str:
    """The name of a run, if it is of the plan at this path, or is yet to begin. Raises UsageError where it is in use for
    something else."""
    if journal.tip(run) is None:
        return run
    state = fold(journal.records(run))
    plan, steps = state.plan.record.plan if state.plan is not None else None, list(state.steps)
    names = ", ".join(in_quotes(name) for name in steps[:SHOWN]) + (" ..." if len(steps) > SHOWN else "")
    used = f"plan {in_quotes(plan)}" if plan is not None else f"single steps {names}" if steps else None
    if used is None or plan == path:
        return run
    raise UsageError(f"run '{run}' is in use: it is of {used}", "name another with --run")


def for_plan(journal: Journal, path: str, top: str) -> str | None:
    """The run that goes on with the plan at this path, in this work tree: the one that it used last, else the newest of ours;
    None where there is none. Raises UnreadableRunError where one that cannot be read may be it: no plan is begun afresh."""
    tips = journal.refs()
    last = remembered(journal.repo)
    commits = zip(tips, journal.repo.objects.read_many(list(tips.values())), strict=True)
    ages = {run: _time(found.data) if found is not None else 0 for run, found in commits}
    unread: UnreadableRunError | None = None
    for run in sorted(ages, key=lambda name: (name == last, ages[name]), reverse=True):
        try:
            records = journal.records(run)
        except UnreadableRunError as error:
            if journal.ours.knows(of_run(run)):
                unread = unread or error
                if run == last:
                    break
            continue
        except NotFoundError:  # somebody has just dropped it
            continue
        claim = next((logged.record for logged in reversed(records) if logged.record.type == "claim"), None)
        known = run == last or (claim is not None and claim.worktree == top and not records[0].foreign)
        if claim is not None and claim.plan == path and known:
            return run
    if unread is not None:
        unread.hints += ("name another run with --run",)
        raise unread
    return None


def _time(commit: bytes | None) -> int:
    """Return the time of a commit, in seconds; 0 for what is none."""
    try:
        words = parse_commit(commit or b"").author.split()
    except RecordError:
        return 0
    return int(words[-2]) if len(words) > 1 and words[-2].isdigit() else 0


@contextmanager
def following(ctx: Context, plan: Plan) -> Iterator[Callable[[], None]]:
    """Record that the plan is followed until the block ends; to call what this yields says that it came to its end. That it
    is followed is recorded when something happens, so that going over a plan that is at its end leaves no record. Nothing
    is for one without a text, as where only what is unfinished is looked after."""
    watch, state, key = ctx.watch, ctx.state(), digest(plan)
    same = state.plan is not None and state.plan.record.key == key
    taken, how = same and state.released is None, "stopped"

    def take() -> None:
        nonlocal taken
        if not taken and plan.text is not None:
            ctx.append(ctx.record("claim", key=key, plan=plan.path), blobs={PLAN: plan.text})
            taken = True

    def seen(event: Event) -> None:
        if event.kind not in IDLE:
            take()
        watch(event)

    def complete() -> None:
        nonlocal how
        how = "complete"

    def release() -> None:
        if taken:
            now = ctx.state()
            left = "; ".join(text for step in now.steps.values() if (text := now.unfinished(step)))
            ctx.append(ctx.record("release", state=how, text=left or None))

    if not (same and state.over):
        take()
    ctx.watch = seen
    try:
        yield complete
    except BaseException:
        with suppress(BatonError):  # what went wrong is said, not that it cannot be noted
            release()
        raise
    release()
