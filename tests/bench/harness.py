"""Interleaved timing of whole processes, and the table of medians and ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

Command = Sequence[str]
OLDER = os.environ.get("GITBATON_BENCH_OLDER")  # the folder with another version's git-baton, to be timed in the same run


@dataclass(frozen=True)
class Row:
    """One line of the table; times in milliseconds."""

    work: str
    yardstick: str
    ours: float
    theirs: float
    ratio: float
    low: float
    high: float
    budget: float | None
    slow: float  # the 95th percentile of ours
    older: float | None = None  # of the package beside, and ours to it
    against: float | None = None

    def verdict(self) -> str:
        return "" if self.budget is None else f"{self.budget:g}x {'ok' if self.ratio <= self.budget else 'MISSED'}"


def environment(home: Path) -> dict[str, str]:
    """A sealed environment with the console script of this interpreter first on PATH."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": ""}
    env["PATH"] = os.path.dirname(sys.executable) + os.pathsep + env["PATH"]
    env.pop("PYTHONDONTWRITEBYTECODE")
    return env


def once(command: Command, cwd: Path, env: dict[str, str], stdin: Path | None = None) -> float:
    """Milliseconds of one run of a command that must succeed; ``stdin`` is a file."""
    with open(stdin or os.devnull, "rb") as source:
        start = time.perf_counter()
        done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=source)
        spent = (time.perf_counter() - start) * 1000
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.decode()}")
    return spent


def pair(
    work: str,
    ours: Command,
    theirs: Command,
    cwd: Path,
    env: dict[str, str],
    *,
    runs: int,
    budget: float | None = None,
    before: Callable[[], None] = lambda: None,
    their_cwd: Path | None = None,
    yardstick: str | None = None,
    stdin: Path | None = None,
) -> Row:
    """Run both in turn, and with GITBATON_BENCH_OLDER ours of that folder, too; ``before`` (not timed) ahead of each. The
    medians, and the medians of the pairwise ratios."""
    a, b, c = [], [], []
    for count in range(runs + 1):
        before()
        x = once(ours, cwd, env, stdin)
        before()
        y = once(theirs, their_cwd or cwd, env)
        if OLDER is not None:
            before()
            z = once(ours, cwd, {**env, "PATH": OLDER + os.pathsep + env["PATH"]}, stdin)
            before()  # which may take turns
        if count:  # the first pair warms up
            a.append(x)
            b.append(y)
            if OLDER is not None:
                c.append(z)
    ratios = sorted(x / y for x, y in zip(a, b, strict=True))
    median = statistics.median
    name = yardstick or " ".join(theirs)
    slow = sorted(a)[min(len(a) - 1, round(0.95 * (len(a) - 1)))]
    row = Row(work, name, median(a), median(b), median(ratios), ratios[0], ratios[-1], budget, slow)
    return replace(row, older=median(c), against=median(x / z for x, z in zip(a, c, strict=True))) if c else row


def show(rows: Sequence[Row]) -> None:
    """The table, as Markdown."""
    more = " older ms | to older |" if OLDER is not None else ""
    print(f"| work | yardstick | ours ms | p95 ms | yardstick ms | ratio (min-max) | budget |{more}")
    print(f"|---|---|---:|---:|---:|---|---|{'---:|---:|' if more else ''}")
    for r in rows:
        ratio = f"{r.theirs:.1f} | {r.ratio:.2f} ({r.low:.2f}-{r.high:.2f})"
        older = f" {r.older:.1f} | {r.against:.2f} |" if r.older is not None else " | |" if more else ""
        print(f"| {r.work} | `{r.yardstick}` | {r.ours:.1f} | {r.slow:.1f} | {ratio} | {r.verdict()} |{older}")
