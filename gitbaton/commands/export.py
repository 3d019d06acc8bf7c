"""``git baton export``."""

from typing import Annotated, Optional

from gitbaton.cli.common import opened, warn_all
from gitbaton.cli.options import Call, Option
from gitbaton.tools import porting


def command(
    ctx: Call,
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
