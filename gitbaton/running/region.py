"""What hangs on what in a run: the steps that a change reaches, and where a repair begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gitbaton.journal.state import RunState, StepState
from gitbaton.journal.values import Logged, Step
from gitbaton.model import Oid
from gitbaton.running.graph import edges
from gitbaton.values import value
from gitbaton.worktree import globs


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
        return self._reached(seeds, self.inputs)

    def inputs(self, name: str) -> tuple[str, ...]:
        """The steps whose outputs a step uses directly."""
        return tuple(n for n in self.names if name in self.below.get(n, {}))

    def widened(self, seeds: Collection[str], levels: int) -> tuple[str, ...]:
        """The seeds and the steps whose outputs they use, so many levels up, in order."""
        found = set(seeds)
        for _ in range(levels):
            found |= {above for name in found for above in self.inputs(name)}
        return tuple(n for n in self.names if n in found)

    def within(self, names: Collection[str]) -> Graph:
        """The same without the steps that are none of these."""
        kept = {name: {n: why for n, why in self.below[name].items() if n in names} for name in self.names if name in names}
        return Graph(names=tuple(kept), below=kept)

    def _reached(self, seeds: Collection[str], next_of: Callable[[str], Iterable[str]]) -> tuple[str, ...]:
        found: set[str] = set()
        waiting = [name for name in seeds if name in self.names]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += next_of(name)
        return tuple(n for n in self.names if n in found)


def graph(steps: Sequence[Step], state: RunState | None, paths: Callable[[Oid], Collection[str]]) -> Graph:
    """The edges between steps: --after, what was really read of what was really written, and globs that overlap where one of
    the two has no record yet. ``paths`` gives the files of a tree."""
    recorded = dict(state.steps) if state else {}
    below: dict[str, dict[str, str]] = {step.name: {} for step in steps}
    writers: dict[str, list[str]] = {}
    for step in steps:
        for path in _written(recorded.get(step.name), paths):
            writers.setdefault(path, []).append(step.name)
    for name, above in edges(steps).items():
        for other, read in above.items():
            if read is None:
                below[other].setdefault(name, "after")
            elif _newest(recorded.get(name)) is None or _newest(recorded.get(other)) is None:
                below[other].setdefault(name, read)
    for step in steps:
        read_ = _read(recorded.get(step.name), paths)
        for path in sorted(writers.keys() & read_) if writers else ():
            for name in writers[path]:
                if name != step.name:
                    below[name].setdefault(step.name, path)
    return Graph(names=tuple(below), below=below)


def _newest(state: StepState | None) -> Logged | None:
    """The record that says what a step read and wrote: its result, else its newest failure, else its beginning."""
    return (state.end or state.failed or state.begun) if state is not None else None


def _written(state: StepState | None, paths: Callable[[Oid], Collection[str]]) -> set[str]:
    """Every path that a step's standing result made or removed."""
    if state is None or state.end is None or (writes := state.end.record.writes) is None:
        return set()
    return {*(paths(writes.tree) if writes.tree else ()), *writes.deleted}


def _read(state: StepState | None, paths: Callable[[Oid], Collection[str]]) -> Collection[str]:
    logged = _newest(state)
    reads = logged.record.reads if logged is not None else None
    return set(paths(reads.tree)) if reads is not None else ()


def readers(
    steps: Sequence[Step], state: RunState | None, paths: Callable[[Oid], Collection[str]], wanted: Sequence[str]
) -> dict[str, str]:
    """The steps that read any of the wanted paths (quoted globs: a file, or a folder with all below), each with what it
    read: a file as it is recorded, or else the glob that matches."""
    found: dict[str, str] = {}
    matches = globs.matcher(wanted)
    recorded = dict(state.steps) if state else {}
    for step in steps:
        read = next((path for path in sorted(_read(recorded.get(step.name), paths)) if matches(path)), None)
        if read is None and (pair := globs.overlap(wanted, step.reads)) is not None:
            read = pair[1]
        if read is not None:
            found[step.name] = read
    return found


def touched(
    steps: Sequence[Step], state: RunState | None, paths: Callable[[Oid], Collection[str]], files: Collection[str]
) -> dict[str, str]:
    """The steps that read, or whose globs match, any of these files, each with the first one."""
    found: dict[str, str] = {}
    recorded = dict(state.steps) if state else {}
    for step in steps if files else ():
        read, matches = _read(recorded.get(step.name), paths), globs.matcher(step.reads)
        first = next((path for path in sorted(files) if path in read or matches(path)), None)
        if first is not None:
            found[step.name] = first
    return found
