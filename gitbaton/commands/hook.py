"""``git baton hook``: what hook scripts call. Normally dispatched before this module is imported; always exit 0."""

from typing import Annotated

import typer


def command(
    words: Annotated[list[str], typer.Argument(metavar="git EVENT [ARGS]...", help="Who calls, and why.")],
) -> int:
    """What the hook scripts call; it never fails."""
    from gitbaton.hooks.githooks import dispatch

    dispatch(words)
    return 0
