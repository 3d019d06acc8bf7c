"""Whether a journal holds what it says: every record, what lies beside it, and the keys that its fields give."""

from __future__ import annotations

from gitbaton.errors import RecordError, UnreadableRunError
from gitbaton.journal.chain import Journal
from gitbaton.journal.keys import idem, recompute
from gitbaton.journal.state import StepState, follow
from gitbaton.journal.values import Logged
from gitbaton.model import Oid
from gitbaton.values import value

_CLOSERS = ("end", "fail", "abort")
_UNDOERS = ("comp-end", "comp-fail")


@value
class Report:
    """What was looked at and what is wrong: one line each, empty where nothing is. ``keys``: how many were made again;
    ``unproved``: how many could not be, because words were cut or a secret taken out."""

    run: str
    records: int
    keys: int
    unproved: int
    problems: tuple[str, ...]


def verify(journal: Journal, run: str) -> Report:
    """Look at every record of a run. Only reads. Raises NotFoundError and UnreadableRunError; of what was fetched, all else is
    a problem."""
    try:
        records = journal.records(run)
    except UnreadableRunError:
        raise
    except RecordError as error:
        return Report(run=run, records=0, keys=0, unproved=0, problems=(error.message,))
    problems: list[str] = []
    begun: dict[str, Logged] = {}
    undoing: dict[str, set[str]] = {}
    steps: dict[str, StepState] = {}
    keys = unproved = 0
    for logged in records:
        said = [*_parts(logged), *_order(logged, begun, undoing)]
        if logged.record.type == "begin":
            made = recompute(logged.record)
            keys, unproved = keys + (made is not None), unproved + (made is None)
            known = steps.get(logged.record.step or "")
            said += _key(logged, made, known.undone.count(logged.record.key or "") if known is not None else 0)
        follow(steps, logged)
        problems += [f"record {logged.record.seq} ({logged.commit[:12]}): {text}" for text in said]
    problems += _missing(journal, records[-1].commit) if records else []
    return Report(run=run, records=len(records), keys=keys, unproved=unproved, problems=tuple(problems))


def _key(logged: Logged, made: str | None, undone: int) -> list[str]:
    record = logged.record
    said = [f"its key is {record.key}, and its fields give {made}"] if made is not None and made != record.key else []
    if record.idem is not None and record.key is not None and record.step is not None:
        due = idem(record.lineage, record.step, record.key, undone)
        said += [f"its idempotency key is {record.idem}, and {due} is due"] if record.idem != due else []
    return said


def _parts(logged: Logged) -> list[str]:
    """What lies beside a record against what it says."""
    record, said = logged.record, []
    wanted: dict[str, Oid | None] = {
        "reads": record.reads.tree if record.reads else None,
        "pre": record.writes.pre if record.writes else None,
        "writes": record.writes.tree if record.writes else None,
        "stdout": record.stdout.oid if record.stdout else None,
        "stderr": record.stderr.oid if record.stderr else None,
    }
    for name, oid in wanted.items():
        there = logged.parts.get(name)
        if there != oid:
            said.append(f"it says that its '{name}' is {oid or 'nothing'}, and {there or 'nothing'} lies there")
    for name, images in (
        ("undeclared", [u.before for u in record.undeclared]),
        ("undeclared-after", [u.after for u in record.undeclared]),
    ):
        if any(images) and name not in logged.parts:
            said.append(f"it names files that were changed outside the write set, and has no '{name}'")
    return said


def _order(logged: Logged, begun: dict[str, Logged], undoing: dict[str, set[str]]) -> list[str]:
    """Whether what ends has begun; takes note of what begins."""
    record = logged.record
    step = record.step or ""
    if record.type == "begin":
        begun[step] = logged
    elif record.type in _CLOSERS:
        begin = begun.pop(step, None)
        if begin is None and record.type == "abort":
            return []  # it keeps what somebody else wrote into the write set
        if begin is None:
            return [f"the '{record.type}' of '{step}' has no begin"]
        if None not in (record.key, begin.record.key) and record.key != begin.record.key:
            return [f"the '{record.type}' of '{step}' has another key than its begin"]
    elif record.type == "comp-begin":
        undoing.setdefault(step, set()).add(record.compensates or "")
    elif record.type in _UNDOERS and (record.compensates or "") not in undoing.get(step, ()):
        return [f"the '{record.type}' of '{step}' has no comp-begin"]
    return []


def _missing(journal: Journal, tip: Oid) -> list[str]:
    """Whether every object that the records reach is here."""
    result = journal.repo.git.run("rev-list", "--objects", "--quiet", "--end-of-options", tip, "--")
    return [] if result.code == 0 else [f"not all is here: {result.fatal()}"]
