"""Renaming: a track under another name, and one that was deleted under its own again; both in one change of several refs.

An id is that of a checkpoint's bytes, which hold the name of its track, and one with a tombstone comes back nowhere. So the
checkpoints are written anew: what they say, and which files they hold, stays; each names the ids that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from gitbaton.base.codec import Json, canonical, check_track, decode, in_quotes, message, parse, payload
from gitbaton.base.errors import MENDS, BatonError, GitError, NoAnswerError, NotFoundError, RecordError, RefConflictError
from gitbaton.base.model import Oid
from gitbaton.base.values import replace, value
from gitbaton.care.retention.removing import draft_removal, locked_removal, moved, retry_under_lock, survey
from gitbaton.care.retention.rules import turned
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store import Store, chain_ref, signatures, tip_ref
from gitbaton.checkpoints.store.join import Link, links
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.checkpoints.store.read import NONE
from gitbaton.checkpoints.store.refs import META, signatures_ref
from gitbaton.checkpoints.store.revision import Revision, drop_deleted, find_deleted
from gitbaton.checkpoints.store.standing import last_steps, stance
from gitbaton.checkpoints.store.write import refuse_name
from gitbaton.git import objectlists, questions
from gitbaton.git.objects import Algorithm, object_id
from gitbaton.runs.current import recording


@value
class Renaming:
    """A track that gets another name. ``links``: its checkpoints, oldest first; ``ours``: those made here; ``pins``: those
    that are pinned, with the names that their pins gave them; ``seen``: our refs as they were."""

    old: str
    new: str
    links: tuple[Link, ...]
    ours: frozenset[Oid]
    pins: Mapping[Oid, str]
    seen: Mapping[str, Oid]
    broken: Mapping[str, str] = NONE

    @property
    def signed(self) -> Oid | None:
        """The commit of the signatures of its checkpoints."""
        return self.seen.get(signatures_ref(self.old))


def renaming(baton: Baton, old: str, new: str, *, held: bool = False) -> Renaming:
    """Plan to rename a track. Changes nothing. ``held``: whether the lock is.

    Raises NotFoundError for a track that is not here; NoAnswerError where the other name is taken, an unfinished run records on
    the track, or a work tree stands on what a restore brought back of it; UsageError for a name that cannot be one, and
    RecordError.
    """
    old, new = check_track(old), check_track(new)
    found, store = survey(baton, held=held, wanted=(chain_ref(old),)), baton.store
    for ref in (chain_ref(old), tip_ref(old)):
        if ref in found.broken:
            raise RecordError(f"nothing is renamed: {in_quotes(ref)} cannot be read: {found.broken[ref]}", MENDS)
    if not any(chain.name == old for chain in found.tracks):
        raise NotFoundError(f"there is no track {in_quotes(old)} here", "'git baton tracks' lists them")
    _free(store, new)
    for run in recording(baton, old):
        said = (
            f"run {in_quotes(run.run)} cannot be read" if run.torn else f"the unfinished run {in_quotes(run.run)} records on it"
        )
        hint = run.command if run.torn else f"'{run.command}' goes on with it"
        raise NoAnswerError(f"track {in_quotes(old)} is not renamed: {said}", hint)
    _refuse_restored(baton, old)
    chain = links(store, old)
    pins = {link.id: found.meta.names.get(link.id, "") for link in chain if found.meta.pinned(link.id)}
    ours = store.ours.made_here(of_track(old)) & {link.id for link in chain}
    return Renaming(old=old, new=new, links=tuple(chain), ours=ours, pins=pins, broken=found.broken, seen=found.refs)


def rename(baton: Baton, made: Renaming) -> tuple[Renaming, list[str]]:
    """Carry a plan out; where checkpoints are recorded meanwhile, plan again. Return what was renamed, and warnings. A work
    tree in which the track was current has it current under its new name. Raises as ``renaming``."""
    made, said = retry_under_lock(
        baton,
        made,
        lambda held: renaming(baton, made.old, made.new, held=held),
        lambda made, held: (made, _renamed(baton, made, held=held)),
    )
    return made, [*said, *baton.refresh()]


def _renamed(baton: Baton, made: Renaming, *, held: bool) -> list[str]:
    new, names = rewritten(baton.repo.layout.algorithm, made.links, made.new)
    gone = [link.id for link in made.links]
    revision = draft_removal(baton, made.broken, keep={}, drop={}, pruned=gone, unpinned=made.pins)
    for oid, name in made.pins.items():
        revision.meta = turned(revision.meta, names[oid], name or None)
    _join(revision, made.new, new, {names[oid] for oid in made.ours})  # first, so that a kill leaves one of both
    revision.keep(made.old, ())
    refs = [ref for track in (made.old, made.new) for ref in (chain_ref(track), tip_ref(track))]
    with locked_removal(baton, revision, refs, (), held=held):
        if moved(baton, made.seen, lambda ref: ref in (*refs, META)):
            raise RefConflictError(f"track {in_quotes(made.old)} is not renamed: it moved meanwhile", "try again")
        revision.apply()
        drop_deleted(baton.repo, made.old, made.seen.get(chain_ref(made.old)))  # it did not go
    return [*revision.warnings, *_signed_anew(baton, made.new, list(zip(made.links, new, strict=True)), made.signed)]


def _signed_anew(baton: Baton, track: str, pairs: Sequence[tuple[Link, Link]], signed: Oid | None) -> list[str]:
    """Sign what was signed before it was written anew, as far as there is proof of it; return warnings."""
    if signed is None:
        return []
    try:
        known = signatures.read(baton.store, signed).signed
    except (RecordError, GitError) as error:
        return [f"signatures are lost: {error.message}"]
    return signatures.sign_anew(baton.store, track, pairs, known, on=baton.settings.sign)


@value
class Return:
    """A deleted track that comes back: its newest commit, its checkpoints, oldest first, those made here, how many of it are
    forgotten, how many others of its name were deleted before, and the commit of its signatures."""

    track: str
    tip: Oid
    links: tuple[Link, ...]
    ours: frozenset[Oid]
    forgotten: int = 0
    others: int = 0
    signed: Oid | None = None


def returning(baton: Baton, name: str) -> Return:
    """Plan to bring a deleted track back. Changes nothing. What was forgotten stays forgotten.

    Raises NotFoundError where no such track is known to have gone, or git does not have it any more; NoAnswerError where there
    is one of its name.
    """
    track, store = check_track(name), baton.store
    meta, gone = survey(baton, held=False, wanted=()).meta, find_deleted(baton.repo, track)
    if track in store.chains()[0]:
        raise NoAnswerError(f"there is a track {in_quotes(track)}", room(store, track) if gone else look_at(track))
    refuse_name(store, track, kept=bool(gone))
    if not gone:
        raise NotFoundError(
            f"no deleted track {in_quotes(track)} is known here", "'git baton tracks' lists those that are here"
        )
    tip, ours, signed = gone[0].tip, gone[0].ours, gone[0].signed
    try:
        chain = links(store, track, tip)
        objectlists.reached(baton.repo, [tip], [])
    except (GitError, RecordError):
        raise NotFoundError(f"git does not have all of track {in_quotes(track)} any more") from None
    stay = [link for link in chain if meta.forgotten.isdisjoint((link.id, link.carries, *link.earlier))]
    if not stay:
        raise NotFoundError(f"every checkpoint of track {in_quotes(track)} is forgotten")
    forgotten, others = len(chain) - len(stay), len(gone) - 1
    return Return(track=track, tip=tip, links=tuple(stay), ours=ours, forgotten=forgotten, others=others, signed=signed)


def room(store: Store, track: str) -> str:
    """Return the hint that makes room for a deleted track of the name of one that is here."""
    other = next(name for name in (f"{track}-{n}" for n in count(2)) if not store.has(name))
    words = f"git baton tracks rename {in_shell(track)} {in_shell(other)}"
    return f"'{words}' makes room for another of that name that was deleted"


def look_at(track: str) -> str:
    """Return the hint that shows what is on a track."""
    return f"to look: git baton log --track {in_shell(track)}"


def bring_back(baton: Baton, made: Return) -> list[str]:
    """Carry such a plan out; return warnings. Raises RefConflictError where there is a track of that name now."""
    new, names = rewritten(baton.repo.layout.algorithm, made.links, made.track)
    refs = (chain_ref(made.track), tip_ref(made.track))
    revision = Revision(baton.store)
    _join(revision, made.track, new, {oid for was, oid in names.items() if was in made.ours})
    with locked_removal(baton, revision, refs, (), held=False):
        if baton.store.objects.info(refs[0]) is not None:
            raise RefConflictError(f"track {in_quotes(made.track)} was made meanwhile", "try again")
        revision.apply()
        drop_deleted(baton.repo, made.track, made.tip)
    said = _signed_anew(baton, made.track, list(zip(made.links, new, strict=True)), made.signed)
    return [*revision.warnings, *said, *baton.refresh()]


def rewritten(algorithm: Algorithm, chain: Sequence[Link], track: str) -> tuple[list[Link], dict[Oid, Oid]]:
    """Return checkpoints as those of a track, oldest first, each naming the ids that it had, and the others that it names as
    they are called now; and the new ids by the old ones. Raises RecordError for one that cannot be read."""
    names: dict[Oid, Oid] = {}
    found = []
    for link in chain:
        known = parse(payload(link.message))
        raw = canonical({**_called(known, names), "track": track, "was": [link.id, *link.earlier]})  # type: ignore[dict-item]
        oid = names[link.id] = object_id(algorithm, "blob", raw)
        found.append(replace(link, id=oid, message=message(decode(raw).step, raw), commit=None))
    return found, names


def _called(said: Json, names: Mapping[Oid, Oid]) -> Json:
    """Return a JSON value with the new id wherever an old one stands."""
    if isinstance(said, str):
        return names.get(said, said)
    if isinstance(said, list):
        return [_called(item, names) for item in said]
    return {key: _called(item, names) for key, item in said.items()} if isinstance(said, dict) else said


def _join(revision: Revision, track: str, chain: Iterable[Link], ours: set[Oid]) -> None:
    """Put checkpoints into a new track; those that were not made here are foreign there, too."""
    chain = list(chain)
    revision.join(track, [link for link in chain if link.id in ours])
    revision.join(track, [link for link in chain if link.id not in ours], fetched=True)


def _free(store: Store, name: str) -> None:
    if name in store.chains()[0] or name in store.strange():
        raise NoAnswerError(f"there is a track {in_quotes(name)}", look_at(name))
    refuse_name(store, name)


def _refuse_restored(baton: Baton, track: str) -> None:
    """Raise NoAnswerError where a work tree stands on what a restore brought back of a track: its words would be others."""
    for root in (root for _, _, root in questions.worktrees(baton.repo) if root):
        try:
            with Baton(root, door="binary", clock=baton.clock) as there:
                tip = there.store.tip(track)
                here = stance(there.store, tip, last_steps(there.store, track)).back.here if tip is not None else None
        except BatonError:  # the work tree is gone
            continue
        if tip is not None and here is not None and here.at != tip.id:
            said = f"track {in_quotes(track)} is not renamed: {in_quotes(root)} stands on what a restore brought back of it"
            raise NoAnswerError(said, 'a snapshot there goes on from it: git baton snapshot "what is done"')
