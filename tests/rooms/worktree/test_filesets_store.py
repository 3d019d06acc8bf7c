"""How file sets reach the quarantine: few objects as files, many as a pack; and the store, in shared repositories by git."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Literal

import pytest

from gitbaton.base.errors import GitError
from gitbaton.git.loose import FEW
from gitbaton.git.objects import NewObject, new_object
from gitbaton.git.publish import kept
from gitbaton.git.repo import Repo, discover
from gitbaton.git.worktree.filetrees import ObjectStore
from tests.kit import Sandbox
from tests.kit.moments import Args, at


def blobs(count: int, algorithm: Any = "sha1") -> list[NewObject]:
    return [new_object(algorithm, "blob", b"%d\n" % number * number) for number in range(count)]


def stored(sandbox: Sandbox, objects: list[NewObject]) -> None:
    """Git must find every object, byte for byte, and nothing wrong."""
    for item in objects[:: max(1, len(objects) // 10)]:
        assert sandbox.run("git", "cat-file", "blob", item.oid).out == item.data.decode()
    sandbox.fsck()


def published(sandbox: Sandbox, opened: Repo, objects: list[NewObject]) -> None:
    """So it must be as soon as a ref may name them."""
    with kept(opened, [item.oid for item in objects], how="always"):
        stored(sandbox, objects)


@pytest.mark.deep
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
def test_in_a_shared_repository_git_sets_the_modes(tmp_path: Path, by_hand: bool) -> None:
    """Of packs, and of single objects, as that of a branch; also where the folder of objects does not tell."""
    sandbox = Sandbox.init(tmp_path / "r", "--shared=all")
    sandbox.commit("one", a_txt="one\n")
    objects = sandbox.path / ".git/objects"
    if by_hand:
        objects.chmod(0o755)
    before = os.umask(0o077)
    try:
        sandbox.write("a.txt", "two\n")
        sandbox.ok("snapshot", "--track", "t", "two")
        sandbox.ok("branch", "b", "t")
    finally:
        os.umask(before)
    files = [path for path in objects.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {"", ".pack", ".idx"}
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in files)


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


def test_a_folder_that_gc_removes_meanwhile_is_made_again(repo: Sandbox) -> None:
    opened = discover(os.fspath(repo.path), door="binary")
    removed: list[str] = []

    def remove(args: Args) -> None:
        if len(removed) < 2:
            removed.append(os.path.dirname(args[0]))
            os.rmdir(removed[-1])

    with at("open", lambda args: "/tmp_obj_" in str(args[0]), remove):
        opened.objects.write(blobs(1))
    stored(repo, blobs(1))
    assert len(removed) == 2


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


def test_what_came_and_went_between_two_looks_is_missing(repo: Sandbox) -> None:
    """A pack appears after the packs were listed and is gone at the next look: what it held is not remembered."""
    (item,) = blobs(2)[1:]
    opened = discover(os.fspath(repo.path), door="binary")
    store, packs = ObjectStore(opened), repo.path / ".git/objects/pack"
    before = packs.stat().st_mtime_ns
    with at("os.posix_spawn", lambda args: "cat-file" in args[1], lambda _: opened.objects.write_pack([item])):
        assert store.missing([item.oid]) == set()
    repo.git("repack", "-adq")
    repo.git("prune", "--expire=now")
    os.utime(packs, ns=(before, before))  # as where the file system keeps times in long steps
    assert store.missing([item.oid]) == {item.oid}
    opened.close()
