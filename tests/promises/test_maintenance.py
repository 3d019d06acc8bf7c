"""Many loose objects are packed in the background, and nothing is lost by it."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from gitbaton.git import maintenance
from tests.kit import Sandbox


def loose(repo: Sandbox) -> int:
    return int(repo.git("count-objects").split()[0])


def many(repo: Sandbox, count: int) -> str:
    """Make so many loose blobs that nothing refers to; the id of one."""
    for number in range(count):
        (repo.path / f"x{number}").write_text(str(number))
    names = "\n".join(f"x{n}" for n in range(count)) + "\n"
    made = repo.run("git", "hash-object", "-w", "--stdin-paths", stdin=names.encode()).out.split()
    for number in range(count):
        (repo.path / f"x{number}").unlink()
    return made[0]


def wait_for_packs(repo: Sandbox) -> None:
    for _ in range(200):
        with open(repo.path / ".git/baton/repacking") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.05)
    raise AssertionError("git repack does not end")


@pytest.fixture
def crowded(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> tuple[Sandbox, str]:
    return repo, many(repo, 6000)


@pytest.mark.deep
def test_past_a_few_thousand_they_are_packed_and_nothing_is_pruned(crowded: tuple[Sandbox, str]) -> None:
    repo, unreferenced = crowded
    repo.ok("snapshot", "--track", "t", "--step", "one")
    wait_for_packs(repo)
    assert loose(repo) < 100
    assert repo.git("cat-file", "-t", unreferenced) == "blob"
    repo.git("fsck", "--strict")
    assert repo.ok("log", "t", "--json").json["checkpoints"][0]["step"] == "one"


@pytest.mark.deep
def test_a_step_packs_them_too(crowded: tuple[Sandbox, str]) -> None:
    repo, unreferenced = crowded
    repo.ok("run", "--run", "r", "--step", "s", "--", "true")
    wait_for_packs(repo)
    assert loose(repo) < 100
    assert repo.git("cat-file", "-t", unreferenced) == "blob"


@pytest.mark.deep
def test_not_where_the_user_wants_no_packing(crowded: tuple[Sandbox, str]) -> None:
    repo, _ = crowded
    repo.git("config", "gc.auto", "0")
    repo.ok("snapshot", "--track", "t", "--step", "one")
    assert not (repo.path / ".git/baton/repacking").exists() and loose(repo) > 6000


def test_not_twice_at_once_and_not_for_a_few(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    with repo.open() as baton:
        assert not maintenance.tidy(baton.repo)
        monkeypatch.setattr(maintenance, "MANY", -1)
        Path(repo.path / ".git/objects/17").mkdir(exist_ok=True)
        with open(os.path.join(baton.repo.shared_dir, "repacking"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert not maintenance.tidy(baton.repo)
        assert maintenance.tidy(baton.repo)
        wait_for_packs(repo)
    repo.git("fsck", "--strict")
