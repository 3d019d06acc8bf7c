"""Joining threads that were fetched: what only one side did is taken; where both did something, both clones get the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.errors import BatonError, RefConflictError
from gitbaton.git.objects import NewObject
from gitbaton.git.remotes import Connection
from gitbaton.model import Oid
from gitbaton.sync.look import Seen
from gitbaton.sync.threads import Name, Trade, flush
from gitbaton.sync.threeway import Apart, Place
from gitbaton.sync.values import JoinedThread
from gitbaton.threads.late import Object
from gitbaton.values import replace

_TRIES = 20


def join(
    baton: Baton, line: Connection, seen: Seen, *, sound: Collection[Name] = (), write: bool = True
) -> tuple[tuple[JoinedThread, ...], Mapping[str, Oid]]:
    """Make one of the threads that a remote has, whose objects are here, and of those here; what came of each, and the refs
    of threads afterwards. ``sound``: those that were looked at just now, and are as we write them. Without ``write`` only say
    what it would be.

    A thread that is broken there or here is listed and left out. One that was deleted here, and is there as it was when both
    had the same, stays away; where it went on there, it comes back. Raises BatonError when the log cannot be flushed.
    """
    if write:
        flush(baton)
    with Trade(baton, line, seen) as trade:
        made = _Join(trade, sound, write=write)
        rows = tuple(row for name in sorted(trade.theirs) if (row := made.join(name)) is not None)
        return rows, trade.refs


class _Join:
    """A join in the making."""

    def __init__(self, trade: Trade, sound: Collection[Name], *, write: bool) -> None:
        self.trade, self.sound, self.write = trade, frozenset(sound), write

    def join(self, name: Name) -> JoinedThread | None:
        """Join one namespace of a thread; None where nothing is new here."""
        thread, namespace = self.trade.whole(name)
        row = JoinedThread(thread=thread, namespace=namespace)
        for left in range(_TRIES, 0, -1):
            try:
                return self._join(name, row)
            except RefConflictError as error:  # a saver is at work on it
                if left == 1:
                    return replace(row, problem=error.message)
                flush(self.trade.baton)
                self.trade.look()
            except BatonError as error:
                return replace(row, problem=error.message)
        return None

    def _join(self, name: Name, row: JoinedThread) -> JoinedThread | None:
        mine, there, base = self.trade.three(name)
        if mine == there:
            reason = self.trade.broken(name, mine, base) if mine != base else ""
            if not reason:
                self._moved(name, mine)
            return replace(row, problem=f"it is broken here and there: {reason}") if reason else None
        if not mine and there == base:
            return None
        reason = "" if name in self.sound else self.trade.broken(name, there, mine, base)
        if reason:
            return replace(row, problem=f"it is broken there: {reason}")
        if not mine:
            self._moved(name, there)
            added = self.trade.side(there).length
            return replace(row, added=added, changed=int(not added), back=bool(base))
        reason = self.trade.broken(name, mine, base)
        if reason:
            return replace(row, problem=f"it is broken here: {reason}")
        if there == base:
            return None
        apart = self.trade.apart(name)
        self._moved(name, *self._both(name, apart))
        if not apart.ours:
            return None
        changed = apart.changed or int(not apart.added and not apart.removed)
        return replace(row, added=apart.added, removed=apart.removed, changed=changed, was=mine.tip)

    def _both(self, name: Name, apart: Apart) -> tuple[Place, Sequence[Object]]:
        """What becomes of two that are not the same, and the objects that are new in it."""
        mine, there, _ = self.trade.three(name)
        if not apart.theirs:
            return there, ()
        if not apart.ours:
            return mine, ()
        made = apart.theirs.made(self.trade.side(there))
        tip, late = (oid.hex() if oid is not None else None for oid in (made.tip, made.late_tip))
        return Place(tip=tip, late=late), made.objects

    def _moved(self, name: Name, place: Place, objects: Sequence[Object] = ()) -> None:
        """Let our refs stand where ``place`` says, and remember what the remote has. Raises RefConflictError."""
        trade = self.trade
        changes = trade.put(name, place, trade.three(name)[1])
        if not self.write:
            trade.objects.write([NewObject(oid=item[1].hex(), kind=item[0], data=item[2]) for item in objects])
        elif changes:
            kept = trade.packs.write(objects)
            try:
                with trade.baton.repo.lock(tuple(change.name for change in changes)):
                    # One by one: who is killed before what both have is noted joins once more, and loses nothing.
                    trade.objects.update(*([change] for change in changes))
            finally:
                kept.release()
