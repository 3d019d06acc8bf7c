"""Many loose objects are packed in the background, and nothing is lost by it."""

from __future__ import annotations

import fcntl
import hashlib

import pytest

from gitbaton.git.maintenance import PACKS
from tests.kit import Sandbox


@pytest.fixture
def crowded(repo: Sandbox) -> list[str]:
    """Loose blobs that nothing refers to, in the one folder by which git and we guess how many objects there are: their ids."""
    texts = (b"%d" % number for number in range(1_000_000))
    found = (text for text in texts if hashlib.sha1(b"blob %d\0%s" % (len(text), text)).hexdigest().startswith("17"))
    for number in range(20):
        repo.write(f".git/{number}", next(found))
    names = "".join(f".git/{number}\n" for number in range(20))
    return repo.git("hash-object", "-w", "--stdin-paths", stdin=names.encode()).split()


def loose(repo: Sandbox, ids: list[str]) -> int:
    """How many of these are loose, once whoever packs has ended."""
    lock = repo.path / ".git/baton/repacking"
    if lock.exists():
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
    assert set(repo.git("cat-file", "--batch-check=%(objecttype)", stdin="\n".join(ids).encode()).split()) == {"blob"}
    return sum((repo.path / f".git/objects/{oid[:2]}/{oid[2:]}").exists() for oid in ids)


def test_past_a_few_thousand_they_are_packed_and_nothing_is_pruned(repo: Sandbox, crowded: list[str]) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    assert loose(repo, crowded) == 0
    repo.git("fsck", "--strict")
    assert repo.ok("log", "t", "--json").json["checkpoints"][0]["step"] == "one"


def test_a_step_packs_them_too(repo: Sandbox, crowded: list[str]) -> None:
    repo.ok("run", "--run", "r", "--step", "s", "--", "true")
    assert loose(repo, crowded) == 0


def test_not_where_the_user_wants_no_packing(repo: Sandbox, crowded: list[str]) -> None:
    repo.git("config", "gc.auto", "0")
    repo.ok("snapshot", "--track", "t", "--step", "one")
    assert loose(repo, crowded) == 20 and not (repo.path / ".git/baton/repacking").exists()


def test_not_for_a_few(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    assert not (repo.path / ".git/baton/repacking").exists() and repo.git("count-objects")[0] != "0"


def test_not_twice_at_once(repo: Sandbox, crowded: list[str]) -> None:
    with repo.write(".git/baton/repacking").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        repo.ok("snapshot", "--track", "t", "--step", "one")
    assert loose(repo, crowded) == 20
    repo.ok("snapshot", "--track", "t", "--step", "two")
    assert loose(repo, crowded) == 0


@pytest.mark.deep
def test_packs_of_ours_are_gathered_also_where_the_user_wants_no_packing(repo: Sandbox) -> None:
    """They are many after a day of hooks, and each slows git down; a pack of the user's stays as it is."""
    repo.git("config", "gc.auto", "0")
    repo.git("repack", "-q", "-a", "-d")
    folder = repo.path / ".git/objects/pack"
    (theirs,) = folder.glob("*.pack")
    with repo.open() as baton:
        for number in range(PACKS + 3):
            repo.write("a.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="t")
    lock = repo.path / ".git/baton/repacking"
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    assert theirs.exists() and len([*folder.glob("*.pack")]) < PACKS
    assert len(repo.ok("log", "t", "--json", "-n", "99").json["checkpoints"]) == PACKS + 3
    repo.fsck()
