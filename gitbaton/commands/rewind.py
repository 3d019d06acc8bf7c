"""``git baton rewind``."""

import os
from typing import Annotated, Optional

import typer

from gitbaton import terminal
from gitbaton.commands.asking import Talk
from gitbaton.commands.common import Track, colours, one_meant, opened
from gitbaton.errors import UsageError
from gitbaton.restore.values import Order

WITHOUT_A_TERMINAL = (
    "list the checkpoints: git baton log",
    "see what would be restored: git baton restore --dry-run CHECKPOINT",
    "restore it: git baton restore CHECKPOINT",
    "restore it with its conversation: git baton restore --conversation CHECKPOINT",
)


def command(
    ctx: typer.Context,
    checkpoint: Annotated[
        Optional[str], typer.Argument(metavar="[CHECKPOINT]", help="A track, or as for show: list from there on.")
    ] = None,
    track: Track = None,
    limit: Annotated[
        int, typer.Option("-n", "--max-count", metavar="N", min=1, help="List at most N at once, as far as the terminal goes.")
    ] = 20,
    exact: Annotated[
        bool, typer.Option("--exact", help="Also remove files that the checkpoint does not know, unless they are ignored.")
    ] = False,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Bring the whole index back, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also change what is somebody else's work.")] = False,
    foreign: Annotated[bool, typer.Option("--foreign", help="Allow a checkpoint that was fetched from elsewhere.")] = False,
) -> int:
    """Pick a checkpoint from a list, see what would be restored, and restore files, conversation or both.

    It asks on a terminal, and changes nothing before the last answer; Enter, q or the end of input leave with 0, Ctrl-C with
    130. A restore is exactly the one that was shown, and ends as 'git baton restore' does: 'git baton undo' takes it back. What
    is somebody else's work is named, and left alone or, when you say so, overwritten, exactly that.
    """
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("rewind asks on a terminal, and this is none", *WITHOUT_A_TERMINAL)
    one_meant(checkpoint, track)
    with opened(ctx) as baton:
        order = Order(exact=exact, index=index, force=force, foreign=foreign)
        talk = Talk(baton, order, limit, colored=colours(ctx, baton))
        try:
            return talk.run(baton.lead(checkpoint, track))
        except (EOFError, KeyboardInterrupt) as error:
            terminal.say("")  # the shell's prompt begins a line of its own
            if isinstance(error, KeyboardInterrupt):
                raise
            return 0
