"""Capture from every place a snapshot may be started in: hooks' environments, subdirectories, linked work trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitbaton import Baton
from tests.kit import Sandbox
from tests.kit.capturekit import CHAIN, TRACK, check, expected_tree, index_path, snap, state, untouched
from tests.kit.places import PYTHON
from tests.kit.tiers import some

HOOK = f"#!/bin/sh\n{PYTHON} -m gitbaton snapshot --track {TRACK} --step hook || exit 1\n"


def pre_commit(box: Sandbox) -> None:
    box.write(".git/hooks/pre-commit", HOOK).chmod(0o755)


def committed_tree(box: Sandbox, *command: str) -> str:
    """What a command commits in a copy of the repository that has no hook of ours."""
    other = box.path.parent / "without-hook"
    box.run("cp", "-a", str(box.path), str(other))
    (other / ".git/hooks/pre-commit").unlink()
    twin = Sandbox(other)
    twin.git(*command)
    return twin.git("rev-parse", "HEAD^{tree}")


@pytest.mark.full
@some("command", [["-a"], ["--", "a.txt"], []], 2, ids=["all", "path", "staged"])
def test_t11_a_hook_of_commit_sees_the_index_that_is_committed(repo: Sandbox, command: list[str]) -> None:
    repo.write("b.txt", "b\n")
    repo.commit("b")
    repo.write("a.txt", "two\n")
    repo.write("b.txt", "staged\n")
    repo.git("add", "b.txt")
    repo.write("b.txt", "edited\n")
    repo.write("new", "x\n")
    pre_commit(repo)
    words = ["commit", "-qm", "message", *command]
    wanted = committed_tree(repo, *words)
    before = repo.head()
    work = expected_tree(repo)
    repo.git(*words)
    assert repo.git("rev-parse", "HEAD^{tree}") == wanted
    assert repo.git("rev-parse", f"{CHAIN}^{{tree}}") == work
    assert repo.git("rev-parse", f"{CHAIN}^2^{{tree}}") == wanted
    assert repo.git("rev-parse", f"{CHAIN}^2^1") == before
    assert not list((repo.path / ".git").glob("*.lock"))
    repo.fsck()


@pytest.mark.parametrize("absolute", [True, False])
def test_t11_another_index_by_environment(repo: Sandbox, absolute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("sub/x", "x\n")
    other = repo.path / ".git/other-index"
    env = {"GIT_INDEX_FILE": str(other)}
    repo.git("read-tree", "HEAD", env=env)
    repo.write("a.txt", "staged there\n")
    repo.git("add", "a.txt", env=env)
    staged = repo.git("write-tree", env=env)
    repo.write("a.txt", "edited\n")
    monkeypatch.setenv("GIT_INDEX_FILE", str(other) if absolute else ".git/other-index")
    monkeypatch.chdir(repo.path / "sub")
    before = state(other)
    wanted = expected_tree(repo, source=other)
    with Baton() as baton:
        stored = baton.snapshot("step", track=TRACK).stored
    assert state(other) == before
    assert stored.tree == wanted
    assert stored.checkpoint.files is not None and stored.checkpoint.files.index.tree == staged


def test_t11_a_foreign_index_does_not_reach_another_repository(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = Sandbox.init(repo.path.parent / "stranger")
    stranger.commit("first", s_txt="s\n")
    monkeypatch.setenv("GIT_DIR", str(stranger.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(stranger.path / ".git/index"))
    with Baton(repo.path) as baton:
        stored = baton.snapshot("step", track=TRACK).stored
    for name in ("GIT_DIR", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name)
    assert repo.tree(stored.tree).keys() == {"a.txt"}
    assert stranger.git("for-each-ref", "refs/baton") == ""


@pytest.mark.parametrize("absolute", [True, False])
def test_t23_git_dir_by_environment(repo: Sandbox, absolute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.write("a.txt", "two\n")
    wanted = expected_tree(repo)
    monkeypatch.chdir(repo.path)
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git") if absolute else ".git")
    with Baton() as baton:
        stored = baton.snapshot("step", track=TRACK).stored
    assert stored.tree == wanted


def test_t23_git_dir_and_work_tree_apart(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = repo.path.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other").write_text("x\n")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(elsewhere))
    with Baton() as baton:
        stored = baton.snapshot("step", track=TRACK).stored
    assert repo.tree(stored.tree).keys() == {"other"}


@pytest.mark.deep
def test_t23_from_a_subdirectory(repo: Sandbox) -> None:
    repo.write("sub/deep/x", "x\n")
    repo.write("a.txt", "two\n")
    repo.write(":(top)y", "y\n")
    wanted = expected_tree(repo)
    done = repo.baton("snapshot", "--track", TRACK, "--step", "s", cwd=repo.path / "sub/deep")
    assert done.code == 0, done.err
    assert repo.git("rev-parse", f"{CHAIN}^{{tree}}") == wanted


def test_t23_from_a_linked_work_tree(repo: Sandbox) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(repo.path.parent / "linked"))
    linked = Sandbox(repo.path.parent / "linked")
    repo.write("a.txt", "main's edit\n")
    linked.write("a.txt", "linked edit\n")
    linked.write("new", "x\n")
    linked.git("add", "new")
    main = state(repo.path / ".git/index")
    stored = check(linked)
    assert linked.git("show", f"{stored.commit}:a.txt") == "linked edit"
    assert state(repo.path / ".git/index") == main
    assert not (repo.path / ".git/baton/tmp").exists()


@pytest.mark.deep
@pytest.mark.parametrize("inside", [True, False])
def test_t23_from_a_linked_work_tree_of_a_bare_repository(repo: Sandbox, tmp_path: Path, inside: bool) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "-q", "--bare", str(repo.path), str(bare))
    place = bare / "trees/linked" if inside else tmp_path / "linked"
    place.parent.mkdir(exist_ok=True)
    Sandbox(bare).git("worktree", "add", "-q", str(place), "main")
    linked = Sandbox(place)
    linked.write("a.txt", "two\n")
    linked.write("new", "x\n")
    check(linked)
    assert Sandbox(bare).git("rev-parse", CHAIN)


def test_t23_a_work_tree_by_configuration(repo: Sandbox) -> None:
    elsewhere = repo.path.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "other").write_text("x\n")
    repo.git("config", "core.worktree", str(elsewhere))
    with Baton(repo.path) as baton:
        stored = baton.snapshot("step", track=TRACK).stored
    assert repo.tree(stored.tree).keys() == {"other"}


def test_t23_a_path_with_odd_characters(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "a 'b' \"c\" \\ [d]* :(e) é")
    box.commit("first", a_txt="one\n")
    box.write("a.txt", "two\n")
    box.write(".env", "left out")
    with untouched(box), box.open() as baton:
        stored = baton.snapshot("step", track=TRACK).stored
    assert box.git("show", f"{stored.commit}:a.txt") == "two"
    assert box.tree(stored.commit).keys() == {"a.txt"}


def test_t24_a_missing_index_is_an_empty_one(repo: Sandbox) -> None:
    index_path(repo).unlink()
    repo.write("new", "x\n")
    stored = check(repo)
    assert stored.checkpoint.files is not None and repo.tree(stored.checkpoint.files.index.tree) == {}
    assert not index_path(repo).exists()


@pytest.mark.deep
def test_t24_the_other_door_captures_the_same(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    repo.write("new", "x\n")
    trees = set()
    for door in ("binary", "libgit2"):
        with repo.open(door=door) as baton:
            trees.add(baton.snapshot("step", track=door).stored.tree)
    assert trees == {expected_tree(repo)}


@pytest.mark.deep
def test_t12_a_reader_of_the_object_store_alone(repo: Sandbox) -> None:
    """Nothing but objects, our refs and our own folder is written below ``.git``."""
    snap(repo)
    top = repo.path / ".git"
    repo.write("a.txt", "two\n")
    before = {p: p.lstat().st_mtime_ns for p in top.rglob("*") if p.is_file()}
    snap(repo)
    after = {p: p.lstat().st_mtime_ns for p in top.rglob("*") if p.is_file()}
    touched = {os.fspath(p.relative_to(top)) for p in after if before.get(p) != after[p]}
    allowed = ("objects/", "refs/baton/", "refs/checkpoints/", "refs/notes/checkpoints", "baton/", "logs/refs/")
    assert all(name.startswith(allowed) for name in touched), touched


@pytest.mark.deep
def test_t24_an_index_without_checksum(repo: Sandbox, new_git: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(new_git) + os.pathsep + os.environ["PATH"])
    repo.git("config", "index.skipHash", "true")
    for number in range(4):
        repo.write("a.txt", f"{number}\n")
        repo.git("add", "a.txt")
        assert (repo.path / ".git/index").read_bytes()[-20:] == bytes(20)
        staged = check(repo).checkpoint.files
        assert staged is not None and staged.index.tree == staged.tree
    kept = (repo.path / ".git/baton/index-facts").read_bytes()  # known by what its entries are
    check(repo)
    assert (repo.path / ".git/baton/index-facts").read_bytes() == kept


def test_t24_from_a_sha256_repository(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "sha256", "--object-format=sha256")
    box.commit("first", a_txt="one\n")
    box.write("a.txt", "two\n")
    box.write("b.txt", "")
    box.git("add", "-N", "b.txt")
    stored = check(box)
    assert len(stored.tree) == 64
    box.fsck()


@pytest.mark.deep
def test_t24_flags_of_very_long_paths(repo: Sandbox) -> None:
    names = ["/".join(["d" * 200] * 10) + f"/{number:03d}" for number in range(200)]
    for name in names:
        repo.write(name, name)
    repo.commit("deep")
    repo.git("update-index", "--assume-unchanged", "--stdin", stdin="\n".join(names).encode())
    stored = snap(repo)
    files = stored.checkpoint.files
    assert files is not None and len(files.index.flags) == 65 and files.index.flags_more == 135
    blob = repo.run("git", "cat-file", "blob", f"{stored.commit}^2^2:flags").out
    assert blob.split("\0")[:-1] == [f"a\t{name}" for name in names]
