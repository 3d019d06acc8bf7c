"""Fetching: the refs of a remote into our own namespace and nowhere else, and what that brought."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from gitbaton.baton import Baton
from gitbaton.codec import decode_track, encode_track, timestamp
from gitbaton.errors import GitError, NotFoundError, RecordError, RemoteError
from gitbaton.git.objects import RefChange
from gitbaton.git.remotes import Connection
from gitbaton.model import Oid
from gitbaton.store import CHAINS
from gitbaton.store.join import marks
from gitbaton.store.refs import remote_ref
from gitbaton.sync import runs, threads
from gitbaton.sync.apart import apart, more_apart
from gitbaton.sync.look import Seen, chosen, here, look, narrowed, taken
from gitbaton.sync.values import Choice, Fetched, FetchedRun, FetchedThread, Gathered, Late
from gitbaton.values import replace, value

FUTURE = timedelta(minutes=10)  # clocks may differ by so much
ATTEMPTS = 3


@value
class Plan:
    """What a fetch does: ``moves`` from refs of the remote to refs of ours; ``before`` is what lay there; ``gone`` are tracks
    that the remote has no more, and so are ``gone_runs`` and ``gone_threads``; where ``pruned``, ``drops`` removes the refs."""

    seen: Seen
    before: Mapping[str, Oid]
    moves: Mapping[str, str]
    gone: tuple[str, ...]
    gone_runs: tuple[str, ...]
    gone_threads: tuple[threads.Name, ...]
    pruned: bool
    drops: tuple[RefChange, ...]


def plan(baton: Baton, line: Connection, choice: Choice, *, prune: bool = False, ours: Collection[str] | None = None) -> Plan:
    """Look at the remote and say what a fetch would do. With ``ours``, the tracks here, all its refs are looked at: a push
    follows.

    Raises RemoteError; NotFoundError for a chosen track that is neither there nor one of ``ours``.
    """
    remote = line.remote.name
    seen = narrowed(look(line, everything=ours is not None), choice)
    before = baton.repo.objects.refs(remote_ref(remote))
    wanted = chosen(seen, choice)
    moves = {ref: here(remote, ref) for ref, oid in wanted.items() if before.get(here(remote, ref)) != oid}
    known = {track: ref for ref in before if (track := _track(remote, ref)) is not None}
    gone = tuple(sorted(track for track in known if choice.takes(track) and track not in seen.tracks))
    for track in choice.tracks or ():
        if track not in seen.tracks and track not in known and track not in (ours or ()):
            raise NotFoundError(f"there is no track '{track}' at '{line.remote.shown}'")
    drops = [RefChange(name=known[track], new=None, old=before[known[track]]) for track in gone] if prune else []
    lost = runs.gone(remote, seen, before) if choice.runs else ()
    drops += runs.drops(remote, lost, before) if prune else []
    known_threads = taken(before, choice)
    left = threads.gone(line, seen, known_threads) if choice.threads else ()
    drops += threads.drops(remote, seen, left if prune else (), known_threads) if choice.threads else []
    return Plan(
        seen=seen,
        before=before,
        moves=moves,
        gone=gone,
        gone_runs=lost,
        gone_threads=left,
        pruned=prune,
        drops=tuple(drops),
    )


def _track(remote: str, ref: str) -> str | None:
    prefix = remote_ref(remote, "tracks/")
    return decode_track(ref.removeprefix(prefix)) if ref.startswith(prefix) else None


def fetch(
    baton: Baton,
    line: Connection,
    choice: Choice,
    *,
    prune: bool = False,
    ours: Collection[str] | None = None,
    write: bool = True,
) -> tuple[Seen, Gathered]:
    """Fetch; what the remote has, and what that brought. Nothing outside ``refs/baton/remotes/`` changes.

    Without ``write`` only objects come, and no ref of ours moves. Raises as ``plan``.
    """
    left = apart(baton, line, choice)
    try:
        return _fetch(baton, line, choice, left, prune=prune, ours=ours, write=write)
    except RemoteError as error:
        more = more_apart(baton, line, error)
        if not more:
            raise
    return _fetch(baton, line, choice, {**left, **more}, prune=prune, ours=ours, write=write)


def _fetch(
    baton: Baton,
    line: Connection,
    choice: Choice,
    left: Mapping[str, str],
    *,
    prune: bool,
    ours: Collection[str] | None,
    write: bool,
) -> tuple[Seen, Gathered]:
    before: Mapping[str, Oid] | None = None  # the first time that it looked: of a later one, what came is not told
    for _ in range(ATTEMPTS):
        planned = plan(baton, line, choice, prune=prune, ours=ours)
        before = planned.before if before is None else before
        with baton.repo.lock(tuple(planned.moves.values()) if write else ()):
            pass  # what a killed fetch left locked is free now
        if line.fetch(planned.moves if write else dict.fromkeys(planned.moves), seen=planned.seen.refs):
            drops = [change for change in planned.drops if change.name not in line.hidden]
            if drops and write:
                with baton.repo.lock(tuple(change.name for change in drops)):
                    baton.repo.objects.update(drops)
            gathered = _gathered(baton, line, replace(planned, before=before), choice)
            return planned.seen, replace(gathered, apart=left)
    raise RemoteError(f"the refs of '{line.remote.shown}' go while they are fetched", "try again", kind="stale")


def _gathered(baton: Baton, line: Connection, planned: Plan, choice: Choice) -> Gathered:
    remote, limit = line.remote.name, baton.clock() + FUTURE
    rows = []
    for track, oid in sorted(planned.seen.tracks.items()):
        if choice.takes(track):
            old = planned.before.get(here(remote, CHAINS + encode_track(track)))
            rows.append(_row(baton, track, old, oid, limit))
    state = "pruned" if planned.pruned else "gone"
    rows += [Fetched(track=track, state=state) for track in planned.gone]
    others = sum(1 for ref in planned.moves if not ref.startswith(CHAINS))
    ran = runs.gathered(baton, remote, planned.seen, planned.before) if choice.runs else ()
    ran += tuple(FetchedRun(run=run, state=state) for run in planned.gone_runs)
    brought = _threads(baton, line, planned, state) if choice.threads else ()
    return Gathered(rows=tuple(rows), strange=planned.seen.strange, others=others, runs=ran, threads=brought)


def _threads(baton: Baton, line: Connection, planned: Plan, state: str) -> tuple[FetchedThread, ...]:
    brought = threads.gathered(baton, line, planned.seen, planned.before)
    lost = threads.whole(line, planned.gone_threads, planned.before)
    return brought + tuple(FetchedThread(thread=t, namespace=n, state=state) for t, n in lost)


def _row(baton: Baton, track: str, old: Oid | None, new: Oid, limit: datetime) -> Fetched:
    """What became of one track; a chain that cannot be one is broken, and nothing uses it."""
    store, objects = baton.store, baton.repo.objects
    try:
        tip = store.stored(objects.read(new), track, new)
        oids = objects.first_parents(new)
        if oids[-1] != store.root:
            raise RecordError("its chain does not begin at the root")
    except (RecordError, GitError) as error:
        return Fetched(track=track, state="broken", reason=error.message)
    step = tip.checkpoint.step
    if old == new:
        return Fetched(track=track, state="same", step=step)
    fresh = oids[: oids.index(old)] if old is not None and old in oids else oids[:-1]
    if old is not None and old not in oids:
        fresh = _not_in(baton, old, fresh)
    state = "new" if old is None else "newer" if old in oids else "rewritten"
    return Fetched(track=track, state=state, count=len(fresh), step=step, late=_late(baton, track, fresh, limit))


def _not_in(baton: Baton, old: Oid, oids: list[Oid]) -> list[Oid]:
    """Those of a chain's commits whose checkpoints the chain that was there before does not hold."""
    objects = baton.repo.objects
    try:
        before = objects.first_parents(old) if objects.info(old) is not None else []
    except GitError:
        before = []
    known = {mark[1] for mark in marks(baton.store, before) if mark is not None}
    return [oid for oid, mark in zip(oids, marks(baton.store, oids), strict=True) if mark is None or mark[1] not in known]


def _late(baton: Baton, track: str, fresh: list[Oid], limit: datetime) -> tuple[Late, ...]:
    """Those of the commits whose checkpoints are from after ``limit``."""
    text = timestamp(limit).encode()
    late = [oid for oid, mark in zip(fresh, marks(baton.store, fresh), strict=True) if mark is not None and mark[0] > text]
    read = [baton.store.stored(found, track, oid) for oid, found in zip(late, baton.repo.objects.read_many(late), strict=True)]
    return tuple(Late(id=stored.id, created=stored.checkpoint.created) for stored in read)
