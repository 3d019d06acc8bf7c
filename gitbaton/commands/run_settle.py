"""``git baton run settle``."""

from typing import Annotated, Optional

from gitbaton.cli.options import Argument, Call, Option
from gitbaton.errors import UsageError


def command(
    ctx: Call,
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
    from gitbaton.commands.stepping import decided, plan_of, step_named, told, waiting
    from gitbaton.running.recovery import settle

    with decided(ctx, run, json=json, wait=waiting(wait)) as (at, context):
        return told(at, settle(context, step_named(context, plan_of(context), step), done).code)
