"""``git baton run show`` and ``run why``: a run's steps as they stand now, or the records of its journal."""

from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, path_document, plain, timestamp
from gitbaton.base.errors import NotFoundError, UnreadableRunError
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import line, path_in_quotes
from gitbaton.cli.commands.reporting import because
from gitbaton.cli.commands.stepping import FOREIGN, desk, forecast_document, would
from gitbaton.cli.common import ARun, AsJson, looking, opened, paged, picked, print_json
from gitbaton.cli.look import Cell, Column, Look
from gitbaton.cli.options import Argument, Invocation, Option
from gitbaton.cli.waiting import spent
from gitbaton.runs.journal.chain import Journal, chosen
from gitbaton.runs.journal.codec import document as record_document
from gitbaton.runs.journal.state import fold
from gitbaton.runs.journal.values import Cause
from gitbaton.runs.report import Line, Report

SHOWN = 3  # outputs that a line names
WORDS = {
    "ok": "ok",
    "crashed": "crashed",
    "waiting": "waiting at its gate",
    "rejected": "rejected at its gate",
    "unknown": "outcome unknown",
    "undoing": "its compensation has no end",
    "never-run": "never run",
    "dropped": "not in the plan",
}
BAD = ("failed", "crashed", "unreadable", "unknown", "rejected")
TABLE = (Column(), Column(right=True, goes=1), Column(right=True, goes=2), Column(goes=3), Column())
RECORDS = (Column(goes=1), Column(right=True, goes=2), Column(), Column(), Column())


def command(
    ctx: Invocation,
    run: ARun = None,
    records: Annotated[bool, Option("--records", help="Show the records of its journal instead, oldest first.")] = False,
    step: Annotated[Optional[str], Option("--step", "-p", metavar="STEP", help="Of the records only this step's.")] = None,
    json: AsJson = False,
) -> int:
    """Show the steps of a run: their state, and what would run again and why, against the work tree as it is now.

    --records shows the records of its journal instead, --step those of one step.

    Examples:
        git baton run show
        git baton run show nightly --records
    """
    if records or step is not None:
        with opened(ctx) as baton:
            journal = Journal(baton.repo, author=b"", clock=baton.clock)
            _say_records(ctx, baton, journal, chosen(journal, run), step, json=json)
        return 0
    with desk(ctx, json=False, run=run, new=False) as (at, name):
        torn, foreign = None, at.journal.is_foreign(name)
        try:
            report = at.engine().look(name)
        except UnreadableRunError as error:
            why_not = f"it cannot be read: {error.reason}"
            report, torn = Report(run=name, finished=False, why=(why_not,), plan=None, lines=()), error
        if json:
            print_json({**document(report), **({"foreign": True} if foreign else {})})
        else:
            look = looking(ctx, at.baton)
            terminal.say_lines(look.table(TABLE, [_cells(look, item, at.baton.settings.short) for item in report.lines]))
            end = "finished" if report.finished else f"not finished: {'; '.join(map(plain, report.why))}"
            terminal.say(f"run '{report.run}': {end}")
            if foreign:
                terminal.tell(FOREIGN.format(name))
        if torn is not None:
            raise torn
    return 0


def standing(item: Line) -> str:
    """The state of a step in words."""
    if item.state == "stale":
        cause, on = item.would.cause, ", ".join(plain(name) for name in item.would.on)
        return f"stale: {because(cause)}" if cause is not None else f"stale: it depends on what {on} gives" if on else "stale"
    if item.state == "failed":
        return f"failed with {item.exit}" if item.exit is not None else "failed"
    if item.state == "unreadable":
        return f"it cannot be told: {plain(item.would.problem)}"
    if item.state == "running":
        where = f" on {plain(item.host)}" if item.host else ""
        if item.pid is None:
            return f"its command runs on without the process that began it{where}"
        return f"running, process {item.pid}{where}"
    if item.state == "ok" and item.moved:
        more = f" and {len(item.moved) - SHOWN} more" if len(item.moved) > SHOWN else ""
        return f"ok, but not as recorded: {', '.join(map(in_quotes, item.moved[:SHOWN]))}{more}"
    return WORDS[item.state]


def _cells(look: Look, item: Line, short: int) -> tuple[Cell | str, ...]:
    """A step: since when its state is so, how long it took, its key, its state and what is odd about it."""
    said = standing(item)
    kind = (
        "failed" if item.state in BAD else "stale" if item.moved else item.state if item.state in ("ok", "stale") else "pending"
    )
    state = ((f"! {said}", "waiting"),) if item.state in ("waiting", "undoing") else look.state(kind, said)
    more = (
        f"exit {item.exit}" if item.exit is not None and item.state != "failed" else "",
        "nondeterministic" if item.nondeterministic else "",
        f"effect {item.effect}" if item.effect != "none" else "",
    )
    took = spent(item.duration_ms / 1000) if item.duration_ms is not None else ""
    then = look.age(item.at) if item.at is not None else ""
    rest = "".join(f", {text}" for text in more if text)
    return plain(item.step), then, took, (item.key or "")[:short], (*state, (rest, ""))


