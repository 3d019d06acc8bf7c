"""One step, carried out durably: claimed, recovered, served or run, and recorded."""

from __future__ import annotations

from gitbaton.journal.values import Cause, Plan, Step
from gitbaton.running.context import Context
from gitbaton.running.results import Done

__all__ = ["Done", "perform"]


def perform(ctx: Context, step: Step, plan: Plan, *, force: Cause | None = None) -> Done:
    """Bring a step to its result: serve it where its key is unchanged, else run it, with its retries.

    ``plan``: all steps that may hang on it, whose effects are undone before its own. ``force``: run it for this cause even
    where nothing changed. Whatever keeps it from a result is in the Done; errors (BatonError) are those of the repository.
    """
    from gitbaton.running.carrying import carry

    return carry(ctx, step, plan, force)
