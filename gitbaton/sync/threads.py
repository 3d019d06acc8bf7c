"""Threads between machines: they travel only when asked for; where both sides went on, one thread is made of both."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import plain
from gitbaton.errors import BatonError
from gitbaton.git.objects import RefChange
from gitbaton.git.packs import Packs
from gitbaton.git.remotes import Connection, place_address
from gitbaton.model import Oid
from gitbaton.render import in_shell
from gitbaton.store.refs import remote_ref
from gitbaton.sync.look import Seen, here
from gitbaton.sync.threeway import Apart, Place, Side, apart, broken
from gitbaton.sync.values import FetchedThread, Move
from gitbaton.threads.chain import Entries
from gitbaton.threads.commits import named
from gitbaton.threads.health import reader
from gitbaton.threads.names import LATE, THREADS, Cut, late_ref, names_of, ref_of
from gitbaton.values import replace

_OURS = "refs/baton/"
_JOINED = "joined/"
_MOST = 100  # characters of a name
_ROOM = re.compile(r"joined/[0-9a-f]{16}/")
Name = tuple[str, str]
"""A thread and a namespace."""


def joins(shown: str) -> str:
    """What takes in what a remote has of threads."""
    return f"git baton sync --threads {in_shell(shown)}"


def forgets(shown: str) -> str:
    """What makes a thread that is gone at a remote one that it never had."""
    command = f"git baton fetch --threads --prune {in_shell(shown)}"
    return f"'{command}' forgets that it was there; then it is pushed as a new one"


def room(line: Connection, place: str | None = None) -> str:
    """Below which folder of a remote's it lies how threads stood when both sides had the same, after a join or a push: one for
    each address, since what is not at another one was not removed there."""
    shown = place_address(line.repo, place or line.remote.fetch)
    digest = hashlib.sha256(shown.encode("utf-8", "surrogateescape")).hexdigest()
    return remote_ref(line.remote.name, f"{_JOINED}{digest[:16]}/")


def below(folder: str, ref: str) -> str:
    """Where a ref of a thread lies below a folder that ``room`` gave."""
    return folder + ref.removeprefix(_OURS)


def is_thread(ref: str) -> bool:
    """Whether a ref of ours is that of a thread's chain or late writes."""
    return ref.startswith((THREADS, LATE))


def flush(baton: Baton) -> None:
    """Bring into git what savers have in their log, one that was killed, too. Raises BatonError."""
    if pending(baton):
        from gitbaton.threads.store import ThreadStore

        with ThreadStore(baton.repo) as store:
            store.flush()


def pending(baton: Baton) -> bool:
    """Whether there is a log, so that there may be more than the refs say."""
    return os.path.isdir(os.path.join(baton.repo.shared_dir, "wal"))


def known(baton: Baton, remote: str) -> dict[str, Oid]:
    """The refs of threads here, and of how they stood when a remote had the same."""
    return baton.repo.objects.refs(THREADS, LATE, remote_ref(remote, _JOINED))


def called(name: Name) -> str:
    """A namespace of a thread in words."""
    thread, namespace = (plain(part if len(part) <= _MOST else part[: _MOST - 3] + "...") for part in name)
    return f"thread '{thread}'" + (f" (namespace '{namespace}')" if namespace else "")


def new(moves: Sequence[Move]) -> list[Name]:
    """The threads whose names a push makes known."""
    return [(move.thread, move.namespace) for move in moves if move.thread is not None and move.action == "new"]


def _places(refs: Mapping[str, Oid], below: str = _OURS) -> dict[Name, Place]:
    """The places of threads, of refs below a prefix."""
    found: dict[Name, Place] = {}
    for ref, oid in refs.items():
        own = _OURS + ref.removeprefix(below) if ref.startswith(below) else ""
        name = names_of(own)
        if name is not None:
            old = found.get(name, Place())
            found[name] = replace(old, late=oid) if own.startswith(LATE) else replace(old, tip=oid)
    return found


