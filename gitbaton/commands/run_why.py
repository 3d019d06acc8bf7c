"""``git baton run why``."""

from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.cli.common import ARun, AsJson, print_json
from gitbaton.cli.options import Argument, Call
from gitbaton.codec import Json, path_document, plain
from gitbaton.commands.stepping import FOREIGN, desk, forecast_document, would
from gitbaton.journal.values import Cause
from gitbaton.render import path_in_quotes


def command(
    ctx: Call,
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
            rows: list[Json] = []
            for c in differences:
                path = path_document(c.path) if c.path is not None else None
                rows.append({"kind": c.kind, "path": path, "old": c.old, "new": c.new})
            mark: dict[str, Json] = {"foreign": True} if foreign else {}
            print_json({"run": name, **mark, **forecast_document(item), "differences": rows})
            return 0
        terminal.say(f"{plain(step)}: {would(item)}")
        for cause in differences:
            terminal.say(difference(cause, at.baton.settings.short))
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
