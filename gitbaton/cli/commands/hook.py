"""``git baton hook``: what git's hooks and the agents' clients call. Normally dispatched before this module is imported."""

from typing import Annotated, Optional

from gitbaton.cli.options import Argument, Invocation, Option


def command(
    ctx: Invocation,
    words: Annotated[list[str], Argument(metavar="AGENT EVENT", help="Who calls (claude, codex, ..., or git), and why.")],
    track: Annotated[Optional[str], Option(metavar="NAME", help="Default: GIT_BATON_TRACK, then the current track.")] = None,
    plugin: Annotated[bool, Option("--plugin", help="The hook is a plugin's.")] = False,
) -> int:
    """What clients and hook scripts call; it never fails. A client's payload is read from standard input.

    Within two seconds, before a compaction within the client's own time, always with exit 0.
    """
    from gitbaton.agents.hooks import dispatch

    dispatch([*words, *(["--track", track] if track else []), *(["--plugin"] if plugin else [])])
    return 0
