"""``git baton unpin``."""

import typer

from gitbaton.commands.pin import Pinned, set_and_say


def command(ctx: typer.Context, checkpoint: Pinned) -> int:
    """Take a pin back: the next prune goes by its rules again."""
    return set_and_say(ctx, checkpoint, pinned=False)
