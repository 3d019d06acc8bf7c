"""``git baton import``."""

import os
from typing import Annotated

import typer

from gitbaton import porting, terminal
from gitbaton.codec import plain
from gitbaton.commands.common import opened


def command(
    ctx: typer.Context,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A folder with LATEST.json or context_checkpoint_*.json.")],
) -> int:
    """Take the checkpoints of an older, file-based folder into tracks; a second time adds nothing."""
    folder = os.path.abspath(folder)
    with opened(ctx) as baton:
        done = porting.import_folder(baton, folder)
    for track, count in done.added:
        terminal.say(f"{plain(track)}: {count} new checkpoint{'' if count == 1 else 's'}")
    return 0
