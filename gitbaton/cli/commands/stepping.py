"""Runs (run, and what stands under it): opening the one that is meant, its lock, its steps, exit codes."""

import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Optional, Union

from gitbaton.base import terminal
from gitbaton.base.codec import Json, in_quotes, plain
from gitbaton.base.errors import BatonError, NotFoundError, UsageError
from gitbaton.base.values import cast, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, line, path_in_quotes
from gitbaton.cli.commands.reporting import CAUSE, EventLines, JsonLines, because
from gitbaton.cli.common import colours, opened, picked
from gitbaton.cli.options import Invocation
from gitbaton.git.maintenance import tend
from gitbaton.runs import engine, plans
from gitbaton.runs.claims import Claims
from gitbaton.runs.context import Context, Outcome, Take
from gitbaton.runs.engine import Engine
from gitbaton.runs.journal.chain import Journal, chosen, remembered
from gitbaton.runs.journal.values import Plan, Step, check_run
from gitbaton.runs.plans import duration, everything, kept_plan, newest, step_of
from gitbaton.runs.report import Forecast


@value
class Desk:
    """Repository and run that a verb works with; ``show`` takes the events. ``planned``: a plan is carried out, or
    continued."""

    baton: Baton
    journal: Journal
    show: Union[EventLines, JsonLines]
    top: str
    directory: str
    planned: bool

    def engine(self) -> Engine:
        """Return the engine, with ``show`` as its watcher."""
        return Engine(
            self.baton, self.journal, watch=self.show, output=self.show.output, show=isinstance(self.show, EventLines)
        )

    def prefix(self) -> str:
        """The folder of the work tree that the command line means, relative to its top; '' for the top. Raises UsageError."""
        here = os.path.relpath(os.path.realpath(self.directory), os.path.realpath(self.top))
        if here == os.pardir or here.startswith(os.pardir + os.sep):
            raise UsageError(f"{in_quotes(self.directory)} is not in the work tree '{self.top}'")
        return "" if here == os.curdir else here


@contextmanager
def desk(
    ctx: Invocation,
    *,
    json: bool,
    run: Optional[str] = None,
    new: bool = True,
    planned: bool = False,
    plan: Optional[str] = None,
) -> Iterator[tuple[Desk, str]]:
    """Open a repository with a work tree for many small reads, and the run that is meant: the one named, GIT_BATON_RUN, the
    one that this work tree used last (of a ``plan`` file: for it); else, with ``new``, a new one. Raises UsageError,
    NotFoundError."""
    with opened(ctx, door=None) as baton:
        top = baton.repo.layout.root
        if top is None:
            raise UsageError(f"'{baton.repo.layout.git_dir}' has no work tree in which a step could run")
        journal = Journal(baton.repo, author=baton.author()[0], redactor=baton.redactor, clock=baton.clock)
        directory = ctx.obj.repo_root or os.getcwd()
        path = os.path.join(directory, plan) if plan is not None else None
        name = _named(journal, run, top, path) if new else chosen(journal, run)
        tty = sys.stderr.isatty()
        live, colors = tty and os.environ.get("TERM", "dumb") != "dumb", {} if json else colours(ctx, baton, tty=tty)
        show = JsonLines(name) if json else EventLines(baton, name, live=live, colors=colors)
        try:
            yield Desk(baton=baton, journal=journal, show=show, top=top, directory=directory, planned=planned), name
        except BatonError as error:
            if isinstance(show, JsonLines):
                show.run = name if name in journal.refs() else None
                show.finished(error.exit_code, {})
            raise
        finally:
            show.close()


def _named(journal: Journal, run: Optional[str], top: str, plan: Optional[str]) -> str:
    """Return the run that is meant, or a new one. Raises UsageError for one that is in use for something else than the plan."""
    given = run if run is not None else os.environ.get("GIT_BATON_RUN") or None
    if plan is not None:
        path = plans.path_of(plan, top)
        found = engine.for_plan(journal, path, top) if given is None else engine.free(journal, check_run(given), path)
    else:
        found = check_run(given) if given is not None else remembered(journal.repo)
    return found if found is not None else journal.new_name(journal.clock())


FOREIGN = "run '{}' is foreign: its newest records came from elsewhere"


@contextmanager
def decided(
    ctx: Invocation, run: Optional[str], *, json: bool, foreign: bool = False, wait: Optional[float] = None
) -> Iterator[tuple[Desk, Context]]:
    """Open the run that is meant, with its lock held. ``wait``: seconds for which a step that is at work is waited for. Raises
    UsageError for one that was only fetched, NotFoundError."""
    with desk(ctx, json=json, run=run, new=False) as (at, name):
        if at.journal.tip(name) is None:
            raise UsageError(
                f"run {in_quotes(name)} was fetched", f"'git baton run --continue {name} --foreign' makes it one of here"
            )
        if not foreign and remembered(at.journal.repo) != name and at.journal.is_foreign(name):
            said = f"run {in_quotes(name)} came from elsewhere, and this work tree never went on with it"
            raise UsageError(said, f"'git baton run --continue {in_shell(name)} --foreign' does")
        context = Context(
            at.baton,
            at.journal,
            Claims(at.baton.repo),
            name,
            watch=at.show,
            clock=at.baton.clock,
            sleep=time.sleep,
            random=random.random,
            wait=wait,
            foreign=foreign,
            show=not json,
            output=at.show.output,
        )
        with context, context.hold():
            yield at, context


