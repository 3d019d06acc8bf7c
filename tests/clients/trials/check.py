"""Check the judges: ``python -m tests.clients.trials.check OUT``, where OUT is laid out and untouched.

A full solution has every fact; the half-done work has no hidden one, and a solution that lacks a file lacks a fact."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.clients.trials.stage import STALE, Task, acted_upon, judged, sealed
from tests.clients.trials.tasks import TASKS


def solve(task: Task, work: Path, *left_out: str) -> None:
    """Put the solution in place, but for some files."""
    for name, text in task.solution.items():
        if name in left_out:
            continue
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink() if text is None else path.write_text(text)


def check(out: Path) -> None:
    """Each task's judge."""
    with tempfile.TemporaryDirectory() as name, sealed(Path(name) / "sealed"):
        for task in TASKS.values():
            assert len(task.facts) == 12 and set(task.hidden) <= set(task.facts)
            half = next(out.glob(f"{task.name}-*-1")) / "work"  # they are all the same
            before = judged(task, half, Path(name) / "half")
            assert not any(before[fact] for fact in task.hidden), before
            for left_out in ("", *task.solution):
                work = Path(name) / f"{task.name}-{left_out.replace('/', '-')}"
                shutil.copytree(half, work)
                solve(task, work, left_out)
                facts = judged(task, work, Path(name) / "whole")
                enough = left_out in ("", "tests/test_spans.py")  # the half-done work has that test already
                assert all(facts.values()) == enough, (left_out, facts)
            assert not acted_upon(half) and not acted_upon(Path(name) / f"{task.name}-"), task.name
            for number, one in enumerate(STALE, 1):
                (work / one).write_text("")
                assert len(acted_upon(work)) == number, one
            print(f"{task.name}: half-done {sum(before.values())} of 12, solved 12 of 12")


if __name__ == "__main__":
    check(Path(sys.argv[1]))
