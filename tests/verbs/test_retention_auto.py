"""The prune that nobody asked for: once a day, in a process of its own, and silent."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.care.retention import pruning
from gitbaton.checkpoints.store.join import links
from gitbaton.git import maintenance
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.moments import Args, at
from tests.verbs.test_retention import filled


@pytest.fixture
def long(repo: Sandbox) -> Sandbox:
    """A track of 230 automatic checkpoints of long ago, the first of them manual, and the stamp of two days ago."""
    filled(repo, 1, kind="manual")
    with repo.open(door="libgit2") as baton:
        first = links(baton.store, "t")
    filled(repo, 230, seed=1)
    with repo.open(door="libgit2") as baton:
        assert len(links(baton.store, "t")) == 231 and first
    stamp = repo.path / ".git/baton/pruned"
    stamp.touch()
    os.utime(stamp, (time.time() - 2 * maintenance.DAY,) * 2)
    return repo


def count(repo: Sandbox) -> int:
    return int(repo.git("rev-list", "--first-parent", "--count", "refs/baton/tracks/t")) - 1


def waited(repo: Sandbox, wanted: int) -> None:
    until(lambda: count(repo) == wanted)


@pytest.mark.full
def test_a_snapshot_starts_it_and_says_nothing(long: Sandbox) -> None:
    done = long.ok("snapshot", "--track", "t", "--step", "now")
    assert done.err == ""
    waited(long, 201)  # the newest 200, and the manual one
    log = long.path / ".git/baton/log"
    until(lambda: log.exists() and "automatic prune: removed 31 of 't'" in log.read_text())
    steps = [row["step"] for row in long.ok("log", "--json", "t").json["checkpoints"]]
    assert steps[0] == "now" and steps[-1] == "step 0"
    long.fsck()


@contextmanager
def started() -> Iterator[list[str]]:
    """Of which repositories a prune would be started within the block."""
    found: list[str] = []

    def start(args: Args) -> None:
        found.append(args[1][-1])
        raise OSError(11, "Resource temporarily unavailable")

    with at("os.posix_spawn", lambda args: any("pruning" in str(word) for word in args[1]), start):
        yield found


@pytest.mark.deep
def test_it_looks_at_one_file_on_other_days(long: Sandbox) -> None:
    stamp = long.path / ".git/baton/pruned"

    def snapshots() -> list[str]:
        with started() as found, long.open() as baton:
            assert baton.snapshot("s", track="t", files=False).warnings == ()
        return found

    assert snapshots() == [str(long.path / ".git")]
    assert snapshots() == []  # not a second time today
    os.utime(stamp, (time.time() + 9999,) * 2)
    assert snapshots() == [] and stamp.stat().st_mtime <= time.time()
    os.utime(stamp, (1, 1))
    long.git("config", "baton.autoPrune", "false")
    assert snapshots() == []
    stamp.unlink()
    long.git("config", "--unset", "baton.autoPrune")
    assert snapshots() == [] and stamp.exists()  # it begins a day later


@pytest.mark.full
def test_nothing_of_the_current_directory_is_imported(long: Sandbox) -> None:
    long.write("gitbaton/__init__.py", "raise SystemExit('a stranger')\n")
    long.write("json.py", "raise SystemExit('a stranger')\n")
    done = long.run("git-baton", "snapshot", "--track", "t", "--step", "now")
    assert done.code == 0, done.err
    waited(long, 201)


@pytest.mark.deep
def test_one_at_a_time_and_only_where_there_is_slack(long: Sandbox, tmp_path: Path) -> None:
    with long.open() as baton:
        assert pruning.slack(baton)
        with pruning.alone(baton.repo) as free:
            assert free
            pruning.run(str(long.path / ".git"))
            assert count(long) == 231
        pruning.run(str(long.path / ".git"))
        assert count(long) == 201 and not pruning.work(baton)
    other = Sandbox.init(tmp_path / "other")
    other.ok("snapshot", "--track", "t", "--step", "s")
    with other.open() as baton:
        assert not pruning.slack(baton)
    pruning.run(str(tmp_path / "nothing"))


@pytest.mark.deep
def test_it_looks_at_no_repository_around(long: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, files = long.path / "inner.git", long.path / "files"
    long.git("init", "-q", "--bare", "inner.git")
    files.mkdir()
    env = {"GIT_DIR": str(inner), "GIT_WORK_TREE": str(files)}
    with monkeypatch.context() as patch, started() as found:
        for name, text in env.items():
            patch.setenv(name, text)
        with Baton() as baton:
            baton.snapshot("s", track="t")
            os.utime(inner / "baton/pruned", (1, 1))
            baton.snapshot("s", track="t")
        pruning.run(found[0])
    assert found == [str(inner)]
    (inner / "HEAD").unlink()
    pruning.run(str(inner))
    assert count(long) == 231


@pytest.mark.deep
def test_it_never_fails_its_caller_and_removes_nothing_where_anything_is_amiss(long: Sandbox) -> None:
    long.git("update-ref", "refs/baton/mine", "HEAD")
    pruning.run(str(long.path / ".git"))
    assert count(long) == 231
    said = (long.path / ".git/baton/log").read_text()
    assert "automatic prune: nothing is removed: 'refs/baton/mine' is not a ref that gitbaton writes" in said
    assert said.startswith(f"{datetime.now(UTC):%Y-}")
