"""The bench of part 5: first push and fetch of a long track, and of ten checkpoints more, beside plain git moving the same."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from gitbaton import Baton
from tests.bench.baton import make
from tests.bench.harness import Row, pair

FILES = 1_000
MORE = 10
CHAIN = "refs/baton/tracks/bench"


def git(cwd: Path, env: dict[str, str], *words: str) -> str:
    """The output of a git command that must succeed."""
    return subprocess.run(["git", *words], cwd=cwd, env=env, check=True, capture_output=True, text=True).stdout.strip()


def fresh(path: Path, env: dict[str, str]) -> None:
    """An empty bare repository in the place of what was there."""
    shutil.rmtree(path, ignore_errors=True)
    subprocess.run(["git", "init", "-q", "--bare", str(path)], env=env, check=True)


def prepared(folder: Path, env: dict[str, str], count: int) -> tuple[Path, str]:
    """A repository with one track of ``count`` checkpoints, one changed file each, and ten more; the commit before these."""
    path = make(folder / f"sync{count}", FILES, env)
    with Baton(path) as baton:
        have = len(baton.store.history("bench").items) if baton.store.chains()[0] else 0
        for number in range(have, count + MORE):
            (path / "changing.txt").write_text(f"{number}\n" * 50)
            baton.snapshot(f"step {number}", track="bench", note=f"note {number}", next_cmd="pytest", validation="green")
    subprocess.run(["git", "repack", "-q", "-a", "-d"], cwd=path, env=env, check=True)
    return path, git(path, env, "rev-parse", f"{CHAIN}~{MORE}")


def remotes(path: Path, folder: Path, env: dict[str, str]) -> tuple[Path, Path]:
    """Two remotes that hold the user's branch, one for us and one for plain git."""
    both = folder / "ours.git", folder / "theirs.git"
    for name, place in zip(("ours", "theirs"), both, strict=True):
        fresh(place, env)
        subprocess.run(["git", "remote", "remove", name], cwd=path, env=env, capture_output=True)
        git(path, env, "remote", "add", name, str(place))
        git(path, env, "push", "-q", name, "HEAD:refs/heads/main")
    return both


def pushes(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """Pushing all of a track to a remote that has none of it, with and without the look for secrets; then ten more."""
    path, before_more = prepared(folder, env, count)
    ours, theirs = remotes(path, folder, env)

    def back(old: str | None) -> None:
        for place in (ours, theirs):
            for ref in git(place, env, "for-each-ref", "--format=%(refname)", "refs/baton", "refs/notes").splitlines():
                if old is None or ref != CHAIN:
                    git(place, env, "update-ref", "-d", ref)
            if old is not None:
                git(place, env, "update-ref", CHAIN, old)

    def reset(old: str | None) -> None:
        if old is None:
            remotes(path, folder, env)
        else:
            back(old)

    plain = ("git", "push", "-q", "theirs", f"{CHAIN}:{CHAIN}")
    rows = []
    for name, old, words in (
        ("first push", None, ()),
        ("first push, --no-scan", None, ("--no-scan",)),
        (f"push of {MORE} more", before_more, ()),
    ):
        if old is not None:
            git(path, env, "push", "-q", "ours", f"{CHAIN}:{CHAIN}")
            git(path, env, "push", "-q", "theirs", f"{CHAIN}:{CHAIN}")
        command = ("git-baton", "push", "ours", "--yes", *words)
        title = f"{name}, {count:,} checkpoints"
        rows.append(
            pair(title, command, plain, path, env, runs=runs, before=lambda old=old: reset(old), yardstick="git push")  # type: ignore[misc]
        )
    return rows


def fetches(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """Fetching all of a track into a clone that has none of it, then ten checkpoints more; and with the join."""
    path, before_more = prepared(folder, env, count)
    place = folder / "served.git"
    fresh(place, env)
    git(path, env, "push", "-q", str(place), "HEAD:refs/heads/main", f"{CHAIN}:{CHAIN}")
    clone, old = folder / "clone", folder / "old"
    for kept, have in ((clone, None), (old, before_more)):
        shutil.rmtree(kept, ignore_errors=True)
        subprocess.run(["git", "clone", "-q", "-b", "main", str(place), str(kept)], env=env, check=True)
        if have:
            git(place, env, "update-ref", CHAIN, have)
            subprocess.run(["git-baton", "sync", "--yes", "origin"], cwd=kept, env=env, check=True, capture_output=True)
            git(kept, env, "repack", "-q", "-a", "-d")
            git(place, env, "update-ref", CHAIN, git(path, env, "rev-parse", CHAIN))
    work = folder / "work"

    def again(source: Path) -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(source, work, symlinks=True)

    plain = ("git", "fetch", "-q", "origin", f"+{CHAIN}:refs/plain/bench")
    rows = []
    for name, source, verb in (
        ("first fetch", clone, ("fetch",)),
        (f"fetch of {MORE} more", old, ("fetch",)),
        ("first sync", clone, ("sync", "--yes")),
        (f"sync of {MORE} more", old, ("sync", "--yes")),
    ):
        work.mkdir(exist_ok=True)
        title = f"{name}, {count:,} checkpoints"
        command = ("sh", "-c", f"cd {work} && git-baton {' '.join(verb)} origin")
        theirs = ("sh", "-c", f"cd {work} && {' '.join(plain)}")
        rows.append(
            pair(title, command, theirs, folder, env, runs=runs, before=lambda s=source: again(s), yardstick="git fetch")  # type: ignore[misc]
        )
    return rows


def rounds(folder: Path, env: dict[str, str], count: int) -> list[str]:
    """How long plain ``git fetch`` negotiates when the remote has one commit more and we have unpushed checkpoints."""
    path, _ = prepared(folder, env, count)
    place = folder / "plain.git"
    fresh(place, env)
    git(path, env, "push", "-q", str(place), "HEAD:refs/heads/main")
    other = folder / "other"
    shutil.rmtree(other, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", "-b", "main", str(place), str(other)], env=env, check=True)
    lines = []
    for algorithm in ("default", "skipping"):
        git(other, env, "commit", "-q", "--allow-empty", "-m", algorithm)  # a dry run takes the objects, too
        git(other, env, "push", "-q", "origin", "main")
        words = ["git", "-c", f"fetch.negotiationAlgorithm={algorithm}", "fetch", "-q", "--dry-run", str(place), "main"]
        traced = subprocess.run(
            words, cwd=path, env=env | {"GIT_TRACE_PACKET": "1"}, capture_output=True, text=True, check=True
        )
        sent = [line for line in traced.stderr.splitlines() if "fetch> have " in line]
        asked = [line for line in traced.stderr.splitlines() if "fetch> command=fetch" in line]
        said = f"{len(asked)} rounds, {len(sent):,} commits offered"
        lines.append(f"plain git fetch with {count:,} unpushed checkpoints, negotiation {algorithm}: {said}")
    return lines


def main(folder: Path, env: dict[str, str], runs: int, count: int) -> tuple[list[Row], list[str]]:
    """All rows of part 5's exchange."""
    few = max(3, runs // 3)
    return [*pushes(folder, env, few, count), *fetches(folder, env, few, count)], rounds(folder, env, count)
