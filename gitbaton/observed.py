"""Observed facts as lines: for people, scripts and the next model. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from gitbaton.codec import first_line, timestamp
from gitbaton.model import (
    LAST_PROMPT,
    NOT_ENDED,
    TURN_ENDED,
    Checkpoint,
    ClientPlan,
    Observed,
    Ran,
    Stored,
    TestRun,
    Told,
    at_prompt,
)

_ORDER = {"doing": 0, "open": 1, "done": 2, "dropped": 3}
_NAMED = 5

Changed = Sequence[str] | None


def since_run(run: TestRun, later: Changed) -> Changed:
    """The paths that changed since a test ran: until the checkpoint that told of it first, and ``later``; None where that
    cannot be said."""
    return None if later is None else tuple(dict.fromkeys((*run.edited, *later)))


def test_line(run: TestRun, at: str, changed: Changed, more: int = 0) -> str:
    """``pytest -q: failed (1 failed, 2 passed), 5 minutes ago``; what changed since makes it stale. Nothing that was observed
    is called green."""
    parts = f"{first_line(run.command)}: {test_result(run)}, {at}"
    if changed is None:
        return f"{parts}; what changed since cannot be compared"
    if not changed:
        return parts
    named = ", ".join(map(first_line, changed[:_NAMED]))
    rest = len(changed) - _NAMED + more
    return f"{parts}; stale: {named}{f' and {rest} more' if rest > 0 else ''} changed since"


def test_result(run: TestRun) -> str:
    """How a test run ended, as ``failed (1 failed, 2 passed)``."""
    counts = ((run.failed, "failed"), (run.passed, "passed"), (run.skipped, "skipped"))
    said = ", ".join(f"{count} {word}" for count, word in counts if count)
    return f"{run.result} ({said})" if said else run.result


def plan_heading(plan: ClientPlan, at: str) -> str:
    """Whose plan it is, how old, and how far it has come."""
    states = [item.state for item in plan.items]
    count = ", ".join(f"{states.count(state)} {state}" for state in _ORDER if state in states)
    return f"{first_line(plan.agent)[:40]}, changed {at}: {count}{f', {plan.more} not listed' if plan.more else ''}"


def plan_items(plan: ClientPlan) -> list[str]:
    """The items, what is being done and what is open first."""
    items = sorted(plan.items, key=lambda item: _ORDER.get(item.state, 1))
    return [f"{item.state}: {first_line(item.text)}" for item in items]


def current_plans(observed: Observed) -> tuple[ClientPlan, ...]:
    """The newest plan, and older ones of other sessions where something in them is left."""
    left = [plan for plan in observed.plans[1:] if any(item.state in ("doing", "open") for item in plan.items)]
    return (*observed.plans[:1], *left)


def pairs(
    observed: Observed | None, later: Sequence[Changed], told: Told | None = None, when: Callable[[datetime], str] = timestamp
) -> list[tuple[str, str]]:
    """Keys and values for ``resume`` and its like; times are moments, which scripts can read, or what ``when`` makes of them.
    ``later``: for each test run the paths that changed since the checkpoint that told of it first. ``told``: what was said,
    where that is stored here."""
    if observed is None:
        return []
    found = [("asked", f"{when(one.at)} {one.text}") for one in (told.asked if told else observed.asked)]
    for plan in current_plans(observed):
        found.append(("plan", "\n".join([plan_heading(plan, when(plan.changed)), *plan_items(plan)])))
    for run, paths in zip(observed.tests, later, strict=True):
        changed = since_run(run, paths)
        text = test_line(run, when(run.ended), changed, run.edited_more)
        found.append(("tests", "\n".join([text, *(f"failed: {first_line(name)}" for name in run.names)])))
    if told is not None:
        found += [("listed", f"{when(one.at)} {one.text}") for one in (told.listed,) if one]
        found += [("said", f"{when(one.at)} {one.text}") for one in (told.said, told.saying) if one]
        for ran in told.commands:
            found.append(("ran", "\n".join([command_line(ran, when(ran.ended)), ran.output]).rstrip("\n")))
    if observed.edited:
        more = f"\nand {observed.edited_more} more" if observed.edited_more else ""
        found.append(("edited", "\n".join(map(first_line, observed.edited)) + more))
    return found


def leads(c: Checkpoint) -> bool:
    """Whether what was observed says more of today than what somebody wrote: nobody wrote anything; or the agent went on since,
    and files changed or a test failed."""
    o = c.observed
    if o is None or (c.kind != "manual" and c.carried is None):
        return o is not None
    written = c.carried.created if c.carried else c.created
    if o.until is None or o.until <= written:
        return False
    changed = c.carried is not None and (c.files is None or c.carried.tree != c.files.tree)
    return changed or any(run.result == "failed" and run.ended > written for run in o.tests)


def turn_of(c: Checkpoint) -> int:
    """The number of the turn whose end or midst a checkpoint holds, as its client counts; 0 where none is known, and for what
    was there before a prompt."""
    return c.observed.turns if c.observed is not None and c.kind == "auto" and not at_prompt(c.kind, c.step) else 0


def title(stored: Stored) -> tuple[str, TestRun | None]:
    """A checkpoint in a list: its step; of a turn that a client's records tell of ``turn 7  now the error messages``, and the
    newest test that ran in it."""
    c = stored.checkpoint
    if c.kind != "auto" or not c.step.startswith((TURN_ENDED, NOT_ENDED)):
        return c.step, None
    # Of a turn that did not end only the step tells.
    if c.observed is None or not c.observed.asked or c.files is None or c.step.startswith(NOT_ENDED):
        before, _, last = c.step.rpartition(LAST_PROMPT)  # what was asked last tells turns apart
        return f"{before.partition(': ')[0]}: {last}" if before else c.step, None
    ran = next((run for run in c.observed.tests[:1] if run.tree == stored.tree), None)
    return f"turn {c.observed.turns}  {first_line(c.observed.asked[-1].text)}", ran


def command_line(ran: Ran, at: str) -> str:
    """A command and how it ended."""
    how = "no exit status is known" if ran.status is None else f"exit status {ran.status}"
    return f"{first_line(ran.command)}: {how}, {at}"
