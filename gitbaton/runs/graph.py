"""Graph of a run's steps: what they wait for, which of them a change reaches; and the schedule by which they run."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import UsageError
from gitbaton.base.model import Oid
from gitbaton.base.values import value
from gitbaton.git.worktree import globs
from gitbaton.runs.context import GATE
from gitbaton.runs.journal.state import RunState, StepState
from gitbaton.runs.journal.values import Logged, Step


class StepError(UsageError):
    """A step cannot be carried out as it is asked for; ``step``, ``key`` and ``place`` (in the key's list) say where."""

    def __init__(self, step: str, message: str, *hints: str, key: str | None = None, place: int | None = None) -> None:
        super().__init__(f"step {in_quotes(step)}: {message}", *hints)
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


def as_they_run(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The steps in that order; as given where they wait for each other in a circle, as steps of different times may."""
    try:
        return order(steps)
    except StepError:
        return tuple(steps)


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
            why.append(f"{in_quotes(name)} reads {in_quotes(read)}, and {in_quotes(other)} writes {in_quotes(write)}")
    words = " waits for ".join(in_quotes(name) for name in [*circle, circle[0]])
    start, then = known[circle[0]], circle[1 % len(circle)]
    read = of[start.name][then]
    key, place = ("after", start.after.index(then)) if read is None else ("reads", start.reads.index(read))
    return StepError(start.name, f"a cycle: {words}", *why, key=key, place=place)


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
                f"writes {in_quotes(write)}, and step {in_quotes(other.name)} writes {in_quotes(taken)}, which meet",
                "a file can have one step that writes it",
                key="writes",
                place=step.writes.index(write),
            )


@value
class Graph:
    """Steps in the order in which they run. ``below``: for each the steps that use what it makes, and why: ``after``, the
    first path of its outputs that they read, or the glob of theirs that may match one."""

    names: tuple[str, ...]
    below: Mapping[str, Mapping[str, str]]

    def descendants(self, seeds: Collection[str]) -> tuple[str, ...]:
        """The seeds and all that hangs on them, in order."""
        return self._reached(seeds, lambda name: self.below.get(name, {}))

    def ancestors(self, seeds: Collection[str]) -> tuple[str, ...]:
        """The seeds and all that they hang on, in order."""
        return self._reached(seeds, lambda name: (above for above in self.names if name in self.below.get(above, {})))

    def _reached(self, seeds: Collection[str], next_of: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
        found: set[str] = set()
        waiting = [name for name in seeds if name in self.names]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += next_of(name)
        return tuple(n for n in self.names if n in found)


def graph(steps: Sequence[Step], state: RunState, paths: Callable[[Oid], Collection[str]]) -> Graph:
    """The edges between steps: --after, what was really read of what was really written, and globs that overlap where one of
    the two has no record yet. ``paths`` gives the files of a tree."""
    below: dict[str, dict[str, str]] = {step.name: {} for step in steps}
    writers: dict[str, list[str]] = {}
    for step in steps:
        for path in _written(state.step(step.name), paths):
            writers.setdefault(path, []).append(step.name)
    for name, above in edges(steps).items():
        for other, read in above.items():
            if read is None:
                below[other].setdefault(name, "after")
            elif _newest(state.step(name)) is None or _newest(state.step(other)) is None:
                below[other].setdefault(name, read)
    for step in steps:
        read_ = _read(state.step(step.name), paths)
        for path in sorted(writers.keys() & read_) if writers else ():
            for name in writers[path]:
                if name != step.name:
                    below[name].setdefault(step.name, path)
    return Graph(names=tuple(below), below=below)


def _newest(state: StepState) -> Logged | None:
    """The record that says what a step read and wrote: its result, else its newest failure, else its beginning."""
    return state.end or state.failed or state.begun


def _written(state: StepState, paths: Callable[[Oid], Collection[str]]) -> set[str]:
    """Every path that a step's standing result made or removed."""
    if state.end is None or (writes := state.end.record.writes) is None:
        return set()
    return {*(paths(writes.tree) if writes.tree else ()), *writes.deleted}


def _read(state: StepState, paths: Callable[[Oid], Collection[str]]) -> Collection[str]:
    logged = _newest(state)
    reads = logged.record.reads if logged is not None else None
    return set(paths(reads.tree)) if reads is not None else ()


def readers(
    steps: Sequence[Step], state: RunState, paths: Callable[[Oid], Collection[str]], wanted: Sequence[str]
) -> dict[str, str]:
    """The steps that read any of the wanted paths (quoted globs: a file, or a folder with all below), each with what it
    read: a file as it is recorded, or else the glob that matches."""
    found: dict[str, str] = {}
    matches = globs.matcher(wanted)
    for step in steps:
        read = next((path for path in sorted(_read(state.step(step.name), paths)) if matches(path)), None)
        if read is None and (pair := globs.overlap(wanted, step.reads)) is not None:
            read = pair[1]
        if read is not None:
            found[step.name] = read
    return found


def touched(
    steps: Sequence[Step], state: RunState, paths: Callable[[Oid], Collection[str]], files: Collection[str]
) -> dict[str, str]:
    """Return the steps that read, or whose globs match, any of these files, each with the first one."""
    found: dict[str, str] = {}
    for step in steps if files else ():
        read, matches = _read(state.step(step.name), paths), globs.matcher(step.reads)
        first = next((path for path in sorted(files) if path in read or matches(path)), None)
        if first is not None:
            found[step.name] = first
    return found


class Schedule:
    """Steps in their order, each after those it needs. ``needs``: by name; a name that is no step here is taken as done."""

    def __init__(self, steps: Sequence[Step], needs: Mapping[str, Collection[str]]) -> None:
        names = {step.name for step in steps}
        self._todo = list(steps)
        self._needs = {step.name: frozenset(needs.get(step.name, ())) & names for step in steps}
        self.codes: dict[str, int] = {}  # by step, in the order in which they ended
        self._running: dict[str, Step] = {}

    @property
    def code(self) -> int:
        """0, or the exit status of the first step that failed; of one that waits at a gate only where none failed."""
        bad = [code for code in self.codes.values() if code]
        return next((code for code in bad if code != GATE), bad[0] if bad else 0)

    @property
    def stopped(self) -> bool:
        """Whether no further step may begin: a gate keeps only what depends on it."""
        return any(code not in (0, GATE) for code in self.codes.values())

    @property
    def left(self) -> tuple[str, ...]:
        """The steps that did not begin."""
        return tuple(step.name for step in self._todo)

    @property
    def running(self) -> int:
        """The number of steps that have begun and not ended."""
        return len(self._running)

    def begin(self) -> Step | None:
        """The next step that may begin now beside those that run; None where there is none (yet)."""
        if self.stopped:
            return None
        for place, step in enumerate(self._todo):
            ready = all(self.codes.get(name) == 0 for name in self._needs[step.name])
            if ready and not any(collide(step, other) for other in self._running.values()):
                del self._todo[place]
                self._running[step.name] = step
                return step
        return None

    def end(self, step: Step, code: int) -> None:
        """A step that began has ended with an exit status."""
        del self._running[step.name]
        self.codes[step.name] = code


def collide(one: Step, other: Step) -> bool:
    """Whether two steps must not run at the same time: what one writes, the other reads or writes."""
    return bool(
        globs.overlap(one.writes, other.writes)
        or globs.overlap(one.writes, other.reads)
        or globs.overlap(one.reads, other.writes)
    )


def carry_out(schedule: Schedule, work: Callable[[Step], int], jobs: int = 1) -> int:
    """Do the steps, at most ``jobs`` side by side (1: in this thread), and give the schedule's exit status. After the first
    that fails none begins, and those that run end. An error of ``work`` counts as a failure and is raised when they have."""
    import queue
    import threading

    done: queue.SimpleQueue[tuple[Step, int, BaseException | None]] = queue.SimpleQueue()

    def task(step: Step) -> None:
        try:
            done.put((step, work(step), None))
        except BaseException as error:
            done.put((step, -1, error))

    first: BaseException | None = None
    while True:
        while first is None and schedule.running < jobs and (step := schedule.begin()) is not None:
            if jobs == 1:
                task(step)
            else:
                threading.Thread(target=task, args=(step,), name=f"step {step.name}", daemon=True).start()
        if not schedule.running:
            break
        step, code, error = done.get()
        first = first or error
        schedule.end(step, code)
    if first is not None:
        raise first
    return schedule.code
