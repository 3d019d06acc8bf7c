"""``git baton redo``."""

from gitbaton.cli.common import AsJson, Verbose, opened
from gitbaton.cli.options import Call
from gitbaton.commands.restore import DryRun, Force, carry_out
from gitbaton.restore.values import Order


def command(ctx: Call, dry_run: DryRun = False, force: Force = False, verbose: Verbose = False, json: AsJson = False) -> int:
    """Carry out again what undo took back.

    It touches what that undo touched. A new restore ends what could be redone.

    Examples:
        git baton redo --dry-run   # after an undo
    """
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at files") as baton:
        return carry_out(baton, "redo", Order(force=force), dry_run=dry_run, json=json, verbose=verbose)