def plan_of(context: Context) -> Optional[Plan]:
    """Return all steps of the run, as its plan has them, if it can be had, or else its records; where one of these is of no
    step that there can be, only the plan."""
    with suppress(BatonError):
        return everything(context, strict=False)[0]
    with suppress(BatonError):  # such a record keeps nobody from deciding on another step
        return kept_plan(context.state(), context.objects)
    return None


def step_named(context: Context, plan: Optional[Plan], name: str) -> Step:
    """Return a step of the run, as the plan has it or else its own records. Raises NotFoundError that lists them."""
    known(context, [name])
    found, logged = plan.step(name) if plan is not None else None, newest(context.step_state(name))
    return found or (step_of(logged.record) if logged is not None else Step(name=name, argv=()))


def known(context: Context, names: Sequence[str]) -> None:
    """Refuse names that are no step of the run. Raises NotFoundError that lists them."""
    steps = context.state().steps
    for name in names:
        if name not in steps:
            hints = (f"its steps: {', '.join(list(steps)[:20])}",) if steps else ()
            raise NotFoundError(f"run {in_quotes(context.run)} has no step {in_quotes(name)}", *hints)


def finish(at: Desk, code: int) -> int:
    """Print the end where events are JSON; return the exit code."""
    if isinstance(at.show, JsonLines):
        at.show.finished(code, {})
    return code


def ended(at: Desk, outcome: Outcome) -> int:
    """Print the results of a run, as far as they are not printed yet; return its exit code."""
    tend(at.baton.repo)
    states: dict[str, str] = {
        **{done.step.name: done.state for done in outcome.states},
        **dict.fromkeys(outcome.left, "pending"),
    }
    if isinstance(at.show, JsonLines):
        at.show.finished(outcome.code, states)
        return outcome.code
    at.show.close()
    for done in {done.step.name: done for done in outcome.states}.values():
        if done.hint:
            terminal.tell(f"hint: {plain(done.hint)}")
    if at.planned and {"failed", "interrupted"} & {*states.values()}:
        good = {done.step.name: done.step for done in outcome.states if done.good and done.step.effect == "none"}
        twice = [in_quotes(name) for name, step in good.items() if not step.cacheable]
        if twice:
            terminal.tell(
                f"hint: run again each time, for they name neither reads nor a key: {', '.join(twice[: engine.SHOWN])}"
            )
        terminal.tell(f"hint: git baton run --continue {outcome.run}")
    return outcome.code


def say_forecasts(found: Sequence[Forecast]) -> None:
    """Print the forecast of each step, one line each."""
    terminal.say_lines(f"{plain(item.step.name)}: {would(item)}" for item in found)


def would(item: Forecast) -> str:
    """Describe the forecast of a step, as a half sentence."""
    on, why = ", ".join(plain(name) for name in item.on), f": {because(item.cause)}" if item.cause else ""
    said = {
        "cached": "is served",
        "run": "would run" + why,
        "depends": f"would run unless {on} gives what it once gave{why}" if why else f"would run if {on} gives something else",
        "gate": "would wait at its gate",
        "waits": f"would wait for {on}",
        "rejected": "is rejected at its gate",
        "probe": "its outcome is unknown and would be asked for",
        "conflict": f"would stop: somebody else wrote its output {path_in_quotes(item.problem)}; --take ours|theirs decides",
        "error": f"it cannot be told: {plain(item.problem)}",
        "trust": "its effect happened; its outputs would be checked",
    }[item.would]
    unless = f" (unless {on} gives what it once gave)" if item.would == "run" and item.on else ""
    return said + (f"; undone before: {', '.join(plain(name) for name in item.undo)}{unless}" if item.undo else "")


def forecast_document(item: Forecast) -> dict[str, Json]:
    """Return the JSON of a step's forecast."""
    return {
        "step": item.step.name,
        "would": item.would,
        "key": item.key,
        "cause": picked(item.cause, *CAUSE) if item.cause else None,
        "on": list(item.on),
        "undo": list(item.undo),
        **({"problem": item.problem} if item.problem else {}),
    }


def waiting(text: Optional[str]) -> Optional[float]:
    """Parse ``--wait`` into seconds; None without it. Raises UsageError."""
    return duration(text, "--wait") if text is not None else None


def side(text: Optional[str]) -> Optional[Take]:
    """Check the value of ``--take``. Raises UsageError."""
    if text not in (None, "ours", "theirs"):
        raise UsageError(f"--take is {in_quotes(line(text or ''))}; it can be 'ours' or 'theirs'")
    return cast(Optional[Take], text)
