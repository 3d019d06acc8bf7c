"""``git baton run prune``."""

from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.cli.common import AsJson, DryRun, opened, picked, print_json, warn_all
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.codec import Json, counted, plain
from gitbaton.errors import MENDS, UsageError
from gitbaton.journal import prune
from gitbaton.journal.chain import Journal, in_use
from gitbaton.retention.holding import sweep
from gitbaton.running.claims import Claims
from gitbaton.running.plans import duration


def command(
    ctx: Call,
    runs: Annotated[
        Optional[list[str]], Argument(metavar="[RUN]...", help="Only these; default: all that are finished.")
    ] = None,
    keep: Annotated[Optional[int], Option(metavar="N", min=0, help="Keep so many of the newest (20).")] = None,
    older: Annotated[Optional[str], Option(metavar="TIME", help="Only what is older: 30d, 12h.")] = None,
    force: Annotated[bool, Option("--force", help="Also a named run that is unfinished or unreadable.")] = False,
    dry_run: DryRun = False,
    json: AsJson = False,
) -> int:
    """Drop finished runs, but for the newest, and those that somebody uses.

    The newest (--keep, 20) stay, and with --older those that are younger. A run that is unfinished, or cannot be read, goes
    only by its name and with --force.

    Examples:
        git baton run prune --keep 50 --older 30d --dry-run
    """
    if force and not runs:
        raise UsageError("--force goes with the name of a run", "git baton run prune --dry-run")
    age = None if older is None else duration(older, "--older")
    with opened(ctx) as baton:
        journal = Journal(baton.repo, author=b"", clock=baton.clock)
        busy = {claim.run for claim in Claims(baton.repo).others()} | (set() if runs else set(in_use(baton.repo)))
        many, now = prune.KEEP if keep is None else keep, baton.clock()
        planned = prune.plan(journal, runs or (), keep=many, older=age, now=now, busy=busy, force=force)
        gone, kept = (planned.drops, ()) if dry_run else prune.apply(journal, planned)
        if gone and not dry_run:
            warn_all(sweep(baton))
        stay = (*planned.kept, *kept)
        code = 1 if kept or any(row.torn for row in stay) else 0
        if json:
            drops: list[Json] = [picked(drop, "run", "was", "records", "effects") for drop in gone]
            print_json({"dry_run": dry_run, "dropped": drops, "kept": [picked(row, "run", "why") for row in stay]})
            return code
        for row in stay:
            terminal.say(plain(f"run '{row.run}' stays: {row.why}"))
        for drop in gone:
            stand = f"{counted(drop.effects, 'effect')} of its steps {'stands' if drop.effects == 1 else 'stand'}, "
            said = f"run '{drop.run}': {counted(drop.records, 'record')}, {stand if drop.effects else ''}was {drop.was}"
            terminal.say(f"would drop {said}" if dry_run else f"dropped {said}")
        if not gone:
            terminal.say("no run to drop")
        if any(row.torn for row in stay):
            terminal.tell(f"hint: {MENDS}")
        return code
