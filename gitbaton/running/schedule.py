"""Which step goes when: in order, one after the other or several side by side, never two that touch the same files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from gitbaton.journal.values import Step
from gitbaton.running.results import GATE
from gitbaton.worktree import globs


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
        """How many have begun and not ended."""
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
    if jobs > 1:
        return _threads(schedule, work, jobs)
    while (step := schedule.begin()) is not None:
        schedule.end(step, work(step))
    return schedule.code


def _threads(schedule: Schedule, work: Callable[[Step], int], jobs: int) -> int:
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
            threading.Thread(target=task, args=(step,), name=f"step {step.name}", daemon=True).start()
        if not schedule.running:
            break
        step, code, error = done.get()
        first = first or error
        schedule.end(step, code)
    if first is not None:
        raise first
    return schedule.code
