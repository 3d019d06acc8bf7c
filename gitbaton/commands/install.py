"""``git baton install``."""

from typing import Annotated

import typer

from gitbaton import terminal
from gitbaton.commands.common import opened, print_plan
from gitbaton.install import githooks as install


def command(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the plan; change nothing.")] = False,
    display: Annotated[bool, typer.Option(help="Let 'git log' show checkpoints (notes.displayRef).")] = True,
) -> int:
    """Install hooks that warn when HEAD leaves a checkpoint, and let notes survive amend and rebase."""
    with opened(ctx) as baton:
        plan = install.plan_install(baton, display=display)
        if not dry_run:
            install.apply(plan)
    print_plan([s.text for s in plan.steps], dry_run=dry_run, nothing="everything is in place")
    for notice in plan.notices:
        terminal.tell(f"hint: {notice}")
    return 0
