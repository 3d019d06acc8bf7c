"""``git baton run repair``."""

from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import plain
from gitbaton.base.errors import UsageError
from gitbaton.care.tools.comparing import tree_of
from gitbaton.cli.commands.reporting import because
from gitbaton.cli.commands.stepping import desk, ended, forecast_document, say_forecasts, side, waiting
from gitbaton.cli.common import ARun, picked, print_json
from gitbaton.cli.options import Invocation, Option
from gitbaton.git.worktree import globs
from gitbaton.runs.engine import Repair, RepairRequest


def command(
    ctx: Invocation,
    run: ARun = None,
    step: Annotated[Optional[list[str]], Option(metavar="STEP", help="Do this step again; may repeat.")] = None,
    path: Annotated[Optional[list[str]], Option(metavar="PATH", help="Do the steps that read it again; may repeat.")] = None,
    since: Annotated[
        Optional[str], Option(metavar="CHECKPOINT", help="Do the steps again that read what changed since.")
    ] = None,
    take: Annotated[
        Optional[str], Option(metavar="ours|theirs", help="Of an output that somebody edited: the step's, or theirs.")
    ] = None,
    wait: Annotated[
        Optional[str], Option(metavar="TIME", help="How long to wait for another at the same files (0) or run (2h).")
    ] = None,
    foreign: Annotated[bool, Option("--foreign", help="Allow a run that was fetched from elsewhere.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Say what would be done and why; run nothing.")] = False,
    json: Annotated[bool, Option("--json", help="Print JSON; while it runs one object a line.")] = False,
) -> int:
    """Do again what a mistake reaches, and nothing else: the steps named and all that hangs on them, where inputs change.

    What they did outside git is undone first. A step that fails again ends it. Files that none of these steps declares as
    outputs stay as they are.

    With --path the steps that read a path are meant, with --since those that read what changed since a checkpoint.

    Examples:
        git baton run repair checks --step lint --dry-run
        git baton run repair checks --since parser~1 -n
    """
    if not (step or path or since is not None):
        lists = "'git baton run show RUN' shows what failed or is stale"
        raise UsageError("none of --step, --path and --since is given", lists)
    taken, most = side(take), waiting(wait)
    with desk(ctx, json=json and not dry_run, run=run, new=False) as (at, name):
        changed = None
        if since is not None:
            from gitbaton.git.worktree.filedrift import changed_paths

            tree = tree_of(at.baton, at.baton.resolve(since))
            changed = tuple(changed_paths(at.baton.repo, at.baton.rules(), [tree])[tree])
        prefix = at.prefix()
        paths = tuple(globs.relative(globs.quote(typed), prefix) for typed in path or [])  # exactly these, and what is below
        order = RepairRequest(steps=tuple(step or ()), paths=paths, changed=changed)
        engine = at.engine()
        if dry_run:
            return _foretell(engine.dry_repair(order, name), json=json)
        made, outcome = engine.repair(order, name, foreign=foreign, take=taken, wait=most)
        if not made.seeds and not json:
            terminal.tell("baton: nothing is to be repaired")
        return ended(at, outcome)


def _foretell(made: Repair, *, json: bool) -> int:
    """Print what a repair would do."""
    if json:
        seeds = [{"step": name, **picked(cause, "kind", "path")} for name, cause in made.seeds]
        region = [forecast_document(item) for item in made.forecasts]
        print_json({"run": made.run, "seeds": seeds, "region": region, **picked(made, "writes")})
    else:
        terminal.say_lines(f"begins at {plain(name)}: {because(cause)}" for name, cause in made.seeds)
        say_forecasts(made.forecasts)
        terminal.say_lines(f"may change {plain(glob)}" for glob in made.writes)
        if not made.seeds:
            terminal.say("nothing is to be repaired")
    return 0
