"""``git baton pin``, and what unpin does as it does."""

from typing import Annotated

from gitbaton import terminal
from gitbaton.commands.common import opened
from gitbaton.commands.options import Argument, Call
from gitbaton.render import line
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
        short, step = baton.short(stored.id), line(stored.checkpoint.step)
        same = f"'{short}' is {'pinned already' if pinned else 'not pinned'}"
        terminal.say(f"{'pinned' if pinned else 'no longer pinned'} {short} {step}" if changed else same)
    return 0
