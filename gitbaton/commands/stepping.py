"""What the verbs that carry out steps share: the repository, the run that is meant, and what a run came to as an exit code."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional, Union

import typer

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, plain
from gitbaton.commands.common import opened
from gitbaton.commands.reporting import JsonLines, Lines, because, lines
from gitbaton.commands.wording import RunWords, StepWords, choice, seconds, step_of
from gitbaton.errors import BatonError, UsageError
from gitbaton.journal.chain import Journal, check_run, chosen, remembered
from gitbaton.journal.state import fold
from gitbaton.journal.values import Plan
from gitbaton.render import in_quotes
from gitbaton.running.context import Take
from gitbaton.running.engine import Engine, Outcome
from gitbaton.running.forecast import Forecast
from gitbaton.values import cast, replace, value


@value
class Desk:
    """What a verb works with; ``show`` is told what happens. ``planned``: a plan is carried out, or gone on with."""

    baton: Baton
    journal: Journal
    show: Union[Lines, JsonLines]
    top: str
    directory: str
    planned: bool

    def engine(self) -> Engine:
        """What carries steps out, and tells ``show``."""
        return Engine(self.baton, self.journal, watch=self.show, output=self.show.output, show=isinstance(self.show, Lines))

    def prefix(self) -> str:
        """The folder of the work tree that the command line means, relative to its top; '' for the top. Raises UsageError."""
        here = os.path.relpath(os.path.realpath(self.directory), os.path.realpath(self.top))
        if here == os.pardir or here.startswith(os.pardir + os.sep):
            raise UsageError(f"'{self.directory}' is not in the work tree '{self.top}'")
        return "" if here == os.curdir else here


@contextmanager
def desk(
    ctx: typer.Context,
    *,
    json: bool,
    run: Optional[str] = None,
    new: bool = True,
    planned: bool = False,
    plan: Optional[str] = None,
) -> Iterator[tuple[Desk, str]]:
    """A repository with a work tree, opened for many small things, and the run that is meant: the one named, GIT_BATON_RUN,
    the one that this work tree used last (of a ``plan`` file: for it); else, with ``new``, a new one. Raises UsageError,
    NotFoundError."""
    with opened(ctx, door=None) as baton:
        top = baton.repo.layout.root
        if top is None:
            raise UsageError(f"'{baton.repo.layout.git_dir}' has no work tree in which a step could run")
        baton.repo.prefetch_identity()
        journal = Journal(baton.repo, author=baton.author()[0], redactor=baton.redactor, clock=baton.clock)
        directory = ctx.obj.repo_root or os.getcwd()
        path = os.path.join(directory, plan) if plan is not None else None
        name = _named(journal, run, top, path) if new else chosen(journal, run)
        show = JsonLines(name) if json else lines(ctx, baton, name)
        try:
            yield Desk(baton=baton, journal=journal, show=show, top=top, directory=directory, planned=planned), name
        except BatonError as error:
            if isinstance(show, JsonLines):
                show.run = name if name in journal.refs() else None
                show.finished(error.exit_code, {})
            raise
        finally:
            show.close()
            journal.close()


def _named(journal: Journal, run: Optional[str], top: str, plan: Optional[str]) -> str:
    """The run that is meant, or a new one. Raises UsageError for one that is in use for something else than the plan."""
    from gitbaton.running import plans, taking

    given = run if run is not None else os.environ.get("GIT_BATON_RUN") or None
    if plan is not None:
        path = plans.path_of(plan, top)
        found = taking.for_plan(journal, path, top) if given is None else taking.free(journal, check_run(given), path)
    else:
        found = check_run(given) if given is not None else remembered(journal.repo)
    return found if found is not None else journal.new_name(journal.clock())


def run_step(ctx: typer.Context, run: RunWords, words: StepWords, argv: list[str]) -> int:
    """Run one step of the command line; its exit code."""
    guards = _guards(run)
    take, wait = _take(run), seconds(run.wait, "--wait")
    with desk(ctx, json=run.json, run=run.run) as (at, name):
        step = step_of(run.step or "", words, argv, at.prefix())
        outcome = at.engine().run_step(step, name, foreign=run.foreign, take=take, wait=wait, **guards)
        return ended(at, outcome)


def run_plan(ctx: typer.Context, run: RunWords) -> int:
    """Bring the steps of a plan file to their results; the exit code."""
    from gitbaton.running import plans

    guards = _guards(run)
    take, wait = _take(run), seconds(run.wait, "--wait")
    with desk(ctx, json=run.json, run=run.run, planned=True, plan=run.plan) as (at, name):
        plan = plans.read(os.path.join(at.directory, run.plan or ""), at.top, name=run.plan)
        plan = replace(plan, **guards)
        only = tuple(run.only or ())
        if run.dry_run:
            return _foretell(at, plan, at.engine().dry_run(plan, name, only=only), name, json=run.json)
        engine = at.engine()
        outcome = engine.run_plan(plan, name, jobs=_jobs(run), only=only, foreign=run.foreign, take=take, wait=wait)
        return ended(at, outcome)


def go_on(ctx: typer.Context, run: RunWords, name: Optional[str]) -> int:
    """Go on with an unfinished run; the exit code."""
    take, wait = _take(run), seconds(run.wait, "--wait")
    with desk(ctx, json=run.json, run=name, new=False, planned=True) as (at, found):
        outcome = at.engine().resume(found, jobs=_jobs(run), foreign=run.foreign, take=take, wait=wait)
        code = ended(at, outcome)
        if isinstance(at.show, Lines) and not (code or outcome.states or outcome.left):
            why = "; ".join(fold(at.journal.records(found)).why)
            terminal.tell(plain(f"baton: run '{found}' is {f'not finished: {why}' if why else 'finished'}"))
        return code


def ended(at: Desk, outcome: Outcome) -> int:
    """Say what a run came to, as far as nothing has said it yet; its exit code."""
    from gitbaton.git.maintenance import tend

    tend(at.baton.repo)
    states: dict[str, str] = {done.step.name: done.state for done in outcome.states}
    states |= dict.fromkeys(outcome.left, "pending")
    if isinstance(at.show, JsonLines):
        at.show.finished(outcome.code, states)
        return outcome.code
    at.show.close()
    for done in {done.step.name: done for done in outcome.states}.values():
        if done.hint:
            terminal.tell(f"hint: {plain(done.hint)}")
    if "interrupted" in states.values() and at.planned:
        terminal.tell(f"hint: git baton run --continue {outcome.run}")
    return outcome.code


def _foretell(at: Desk, plan: Plan, found: tuple[Forecast, ...], run: str, *, json: bool) -> int:
    """Print what would become of each step."""
    from gitbaton.commands.common import print_json

    if json:
        rows: list[Json] = [forecast_document(item) for item in found]
        print_json({"run": run, "steps": rows})
        return 0
    for item in found:
        terminal.say(f"{plain(item.step.name)}: {would(item)}")
    return 0


def would(item: Forecast) -> str:
    """What would become of a step, as a half sentence."""
    on, why = ", ".join(plain(name) for name in item.on), f": {because(item.cause)}" if item.cause else ""
    said = {
        "cached": "is served",
        "run": "would run" + why,
        "depends": f"would run unless {on} gives what it once gave{why}" if why else f"would run if {on} gives something else",
        "gate": "would wait at its gate",
        "waits": f"would wait for {on}",
        "rejected": "is rejected at its gate",
        "probe": "its outcome is unknown and would be asked for",
        "conflict": f"would stop: somebody else wrote its output {in_quotes(item.problem)}; --take ours|theirs decides",
        "error": f"it cannot be told: {plain(item.problem)}",
        "trust": "its effect happened; its outputs would be checked",
    }[item.would]
    unless = f" (unless {on} gives what it once gave)" if item.would == "run" and item.on else ""
    return said + (f"; undone before: {', '.join(plain(name) for name in item.undo)}{unless}" if item.undo else "")


def forecast_document(item: Forecast) -> dict[str, Json]:
    """The JSON of what would become of a step."""
    c = item.cause
    cause: Json = {"kind": c.kind, "path": c.path, "old": c.old, "new": c.new} if c else None
    return {
        "step": item.step.name,
        "would": item.would,
        "key": item.key,
        "cause": cause,
        "on": list(item.on),
        "undo": list(item.undo),
        **({"problem": item.problem} if item.problem else {}),
    }


def _take(run: RunWords) -> Optional[Take]:
    return cast(Optional[Take], choice(run.take, "--take", "ours", "theirs"))


def _guards(run: RunWords) -> dict[str, Any]:
    """The guards against loops that were given. Raises UsageError."""
    found: dict[str, Any] = {}
    if run.max_runs is not None:
        if run.max_runs < 1:
            raise UsageError(f"--max-runs is {run.max_runs}; it must be 1 or more")
        found["max_runs"] = run.max_runs
    if run.max_wall is not None:
        found["max_wall"] = seconds(run.max_wall, "--max-wall")
        if not found["max_wall"]:
            raise UsageError("--max-wall must be more than nothing")
    return found


def _jobs(run: RunWords) -> int:
    if run.jobs is not None and run.jobs < 1:
        raise UsageError(f"--jobs is {run.jobs}; it must be 1 or more")
    return run.jobs or 1
