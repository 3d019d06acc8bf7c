"""Dropping whole runs that are finished: a plan, then one update of a ref for each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from gitbaton.errors import BatonError, NoAnswerError, NotFoundError, RefConflictError
from gitbaton.git.objects import RefChange
from gitbaton.journal import origins
from gitbaton.journal.chain import LOCK, Journal
from gitbaton.journal.names import check_run, run_ref
from gitbaton.journal.state import fold
from gitbaton.model import Oid
from gitbaton.values import replace, value

KEEP = 20


@value
class Drop:
    """A run that goes: the commit that it ``was``, how many records, when the newest was made, and how many ``effects`` of its
    steps stand, which nobody can compensate any more."""

    run: str
    was: Oid
    records: int
    newest: datetime | None
    effects: int = 0


@value
class Kept:
    """A run that stays although it is older than those that are kept anyway, and why."""

    run: str
    why: str


@value
class Plan:
    """What is dropped, oldest first, and what of the rest stays for a reason of its own."""

    drops: tuple[Drop, ...]
    kept: tuple[Kept, ...]


def plan(
    journal: Journal,
    runs: Sequence[str] = (),
    *,
    keep: int = KEEP,
    older: float | None = None,
    now: datetime,
    busy: Collection[str] = (),
) -> Plan:
    """What pruning would drop: the runs named, else every finished run that is neither among the ``keep`` newest nor younger
    than ``older`` seconds. Never one that is unfinished, nor one of ``busy``: those that somebody is using.

    Raises NotFoundError for a run that is not here, NoAnswerError for a named one that must stay.
    """
    refs = journal.refs()
    for run in runs:
        if check_run(run) not in refs:
            raise NotFoundError(f"there is no run '{run}' here")
    found = [_looked(journal, run, oid, busy) for run, oid in refs.items() if not runs or run in runs]
    found.sort(key=lambda row: (row[0].newest is not None, row[0].newest or now, row[0].run))
    if runs:
        for drop, why in found:
            if why and drop.newest is not None:
                raise NoAnswerError(f"run '{drop.run}' stays: {why}")
        return Plan(drops=tuple(drop for drop, _ in found), kept=())
    limit = None if older is None else now - timedelta(seconds=older)
    old = [row for row in found[: max(len(found) - keep, 0)] if limit is None or (row[0].newest or now) < limit]
    return Plan(
        drops=tuple(drop for drop, why in old if not why),
        kept=tuple(Kept(run=drop.run, why=why) for drop, why in old if why),
    )


def _looked(journal: Journal, run: str, oid: Oid, busy: Collection[str]) -> tuple[Drop, str]:
    """A run as it would be dropped, and why it must stay; empty where it need not."""
    try:
        records = journal.records(run)
    except BatonError as error:
        return Drop(run=run, was=oid, records=0, newest=None), f"it cannot be read: {error.message}"
    drop = Drop(run=run, was=records[-1].commit, records=len(records), newest=records[-1].record.at)
    if run in busy:
        return drop, "it is in use"
    state = fold(records)
    stands = [effect for step in state.steps.values() for effect in step.effects if effect.state == "live"]
    drop = replace(drop, effects=len(stands))
    return drop, "" if state.finished else f"it is unfinished: {state.why[0]}"


def apply(journal: Journal, planned: Plan) -> tuple[tuple[Drop, ...], tuple[Kept, ...]]:
    """Drop them, one after the other; those that went, and those that have moved since and stay. Their objects go when git
    collects its garbage."""
    gone, kept = list[Drop](), list[Kept]()
    for drop in planned.drops:
        ref = run_ref(drop.run)
        with journal.repo.lock((ref,), of=LOCK):
            try:
                journal.repo.objects.update([RefChange(name=ref, new=None, old=drop.was)])
            except RefConflictError as error:
                kept.append(Kept(run=drop.run, why=error.message))
                continue
            origins.clear(journal.repo, drop.run)
        journal.forget(drop.run)
        gone.append(drop)
    return tuple(gone), tuple(kept)
