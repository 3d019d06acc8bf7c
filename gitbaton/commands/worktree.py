"""``git baton worktree``."""

from typing import Annotated

import typer

from gitbaton import terminal, worktrees
from gitbaton.codec import path_document, plain
from gitbaton.commands.common import opened, print_json, warn_all
from gitbaton.render import line, stored_document


def command(
    ctx: typer.Context,
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="As for show.")],
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The new work tree's directory; it must not exist.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print what would be done, and do nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Check a checkpoint out beside this work tree: its head, its files and its index, in a linked work tree.

    'git worktree remove DIR' takes it away again.
    """
    with opened(ctx) as baton:
        plan = worktrees.plan(baton, checkpoint, directory)
        if not dry_run:
            worktrees.apply(baton, plan)
        if json:
            place = path_document(plan.place)
            done = {"checkpoint": stored_document(plan.stored), "directory": place, "head": plan.head}
            print_json({**done, "dry_run": dry_run, "warnings": list(plan.warnings)})
        else:
            what = f"{baton.short(plan.stored.id)} {line(plan.stored.checkpoint.step)}"
            terminal.say(f"{'would check out' if dry_run else 'checked out'} {what} in '{plain(directory)}'")
    warn_all(plan.warnings)
    return 0
