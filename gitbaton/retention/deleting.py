"""Deleting a track: all its checkpoints pruned, here and in every clone that syncs."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.baton import Baton
from gitbaton.codec import check_track, counted, plain
from gitbaton.errors import MENDS, NoAnswerError, NotFoundError, RecordError, RefConflictError
from gitbaton.model import Oid, Stored
from gitbaton.retention.inventory import copies
from gitbaton.retention.removing import drawn_up, insist, moved, moving, survey
from gitbaton.running.current import Unfinished, recording
from gitbaton.store import chain_ref, tip_ref
from gitbaton.store.refs import META, RUNS
from gitbaton.store.sound import NONE
from gitbaton.values import value


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


def plan(baton: Baton, name: str, *, held: bool = False) -> Deletion:
    """What deleting a track comes to. Removes nothing. ``held``: whether the lock is.

    Raises NotFoundError, and RecordError when ``meta`` or the track itself cannot be read, or a ref of ours is a stranger's.
    """
    track = check_track(name)
    found = survey(baton, held=held)
    for ref in (chain_ref(track), tip_ref(track)):
        if ref in found.broken:
            raise RecordError(f"nothing is removed: '{ref}' cannot be read: {found.broken[ref]}", MENDS)
    chain = next((chain for chain in found.tracks if chain.name == track), None)
    known = {stored.id: stored for stored in (chain.items if chain is not None else ())}
    for copy in copies(baton.store, found, track):
        known |= {s.id: s for s in copy.items if s.id not in known and not found.meta.dropped(s.id)}
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
    """Carry a plan out; where somebody records checkpoints meanwhile, plan again, a few times, and then let them wait. What
    went, and what should be said about it. Raises as ``plan``, ``permit`` and ``apply``."""

    def applied(made: Deletion, held: bool) -> tuple[Deletion, list[str]]:
        permit(baton, made, force=force)
        return made, _carried_out(baton, made, held=held)

    made, said = insist(baton, made, lambda held: plan(baton, made.track, held=held), applied)
    return made, [*said, *baton.refresh()]


def apply(baton: Baton, made: Deletion) -> list[str]:
    """Remove the track in one transaction, and leave tombstones; what should be said about it.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is changed then.
    """
    return [*_carried_out(baton, made, held=False), *baton.refresh()]


def _carried_out(baton: Baton, made: Deletion, *, held: bool) -> list[str]:
    chain, gone = chain_ref(made.track), [stored.id for stored in made.items]
    unpinned = [stored.id for stored in made.pinned]  # a pin would bring it back
    keep: dict[str, tuple[Stored, ...]] = {made.track: ()} if made.here else {}
    revision = drawn_up(baton, made.broken, keep=keep, drop={}, pruned=gone, unpinned=unpinned)
    with moving(baton, revision, (chain, tip_ref(made.track)), (), held=held):
        if moved(baton, made.seen, lambda ref: ref in (chain, META) or ref.startswith(RUNS)):
            raise RefConflictError(f"track '{plain(made.track)}' is not deleted: it moved meanwhile", "try again")
        revision.apply()
    return revision.warnings
