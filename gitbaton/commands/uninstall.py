"""``git baton uninstall``."""

import os
from typing import Annotated

from gitbaton import terminal
from gitbaton.commands.common import DryRun, answer, askable, opened, print_plan
from gitbaton.commands.options import Call, Option
from gitbaton.commands.retaining import NO_TERMINAL
from gitbaton.errors import NoAnswerError, UsageError
from gitbaton.install import githooks as install
from gitbaton.install.plan import apply


def command(
    ctx: Call,
    dry_run: DryRun = False,
    purge: Annotated[bool, Option("--purge", help="Also delete all checkpoints, notes, LATEST and exported files.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="With --purge: do not ask.")] = False,
) -> int:
    """Take back what install did; with --purge also every checkpoint, after naming them and asking."""
    with opened(ctx) as baton:
        plan = install.plan_uninstall(baton, purge=purge)
        joined = os.path.lexists(os.path.join(baton.repo.shared_dir, "agents"))
        if purge and plan.steps and not dry_run and not yes:
            if not askable():
                raise UsageError("--purge asks before it deletes, and there is no terminal", NO_TERMINAL)
            for step in plan.steps:
                terminal.tell(f"would {step.text}")
            if answer("delete all of this? Type 'yes': ") != "yes":
                raise NoAnswerError("nothing was deleted")
        if not dry_run:
            apply(plan)
    print_plan([s.text for s in plan.steps], dry_run=dry_run, nothing="nothing of ours is installed")
    for notice in plan.notices:
        terminal.warn(notice)
    if joined:
        terminal.tell("hint: the hooks of coding agents stay: 'git baton agent uninstall --all' takes them back")
    return 0
