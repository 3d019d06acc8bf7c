"""What a push does with each thread: a new one, a step forward, a rewriting with a lease, an end, nothing, or a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gitbaton.errors import MENDS, BatonError
from gitbaton.render import in_shell
from gitbaton.store.sound import NONE
from gitbaton.sync.threads import Name, Trade, called, forgets, joins
from gitbaton.sync.threeway import Apart, Place
from gitbaton.sync.values import Choice, Move
from gitbaton.threads.names import late_ref, ref_of
from gitbaton.values import replace

_SOME = 5


class Moves:
    """The moves of threads to a remote. Where not ``rewriting``, its refs only go forward. ``warnings``: what stays as it is,
    and somebody might not expect. ``apart``: refs here that lead to what cannot be read, each with why."""

    def __init__(self, trade: Trade, choice: Choice, *, rewriting: bool, apart: Mapping[str, str] = NONE) -> None:
        self.apart = apart
        self.trade, self.choice, self.rewriting, self.shown = trade, choice, rewriting, trade.shown
        self.kept: set[Name] = set()
        self.gone: set[Name] = set()

    def all(self) -> list[Move]:
        """All moves, in the order of names."""
        found = []
        for name in self.trade.names():
            if not self.choice.kept or self.trade.whole(name)[0] not in self.choice.kept:
                found += self._of(name)
        return found

    @property
    def warnings(self) -> tuple[str, ...]:
        """In words, after ``all``."""
        found = []
        if self.kept:
            how = f"'git baton push --threads --prune {in_shell(self.shown)}' deletes what was deleted here"
            found.append(f"{self._listed(self.kept, self.trade.ours)} deleted here, and still at {self.shown}: {how}")
        if self.gone:
            gone = self._listed(self.gone, self.trade.theirs)
            found.append(f"{gone} gone at {self.shown}, here all the same, and not pushed again: {forgets(self.shown)}")
        return tuple(found)

    def _of(self, name: Name) -> list[Move]:
        mine, there, base = self.trade.three(name)
        if mine == there:
            return []
        if not mine:
            return self._deleted(name, there, base) if base else []
        if not there and base and name not in self.trade.elsewhere:
            if mine != base:
                return [
                    self._refused(name, f"{self._called(name)} is gone at {self.shown}, and went on here", forgets(self.shown))
                ]
            self.gone.add(name)
            return []
        reason = self.trade.broken(name, mine, base)
        reason = reason or self.apart.get(ref_of(*name), "") or self.apart.get(late_ref(*name), "")
        if reason:
            return [replace(self._refused(name, f"{self._called(name)} is broken here: {reason}", MENDS), broken=True)]
        if not there:
            return self._pair(name, mine, there, None)
        return self._both(name, mine, there, base)

    def _listed(self, names: Iterable[Name], there: Iterable[Name]) -> str:
        """Threads in words, with the verb; of one that is ``there`` in other namespaces, the namespace."""
        left = {thread for thread, _ in there}
        whole = {name: self.trade.whole(name) for name in names}
        threads = sorted({whole[name] if name[0] in left else (whole[name][0], "") for name in names})
        shown = ", ".join(map(called, threads[:_SOME]))
        more = f" and {len(threads) - _SOME} more" if len(threads) > _SOME else ""
        return f"{shown}{more} {'is' if len(threads) == 1 else 'are'}"

    def _called(self, name: Name) -> str:
        return called(self.trade.whole(name))

    def _deleted(self, name: Name, there: Place, base: Place) -> list[Move]:
        """A thread that was deleted here. Its end is pushed only when asked for."""
        if not there:
            return []
        if not self.choice.prune:
            self.kept.add(name)
            return []
        if there != base:
            return [
                self._refused(name, f"{self._called(name)}, which was deleted here, went on at {self.shown}", joins(self.shown))
            ]
        return self._pair(name, Place(), there, None)

    def _both(self, name: Name, mine: Place, there: Place, base: Place) -> list[Move]:
        """A thread that is here and there."""
        reason = self.trade.broken(name, there, mine, base)
        if reason:
            hint = "who has the thread whole can push it from there"
            return [self._refused(name, f"{self._called(name)} is broken at {self.shown}: {reason}", hint)]
        try:
            apart = self.trade.apart(name)
        except BatonError as error:
            return [self._refused(name, f"{self._called(name)} cannot be compared: {error.message}", joins(self.shown))]
        if there != base and not apart.theirs:
            return []  # all that is here is there
        if there != base and apart.ours:
            return [self._behind(name, apart)]
        return self._pair(name, mine, there, apart)

    def _behind(self, name: Name, apart: Apart) -> Move:
        n = apart.added
        if n:
            these = f"{n} checkpoint{'' if n == 1 else 's'} of {self._called(name)} that {'is' if n == 1 else 'are'} not here"
            return self._refused(name, f"{self.shown} has {these}", joins(self.shown), count=n)
        return self._refused(name, f"{self._called(name)} was changed here and at {self.shown}", joins(self.shown), count=1)

    def _refused(self, name: Name, reason: str, hint: str, *, count: int = 0) -> Move:
        seen = self.trade.three(name)[1]
        thread, namespace = self.trade.whole(name)
        move = Move(ref=ref_of(*name), action="refused", seen=seen.tip, thread=thread, namespace=namespace)
        return replace(move, count=count, reason=reason, hint=hint)

    def _pair(self, name: Name, mine: Place, there: Place, apart: Apart | None) -> list[Move]:
        """The moves of both refs from what is there to what is here."""
        thread, namespace = self.trade.whole(name)
        pairs = ((ref_of(*name), there.tip, mine.tip), (late_ref(*name), there.late, mine.late))
        forward = self.trade.side(there).is_below(self.trade.side(mine))
        found = []
        for ref, seen, new in pairs:
            if seen != new:
                action = "delete" if new is None else "new" if seen is None else "rewrite"
                action = "forward" if action == "rewrite" and forward and new == mine.tip else action
                found.append(Move(ref=ref, action=action, seen=seen, new=new, thread=thread, namespace=namespace))
        if not self.rewriting and any(move.action in ("rewrite", "delete") for move in found):
            reason = f"{self.shown} refuses rewriting, and {self._called(name)} was rewritten here"
            return [self._refused(name, reason, "whoever runs it can let our refs be rewritten")]
        if found and found[0].ref == ref_of(*name):
            count = apart.new if apart is not None else self.trade.side(mine).length
            dropped = apart.gone if apart is not None else self.trade.side(there).length
            found[0] = replace(found[0], count=count, dropped=dropped)
        return found
