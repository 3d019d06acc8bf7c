"""``git baton resume``."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, in_quotes, plain, told_document
from gitbaton.base.errors import NoCheckpointError, NotFoundError
from gitbaton.checkpoints.baton import Baton
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
from gitbaton.cli.common import (
    AsJson,
    Lines,
    Tip,
    Track,
    looking,
    one_meant,
    one_of,
    opened,
    paged,
    print_json,
    tell_foreign,
    warn_all,
)
from gitbaton.cli.options import Invocation, Option
from gitbaton.runs.current import Unfinished, unfinished

if TYPE_CHECKING:
    from gitbaton.base.model import Told
    from gitbaton.checkpoints.baton import Resumed


def command(
    ctx: Invocation,
    checkpoint: Tip = None,
    track: Track = None,
    live: Annotated[bool, Option("--live", help="Also say how HEAD and the files have moved since.")] = False,
    json: AsJson = False,
    stable: Lines = False,
    checkpoint_dir: Annotated[Optional[str], Option(metavar="DIR", help="Where LATEST.md and LATEST.json go.")] = None,
) -> int:
    """Print what the next runner needs to go on: the step, how tests stand, what comes next, and what was decided.

    The first line has the track, the checkpoint's id and the step. The other lines begin with a name; further lines of a text
    are indented, and words from elsewhere stand behind '> '. A run that is not finished is named at the end, with what
    'git baton run --continue' would do.

    --porcelain prints KEY=VALUE lines that stay as they are; further lines of a value begin with a tab.

    --live adds where HEAD is, how it has moved, and how many files differ from the captured ones. Nothing ever runs the next
    command.

    Examples:
        git baton resume
        git baton resume --live   # and how it stands now
        git baton resume --track parser --json
    """
    one_meant(checkpoint, track)
    one_of(json=json, porcelain=stable)
    with opened(ctx, checkpoint_dir, talks="" if json or stable else "comparing files") as baton:
        runs = unfinished(baton)
        try:
            found = baton.resume(track, live=live, name=checkpoint)
        except NotFoundError as error:
            if isinstance(error, NoCheckpointError) and checkpoint is None:
                return _none(ctx, baton, runs, json=json, stable=stable)
            ends = {True: "cannot be read: '{}' says what helps", False: "is not finished: '{}' goes on with it"}
            hints = [f"run {in_quotes(one.run)} {ends[one.torn].format(one.command)}" for one in runs]
            raise NotFoundError(error.message, *error.hints, *hints) from None
        told = baton.told(found.stored)
        if json:
            print_json(document(found, told, runs))
        else:
            c, later = found.stored.checkpoint, found.live.tests if found.live else tests_then(baton.store, found.stored)
            if stable:
                here = baton.abbreviate(found.live.head.oid) if found.live else ""
                head, seen = baton.abbreviate(c.head), observed_pairs(c.observed, later, told)
                pairs = resume_lines(c, head, found.live, here, found.since, seen, found.changes, found.stored.restored)
                terminal.say_lines(quote(pairs, found.stored))
                terminal.say_lines(_going_on(runs))
            else:
                from gitbaton.cli import view

                facts = view.ViewFacts(later=later, told=told, changes=found.changes, since=found.since, live=found.live)
                with paged(ctx, baton) as look:
                    rows = [*view.words(baton, look, found.stored, facts), *view.observed(look, found.stored, facts)]
                    rows.append(view.amount(look, found.stored))
                    if not live:
                        rows.append(view.ViewRow(name="now", text="not looked at: --live compares HEAD and the files"))
                    going_on = (((f"run {one.run}", "; ".join(one.why)), ("  goes on", one.going_on)) for one in runs)
                    rows += [view.ViewRow(name=plain(name), text=text, ours=True) for pairs in going_on for name, text in pairs]
                    terminal.say_lines(view.lines(look, found.stored, rows))
        tell_foreign(baton, found.stored)
    warn_all(found.warnings)
    for text in sentences(found.live) if found.live and (json or stable) else ():
        terminal.tell(text)
    return 0


def _none(ctx: Invocation, baton: Baton, runs: Sequence[Unfinished], *, json: bool, stable: bool) -> int:
    """Say that there is no checkpoint yet, which is an answer, and how to begin; name the runs that are not finished."""
    if json:
        print_json(document(None, None, runs))
    elif stable:
        terminal.say_lines(_going_on(runs))
    else:
        from gitbaton.cli.commands.status import begin

        begin(baton, looking(ctx, baton))
        terminal.say_lines(plain(f"run {in_quotes(one.run)} is not finished: {one.command}") for one in runs)
    return 0


def _going_on(runs: Sequence[Unfinished]) -> Iterator[str]:
    """Yield KEY=VALUE lines of the runs that are not finished."""
    for one in runs:
        yield key_value("run", f"{one.run}: {'; '.join(one.why)}")
        yield key_value("run_continue", one.going_on)


def document(found: "Resumed | None", told: "Told | None", runs: Sequence[Unfinished]) -> dict[str, Json]:
    """Return the JSON of what the next runner needs to go on; of where there is no checkpoint yet, None."""
    if found is None:
        return {"checkpoint": None, "decisions": [], "runs": [one.document for one in runs], "warnings": []}
    return {
        "checkpoint": stored_document(found.stored),
        **({"live": live_document(found.live)} if found.live else {}),
        **({"since": since_document(found.since)} if found.since else {}),
        **({"told": told_document(told)} if told is not None else {}),
        "decisions": decisions_document(found.stored.checkpoint, found.changes),
        "runs": [one.document for one in runs],
        "warnings": list(found.warnings),
    }
