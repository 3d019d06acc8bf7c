"""``git baton run approve``."""

from typing import Annotated, Optional

from gitbaton.cli.options import Argument, Call, Option


def command(
    ctx: Call,
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
    from gitbaton.commands.stepping import decided, plan_of, step_named, told
    from gitbaton.running.effects import approve

    with decided(ctx, run, json=json, foreign=foreign) as (at, context):
        plan = plan_of(context)
        return told(at, approve(context, step_named(context, plan, step), reject, plan))
