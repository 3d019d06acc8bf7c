"""``git baton summary``."""

import os
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.care.tools.summarizing import part, summary
from gitbaton.checkpoints.names import moment_of
from gitbaton.cli.common import Track, opened
from gitbaton.cli.options import Argument, Invocation, Option

_SAYS_NOTHING = ("", "/tmp", "/var/tmp")


def command(
    ctx: Invocation,
    which: Annotated[
        Optional[str],
        Argument(metavar="[TRACK | A..B]", help="A whole track, the current one by default, or what came after A."),
    ] = None,
    track: Track = None,
    since: Annotated[Optional[str], Option(metavar="DATE", help="Not older: '2 hours ago', '2026-01-31'.")] = None,
) -> int:
    """Write what a track has done as Markdown for a pull request.

    It tells what was done, the decisions, the tests that were seen, the models and tokens of each day's turns, without those of
    subagents, the commits and the files that changed since the track began, and what is open. Secrets and the paths of this
    machine are replaced. Turns that changed no file are left out, and what a restore took away again.

    Examples:
        git baton summary parser
        git baton summary --since today
        git baton summary @~1..@   # the newest checkpoint alone
    """
    with opened(ctx) as baton:
        moment = None if since is None else moment_of(baton.store, since, "as in '2 hours ago' or '2026-01-31'")
        home, scratch = os.path.expanduser("~"), os.environ.get("TMPDIR", "")
        folders = {os.path.realpath(home): "~", home: "~"}
        folders |= {} if scratch.rstrip("/") in _SAYS_NOTHING else {scratch: "$TMPDIR"}
        terminal.say_lines(summary(baton, part(baton, which, track, moment), folders))
    return 0
