"""Fetch: the refs of a remote into our own namespace and nowhere else, and what that brought."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gitbaton.baton import Baton
from gitbaton.errors import NotFoundError, RemoteError
from gitbaton.git.objects import RefChange
from gitbaton.git.remotes import Connection
from gitbaton.model import Oid
from gitbaton.store import CHAINS, NOTES
from gitbaton.store.refs import META, remote_ref
from gitbaton.sync import threads, tracks
from gitbaton.sync.items import OURS, Seen, broken_refs, here, item_of, look, more_broken_refs, own, room
from gitbaton.sync.logs import fetched_runs
from gitbaton.sync.values import Choice, Fetched, Gathered, Item, in_order
from gitbaton.threads.names import LATE
from gitbaton.values import replace, value

ATTEMPTS = 3


@value
class Plan:
    """What a fetch does: ``moves`` from refs of the remote to refs of ours; ``before`` is what lay there; ``gone`` are items
    that the remote has no more; ``drops`` removes refs, those of what is gone where it is ``pruned``."""

    seen: Seen
    before: Mapping[str, Oid]
    moves: Mapping[str, str]
    gone: tuple[Item, ...]
    pruned: bool
    drops: tuple[RefChange, ...]


def plan(baton: Baton, line: Connection, choice: Choice, *, prune: bool = False, ours: Collection[str] | None = None) -> Plan:
    """Look at the remote and say what a fetch would do. With ``ours``, the tracks here, all its refs are looked at: a push
    follows.

    Raises RemoteError; NotFoundError for a chosen track that is neither there nor one of ``ours``.
    """
    remote = line.remote.name
    seen = look(line, everything=ours is not None)
    before = baton.repo.objects.refs(remote_ref(remote))
    wanted = [ref for ref in (*seen.chosen(choice), META, NOTES) if ref in seen.refs]
    moves = {ref: here(remote, ref) for ref in wanted if before.get(here(remote, ref)) != seen.refs[ref]}
    fetched = {ref: item for ref in before if (item := item_of(own(ref))) is not None and choice.takes(item)}
    joined = room(line) if choice.threads else here(remote, OURS)  # of what stood at another address nothing is gone here
    at = {ref: item for ref, item in fetched.items() if ref == here(remote, own(ref)) or ref.startswith(joined)}
    kept = {item for item in at.values() if item[0] != "transcript"}
    gone = kept.difference(seen.items.values())
    for track in choice.tracks or ():
        if track not in seen.tracks and ("track", track) not in kept and track not in (ours or ()):
            raise NotFoundError(f"there is no track '{track}' at '{line.remote.shown}'")
    # Late writes that are there no more are in the chain by now, and go in any case.
    lost = {ref for ref in fetched if ref.startswith(here(remote, LATE)) and own(ref) not in seen.refs}
    lost |= {ref for ref, item in fetched.items() if item in gone} if prune else set()
    drops = tuple(RefChange(name=ref, new=None, old=before[ref]) for ref in fetched if ref in lost)
    return Plan(seen=seen, before=before, moves=moves, gone=tuple(sorted(gone)), pruned=prune, drops=drops)


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
    left = broken_refs(baton, line, choice)
    try:
        seen, gathered = _fetch(baton, line, choice, prune=prune, ours=ours, write=write)
    except RemoteError as error:
        more = more_broken_refs(baton, line, error, {})
        if not more:
            raise
        left |= more
        seen, gathered = _fetch(baton, line, choice, prune=prune, ours=ours, write=write)
    return seen, replace(gathered, apart=left)


def _fetch(
    baton: Baton, line: Connection, choice: Choice, *, prune: bool, ours: Collection[str] | None, write: bool
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
            return planned.seen, _gathered(baton, line, replace(planned, before=before), choice)
    raise RemoteError(f"the refs of '{line.remote.shown}' go while they are fetched", "try again", kind="stale")


def _gathered(baton: Baton, line: Connection, planned: Plan, choice: Choice) -> Gathered:
    """What came of each track, and of each run and thread where they were asked for."""
    seen, before, state = planned.seen, planned.before, "pruned" if planned.pruned else "gone"
    gone = [Fetched(item=item, state=state) for item in planned.gone]
    lost = [row for row in gone if row.item[0] == "thread"]
    rows = tracks.fetched(baton, line.remote.name, seen, before, choice)
    rows += fetched_runs(baton, line.remote.name, seen, before) if choice.runs else []
    rows += [row for row in gone if row not in lost]
    rows += threads.fetched(baton, line, seen, before, choice, lost) if choice.threads else []
    others = sum(1 for ref in planned.moves if not ref.startswith(CHAINS))
    return Gathered(rows=in_order(rows), strange=seen.strange, others=others)
