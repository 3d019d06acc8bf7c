"""Append-only logs between machines, runs and conversations: they travel only when asked for, and only ever grow."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gitbaton.baton import Baton
from gitbaton.codec import encode_track
from gitbaton.errors import MENDS, BatonError, RecordError
from gitbaton.journal.chain import read
from gitbaton.model import Oid
from gitbaton.render import in_shell
from gitbaton.store.refs import RUNS, TRANSCRIPTS
from gitbaton.sync.items import Seen, here, item_of
from gitbaton.sync.values import Fetched, Move
from gitbaton.transcripts.layout import sessions_of
from gitbaton.values import replace


def run_moves(baton: Baton, seen: Seen, shown: str, apart: Mapping[str, str]) -> list[Move]:
    """What a push to the remote ``shown`` does with each run that is here. A broken one stays here, and so does one of which
    a ref is ``apart``, with why."""
    found = []
    for ref, oid in sorted(baton.repo.objects.refs(RUNS).items()):
        item, old = item_of(ref), seen.refs.get(ref)
        if item is None or old == oid:
            continue
        move = Move(ref=ref, item=item, action="refused", seen=old)
        try:
            if ref in apart:
                raise RecordError(apart[ref])
            records = read(baton.repo.objects, baton.store.root, item[1], oid, ())
        except BatonError as error:
            reason = f"run '{item[1]}' is broken here: {error.message}"
            found.append(replace(move, reason=reason, broken=True, hint=MENDS))
            continue
        numbers = {logged.commit: number for number, logged in enumerate(records, 1)}
        at = numbers.get(old) if old is not None else 0
        if at is not None:
            action = "forward" if at else "new"
            found.append(replace(move, action=action, new=oid, count=len(records) - at))
        else:
            reason = f"run '{item[1]}' has records there that are not here"
            found.append(replace(move, reason=reason, hint=f"git baton fetch --runs {in_shell(shown)}"))
    return found


def fetched_runs(baton: Baton, remote: str, seen: Seen, before: Mapping[str, Oid]) -> list[Fetched]:
    """What a fetch has brought of each run of a remote; ``before``: what lay here. One that is not as we write it is broken,
    and nothing uses it."""
    rows = []
    for ref, item in sorted((ref, item) for ref, item in seen.items.items() if item[0] == "run"):
        old, oid = before.get(here(remote, ref)), seen.refs[ref]
        try:
            records = read(baton.repo.objects, baton.store.root, item[1], oid, ())
        except BatonError as error:
            rows.append(Fetched(item=item, state="broken", reason=error.message))
            continue
        known = next((number for number, logged in enumerate(records, 1) if logged.commit == old), 0)
        state = "same" if old == oid else "new" if old is None else "newer" if known else "rewritten"
        rows.append(Fetched(item=item, state=state, count=len(records) - known))
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
