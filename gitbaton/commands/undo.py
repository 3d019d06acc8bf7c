"""``git baton undo``."""

from gitbaton.cli.common import AsJson, Verbose, opened
from gitbaton.cli.options import Call
from gitbaton.commands.restore import DryRun, Force, carry_out
from gitbaton.restore.values import Order


def command(ctx: Call, dry_run: DryRun = False, force: Force = False, verbose: Verbose = False, json: AsJson = False) -> int:
    """Take back the newest restore or revert of this work tree.

    It touches what that restore touched, and nothing else. What was changed there since is in a safety checkpoint:
    'git baton redo' brings it back.

    Examples:
        git baton undo --dry-run
        git baton undo
    """
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at files") as baton:
        return carry_out(baton, "undo", Order(force=force), dry_run=dry_run, json=json, verbose=verbose)
