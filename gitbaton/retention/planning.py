"""The plan of a prune, and carrying it out: all of it or nothing, and never what was not planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta

from gitbaton.baton import Baton
from gitbaton.codec import check_track, plain
from gitbaton.errors import NotFoundError, RefConflictError
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.model import Oid, Stored
from gitbaton.retention.looking import Chain, Conversation, Found, look
from gitbaton.retention.rules import Item, Wish, keep, keep_auto, no_rule, rules_of
from gitbaton.retention.trimming import DAYS, old, resting, without
from gitbaton.store import NOTES, TIPS, chain_ref
from gitbaton.store.intent import pending, settle
from gitbaton.store.refs import META, REMOTES, RUNS, THREADS
from gitbaton.store.revision import Revision
from gitbaton.store.sound import NONE, own_refs
from gitbaton.threads.names import LATE
from gitbaton.values import replace, value

_TRIES = 3
Kept = tuple[Stored, tuple[str, ...]]


@value
class TrackPlan:
    """What becomes of a track: what stays, each with its reasons, and what goes; both newest first."""

    track: str
    keep: tuple[Kept, ...]
    remove: tuple[Stored, ...]


@value
class SafetyPlan:
    """What goes of the states before each restore of a work tree, newest first."""

    chain: Chain
    remove: tuple[Stored, ...]


@value
class Plan:
    """What a prune removes; good for the refs that were ``seen``. ``broken``: those of them that are left alone, each with why.
    ``bytes``: about how much of the disk ``git gc --prune=now`` frees afterwards, None where nobody asked."""

    tracks: tuple[TrackPlan, ...]
    safety: tuple[SafetyPlan, ...]
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
        """Whether nothing goes."""
        return not self.removed and not self.safety and not self.conversations


def plan(baton: Baton, wish: Wish, *, weigh: bool = False) -> Plan:
    """What a prune would remove; with ``weigh`` also what that frees. Removes nothing.

    Raises RecordError when a ref of ours is a stranger's, or ``meta`` cannot be read, NotFoundError for a track that is not
    there, and UsageError when no rule says what stays.
    """
    finish(baton)
    return _planned(baton, wish, weigh=weigh)


def _planned(baton: Baton, wish: Wish, *, weigh: bool = False) -> Plan:
    store, now = baton.store, baton.clock()
    names = {check_track(name): name for name in wish.tracks}
    found = look(store)
    for track, name in names.items():
        if chain_ref(track) not in found.refs:
            raise NotFoundError(f"there is no track '{plain(name)}'", "'git baton tracks' lists them")
    tracks = tuple(_track(baton, found, chain, wish, now) for chain in found.tracks if not names or chain.name in names)
    ruled = wish.auto or any(ruled for _, ruled in tracks)
    if not ruled and (tracks or not rules_of(baton.repo.settings(), "", wish.rules).given):
        raise no_rule(wish.tracks)
    plans = tuple(made for made, _ in tracks)
    whole = not (names or wish.auto)
    trims = found.safety if whole and not found.unknown else ()
    safety = [SafetyPlan(chain=chain, remove=old(store, chain, now)) for chain in trims]
    trimmed = tuple(part for part in safety if part.remove)
    talks = _conversations(baton, found, plans, trimmed, now) if whole else ()
    made = Plan(tracks=plans, safety=trimmed, conversations=talks, seen=found.refs, broken=_told(found))
    if not weigh:
        return made
    from gitbaton.retention.costs import freed

    return replace(made, bytes=freed(store, found, *_drawn(baton, made)) if not made.empty else 0)


def _told(found: Found) -> dict[str, str]:
    """The refs that are left alone, each with why, and what else stays for it."""
    more = "; no checkpoint is removed while nobody knows which ones it needs"
    return {ref: why + (more if ref in found.unknown else "") for ref, why in sorted(found.broken.items())}


def finish(baton: Baton) -> None:
    """End a change of several refs that was killed, so that what is read is whole."""
    if pending(baton.repo):
        with baton.repo.lock(()):
            settle(baton.store)


def items(found: Found, chain: Chain) -> list[Item]:
    """A chain as the rules look at it."""
    return [
        Item(
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


def _track(baton: Baton, found: Found, chain: Chain, wish: Wish, now: datetime) -> tuple[TrackPlan, bool]:
    """The plan for a track, and whether any rule was given for it; without one all of it stays."""
    rules = rules_of(baton.repo.settings(), chain.name, wish.rules) if not wish.auto else wish.rules
    rows = items(found, chain)
    if wish.auto:
        kept = keep_auto(rows, now)
    elif rules.given:
        kept = keep(rows, rules, milestones=wish.milestones)
    else:
        kept = {item.id: ("no rule",) for item in rows}
    stay = tuple((stored, kept[stored.id]) for stored in chain.items if stored.id in kept)
    gone = tuple(stored for stored in chain.items if stored.id not in kept)
    return TrackPlan(track=chain.name, keep=stay, remove=gone), rules.given


def _conversations(
    baton: Baton, found: Found, tracks: Sequence[TrackPlan], safety: Sequence[SafetyPlan], now: datetime
) -> tuple[Conversation, ...]:
    """The stored conversations that have not grown for 14 days and that nothing mentions which stays, here or as fetched."""
    if not found.conversations or found.torn:
        return ()
    removed = [*(part.remove for part in tracks), *(piece.remove for piece in safety)]
    gone = {stored.id for part in removed for stored in part}
    stay = [s for chain in (*found.tracks, *found.safety) for s in chain.items if s.id not in gone]
    for ref in found.refs:
        if ref.startswith(REMOTES) and "/tracks/" in ref:
            chain = baton.store.chain(ref, None)
            if chain.problems:
                return ()  # nobody knows what it mentions
            stay += [s for s in chain.items if s.id not in gone and not found.meta.dropped(s.id)]
    agents = [stored.checkpoint.agent for stored in stay]
    named = {(agent.name, agent.session) for agent in agents if agent is not None}
    least = now - timedelta(days=DAYS)
    old_ones = (talk for talk in found.conversations if talk.newest < least)
    return tuple(talk for talk in old_ones if (talk.agent, talk.session) not in named)


def _drawn(baton: Baton, made: Plan) -> tuple[list[NewObject], list[RefChange]]:
    """The objects that carrying out a plan would write, and all moves of refs."""
    revision, (trimmed, changes) = _revision(baton, made), _trimmed(baton, made)
    revision.also(trimmed, changes.values())
    objects, first, tips = revision.drawn()
    return objects, [*first, *tips]


def _trimmed(baton: Baton, made: Plan) -> tuple[list[NewObject], dict[str, RefChange]]:
    """The objects of the trimmed safety chains, and the move of each one's ref."""
    drawn = {p.chain.ref: without(baton.store, p.chain, {stored.id for stored in p.remove}) for p in made.safety}
    return [item for objects, _ in drawn.values() for item in objects], {ref: change for ref, (_, change) in drawn.items()}


