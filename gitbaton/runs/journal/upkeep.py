"""Upkeep of runs: each record verified against what is beside it, all of them exported as files, finished runs dropped."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import NoAnswerError, NotFoundError, RecordError, RefConflictError, UnreadableRunError, UsageError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import NEW, open_below
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.store.provenance import of_run
from gitbaton.git.objects import RefChange, lookup, parse_commit
from gitbaton.git.worktree.filetrees import EXECUTABLE, FILE, LINK, FileEntry, read_tree
from gitbaton.git.worktree.modes import ALL
from gitbaton.runs.journal.chain import LOCK, RECORD, Journal
from gitbaton.runs.journal.codec import idem, recompute
from gitbaton.runs.journal.state import NOTHING, StepState, fold
from gitbaton.runs.journal.values import TREES, Logged, Record, check_run, run_ref

_CLOSERS = ("end", "fail", "abort")
_UNDOERS = ("comp-end", "comp-fail")


@value
class RunAudit:
    """Result of an audit: how many ``records`` there are, and the ``problems``, one line each. ``keys``: how many were made
    again; ``unproved``: how many could not be, because words were cut or a secret taken out."""

    run: str
    records: int
    keys: int
    unproved: int
    problems: tuple[str, ...]


def verify(journal: Journal, run: str) -> RunAudit:
    """Look at every record of a run. Only reads. Raises NotFoundError and UnreadableRunError; of what was fetched, all else is
    a problem."""
    try:
        records = journal.records(run)
    except UnreadableRunError:
        raise
    except RecordError as error:
        return RunAudit(run=run, records=0, keys=0, unproved=0, problems=(error.message,))
    problems: list[str] = []
    state, keys, unproved = NOTHING, 0, 0
    for logged in records:
        step = state.step(logged.record.step or "")
        said = [*_parts(logged), *_order(logged.record, step)]
        if logged.record.type == "begin":
            made = recompute(logged.record)
            keys, unproved = keys + (made is not None), unproved + (made is None)
            said += _key(logged, made, step.undone.count(logged.record.key or ""))
        state = fold([logged], state)
        problems += [f"record {logged.record.seq} ({logged.commit[:12]}): {text}" for text in said]
    problems += _missing(journal, records[-1].commit) if records else []
    return RunAudit(run=run, records=len(records), keys=keys, unproved=unproved, problems=tuple(problems))


def _key(logged: Logged, made: str | None, undone: int) -> list[str]:
    record = logged.record
    said = [f"its key is {record.key}, and its fields give {made}"] if made is not None and made != record.key else []
    if record.idem is not None and record.key is not None and record.step is not None:
        due = idem(record.lineage, record.step, record.key, undone)
        said += [f"its idempotency key is {record.idem}, and {due} is due"] if record.idem != due else []
    return said


def _parts(logged: Logged) -> list[str]:
    """Compare the parts beside a record with those that it names."""
    record, said, named = logged.record, [], logged.record.named
    for name in ("reads", "pre", "writes", "stdout", "stderr"):
        oid, there = named.get(name), logged.parts.get(name)
        if there != oid:
            said.append(f"it says that its {in_quotes(name)} is {oid or 'nothing'}, and {there or 'nothing'} lies there")
    images = {
        "undeclared": any(u.before for u in record.undeclared),
        "undeclared-after": any(u.after for u in record.undeclared),
    }
    lost = [name for name, due in images.items() if due and name not in logged.parts]
    return said + [f"it names files that were changed outside the write set, and has no {in_quotes(name)}" for name in lost]


def _order(record: Record, before: StepState) -> list[str]:
    """Return what is wrong where an end has no begin. An abort without one keeps foreign files of the write set."""
    name = f"the '{record.type}' of {in_quotes(before.name)}"
    begun, undoing = (logged.record if logged is not None else None for logged in (before.begun, before.compensating))
    apart = undoing is None or undoing.compensates != record.compensates
    other = begun is not None and None not in (record.key, begun.key) and record.key != begun.key
    rows = (
        (record.type in ("end", "fail") and begun is None, f"{name} has no begin"),
        (record.type in _CLOSERS and other, f"{name} has another key than its begin"),
        (record.type in _UNDOERS and apart, f"{name} has no comp-begin"),
    )
    return [text for wrong, text in rows if wrong]


def _missing(journal: Journal, tip: Oid) -> list[str]:
    """Whether every object that the records reach is here."""
    result = journal.repo.git.run("rev-list", "--objects", "--quiet", "--end-of-options", tip, "--")
    return [] if result.code == 0 else [f"not all is here: {result.fatal()}"]


_MAX_BLOB = 1 << 30


def to_export(journal: Journal, run: str, folder: str) -> list[FileEntry]:
    """Return what an export writes into a folder, in order: ``<number>/record.json``, ``stdout``, ``stderr``,
    ``plan.toml``, and ``trees/<id>/...`` for the trees that the records name. Raises NotFoundError; RecordError for what
    cannot be a file; NoAnswerError where something stands in the way."""
    files: list[FileEntry] = []
    trees: set[Oid] = set()
    for logged in journal.records(run):
        place = f"{logged.record.seq:06d}"
        found = journal.repo.objects.read(logged.commit)
        if found is None or found.data is None:
            raise RecordError(f"commit {logged.commit} cannot be read")
        entry = lookup(journal.repo.objects, parse_commit(found.data).tree, RECORD.encode())
        if entry is None:
            raise RecordError(f"commit {logged.commit} holds no {RECORD}")
        files.append(FileEntry(path=f"{place}/{RECORD}", mode=FILE, oid=entry.oid))
        for name, oid in sorted(logged.parts.items()):
            if name not in TREES:
                files.append(FileEntry(path=f"{place}/{name}", mode=FILE, oid=oid))
            elif oid not in trees:
                trees.add(oid)
                below = sorted(read_tree(journal.repo.objects, oid).items())
                files += [replace(entry, path=f"trees/{oid}/{path}") for path, entry in below]
    _free(folder, files)
    return files


def _free(folder: str, files: Iterable[FileEntry]) -> None:
    """Nothing that is there is written over, nor written below."""
    if os.path.lexists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{in_quotes(folder)} is not a folder")
    tops = dict.fromkeys(file.path.split("/", 1)[0] for file in files)
    for name in tops:
        if os.path.lexists(os.path.join(folder, name)):
            raise NoAnswerError(f"{in_quotes(os.path.join(folder, name))} is there already; nothing is written", "--output DIR")


def export(journal: Journal, folder: str, planned: Iterable[FileEntry]) -> None:
    """Write the files, those of trees for the user alone: not all records have their permissions. Raises OSError, and
    NoAnswerError where a file has come to stand there meanwhile."""
    for file in planned:
        path = os.path.join(folder, file.path)
        found = journal.repo.objects.read(file.oid, _MAX_BLOB)
        if found is None or found.kind != "blob" or found.data is None:
            raise RecordError(f"object {file.oid} cannot be read")
        os.makedirs(folder, exist_ok=True)
        try:
            _put(folder, file, found.data, 0o700 if file.path.startswith("trees/") else ALL)
        except FileExistsError:
            raise NoAnswerError(f"{in_quotes(path)} has come to stand there; it is left as it is") from None


def _put(folder: str, file: FileEntry, data: bytes, most: int) -> None:
    """Write one file, and make the folders that it needs."""
    path, mode = os.path.join(folder, file.path), file.mode
    os.close(open_below(folder, os.path.dirname(file.path).split("/"), lambda _fd, _depth: None, lambda _depth: most))
    if mode == LINK:
        os.symlink(os.fsdecode(data), path)
        return
    fd = os.open(path, NEW, (ALL if mode == EXECUTABLE else 0o666) & most)
    with open(fd, "wb") as writer:
        writer.write(data)


KEEP = 20


@value
class Drop:
    """A run to be dropped: the commit that it ``was`` (where its ref holds no id, that of no object), how many records,
    when the newest was made (None: it cannot be read), and how many ``effects`` of its steps stand, which cannot be
    compensated any more."""

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
class RunPrunePlan:
    """Runs to be dropped, oldest first, and those of the rest that stay for a reason of their own."""

    drops: tuple[Drop, ...]
    kept: tuple[Kept, ...]


def plan_prune(
    journal: Journal,
    runs: Sequence[str] = (),
    *,
    keep: int = KEEP,
    older: float | None = None,
    now: datetime,
    busy: Collection[str] = (),
    force: bool = False,
) -> RunPrunePlan:
    """Plan what is dropped: the runs named, else every finished run that is neither among the ``keep`` newest nor younger
    than ``older`` seconds. Never one that is unfinished, nor one of ``busy``: those in use. ``force``: of the named ones
    also one that is unfinished, or cannot be read.

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
        return RunPrunePlan(drops=tuple(drop for _, drop, _ in found), kept=())
    limit = None if older is None else now - timedelta(seconds=older)
    old = [row for row in found[: max(len(found) - keep, 0)] if limit is None or row[0] < limit]
    return RunPrunePlan(
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


def apply_prune(journal: Journal, planned: RunPrunePlan) -> tuple[tuple[Drop, ...], tuple[Kept, ...]]:
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
