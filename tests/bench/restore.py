"""Restore beside what a user would type for it in plain git, which stores nothing untracked and can take nothing back."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.bench.baton import editor, make
from tests.bench.harness import Row, pair

RESTORE = ("git-baton", "restore", "bench")
RESET = ("sh", "-c", "git stash create >/dev/null && git reset -q --hard")
READ_TREE = ("sh", "-c", "git read-tree -m -u HEAD bench-other")
BUDGETS = {(10_000, 10): 2.0, (10_000, 1000): 1.2}


def main(folder: Path, sizes: list[int], env: dict[str, str], runs: int) -> list[Row]:
    """10, 1,000 and 10,000 changed files of each size that has so many."""
    rows = []
    for size in (s for s in sizes if s >= 10_000):
        path = make(folder / f"r{size}", size, env)
        for count in (10, 1000, 10_000):
            rows += changed(path, size, count, env, runs if count < 10_000 else max(runs // 2, 3))
    return rows


def changed(path: Path, size: int, count: int, env: dict[str, str], runs: int) -> list[Row]:
    """Bring ``count`` files back, edited anew before each run."""

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)

    git("reset", "-q", "--hard")
    edit = editor(path, count, size)
    snapshot = ("git-baton", "snapshot", "--track", "bench", "--step", "before")
    subprocess.run(snapshot, cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)
    work = f"restore {count:,} of {size:,}"
    budget = BUDGETS.get((size, count))
    rows = [
        pair(work, RESTORE, RESET, path, env, runs=runs, budget=budget, before=edit, yardstick="stash create + reset --hard")
    ]
    git("reset", "-q", "--hard")
    edit()
    git("commit", "-q", "-a", "-m", "other")
    git("branch", "-f", "bench-other")
    git("reset", "-q", "--hard", "HEAD~1")
    both = iter(range(1 << 30))

    def before() -> None:
        """Edited for ours; clean, at HEAD, for theirs."""
        if next(both) % 2 == 0:
            edit()
        else:
            git("reset", "-q", "--hard")

    rows.append(pair(work, RESTORE, READ_TREE, path, env, runs=runs, before=before, yardstick="read-tree -m -u"))
    git("reset", "-q", "--hard")
    return rows
