"""``git baton scan``."""

from typing import Annotated, Optional

import typer

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, path_document, plain
from gitbaton.commands.common import opened, print_json
from gitbaton.errors import UsageError
from gitbaton.render import quoted
from gitbaton.scanning import NOT_SCANNED, Hit, Report, scan

MAX_IDS = 20


def command(
    ctx: typer.Context,
    names: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[CHECKPOINT|TRACK...]", help="Default: the whole current track."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every track, safety checkpoint, note and conversation.")] = False,
    files: Annotated[
        bool, typer.Option("--files", help="Captured files, too, where HEAD's history does not hold them.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Look for secrets in what is stored.

    Exit status 1 when something is found, 0 when nothing is, 128 when something could not be read.
    """
    if names and everything:
        raise UsageError("a checkpoint or track and --all exclude each other")
    with opened(ctx) as baton:
        report = scan(baton, names or (), everything=everything, files=files)
        if json:
            rows: list[Json] = [_document(hit) for hit in report.hits]
            print_json({"checkpoints": report.checkpoints, "hits": rows})
        else:
            _show(baton, report)
    for problem in report.problems:
        terminal.warn(f"'{problem.where}' is not scanned: {problem.reason}")
    return 1 if report.hits else 128 if report.problems else 0


def _document(hit: Hit) -> Json:
    """A hit as JSON: words have a field, files a path and a line."""
    name = path_document(hit.path)
    place: dict[str, Json] = {"field": None if hit.line else name, "path": name if hit.line else None}
    line = hit.line or None
    return {"checkpoint": hit.checkpoint, "commit": hit.commit, **place, "line": line, "kind": hit.kind, "shown": hit.shown}


def _show(baton: Baton, report: Report) -> None:
    for hit in report.hits:
        name = baton.short(hit.checkpoint) if hit.checkpoint else f"commit {baton.short(hit.commit or '?')}"
        where = f"{quoted(hit.path)}:{hit.line}" if hit.line else plain(hit.path)
        terminal.say(f"{name} {where}: {hit.kind}{' ' + hit.shown if hit.shown else ''}")
    ids = list(dict.fromkeys(baton.short(h.checkpoint) for h in report.hits if h.checkpoint and h.kind != NOT_SCANNED))
    if ids:
        more = " ..." if len(ids) > MAX_IDS else ""
        terminal.tell(f"hint: 'git baton forget --everywhere {' '.join(ids[:MAX_IDS])}{more}' removes them")
        terminal.tell("hint: what is no secret may be named in baton.redactAllow")
    if any(hit.kind == NOT_SCANNED for hit in report.hits):
        terminal.tell("hint: texts over baton.maxFileSize are not scanned")
