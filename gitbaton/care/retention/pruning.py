"""Prune: the plan by keep rules, carried out all of it or nothing; the one that goes on by itself; and a track deleted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta

from gitbaton.base.codec import check_track, counted, in_quotes, os_error, plain, timestamp
from gitbaton.base.errors import (
    MENDS,
    BatonError,
    NoAnswerError,
    NotFoundError,
    RecordError,
    RefConflictError,
    UsageError,
)
from gitbaton.base.model import Agent, Oid, Stored
from gitbaton.base.system.files import acquire, closing_fd
from gitbaton.base.values import replace, value
from gitbaton.care.retention.inventory import CheckpointChain, Conversation, Inventory, copies, freed
from gitbaton.care.retention.removing import Trimmed, draft_removal, locked_removal, moved, rebuilt, retry_under_lock, survey
from gitbaton.care.retention.rules import AUTO_LAST, DAYS, RetentionItem, Wish, keep, keep_auto, rules_of
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store import NOTES, TIPS, Store, chain_ref, tip_ref
from gitbaton.checkpoints.store.chain import replay
from gitbaton.checkpoints.store.facts import session_digest
from gitbaton.checkpoints.store.join import links
from gitbaton.checkpoints.store.read import NONE
from gitbaton.checkpoints.store.refs import META, REMOTES, RUNS, THREADS
from gitbaton.checkpoints.store.revision import Revision
from gitbaton.git.objects import RefChange
from gitbaton.git.repo import Repo, add, lock_file
from gitbaton.langgraph.threads.names import LATE
from gitbaton.runs.current import Unfinished, recording


@value
class TrackPlan:
    """Plan of a prune for one track: what stays, each with its reasons, and what goes; both newest first."""

    track: str
    keep: tuple[tuple[Stored, tuple[str, ...]], ...]
    remove: tuple[Stored, ...]


@value
class PrunePlan:
    """Plan of a prune; good for the refs that were ``seen``. ``safety``: the chains that lose states before a restore.
    ``broken``: the refs that are left alone, each with why. ``bytes``: about how much of the disk ``git gc --prune=now``
    frees afterwards, None where that was not asked for."""

    tracks: tuple[TrackPlan, ...]
    safety: tuple[Trimmed, ...]
    conversations: tuple[Conversation, ...]
    seen: Mapping[str, Oid]
    broken: Mapping[str, str] = NONE
    bytes: int | None = None

    @property
    def removed(self) -> frozenset[Oid]:
        """The checkpoints that go from tracks."""
        return frozenset(stored.id for plan in self.tracks for stored in plan.remove)

    @property
    def empty(self) -> bool:
        """Whether the plan removes nothing."""
        return not self.removed and not self.safety and not self.conversations


def plan(baton: Baton, wish: Wish, *, weigh: bool = False, held: bool = False) -> PrunePlan:
    """Plan a prune; with ``weigh`` also say what that frees. Removes nothing. ``held``: whether the lock is.

    Raises RecordError when a ref of ours is a stranger's, or ``meta`` cannot be read, NotFoundError for a track that is not
    there, and UsageError when no rule says what stays.
    """
    names = {check_track(name): name for name in wish.tracks}
    found, now = survey(baton, held=held), baton.clock()
    for track, name in names.items():
        if chain_ref(track) not in found.refs:
            raise NotFoundError(f"there is no track {in_quotes(name)}", "'git baton tracks' lists them")
    rows = [_track(baton, found, chain, wish, now) for chain in found.tracks if not names or chain.name in names]
    ruled = wish.auto or any(ruled for _, ruled in rows)
    if not ruled and (rows or not rules_of(baton.repo.settings(), "", wish.rules).given):
        where = f" for track {in_quotes(wish.tracks[0])}" if len(wish.tracks) == 1 else ""
        these = "".join(f" {in_shell(name)}" for name in wish.tracks)
        raise UsageError(
            f"no rule says what to keep{where}; nothing is removed",
            f"to see what would go by a rule: git baton prune --keep-last 20 --dry-run{these}",
            "give --keep-last N, --keep-within 24h, --keep-daily N or --keep-weekly N",
            "or set baton.keepLast, baton.keepWithin, baton.keepDaily or baton.keepWeekly, or baton.<track>.keepLast and so on",
        )
    tracks, whole = tuple(made for made, _ in rows), not (names or wish.auto)
    trims = (_trimmed(baton.store, chain, now) for chain in found.safety if whole and not found.unknown)
    safety = tuple(trim for trim in trims if trim is not None)
    gone = {stored.id for items in (*(t.remove for t in tracks), *(t.remove for t in safety)) for stored in items}
    talks = _conversations(baton, found, gone, now) if whole else ()
    more = "; no checkpoint is removed while nobody knows which ones it needs"
    broken = {ref: why + (more if ref in found.unknown else "") for ref, why in sorted(found.broken.items())}
    made = PrunePlan(tracks=tracks, safety=safety, conversations=talks, seen=found.refs, broken=broken)
    if not weigh or made.empty:
        return replace(made, bytes=0) if weigh else made
    revision = _revision(baton, made)
    for trim in safety:
        revision.also(trim.objects, [trim.change])
    objects, first, tips = revision.drawn()
    return replace(made, bytes=freed(baton.store, found, objects, [*first, *tips]))


def _track(baton: Baton, found: Inventory, chain: CheckpointChain, wish: Wish, now: datetime) -> tuple[TrackPlan, bool]:
    """Return the plan for a track, and whether any rule was given for it; without one all of it stays."""
    rules = rules_of(baton.repo.settings(), chain.name, wish.rules) if not wish.auto else wish.rules
    rows = [
        RetentionItem(
            id=s.id,
            created=s.checkpoint.created,
            kind=s.checkpoint.kind,
            label=s.checkpoint.label,
            carried=s.checkpoint.carried.id if s.checkpoint.carried else None,
            pinned=found.meta.pinned(s.id),
            run=bool(found.unknown) or s.commit in found.runs,
        )
        for s in chain.items
    ]
    if wish.auto:
        kept = keep_auto(rows, now)
    elif rules.given:
        kept = keep(rows, rules, milestones=wish.milestones, kind=wish.kind, now=now)
    else:
        kept = {item.id: ("no rule",) for item in rows}
    stay = tuple((stored, kept[stored.id]) for stored in chain.items if stored.id in kept)
    gone = tuple(stored for stored in chain.items if stored.id not in kept)
    return TrackPlan(track=chain.name, keep=stay, remove=gone), rules.given


def _trimmed(store: Store, chain: CheckpointChain, now: datetime) -> Trimmed | None:
    """Return a safety chain without the checkpoints at its beginning that are older than 14 days; None where none is, or
    where undo or redo of what stays would be another without them."""
    least = now - timedelta(days=DAYS)
    at = next((n for n, stored in enumerate(reversed(chain.items)) if stored.checkpoint.created >= least), len(chain.items))
    gone = chain.items[len(chain.items) - at :]
    if not gone:
        return None
    ids = {stored.id for stored in gone}
    before = replay(store, chain.items)
    after = replay(store, [stored for stored in chain.items if stored.id not in ids])
    for was, then in ((before.undo, after.undo), (before.redo, after.redo)):
        if [stored.id for stored in was if stored.id not in ids] != [stored.id for stored in then]:
            return None
    objects, change = rebuilt(store, chain, [link for link in links(store, chain.name, chain.tip) if link.id not in ids])
    return Trimmed(chain=chain, remove=gone, objects=objects, change=change)


def _conversations(baton: Baton, found: Inventory, gone: set[Oid], now: datetime) -> tuple[Conversation, ...]:
    """Return the stored conversations that have not grown for 14 days and that nothing mentions which stays, here or as
    fetched."""
    if not found.conversations or found.torn:
        return ()
    stay = [s for chain in (*found.tracks, *found.safety, *found.imported) for s in chain.items]
    read = [s.commit for s in stay]
    for copy in copies(baton.store, found):
        if not copy.whole:
            return ()  # nobody knows what it mentions
        stay += [s for s in copy.items if not found.meta.dropped(s.id)]
        read += [s.commit for s in copy.items]
    baton.store.facts.keep(read)
    known = ((s, baton.store.facts.session(s.commit)) for s in stay if s.id not in gone)
    named = {session_digest(s.checkpoint.agent) if told is None else told for s, told in known}
    least = now - timedelta(days=DAYS)
    old = (talk for talk in found.conversations if talk.newest < least)
    return tuple(talk for talk in old if session_digest(Agent(name=talk.agent, session=talk.session)) not in named)


def _revision(baton: Baton, made: PrunePlan) -> Revision:
    parts = [part for part in made.tracks if part.remove]
    keep = {part.track: [stored for stored, _ in part.keep] for part in parts}
    seen = (stored for part in parts for stored in (*keep[part.track], *part.remove))
    moving = [stored.commit for part in parts for stored in _above(part)]
    drop = {talk.ref: talk.tip for talk in made.conversations}
    return draft_removal(baton, made.broken, keep=keep, drop=drop, pruned=made.removed, seen=seen, moving=moving)


def _above(part: TrackPlan) -> list[Stored]:
    """Return what stays above the oldest that goes, the oldest first."""
    first = min((s.checkpoint.created, s.id) for s in part.remove)
    return [s for s, _ in reversed(part.keep) if (s.checkpoint.created, s.id) > first]


def apply(baton: Baton, made: PrunePlan, *, held: bool = False) -> PrunePlan:
    """Carry out a plan, all of it in one transaction; return what was removed. The lock is held only while refs move.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is removed then.
    """
    chains = [chain_ref(part.track) for part in made.tracks if part.remove]
    touched = {*chains, *(part.chain.ref for part in made.safety), META}

    def counts(ref: str) -> bool:
        if made.conversations:  # any checkpoint may mention them; threads are moved by a saver all the time
            quiet = not ref.startswith((TIPS, THREADS, LATE)) and ref != NOTES
            return quiet and (not ref.startswith(REMOTES) or "/tracks/" in ref)
        return ref in touched or ref.startswith(RUNS)

    from gitbaton.care.search.index import follow, following

    with ExitStack() as after:
        talks = [RefChange(name=talk.ref, old=talk.tip, new=None) for talk in made.conversations]
        after.enter_context(following(baton, made.seen, talks))  # the most of it; no object is needed for that
        revision = _revision(baton, made)
        with locked_removal(baton, revision, chains, made.safety, held=held) as free:
            if ref := moved(baton, made.seen, counts):
                raise RefConflictError(f"nothing is removed: {in_quotes(ref)} moved meanwhile", "try again")
            after.enter_context(following(baton, made.seen, revision.changes))
            revision.apply()
        baton.store.facts.keep()
    follow(baton)
    return replace(made, safety=tuple(part for part in made.safety if part.chain.ref in free))


def prune(baton: Baton, wish: Wish) -> PrunePlan:
    """Plan and carry out; where checkpoints are recorded meanwhile, plan again, a few times, and then under the lock. Raises
    as both."""
    return retry_under_lock(
        baton,
        plan(baton, wish),
        lambda held: plan(baton, wish, held=held),
        lambda made, held: made if made.empty else apply(baton, made, held=held),
    )


def run(place: str) -> None:
    """Prune the repository with the git directory ``place``, and no other one around it, unless another process is at it or
    there is nothing to gain. Never raises; what went wrong, and what was removed, is in ``<common dir>/baton/log``."""
    with suppress(BatonError, OSError), Baton(place, door="binary") as baton:
        if os.path.realpath(baton.repo.layout.git_dir) != os.path.realpath(place):
            return
        with alone(baton.repo) as free:
            if said := work(baton) if free and slack(baton) else "":
                line = f"{timestamp(datetime.now(UTC))} {plain(said)}\n".encode("utf-8", "replace")
                add(baton.repo, os.path.join(baton.repo.shared_dir, "log"), line)


def slack(baton: Baton) -> bool:
    """Whether a track is so long that something could go; one with an unreadable newest commit is not."""
    chains = baton.repo.objects.chains(baton.store.chains()[0].values())
    return any(len(oids) > AUTO_LAST + 1 for oids in chains.values())


def work(baton: Baton) -> str:
    """Prune, and return a line with what went and what was left alone; empty where nothing went."""
    try:
        made = prune(baton, Wish(auto=True))
    except (BatonError, OSError) as error:
        return f"automatic prune: {os_error(error)}"
    parts = [f"{len(part.remove)} of {in_quotes(part.track)}" for part in made.tracks if part.remove]
    left = [f"{in_quotes(ref)} is left alone: {why}" for ref, why in made.broken.items()]
    said = [f"removed {', '.join(parts)}"] if parts else []
    return f"automatic prune: {'; '.join([*said, *left, MENDS] if left else said)}" if said or left else ""


@contextmanager
def alone(repo: Repo) -> Iterator[bool]:
    """Yield whether this is the only process that prunes so, without waiting."""
    with closing_fd(lock_file(repo, os.path.join(repo.shared_dir, "pruning"))) as fd:
        yield acquire(fd)


@value
class Deletion:
    """Plan to delete a track. ``items``: its checkpoints, here and as fetched, newest first; ``here``: whether any is here.
    ``pinned`` and ``needed``: those that are pinned, and that a run stands on; ``runs``: unfinished ones that record on it,
    and those that cannot be read; ``broken``: the refs that cannot be read."""

    track: str
    items: tuple[Stored, ...]
    here: bool
    pinned: tuple[Stored, ...]
    needed: tuple[Stored, ...]
    runs: tuple[Unfinished, ...]
    seen: Mapping[str, Oid]
    broken: Mapping[str, str] = NONE


def deletion(baton: Baton, name: str, *, held: bool = False) -> Deletion:
    """Plan to delete a track. Removes nothing. ``held``: whether the lock is.

    Raises NotFoundError, and RecordError when ``meta`` or the track itself cannot be read, or a ref of ours is a stranger's.
    """
    track = check_track(name)
    found = survey(baton, held=held, wanted=(chain_ref(track),))
    for ref in (chain_ref(track), tip_ref(track)):
        if ref in found.broken:
            raise RecordError(f"nothing is removed: {in_quotes(ref)} cannot be read: {found.broken[ref]}", MENDS)
    chain = next((chain for chain in found.tracks if chain.name == track), None)
    known = {stored.id: stored for stored in (chain.items if chain is not None else ())}
    for copy in copies(baton.store, found, track):
        known |= {s.id: s for s in copy.items if s.id not in known and not found.meta.dropped(s.id)}
    if not known:
        raise NotFoundError(f"there is no track {in_quotes(track)}", "'git baton tracks' lists them")
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
    """Raise NoAnswerError unless forced, where a pin or an unfinished run is in the way."""
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
        said.append(
            f"run {in_quotes(one.run)} cannot be read" if one.torn else f"the unfinished run {in_quotes(one.run)} records on it"
        )
        hints.append(one.command if one.torn else f"'{one.command}' goes on with it")
    raise NoAnswerError(f"track {in_quotes(made.track)} is not deleted: {', '.join(said)}", *hints)


def delete(baton: Baton, made: Deletion, *, force: bool) -> tuple[Deletion, list[str]]:
    """Carry a plan out; where checkpoints are recorded meanwhile, plan again, a few times, and then under the lock. Return
    what went, and warnings. Raises as ``deletion``, ``permit`` and ``apply_deletion``."""

    def applied(made: Deletion, held: bool) -> tuple[Deletion, list[str]]:
        permit(baton, made, force=force)
        return made, apply_deletion(baton, made, held=held)

    made, said = retry_under_lock(baton, made, lambda held: deletion(baton, made.track, held=held), applied)
    return made, [*said, *baton.refresh()]


def apply_deletion(baton: Baton, made: Deletion, *, held: bool = False) -> list[str]:
    """Remove the track in one transaction, and leave tombstones; what should be said about it. ``held``: whether the lock is.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is changed then.
    """
    chain, gone = chain_ref(made.track), [stored.id for stored in made.items]
    unpinned = [stored.id for stored in made.pinned]  # a pin would bring it back
    keep: dict[str, tuple[Stored, ...]] = {made.track: ()} if made.here else {}
    revision = draft_removal(baton, made.broken, keep=keep, drop={}, pruned=gone, unpinned=unpinned)
    from gitbaton.care.search.index import follow, following

    with ExitStack() as after, locked_removal(baton, revision, (chain, tip_ref(made.track)), (), held=held):
        if moved(baton, made.seen, lambda ref: ref in (chain, META) or ref.startswith(RUNS)):
            raise RefConflictError(f"track {in_quotes(made.track)} is not deleted: it moved meanwhile", "try again")
        after.enter_context(following(baton, made.seen, revision.changes))
        revision.apply()
    follow(baton)
    return revision.warnings
