"""``git baton export``."""

from typing import Annotated, Optional

import typer

from gitbaton import porting
from gitbaton.commands.common import opened, warn_all


def command(
    ctx: typer.Context,
    history: Annotated[bool, typer.Option("--history", help="Also two files for each checkpoint.")] = False,
    checkpoint_dir: Annotated[Optional[str], typer.Option(metavar="DIR", help="Where to write.")] = None,
) -> int:
    """Write LATEST.md and LATEST.json again; with --history every checkpoint as files."""
    with opened(ctx, checkpoint_dir) as baton:
        warn_all(porting.export(baton, history=history))
    return 0
