"""``git baton undo``."""

from typing import Annotated

import typer

from gitbaton.commands.common import opened
from gitbaton.commands.putting import carry_out
from gitbaton.restore.values import Order


def command(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the plan and change nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also change what is somebody else's work.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Take back the newest restore of this work tree.

    It touches what that restore touched, and nothing else. What was changed there since is in a safety checkpoint:
    'git baton redo' brings it back.
    """
    with opened(ctx, dry_run=dry_run) as baton:
        return carry_out(baton, "undo", Order(force=force), dry_run=dry_run, json=json)
