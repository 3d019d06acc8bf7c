"""What ends a loop: too many runs of a step, too long a time, the same failure again and again, the same files again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from gitbaton.errors import RunError
from gitbaton.journal.values import Logged, Plan
from gitbaton.model import Oid
from gitbaton.running.results import GUARD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.running.context import Context

SAME = 3  # so often the same key, exit status and error output are no progress


class Guards:
    """The guards of one run or repair; ``clock`` gives seconds that only go forward. Every refusal is a RunError 79 that names
    the step and the guard. ``before``: how often each step was started, in a row and without a result, until now."""

    def __init__(
        self, *, max_runs: int, max_wall: float, clock: Callable[[], float], before: Mapping[str, int] | None = None
    ) -> None:
        self._max_runs, self._max_wall, self._clock = max_runs, max_wall, clock
        self._began = clock()
        self._runs = dict(before or {})
        self._failures: dict[tuple[str, str | None, int | None, Oid | None], int] = {}
        self._seen: list[Mapping[str, Oid | None]] = []

    @classmethod
    def of(cls, ctx: Context, plan: Plan, clock: Callable[[], float]) -> Guards:
        """The guards of a plan, in a run as it is now."""
        return cls(max_runs=plan.max_runs, max_wall=plan.max_wall, clock=clock, before=fruitless(ctx.logged()))

    def before(self, step: str) -> None:
        """A step is about to be started. Raises RunError."""
        self._runs[step] = runs = self._runs.get(step, 0) + 1
        if runs > self._max_runs:
            times = "once" if self._max_runs == 1 else f"{self._max_runs} times"
            raise _ended(step, "max-runs", f"it was started {times} without a result", "a larger --max-runs lets it go on")
        passed = self._clock() - self._began
        if passed >= self._max_wall:
            raise _ended(step, "max-wall", f"{passed:.0f} s have passed", "a larger --max-wall lets it go on")

    def failed(self, step: str, key: str | None, code: int | None, stderr: Oid | None) -> None:
        """A step failed for good, after its retries. Raises RunError when it did so SAME times in the very same way."""
        mark = (step, key, code, stderr)
        self._failures[mark] = times = self._failures.get(mark, 0) + 1
        if times >= SAME:
            raise _ended(step, "no-progress", f"{times} times the same inputs, exit status {code} and error output")

    def outputs(self, step: str, trees: Mapping[str, Oid | None]) -> None:
        """What the steps' outputs are after one of them ran. Raises RunError when they changed back to what they were
        earlier."""
        now = dict(trees)
        if self._seen and self._seen[-1] == now:
            return
        if now in self._seen:
            raise _ended(step, "oscillation", "the outputs are again what they were before in this repair")
        self._seen.append(now)


def fruitless(records: Iterable[Logged]) -> dict[str, int]:
    """How often each step of a run was started, in a row and without a result, until now."""
    found: dict[str, int] = {}
    for record in (logged.record for logged in records):
        if record.step is not None and record.type == "begin":
            found[record.step] = found.get(record.step, 0) + 1
        elif record.step is not None and record.type in ("end", "settle"):
            found.pop(record.step, None)
    return found


def _ended(step: str, guard: str, why: str, *hints: str) -> RunError:
    return RunError(f"step '{step}' is stopped by the guard '{guard}': {why}", *hints, code=GUARD)
