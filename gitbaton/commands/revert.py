"""``git baton revert``."""

import os
from typing import Annotated, Optional

from gitbaton.cli.common import AsJson, Track, Verbose, divided, one_meant, opened
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.commands.restore import DryRun, carry_out
from gitbaton.errors import NotFoundError, UsageError
from gitbaton.names import parted
from gitbaton.render import in_shell
from gitbaton.restore.values import Order
from gitbaton.values import replace


def command(
    ctx: Call,
    words: Annotated[
        Optional[list[str]],
        Argument(
            metavar="[TURN | A..B] [--] [PATH]...", help="Default: the newest turn that changed something, all its files."
        ),
    ] = None,
    session: Annotated[
        Optional[str], Option("--session", metavar="ID", help="All turns of a session; the beginning of its id is enough.")
    ] = None,
    track: Track = None,
    dry_run: DryRun = False,
    merge: Annotated[bool, Option("--merge", help="Where a change does not merge, write the conflict into the file.")] = False,
    foreign: Annotated[bool, Option("--foreign", help="Allow a turn that was fetched from elsewhere.")] = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Take back what a turn of an agent changed, and nothing else.

    A turn is what happened from a prompt to its end; one that goes on, or was cut short, up to now. TURN is any name of a
    checkpoint of it, as 'git baton log' shows them; A..B are the turns after A up to B, and A.. up to now. Several are taken
    back newest first, as one.

    Each path that the turn changed becomes what it was before. Where it was changed since, by whomever, that change stays: git
    merges the texts. What does not merge is a conflict and left alone; with --merge its markers are in the file. A path that a
    turn of another session may have changed meanwhile is a conflict, too, unless its client's records tell whose it is, or PATH
    names it. Whatever else is in the work tree stays as it is. PATH is a pathspec, as seen from the current directory.

    HEAD and branches stay, and what the turn committed is named. Of the files the index entries come back, too, where they are
    still as the turn left them. Every byte is in a safety checkpoint first: 'git baton undo' brings it back. Exits with 1 when
    a path was left as a conflict or refused.

    Examples:
        git baton revert --dry-run   # what would be done to which file
        git baton revert
        git baton revert parser~2..parser   # the last two turns
    """
    turns, paths = divided(ctx, words or [], 1)
    name, directory = turns[0] if turns else "", ctx.obj.repo_root or os.getcwd()
    ranged = parted(name, "..") is not None
    one_meant(name or None, track)
    if turns and not name:
        raise UsageError("the turn's name is empty")
    if session == "":
        raise UsageError("the session's id is empty")
    if name and not ranged and session:
        raise UsageError("TURN and --session exclude each other; a range A..B and --session do not")
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at files") as baton:
        order = Order(checkpoint=name, paths=tuple(paths), directory=directory, foreign=foreign, merge=merge)
        order = replace(order, session=session or "", track=track or "")
        try:
            return carry_out(baton, "revert", order, dry_run=dry_run, json=json, verbose=verbose)
        except NotFoundError as error:
            if not paths and name and not ranged and os.path.lexists(name):
                hint = (
                    f"to take back what a turn did to the file of that name: git baton revert -- {in_shell(order.checkpoint)}"
                )
                raise NotFoundError(error.message, hint) from None
            raise
