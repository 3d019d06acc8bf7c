"""Plans of tests, carried out in this process: the repository, the run, and which commands really ran."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from gitbaton.checkpoints.baton import Baton
from gitbaton.runs import plans
from gitbaton.runs.context import Event, Outcome
from gitbaton.runs.engine import Engine, Repair, RepairRequest
from gitbaton.runs.journal.chain import Journal
from gitbaton.runs.journal.values import Logged, Plan, Step
from tests.kit.repos import Sandbox


def toml(steps: Mapping[str, Mapping[str, Any]], **top: Any) -> str:
    """A plan file: a table for each step."""
    rows = [f"{key.replace('_', '-')} = {json.dumps(item)}" for key, item in top.items()]
    for name, fields in steps.items():
        rows += [f"\n[step.{json.dumps(name)}]"]
        rows += [f"{key.replace('_', '-')} = {json.dumps(item)}" for key, item in fields.items()]
    return "\n".join(rows) + "\n"


class Planned:
    """A sandbox with one run. ``steps`` is the plan, by name, with the keys of a plan file; ``events`` are those of the last
    call; ``top`` stands before the tables."""

    def __init__(self, box: Sandbox, steps: Mapping[str, Mapping[str, Any]] | None = None, run: str = "r1") -> None:
        self.box, self.run = box, run
        self.steps: dict[str, dict[str, Any]] = {name: dict(fields) for name, fields in (steps or {}).items()}
        self.top: dict[str, Any] = {}
        self.events: list[Event] = []
        self.slept: list[float] = []
        self.baton = Baton(box.path)
        self.journal = Journal(self.baton.repo, author=b"A <a@b>", clock=self.baton.clock)

    def __enter__(self) -> Planned:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.baton.close()

    @property
    def plan(self) -> Plan:
        """The plan as its file says it now."""
        place = self.box.path.parent / "baton.toml"
        place.write_text(toml(self.steps, **self.top))
        return plans.read(os.fspath(place), os.fspath(self.box.path))

    def engine(self) -> Engine:
        """The engine; what happens is in ``events``."""
        self.events.clear()
        return Engine(self.baton, self.journal, watch=self.events.append, sleep=self.slept.append, show=False)

    def go(self, **options: Any) -> Outcome:
        """Bring the plan to its end."""
        return self.engine().run_plan(self.plan, self.run, **options)

    def single(self, name: str, line: str, **fields: Any) -> Outcome:
        """One step of a command line."""
        guards = {key: fields.pop(key) for key in ("max_runs", "max_wall", "take") if key in fields}
        step = plans.checked(Step(name=name, argv=("sh", "-c", line), **fields))
        return self.engine().run_step(step, self.run, **guards)

    def repair(self, *steps: str, take: Any = None, **order: Any) -> tuple[Repair, Outcome]:
        """Repair steps by name, or what the order says."""
        return self.engine().repair(RepairRequest(steps=steps, **order), self.run, take=take)

    def resume(self, **options: Any) -> Outcome:
        """Go on with the run."""
        return self.engine().resume(self.run, **options)

    def look(self) -> dict[str, Any]:
        """What is known of each step, by name."""
        with Baton(self.box.path) as other:
            journal = Journal(other.repo, author=b"A <a@b>", clock=other.clock)
            return {line.step: line for line in Engine(other, journal).look(self.run).lines}

    def ran(self) -> list[str]:
        """The steps whose commands ran in the last call, in their order, once for each attempt."""
        return [event.step for event in self.events if event.kind == "attempt"]

    def undone(self) -> list[str]:
        """The steps whose effects were compensated in the last call, in their order."""
        return [event.step for event in self.events if event.kind == "compensated"]

    def records(self, *types: str) -> list[Logged]:
        """The records of the run, of these types."""
        return [logged for logged in self.journal.records(self.run) if not types or logged.record.type in types]
