"""Tracks between machines: what a fetch has brought of each, and what a push does with each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from gitbaton.baton import Baton
from gitbaton.codec import counted, timestamp
from gitbaton.errors import MENDS, BatonError, GitError, RecordError
from gitbaton.git.objects import NewObject
from gitbaton.model import Oid
from gitbaton.store import Store, chain_ref
from gitbaton.store.chain import root_objects
from gitbaton.store.fetched import SLACK
from gitbaton.store.join import Link, links, marks, merged, on_top
from gitbaton.store.meta import Meta
from gitbaton.store.refs import fetched_ref
from gitbaton.sync.items import Seen
from gitbaton.sync.values import Choice, Fetched, Late, Move
from gitbaton.values import replace


def fetched(baton: Baton, remote: str, seen: Seen, before: Mapping[str, Oid], choice: Choice) -> list[Fetched]:
    """What became of each chosen track of a remote by a fetch; ``before``: what lay here. A chain that cannot be one is broken,
    and nothing uses it."""
    limit, found = baton.clock() + SLACK, []
    for track, oid in sorted(seen.tracks.items()):
        if choice.takes(("track", track)):
            try:
                found.append(_fetched(baton.store, track, before.get(fetched_ref(remote, track)), oid, limit))
            except (RecordError, GitError) as error:
                found.append(Fetched(item=("track", track), state="broken", reason=error.message))
    return found


def _fetched(store: Store, track: str, old: Oid | None, new: Oid, limit: datetime) -> Fetched:
    step = store.stored(store.objects.read(new), track, new).checkpoint.step
    oids = store.objects.first_parents(new)
    if oids[-1] != store.root:
        raise RecordError("its chain does not begin at the root")
    if old == new:
        return Fetched(item=("track", track), state="same", step=step)
    state = "new" if old is None else "newer" if old in oids else "rewritten"
    fresh = oids[: oids.index(old)] if old is not None and old in oids else oids[:-1]
    known = _ids_below(store, old) if old is not None and state == "rewritten" else set()
    found = zip(fresh, marks(store, fresh), strict=True)
    more = [(oid, mark) for oid, mark in found if mark is None or mark[1] not in known]
    text = timestamp(limit).encode()
    future = [oid for oid, mark in more if mark is not None and mark[0] > text]
    read = [store.stored(item, track, oid) for oid, item in zip(future, store.objects.read_many(future), strict=True)]
    late = tuple(Late(id=stored.id, created=stored.checkpoint.created) for stored in read)
    return Fetched(item=("track", track), state=state, count=len(more), step=step, late=late)


def _ids_below(store: Store, tip: Oid) -> set[Oid]:
    """The ids of the checkpoints of a chain, as far as it can be read."""
    try:
        oids = store.objects.first_parents(tip) if store.objects.info(tip) is not None else []
    except GitError:
        return set()
    return {mark[1] for mark in marks(store, oids) if mark is not None}


class Comparison:
    """Our chains beside those of a remote, whose objects are here. Reads only.

    ``ours``: the tips of our chains; ``said``: our pins and tombstones, and those together with the remote's; ``shown``: what
    the remote is called; ``limit``: what is later is from the future, and stays there unjoined. Where not ``rewriting``, the
    remote's chains are only added to. ``objects``: what must be written for the moves; ``added``: by track, the commits that a
    step forward adds.
    """

    def __init__(
        self,
        store: Store,
        seen: Seen,
        ours: Mapping[str, Oid],
        said: tuple[Meta, Meta],
        shown: str,
        limit: datetime,
        *,
        rewriting: bool,
    ) -> None:
        self.store, self.seen, self.ours, self.shown, self.rewriting = store, seen, ours, shown, rewriting
        self.mine, self.both = said
        self.limit = limit
        self.objects: list[NewObject] = []
        self.added: dict[str, list[Oid]] = {}
        self._ids: dict[Oid, list[Oid]] = {}

    def moves(self, choice: Choice) -> list[Move]:
        """A move for each chosen track that we have, or of which the remote has what was dropped: a new ref, a step forward, a
        rewriting, more on top, an end, nothing, or a refusal."""
        found = []
        for track in sorted({*self.ours, *self.seen.tracks}):
            if choice.takes(("track", track)):
                try:
                    move = self._move(track)
                except BatonError as error:
                    move = self._refused(track, error.message)
                found += [move] if move is not None else []
        return found

    def ids(self, track: str, tip: Oid) -> list[Oid]:
        """The ids of the checkpoints of a chain, oldest first. Raises RecordError where it is broken."""
        if tip not in self._ids:
            oids = self.store.objects.first_parents(tip)
            if oids[-1] != self.store.root:
                raise RecordError(f"the chain at {tip} does not begin at the root")
            found = list(marks(self.store, oids[-2::-1]))
            known = [mark[1] for mark in found if mark is not None]
            self._ids[tip] = known if len(known) == len(found) else [link.id for link in links(self.store, track, tip)]
        return self._ids[tip]

    def _refused(
        self, track: str, reason: str, *, count: int = 0, forgotten: int = 0, hint: str = "", broken: bool = False
    ) -> Move:
        move = Move(
            ref=chain_ref(track), item=("track", track), action="refused", seen=self.seen.tracks.get(track), reason=reason
        )
        return replace(move, count=count, forgotten=forgotten, hint=hint, broken=broken)

    def _move(self, track: str) -> Move | None:
        tip, seen = self.ours.get(track), self.seen.tracks.get(track)
        if tip is None:
            return self._only_there(track, seen) if seen is not None else None
        if tip == seen:
            return Move(ref=chain_ref(track), item=("track", track), action="same", seen=seen, new=tip)
        path = self.store.objects.first_parents(tip)
        if path[-1] != self.store.root:
            reason = f"track '{track}' is broken here: its chain does not begin at the root"
            return self._refused(track, reason, broken=True, hint=MENDS)
        if self.both != self.mine and (gone := sum(1 for oid in self.ids(track, tip) if self.both.dropped(oid))):
            return self._refused(
                track, f"{counted(gone, 'checkpoint')} of '{track}' removed by others {_be(gone)} still here", count=gone
            )
        twin = next((name for name in self.seen.tracks if name.casefold() == track.casefold()), track)
        if seen is None and twin != track:
            reason = f"{self.shown} has the track '{twin}', from which '{track}' differs only in case"
            return self._refused(track, reason, hint="go on under another name: git baton snapshot --track NAME STEP")
        if seen is None or seen in path:
            action, count = ("new", len(path) - 1) if seen is None else ("forward", path.index(seen))
            self.added[track] = path[:count]
            return Move(ref=chain_ref(track), item=("track", track), action=action, seen=seen, new=tip, count=count)
        return self._apart(track, tip, seen)

    def _only_there(self, track: str, seen: Oid) -> Move | None:
        """A track that is not here: what is dropped goes from it, and where that is everything it ends."""
        if not self.both.drops or self.store.objects.info(seen) is None:
            return None
        ids = set(self.ids(track, seen))
        dropped = {oid for oid in ids if self.both.dropped(oid)}
        if not dropped:
            return None
        forgotten = len(dropped & self.both.forgotten)
        if not self.rewriting and dropped == ids:
            reason = f"{self.shown} refuses rewriting and keeps '{track}', which was removed here"
            return self._refused(track, reason, forgotten=forgotten)
        new = None
        if self.rewriting and dropped != ids:
            new = self._put(merged((k for k in links(self.store, track, seen) if k.id not in dropped), ()))[-1].commit
        action = "same" if not self.rewriting else "rewrite" if new else "delete"
        move = Move(ref=chain_ref(track), item=("track", track), action=action, seen=seen, new=new)
        return replace(move, dropped=len(dropped), forgotten=forgotten)

    def _apart(self, track: str, tip: Oid, seen: Oid) -> Move:
        """A chain that has left ours, or whose beginning was removed."""
        have, there = self.ids(track, tip), self.ids(track, seen)
        own: list[Link] = []
        missing = {oid for oid in set(there).difference(have) if not self.both.dropped(oid)}
        if missing:
            late = [link for link in links(self.store, track, seen) if link.id in missing and link.created > self.limit]
            number = len(missing.difference(link.id for link in late))
            if number:
                reason = f"{self.shown} has {counted(number, 'checkpoint')} of '{track}' that {_be(number)} not here"
                return self._refused(track, reason, count=number)
            # Our chain as it will be for all once the remote's checkpoints from the future have come to be joined.
            own = self._put(merged(links(self.store, track, tip), late))
            tip, have = own[-1].commit or tip, [link.id for link in own]
        lacks, gone = set(have).difference(there), set(there).difference(have)
        move = Move(ref=chain_ref(track), item=("track", track), action="same", seen=seen, new=seen, dropped=len(gone))
        move = replace(move, count=len(lacks), forgotten=len(gone & self.both.forgotten))
        if not lacks and there[-1:] == have[-1:] and not (gone and self.rewriting):
            return move
        if self.rewriting:
            return replace(move, action="rewrite", new=tip)
        own = own or links(self.store, track, tip)
        more = [link for link in own if link.id in lacks]
        if not more or more[-1].id != own[-1].id:  # our newest once more, so that it is the last
            more.append(own[-1])
        return replace(move, action="append", new=self._put(more, seen)[-1].commit or seen)

    def _put(self, union: Iterable[Link], seen: Oid | None = None) -> list[Link]:
        """A chain of these as whoever joins them writes it: of nothing else, or on top of the remote's tip ``seen``."""
        empty, root = root_objects(self.store.objects.algorithm)
        tree = self.store.tree_of(seen) if seen is not None else empty.oid
        if tree is None:
            raise RecordError(f"commit {seen} cannot be read")
        objects, put = on_top(self.store.objects.algorithm, seen or root.oid, tree, union)
        self.objects += objects
        return put


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
