"""Append-only logs between machines, runs and conversations: they travel only when asked for, and only ever grow."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gitbaton.baton import Baton
from gitbaton.codec import encode_track
from gitbaton.errors import MENDS, BatonError, RecordError
from gitbaton.journal.names import run_of
from gitbaton.journal.reading import read
from gitbaton.model import Oid
from gitbaton.render import in_shell
from gitbaton.store.refs import RUNS, TRANSCRIPTS
from gitbaton.sync.look import Seen, here
from gitbaton.sync.values import FetchedRun, Move
from gitbaton.transcripts.layout import sessions_of


def run_moves(baton: Baton, seen: Seen, shown: str, apart: Mapping[str, str]) -> list[Move]:
    """What a push to the remote ``shown`` does with each run that is here. A broken one stays here, and so does one of which
    a ref is ``apart``, with why."""
    found = []
    for ref, oid in sorted(baton.repo.objects.refs(RUNS).items()):
        run = run_of(ref.removeprefix(RUNS))
        if run is not None and seen.refs.get(ref) != oid:
            found.append(_run_move(baton, run, ref, oid, seen.refs.get(ref), shown, apart.get(ref, "")))
    return found


def _run_move(baton: Baton, run: str, ref: str, oid: Oid, seen: Oid | None, shown: str, why: str) -> Move:
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


def fetched_runs(baton: Baton, remote: str, seen: Seen, before: Mapping[str, Oid]) -> list[FetchedRun]:
    """What a fetch has brought of each run of a remote; ``before``: what lay here. One that is not as we write it is broken,
    and nothing uses it."""
    rows = []
    for ref, run in sorted((ref, item[1]) for ref, item in seen.items.items() if item[0] == "run"):
        old, oid = before.get(here(remote, ref)), seen.refs[ref]
        try:
            records = read(baton.repo.objects, baton.store.root, run, oid, ())
        except BatonError as error:
            rows.append(FetchedRun(run=run, state="broken", reason=error.message))
            continue
        known = next((number for number, logged in enumerate(records, 1) if logged.commit == old), 0)
        state = "same" if old == oid else "new" if old is None else "newer" if known else "rewritten"
        rows.append(FetchedRun(run=run, state=state, count=len(records) - known))
    return rows


def talk_moves(baton: Baton, seen: Seen, tracks: Mapping[str, Oid], apart: Collection[str]) -> list[Move]:
    """What a push does with each conversation that checkpoints of these tracks name, but for refs that are ``apart``."""
    objects = baton.repo.objects
    found = objects.refs(TRANSCRIPTS)
    agents = {s.checkpoint.agent for tip in tracks.values() for s in baton.store.chain(tip, None).items} if found else set()
    known = {(a.name, a.session) for a in agents if a is not None and a.session}
    wanted = {f"{TRANSCRIPTS}{name}/{encode_track(one)}" for name, session in known for one in sessions_of(session)}
    moves = []
    for ref, oid in sorted(found.items()):
        old = seen.refs.get(ref)
        if ref not in wanted or ref in apart or old == oid:
            continue
        ahead, behind = objects.distance(oid, old) or (1, 1) if old is not None and objects.info(old) is not None else (1, 1)
        if old is None:
            moves.append(Move(ref=ref, action="new", new=oid))
        elif behind == 0:
            moves.append(Move(ref=ref, action="forward", seen=old, new=oid))
        elif ahead:
            moves.append(Move(ref=ref, action="refused", seen=old, reason="there is another one there"))
    return moves
