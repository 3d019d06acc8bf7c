"""``git baton status``."""

from typing import Annotated

import typer

from gitbaton import terminal
from gitbaton.codec import Json, plain, timestamp
from gitbaton.commands.common import colours, one_of, opened, print_json, warn_all
from gitbaton.errors import NotFoundError
from gitbaton.exchange import TrackStatus
from gitbaton.render import age, line, live_document, origin, porcelain, quoting, stored_document, verdict

COLUMNS = ("current", "track", "id", "created", "validation", "drift", "step")


def command(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    stable: Annotated[bool, typer.Option("--porcelain", help="Print tab-separated output that stays stable.")] = False,
    nul: Annotated[bool, typer.Option("-z", help="End fields with NUL; implies --porcelain.")] = False,
) -> int:
    """Show every track against the present, newest first."""
    one_of(json=json, porcelain=stable or nul)
    with opened(ctx) as baton:
        tracks, problems = baton.status()
        if json:
            print_json({"tracks": [_document(t) for t in tracks]})
        elif stable or nul:
            terminal.write(porcelain(COLUMNS, [_row(t) for t in tracks], nul=nul, foreign=[t.stored for t in tracks]))
        elif tracks:
            on, now = colours(ctx, baton), baton.clock()
            colors = [verdict(t.stored, t.live.since) for t in tracks]
            rows = [_cells(t, baton.short(t.stored.id), age(t.stored.checkpoint.created, now)) for t in tracks]
            widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
            for row, color in zip(rows, colors, strict=True):
                cells = [c.ljust(w) for c, w in zip(row, widths, strict=True)]
                cells[4] = terminal.paint(cells[4], color, on=on)
                terminal.say("  ".join(cells).rstrip())
        warn_all(baton.newer([t.stored for t in tracks]))
    for problem in problems:
        terminal.warn(f"'{plain(problem.where)}' is left out: {plain(problem.reason)}")
    missed = next((t.live.uncounted for t in tracks if t.live.uncounted), None)
    if missed:
        terminal.warn(missed)
    if not tracks and not (json or stable or nul):
        raise NotFoundError("there is no checkpoint in this repository", "take one with 'git baton snapshot'")
    return 0


def _row(t: TrackStatus) -> tuple[str, ...]:
    c = t.stored.checkpoint
    created = timestamp(c.created)
    return (
        "*" if t.current else "",
        c.track,
        t.stored.id,
        created,
        verdict(t.stored, t.live.since),
        str(t.live.drift),
        c.headline,
    )


def _cells(t: TrackStatus, short: str, ago: str) -> tuple[str, ...]:
    c = t.stored.checkpoint
    drift = "" if not t.live.drift.words else str(t.live.drift)
    return (
        "*" if t.current else " ",
        plain(c.track),
        short,
        ago,
        verdict(t.stored, t.live.since),
        f"{quoting(t.stored)}{line(c.headline)[:60]} {origin(t.stored, t.remotes)}".rstrip(),
        drift,
    )


def _document(t: TrackStatus) -> Json:
    found: dict[str, Json] = {"current": t.current, "checkpoint": stored_document(t.stored), "live": live_document(t.live)}
    return {**found, "remotes": list(t.remotes)} if t.remotes else found
