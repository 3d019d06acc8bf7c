"""Gates that were rejected, seen before anything is done for what lies behind them."""

from __future__ import annotations

from collections.abc import Sequence

from gitbaton.journal.values import Step
from gitbaton.running.context import Context
from gitbaton.running.decide import present
from gitbaton.running.graph import edges
from gitbaton.running.serving import result_of
from gitbaton.values import replace
from gitbaton.worktree.filesets import Entry


def closed(ctx: Context, steps: Sequence[Step]) -> tuple[Step, str] | None:
    """The first of these steps (each after those it needs) whose gate was rejected for the inputs of now, and its key. The
    steps before it count as they ended last, if their own inputs are as they were then: their effects may be undone. Raises
    GitError."""
    last = ctx.state().steps
    if not any(step.gate is not None and step.name in last and last[step.name].gate == "rejected" for step in steps):
        return None
    last = {name: replace(one, end=one.end or next(reversed(one.ends), None)) for name, one in last.items()}
    needs = edges(steps)
    files: dict[str, Entry | None] = {}
    same: set[str] = set()
    for step in steps:
        known = last.get(step.name)
        if known is None or not same.issuperset(needs.get(step.name, ())):
            continue
        now = present(ctx, step, state=last.get, changed=files)
        if step.gate is not None and known.gate == "rejected" and known.gate_key == now.key:
            return step, now.key
        if known.end is not None and known.end.record.key == now.key:
            same.add(step.name)
            files |= result_of(ctx, known.end)
    return None
