"""The bench of many tracks: the everyday commands with thousands beside the same with five."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.bench.baton import make
from tests.bench.harness import Row, pair
from tests.bench.sync import fresh, git
from tests.kit.manytracks import many_tracks, track

FEW = 5
REFSPECS = ("refs/baton/tracks/*:refs/baton/tracks/*", "refs/baton/tracks/*:refs/baton/remotes/origin/tracks/*")


def prepared(folder: Path, env: dict[str, str], count: int) -> Path:
    """A repository with so many tracks, all of which its remote has; both as git's garbage collection leaves them."""
    path, remote = folder / f"tracks{count}", folder / f"tracks{count}.git"
    if not path.exists():
        make(path, 100, env)
        many_tracks(path, count, env=env)
        fresh(remote, env)
        git(path, env, "remote", "add", "origin", str(remote))
        git(path, env, "config", "baton.push", "true")
        git(path, env, "push", "-q", "origin", "HEAD", REFSPECS[0])
        git(path, env, "fetch", "-q", "origin", REFSPECS[1])
        for place in (path, remote):
            git(place, env, "gc", "-q")
    return path


def main(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """A row a command."""
    many, few = prepared(folder, env, count), prepared(folder, env, FEW)

    def changed() -> None:
        for path in (many, few):
            words = ("git-baton", "snapshot", "--track", track(3), "--step", f"s{time.time_ns()}")
            subprocess.run(words, cwd=path, env=env, check=True, stdout=subprocess.DEVNULL)

    works: tuple[tuple[tuple[str, ...], float | None], ...] = (
        (("snapshot", "--track", track(3), "--step", "s"), 1.3),
        (("resume", "--track", track(3)), 1.3),
        (("log", "--all", "-n", "5"), None),
        (("push", "origin"), 2.0),
    )
    rows = []
    for words, budget in works:
        name, command = f"{words[0]}, {count:,} tracks", ("git-baton", *words)
        before = changed if words[0] == "push" else lambda: None
        rows.append(
            pair(
                name,
                command,
                command,
                many,
                env,
                runs=runs,
                budget=budget,
                before=before,
                their_cwd=few,
                yardstick=f"{FEW} tracks",
            )
        )
    return rows