def _revision(baton: Baton, made: Plan) -> Revision:
    """A plan as one change, but for the safety chains."""
    revision = Revision(baton.store)
    revision.noted = NOTES not in made.broken
    if made.removed:
        revision.meta = replace(revision.meta, pruned=revision.meta.pruned | made.removed)
    for part in made.tracks:
        if part.remove:
            revision.keep(part.track, [stored.id for stored, _ in part.keep])
    revision.also((), [RefChange(name=talk.ref, new=None, old=talk.tip) for talk in made.conversations])
    return revision


def apply(baton: Baton, made: Plan) -> Plan:
    """Carry out a plan: all of it in one transaction; what was removed in the end. The lock is held only while refs move.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is removed then.
    """
    return _carried_out(baton, made, _lock(baton, made))


def _lock(baton: Baton, made: Plan) -> AbstractContextManager[None]:
    names = [chain_ref(part.track) for part in made.tracks if part.remove]
    return baton.repo.lock((*names, *(part.chain.ref for part in made.safety), META, NOTES))


def _carried_out(baton: Baton, made: Plan, lock: AbstractContextManager[None]) -> Plan:
    revision, (objects, changes) = _revision(baton, made), _trimmed(baton, made)
    revision.prepare()
    baton.store.objects.write(objects)
    with lock, resting(baton.repo, [part.chain for part in made.safety]) as free:
        moved = _moved(baton, made)
        if moved is not None:
            raise RefConflictError(f"nothing is removed: '{moved}' moved meanwhile", "try again")
        revision.also((), [change for ref, change in changes.items() if ref in free])
        revision.apply()
    return replace(made, safety=tuple(part for part in made.safety if part.chain.ref in free))


def _moved(baton: Baton, made: Plan) -> str | None:
    """A ref that the plan depends on and that is not where it was seen; None without one."""
    now = own_refs(baton.store)
    changed = {ref for ref in now.keys() | made.seen.keys() if now.get(ref) != made.seen.get(ref)}
    if not made.conversations:
        touched = {chain_ref(part.track) for part in made.tracks if part.remove} | {p.chain.ref for p in made.safety}
        changed = {ref for ref in changed if ref in touched or ref == META or ref.startswith(RUNS)}
    apart = (TIPS, THREADS, LATE, *((REMOTES,) if made.conversations else ()))  # a saver moves threads all the time
    return min((ref for ref in changed if not ref.startswith(apart) and ref != NOTES), default=None)


def prune(baton: Baton, wish: Wish) -> Plan:
    """Plan and carry out; where somebody records checkpoints meanwhile, plan again, a few times, and then let them wait.
    Raises as both."""
    for _ in range(_TRIES):
        made = plan(baton, wish)
        if made.empty:
            return made
        try:
            return apply(baton, made)
        except RefConflictError:
            continue
    with baton.repo.lock((META, NOTES)):
        settle(baton.store)
        made = _planned(baton, wish)
        return made if made.empty else _carried_out(baton, made, nullcontext())
