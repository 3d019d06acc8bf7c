"""Threads between machines: they travel only when asked for; where both sides went on, one thread is made of both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.codec import counted
from gitbaton.base.errors import MENDS, BatonError
from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.care.sync.items import OURS, Choice, Fetched, Item, Joined, Move, RemoteRefs, called, flush, here, joins, room
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store.refs import remote_ref
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.git.packs import Packs
from gitbaton.git.remotes import Connection
from gitbaton.langgraph.threads.build import Apart, Side, apart
from gitbaton.langgraph.threads.chain import Entries, LateWrites, Object, ThreadChain, named
from gitbaton.langgraph.threads.codec import Id
from gitbaton.langgraph.threads.health import unusable
from gitbaton.langgraph.threads.names import LATE, THREADS, Cut, late_ref, names_of, ref_of

if TYPE_CHECKING:
    from gitbaton.langgraph.threads.build import Made
    from gitbaton.langgraph.threads.store import ThreadStore
_SOME = 5  # threads that are named in a warning
Name = tuple[str, str]
"""A thread and a namespace."""


@value
class NamespaceState:
    """Position of a namespace of a thread in one repository: its chain, and the writes that came late."""

    tip: Oid | None = None
    late: Oid | None = None

    def __bool__(self) -> bool:
        return self.tip is not None or self.late is not None

    @property
    def ids(self) -> tuple[Id | None, Id | None]:
        """The same in bytes."""
        tip, late = (bytes.fromhex(oid) if oid is not None else None for oid in (self.tip, self.late))
        return tip, late


def _place(tip: Id | None, late: Id | None) -> NamespaceState:
    return NamespaceState(tip=tip.hex() if tip is not None else None, late=late.hex() if late is not None else None)


def _places(refs: Mapping[str, Oid], choice: Choice, folder: str = OURS) -> dict[Name, NamespaceState]:
    """Return the places of the threads that a choice takes, of refs below a folder."""
    found: dict[Name, NamespaceState] = {}
    for ref, oid in refs.items():
        own = OURS + ref.removeprefix(folder) if ref.startswith(folder) else ""
        name = names_of(own)
        if name is not None and choice.takes(("thread", *name)):
            old = found.get(name, NamespaceState())
            found[name] = replace(old, late=oid) if own.startswith(LATE) else replace(old, tip=oid)
    return found


class Trade:
    """The threads that a choice takes: here, and at a remote or ``place``, one of its push addresses; all their objects are
    here. ``refs``: those of threads, instead of what is here now. A context manager."""

    def __init__(
        self,
        baton: Baton,
        line: Connection,
        seen: RemoteRefs,
        choice: Choice,
        *,
        place: str | None = None,
        refs: Mapping[str, Oid] | None = None,
    ) -> None:
        self.baton, self.choice, self.remote, self.shown = baton, choice, line.remote.name, line.remote.shown
        self.room = room(line, place)
        # What was joined from where is fetched was once ours: it tells as well what has been removed here.
        self.rooms = (self.room,) if place is None else (room(line), self.room)
        self.objects, self.packs, self.entries = baton.repo.objects, Packs(baton.repo), Entries()
        self.theirs = _places(seen.refs, choice)
        self.noted: dict[str, Oid | None] = {}
        self._store: ThreadStore | None = None
        self.refs = dict(self.objects.refs(THREADS, LATE, remote_ref(self.remote, "joined/")) if refs is None else refs)
        self.ours = _places(self.refs, self.choice)
        self.bases = {n: place for folder in self.rooms for n, place in _places(self.refs, self.choice, folder).items()}
        self.elsewhere = self.bases.keys() - _places(self.refs, self.choice, self.room).keys()

    def __enter__(self) -> Trade:
        return self

    def __exit__(self, *_: object) -> None:
        self.packs.close()
        if self._store is not None:
            self._store.close()

    def three(self, name: Name) -> tuple[NamespaceState, NamespaceState, NamespaceState]:
        """Return where a namespace stands here, there, and stood when both had the same."""
        nowhere = NamespaceState()
        return self.ours.get(name, nowhere), self.theirs.get(name, nowhere), self.bases.get(name, nowhere)

    def side(self, place: NamespaceState) -> Side:
        """Return the contents of a place."""
        (tip, late), read, algorithm = place.ids, self.packs.read, self.packs.algorithm
        return Side(ThreadChain(read, algorithm, tip, self.entries), LateWrites(read, algorithm, late))

    def apart(self, name: Name, mine: NamespaceState) -> Apart:
        """Return what both sides lack of what they become, where it stands at ``mine`` here. Raises RecordError, GitError."""
        _, other, base = self.three(name)
        sides = self.side(mine), self.side(other), self.side(base) if base else None
        return apart(*sides, elsewhere=name in self.elsewhere)

    def broken(self, name: Name, place: NamespaceState, *known: NamespaceState) -> str:
        """Return why a place of a thread is broken, as far as it is not in those ``known``; empty where all is well."""
        side = self.side(place)
        reason = unusable(side.chain, side.late, *(self.side(other).chain for other in known))
        strange = not reason and place.tip is not None and any(isinstance(part, Cut) for part in self.whole(name, place))
        return "it does not say its name" if strange else reason

    def whole(self, name: Name, *places: NamespaceState) -> Name:
        """Return a name for people: what a ref does not hold, as one of the places says it."""
        for place in (places or self.three(name)) if any(isinstance(part, Cut) for part in name) else ():
            with suppress(BatonError):
                name = named(name, self.side(place).chain.head())
        return name

    @property
    def store(self) -> ThreadStore:
        """Return the store that moves the threads here."""
        if self._store is None:
            from gitbaton.langgraph.threads.store import ThreadStore

            self._store = ThreadStore(self.baton.repo)
        return self._store

    def stands(self, name: Name, place: NamespaceState) -> None:
        """Know that a namespace stands at ``place`` here, and that both have what the remote has of it."""
        (_, there, base), refs = self.three(name), (ref_of(*name), late_ref(*name))
        rooms = [self.room + ref.removeprefix(OURS) for ref in refs]
        self.ours[name], self.bases[name] = place, there
        if there != base:
            self.noted |= dict(zip(rooms, (there.tip, there.late), strict=True))
        for ref, oid in (*zip(rooms, (there.tip, there.late), strict=True), *zip(refs, (place.tip, place.late), strict=True)):
            self.refs.pop(ref, None)
            if oid is not None:
                self.refs[ref] = oid

    def note(self) -> None:
        """Note what both have. Raises RefConflictError, GitError."""
        with self.baton.repo.lock((self.room,)):
            old = self.objects.refs(self.room)
            changes = [RefChange(name=ref, old=old.get(ref), new=oid) for ref, oid in self.noted.items() if oid != old.get(ref)]
            if changes:
                self.objects.update(*([change] for change in changes))


def fetched(
    baton: Baton, line: Connection, seen: RemoteRefs, before: Mapping[str, Oid], choice: Choice, gone: Iterable[Fetched]
) -> list[Fetched]:
    """Return what a fetch has brought of each thread of a remote, and those that are ``gone`` there, by names for people;
    ``before``: what lay here. One that is not as we write it is broken, and nothing uses it."""
    old = _places(before, choice, here(line.remote.name, OURS))
    known = {**_places(before, choice, room(line)), **old}
    with Trade(baton, line, seen, choice) as trade:
        rows = [_fetched(trade, name, place, old.get(name, NamespaceState())) for name, place in sorted(trade.theirs.items())]
        for row in gone:
            name = row.item[1], row.item[2]
            rows.append(replace(row, item=("thread", *trade.whole(name, known.get(name, NamespaceState())))))
    return rows


def _fetched(trade: Trade, name: Name, place: NamespaceState, old: NamespaceState) -> Fetched:
    row = Fetched(item=("thread", *trade.whole(name, place)), state="same")
    mine, _, base = trade.three(name)
    reason = trade.broken(name, place, mine, base)
    if reason:
        return replace(row, state="broken", reason=reason)
    if place == old:
        return row
    now, was = trade.side(place), trade.side(old)
    if not old:
        return replace(row, state="new", count=now.chain.length)
    if old.tip is None or was.chain.is_below(now.chain):
        return replace(row, state="newer", count=now.chain.length - (was.chain.length if old.tip is not None else 0))
    try:
        have = {entry.id for entry in was.chain.walk()}
    except BatonError:
        have = set()
    return replace(row, state="rewritten", count=sum(1 for entry in now.chain.walk() if entry.id not in have))


def join(
    baton: Baton, line: Connection, seen: RemoteRefs, choice: Choice, *, sound: Collection[Item] = (), write: bool = True
) -> tuple[tuple[Joined, ...], Mapping[str, Oid]]:
    """Join the threads that a remote has, and were fetched, to those here; return what came of each, and the refs of threads
    afterwards. What only one side did is taken; where both did something, both clones get the same. ``sound``: those that were
    looked at just now, and are as we write them. Without ``write`` only say what it would be.

    A thread that is broken there or here is listed and left out. One that was deleted here, and is there as it was when both
    had the same, stays away; where it went on there, it comes back. Raises BatonError when the log cannot be flushed.
    """
    if write:
        flush(baton)
    with Trade(baton, line, seen, choice) as trade:
        rows = [_try_to_join(trade, name, known=("thread", *name) in sound, write=write) for name in sorted(trade.theirs)]
        if trade.noted and write:  # only now: who is killed before this joins once more, and loses nothing
            trade.note()
        return tuple(row for row in rows if row is not None), trade.refs


def _try_to_join(trade: Trade, name: Name, *, known: bool, write: bool) -> Joined | None:
    """Join one namespace of a thread, with what savers put meanwhile; None where nothing is new here."""
    row, mine = Joined(item=("thread", *trade.whole(name))), trade.three(name)[0]
    try:
        told, place, objects = _join(trade, name, row, mine, known=known)
        if write and place not in (None, mine):

            def draw(here: Side) -> Made:
                nonlocal told, mine, place, objects
                now = _place(here.chain.tip, here.late.tip)
                if now != mine:
                    mine = now
                    told, place, objects = _join(trade, name, row, now, known=known)
                return *(mine if place is None else place).ids, objects

            trade.store.join(*name, draw)
        elif not write:  # where a dry run leaves nothing
            trade.objects.write([NewObject(oid=oid.hex(), kind=kind, data=data) for kind, oid, data in objects])
        if place is not None:
            trade.stands(name, place)
        return told
    except BatonError as error:
        return replace(row, problem=error.message)


def _join(
    trade: Trade, name: Name, row: Joined, mine: NamespaceState, *, known: bool
) -> tuple[Joined | None, NamespaceState | None, Sequence[Object]]:
    """Return the result of joining a namespace that stands at ``mine``, where it is to stand, and the objects that it takes;
    no place where all stays as it is."""
    _, there, base = trade.three(name)
    if mine == there:
        reason = trade.broken(name, mine, base) if mine != base else ""
        return (replace(row, problem=f"it is broken here and there: {reason}"), None, ()) if reason else (None, mine, ())
    if not mine and there == base:
        return None, None, ()
    reason = "" if known else trade.broken(name, there, mine, base)
    if reason:
        return replace(row, problem=f"it is broken there: {reason}"), None, ()
    if not mine:
        added = trade.side(there).chain.length
        return replace(row, added=added, changed=int(not added), back=bool(base)), there, ()
    reason = trade.broken(name, mine, base)
    if reason:
        return replace(row, problem=f"it is broken here: {reason}"), None, ()
    if there == base:
        return None, None, ()
    found = trade.apart(name, mine)
    tip, late, objects = found.made(trade.side(mine), trade.side(there))
    if not found.ours:
        return None, _place(tip, late), objects
    changed = found.changed or int(not found.added and not found.removed)
    told = replace(row, added=found.added, removed=found.removed, changed=changed, was=mine.tip)
    return told, _place(tip, late), objects


class Moves:
    """Moves of a push for each thread: a new one, a step forward, a rewriting with a lease, an end, nothing, or a refusal.
    Where not ``rewriting``, the remote's refs only go forward. ``apart``: refs here that lead to what cannot be read, each
    with why."""

    def __init__(self, trade: Trade, *, rewriting: bool, apart: Mapping[str, str]) -> None:
        self.trade, self.choice, self.shown, self.rewriting, self.apart = trade, trade.choice, trade.shown, rewriting, apart
        self.kept: set[Name] = set()
        self.gone: set[Name] = set()

    def all(self) -> list[Move]:
        """Return all moves, in the order of names."""
        names, kept = sorted({*self.trade.ours, *self.trade.theirs, *self.trade.bases}), self.choice.kept
        return [move for name in names if not kept or self.trade.whole(name)[0] not in kept for move in self._of(name)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of what stays as it is unexpectedly, in words, after ``all``."""
        found = []
        if self.kept:
            how = f"'git baton push --threads --prune {in_shell(self.shown)}' deletes what was deleted here"
            found.append(f"{self._listed(self.kept, self.trade.ours)} deleted here, and still at {self.shown}: {how}")
        if self.gone:
            gone = self._listed(self.gone, self.trade.theirs)
            found.append(f"{gone} gone at {self.shown}, here all the same, and not pushed again: {self._forgets}")
        return tuple(found)

    @property
    def _forgets(self) -> str:
        """Command that makes a thread that is gone at the remote one that it never had."""
        command = f"git baton fetch --threads --prune {in_shell(self.shown)}"
        return f"'{command}' forgets that it was there; then it is pushed as a new one"

    def _listed(self, names: Iterable[Name], there: Iterable[Name]) -> str:
        """Threads in words, with the verb; of one that is ``there`` in other namespaces, the namespace."""
        left = {thread for thread, _ in there}
        whole = {name: self.trade.whole(name) for name in names}
        threads = sorted({whole[name] if name[0] in left else (whole[name][0], "") for name in names})
        shown = ", ".join(map(called, threads[:_SOME]))
        more = f" and {len(threads) - _SOME} more" if len(threads) > _SOME else ""
        return f"{shown}{more} {'is' if len(threads) == 1 else 'are'}"

    def _of(self, name: Name) -> list[Move]:
        mine, there, base = self.trade.three(name)
        if mine == there or not (mine or base):
            return []
        it, at = called(self.trade.whole(name)), self.shown
        if not mine and not self.choice.prune:
            self.kept.add(name)
            return []
        if not mine:
            went_on = f"{it}, which was deleted here, went on at {at}"
            return self._pair(name, None) if there == base else self._refused(name, went_on, joins(at))
        if not there and base and name not in self.trade.elsewhere:
            if mine != base:
                return self._refused(name, f"{it} is gone at {at}, and went on here", self._forgets)
            self.gone.add(name)
            return []
        reason = self.trade.broken(name, mine, base)
        reason = reason or self.apart.get(ref_of(*name), "") or self.apart.get(late_ref(*name), "")
        if reason:
            return self._refused(name, f"{it} is broken here: {reason}", MENDS, broken=True)
        if not there:
            return self._pair(name, None)
        reason = self.trade.broken(name, there, mine, base)
        if reason:
            hint = "who has the thread whole can push it from there"
            return self._refused(name, f"{it} is broken at {at}: {reason}", hint)
        try:
            apart = self.trade.apart(name, mine)
        except BatonError as error:
            return self._refused(name, f"{it} cannot be compared: {error.message}", joins(at))
        if there != base and not apart.theirs:
            return []  # all that is here is there
        if there != base and apart.ours:
            n = apart.added
            lacks = f"{at} has {counted(n, 'checkpoint')} of {it} that {'is' if n == 1 else 'are'} not here"
            return self._refused(name, lacks if n else f"{it} was changed here and at {at}", joins(at), count=n or 1)
        return self._pair(name, apart)

    def _refused(self, name: Name, reason: str, hint: str, *, count: int = 0, broken: bool = False) -> list[Move]:
        move = Move(
            ref=ref_of(*name),
            action="refused",
            seen=self.trade.three(name)[1].tip,
            item=("thread", *self.trade.whole(name)),
            count=count,
            reason=reason,
            hint=hint,
            broken=broken,
        )
        return [move]

    def _pair(self, name: Name, apart: Apart | None) -> list[Move]:
        """Return the moves of both refs from what is there to what is here."""
        (mine, there, _), whole = self.trade.three(name), self.trade.whole(name)
        pairs = ((ref_of(*name), there.tip, mine.tip), (late_ref(*name), there.late, mine.late))
        forward = self.trade.side(there).chain.is_below(self.trade.side(mine).chain)
        found = []
        for ref, seen, new in pairs:
            if seen != new:
                action = "delete" if new is None else "new" if seen is None else "rewrite"
                action = "forward" if action == "rewrite" and forward and new == mine.tip else action
                found.append(Move(ref=ref, action=action, seen=seen, new=new, item=("thread", *whole)))
        if not self.rewriting and any(move.action in ("rewrite", "delete") for move in found):
            reason = f"{self.shown} refuses rewriting, and {called(whole)} was rewritten here"
            return self._refused(name, reason, "whoever runs it can let our refs be rewritten")
        if found and found[0].ref == ref_of(*name):
            count = apart.new if apart is not None else self.trade.side(mine).chain.length
            dropped = apart.gone if apart is not None else self.trade.side(there).chain.length
            found[0] = replace(found[0], count=count, dropped=dropped)
        return found
