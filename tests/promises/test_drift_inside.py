"""Inside submodules and nested repositories: the commit is held and compared; what is not committed there is said not to be."""

from __future__ import annotations

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.state import snap
from tests.kit.tiers import some

SAID = "warning: what is not committed inside 'sub' is in no checkpoint and is not compared\n"


@pytest.fixture
def work(repo: Sandbox) -> Sandbox:
    """A repository with a submodule ``sub`` of three commits."""
    library = Sandbox.init(repo.path.parent / "library")
    for text in ("zero", "one", "two"):
        library.commit(text, a=f"{text}\n")
    repo.git("submodule", "--quiet", "add", str(library.path), "sub")
    repo.commit("with a submodule")
    return repo


def inner(repo: Sandbox, name: str = "sub") -> Sandbox:
    return Sandbox(repo.path / name)


@pytest.mark.deep
def test_a_commit_inside_a_submodule_that_was_dirty_is_drift(work: Sandbox) -> None:
    work.write("sub/a", "wip\n")
    snap(work, "t", "s", "--validation", "green")
    assert work.baton("verify", "--strict").code == 0
    inner(work).git("commit", "-q", "-a", "-m", "y")
    inner(work).git("checkout", "-q", "HEAD~2")
    done = work.baton("verify", "--strict")
    assert (done.code, done.out) == (1, "files-changed:1: 1 path differs from the captured work tree: 'sub'\n")
    lines = work.ok("resume", "--porcelain", "--live").out
    assert "\ndrift=files-changed:1\n" in lines and "stale" in lines


@pytest.mark.full
@some("edit", ["a", "new"])
def test_what_is_not_committed_inside_is_said(work: Sandbox, edit: str) -> None:
    work.write(f"sub/{edit}", "wip\n")
    snap(work)
    done = work.baton("verify", "--strict")
    assert (done.code, done.out, done.err) == (0, "", SAID)
    assert SAID in work.ok("resume", "--live").err and work.ok("status").err == SAID
    assert work.ok("verify", "--json").json["live"]["not_compared"] == ["sub"]
    assert SAID.removeprefix("warning: ") in Client("claude", work.path).fire("start")
    inner(work).git("checkout", "-q", "-f", "HEAD")
    assert work.ok("verify").err == SAID, "what was there then is gone, and no checkpoint holds it"
    (work.path / "sub" / edit).unlink(missing_ok=True)
    inner(work).git("reset", "-q", "--hard")
    snap(work)
    assert work.ok("verify").err == "" and "not_compared" not in work.ok("verify", "--json").json["live"]
    work.write(f"sub/{edit}", "wip\n")
    assert (work.ok("verify").out, work.ok("verify").err) == ("", SAID), "nor is it compared where it came later"


@pytest.mark.full
def test_a_commit_inside_a_nested_repository_is_drift(repo: Sandbox) -> None:
    nested = Sandbox.init(repo.path / "nested")
    snap(repo)
    assert repo.ok("verify").out == ""
    nested.commit("first", x="x\n")
    assert "files-changed:1: 1 path differs from the captured work tree: 'nested'\n" in repo.ok("verify").out
    snap(repo)
    assert repo.ok("verify").out == ""
    nested.commit("second", x="y\n")
    assert repo.baton("verify", "--strict").code == 1
    nested.git("reset", "-q", "--hard", "HEAD~1")
    done = repo.baton("verify", "--strict")
    assert (done.code, done.out) == (0, "") and "inside 'nested' is in no checkpoint" in done.err


@pytest.mark.deep
def test_a_broken_submodule_is_told_by_nothing_else(work: Sandbox) -> None:
    snap(work)
    work.write("a.txt", "two\n")
    (work.path / "sub/.git").write_text("gitdir: nowhere\n")
    assert work.ok("verify").out == "files-changed:1: 1 path differs from the captured work tree: 'a.txt'\n"


@pytest.mark.full
def test_a_submodule_that_git_is_to_ignore_is_compared(work: Sandbox) -> None:
    work.git("config", "-f", ".gitmodules", "submodule.sub.ignore", "all")
    work.git("config", "diff.ignoreSubmodules", "all")
    snap(work, "t")
    inner(work).git("checkout", "-q", "HEAD~1")
    snap(work, "u", "s", "--no-set-current")
    rows = {row["checkpoint"]["track"]: row["live"]["files_changed"] for row in work.ok("status", "--json").json["tracks"]}
    assert rows == {"t": 1, "u": 0}
