"""Bisect: which checkpoint broke it, by binary search along a track, in a scratch work tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import BatonError, NoAnswerError
from gitbaton.base.model import Stored
from gitbaton.base.values import value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import History
from gitbaton.git.run import zsplit
from gitbaton.git.worktree.scratch import Scratch, scratch

_INSTEAD = {
    "bad": "name another one with --bad CHECKPOINT",
    "good": "name another one with --good CHECKPOINT; --trust-good takes it for good without running the command on it",
}
SKIP, NOT_RUNNABLE, NOT_FOUND, ABORT = 125, 126, 127, 128  # the exit statuses that `git bisect run` knows, too


@value
class BisectPlan:
    """Plan of a bisection: ``candidates`` after ``good``, oldest first; the last one is said to be bad. ``trusted``: that the
    good one is good is not tried. ``warnings`` name what cannot be tried."""

    good: Stored
    candidates: tuple[Stored, ...]
    trusted: bool
    warnings: tuple[str, ...]

    @property
    def bad(self) -> Stored:
        """The checkpoint that is said to be bad."""
        return self.candidates[-1]


@value
class BisectStep:
    """One checkpoint that is about to be tried: how many are then left, and about how many steps they will take. ``end``:
    ``bad`` or ``good`` where it is tried whether it is what it is said to be."""

    checkpoint: Stored
    left: int
    steps: int
    end: str | None = None


@value
class BisectChange:
    """A path that differs between two checkpoints, and by how many lines (None for a binary file)."""

    path: str
    added: int | None
    deleted: int | None


@value
class BisectVerdict:
    """Result of a bisection. ``candidates``: one, the first bad checkpoint, or several where those between could not be tried.
    ``good`` is the one before the first of them; ``stat`` the diffstat between both, as git prints it."""

    good: Stored
    candidates: tuple[Stored, ...]
    stat: str
    changes: tuple[BisectChange, ...]
    tried: int

    @property
    def found(self) -> bool:
        """Whether the result is one checkpoint."""
        return len(self.candidates) == 1


def plan(baton: Baton, good: str, bad: str | None, *, foreign: bool = False, trust_good: bool = False) -> BisectPlan:
    """Return the checkpoints between two of one chain; ``bad`` is by default the newest of the good one's track.

    Raises NotFoundError, AmbiguousNameError; BatonError that says how the two lie, or that a foreign one would be run;
    NoAnswerError where an end has no files to be tried with.
    """
    first = baton.resolve(good)
    last = baton.resolve(bad) if bad is not None else baton.tip(first.checkpoint.track)
    history = _chain(baton, first, last)
    places = {stored.id: place for place, stored in enumerate(history.items)}
    start, end = places[first.id], places[last.id]  # the newest is the first
    if start <= end:
        track = history.items[end].checkpoint.track
        how = "is also the bad one" if start == end else f"comes after the bad one '{baton.short(last.id)}'"
        raise BatonError(f"the good checkpoint '{baton.short(first.id)}' {how} on track {in_quotes(track)}")
    candidates = history.items[end:start][::-1]
    tried = candidates if trust_good else (history.items[start], *candidates)
    strange = next((c for c in tried if c.foreign and c.checkpoint.files), None)
    if strange is not None and not foreign:
        what = f"checkpoint '{baton.short(strange.id)}' is foreign: the command would run on a stranger's files"
        raise BatonError(what, "--foreign lets it")
    for end, stored in (("bad", candidates[-1]), *(() if trust_good else (("good", history.items[start]),))):
        if not stored.checkpoint.files:
            what = f"the {end} checkpoint '{baton.short(stored.id)}' was recorded without files, and cannot be tried"
            raise NoAnswerError(what, _INSTEAD[end])
    warnings = (
        *(f"{in_quotes(p.where)} is left out: {plain(p.reason)}" for p in history.problems),
        *(f"checkpoint '{baton.short(c.id)}' has no files and is skipped" for c in candidates if not c.checkpoint.files),
    )
    return BisectPlan(good=history.items[start], candidates=candidates, trusted=trust_good, warnings=warnings)


def _chain(baton: Baton, first: Stored, last: Stored) -> History:
    """Return the track that holds both; one checkpoint may be in several."""
    for track in dict.fromkeys((last.checkpoint.track, first.checkpoint.track)):
        history = baton.store.history(track)
        if {first.id, last.id} <= {stored.id for stored in history.items}:
            return history
    one, other = first.checkpoint.track, last.checkpoint.track
    what = f"the good checkpoint '{baton.short(first.id)}' and the bad one '{baton.short(last.id)}'"
    how = (
        f"on different tracks, {in_quotes(one)} and {in_quotes(other)}"
        if one != other
        else f"not both in the chain of track {in_quotes(one)}"
    )
    raise BatonError(f"{what} are {how}")


def search(
    baton: Baton, plan: BisectPlan, command: Sequence[str], *, out: int = 1, say: Callable[[BisectStep], None]
) -> BisectVerdict:
    """Run ``command`` on the bad end, the good one and then on candidates, until one is the first bad one; ``say`` is told
    before each, ``out`` takes its output.

    Exit 0 is good, 125 cannot be tried, all up to 127 bad. Raises NoAnswerError where an end is not what it is said to be;
    BatonError for any status above, and where a command that cannot be run would make every checkpoint bad. The user's HEAD,
    index, files, refs and work trees stay.
    """
    low, high, skipped = -1, len(plan.candidates) - 1, {n for n, c in enumerate(plan.candidates) if not c.checkpoint.files}
    with scratch(baton.repo, plan.bad.commit) as place:
        tried = _try_ends(place, plan, command, out, say)
        while open_ := [n for n in range(low + 1, high) if n not in skipped]:
            middle = len(open_) // 2
            at, left = open_[middle], max(middle, len(open_) - 1 - middle)  # as git counts: when the worse half remains
            say(BisectStep(checkpoint=plan.candidates[at], left=left, steps=left.bit_length()))
            code = _try(place, plan.candidates[at], command, out)
            tried += 1
            if code == 0:
                low = at
            elif code == SKIP:
                skipped.add(at)
            else:
                high = at
    return _verdict(baton, plan, low, high, tried)


def _try_ends(place: Scratch, plan: BisectPlan, command: Sequence[str], out: int, say: Callable[[BisectStep], None]) -> int:
    """Raise NoAnswerError unless the bad end is bad and the good one good; return how many were tried."""
    say(BisectStep(checkpoint=plan.bad, left=0, steps=0, end="bad"))
    bad = _try(place, plan.bad, command, out)
    if bad in (0, SKIP):
        raise _not_so(plan.bad, "bad", command, bad)
    absent = bad in (NOT_RUNNABLE, NOT_FOUND)
    if plan.trusted and not (absent and plan.good.checkpoint.files and not plan.good.foreign):
        return 1
    say(BisectStep(checkpoint=plan.good, left=0, steps=0, end="good"))
    good = _try(place, plan.good, command, out)
    if absent and good == bad:  # one that is not there exits with 127 everywhere
        what = f"{in_quotes(command[0])} exited with {bad} on the good checkpoint '{plan.good.id[:10]}', too"
        raise BatonError(f"the bisection ends: {what}; it cannot be run")
    if good != 0 and not plan.trusted:
        raise _not_so(plan.good, "good", command, good)
    return 2


def _not_so(stored: Stored, end: str, command: Sequence[str], code: int) -> NoAnswerError:
    """Return the error for an end that is not good, or bad, as it is said to be."""
    what = "cannot be tried" if code == SKIP else f"is not {end}"
    said = f"the {end} checkpoint '{stored.id[:10]}' {what}: {in_quotes(command[0])} exited with {code} on it"
    return NoAnswerError(said, _INSTEAD[end])


def _try(place: Scratch, stored: Stored, command: Sequence[str], out: int) -> int:
    place.move(stored.commit)
    code = place.run(command, out=out)
    if code >= ABORT:
        raise BatonError(f"the bisection ends: {in_quotes(command[0])} exited with {code} on checkpoint '{stored.id[:10]}'")
    return code


def _verdict(baton: Baton, plan: BisectPlan, low: int, high: int, tried: int) -> BisectVerdict:
    good = plan.candidates[low] if low >= 0 else plan.good
    candidates = plan.candidates[low + 1 : high + 1]
    between = (good.tree, candidates[-1].tree)
    words = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--end-of-options", *between, "--")
    stat = baton.repo.git.out("diff-tree", "--stat=80", "--summary", *words).decode("utf-8", "replace")
    rows = (row.split("\t", 2) for row in zsplit(baton.repo.git.out("diff-tree", "--numstat", "-z", *words)))
    changes = tuple(
        BisectChange(
            path=path, added=int(added) if added.isdigit() else None, deleted=int(deleted) if deleted.isdigit() else None
        )
        for added, deleted, path in rows
    )
    return BisectVerdict(good=good, candidates=candidates, stat=stat, changes=changes, tried=tried)
