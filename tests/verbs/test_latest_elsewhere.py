"""LATEST where the folder is no place of ours, and snapshots of a repository that has no files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.tiers import some


def other(tmp_path: Path) -> str:
    """Another repository, with a commit."""
    made = Sandbox.init(tmp_path / "other")
    made.commit("other")
    return str(made.path)


@some("how", ["checked out", "not checked out", "no submodule"])
def test_a_submodule_in_the_place_of_latest_gets_none(repo: Sandbox, tmp_path: Path, how: str) -> None:
    source = other(tmp_path)
    if how == "no submodule":
        repo.git("clone", "-q", source, "runtime")
    else:
        repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "runtime")
        repo.git("commit", "-qm", "a submodule")
    if how == "not checked out":
        repo.git("submodule", "--quiet", "deinit", "-f", "runtime")
    before = sorted(p.name for p in (repo.path / "runtime").iterdir())
    told = "warning: 'runtime' is a repository of its own, so the LATEST files are not written; "
    for args in (("snapshot", "s"), ("export",), ("export", "--history"), ("snapshot", "s2")):
        done = repo.baton(*args)
        assert f"{told}baton.checkpointDir names another folder\n" in done.err and done.code == (args[0] == "export")
    assert sorted(p.name for p in (repo.path / "runtime").iterdir()) == before
    repo.git("config", "baton.checkpointDir", "notes")
    assert told not in repo.ok("snapshot", "s3").err and (repo.path / "notes/LATEST.md").exists()


@pytest.mark.deep
def test_a_submodule_that_is_not_checked_out_gets_none_beside_another(repo: Sandbox, tmp_path: Path) -> None:
    source = other(tmp_path)
    for path in ("notes/aside", "notes/latest"):
        repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, path)
    repo.git("commit", "-qm", "two submodules")
    repo.git("submodule", "--quiet", "deinit", "-f", "--all")
    repo.git("config", "baton.checkpointDir", "notes/latest")
    done = repo.baton("export")
    assert done.code == 1 and "'notes/latest' is a repository of its own, so the LATEST files are not written" in done.err
    assert list((repo.path / "notes/latest").iterdir()) == []


def test_a_snapshot_in_a_bare_repository_says_that_it_has_no_files(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first")
    repo.ok("snapshot", "s", "--track", "main")
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    repo.git("push", "-q", str(tmp_path / "bare.git"), "refs/baton/tracks/main")
    bare = Sandbox(tmp_path / "bare.git")
    theirs = bare.git("rev-parse", "refs/baton/tracks/main")
    done = bare.ok("snapshot", "words")
    said = "warning: this repository is bare: there are no files to take, and only the words are recorded\n"
    assert said in done.err and done.out.startswith("main bare.git ")
    assert bare.git("rev-parse", "refs/baton/tracks/main") == theirs  # nobody asked for that one
    assert bare.ok("snapshot", "more", "--no-files").out.startswith("main bare.git ")
    assert "is bare" not in bare.ok("snapshot", "more", "--no-files").err
    bare.ok("snapshot", "asked", "--track", "main")
    assert bare.git("rev-parse", "refs/baton/tracks/main^") == theirs


@pytest.mark.deep
def test_a_bare_repository_beside_linked_work_trees(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first")
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare.git"))
    bare = Sandbox(tmp_path / "bare.git")
    bare.git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    linked = Sandbox(tmp_path / "linked")
    linked.ok("snapshot", "s")
    theirs = bare.git("rev-parse", "refs/baton/tracks/main")
    bare.ok("snapshot", "words")
    assert bare.git("rev-parse", "refs/baton/tracks/main") == theirs and linked.ok("status").code == 0


def test_nobody_who_would_make_none_is_told_that_there_is_no_latest(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other(tmp_path), "runtime")
    repo.git("commit", "-qm", "a submodule")
    assert "the LATEST files are not written" in repo.ok("snapshot", "s").err
    with repo.open() as baton:
        assert baton.refresh(only_existing=True) == []
    assert not (repo.path / "runtime/checkpoints").exists()
