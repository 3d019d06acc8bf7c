"""``git baton steps``."""

from datetime import datetime
from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.codec import Json, path_document, plain, timestamp
from gitbaton.commands.common import AsJson, colours, picked, print_json
from gitbaton.commands.options import Argument, Call, Option
from gitbaton.commands.reporting import because, spent
from gitbaton.commands.stepping import desk, forecast_document, would
from gitbaton.errors import UnreadableRunError
from gitbaton.journal.values import Cause
from gitbaton.render import age, in_quotes
from gitbaton.running.report import Line, Report

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
COLORS = {"ok": "green", "stale": "stale", "waiting": "pending"}
COLORS |= dict.fromkeys(("failed", "crashed", "unreadable", "unknown"), "failed")


def command(
    ctx: Call,
    run: Annotated[Optional[str], Argument(metavar="[RUN]", help="Default: the run that this work tree used last.")] = None,
    why: Annotated[Optional[str], Option(metavar="STEP", help="Say all in which this step differs from its record.")] = None,
    json: AsJson = False,
) -> int:
    """Show the steps of a run: their state, and what would run again and why, against the work tree as it is now."""
    with desk(ctx, json=False, run=run, new=False) as (at, name):
        engine, short = at.engine(), at.baton.settings.short
        if why is not None:
            found = engine.why(name, why)
            if json:
                rows: list[Json] = []
                for c in found.differences:
                    path = path_document(c.path) if c.path is not None else None
                    rows.append({"kind": c.kind, "path": path, "old": c.old, "new": c.new})
                print_json({"run": name, **forecast_document(found.would), "differences": rows})
                return 0
            terminal.say(f"{plain(found.step)}: {would(found.would)}")
            for cause in found.differences:
                terminal.say(difference(cause, short))
            return 0
        torn = None
        try:
            report = engine.look(name)
        except UnreadableRunError as error:
            why_not = f"it cannot be read: {error.reason}"
            report, torn = Report(run=name, finished=False, why=(why_not,), plan=None, lines=()), error
        if json:
            print_json(document(report))
        else:
            on, now = colours(ctx, at.baton), at.baton.clock()
            for line in report.lines:
                head = terminal.paint(standing(line, now), COLORS.get(line.state), on=on)
                terminal.say(f"{plain(line.step)}: {', '.join([head, *facts(line, now, short)])}")
            end = "finished" if report.finished else f"not finished: {'; '.join(map(plain, report.why))}"
            terminal.say(f"run '{report.run}': {end}")
        if torn is not None:
            raise torn
    return 0


def standing(line: Line, now: datetime) -> str:
    """The state of a step in words."""
    if line.state == "stale":
        cause, on = line.would.cause, ", ".join(plain(name) for name in line.would.on)
        return f"stale: {because(cause)}" if cause is not None else f"stale: it depends on what {on} gives" if on else "stale"
    if line.state == "failed":
        return f"failed with {line.exit}" if line.exit is not None else "failed"
    if line.state == "unreadable":
        return f"it cannot be told: {plain(line.would.problem)}"
    if line.state == "running":
        where = f" on {plain(line.host)}" if line.host else ""
        since = f"since {age(line.at, now) if line.at else 'now'}"
        if line.pid is None:
            return f"its command runs on without the process that began it, {since}{where}"
        return f"running {since}, process {line.pid}{where}"
    if line.state == "ok" and line.moved:
        more = f" and {len(line.moved) - SHOWN} more" if len(line.moved) > SHOWN else ""
        return f"ok, but not as recorded: {', '.join(map(in_quotes, line.moved[:SHOWN]))}{more}"
    return WORDS[line.state]


def facts(line: Line, now: datetime, short: int) -> list[str]:
    """What else is known of a step: exit, age, duration, key, and what is odd about it."""
    said = (
        f"exit {line.exit}" if line.exit is not None and line.state != "failed" else "",
        age(line.at, now) if line.at is not None and line.state != "running" else "",
        spent(line.duration_ms / 1000) if line.duration_ms is not None else "",
        f"key {line.key[:short]}" if line.key is not None else "",
        "nondeterministic" if line.nondeterministic else "",
        f"effect {line.effect}" if line.effect != "none" else "",
    )
    return [text for text in said if text]


def difference(cause: Cause, short: int) -> str:
    """One thing in which a step differs from its record: what, and its old and new id."""
    name = f" {in_quotes(cause.path)}" if cause.path else ""
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
        digest = oid.removeprefix("sha256:")[:short]
        return f"{mode} {digest}" if mode else digest
    return in_quotes(text)


def document(report: Report) -> dict[str, Json]:
    """The JSON of a run's steps."""
    rows: list[Json] = []
    for line in report.lines:
        row = picked(line, "step", "state", "exit")
        row["at"] = timestamp(line.at) if line.at is not None else None
        row |= picked(line, "duration_ms", "key", "attempts", "nondeterministic", "effect", "pid", "host")
        row["moved"] = [path_document(path) for path in line.moved]
        rows.append({**row, "next": {name: item for name, item in forecast_document(line.would).items() if name != "step"}})
    return {**picked(report, "run", "finished", "why", "plan"), "steps": rows}
