"""``git baton restore``."""

import os
from typing import Annotated, Optional

import typer

from gitbaton.commands.common import divided, opened
from gitbaton.commands.steps import carry_out
from gitbaton.errors import NotFoundError
from gitbaton.render import line
from gitbaton.restore.values import Order


def command(
    ctx: typer.Context,
    words: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[CHECKPOINT] [--] [PATH]...", help="Default: the newest of the current track, all files."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the plan and change nothing.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Also remove files that the checkpoint does not know, unless they are ignored.")
    ] = False,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Bring the whole index back, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also change what is somebody else's work.")] = False,
    foreign: Annotated[bool, typer.Option("--foreign", help="Allow a checkpoint that was fetched from elsewhere.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Put the files back as they were at a checkpoint.

    Every byte that is overwritten or removed is in a safety checkpoint first: 'git baton undo' brings it back. HEAD, branches
    and stashes stay; ignored files, and what is somebody else's work, are left alone and named.
    """
    checkpoints, paths = divided(ctx, words or [], 1)
    with opened(ctx, dry_run=dry_run) as baton:
        order = Order(
            checkpoint=checkpoints[0] if checkpoints else "@",
            paths=tuple(paths),
            directory=ctx.obj.repo_root or os.getcwd(),
            exact=exact,
            index=index,
            force=force,
            foreign=foreign,
        )
        try:
            return carry_out(baton, "restore", order, dry_run=dry_run, json=json)
        except NotFoundError as error:
            if paths or not os.path.lexists(order.checkpoint):
                raise
            raise NotFoundError(
                error.message, f"to restore the file of that name: git baton restore -- {line(order.checkpoint)}"
            ) from None
