"""``git baton pin``, and what unpin does as it does."""

from typing import Annotated

from gitbaton import terminal
from gitbaton.commands.common import looking, opened
from gitbaton.commands.options import Argument, Call
from gitbaton.retention.pins import set_pin

Pinned = Annotated[str, Argument(metavar="CHECKPOINT", help="A checkpoint by any name that 'show' takes.")]


def command(ctx: Call, checkpoint: Pinned) -> int:
    """Exempt a checkpoint from every prune, here and in every clone that hears of it.

    Examples:
        git baton pin parser~1
    """
    return set_and_say(ctx, checkpoint, pinned=True)


def set_and_say(ctx: Call, checkpoint: str, *, pinned: bool) -> int:
    """Set or take back a pin."""
    with opened(ctx) as baton:
        stored, changed = set_pin(baton, checkpoint, pinned=pinned)
        look = looking(ctx, baton)
        said = ("pinned " if pinned else "no longer pinned ") if changed else "pinned already: " if pinned else "not pinned: "
        terminal.say(look.fit(said, look.named(stored)))
    return 0
