"""Dropping whole runs that are finished: a plan, then one update of a ref for each."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from gitbaton.codec import in_quotes
from gitbaton.errors import NoAnswerError, NotFoundError, RefConflictError, UnreadableRunError
from gitbaton.git.objects import RefChange
from gitbaton.journal.chain import LOCK, Journal
from gitbaton.journal.state import fold
from gitbaton.journal.values import Logged, check_run, run_ref
from gitbaton.model import Oid
from gitbaton.store.provenance import of_run
from gitbaton.values import replace, value

KEEP = 20


@value
class Drop:
    """A run that goes: the commit that it ``was`` (where its ref holds no id, that of no object), how many records, when the
    newest was made (None: it cannot be read), and how many ``effects`` of its steps stand, which nobody can compensate any
    more."""

    run: str
    was: Oid
    records: int
    newest: datetime | None
    effects: int = 0


@value
class Kept:
    """A run that stays although it is older than those that are kept anyway, and why; or ``torn``: it cannot be read."""

    run: str
    why: str
    torn: bool = False


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
    force: bool = False,
) -> Plan:
    """What pruning would drop: the runs named, else every finished run that is neither among the ``keep`` newest nor younger
    than ``older`` seconds. Never one that is unfinished, nor one of ``busy``: those that somebody is using. ``force``: of the
    named ones also one that is unfinished, or cannot be read.

    Raises NotFoundError for a run that is not here, NoAnswerError and UnreadableRunError for a named one that must stay.
    """
    refs = journal.refs()
    for run in runs:
        if check_run(run) not in refs:
            raise NotFoundError(f"there is no run '{run}' here")
    found: list[tuple[datetime, Drop, str]] = []
    torn: list[Kept] = []
    for run in sorted(refs.keys() & set(runs) if runs else refs):
        try:
            records = journal.records(run)
        except UnreadableRunError as error:
            if runs and not force:
                raise
            if not runs:
                torn.append(Kept(run=run, why=f"it cannot be read: {error.reason}", torn=True))
                continue
            drop, why = Drop(run=run, was=refs[run], records=0, newest=None), "it is in use" if run in busy else ""
        else:
            drop, why = _looked(run, records, busy)
        found.append((drop.newest or now, drop, why))
    found.sort(key=lambda row: (row[0], row[1].run))
    if runs:
        for _, drop, why in found:
            if why and not (force and drop.run not in busy):
                raise NoAnswerError(f"run '{drop.run}' stays: {why}")
        return Plan(drops=tuple(drop for _, drop, _ in found), kept=())
    limit = None if older is None else now - timedelta(seconds=older)
    old = [row for row in found[: max(len(found) - keep, 0)] if limit is None or row[0] < limit]
    return Plan(
        drops=tuple(drop for _, drop, why in old if not why),
        kept=(*torn, *(Kept(run=drop.run, why=why) for _, drop, why in old if why)),
    )


def _looked(run: str, records: Sequence[Logged], busy: Collection[str]) -> tuple[Drop, str]:
    """A run as it would be dropped, and why it must stay; empty where it need not."""
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
                if drop.was.strip("0"):
                    journal.repo.objects.update([RefChange(name=ref, new=None, old=drop.was)])
                elif not journal.repo.drop_broken(ref):
                    raise RefConflictError(f"{in_quotes(ref)} has moved")
            except RefConflictError as error:
                kept.append(Kept(run=drop.run, why=error.message))
                continue
            journal.ours.drop(of_run(drop.run))
        journal.forget(drop.run)
        gone.append(drop)
    return tuple(gone), tuple(kept)
