"""``git baton install`` and ``uninstall``."""

import os
from typing import Annotated, Optional

from gitbaton.agents.install import githooks as install
from gitbaton.agents.install.plan import apply, share
from gitbaton.base import terminal
from gitbaton.base.clients import NAMES
from gitbaton.base.errors import NoAnswerError, UsageError
from gitbaton.cli.commands.completion import installed
from gitbaton.cli.commands.retaining import NO_TERMINAL
from gitbaton.cli.common import DryRun, Verbose, answer, askable, confirmed, opened, print_plan, warn_all
from gitbaton.cli.options import Argument, Invocation, Option


def command(
    ctx: Invocation,
    dry_run: DryRun = False,
    display: Annotated[bool, Option(help="Let 'git log' show checkpoints (notes.displayRef).")] = True,
    fetch: Annotated[bool, Option("--fetch", help="Let a plain 'git fetch' bring what others pushed, too.")] = False,
    trailers: Annotated[
        Optional[bool],
        Option(
            "--trailers/--no-trailers", help="Name the agent in the commits that it makes (baton.trailers); asked otherwise."
        ),
    ] = None,
    remote: Annotated[Optional[str], Argument(metavar="[REMOTE]", help="With --fetch: the remote.")] = None,
) -> int:
    """Install hooks that warn when HEAD leaves a checkpoint, and let notes survive amend and rebase.

    notes.displayRef (not with --no-display) and notes.rewriteRef are set. With git 2.54 or newer the hooks stand in the
    configuration; before, in the hooks directory, where a hook that is there is kept and called first, by its own name. Where
    that cannot be, or core.hooksPath names another tool's directory, it stays and the lines to add are printed. --fetch adds
    patterns to remote.REMOTE.fetch, so that a plain 'git fetch' brings what others pushed, into refs/baton/remotes.

    --trailers adds one hook more, prepare-commit-msg: commits that a coding agent makes in its turn get the line 'Assisted-by:
    CLIENT:MODEL', with the model that its conversation names; your own commits, and commits that are made again (rebase,
    cherry-pick), do not. On a terminal it is asked for once.

    Examples:
        git baton install --dry-run
        git baton install
    """
    if remote is not None and not fetch:
        given = remote if remote in NAMES else ""
        hint = f"to join an agent on: git baton agent install {given}" if given else "a remote is named with --fetch"
        raise UsageError(f"unexpected argument '{remote}'", hint)
    with opened(ctx) as baton:
        if trailers is None and not dry_run and askable() and "baton.trailers" not in baton.repo.settings():
            trailers = confirmed("name the agent and its model in the commits that it makes (Assisted-by: CLIENT:MODEL)?")
        plan = install.plan_install(baton, display=display, fetch=fetch, remote=remote, trailers=trailers)
        if not dry_run:
            apply(plan)
            share(baton.repo)
    print_plan([s.text for s in plan.steps], dry_run=dry_run, nothing="everything is in place")
    for notice in plan.notices:  # one may have lines to copy
        terminal.tell(f"hint: {notice}")
    return 0


def uninstall(
    ctx: Invocation,
    dry_run: DryRun = False,
    purge: Annotated[bool, Option("--purge", help="Also delete all checkpoints, notes, LATEST and exported files.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="With --purge: do not ask.")] = False,
    verbose: Verbose = False,
) -> int:
    """Take back what install did; with --purge also every checkpoint, after naming them and asking.

    Our lines in info/exclude go as well; what they hid and stays is named. Hooks of agents and the completion of a shell, which
    are not of this repository alone, stay, and the command that removes them is named.

    Examples:
        git baton uninstall --dry-run
    """
    with opened(ctx) as baton:
        plan = install.plan_uninstall(baton, purge=purge)
        joined = os.path.lexists(os.path.join(baton.repo.shared_dir, "agents"))
        if purge and plan.steps and not dry_run and not yes:
            if not askable():
                raise UsageError("--purge asks before it deletes, and there is no terminal", NO_TERMINAL)
            print_plan([s.text for s in plan.steps], dry_run=True, nothing="", verbose=verbose, to=terminal.tell)
            if answer("delete all of this? Type 'yes': ") != "yes":
                raise NoAnswerError("nothing was deleted")
        if not dry_run:
            apply(plan)
    print_plan([s.text for s in plan.steps], dry_run=dry_run, nothing="nothing of ours is installed", verbose=verbose)
    warn_all(plan.notices)
    if joined:
        terminal.tell("hint: the hooks of coding agents stay: 'git baton agent uninstall --all' takes them back")
    for shell in installed():  # of the user, whose other repositories have it, too
        terminal.tell(f"hint: your completion of {shell} stays: 'git baton completion {shell} --uninstall' removes it")
    return 0
