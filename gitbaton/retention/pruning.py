"""Prune: the plan by keep rules, and carrying it out: all of it or nothing, and never what was not planned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from gitbaton.baton import Baton
from gitbaton.codec import check_track, plain
from gitbaton.errors import NotFoundError, RefConflictError
from gitbaton.model import Oid, Stored
from gitbaton.retention.inventory import Chain, Conversation, Found, copies
from gitbaton.retention.removing import Trimmed, drawn_up, insist, moved, moving, rebuilt, survey
from gitbaton.retention.rules import DAYS, Item, Wish, keep, keep_auto, no_rule, rules_of
from gitbaton.store import NOTES, TIPS, Store, chain_ref
from gitbaton.store.join import links
from gitbaton.store.refs import META, REMOTES, RUNS, THREADS
from gitbaton.store.revision import Revision
from gitbaton.store.safety import replay
from gitbaton.store.sound import NONE
from gitbaton.threads.names import LATE
from gitbaton.values import replace, value


@value
class TrackPlan:
    """What becomes of a track: what stays, each with its reasons, and what goes; both newest first."""

    track: str
    keep: tuple[tuple[Stored, tuple[str, ...]], ...]
    remove: tuple[Stored, ...]


@value
class Plan:
    """What a prune removes; good for the refs that were ``seen``. ``safety``: the chains that lose states before a restore.
    ``broken``: the refs that are left alone, each with why. ``bytes``: about how much of the disk ``git gc --prune=now`` frees
    afterwards, None where nobody asked."""

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
        """Whether nothing goes."""
        return not self.removed and not self.safety and not self.conversations


def plan(baton: Baton, wish: Wish, *, weigh: bool = False, held: bool = False) -> Plan:
    """What a prune would remove; with ``weigh`` also what that frees. Removes nothing. ``held``: whether the lock is.

    Raises RecordError when a ref of ours is a stranger's, or ``meta`` cannot be read, NotFoundError for a track that is not
    there, and UsageError when no rule says what stays.
    """
    names = {check_track(name): name for name in wish.tracks}
    found, now = survey(baton, held=held), baton.clock()
    for track, name in names.items():
        if chain_ref(track) not in found.refs:
            raise NotFoundError(f"there is no track '{plain(name)}'", "'git baton tracks' lists them")
    rows = [_track(baton, found, chain, wish, now) for chain in found.tracks if not names or chain.name in names]
    ruled = wish.auto or any(ruled for _, ruled in rows)
    if not ruled and (rows or not rules_of(baton.repo.settings(), "", wish.rules).given):
        raise no_rule(wish.tracks)
    tracks, whole = tuple(made for made, _ in rows), not (names or wish.auto)
    trims = (_trimmed(baton.store, chain, now) for chain in found.safety if whole and not found.unknown)
    safety = tuple(trim for trim in trims if trim is not None)
    gone = {stored.id for items in (*(t.remove for t in tracks), *(t.remove for t in safety)) for stored in items}
    talks = _conversations(baton, found, gone, now) if whole else ()
    more = "; no checkpoint is removed while nobody knows which ones it needs"
    broken = {ref: why + (more if ref in found.unknown else "") for ref, why in sorted(found.broken.items())}
    made = Plan(tracks=tracks, safety=safety, conversations=talks, seen=found.refs, broken=broken)
    if not weigh or made.empty:
        return replace(made, bytes=0) if weigh else made
    from gitbaton.retention.costs import freed

    revision = _revision(baton, made)
    for trim in safety:
        revision.also(trim.objects, [trim.change])
    objects, first, tips = revision.drawn()
    return replace(made, bytes=freed(baton.store, found, objects, [*first, *tips]))


def _track(baton: Baton, found: Found, chain: Chain, wish: Wish, now: datetime) -> tuple[TrackPlan, bool]:
    """The plan for a track, and whether any rule was given for it; without one all of it stays."""
    rules = rules_of(baton.repo.settings(), chain.name, wish.rules) if not wish.auto else wish.rules
    rows = [
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
    if wish.auto:
        kept = keep_auto(rows, now)
    elif rules.given:
        kept = keep(rows, rules, milestones=wish.milestones, kind=wish.kind)
    else:
        kept = {item.id: ("no rule",) for item in rows}
    stay = tuple((stored, kept[stored.id]) for stored in chain.items if stored.id in kept)
    gone = tuple(stored for stored in chain.items if stored.id not in kept)
    return TrackPlan(track=chain.name, keep=stay, remove=gone), rules.given


def _trimmed(store: Store, chain: Chain, now: datetime) -> Trimmed | None:
    """A safety chain without the checkpoints at its beginning that are older than 14 days; None where none is, or where undo or
    redo of what stays would be another without them."""
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
    return Trimmed(chain=chain, remove=gone, rewritten=(), taken={}, objects=objects, change=change)


def _conversations(baton: Baton, found: Found, gone: set[Oid], now: datetime) -> tuple[Conversation, ...]:
    """The stored conversations that have not grown for 14 days and that nothing mentions which stays, here or as fetched."""
    if not found.conversations or found.torn:
        return ()
    stay = [s for chain in (*found.tracks, *found.safety) for s in chain.items]
    for copy in copies(baton.store, found):
        if not copy.whole:
            return ()  # nobody knows what it mentions
        stay += [s for s in copy.items if not found.meta.dropped(s.id)]
    named = {(s.checkpoint.agent.name, s.checkpoint.agent.session) for s in stay if s.checkpoint.agent and s.id not in gone}
    least = now - timedelta(days=DAYS)
    old = (talk for talk in found.conversations if talk.newest < least)
    return tuple(talk for talk in old if (talk.agent, talk.session) not in named)


def _revision(baton: Baton, made: Plan) -> Revision:
    keep = {part.track: [stored for stored, _ in part.keep] for part in made.tracks if part.remove}
    return drawn_up(baton, made.broken, keep=keep, drop={t.ref: t.tip for t in made.conversations}, pruned=made.removed)


def apply(baton: Baton, made: Plan, *, held: bool = False) -> Plan:
    """Carry out a plan: all of it in one transaction; what was removed in the end. The lock is held only while refs move.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is removed then.
    """
    chains = [chain_ref(part.track) for part in made.tracks if part.remove]
    touched = {*chains, *(part.chain.ref for part in made.safety), META}

    def counts(ref: str) -> bool:
        if made.conversations:  # any checkpoint may mention them; threads are moved by a saver all the time
            quiet = not ref.startswith((TIPS, THREADS, LATE)) and ref != NOTES
            return quiet and (not ref.startswith(REMOTES) or "/tracks/" in ref)
        return ref in touched or ref.startswith(RUNS)

    revision = _revision(baton, made)
    with moving(baton, revision, chains, made.safety, held=held) as free:
        if ref := moved(baton, made.seen, counts):
            raise RefConflictError(f"nothing is removed: '{ref}' moved meanwhile", "try again")
        revision.apply()
    return replace(made, safety=tuple(part for part in made.safety if part.chain.ref in free))


def prune(baton: Baton, wish: Wish) -> Plan:
    """Plan and carry out; where somebody records checkpoints meanwhile, plan again, a few times, and then let them wait.
    Raises as both."""
    return insist(
        baton,
        plan(baton, wish),
        lambda held: plan(baton, wish, held=held),
        lambda made, held: made if made.empty else apply(baton, made, held=held),
    )
