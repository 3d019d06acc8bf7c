"""Which checkpoint broke it: a binary search along a track's chain, in a scratch work tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import plain
from gitbaton.errors import BatonError
from gitbaton.git.run import zsplit
from gitbaton.git.scratch import Scratch, scratch
from gitbaton.model import Stored
from gitbaton.store import History
from gitbaton.values import value

SKIP, NOT_RUNNABLE, NOT_FOUND, ABORT = 125, 126, 127, 128  # the exit statuses that `git bisect run` knows, too


@value
class Plan:
    """What is searched: ``candidates`` after ``good``, oldest first; the last one is known to be bad. ``warnings`` name what
    cannot be tried."""

    good: Stored
    candidates: tuple[Stored, ...]
    warnings: tuple[str, ...]

    @property
    def bad(self) -> Stored:
        """The checkpoint that is known to be bad."""
        return self.candidates[-1]


@value
class Step:
    """One checkpoint that is about to be tried: how many are then left, and about how many steps they will take."""

    checkpoint: Stored
    left: int
    steps: int


@value
class Change:
    """A path that differs between two checkpoints, and by how many lines (None for a binary file)."""

    path: str
    added: int | None
    deleted: int | None


@value
class Verdict:
    """What came out. ``candidates``: one, the first bad checkpoint, or several where those between could not be tried.
    ``good`` is the one before the first of them; ``stat`` the diffstat between both, as git prints it."""

    good: Stored
    candidates: tuple[Stored, ...]
    stat: str
    changes: tuple[Change, ...]
    tried: int

    @property
    def found(self) -> bool:
        """Whether it is one checkpoint."""
        return len(self.candidates) == 1


def plan(baton: Baton, good: str, bad: str | None, *, foreign: bool = False) -> Plan:
    """The checkpoints between two that lie on one chain; ``bad`` is by default the newest of the good one's track.

    Raises NotFoundError, AmbiguousNameError; BatonError that says how the two lie, or that a foreign one would be run.
    """
    first = baton.resolve(good)
    last = baton.resolve(bad) if bad is not None else baton.tip(first.checkpoint.track)
    history = _chain(baton, first, last)
    places = {stored.id: place for place, stored in enumerate(history.items)}
    start, end = places[first.id], places[last.id]  # the newest is the first
    if start <= end:
        track = plain(history.items[end].checkpoint.track)
        how = "is also the bad one" if start == end else f"comes after the bad one '{baton.short(last.id)}'"
        raise BatonError(f"the good checkpoint '{baton.short(first.id)}' {how} on track '{track}'")
    candidates = history.items[end:start][::-1]
    strange = next((c for c in candidates if c.foreign and c.checkpoint.files), None)
    if strange is not None and not foreign:
        what = f"checkpoint '{baton.short(strange.id)}' is foreign"
        raise BatonError(f"{what}: the command would run on a stranger's files", "--foreign lets it")
    warnings = [f"'{plain(p.where)}' is left out: {plain(p.reason)}" for p in history.problems]
    warnings += [f"checkpoint '{baton.short(c.id)}' has no files and is skipped" for c in candidates if not c.checkpoint.files]
    return Plan(good=history.items[start], candidates=candidates, warnings=tuple(warnings))


def _chain(baton: Baton, first: Stored, last: Stored) -> History:
    """The track that holds both; one checkpoint may lie in several."""
    for track in dict.fromkeys((last.checkpoint.track, first.checkpoint.track)):
        history = baton.store.history(track)
        if {first.id, last.id} <= {stored.id for stored in history.items}:
            return history
    tracks = f"'{plain(first.checkpoint.track)}' and '{plain(last.checkpoint.track)}'"
    what = f"the good checkpoint '{baton.short(first.id)}' and the bad one '{baton.short(last.id)}'"
    raise BatonError(f"{what} are on different tracks, {tracks}")


def search(baton: Baton, plan: Plan, command: Sequence[str], *, out: int = 1, say: Callable[[Step], None]) -> Verdict:
    """Run ``command`` on candidates until one is the first bad one; ``say`` is told before each, ``out`` takes its output.

    Exit 0 is good, 125 cannot be tried, all up to 127 bad. Raises BatonError for anything above, and where a command that
    cannot be run would make every checkpoint bad. The user's HEAD, index, files, refs and work trees stay.
    """
    low, high, skipped = -1, len(plan.candidates) - 1, {n for n, c in enumerate(plan.candidates) if not c.checkpoint.files}
    tried, runnable = 0, False
    open_ = _open(low, high, skipped)
    if not open_:
        return _verdict(baton, plan, low, high, skipped, tried)
    with scratch(baton.repo, plan.candidates[open_[0]].commit) as place:
        while open_ := _open(low, high, skipped):
            at = open_[len(open_) // 2]
            say(_step(plan, open_, at))
            code = _try(place, plan.candidates[at], command, out)
            tried += 1
            if code in (NOT_RUNNABLE, NOT_FOUND) and not runnable:
                _refuse_not_runnable(place, plan.good, command, out, code)
            runnable = True
            if code == 0:
                low = at
            elif code == SKIP:
                skipped.add(at)
            else:
                high = at
    return _verdict(baton, plan, low, high, skipped, tried)


def _open(low: int, high: int, skipped: set[int]) -> list[int]:
    """The candidates that may still be tried."""
    return [n for n in range(low + 1, high) if n not in skipped]


def _step(plan: Plan, open_: list[int], at: int) -> Step:
    """As git counts: what is left when the worse half remains."""
    left = max(open_.index(at), len(open_) - 1 - open_.index(at))
    return Step(checkpoint=plan.candidates[at], left=left, steps=left.bit_length())


def _try(place: Scratch, stored: Stored, command: Sequence[str], out: int) -> int:
    place.move(stored.commit)
    code = place.run(command, out=out)
    if code >= ABORT:
        raise BatonError(f"the bisection ends: '{plain(command[0])}' exited with {code} on checkpoint '{stored.id[:10]}'")
    return code


def _refuse_not_runnable(place: Scratch, good: Stored, command: Sequence[str], out: int, code: int) -> None:
    """A command that is not there exits with 127 everywhere, and would make the oldest candidate the first bad one."""
    if good.checkpoint.files and _try(place, good, command, out) == code:
        what = f"'{plain(command[0])}' exited with {code} on the good checkpoint '{good.id[:10]}', too"
        raise BatonError(f"the bisection ends: {what}; it cannot be run")


def _verdict(baton: Baton, plan: Plan, low: int, high: int, skipped: set[int], tried: int) -> Verdict:
    good = plan.candidates[low] if low >= 0 else plan.good
    candidates = plan.candidates[low + 1 : high + 1]
    between = (good.tree, candidates[-1].tree)
    words = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--end-of-options", *between, "--")
    stat = baton.repo.git.out("diff-tree", "--stat=80", "--summary", *words).decode("utf-8", "replace")
    rows = zsplit(baton.repo.git.out("diff-tree", "--numstat", "-z", *words))
    return Verdict(good=good, candidates=candidates, stat=stat, changes=tuple(map(_change, rows)), tried=tried)


def _change(row: str) -> Change:
    added, deleted, path = row.split("\t", 2)
    return Change(path=path, added=_number(added), deleted=_number(deleted))


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None