class Trade:
    """The threads here beside those of a remote, or of ``place``, one of its push addresses, whose objects are here. ``refs``:
    those of threads, instead of what is here now. A context manager."""

    def __init__(
        self,
        baton: Baton,
        line: Connection,
        seen: Seen,
        *,
        place: str | None = None,
        refs: Mapping[str, Oid] | None = None,
    ) -> None:
        self.baton, self.remote, self.shown = baton, line.remote.name, line.remote.shown
        self.room = room(line, place)
        # What was joined from where is fetched was once ours: it tells as well what has been removed here.
        self.rooms = (self.room,) if place is None else (room(line), self.room)
        self.objects, self.packs, self.entries = baton.repo.objects, Packs(baton.repo), Entries()
        self.theirs = _places(seen.others)
        self.look(refs)

    def __enter__(self) -> Trade:
        return self

    def __exit__(self, *_: object) -> None:
        self.packs.close()

    def look(self, refs: Mapping[str, Oid] | None = None) -> None:
        """Look at what is here anew."""
        self.refs = dict(refs if refs is not None else known(self.baton, self.remote))
        self.ours = _places(self.refs)
        self.bases = {name: place for folder in self.rooms for name, place in _places(self.refs, folder).items()}
        self.elsewhere = self.bases.keys() - _places(self.refs, self.room).keys()

    def put(self, name: Name, place: Place, base: Place) -> list[RefChange]:
        """Have a namespace stand elsewhere here, and note what both sides have; the refs that must move for it, those that note
        it at last."""
        refs = ref_of(*name), late_ref(*name)
        wanted = dict(zip(refs, (place.tip, place.late), strict=True))
        wanted |= {below(self.room, ref): oid for ref, oid in zip(refs, (base.tip, base.late), strict=True)}
        self.ours[name], self.bases[name] = place, base
        changes = []
        for ref, oid in wanted.items():
            old = self.refs.pop(ref, None)
            if oid is not None:
                self.refs[ref] = oid
            changes += [RefChange(name=ref, new=oid, old=old)] if oid != old else []
        return changes

    def names(self) -> list[Name]:
        """All namespaces of threads that are here or there, or were both."""
        return sorted({*self.ours, *self.theirs, *self.bases})

    def three(self, name: Name) -> tuple[Place, Place, Place]:
        """Where a namespace stands here, there, and stood when both had the same."""
        nowhere = Place()
        return self.ours.get(name, nowhere), self.theirs.get(name, nowhere), self.bases.get(name, nowhere)

    def side(self, place: Place) -> Side:
        """What lies in a place."""
        return Side(self.packs.read, self.packs.algorithm, place, self.entries)

    def apart(self, name: Name) -> Apart:
        """What both sides lack of what they become. Raises RecordError, GitError."""
        mine, other, base = self.three(name)
        sides = self.side(mine), self.side(other), self.side(base) if base else None
        return apart(*sides, elsewhere=name in self.elsewhere)

    def broken(self, name: Name, place: Place, *known: Place) -> str:
        """Why nobody can use what lies in a place of a thread, as far as it is not in those ``known``; empty where all is
        well."""
        reason = broken(self.side(place), *map(self.side, known))
        strange = not reason and place.tip is not None and any(isinstance(part, Cut) for part in self.whole(name, place))
        return "it does not say its name" if strange else reason

    def whole(self, name: Name, *places: Place) -> Name:
        """A name for people: what a ref does not hold, as one of the places says it."""
        return _whole(name, *map(self.side, places or self.three(name)))


def gathered(baton: Baton, line: Connection, seen: Seen, before: Mapping[str, Oid]) -> tuple[FetchedThread, ...]:
    """What a fetch has brought of each thread of a remote; ``before``: what lay here. One that is not as we write it is
    broken, and nothing uses it."""
    old = _places(before, here(line.remote.name, _OURS))
    with Trade(baton, line, seen) as trade:
        return tuple(_gathered(trade, name, place, old.get(name, Place())) for name, place in sorted(trade.theirs.items()))


def _gathered(trade: Trade, name: Name, place: Place, old: Place) -> FetchedThread:
    shown = trade.whole(name, place)
    row = FetchedThread(thread=shown[0], namespace=shown[1], state="same")
    mine, _, base = trade.three(name)
    reason = trade.broken(name, place, mine, base)
    if reason:
        return replace(row, state="broken", reason=reason)
    if place == old:
        return row
    now, was = trade.side(place), trade.side(old)
    if not old:
        return replace(row, state="new", count=now.length)
    if old.tip is None or was.is_below(now):
        return replace(row, state="newer", count=now.length - (was.length if old.tip is not None else 0))
    try:
        have = {entry.id for entry in was.chain.walk()}
    except BatonError:
        have = set()
    return replace(row, state="rewritten", count=sum(1 for entry in now.chain.walk() if entry.id not in have))


def gone(line: Connection, seen: Seen, before: Mapping[str, Oid]) -> tuple[Name, ...]:
    """The threads that were fetched from a remote, or exchanged with it, and are there no more."""
    known = {*_places(before, here(line.remote.name, _OURS)), *_places(before, room(line))}
    return tuple(sorted(known - _places(seen.others).keys()))


def whole(line: Connection, names: Sequence[Name], before: Mapping[str, Oid]) -> list[Name]:
    """Such names for people: what a ref does not hold, as the chain says it that lay here."""
    places = {**_places(before, room(line)), **_places(before, here(line.remote.name, _OURS))}
    read, algorithm = reader(line.repo.objects), line.repo.layout.algorithm
    return [_whole(name, Side(read, algorithm, places.get(name, Place()))) for name in names]


def _whole(name: Name, *sides: Side) -> Name:
    for side in sides if any(isinstance(part, Cut) for part in name) else ():
        try:
            name = named(name, side.chain.head())
        except BatonError:
            continue
    return name


def drops(remote: str, seen: Seen, names: Sequence[Name], before: Mapping[str, Oid]) -> list[RefChange]:
    """What lets go of fetched threads, and of late writes that the others' chains hold by now."""
    wanted, fetched = set(names), here(remote, _OURS)
    found = []
    for ref, oid in before.items():
        rest = ref.removeprefix(fetched)
        own = _OURS + _ROOM.sub("", rest, count=1)
        name = names_of(own)
        late = own.startswith(LATE) and own not in seen.others and own == _OURS + rest
        if name is not None and (name in wanted or late):
            found.append(RefChange(name=ref, new=None, old=oid))
    return found
