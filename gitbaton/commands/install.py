"""``git baton install``."""

from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.cli.common import DryRun, opened, print_plan
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.errors import UsageError
from gitbaton.install import githooks as install
from gitbaton.install.plan import apply, share


def command(
    ctx: Call,
    dry_run: DryRun = False,
    display: Annotated[bool, Option(help="Let 'git log' show checkpoints (notes.displayRef).")] = True,
    fetch: Annotated[bool, Option("--fetch", help="Let a plain 'git fetch' bring what others pushed, too.")] = False,
    remote: Annotated[Optional[str], Argument(metavar="[REMOTE]", help="With --fetch: the remote.")] = None,
) -> int:
    """Install hooks that warn when HEAD leaves a checkpoint, and let notes survive amend and rebase.

    notes.displayRef (not with --no-display) and notes.rewriteRef are set. With git 2.54 or newer the hooks stand in the
    configuration; before, in the hooks directory, where a hook that is there is kept and called first, by its own name. Where
    that cannot be, or core.hooksPath names another tool's directory, it stays and the lines to add are printed. --fetch adds
    patterns to remote.REMOTE.fetch, so that a plain 'git fetch' brings what others pushed, into refs/baton/remotes.

    Examples:
        git baton install --dry-run
        git baton install
    """
    if remote is not None and not fetch:
        raise UsageError(f"unexpected argument '{remote}'", "a remote is named with --fetch")
    with opened(ctx) as baton:
        plan = install.plan_install(baton, display=display, fetch=fetch, remote=remote)
        if not dry_run:
            apply(plan)
            share(baton.repo)
    print_plan([s.text for s in plan.steps], dry_run=dry_run, nothing="everything is in place")
    for notice in plan.notices:
        terminal.tell(f"hint: {notice}")
    return 0
