"""Deleting a track: all its checkpoints pruned, here and in every clone that syncs."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.baton import Baton
from gitbaton.codec import check_track, counted, encode_track, plain
from gitbaton.errors import MENDS, NoAnswerError, NotFoundError, RecordError, RefConflictError
from gitbaton.model import Oid, Stored
from gitbaton.retention.looking import look
from gitbaton.retention.pins import turned
from gitbaton.retention.planning import finish
from gitbaton.running.current import Unfinished, recording
from gitbaton.store import NOTES, chain_ref, tip_ref
from gitbaton.store.refs import META, REMOTES, RUNS
from gitbaton.store.revision import Revision
from gitbaton.store.sound import NONE, own_refs
from gitbaton.values import replace, value

_TRIES = 5


@value
class Deletion:
    """A track that goes. ``items``: its checkpoints, here and as fetched, newest first; ``here``: whether any is here.
    ``pinned`` and ``needed``: those that somebody pinned, and that a run stands on; ``runs``: unfinished ones that record on
    it, and those that cannot be read; ``broken``: the refs that cannot be read."""

    track: str
    items: tuple[Stored, ...]
    here: bool
    pinned: tuple[Stored, ...]
    needed: tuple[Stored, ...]
    runs: tuple[Unfinished, ...]
    seen: Mapping[str, Oid]
    broken: Mapping[str, str] = NONE


def plan(baton: Baton, name: str) -> Deletion:
    """What deleting a track comes to. Removes nothing.

    Raises NotFoundError, and RecordError when ``meta`` or the track itself cannot be read, or a ref of ours is a stranger's.
    """
    finish(baton)
    track, found = check_track(name), look(baton.store)
    for ref in (chain_ref(track), tip_ref(track)):
        if ref in found.broken:
            raise RecordError(f"nothing is removed: '{ref}' cannot be read: {found.broken[ref]}", MENDS)
    chain = next((chain for chain in found.tracks if chain.name == track), None)
    known = {stored.id: stored for stored in (chain.items if chain is not None else ())}
    for ref in found.refs:
        if ref.startswith(REMOTES) and ref.endswith(f"/tracks/{encode_track(track)}") and ref not in found.broken:
            fetched = baton.store.chain(ref, track).items
            known |= {s.id: s for s in fetched if s.id not in known and not found.meta.dropped(s.id)}
    if not known:
        raise NotFoundError(f"there is no track '{plain(track)}'", "'git baton tracks' lists them")
    items = tuple(sorted(known.values(), key=lambda s: (s.checkpoint.created, s.id), reverse=True))
    return Deletion(
        track=track,
        items=items,
        here=chain is not None,
        pinned=tuple(s for s in items if found.meta.pinned(s.id)),
        needed=tuple(s for s in items if s.commit in found.runs),
        runs=recording(baton, track),
        broken=found.broken,
        seen=found.refs,
    )


def permit(baton: Baton, made: Deletion, *, force: bool) -> None:
    """Raise NoAnswerError where a pin or an unfinished run is in the way, and nobody says that it may go all the same."""
    if force or not (made.pinned or made.needed or made.runs):
        return
    said, hints = [], []
    if made.pinned:
        said.append(f"{counted(len(made.pinned), 'checkpoint')} of it {'is' if len(made.pinned) == 1 else 'are'} pinned")
        hints.append(f"'git baton unpin {baton.short(made.pinned[0].id)}' takes the pin back")
    if made.needed:
        said.append(f"a run stands on {counted(len(made.needed), 'checkpoint')} of it")
    if made.runs:
        one = made.runs[0]
        said.append(f"run '{one.run}' cannot be read" if one.torn else f"the unfinished run '{one.run}' records on it")
        hints.append(one.command if one.torn else f"'{one.command}' goes on with it")
    raise NoAnswerError(f"track '{plain(made.track)}' is not deleted: {', '.join(said)}", *hints)


def delete(baton: Baton, made: Deletion, *, force: bool) -> tuple[Deletion, list[str]]:
    """Carry a plan out; where somebody records checkpoints meanwhile, plan again, a few times. What went, and what should be
    said about it. Raises as ``plan``, ``permit`` and ``apply``."""
    for _ in range(_TRIES):
        permit(baton, made, force=force)
        try:
            return made, apply(baton, made)
        except RefConflictError:
            made = plan(baton, made.track)
    permit(baton, made, force=force)
    return made, apply(baton, made)


def apply(baton: Baton, made: Deletion) -> list[str]:
    """Remove the track in one transaction, and leave tombstones; what should be said about it.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is changed then.
    """
    revision = Revision(baton.store)
    revision.noted = NOTES not in made.broken
    meta = revision.meta
    for stored in made.pinned:  # a pin would bring it back
        meta = turned(meta, stored.id)
    revision.meta = replace(meta, pruned=meta.pruned | {stored.id for stored in made.items})
    if made.here:
        revision.drop_track(made.track)
    revision.prepare()
    with baton.repo.lock((chain_ref(made.track), tip_ref(made.track), META, NOTES)):
        now = own_refs(baton.store)
        moved = {ref for ref in now.keys() | made.seen.keys() if now.get(ref) != made.seen.get(ref)}
        if any(ref in (chain_ref(made.track), META) or ref.startswith(RUNS) for ref in moved):
            raise RefConflictError(f"track '{plain(made.track)}' is not deleted: it moved meanwhile", "try again")
        revision.apply()
    return [*revision.warnings, *baton.refresh()]
