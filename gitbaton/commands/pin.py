"""``git baton pin``."""

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
    """Exempt a checkpoint from every prune, here and in every clone that hears of it."""
    with opened(ctx) as baton:
        stored, changed = set_pin(baton, checkpoint, pinned=True)
        short, step = baton.short(stored.id), line(stored.checkpoint.step)
        terminal.say(f"pinned {short} {step}" if changed else f"'{short}' is pinned already")
    return 0
