"""Runs between machines: they travel only when asked for, and a run only ever grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.errors import MENDS, BatonError, RecordError
from gitbaton.git.objects import RefChange
from gitbaton.journal.names import run_of, run_ref
from gitbaton.journal.reading import read
from gitbaton.model import Oid
from gitbaton.render import in_shell
from gitbaton.store.refs import RUNS
from gitbaton.store.sound import NONE
from gitbaton.sync.look import Seen, here
from gitbaton.sync.values import FetchedRun, Move


def moves(baton: Baton, seen: Seen, shown: str, apart: Mapping[str, str] = NONE) -> list[Move]:
    """What a push to the remote ``shown`` does with each run that is here. A broken one stays here, and so does one of which
    a ref is ``apart``, with why."""
    found = []
    for ref, oid in sorted(baton.repo.objects.refs(RUNS).items()):
        run = run_of(ref.removeprefix(RUNS))
        if run is not None and seen.others.get(ref) != oid:
            found.append(_move(baton, run, ref, oid, seen.others.get(ref), shown, apart.get(ref, "")))
    return found


def _move(baton: Baton, run: str, ref: str, oid: Oid, seen: Oid | None, shown: str, why: str) -> Move:
    try:
        if why:
            raise RecordError(why)
        records = read(baton.repo.objects, baton.store.root, run, oid, ())
    except BatonError as error:
        reason = f"run '{run}' is broken here: {error.message}"
        return Move(ref=ref, run=run, action="refused", seen=seen, reason=reason, broken=True, hint=MENDS)
    if seen is None:
        return Move(ref=ref, run=run, action="new", new=oid, count=len(records))
    at = next((number for number, logged in enumerate(records, 1) if logged.commit == seen), None)
    if at is None:
        reason = f"run '{run}' has records there that are not here"
        return Move(
            ref=ref, run=run, action="refused", seen=seen, reason=reason, hint=f"git baton fetch --runs {in_shell(shown)}"
        )
    return Move(ref=ref, run=run, action="forward", seen=seen, new=oid, count=len(records) - at)


def gathered(baton: Baton, remote: str, seen: Seen, before: Mapping[str, Oid]) -> tuple[FetchedRun, ...]:
    """What a fetch has brought of each run of a remote; ``before``: what lay here. One that is not as we write it is broken,
    and nothing uses it."""
    rows = []
    for ref, oid in sorted(seen.others.items()):
        run = run_of(ref.removeprefix(RUNS)) if ref.startswith(RUNS) else None
        if run is None:
            continue
        old = before.get(here(remote, ref))
        try:
            records = read(baton.repo.objects, baton.store.root, run, oid, ())
        except BatonError as error:
            rows.append(FetchedRun(run=run, state="broken", reason=error.message))
            continue
        known = next((number for number, logged in enumerate(records, 1) if logged.commit == old), 0)
        state = "same" if old == oid else "new" if old is None else "newer" if known else "rewritten"
        rows.append(FetchedRun(run=run, state=state, count=len(records) - known))
    return tuple(rows)


def gone(remote: str, seen: Seen, before: Mapping[str, Oid]) -> tuple[str, ...]:
    """The runs that were fetched from a remote and are there no more."""
    prefix = here(remote, RUNS)
    runs = [run_of(ref.removeprefix(prefix)) for ref in before if ref.startswith(prefix)]
    return tuple(sorted(run for run in runs if run is not None and run_ref(run) not in seen.others))


def drops(remote: str, runs: Sequence[str], before: Mapping[str, Oid]) -> list[RefChange]:
    """What lets go of fetched runs."""
    refs = [here(remote, run_ref(run)) for run in runs]
    return [RefChange(name=ref, new=None, old=before[ref]) for ref in refs]
