"""``git baton resume``."""

from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, in_quotes, told_document
from gitbaton.base.errors import NotFoundError
from gitbaton.checkpoints.render import (
    decisions_document,
    key_value,
    live_document,
    observed_pairs,
    quote,
    resume_lines,
    sentences,
    since_document,
    stored_document,
)
from gitbaton.checkpoints.survey import tests_then
from gitbaton.cli.common import AsJson, Tip, Track, one_meant, opened, print_json, tell_foreign, warn_all
from gitbaton.cli.options import Invocation, Option
from gitbaton.runs.current import unfinished


def command(
    ctx: Invocation,
    checkpoint: Tip = None,
    track: Track = None,
    live: Annotated[bool, Option("--live", help="Also say how HEAD and the files have moved since.")] = False,
    json: AsJson = False,
    checkpoint_dir: Annotated[Optional[str], Option(metavar="DIR", help="Where LATEST.md and LATEST.json go.")] = None,
) -> int:
    """Print what the next runner needs to go on: KEY=VALUE lines; further lines of a value begin with a tab.

    A run that is not finished is named after the checkpoint, with what 'git baton run --continue' would do.

    --live adds where HEAD is, how it has moved, and how many files differ from the captured ones. Nothing ever runs the next
    command.

    Examples:
        git baton resume
        git baton resume --live   # and how it stands now
        git baton resume --track parser --json
    """
    one_meant(checkpoint, track)
    with opened(ctx, checkpoint_dir, talks="" if json else "comparing files") as baton:
        runs = unfinished(baton)
        try:
            found = baton.resume(track, live=live, name=checkpoint)
        except NotFoundError as error:
            hints = (f"run {in_quotes(one.run)} is not finished: '{one.command}' goes on with it" for one in runs)
            raise NotFoundError(error.message, *error.hints, *hints) from None
        told = baton.told(found.stored)
        if json:
            value: dict[str, Json] = {
                "checkpoint": stored_document(found.stored),
                **({"live": live_document(found.live)} if found.live else {}),
                **({"since": since_document(found.since)} if found.since else {}),
                **({"told": told_document(told)} if told is not None else {}),
                "decisions": decisions_document(found.stored.checkpoint, found.changes),
                "runs": [one.document for one in runs],
                "warnings": list(found.warnings),
            }
            print_json(value)
        else:
            here = baton.abbreviate(found.live.head.oid) if found.live else ""
            c, back = found.stored.checkpoint, found.stored.restored
            head = baton.abbreviate(c.head)
            later = found.live.tests if found.live else tests_then(baton.store, found.stored)
            seen = observed_pairs(c.observed, later, told)
            rows = resume_lines(c, head, found.live, here, found.since, seen, found.changes, back)
            terminal.say_lines(quote(rows, found.stored))
            going_on = ((("run", f"{one.run}: {'; '.join(one.why)}"), ("run_continue", one.going_on)) for one in runs)
            terminal.say_lines(key_value(*pair) for pairs in going_on for pair in pairs)
        tell_foreign(baton, found.stored)
    warn_all(found.warnings)
    for text in sentences(found.live) if found.live else ():
        terminal.tell(text)
    return 0
