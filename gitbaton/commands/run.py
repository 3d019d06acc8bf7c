"""``git baton run``."""

from typing import Annotated, Any, Optional

import typer

from gitbaton.commands import AFTER
from gitbaton.commands.common import one_of
from gitbaton.commands.wording import RunWords, StepWords, given, options, split
from gitbaton.errors import UsageError
from gitbaton.render import line

OF_A_PLAN = ("--jobs", "--only", "--dry-run")
OF_A_START = ("--only", "--dry-run", "--max-runs", "--max-wall")


@options(RunWords, StepWords)
def command(
    ctx: typer.Context,
    words: Annotated[
        Optional[list[str]], typer.Argument(metavar="[RUN] [-- CMD...]", help="RUN: with --continue; CMD: with --step.")
    ] = None,
    **typed: Any,
) -> int:
    """Run a command as a step that is done once: with the same inputs its result is served, after a crash it is recovered.

    The exit status is CMD's own; 75 it waits at a gate, 76 its outcome is unknown, 77 a compensation failed, 78 somebody else
    has or changed its outputs, 79 a guard against loops, 124 its time was over, 125 its outputs are not as declared.
    """
    run, step = split(typed)
    names, argv = _divided(ctx, words or [])
    _check(run, step, names, argv)
    from gitbaton.commands.stepping import go_on, run_plan, run_step

    if run.plan is not None:
        return run_plan(ctx, run)
    if run.resume:
        return go_on(ctx, run, names[0] if names else run.run)
    return run_step(ctx, run, step, argv)


def _divided(ctx: typer.Context, words: list[str]) -> tuple[list[str], list[str]]:
    """What stands before ``--`` and what after it."""
    after = ctx.meta.get(AFTER)
    count = len(words) - (after or 0)
    if count < 0:
        raise UsageError("'--' stands where the value of an option is needed")
    return words[:count], words[count:]


def _check(run: RunWords, step: StepWords, names: list[str], argv: list[str]) -> None:
    """Refuse what cannot be meant. Raises UsageError."""
    one_of(**{"step": run.step is not None, "plan": run.plan is not None, "continue": run.resume})
    way = "--step" if run.step is not None else "--plan" if run.plan is not None else "--continue" if run.resume else ""
    if not way:
        hint = "one step: 'git baton run --step NAME -- CMD...'; a plan: 'git baton run --plan FILE'"
        raise UsageError("none of --step, --plan and --continue is given", hint)
    if names and not run.resume:
        hint = "the command comes after '--'" if run.step is not None else "a run is named with --run"
        raise UsageError(f"unexpected argument '{line(names[0])}'", hint)
    if len(names) > 1 or (names and run.run is not None):
        raise UsageError(f"unexpected argument '{line(names[-1])}'", "--continue takes one run")
    if way == "--step":
        if not argv:
            raise UsageError("--step has no command", f"git baton run --step {line(run.step or '')} -- CMD...")
        wrong = [name for name in given(run) if name in OF_A_PLAN]
        hint = "it belongs to a plan"
    else:
        if argv:
            raise UsageError(f"{way} takes no command", "the plan has those of its steps")
        wrong = given(step) or [name for name in given(run) if run.resume and name in OF_A_START]
        hint = "a plan file says it in the table of the step" if given(step) else "it belongs to --plan"
    if wrong:
        raise UsageError(f"{way} and {wrong[0]} exclude each other", hint)
