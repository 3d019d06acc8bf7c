"""How file sets reach the quarantine: few objects as files, many as a pack; and the store, in shared repositories by git."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Literal

import pytest

from gitbaton.errors import GitError
from gitbaton.git import loose
from gitbaton.git.loose import FEW
from gitbaton.git.objects import NewObject, new_object
from gitbaton.git.publish import kept
from gitbaton.git.repo import Repo, discover
from gitbaton.git.run import Git
from gitbaton.system.files import write_atomic
from gitbaton.worktree.filetrees import ObjectStore
from tests.kit import Sandbox


def blobs(count: int, algorithm: Any = "sha1") -> list[NewObject]:
    return [new_object(algorithm, "blob", b"%d\n" % number * number) for number in range(count)]


def stored(sandbox: Sandbox, objects: list[NewObject]) -> None:
    """Git must find every object, byte for byte, and nothing wrong."""
    for item in objects[:: max(1, len(objects) // 10)]:
        assert sandbox.run("git", "cat-file", "blob", item.oid).out == item.data.decode()
    sandbox.fsck()


def published(sandbox: Sandbox, opened: Repo, objects: list[NewObject]) -> None:
    """So it must be as soon as a ref may name them."""
    with kept(opened, [item.oid for item in objects], walk=False, how="always"):
        stored(sandbox, objects)


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
@pytest.mark.parametrize(("count", "packs"), [(FEW, 0), (FEW + 1, 0), (150, 1)])
def test_objects_are_stored_as_git_stores_them(tmp_path: Path, algorithm: str, count: int, packs: int) -> None:
    sandbox = Sandbox.init(tmp_path / "r", f"--object-format={algorithm}")
    opened = discover(os.fspath(sandbox.path), door="binary")
    for _ in range(2):
        ObjectStore(opened).write(blobs(count, algorithm))
    assert not list((sandbox.path / ".git/objects").glob("??/*"))
    found = Path(opened.quarantine())
    assert len(list(found.glob("pack/*.pack"))) == packs
    assert len(list(found.glob("??/*"))) == (0 if packs else count)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in found.glob("??/*")}
    assert modes <= {0o444}
    published(sandbox, opened, blobs(count, algorithm))
    assert not ObjectStore(opened).missing([item.oid for item in blobs(count, algorithm)])
    assert ObjectStore(opened).missing(["1" * len(blobs(1, algorithm)[0].oid)])


@pytest.mark.parametrize("by_hand", [False, True])
def test_in_a_shared_repository_git_sets_the_modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: bool) -> None:
    sandbox = Sandbox.init(tmp_path / "r", "--shared=all")
    opened = discover(os.fspath(sandbox.path), door="binary")
    if by_hand:
        (sandbox.path / ".git/objects").chmod(0o755)
    monkeypatch.setattr(loose, "_umask", [])
    before = os.umask(0o077)
    try:
        opened.objects.write(blobs(3))
        ObjectStore(opened).write(blobs(4))
        published(sandbox, opened, blobs(4))
    finally:
        os.umask(before)
    assert loose._umask == [0o077]
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (sandbox.path / ".git/objects").glob("pack/*.pack"))
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in (sandbox.path / ".git/objects").glob("??/*"))


def test_with_libgit2_many_are_one_pack_too(tmp_path: Path) -> None:
    sandbox = Sandbox.init(tmp_path / "r")
    opened = discover(os.fspath(sandbox.path), door="libgit2")
    assert all(item is None for item in opened.objects.read_many([item.oid for item in blobs(150)]))
    ObjectStore(opened).write(blobs(150))
    published(sandbox, opened, blobs(150))
    found = Path(opened.quarantine())
    assert (len(list(found.glob("pack/*.pack"))), len(list(found.glob("??/*")))) == (1, 0)
    read = opened.objects.read_many([item.oid for item in blobs(150)])
    assert [item.data for item in read if item is not None] == [item.data for item in blobs(150)]
    opened.close()


def test_r20_a_full_disk_leaves_no_torn_object(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = discover(os.fspath(repo.path), door="binary")
    folder = repo.path / ".git/objects"
    before = sorted(folder.rglob("*/*"))

    def full(*_: object) -> int:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(GitError, match=r"^an object cannot be written: No space left on device$"):
            opened.objects.write(blobs(2))
    assert [path for path in sorted(folder.rglob("*/*")) if path.is_file()] == [path for path in before if path.is_file()]
    opened.objects.write(blobs(2))
    stored(repo, blobs(2))


def test_a_folder_that_gc_removes_meanwhile_is_made_again(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = discover(os.fspath(repo.path), door="binary")
    real, times = write_atomic, [2]

    def removed(path: str, data: bytes, **more: Any) -> None:
        if times[0]:
            times[0] -= 1
            os.rmdir(os.path.dirname(path))
        real(path, data, **more)

    monkeypatch.setattr(loose, "write_atomic", removed)
    opened.objects.write(blobs(1))
    stored(repo, blobs(1))
    assert times == [0]


@pytest.mark.parametrize("door", ["binary", "libgit2"])
@pytest.mark.parametrize("count", [2, 60, 150])
def test_what_a_power_cut_tore_is_stored_again(repo: Sandbox, door: Literal["binary", "libgit2"], count: int) -> None:
    items = blobs(count)
    for item, raw in zip(items[:2], (b"", bytes(20)), strict=True):
        path = repo.path / ".git/objects" / item.oid[:2] / item.oid[2:]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(raw)
    opened = discover(os.fspath(repo.path), door=door)
    ObjectStore(opened).write(items)
    published(repo, opened, items)
    assert [opened.objects.read(item.oid) is not None for item in items] == [True] * count
    opened.close()
    repo.fsck()


def test_a_pack_has_what_is_torn_beside_it(repo: Sandbox) -> None:
    (item,) = blobs(2)[1:]
    opened = discover(os.fspath(repo.path), door="libgit2")
    opened.objects.write_pack([item])
    path = repo.path / ".git/objects" / item.oid[:2] / item.oid[2:]
    path.parent.mkdir(exist_ok=True)
    for raw in (b"", b"x\x9c", bytes(20)):
        path.write_bytes(raw)
        found = opened.objects.read(item.oid)
        assert found is not None and found.data == item.data
        path.unlink()
    opened.close()


def test_what_came_and_went_between_two_looks_is_missing(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pack appears after the packs were listed and is gone at the next look: what it held is not remembered."""
    (item,) = blobs(2)[1:]
    opened = discover(os.fspath(repo.path), door="binary")
    store, real = ObjectStore(opened), Git.out

    def between(self: Git, *args: str, **more: Any) -> bytes:
        if args[0] == "cat-file":
            opened.objects.write_pack([item])
        return real(self, *args, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Git, "out", between)
        assert store.missing([item.oid]) == set()
    repo.git("repack", "-adq")
    repo.git("prune", "--expire=now")
    assert store.missing([item.oid]) == {item.oid}
    opened.close()
