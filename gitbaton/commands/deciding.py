"""What settle, approve and compensate share: a run that is looked up, its steps by name, and its context."""

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Optional

import typer

from gitbaton.codec import plain
from gitbaton.commands.reporting import JsonLines
from gitbaton.commands.stepping import Desk, desk
from gitbaton.errors import BatonError, NotFoundError, UsageError
from gitbaton.journal.values import Plan, Step
from gitbaton.running.claims import Claims
from gitbaton.running.context import Context
from gitbaton.running.recorded import newest, step_of
from gitbaton.running.taking import opened


@contextmanager
def decided(
    ctx: typer.Context, run: Optional[str], *, json: bool, foreign: bool = False, wait: float = 0.0
) -> Iterator[tuple[Desk, Context]]:
    """The run that is meant, with its lock held. ``wait``: seconds for which a step that is at work is waited for. Raises
    UsageError for one that was only fetched, NotFoundError."""
    with desk(ctx, json=json, run=run, new=False) as (at, name):
        if at.journal.tip(name) is None:
            raise UsageError(f"run '{name}' was fetched", f"'git baton run --continue {name} --foreign' makes it one of here")
        context = Context(
            at.baton,
            at.journal,
            Claims(at.baton.repo),
            name,
            watch=at.show,
            clock=at.baton.clock,
            sleep=time.sleep,
            random=random.random,
            wait=wait,
            foreign=foreign,
            show=not json,
            output=at.show.output,
        )
        with context, context.hold():
            yield at, context


def plan_of(context: Context) -> Optional[Plan]:
    """The plan that the run follows, as far as it can be had."""
    claim = context.state().plan
    try:
        return opened(context, claim) if claim is not None else None
    except BatonError:
        return None


def step_named(context: Context, plan: Optional[Plan], name: str) -> Step:
    """A step of the run, as the plan has it or else its records. Raises NotFoundError that lists them."""
    known(context, [name])
    found = plan.step(name) if plan is not None else None
    state = context.state().steps[name]
    logged = newest(state)
    return found or (step_of(logged.record) if logged is not None else Step(name=name, argv=()))


def known(context: Context, names: Sequence[str]) -> None:
    """Refuse names that are no step of the run. Raises NotFoundError that lists them."""
    steps = context.state().steps
    for name in names:
        if name not in steps:
            listed = ", ".join(list(steps)[:20])
            hints = (f"its steps: {listed}",) if listed else ()
            raise NotFoundError(f"run '{context.run}' has no step '{plain(name)}'", *hints)


def told(at: Desk, code: int) -> int:
    """Say the end where events are JSON; the exit code."""
    if isinstance(at.show, JsonLines):
        at.show.finished(code, {})
    return code
