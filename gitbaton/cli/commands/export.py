"""``git baton export`` and ``import``."""

import os
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import bare, in_quotes, plain
from gitbaton.base.errors import UsageError
from gitbaton.care.tools import porting
from gitbaton.checkpoints.render import in_shell
from gitbaton.cli.common import opened, warn_all
from gitbaton.cli.options import Argument, Invocation, Option


def command(
    ctx: Invocation,
    history: Annotated[
        bool, Option("--history", help="Also context_checkpoint_<timestamp>_<label>.md and .json for every checkpoint.")
    ] = False,
    checkpoint_dir: Annotated[
        Optional[str], Option(metavar="DIR", help="Where to write: below the root, or absolute (runtime/checkpoints).")
    ] = None,
) -> int:
    """Write LATEST.md and LATEST.json again; with --history every checkpoint as files.

    Git ignores these files, and they are never read as truth. A file that git tracks is not written over; exit 1 says that
    something was left out.

    Examples:
        git baton export
        git baton export --history
    """
    with opened(ctx, checkpoint_dir, talks="looking at checkpoints") as baton:
        warnings = porting.export(baton, history=history)
    warn_all(warnings)
    return 1 if warnings else 0


def take_in(
    ctx: Invocation,
    folder: Annotated[str, Argument(metavar="DIR", help="A folder with LATEST.json or context_checkpoint_*.json.")],
) -> int:
    """Take the checkpoints of an older, file-based folder into tracks, in the order of time.

    Each keeps its words and its time; its author is 'gitbaton <gitbaton@localhost>'. Nothing in the folder is run or followed,
    and a file that cannot be understood is named and nothing is done. A second time adds nothing. The folder's current track
    becomes the current one where none is.

    Examples:
        git baton import older
    """
    if os.path.isfile(folder):
        parent = os.path.dirname(folder) or "."
        older, bundle = (
            f"name its folder: git baton import {in_shell(parent)}",
            f"of a bundle: git baton fetch {in_shell(folder)}",
        )
        hint = older if folder.endswith(".json") else bundle
        raise UsageError(f"{in_quotes(folder)} is a file and no folder", hint)
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