def document(report: Report) -> dict[str, Json]:
    """The JSON of a run's steps."""
    rows = [
        {
            **picked(item, "step", "state", "exit"),
            "at": timestamp(item.at) if item.at is not None else None,
            **picked(item, "duration_ms", "key", "attempts", "nondeterministic", "effect", "pid", "host"),
            "moved": [path_document(path) for path in item.moved],
            "next": {name: fact for name, fact in forecast_document(item.would).items() if name != "step"},
        }
        for item in report.lines
    ]
    return {**picked(report, "run", "finished", "why", "plan"), "steps": rows}


def _say_records(ctx: Invocation, baton: Baton, journal: Journal, run: str, step: Optional[str], *, json: bool) -> None:
    records = journal.records(run)
    rows = [logged for logged in records if step is None or logged.record.step == step]
    if step is not None and not rows:
        names = dict.fromkeys(logged.record.step for logged in records if logged.record.step is not None)
        raise NotFoundError(f"run '{run}' has no step {in_quotes(line(step))}", f"steps: {', '.join(map(line, names))}")
    if json:
        listed = [
            {
                **picked(one, "commit", "foreign"),
                "parts": dict(sorted(one.parts.items())),
                "record": record_document(one.record),
            }
            for one in rows
        ]
        print_json({"run": run, **picked(fold(records), "lineage", "foreign", "finished", "why"), "records": listed})
        return
    with paged(ctx, baton) as look:
        cells: list[tuple[Cell | str, ...]] = []
        for logged in rows:
            record = logged.record
            colour = "failed" if record.type in ("fail", "abort", "comp-fail") else "green" if record.type == "end" else ""
            changed = len(record.undeclared) + record.undeclared_more
            details = (
                f"attempt {record.attempt}" if record.attempt is not None else "",
                f"exit {record.exit}" if record.exit is not None else "",
                "timeout" if record.timeout else "",
                plain(record.signal or ""),
                record.state or "",
                (record.key or "")[:8],
                counted(changed, "undeclared change") if changed else "",
                line(record.text or ""),
            )
            mark = ("> " if logged.foreign else "", "foreign")
            when, said = f"{record.at:%Y-%m-%d %H:%M:%S}", " ".join(text for text in details if text)
            cells.append(((mark, (when, "")), f"{record.seq}", line(record.step or "-"), ((record.type, colour),), said))
        terminal.say_lines(look.table(RECORDS, cells))


def why(
    ctx: Invocation,
    step: Annotated[str, Argument(metavar="STEP", help="A step of the run.")],
    run: ARun = None,
    json: AsJson = False,
) -> int:
    """Say why a step would run again: all in which it differs from its record, with the old and new ids.

    Examples:
        git baton run why deploy nightly
    """
    with desk(ctx, json=False, run=run, new=False) as (at, name):
        foreign = at.journal.is_foreign(name)
        if foreign and not json:
            terminal.tell(FOREIGN.format(name))
        item, differences = at.engine().why(name, step)
        if json:
            paths = [path_document(c.path) if c.path is not None else None for c in differences]
            rows = [
                {"kind": c.kind, "path": path, "old": c.old, "new": c.new} for c, path in zip(differences, paths, strict=True)
            ]
            print_json({"run": name, **({"foreign": True} if foreign else {}), **forecast_document(item), "differences": rows})
        else:
            told = (difference(c, at.baton.settings.short) for c in differences)
            terminal.say_lines([f"{plain(step)}: {would(item)}", *told])
    return 0


def difference(cause: Cause, short: int) -> str:
    """One thing in which a step differs from its record: what, and its old and new id."""
    name = f" {path_in_quotes(cause.path)}" if cause.path else ""
    if cause.kind == "failed" and cause.old is not None:
        return f"failed with {plain(cause.old)}"
    if cause.old is None and cause.new is None:
        return f"{plain(cause.kind)}{name}"
    return f"{plain(cause.kind)}{name}: {_side(cause.old, cause.kind, short)} -> {_side(cause.new, cause.kind, short)}"


def _side(text: Optional[str], kind: str, short: int) -> str:
    if text is None:
        return "none"
    if kind in ("input", "dep", "output", "env"):
        mode, _, oid = text.rpartition(" ")
        digest = oid.rpartition(":")[2][:short]
        return f"{mode} {digest}" if mode else digest
    return path_in_quotes(text)
