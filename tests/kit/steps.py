"""Steps carried out in this process: a repository, a run, and what its watcher was told."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from gitbaton import Baton
from gitbaton.base.secrets import Redactor
from gitbaton.base.values import replace
from gitbaton.runs.attempt import perform
from gitbaton.runs.claims import Claims
from gitbaton.runs.context import Context, Done, Event
from gitbaton.runs.engine import Engine
from gitbaton.runs.journal.chain import Journal
from gitbaton.runs.journal.state import StepState
from gitbaton.runs.journal.upkeep import verify
from gitbaton.runs.journal.values import Cause, Logged, Plan, Step
from tests.kit.processes import in_child
from tests.kit.repos import Sandbox, integer_clock


def sh(name: str, line: str, **fields: Any) -> Step:
    """A step that runs a shell line; globs and other lists may be given as one text."""
    lists = {k: (v,) if isinstance(v, str) else tuple(v) for k, v in fields.items() if k in ("reads", "writes", "after", "env")}
    return Step(name=name, argv=("sh", "-c", line), **{"isolate": "none", **fields, **lists})


class Runner:
    """One run of a repository, worked on in this process. ``outside``: a folder beside the repository, $X for commands."""

    def __init__(self, repo: Sandbox, run: str = "r1", *, clock: Callable[[], datetime] | None = None) -> None:
        self.repo, self.run, self.clock = repo, run, clock or integer_clock()
        self.outside = repo.path.parent / "outside"
        self.outside.mkdir(exist_ok=True)
        os.environ["X"] = os.fspath(self.outside)
        self.events: list[Event] = []
        self.slept: list[float] = []
        self.steps: dict[str, Step] = {}
        self.redactor: Redactor | None = None

    @contextmanager
    def open(self, run: str | None = None, **options: Any) -> Iterator[Context]:
        """A context of its own, as a process has one."""
        with Baton(self.repo.path, clock=self.clock) as baton:
            journal = self._journal(baton)
            ctx = Context(
                baton,
                journal,
                Claims(baton.repo),
                run or self.run,
                watch=self.events.append,
                clock=self.clock,
                sleep=self.slept.append,
                random=lambda: 0.5,
                **{"show": False, **options},
            )
            with ctx:
                yield ctx

    def _journal(self, baton: Baton) -> Journal:
        return Journal(baton.repo, author=b"A U Thor <author@example.com>", redactor=self.redactor, clock=self.clock)

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """An engine of its own."""
        with Baton(self.repo.path, clock=self.clock) as baton:
            yield Engine(baton, self._journal(baton), watch=self.events.append, sleep=self.slept.append, show=False)

    def go(self, *steps: Step, run: str | None = None, force: Cause | None = None, **options: Any) -> Done:
        """Carry out steps in order; what became of the last one that was begun."""
        self.steps |= {step.name: step for step in steps}
        plan = Plan(steps=tuple(self.steps.values()))
        with self.open(run, **options) as ctx:
            for step in steps:
                done = perform(ctx, step, plan, force=force)
                if not done.good:
                    break
        return done

    def killed(self, point: str, *steps: Step, **options: Any) -> bool:
        """Carry out steps in a process that is killed at a point; whether it was."""

        def dies() -> None:
            os.environ["GIT_BATON_CRASH_AT"] = point
            self.go(*steps, **options)

        self.steps |= {step.name: step for step in steps}
        status = in_child(dies)
        assert status in (0, -signal.SIGKILL), status
        return status == -signal.SIGKILL

    def records(self, run: str | None = None) -> tuple[Logged, ...]:
        """The records of the run."""
        with self.open(run) as ctx:
            return ctx.logged()

    def types(self, step: str | None = None) -> list[str]:
        """The types of its records, in order."""
        return [lg.record.type for lg in self.records() if step is None or lg.record.step == step]

    def state(self, step: str) -> StepState:
        """What the journal says of a step."""
        with self.open() as ctx:
            return ctx.step_state(step)

    def checked(self, run: str | None = None) -> None:
        """The journal must hold what it says."""
        with self.open(run) as ctx:
            assert verify(ctx.journal, ctx.run).problems == ()

    def files(self, tree: str) -> dict[str, str]:
        """The text of each file of a stored tree."""
        return {path: self.repo.git("cat-file", "blob", f"{tree}:{path}") for path in self.repo.tree(tree)}

    def told(self, kind: str) -> list[Event]:
        """The events of a kind."""
        return [event for event in self.events if event.kind == kind]

    def lines(self, name: str) -> list[str]:
        """The lines of a file outside the repository; none where it is not there."""
        path = self.outside / name
        return path.read_text().splitlines() if path.exists() else []

    def read(self, name: str) -> str:
        """A file of the work tree."""
        return (self.repo.path / name).read_text()

    def there(self, name: str) -> bool:
        """Whether a file of the work tree is there."""
        return os.path.lexists(self.repo.path / name)


def counted(line: str) -> str:
    """A shell line that also notes outside, in ``ran``, that it was executed."""
    return f'echo "$GIT_BATON_STEP" >> "$X/ran"; {line}'


def changed(step: Step, **fields: Any) -> Step:
    """The step with some fields changed."""
    return replace(step, **fields)


def listing(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes, but git's own."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = os.fspath(path.relative_to(folder))
        if path.is_file() and not name.startswith(".git/"):
            found[name] = path.read_bytes()
    return found
