"""``git baton pin`` and ``unpin``."""

from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.care.retention.rules import set_pin
from gitbaton.cli.common import looking, opened
from gitbaton.cli.options import Argument, Invocation

Pinned = Annotated[str, Argument(metavar="CHECKPOINT", help="A checkpoint by any name that 'show' takes.")]


def command(
    ctx: Invocation,
    checkpoint: Pinned,
    name: Annotated[Optional[str], Argument(metavar="[NAME]", help="What it is called from now on.")] = None,
) -> int:
    """Exempt a checkpoint from every prune, here and in every clone that hears of it, and give it a name.

    With NAME every verb knows the checkpoint by it, until unpin. A checkpoint has one such name: another one replaces it.

    Examples:
        git baton pin parser~1
        git baton pin parser~1 before-rewrite
    """
    return set_and_say(ctx, checkpoint, pinned=True, called=name)


def set_and_say(ctx: Invocation, checkpoint: str, *, pinned: bool, called: Optional[str] = None) -> int:
    """Set or take back a pin."""
    with opened(ctx) as baton:
        stored, changed = set_pin(baton, checkpoint, pinned=pinned, called=called)
        look = looking(ctx, baton)
        said = ("pinned " if pinned else "no longer pinned ") if changed else "pinned already: " if pinned else "not pinned: "
        name = f"as {look.short(called.strip())}: " if called and changed else ""
        terminal.say(look.fit(said, name, look.named(stored)))
    return 0


def unpin(ctx: Invocation, checkpoint: Pinned) -> int:
    """Take a pin back: the next prune goes by its rules again.

    Examples:
        git baton unpin parser~1
    """
    return set_and_say(ctx, checkpoint, pinned=False)
