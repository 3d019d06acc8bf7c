"""The bench of what looks back over many checkpoints: blame, log, page and completion, beside git over as many commits."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from gitbaton import Baton
from tests.bench.baton import make
from tests.bench.harness import Row, pair
from tests.kit.manytracks import many_tracks

LINES = 10_000


def commit(path: Path, env: dict[str, str], message: str) -> None:
    """All that is in the work tree as a commit."""
    for words in (("add", "-A"), ("commit", "-q", "-m", message)):
        subprocess.run(["git", *words], cwd=path, env=env, check=True)


def edited(folder: Path, env: dict[str, str], count: int, tracks: int) -> tuple[Path, Path]:
    """One file of 10,000 lines and ``count`` edits of it: as checkpoints of tracks in turn, and in a repository as commits."""
    both = folder / f"blame{count}-{tracks}", folder / f"blame{count}-commits"
    for path in both:
        have = path.exists()
        make(path, 100, env)
        if have:
            continue
        rng = random.Random(count)
        lines = [f"line {n} {rng.random()}" for n in range(LINES)]
        (path / "long.txt").write_text("".join(f"{line}\n" for line in lines))
        commit(path, env, "long")
        with Baton(path) as baton:
            for number in range(count):
                for _ in range(3):
                    lines[rng.randrange(len(lines))] = f"edit {number} {rng.random()}"
                at = rng.randrange(len(lines))
                lines[at : at + rng.randrange(3)] = [f"new {number} {rng.random()}"]
                (path / "long.txt").write_text("".join(f"{line}\n" for line in lines))
                if path is both[0]:
                    baton.snapshot(f"step {number}", track=f"t{number % tracks}")
                else:
                    commit(path, env, f"step {number}")
        subprocess.run(["git", "gc", "-q"], cwd=path, env=env, check=True)
    return both


def blames(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """A row for one track and one for two in turn."""
    rows = []
    for tracks in (1, 2):
        ours, theirs = edited(folder, env, 1_000, tracks)
        words = ("git-baton", "blame", "long.txt"), ("git", "blame", "--porcelain", "long.txt")
        title = f"blame, 10,000 lines, 1,000 checkpoints of {tracks}"
        rows.append(pair(title, *words, ours, env, runs=runs, budget=5.0, their_cwd=theirs, yardstick="git blame, as commits"))
    return rows


def many(folder: Path, env: dict[str, str], runs: int) -> tuple[list[Row], list[str]]:
    """10,000 checkpoints of 20 tracks beside git's log of their commits; and what a shell's completion costs there."""
    path = folder / "look10000"
    if not path.exists():
        make(path, 100, env)
        many_tracks(path, 20, depth=500, env=env)
    walk = ("git", "log", "--first-parent", "--glob=refs/baton/tracks")
    log, page = ("git-baton", "log", "--all", "-n", "10000"), ("git-baton", "page", "-o", str(folder / "page.html"))
    passing = (sys.executable, "-c", "pass")
    rows = [
        pair("log, 10,000 checkpoints", log, walk, path, env, runs=runs, yardstick="git log"),
        pair(
            "log --grep",
            (*log, "--grep=agent 7$"),
            (*walk, "--grep=agent 7$"),
            path,
            env,
            runs=runs,
            yardstick="git log --grep",
        ),
        pair("search", ("git-baton", "search", "agent", "step"), walk, path, env, runs=runs, yardstick="git log"),
        pair("page, 10,000 checkpoints", page, walk, path, env, runs=runs, yardstick="git log"),
    ]
    for words in (("sna",), ("resume", "--track", "")):
        title = f"complete {' '.join(words)}..."
        rows.append(
            pair(title, ("git-baton", "complete", "--", *words), passing, path, env, runs=runs, yardstick="python -c pass")
        )
    return rows, [f"page, 10,000 checkpoints: {(folder / 'page.html').stat().st_size / 1e6:.1f} MB"]


def main(folder: Path, env: dict[str, str], runs: int) -> tuple[list[Row], list[str]]:
    """All rows."""
    rows, lines = many(folder, env, runs)
    return blames(folder, env, runs) + rows, lines
