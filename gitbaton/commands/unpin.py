"""``git baton unpin``."""

from typing import Annotated

import typer

from gitbaton import terminal
from gitbaton.commands.common import opened
from gitbaton.render import line
from gitbaton.retention.pins import set_pin


def command(
    ctx: typer.Context,
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="A checkpoint by any name that 'show' takes.")],
) -> int:
    """Take a pin back: the next prune goes by its rules again."""
    with opened(ctx) as baton:
        stored, changed = set_pin(baton, checkpoint, pinned=False)
        short, step = baton.short(stored.id), line(stored.checkpoint.step)
        terminal.say(f"no longer pinned {short} {step}" if changed else f"'{short}' is not pinned")
    return 0
