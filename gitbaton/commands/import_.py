"""``git baton import``."""

import os
from typing import Annotated

from gitbaton import terminal
from gitbaton.cli.common import opened, warn_all
from gitbaton.cli.options import Argument, Call
from gitbaton.codec import bare, plain
from gitbaton.tools import porting


def command(
    ctx: Call,
    folder: Annotated[str, Argument(metavar="DIR", help="A folder with LATEST.json or context_checkpoint_*.json.")],
) -> int:
    """Take the checkpoints of an older, file-based folder into tracks, in the order of time.

    Each keeps its words and its time; its author is 'gitbaton <gitbaton@localhost>'. Nothing in the folder is run or followed,
    and a file that cannot be understood is named and nothing is done. A second time adds nothing. The folder's current track
    becomes the current one where none is.

    Examples:
        git baton import older
    """
    with opened(ctx, talks="looking at checkpoints") as baton:
        done = porting.import_folder(baton, os.path.abspath(folder))
    warn_all(done.warnings)
    for track, count in done.added:
        said = "nothing new" if count == 0 else f"{count} new checkpoint{'' if count == 1 else 's'}"
        terminal.say(f"{bare(track)}: {said}")
    if done.current is not None:
        terminal.say(f"current track: {plain(done.current)}")
    if not done.added:
        terminal.say("no checkpoints there")
    return 0
