"""Merge of observed facts: what an automatic checkpoint holds of a session, with what the one before it held."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from gitbaton.agents import facts as folding
from gitbaton.agents.facts import Command, Facts, Test
from gitbaton.model import Agent, ClientPlan, Observed, Oid, PlanItem, Prompt, Ran, Stored, TestRun, Told
from gitbaton.transcripts.observing import Seen, moment
from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.config import Observe

_PLANS = 3
_EDITED_AFTER = 10
NOTHING = Told()


@value
class Ground:
    """Where facts are held against: the work tree's ``root``, its captured ``tree``, and ``changed``, which gives the paths
    that differ from the checkpoint before, and were written after a moment."""

    root: str
    tree: Oid
    changed: Callable[[float], Sequence[str]]


def gather(mode: Observe, seen: Seen, agent: Agent, before: Stored | None, told: Told, ground: Ground) -> tuple[Observed, Told]:
    """What a checkpoint is to hold, and what stays beside the conversation. ``before``: the checkpoint that it follows, whose
    facts of other sessions go on; ``told``: what was said until then. What a stranger's holds is left to it."""
    own = before if before is not None and not before.foreign else None
    old = own.checkpoint.observed if own else None
    old, told = (old, told) if old is not None else (Observed(), NOTHING)
    facts, since = seen.facts, _milestone(own, old)
    asked = _asked(facts, told.asked, since) if mode == "all" else ()
    edited, more = _edited(facts, old, ground)
    observed = Observed(
        plans=_plans(facts, agent, old.plans),
        tests=_tests(facts.tests, old.tests, ground),
        edited=edited,
        edited_more=more,
        asked=tuple(Prompt(text=folding.line_of(one), at=moment(one.at)) for one in asked),
        turns=facts.turns,
        said=old.said,
        milestone=since,
        until=moment(facts.until) if facts.until else old.until,
        partial=seen.partial,
    )
    if mode != "all":
        return replace(observed, said=None), NOTHING
    fresh = Told(
        asked=tuple(Prompt(text=one.text, at=moment(one.at)) for one in asked),
        listed=_prompt(facts.listed) or _later(told.listed, since),
        said=(_prompt(facts.said) if _did(facts) else None) or told.said or _prompt(facts.said),
        saying=_prompt(facts.saying) if _did(facts) else None,
        commands=tuple(map(_ran, facts.commands)) or told.commands,
    )
    return observed, fresh


def _did(facts: Facts) -> bool:
    """Whether a session has done anything: one that was only told to go on, and ended, has nothing to say of the work."""
    return bool(facts.asked or facts.edited or facts.commands or facts.plan)


def _edited(facts: Facts, old: Observed, ground: Ground) -> tuple[tuple[str, ...], int]:
    """The files that the session edited, and how many more; those of the one before, while it has edited none."""
    edited = _inside(facts.edited, ground.root)
    if not edited:
        return old.edited, old.edited_more
    return tuple(edited[: folding.EDITED]), max(0, len(edited) - folding.EDITED)


def _milestone(before: Stored | None, old: Observed) -> datetime | None:
    """When the words with a label were written that came last: what was asked before them is done."""
    if before is not None and before.checkpoint.kind == "manual" and before.checkpoint.label is not None:
        return before.checkpoint.created
    return old.milestone


def _asked(facts: Facts, told: Iterable[Prompt], since: datetime | None) -> tuple[folding.Prompt, ...]:
    known = {(round(one.at, 3), one.text[:64]) for one in facts.asked}
    others = (folding.Prompt(at=one.at.timestamp(), text=one.text, size=len(one.text)) for one in told)
    both = [*(one for one in others if (round(one.at, 3), one.text[:64]) not in known), *facts.asked]
    return folding.kept([one for one in both if since is None or one.at > since.timestamp()])


def _prompt(said: folding.Prompt | None) -> Prompt | None:
    return None if said is None else Prompt(text=said.text, at=moment(said.at))


def _later(said: Prompt | None, since: datetime | None) -> Prompt | None:
    return said if said is not None and (since is None or said.at > since) else None


def _ran(command: Command) -> Ran:
    return Ran(
        command=command.command,
        status=command.status if command.status is None or command.status >= 0 else None,
        started=None if command.started is None else moment(command.started),
        ended=moment(command.ended),
        output=command.output,
    )


def _plans(facts: Facts, agent: Agent, old: Sequence[ClientPlan]) -> tuple[ClientPlan, ...]:
    """This session's plan and those of others, the newest first."""
    if facts.plan is None:
        return tuple(old)
    others = [plan for plan in old if (plan.agent, plan.session) != (agent.name, agent.session)]
    items = tuple(PlanItem(text=item.text, state=item.state or "open") for item in facts.plan)
    mine = ClientPlan(agent=agent.name, session=agent.session, changed=moment(facts.planned), items=items, more=facts.more)
    found = [*([mine] if items else []), *others]
    return tuple(sorted(found, key=lambda plan: plan.changed, reverse=True)[:_PLANS])


def _inside(paths: Iterable[str], root: str) -> list[str]:
    """Those of a client's paths that lie in the work tree, from its root."""
    top, real = root.rstrip("/") + "/", os.path.realpath(root).rstrip("/") + "/"
    found = (os.path.normpath(os.path.join(root, path)) for path in paths if "\0" not in path)
    inside = (path[len(t) :] for path in found if (t := next((t for t in (top, real) if path.startswith(t)), "")))
    return [path for path in dict.fromkeys(inside) if path != ".git" and not path.startswith(".git/")]


def _tests(found: Sequence[Test], old: Sequence[TestRun], ground: Ground) -> tuple[TestRun, ...]:
    """The newest run of each command, the newest first; one that was told of already is told of as it was."""
    runs = {run.command: run for run in old}
    for test in found:
        ended, last = moment(test.ended), runs.get(test.command)
        if last is None or ended > last.ended:
            runs[test.command] = _run(test, ground)
    return tuple(sorted(runs.values(), key=lambda run: run.ended, reverse=True)[: folding.TESTS])


def _run(test: Test, ground: Ground) -> TestRun:
    changed = list(dict.fromkeys([*_inside(test.changed, ground.root), *ground.changed(test.ended)]))
    return TestRun(
        command=test.command,
        result=test.result,
        passed=test.passed,
        failed=test.failed,
        skipped=test.skipped,
        names=test.names,
        started=None if test.started is None else moment(test.started),
        ended=moment(test.ended),
        tree=ground.tree,
        edited=tuple(changed[:_EDITED_AFTER]),
        edited_more=max(0, len(changed) - _EDITED_AFTER),
    )
