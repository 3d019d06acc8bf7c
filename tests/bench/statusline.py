"""The bench of the status line beside a start of Python, by wall and by processor time."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench.baton import SNAPSHOT, make
from tests.bench.harness import Row, once, pair

PASS = (sys.executable, "-c", "pass")
LINE = ("git-baton", "statusline")


def spent(command: Sequence[str], cwd: Path, env: dict[str, str], stdin: Path, before: Callable[[], None]) -> float:
    """Milliseconds of the processor that one run took, with all its children."""
    before()
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    once(command, cwd, env, stdin)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime)


def main(folder: Path, env: dict[str, str], runs: int, size: int = 10_000) -> tuple[list[Row], list[str]]:
    """A row for each state, and a line with the processor times of as many runs."""
    path = make(folder / f"statusline{size}", size, env)
    subprocess.run(SNAPSHOT, cwd=path, env=env, check=True, capture_output=True)
    payload, kept = folder / "statusline.json", path / ".git/baton/statusline"
    window = {"used_percentage": 90, "context_window_size": 200_000}
    payload.write_text(json.dumps({"workspace": {"current_dir": os.fspath(path)}, "context_window": window}))
    states: tuple[tuple[str, Path, Callable[[], None]], ...] = (
        (f"statusline, {size:,} files", path, lambda: None),
        (f"statusline, {size:,} files, anew", path, lambda: kept.unlink(missing_ok=True)),
        ("statusline, no repository", folder, lambda: None),
    )
    rows, said = list[Row](), list[str]()
    for title, place, before in states:
        stdin = payload if place is path else Path(os.devnull)
        budget = 3.0 if "anew" not in title else None
        rows.append(pair(title, LINE, PASS, place, env, runs=runs, budget=budget, before=before, stdin=stdin))
        times = [[spent(command, place, env, stdin, before) for command in (LINE, PASS)] for _ in range(runs)]
        ours, theirs = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(a / b for a, b in times)
        said.append(f"{title}: {ours:.1f} ms of the processor, `python -c pass` {theirs:.1f} ms, ratio {ratio:.2f}")
    return rows, said
