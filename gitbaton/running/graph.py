"""What the steps of a plan wait for: named by ``after``, or implied where one may read what another writes. No I/O."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from gitbaton.errors import UsageError
from gitbaton.journal.values import Step
from gitbaton.worktree import globs


class StepError(UsageError):
    """A step cannot be carried out as it is asked for; ``step``, ``key`` and ``place`` (in the key's list) say where."""

    def __init__(self, step: str, message: str, *hints: str, key: str | None = None, place: int | None = None) -> None:
        super().__init__(f"step '{step}': {message}", *hints)
        self.step, self.key, self.place = step, key, place


def edges(steps: Sequence[Step]) -> Mapping[str, Mapping[str, str | None]]:
    """For each step, in the order given, the steps that it waits for directly, and why: None where ``after`` says so, else the
    first of its reads that a path written by the other may match. Names in ``after`` that are no step here are left out."""
    return _edges(tuple(steps))


@lru_cache(maxsize=8)
def _edges(steps: tuple[Step, ...]) -> Mapping[str, Mapping[str, str | None]]:
    names = {step.name for step in steps}
    found: dict[str, dict[str, str | None]] = {step.name: {} for step in steps}
    for step in steps:
        found[step.name] |= dict.fromkeys(name for name in step.after if name in names)
    reads = [(step, read) for step in steps for read in step.reads]
    writes = [(step, write) for step in steps for write in step.writes]
    for reader, read, writer, _ in _meetings(reads, writes):
        if reader.name != writer.name:
            found[reader.name].setdefault(writer.name, read)
    return found


def _meetings(left: Iterable[tuple[Step, str]], right: Iterable[tuple[Step, str]]) -> Iterator[tuple[Step, str, Step, str]]:
    """Each glob on the left that meets one on the right, in the order of the left. Globs can only meet where the fixed part of
    one is at or above that of the other, so most pairs are never compared."""
    at: dict[str, list[tuple[Step, str]]] = {}
    under: dict[str, list[tuple[Step, str]]] = {}
    for other, taken in right:
        place = globs.fixed(taken)
        at.setdefault(place, []).append((other, taken))
        for above in _above(place):
            under.setdefault(above, []).append((other, taken))
    for step, glob in left:
        place = globs.fixed(glob)
        near = [pair for spot in (place, *_above(place)) for pair in at.get(spot, ())] + under.get(place, [])
        yield from ((step, glob, other, taken) for other, taken in near if globs.meet(glob, taken))


def _above(place: str) -> Iterator[str]:
    while place:
        place = place.rpartition("/")[0]
        yield place


def order(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps, each after those it waits for, otherwise as given. Raises StepError that names a cycle in full."""
    waits = {name: set(above) for name, above in edges(steps).items()}
    below: dict[str, list[str]] = {name: [] for name in waits}
    for name, above in waits.items():
        for other in above:
            below[other].append(name)
    number = {step.name: place for place, step in enumerate(steps)}
    ready = [number[name] for name, above in waits.items() if not above]
    done: list[Step] = []
    while ready:
        step = steps[heapq.heappop(ready)]
        done.append(step)
        for name in below[step.name]:
            waits[name].discard(step.name)
            if not waits[name]:
                heapq.heappush(ready, number[name])
    if len(done) < len(steps):
        left = {name: above for name, above in waits.items() if above}
        raise _cycle(steps, left)
    return tuple(done)


def _cycle(steps: Sequence[Step], left: Mapping[str, Collection[str]]) -> StepError:
    """The error that names a cycle among steps of which each waits for another of them; it begins at the first as given."""
    number = {step.name: place for place, step in enumerate(steps)}
    path = [next(iter(left))]
    while path[-1] not in path[:-1]:
        path.append(min(left[path[-1]], key=number.__getitem__))
    circle = path[path.index(path[-1]) : -1]
    first = circle.index(min(circle, key=number.__getitem__))
    circle = circle[first:] + circle[:first]
    known, of = {step.name: step for step in steps}, edges(steps)
    why = []
    for name, other in zip(circle, [*circle[1:], circle[0]], strict=True):
        read = of[name][other]
        if read is not None:
            write = next(w for w in known[other].writes if globs.meet(read, w))
            why.append(f"'{name}' reads '{read}', and '{other}' writes '{write}'")
    words = " waits for ".join(f"'{name}'" for name in [*circle, circle[0]])
    start, then = circle[0], circle[1 % len(circle)]
    read = of[start][then]
    return StepError(
        start, f"a cycle: {words}", *why, key="after" if read is None else "reads", place=_place(known[start], then, read)
    )


def _place(step: Step, other: str, read: str | None) -> int:
    return step.after.index(other) if read is None else step.reads.index(read)


def ancestors(steps: Sequence[Step], names: Collection[str]) -> frozenset[str]:
    """The steps that any of these waits for, directly or not; themselves only where one waits for another."""
    next_of = edges(steps)
    found: set[str] = set()
    todo = list(names)
    while todo:
        for name in next_of.get(todo.pop(), ()):
            if name not in found:
                found.add(name)
                todo.append(name)
    return frozenset(found)


def disjoint(steps: Sequence[Step]) -> None:
    """Raises StepError where a step may read what it writes itself, or, of the later one, where two may write the same path."""
    for step in steps:
        met = globs.overlap(step.reads, step.writes)
        if met:
            raise StepError(
                step.name,
                f"reads '{met[0]}' and writes '{met[1]}', which meet",
                "a step that changes what it reads would never be done",
                key="writes",
                place=step.writes.index(met[1]),
            )
    number = {step.name: place for place, step in enumerate(steps)}
    writes = [(step, write) for step in steps for write in step.writes]
    for step, write, other, taken in _meetings(writes, writes):
        if number[other.name] < number[step.name]:
            raise StepError(
                step.name,
                f"writes '{write}', and step '{other.name}' writes '{taken}', which meet",
                "a file can have one step that writes it",
                key="writes",
                place=step.writes.index(write),
            )
