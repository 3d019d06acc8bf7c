"""``git baton unpin``."""

from gitbaton.cli.options import Call
from gitbaton.commands.pin import Pinned, set_and_say


def command(ctx: Call, checkpoint: Pinned) -> int:
    """Take a pin back: the next prune goes by its rules again.

    Examples:
        git baton unpin parser~1
    """
    return set_and_say(ctx, checkpoint, pinned=False)
