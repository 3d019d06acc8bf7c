"""``git baton worktree``: a checkpoint's head, files and index beside this work tree, which stays as it is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.care.tools import branching
from tests.kit import Sandbox
from tests.kit.threads import unprivileged
from tests.kit.tiers import some


def seen(place: Path) -> dict[str, bytes]:
    """Every file and link below a directory, but for git's own."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if name.split("/")[0] == ".git" or name.startswith("runtime") or (path.is_dir() and not path.is_symlink()):
            continue
        found[name] = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
    return found


@pytest.fixture
def busy(repo: Sandbox) -> Sandbox:
    """Staged, then edited; intent-to-add; deleted; untracked; a link; an executable; assume-unchanged."""
    repo.commit("second", gone_txt="x\n", kept_txt="k\n")
    repo.write("s.txt", "staged\n")
    repo.git("add", "s.txt")
    repo.write("s.txt", "edited\n")
    repo.write("intent.txt", "i\n")
    repo.git("add", "-N", "intent.txt")
    (repo.path / "gone.txt").unlink()
    repo.write("new/run.sh", "#!/bin/sh\n").chmod(0o755)
    (repo.path / "link").symlink_to("nowhere")
    repo.git("update-index", "--assume-unchanged", "kept.txt")
    repo.ok("snapshot", "--track", "t", "--step", "busy")
    return repo


@some("word", ["list", "remove", "prune"], 1)
def test_a_verb_of_git_worktree_is_no_directory(repo: Sandbox, word: str) -> None:
    repo.ok("snapshot", "--track", "t", "begun")
    done = repo.baton("worktree", word)
    assert done.code == 129 and f"hint: 'git worktree {word}" in done.err and not (repo.path / word).exists()
    assert "checked out in './list'" in repo.ok("worktree", "./list").out


def test_the_state_beside_is_the_state_at_the_checkpoint(busy: Sandbox, tmp_path: Path) -> None:
    status, listed = busy.git("status", "--porcelain=v2"), busy.git("ls-files", "-s", "-v")
    files, refs = seen(busy.path), busy.git("for-each-ref")
    busy.git("update-index", "--no-assume-unchanged", "kept.txt")
    busy.write("s.txt", "later\n")
    before = busy.git("status", "--porcelain=v2")
    done = busy.ok("worktree", "t", str(tmp_path / "beside"))
    beside = Sandbox(tmp_path / "beside")
    assert "checked out" in done.out and "busy" in done.out
    assert beside.git("status", "--porcelain=v2") == status
    assert beside.git("ls-files", "-s", "-v") == listed
    assert seen(beside.path) == files
    assert beside.head() == busy.head() and beside.try_git("symbolic-ref", "-q", "HEAD").code == 1
    assert busy.git("status", "--porcelain=v2") == before and busy.git("for-each-ref") == refs
    assert not list((busy.path / ".git").rglob("*.lock"))


@pytest.mark.deep
def test_conflicts_come_along(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("switch", "-q", "-c", "side")
    repo.commit("theirs", a_txt="theirs\n")
    repo.git("switch", "-q", "main")
    repo.commit("ours", a_txt="ours\n")
    assert repo.try_git("merge", "side").code == 1
    repo.ok("snapshot", "--track", "t", "--step", "in conflict")
    repo.ok("worktree", "t", str(tmp_path / "beside"))
    beside = Sandbox(tmp_path / "beside")
    assert beside.git("ls-files", "-u") == repo.git("ls-files", "-u") != ""
    assert (beside.path / "a.txt").read_bytes() == (repo.path / "a.txt").read_bytes()


def test_an_unborn_head(tmp_path: Path) -> None:
    repo = Sandbox.init(tmp_path / "repo")
    repo.write("a", "a\n")
    repo.ok("snapshot", "--track", "t", "--step", "none yet")
    done = repo.ok("worktree", "t", str(tmp_path / "beside"))
    assert "warning: the checkpoint stands on no commit" in done.err
    assert seen(tmp_path / "beside") == {"a": b"a\n"}


@pytest.mark.deep
def test_a_directory_in_use_is_refused(busy: Sandbox, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("x")
    for place in (taken, taken / "mine"):
        done = busy.baton("worktree", "t", str(place))
        assert done.code == 128 and done.err.startswith(f"fatal: '{place}' already exists")
    assert busy.baton("worktree", "nowhere", str(tmp_path / "x")).code == 2
    assert busy.baton("worktree", "t", "").code == 129
    busy.ok("snapshot", "--track", "bare", "--step", "words", "--no-files")
    done = busy.baton("worktree", "bare", str(tmp_path / "x"))
    assert done.code == 128 and "without files" in done.err
    assert busy.git("worktree", "list").count("\n") == 0 and not (tmp_path / "x").exists()


@pytest.mark.parametrize("there", [False, True])
def test_a_failure_leaves_nothing(busy: Sandbox, tmp_path: Path, there: bool) -> None:
    """A blob of the checkpoint is missing: git cannot write the file. An empty folder of the user's stays."""
    if there:
        (tmp_path / "beside").mkdir()
    blob = busy.git("rev-parse", "refs/baton/tracks/t:new/run.sh")
    loose = busy.loose(blob)
    loose.chmod(0o644)
    loose.unlink()
    done = busy.baton("worktree", "t", str(tmp_path / "beside"))
    assert done.code == 128 and done.err.startswith("fatal: ")
    assert (os.listdir(tmp_path / "beside") == []) if there else not (tmp_path / "beside").exists()
    assert busy.git("worktree", "list").count("\n") == 0


def test_an_error_of_the_system_leaves_nothing_either(busy: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: str, mode: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    place = tmp_path / "beside"
    with busy.open() as baton:
        plan = branching.plan_worktree(baton, baton.tip("t"), str(place))
        monkeypatch.setattr(os, "chmod", read_only)
        with pytest.raises(GitError, match="Read-only file system"):
            branching.apply_worktree(baton, plan)
    assert not place.exists() and busy.git("worktree", "list").count("\n") == 0


def test_a_failure_leaves_no_folder_that_is_read_only(busy: Sandbox, tmp_path: Path) -> None:
    place = tmp_path / "beside"
    code = f"""
import errno, os
from gitbaton import Baton
from gitbaton.base.errors import GitError
from gitbaton.care.tools import branching

link = os.link
def refused(source, target, **more):
    if not os.fspath(target).endswith("index.lock"):
        return link(source, target, **more)
    os.chmod(os.path.join({str(place)!r}, "new"), 0o500)
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))
os.link = refused
with Baton({str(busy.path)!r}) as baton:
    try:
        branching.apply_worktree(baton, branching.plan_worktree(baton, baton.tip("t"), {str(place)!r}))
    except GitError as error:
        print(error)
"""
    done = unprivileged(busy, code)
    assert done.out.endswith("cannot be made: Read-only file system\n") and done.err == ""
    assert not place.exists() and busy.git("worktree", "list").count("\n") == 0


@pytest.mark.deep
def test_dry_run_and_json(busy: Sandbox, tmp_path: Path) -> None:
    place = tmp_path / "beside"
    assert busy.ok("worktree", "--dry-run", "t", str(place)).out.startswith("would check out")
    assert not place.exists()
    done = busy.ok("worktree", "--json", "t", str(place)).json
    assert done["directory"] == str(place) and done["head"] == busy.head() and not done["dry_run"]
    assert seen(place)["s.txt"] == b"edited\n"
