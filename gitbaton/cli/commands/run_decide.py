"""``git baton run approve``, ``settle`` and ``compensate``."""

from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import UsageError
from gitbaton.cli.options import Argument, Invocation, Option

if TYPE_CHECKING:
    from gitbaton.runs.context import Context
    from gitbaton.runs.journal.values import Plan


def approve_step(
    ctx: Invocation,
    step: Annotated[str, Argument(metavar="STEP", help="A step that waits at its gate.")],
    reject: Annotated[bool, Option("--reject", help="Close the gate, and undo the effects that lead to it.")] = False,
    run: Annotated[Optional[str], Option(metavar="RUN", help="Default: this work tree's.")] = None,
    foreign: Annotated[bool, Option("--foreign", help="Run compensations that were recorded elsewhere, too.")] = False,
    json: Annotated[bool, Option("--json", help="Print one JSON object a line for what happens.")] = False,
) -> int:
    """Open the gate at which a step waits; the next run carries it out.

    The approval is of the inputs that it waits with: with others it waits again.

    --reject closes it and undoes the effects that lead to it.

    Examples:
        git baton run approve review --run nightly
    """
    from gitbaton.cli.commands.stepping import decided, finish, plan_of, step_named
    from gitbaton.runs.effects import approve

    with decided(ctx, run, json=json, foreign=foreign) as (at, context):
        plan = plan_of(context)
        return finish(at, approve(context, step_named(context, plan, step), reject, plan))


def settle_step(
    ctx: Invocation,
    step: Annotated[str, Argument(metavar="STEP", help="A step whose outcome is unknown.")],
    done: Annotated[bool, Option("--done", help="Its effect happened.")] = False,
    undone: Annotated[bool, Option("--undone", help="Its effect did not happen, or was undone by hand.")] = False,
    run: Annotated[Optional[str], Option(metavar="RUN", help="Default: this work tree's.")] = None,
    wait: Annotated[Optional[str], Option(metavar="TIME", help="How long to wait while another is at the step (2h).")] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object a line for what happens.")] = False,
) -> int:
    """Decide an outcome that nobody knows: whether the effect of a step happened before it was interrupted.

    With --done what lies in its outputs is its result; with --undone it may run again.

    Examples:
        git baton run settle publish --undone --run nightly
    """
    if done == undone:
        raise UsageError("--done and --undone exclude each other" if done else "neither --done nor --undone is given")
    from gitbaton.cli.commands.stepping import decided, finish, plan_of, step_named, waiting
    from gitbaton.runs.effects import settle

    with decided(ctx, run, json=json, wait=waiting(wait)) as (at, context):
        return finish(at, settle(context, step_named(context, plan_of(context), step), done).code)


def compensate_steps(
    ctx: Invocation,
    steps: Annotated[Optional[list[str]], Argument(metavar="[STEP]...", help="Default: all, where --run is given.")] = None,
    run: Annotated[Optional[str], Option(metavar="RUN", help="Default: this work tree's.")] = None,
    foreign: Annotated[bool, Option("--foreign", help="Run compensations that were recorded elsewhere, too.")] = False,
    wait: Annotated[
        Optional[str], Option(metavar="TIME", help="How long to wait where a step that depends on them is at work (0).")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Print what would be undone; undo nothing.")] = False,
    json: Annotated[bool, Option("--json", help="Print JSON; one object a line for what happens.")] = False,
) -> int:
    """Undo the effects of steps by their compensations, those of all that depends on them first.

    Exit 1 when no effect of theirs stands, 77 when a compensation fails: then those before it stay as they are. 78 when a step
    that depends on them is at work, 76 when nobody knows what one did: then nothing is undone.

    Examples:
        git baton run compensate deploy --run nightly --dry-run
    """
    if not steps and run is None:
        raise UsageError("no step is named", "'git baton run compensate --run RUN' undoes all effects of a run")
    from gitbaton.cli.commands.stepping import decided, finish, known, plan_of, waiting
    from gitbaton.runs.effects import compensate

    with decided(ctx, run, json=json and not dry_run, foreign=foreign, wait=waiting(wait)) as (at, context):
        known(context, steps or [])
        names, plan = steps or list(context.state().steps), plan_of(context)
        return _foretell(context, names, plan, json=json) if dry_run else finish(at, compensate(context, names, plan))


def _foretell(context: "Context", names: list[str], plan: "Optional[Plan]", *, json: bool) -> int:
    """Print what would be undone, in its order; exit 1 for nothing. Raises RunError 76 for an unknown outcome."""
    from gitbaton.cli.common import print_json
    from gitbaton.runs.effects import compensation, to_compensate
    from gitbaton.runs.plans import step_of

    found = []
    for name, effect in to_compensate(context, names, plan):
        line = compensation((plan.step(name) if plan is not None else None) or step_of(effect.logged.record), effect)
        said = f"would leave the effect of {in_quotes(name)}: nothing undoes it"
        if line:
            said = f"would undo the effect of {in_quotes(name)}: {line}"
        elif line is None and effect.logged.record.compensate is not None:
            said = f"would stop at the effect of {in_quotes(name)}: the line that undoes it is not recorded in full (a secret)"
        found.append((name, line, plain(said)))
    if json:
        print_json({"run": context.run, "undo": [{"step": name, "compensate": line} for name, line, _ in found]})
    else:
        terminal.say_lines([said for *_, said in found] or ["no effect stands"])
    return 0 if found else 1
