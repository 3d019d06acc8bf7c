"""T18: many writers at once, foreign ones among them, and writers that are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.hurry import hurry
from tests.kit.processes import Job, assert_acknowledged, assert_noted, chain, latest, locks, meanwhile, run_jobs
from tests.kit.tiers import FULL, some

TRACKS = [f"t{n}" for n in range(8)]


def with_work_trees(path: Path) -> tuple[Sandbox, list[Path]]:
    """A repository and four linked work trees on branches of their own; two commits, so that notes collide."""
    repo = Sandbox.init(path / "repo")
    first = repo.commit("first", a_txt="one\n")
    second = repo.commit("second", b_txt="two\n")
    places = [path / f"w{n}" for n in range(4)]
    for number, place in enumerate(places):
        repo.git("worktree", "add", "-q", "-b", f"b{number}", str(place), second if number % 2 else first)
    return repo, places


def jobs(places: list[Path], loops: int, count: int) -> list[Job]:
    """Loops over all tracks and work trees; every third leaves the current track alone."""
    quiet = ("--no-set-current",)
    return [
        Job(TRACKS[n % 8], places[(n // 2 + n // 8) % 4], f"p{n}", count, quiet if n % 3 == 0 else ()) for n in range(loops)
    ]


def watch(place: Path) -> None:
    """Whoever reads LATEST.json in the midst of it all reads a whole one."""
    latest(place)
    time.sleep(0.01)


def check(repo: Sandbox, places: list[Path], loops: int, count: int) -> None:
    began = time.monotonic()
    with meanwhile(*(partial(watch, place) for place in places)):
        acks = run_jobs(jobs(places, loops, count))
    spent = time.monotonic() - began
    print(
        f"{len(acks)} snapshots in {spent:.1f} s: {len(acks) / spent:.1f}/s, the slowest {max(a.seconds for a in acks):.1f} s"
    )
    chains = assert_acknowledged(acks, repo)
    assert sum(len(records) for records in chains.values()) == loops * count
    assert_noted(repo, chains)
    for place in places:
        found = latest(place)
        for track, shown in found["tracks"].items():
            assert shown["id"] in {r["id"] for r in chains[track]}
        repo.baton("resume", "--track", "t0", cwd=place)
        tips = {track: shown["id"] for track, shown in latest(place)["tracks"].items()}
        assert tips == {track: records[-1]["id"] for track, records in chains.items()}
    repo.fsck()
    assert locks(repo) == []


@pytest.mark.full
def test_t18_eight_processes_ten_snapshots_each(tmp_path: Path) -> None:
    repo, places = with_work_trees(tmp_path)
    check(repo, places, loops=8, count=10)


@pytest.mark.deep
@pytest.mark.parametrize("count", [2, 40])
def test_t18_fifty_processes_some_snapshots_each(tmp_path: Path, count: int) -> None:
    if count == 40 and not FULL:
        pytest.skip("50 processes x 40 snapshots take 100 s: only at full size")
    repo, places = with_work_trees(tmp_path)
    check(repo, places, loops=50, count=count)


@pytest.mark.deep
def test_t18_foreign_writers_lose_us_nothing(tmp_path: Path) -> None:
    repo, places = with_work_trees(tmp_path)
    unwritten = iter([repo.commit(f"spare {n}") for n in range(200)])
    other = Sandbox.init(tmp_path / "other")
    other.commit("theirs", z_txt="z\n")
    other.git("update-ref", "refs/heads/more", "HEAD")
    repo.git("remote", "add", "other", str(other.path))
    written: list[str] = []

    def annotate() -> None:
        commit = next(unwritten, None)
        if commit and repo.try_git("notes", "--ref=checkpoints", "add", "-m", f"foreign {commit}", commit).code == 0:
            written.append(commit)
        time.sleep(0.1)

    def tidy() -> None:
        for words in (("pack-refs", "--all"), ("gc", "--auto", "-q"), ("repack", "-d", "-q"), ("fetch", "-q", "other")):
            done = repo.try_git(*words)
            assert done.code == 0 or "lock" in done.err, f"{words}: {done.err}"
        time.sleep(0.02)

    with meanwhile(annotate, tidy):
        acks = run_jobs(jobs(places, loops=8, count=6))
    chains = assert_acknowledged(acks, repo)
    assert sum(len(records) for records in chains.values()) == 48 and written
    # What git writes blindly over our note, or over its own, is lost in the tree, and by git. We never write blindly:
    # every note commit of ours keeps each note that its parent has.
    commits = repo.git("log", "--first-parent", "--format=%H %P %s", "refs/notes/checkpoints").splitlines()
    for line in commits:
        commit, *rest = line.split(" ")
        if rest[0] == "checkpoint" or len(rest) < 3 or rest[1] != "checkpoint":
            continue
        gone = repo.git("diff-tree", "-r", "--diff-filter=D", "--no-renames", rest[0], commit)
        assert gone == ""
    repo.fsck()
    assert repo.git("rev-parse", "refs/remotes/other/main") == other.head()


@contextmanager
def holder(repo: Sandbox) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock of the repository's baton refs and does nothing else."""
    text = (
        "import time\nfrom gitbaton.git.repo import discover\n"
        "with discover('.', door='binary').lock(()):\n print('held', flush=True)\n time.sleep(60)\n"
    )
    words = [sys.executable, "-c", text]
    with subprocess.Popen(words, cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


@pytest.mark.deep
def test_t18_a_killed_lock_holder_wedges_nobody(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "x", "--step", "one")
    words = [sys.executable, "-m", "gitbaton", "snapshot", "--track", "x", "--step", "two"]
    pipe = subprocess.PIPE
    with holder(repo) as process, subprocess.Popen(words, cwd=repo.path, stdout=pipe, stderr=pipe) as waiting:
        assert repo.ok("status").out and repo.ok("verify").code == 0  # readers do not wait
        assert waiting.poll() is None
        process.kill()
        out, err = waiting.communicate()
    assert waiting.returncode == 0 and out.endswith(b" two\n"), err
    assert [r["step"] for r in chain(repo, "x")] == ["one", "two"]


def lock_beside(repo: Sandbox, name: str, age: float) -> Path:
    """A lock file beside a ref, as a killed process leaves it."""
    path = repo.path / ".git" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (time.time() - age, time.time() - age))
    return path


