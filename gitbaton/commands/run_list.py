"""``git baton run list``."""

from datetime import datetime
from typing import Optional

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.cli.common import AsJson, opened, paged, picked, print_json
from gitbaton.cli.look import Cell, Column, Look
from gitbaton.cli.options import Call
from gitbaton.codec import Json, counted, plain, timestamp
from gitbaton.errors import BatonError
from gitbaton.journal.chain import Journal, remembered
from gitbaton.journal.state import fold
from gitbaton.running.recorded import kept_plan, whole
from gitbaton.values import value

TABLE = (Column(), Column(right=True, goes=1), Column(goes=2), Column())


@value
class Row:
    """A run: ``why`` it is not finished, when its newest record was made, and how many of its steps are done."""

    run: str
    why: tuple[str, ...]
    at: Optional[datetime] = None
    done: int = 0
    steps: int = 0
    foreign: bool = False


def command(ctx: Call, json: AsJson = False) -> int:
    """List the runs here, newest first: their age, how many of their steps are done, and what keeps one from its end.

    '*' marks the run that this work tree used last. 'git baton run show RUN' shows the steps of one.

    Examples:
        git baton run list
    """
    with opened(ctx, door=None) as baton:
        journal, last = Journal(baton.repo, author=b"", clock=baton.clock), remembered(baton.repo)
        rows = sorted((_row(baton, journal, run) for run in {**journal.refs(), **journal.fetched()}), key=_newest, reverse=True)
        if json:
            found: list[Json] = []
            for row in rows:
                at = {"at": timestamp(row.at) if row.at is not None else None, "current": row.run == last}
                found.append({**picked(row, "run", "foreign", "why", "done", "steps"), **at, "finished": not row.why})
            print_json({"runs": found})
            return 0
        with paged(ctx, baton) as look:
            for text in look.table(TABLE, [_cells(look, row, current=row.run == last) for row in rows]):
                terminal.say(text)
    return 0


def _cells(look: Look, row: Row, *, current: bool) -> tuple[Cell | str, ...]:
    name = (("* " if current else "  ", ""), ("> " if row.foreign else "", "foreign"), (row.run, "current" if current else ""))
    why = "; ".join(map(plain, row.why))
    end = ((f"! not finished: {why}", "waiting"),) if why else look.state("ok", "finished")
    return name, look.age(row.at), f"{row.done} of {counted(row.steps, 'step')} done", end


def _row(baton: Baton, journal: Journal, run: str) -> Row:
    objects = baton.repo.objects
    try:
        records = journal.records(run)
        state = fold(records)
        steps = {*state.steps, *(step.name for step in whole(kept_plan(state, objects), state, objects).steps)}
    except BatonError as error:
        return Row(run=run, why=(f"it cannot be read: {error.message}",))
    done = sum(step.end is not None and not state.unfinished(step) for step in state.steps.values())
    return Row(run=run, why=state.why, at=records[-1].record.at, done=done, steps=len(steps), foreign=state.foreign)


def _newest(row: Row) -> tuple[float, str]:
    return row.at.timestamp() if row.at is not None else 0.0, row.run
