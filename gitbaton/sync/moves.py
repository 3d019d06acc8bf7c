"""What a push does with each track: a new ref, a step forward, a rewriting, more on top, an end, nothing, or a refusal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from gitbaton.errors import MENDS, BatonError, RecordError
from gitbaton.git.objects import NewObject
from gitbaton.model import Oid
from gitbaton.store import Store, chain_ref
from gitbaton.store.chain import root_objects
from gitbaton.store.join import Link, links, marks, merged, on_top
from gitbaton.store.meta import Meta
from gitbaton.sync.look import Seen
from gitbaton.sync.values import Choice, Move
from gitbaton.values import replace


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
        """A move for each chosen track that we have, or of which the remote has what was dropped."""
        found = []
        for track in sorted({*self.ours, *self.seen.tracks}):
            if choice.takes(track):
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

    def _refused(self, track: str, reason: str, *, count: int = 0) -> Move:
        seen = self.seen.tracks.get(track)
        return Move(ref=chain_ref(track), track=track, action="refused", seen=seen, count=count, reason=reason)

    def _move(self, track: str) -> Move | None:
        tip, seen = self.ours.get(track), self.seen.tracks.get(track)
        if tip is None:
            return self._only_there(track, seen) if seen is not None else None
        if tip == seen:
            return Move(ref=chain_ref(track), track=track, action="same", seen=seen, new=tip)
        path = self.store.objects.first_parents(tip)
        if path[-1] != self.store.root:
            refused = self._refused(track, f"track '{track}' is broken here: its chain does not begin at the root")
            return replace(refused, broken=True, hint=MENDS)
        if self.both != self.mine and (gone := sum(1 for oid in self.ids(track, tip) if self.both.dropped(oid))):
            return self._refused(track, f"{_some(gone)} of '{track}' removed by others {_be(gone)} still here", count=gone)
        twin = next((name for name in self.seen.tracks if name.casefold() == track.casefold()), track)
        if seen is None and twin != track:
            refused = self._refused(track, f"{self.shown} has the track '{twin}', from which '{track}' differs only in case")
            return replace(refused, hint="go on under another name: git baton snapshot --track NAME STEP")
        if seen is None or seen in path:
            action, count = ("new", len(path) - 1) if seen is None else ("forward", path.index(seen))
            self.added[track] = path[:count]
            return Move(ref=chain_ref(track), track=track, action=action, seen=seen, new=tip, count=count)
        return self._apart(track, tip, seen)

    def _only_there(self, track: str, seen: Oid) -> Move | None:
        """A track that is not here: what is dropped goes from it, and where that is everything it ends."""
        if not self.both.drops or self.store.objects.info(seen) is None:
            return None
        ids = set(self.ids(track, seen))
        dropped = {oid for oid in ids if self.both.dropped(oid)}
        if not dropped:
            return None
        ref, forgotten = chain_ref(track), len(dropped & self.both.forgotten)
        if not self.rewriting and dropped == ids:
            refused = self._refused(track, f"{self.shown} refuses rewriting and keeps '{track}', which was removed here")
            return replace(refused, forgotten=forgotten)
        new = None
        if self.rewriting and dropped != ids:
            new = self._put(merged((k for k in links(self.store, track, seen) if k.id not in dropped), ()))[-1].commit
        action = "same" if not self.rewriting else "rewrite" if new else "delete"
        return Move(ref=ref, track=track, action=action, seen=seen, new=new, dropped=len(dropped), forgotten=forgotten)

    def _apart(self, track: str, tip: Oid, seen: Oid) -> Move:
        """A chain that has left ours, or whose beginning was removed."""
        have, there = self.ids(track, tip), self.ids(track, seen)
        missing = {oid for oid in set(there).difference(have) if not self.both.dropped(oid)}
        own: Sequence[Link] | None = None
        if missing:
            late = [link for link in links(self.store, track, seen) if link.id in missing and link.created > self.limit]
            number = len(missing.difference(link.id for link in late))
            if number:
                reason = f"{self.shown} has {_some(number)} of '{track}' that {_be(number)} not here"
                return self._refused(track, reason, count=number)
            own = self._with(track, tip, late)
            tip, have = own[-1].commit or tip, [link.id for link in own]
        lacks, gone = set(have).difference(there), set(there).difference(have)
        move = Move(ref=chain_ref(track), track=track, action="same", seen=seen, new=seen, dropped=len(gone))
        move = replace(move, count=len(lacks), forgotten=len(gone & self.both.forgotten))
        if not lacks and there[-1:] == have[-1:] and not (gone and self.rewriting):
            return move
        if self.rewriting:
            return replace(move, action="rewrite", new=tip)
        return replace(move, action="append", new=self._on_top(own or links(self.store, track, tip), seen, lacks))

    def _with(self, track: str, tip: Oid, late: Collection[Link]) -> list[Link]:
        """Our chain as it will be for all once the remote's checkpoints from the future have come to be joined."""
        return self._put(merged(links(self.store, track, tip), late))

    def _put(self, union: Iterable[Link]) -> list[Link]:
        """A chain of these and nothing else, as whoever joins them writes it."""
        empty, root = root_objects(self.store.objects.algorithm)
        objects, put = on_top(self.store.objects.algorithm, root.oid, empty.oid, union)
        self.objects += objects
        return put

    def _on_top(self, own: Sequence[Link], seen: Oid, lacks: Collection[Oid]) -> Oid:
        """What the remote lacks on its tip, and our newest once more where it would not be the last."""
        more = [link for link in own if link.id in lacks]
        if not more or more[-1].id != own[-1].id:
            more.append(own[-1])
        tree = self.store.tree_of(seen)
        if tree is None:
            raise RecordError(f"commit {seen} cannot be read")
        objects, put = on_top(self.store.objects.algorithm, seen, tree, more)
        self.objects += objects
        return put[-1].commit or seen


def _some(number: int) -> str:
    return f"{number} checkpoint{'' if number == 1 else 's'}"


def _be(number: int) -> str:
    return "is" if number == 1 else "are"
