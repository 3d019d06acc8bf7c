"""``git baton scan``."""

from typing import Annotated, Optional

import typer

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, path_document
from gitbaton.commands.common import hit_place, opened, print_json
from gitbaton.commands.retaining import clean, discreet
from gitbaton.errors import UsageError
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
    with opened(ctx) as baton, discreet(baton):
        report = scan(baton, names or (), everything=everything, files=files)
        if json:
            rows: list[Json] = [_document(hit) for hit in report.hits]
            print_json({"checkpoints": report.checkpoints, "hits": clean(baton, rows)})
        else:
            _show(baton, report)
        for problem in report.problems:
            terminal.warn(baton.redactor.text(f"'{problem.where}' is not scanned: {problem.reason}"))
    return 1 if report.hits else 128 if report.problems else 0


def _document(hit: Hit) -> Json:
    """A hit as JSON: words have a field, files a path and a line."""
    name = path_document(hit.path)
    place: dict[str, Json] = {"field": None if hit.line else name, "path": name if hit.line else None}
    line = hit.line or None
    held: list[Json] = list(hit.held)
    said: dict[str, Json] = {"kind": hit.kind, "shown": hit.shown, "held": held}
    return {"checkpoint": hit.checkpoint, "commit": hit.commit, **place, "line": line, **said}


def _show(baton: Baton, report: Report) -> None:
    for hit in report.hits:
        terminal.say(f"{baton.redactor.text(hit_place(baton, hit))}: {hit.kind}{' ' + hit.shown if hit.shown else ''}")
    found = [oid for h in report.hits if h.kind != NOT_SCANNED for oid in (h.checkpoint, *h.held) if oid]
    ids = list(dict.fromkeys(baton.short(oid) for oid in found))
    if ids:
        which = f"the first {MAX_IDS} of the {len(ids)} checkpoints that hold them" if len(ids) > MAX_IDS else "them"
        terminal.tell(f"hint: 'git baton forget --everywhere {' '.join(ids[:MAX_IDS])}' removes {which}")
        terminal.tell("hint: what is no secret may be named in baton.redactAllow")
    if any(hit.kind == NOT_SCANNED for hit in report.hits):
        terminal.tell("hint: texts over baton.maxFileSize are not scanned")