OURS = ("refs/baton/tracks/x", "refs/checkpoints/x", "refs/notes/checkpoints", "BATON_HEAD")


@some("name", OURS)
@some("before", [0, 1])
def test_t18_a_stale_lock_beside_a_ref_of_ours_is_removed(repo: Sandbox, name: str, before: int) -> None:
    for number in range(before):
        repo.ok("snapshot", "--track", "x", "--step", f"before {number}", "--no-set-current")
    lock_beside(repo, name, 11)
    done = repo.ok("snapshot", "--track", "x", "--step", "after")
    assert done.err == "" and locks(repo) == []
    assert repo.git("rev-parse", "refs/checkpoints/x") == chain(repo, "x")[-1]["id"]
    assert repo.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/x"


def test_t18_a_stale_lock_that_is_not_ours_is_left(repo: Sandbox) -> None:
    theirs = [lock_beside(repo, name, 3600) for name in ("refs/heads/main", "index", "refs/notes/commits", "HEAD")]
    repo.ok("snapshot", "--track", "x", "--step", "s")
    assert all(path.exists() for path in theirs)


@pytest.mark.deep
def test_t18_a_fresh_lock_of_the_chain_is_waited_for_and_then_named(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = hurry(monkeypatch, pace=20)
    repo.ok("snapshot", "--track", "x", "--step", "one")
    path = lock_beside(repo, OURS[0], -60)
    done = repo.here("snapshot", "--track", "x", "--step", "two")
    assert done.code == 128 and done.out == "" and 1 <= sum(slept) < 60
    fatal = [line for line in done.err.splitlines() if line.startswith("fatal: ")]
    assert len(fatal) == 1 and "refs/baton/tracks/x.lock" in fatal[0] and "Traceback" not in done.err
    assert path.exists() and [r["step"] for r in chain(repo, "x")] == ["one"]
    path.unlink()
    repo.ok("snapshot", "--track", "x", "--step", "two")


@pytest.mark.deep
def test_t18_a_lock_that_goes_away_or_grows_stale_is_waited_for(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "x", "--step", "one")
    lock_beside(repo, OURS[0], 8)
    done = repo.ok("snapshot", "--track", "x", "--step", "two")
    assert done.err == "" and [r["step"] for r in chain(repo, "x")] == ["one", "two"]


@pytest.mark.deep
@some("name", OURS[1:3], share=0)
def test_t18_a_fresh_lock_of_what_is_derived_warns_and_is_made_up_for(
    repo: Sandbox, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    hurry(monkeypatch, pace=20)
    repo.ok("snapshot", "--track", "x", "--step", "one")
    path = lock_beside(repo, name, -60)
    for step in ("two", "three"):
        done = repo.here("snapshot", "--track", "x", "--step", step)
        assert done.code == 0 and f"{name}.lock" in done.err and done.err.count("\n") == 1
    records = chain(repo, "x")
    assert [r["step"] for r in records] == ["one", "two", "three"]
    assert repo.here("resume", "--porcelain").out.splitlines()[1] == "step=three"
    path.unlink()
    repo.ok("resume")
    assert repo.git("rev-parse", "refs/checkpoints/x") == records[-1]["id"]
    shown = repo.git("notes", "--ref=checkpoints", "show", "HEAD")
    assert [line for line in shown.splitlines() if line.startswith("checkpoint ")] == [
        f"checkpoint {r['id']}" for r in reversed(records)
    ]


@pytest.mark.deep
def test_t18_a_stale_lock_of_current_in_a_linked_work_tree(tmp_path: Path) -> None:
    repo, places = with_work_trees(tmp_path)
    lock_beside(repo, "worktrees/w1/BATON_HEAD", 11)
    done = repo.baton("snapshot", "--track", "x", "--step", "s", cwd=places[1])
    assert done.code == 0 and done.err == "" and locks(repo) == []
