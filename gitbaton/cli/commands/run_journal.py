"""``git baton run list``, ``verify``, ``export`` and ``prune``: what is done with the journals of runs."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import counted, in_quotes, plain, timestamp
from gitbaton.base.errors import MENDS, BatonError, UsageError
from gitbaton.base.values import value
from gitbaton.care.retention.removing import sweep
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.cli.common import ARun, AsJson, DryRun, opened, paged, picked, print_json, warn_all
from gitbaton.cli.look import Cell, Column, Look
from gitbaton.cli.options import Argument, Invocation, Option
from gitbaton.runs.claims import Claims
from gitbaton.runs.graph import edges
from gitbaton.runs.journal import upkeep
from gitbaton.runs.journal.chain import Journal, chosen, in_use, remembered
from gitbaton.runs.journal.state import RunState, fold
from gitbaton.runs.journal.upkeep import export, to_export, verify
from gitbaton.runs.plans import duration, kept_plan, whole

RUNS = (Column(), Column(right=True, goes=1), Column(goes=2), Column())


@value
class RunRow:
    """A run: ``why`` it is not finished, when its newest record was made, and how many of its steps are done."""

    run: str
    why: tuple[str, ...]
    at: Optional[datetime] = None
    done: int = 0
    steps: int = 0
    foreign: bool = False


def list_runs(ctx: Invocation, json: AsJson = False) -> int:
    """List the runs here, newest first: their age, how many of their steps are done, and what keeps one from its end.

    '*' marks the run that this work tree used last. 'git baton run show RUN' shows the steps of one.

    Examples:
        git baton run list
    """
    with opened(ctx, door=None) as baton:
        journal, last = Journal(baton.repo, author=b"", clock=baton.clock), remembered(baton.repo)
        rows = sorted((_row(baton, journal, run) for run in {**journal.refs(), **journal.fetched()}), key=_newest, reverse=True)
        if json:
            found = [
                {
                    **picked(row, "run", "foreign", "why", "done", "steps"),
                    "at": timestamp(row.at) if row.at is not None else None,
                    "current": row.run == last,
                    "finished": not row.why,
                }
                for row in rows
            ]
            print_json({"runs": found})
        else:
            with paged(ctx, baton) as look:
                terminal.say_lines(look.table(RUNS, [_cells(look, row, current=row.run == last) for row in rows]))
            for row in [row for row in rows if row.why and row.at is not None and not row.foreign][:1]:
                terminal.tell(f"hint: 'git baton run --continue {in_shell(row.run)}' goes on with it")
    return 0


def _cells(look: Look, row: RunRow, *, current: bool) -> tuple[Cell | str, ...]:
    name = (("* " if current else "  ", ""), ("> " if row.foreign else "", "foreign"), (row.run, "current" if current else ""))
    why = "; ".join(map(plain, row.why))
    end = ((f"! not finished: {why}", "waiting"),) if why else look.state("ok", "finished")
    return name, look.age(row.at), f"{row.done} of {counted(row.steps, 'step')} done", end


def _row(baton: Baton, journal: Journal, run: str) -> RunRow:
    objects = baton.repo.objects
    try:
        records = journal.records(run)
        state = fold(records)
        waits = edges(whole(kept_plan(state, objects), state, objects).steps)
    except BatonError as error:
        return RunRow(run=run, why=(f"it cannot be read: {error.message}",))
    steps, done = {*state.steps, *waits}, len(_done(state, waits))
    return RunRow(run=run, why=state.why, at=records[-1].record.at, done=done, steps=len(steps), foreign=state.foreign)


def _done(state: RunState, waits: Mapping[str, Collection[str]]) -> Mapping[str, int]:
    """Return the steps that are done, each with the number of the record that says so. While a plan is not at its end, an
    earlier result counts only where nothing that the step ``waits`` for is to be done, or was done, after it."""
    ended = {name: step.end.record.seq for name, step in state.steps.items() if step.end and not state.unfinished(step)}
    if state.plan is None or state.over:
        return ended
    tried = {name for name, step in state.steps.items() if step.last is not step.end and step.settled is None}
    ended = {name: at for name, at in ended.items() if name not in tried}
    while late := {name for name, at in ended.items() if any(ended.get(one, at) >= at for one in waits.get(name, ()))}:
        ended = {name: at for name, at in ended.items() if name not in late}
    return ended


def _newest(row: RunRow) -> tuple[float, str]:
    return row.at.timestamp() if row.at is not None else 0.0, row.run


def verify_run(
    ctx: Invocation,
    run: ARun = None,
    json: AsJson = False,
) -> int:
    """Check whether the records of a run hold: their sequence, the objects they name, the keys made again; 1 if not.

    Examples:
        git baton run verify nightly
    """
    with opened(ctx) as baton:
        journal = Journal(baton.repo, author=b"", clock=baton.clock)
        run = chosen(journal, run)
        report = verify(journal, run)
        if json:
            print_json({"run": run, **picked(report, "records", "keys", "unproved", "problems")})
        else:
            keys = f"{counted(report.keys, 'key')} made again{f', {report.unproved} could not be' if report.unproved else ''}"
            found = counted(len(report.problems), "problem") if report.problems else "whole"
            said = f"run '{run}': {counted(report.records, 'record')}, {keys}: {found}"
            terminal.say_lines([*map(plain, report.problems), said])
        return 1 if report.problems else 0


def export_run(
    ctx: Invocation,
    run: ARun = None,
    output: Annotated[Optional[str], Option(metavar="DIR", help="Where the files go (the run's name).")] = None,
    foreign: Annotated[bool, Option("--foreign", help="Allow a run that was fetched from elsewhere.")] = False,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> int:
    """Write the records of a run, and what its steps printed, as files into a folder.

    Examples:
        git baton run export nightly --output kept --dry-run
    """
    with opened(ctx) as baton:
        journal = Journal(baton.repo, author=b"", clock=baton.clock)
        run = chosen(journal, run)
        folder = output or run
        if not foreign and any(logged.foreign for logged in journal.records(run)):
            hint = f"look at it with 'git baton run show --records {run}'; --foreign allows it"
            raise UsageError(f"run '{run}' was fetched from elsewhere", hint)
        planned = to_export(journal, run, folder)
        if not dry_run:
            export(journal, folder, planned)
        if json:
            print_json({"run": run, "dry_run": dry_run, "folder": folder, "files": [file.path for file in planned]})
        elif dry_run:
            terminal.say_lines(plain(f"would write {folder}/{file.path}") for file in planned)
        else:
            terminal.say(f"{counted(len(planned), 'file')} written into {in_quotes(folder)}")
        return 0


def prune_runs(
    ctx: Invocation,
    runs: Annotated[
        Optional[list[str]], Argument(metavar="[RUN]...", help="Only these; default: all that are finished.")
    ] = None,
    keep: Annotated[Optional[int], Option(metavar="N", min=0, help="Keep so many of the newest (20).")] = None,
    older: Annotated[Optional[str], Option(metavar="TIME", help="Only what is older: 30d, 12h.")] = None,
    force: Annotated[bool, Option("--force", help="Also a named run that is unfinished or unreadable.")] = False,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> int:
    """Drop finished runs, but for the newest, and those that somebody uses.

    The newest (--keep, 20) stay, and with --older those that are younger. A run that is unfinished, or cannot be read, goes
    only by its name and with --force.

    Examples:
        git baton run prune --keep 50 --older 30d --dry-run
    """
    if force and not runs:
        raise UsageError("--force goes with the name of a run", "git baton run prune --dry-run")
    age = None if older is None else duration(older, "--older")
    with opened(ctx) as baton:
        journal = Journal(baton.repo, author=b"", clock=baton.clock)
        busy = {claim.run for claim in Claims(baton.repo).others()} | (set() if runs else set(in_use(baton.repo)))
        many, now = upkeep.KEEP if keep is None else keep, baton.clock()
        planned = upkeep.plan_prune(journal, runs or (), keep=many, older=age, now=now, busy=busy, force=force)
        gone, kept = (planned.drops, ()) if dry_run else upkeep.apply_prune(journal, planned)
        if gone and not dry_run:
            warn_all(sweep(baton))
        stay = (*planned.kept, *kept)
        code = 1 if kept or any(row.torn for row in stay) else 0
        if json:
            drops = [picked(drop, "run", "was", "records", "effects") for drop in gone]
            print_json({"dry_run": dry_run, "dropped": drops, "kept": [picked(row, "run", "why") for row in stay]})
            return code
        terminal.say_lines(plain(f"run '{row.run}' stays: {row.why}") for row in stay)
        for drop in gone:
            stand = f"{counted(drop.effects, 'effect')} of its steps {'stands' if drop.effects == 1 else 'stand'}, "
            said = f"run '{drop.run}': {counted(drop.records, 'record')}, {stand if drop.effects else ''}was {drop.was}"
            terminal.say(f"would drop {said}" if dry_run else f"dropped {said}")
        if not gone:
            terminal.say("no run to drop")
        if any(row.torn for row in stay):
            terminal.tell(f"hint: {MENDS}")
        return code
