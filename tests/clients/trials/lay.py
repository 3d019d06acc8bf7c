"""Lay out the cold-start trials: ``python -m tests.clients.trials.lay OUT [CONDITION...]``."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from tests.clients.trials.stage import CONDITIONS, RUNS, code_before, contents, played, sealed, stripped
from tests.clients.trials.tasks import TASKS
from tests.kit import Sandbox

PROMPT = """You are continuing work in the git repository at {place}.
{told}The user says: continue.
Work only in that folder, do not look outside of it, do not run git baton. When you believe the work is finished, stop and \
answer in two sentences.
"""
TOLD = """When your session began, you were told what stands between the two marks:
----- begin -----
{text}
----- end -----
"""


def lay(out: Path, conditions: Sequence[str] = CONDITIONS) -> list[Path]:
    """Every folder: a repository to work in and what the worker is given. All of one task are the same but for what is told."""
    folders = []
    with tempfile.TemporaryDirectory() as name, sealed(Path(name) / "sealed"):
        place, now = Path(name), datetime.now(UTC)
        old = code_before(place / "old")
        for task in TASKS.values():
            seen = []
            for condition in conditions:
                repo, text = played(task, condition, place / condition / task.name, old, now)
                for run in RUNS:
                    folder = (out / f"{task.name}-{condition}-{run}").resolve()
                    folder.mkdir(parents=True)
                    stripped(repo, folder / "work")
                    told = TOLD.format(text=text) if text else ""
                    (folder / "prompt.txt").write_text(PROMPT.format(place=folder / "work", told=told))
                    folders.append(folder)
                    work = Sandbox(folder / "work")
                    seen.append((work.head(), contents(work.path)))
            assert all(one == seen[0] for one in seen), f"{task.name}: the conditions differ"
    return folders


if __name__ == "__main__":
    for made in lay(Path(sys.argv[1]), sys.argv[2:] or CONDITIONS):
        print(made)
