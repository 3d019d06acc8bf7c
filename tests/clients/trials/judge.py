"""Judge the cold-start trials: ``python -m tests.clients.trials.judge OUT`` prints the facts of 12, by folder and condition."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.clients.trials.stage import CONDITIONS, RUNS, STALE, acted_upon, judged, sealed
from tests.clients.trials.tasks import TASKS


def judge(out: Path) -> None:
    """The table."""
    points: dict[tuple[str, str], list[int]] = {}
    upon: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as name, sealed(Path(name) / "sealed"):
        for task in TASKS.values():
            for condition in CONDITIONS:
                for run in RUNS:
                    work = out / f"{task.name}-{condition}-{run}" / "work"
                    if not work.is_dir():
                        continue
                    facts = judged(task, work, Path(name) / f"{task.name}-{condition}-{run}")
                    lacking = [
                        fact + (" (hidden)" if fact in task.hidden else "") for fact, found in facts.items() if not found
                    ]
                    points.setdefault((task.name, condition), []).append(sum(facts.values()))
                    if condition == "stale-facts":
                        upon[work.parent.name] = acted_upon(work)
                    print(f"{work.parent.name:28} {sum(facts.values()):2} of {len(facts)}  lacks: {'; '.join(lacking) or '-'}")
    print(f"\n| told at the start | {' | '.join(TASKS)} | mean |\n|---|{'---|' * len(TASKS)}---|")
    for condition in CONDITIONS:
        runs = [points.get((name, condition), []) for name in TASKS]
        every = [number for some in runs for number in some]
        cells = [", ".join(map(str, some)) for some in runs]
        print(f"| {condition} | {' | '.join(cells)} | {sum(every) / len(every) if every else 0:.1f} |")
    print(f"\nstale facts acted upon, of {len(STALE)}:")
    for name, found in upon.items():
        print(f"{name:28} {len(found)}", *(f"{one} ({STALE[one]})" for one in found))


if __name__ == "__main__":
    judge(Path(sys.argv[1]))
