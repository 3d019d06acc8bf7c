"""Runs carried out: a plan from its first step to its last, a single step, and what a run left unfinished."""

from __future__ import annotations

import os
import random as chance
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from gitbaton.baton import Baton
from gitbaton.errors import UsageError
from gitbaton.journal.chain import Journal, check_run, remember
from gitbaton.journal.values import Plan, Step
from gitbaton.running.claims import Claims
from gitbaton.running.context import Context, Take
from gitbaton.running.effects import undo_begun
from gitbaton.running.forecast import Forecast, closed, forecast
from gitbaton.running.graph import ancestors, edges
from gitbaton.running.guards import Guards
from gitbaton.running.recorded import whole
from gitbaton.running.repair import Order, Repair, apply, recover
from gitbaton.running.repair import plan as plan_repair
from gitbaton.running.report import Report, Why, report, why
from gitbaton.running.results import GATE, UNDO_FAILED, Done, Event
from gitbaton.running.runlock import Outcome, following, opened, turn
from gitbaton.running.step import perform, rejected
from gitbaton.system.children import signals
from gitbaton.worktree import globs

__all__ = ["Engine", "Outcome", "chosen", "looking"]


class Engine:
    """Carries out runs in one repository. ``watch`` is given every Event; ``clock``: now, in UTC; ``sleep``: waits so many
    seconds; ``random``: a number from 0 to below 1; ``monotonic``: seconds that only go forward; ``show``: what commands write
    passes through live; ``output`` gets it before.

    Everywhere ``jobs`` is how many steps go side by side; ``wait`` for how many seconds files that somebody else's step writes
    are waited for; ``take`` what stands where an output was edited by hand; ``foreign`` allows a run that was fetched. What
    keeps a step from its result is in the Outcome, and exit status 79, of a guard against loops, is a RunError. Raises
    UsageError before anything happens, and BatonError when the repository or the journal fails.
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
        wait: float = 0.0,
    ) -> Outcome:
        """Bring the steps of a plan to their results: what is unchanged is served, what changed is done again. ``only``: these
        steps and what they need."""
        steps = chosen(plan, only)
        self._enter(run, foreign)
        with self._context(run, foreign, take, wait) as ctx, turn(ctx):
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
        wait: float = 0.0,
    ) -> Outcome:
        """Bring one step to its result. Raises UsageError when a step that it waits for has none in this run."""
        self._enter(run, foreign)
        with self._context(run, foreign, take, wait) as ctx, ctx.hold():
            state = ctx.state()
            for name in step.after:
                if name not in state.steps or state.steps[name].end is None:
                    raise UsageError(f"step '{step.name}' waits for '{name}', which has no result in run '{run}'")
            plan = whole(Plan(steps=(step,), max_runs=max_runs, max_wall=max_wall), state)
            ctx.guard = Guards.of(ctx, plan, self.monotonic).before
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
        wait: float = 0.0,
    ) -> Outcome:
        """Go on with a run: interrupted compensations and repairs are finished, steps that have begun get their end, those of
        the command line that failed are run once more, and then its plan goes on. ``plan``: instead of the one that the
        journal keeps. Nothing happens in a run that is finished.
        Raises UsageError when the plan cannot be had, RunError 76 when a step cannot be rebuilt from its record."""
        self._enter(run, foreign, new=False)
        with self._context(run, foreign, take, wait) as ctx, turn(ctx):
            state = ctx.state()
            if plan is None and state.plan is not None:
                plan = opened(ctx, state.plan)
            over = state.over
            if over and plan is not None:  # something of it may have failed, or begun, in a repair
                over = not any((known := state.steps.get(step.name)) and known.unfinished for step in plan.steps)
            steps = () if plan is None or over else plan.steps
            outcome = self._go(ctx, plan or Plan(steps=()), steps, jobs, everything=True)
            if not outcome.code and ctx.state().cut:  # somebody goes on with it, and so it is finished again
                ctx.append(ctx.record("release", state="complete"))
            return outcome

    def dry_run(self, plan: Plan, run: str, *, only: Sequence[str] = ()) -> tuple[Forecast, ...]:
        """What would become of each step of a plan, and nothing is written: the baton can do nothing else afterwards. A run
        that does not exist is one without records."""
        steps = chosen(plan, only)
        with looking(self.baton, run) as ctx:
            return forecast(ctx, steps, plan)

    def repair(
        self,
        order: Order,
        run: str,
        *,
        plan: Plan | None = None,
        foreign: bool = False,
        take: Take | None = None,
        wait: float = 0.0,
    ) -> tuple[Repair, Outcome]:
        """Do again what a mistake reaches, and nothing else. ``plan``: instead of the one that the journal keeps."""
        self._enter(run, foreign, new=False)
        with self._context(run, foreign, take, wait) as ctx, turn(ctx):
            of, scope = everything(ctx, plan)
            guards = Guards.of(ctx, of, self.monotonic)
            ctx.guard = guards.before
            made = plan_repair(ctx, order, of, scope)
            ctx.emit("plan", total=len(made.region))
            code = undo_begun(ctx, of)
            outcome = Outcome(code=code, run=run, left=made.region) if code else apply(ctx, made, of, guards, scope)
            ctx.emit("finished", code=outcome.code)
            return made, outcome

    def dry_repair(self, order: Order, run: str, *, plan: Plan | None = None) -> Repair:
        """What ``repair`` would do, and nothing is written: the baton can do nothing else afterwards."""
        with looking(self.baton, run, self.watch) as ctx:
            return plan_repair(ctx, order, *everything(ctx, plan))

    def look(self, run: str, *, plan: Plan | None = None) -> Report:
        """What is known of each step of a run, against the work tree now; nothing is written, and the baton can do nothing
        else afterwards."""
        with looking(self.baton, run, self.watch) as ctx:
            return report(ctx, *everything(ctx, plan, strict=False))

    def why(self, run: str, step: str, *, plan: Plan | None = None) -> Why:
        """Why a step would run again, in full; as ``look``."""
        with looking(self.baton, run, self.watch) as ctx:
            of, scope = everything(ctx, plan, strict=False)
            return why(ctx, of, step, scope)

    def _enter(self, run: str, foreign: bool, *, new: bool = True) -> None:
        """Make sure that the run may be worked on here. Raises UsageError."""
        check_run(run)
        if self.journal.tip(run) is None:
            copies = self.journal.fetched().get(run)
            if copies and not foreign:
                raise UsageError(f"run '{run}' was fetched from '{copies[0][0]}'", "--foreign allows to go on with it")
            if copies:
                self.journal.adopt(run)
            elif not new:
                raise UsageError(f"there is no run '{run}'")
        elif not foreign and self.journal.records(run)[-1].foreign:
            raise UsageError(f"run '{run}' was fetched, and nothing of it was done here", "--foreign allows to go on with it")
        remember(self.baton.repo, run)

    def _context(self, run: str, foreign: bool, take: Take | None, wait: float) -> Context:
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
            take=take,
            foreign=foreign,
            show=self.show,
            output=self.output,
        )

    def _go(self, ctx: Context, plan: Plan, steps: Sequence[Step], jobs: int, *, everything: bool = False) -> Outcome:
        """Recover what is unfinished, and then carry out the steps."""
        guards = Guards.of(ctx, plan, self.monotonic)
        ctx.guard = guards.before
        states: list[Done] = []
        todo = Schedule(steps, edges(plan.steps))
        with following(ctx, plan if steps else None) as hold:
            ctx.emit("plan", total=len(steps))
            code = recover(ctx, plan, guards, states, [step.name for step in steps] if everything else None)
            shut = closed(ctx, steps) if not code else None
            if shut is not None:
                states.append(rejected(ctx, *shut))
                code = states[-1].code
            elif not code:
                code = self._steps(ctx, plan, todo, jobs, states)
                hold.complete = not code and len(steps) == len(plan.steps)
        ctx.emit("finished", code=code)
        left = tuple(name for name in todo.left if shut is None or name != shut[0].name)
        return Outcome(code=code, states=tuple(states), run=ctx.run, left=left)

    def _steps(self, ctx: Context, plan: Plan, steps: Schedule, jobs: int, states: list[Done]) -> int:
        def work(step: Step) -> int:
            with ctx.hold():
                done = perform(ctx, step, plan)
                states.append(done)
                return done.code if not done.good else 0

        if jobs == 1:
            return carry_out(steps, work)
        with ctx.away(), signals():
            return carry_out(steps, work, jobs)


def chosen(plan: Plan, only: Sequence[str]) -> tuple[Step, ...]:
    """The steps of a plan, or those named and what they need. Raises UsageError."""
    for name in only:
        if plan.step(name) is None:
            names = ", ".join(step.name for step in plan.steps[:20])
            raise UsageError(f"the plan has no step '{name}'", f"it has {names}")
    wanted = {*only, *ancestors(plan.steps, only)}
    return tuple(step for step in plan.steps if not only or step.name in wanted)


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


class Schedule:
    """Steps in their order, each after those it needs. ``needs``: by name; a name that is no step here is taken as done."""

    def __init__(self, steps: Sequence[Step], needs: Mapping[str, Collection[str]]) -> None:
        names = {step.name for step in steps}
        self._todo = list(steps)
        self._needs = {step.name: frozenset(needs.get(step.name, ())) & names for step in steps}
        self.codes: dict[str, int] = {}  # by step, in the order in which they ended
        self._running: dict[str, Step] = {}

    @property
    def code(self) -> int:
        """0, or the exit status of the first step that failed; of one that waits at a gate only where none failed."""
        bad = [code for code in self.codes.values() if code]
        return next((code for code in bad if code != GATE), bad[0] if bad else 0)

    @property
    def stopped(self) -> bool:
        """Whether no further step may begin: a gate keeps only what depends on it."""
        return any(code not in (0, GATE) for code in self.codes.values())

    @property
    def left(self) -> tuple[str, ...]:
        """The steps that did not begin."""
        return tuple(step.name for step in self._todo)

    @property
    def running(self) -> int:
        """How many have begun and not ended."""
        return len(self._running)

    def begin(self) -> Step | None:
        """The next step that may begin now beside those that run; None where there is none (yet)."""
        if self.stopped:
            return None
        for place, step in enumerate(self._todo):
            ready = all(self.codes.get(name) == 0 for name in self._needs[step.name])
            if ready and not any(collide(step, other) for other in self._running.values()):
                del self._todo[place]
                self._running[step.name] = step
                return step
        return None

    def end(self, step: Step, code: int) -> None:
        """A step that began has ended with an exit status."""
        del self._running[step.name]
        self.codes[step.name] = code


def collide(one: Step, other: Step) -> bool:
    """Whether two steps must not run at the same time: what one writes, the other reads or writes."""
    return bool(
        globs.overlap(one.writes, other.writes)
        or globs.overlap(one.writes, other.reads)
        or globs.overlap(one.reads, other.writes)
    )


def carry_out(schedule: Schedule, work: Callable[[Step], int], jobs: int = 1) -> int:
    """Do the steps, at most ``jobs`` side by side (1: in this thread), and give the schedule's exit status. After the first
    that fails none begins, and those that run end. An error of ``work`` counts as a failure and is raised when they have."""
    if jobs > 1:
        return _threads(schedule, work, jobs)
    while (step := schedule.begin()) is not None:
        schedule.end(step, work(step))
    return schedule.code


def _threads(schedule: Schedule, work: Callable[[Step], int], jobs: int) -> int:
    import queue
    import threading

    done: queue.SimpleQueue[tuple[Step, int, BaseException | None]] = queue.SimpleQueue()

    def task(step: Step) -> None:
        try:
            done.put((step, work(step), None))
        except BaseException as error:
            done.put((step, -1, error))

    first: BaseException | None = None
    while True:
        while first is None and schedule.running < jobs and (step := schedule.begin()) is not None:
            threading.Thread(target=task, args=(step,), name=f"step {step.name}", daemon=True).start()
        if not schedule.running:
            break
        step, code, error = done.get()
        first = first or error
        schedule.end(step, code)
    if first is not None:
        raise first
    return schedule.code
