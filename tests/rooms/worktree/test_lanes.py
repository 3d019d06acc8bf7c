"""Lanes: a work tree of one's own that carries everything, follows the user's, keeps git in it, and is gone afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.base.system import groups
from gitbaton.base.system.groups import ChildProcess
from gitbaton.git.repo import Repo, discover
from gitbaton.git.worktree.crashmarker import sweep
from gitbaton.git.worktree.isolated import Lane
from tests.kit import Sandbox, find_new_git
from tests.kit.commands import until
from tests.kit.doors import build
from tests.kit.moments import always, at
from tests.kit.processes import in_child
from tests.kit.tiers import some


def shown(top: Path) -> dict[str, tuple[int, object, int]]:
    """Everything below a folder that a command can see: type, mode, content, time."""
    found: dict[str, tuple[int, object, int]] = {}
    for place, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            at = os.lstat(path)
            kind = stat.S_IFMT(at.st_mode)
            if kind == stat.S_IFREG:
                content: object = Path(path).read_bytes()
            else:
                content = os.readlink(path) if kind == stat.S_IFLNK else None
            if kind in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
                found[os.path.relpath(path, top)] = (at.st_mode, content, at.st_mtime_ns)
    return {path: seen for path, seen in found.items() if path.split("/")[0] != ".git"}


def inside(lane: Lane, *argv: str) -> str:
    """A command in the lane, as a step runs it."""
    return subprocess.run(
        argv, cwd=lane.path, env=lane.environment(), check=True, capture_output=True, text=True
    ).stdout.rstrip("\n")


def state(repo: Sandbox) -> tuple[object, ...]:
    """What of the user's repository must not change: HEAD, refs, the index's bytes, what git lists, the files."""
    return (
        (repo.path / ".git/HEAD").read_bytes(),
        repo.git("for-each-ref"),
        (repo.path / ".git/index").read_bytes() if (repo.path / ".git/index").exists() else None,
        repo.git("worktree", "list", "--porcelain"),
        shown(repo.path),
    )


@pytest.fixture
def lane(repo: Sandbox) -> Iterator[Lane]:
    with closing(Lane(discover(str(repo.path)))) as made:
        yield made


# --- git in the lane


@pytest.mark.full
@some("name", ["libgit2", "binary", "sha256", "reftable"], 2)
def test_git_means_the_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    repo = build(tmp_path / "repo", name, monkeypatch).sandbox
    repo.git("tag", "-a", "v1", "-m", "v1")
    repo.write("staged", "staged\n")
    repo.git("add", "staged")
    repo.write("a.txt", "changed\n")
    repo.write("new", "new\n")
    before, status = state(repo), repo.git("status", "--porcelain", "-uall")
    with closing(Lane(discover(str(repo.path)))) as lane:
        lane.sync()
        assert inside(lane, "git", "rev-parse", "--show-toplevel", "--is-inside-work-tree") == f"{lane.path}\ntrue"
        assert inside(lane, "git", "status", "--porcelain", "-uall") == status
        assert inside(lane, "git", "rev-parse", "HEAD") == repo.head()
        assert inside(lane, "git", "describe") == "v1"
        assert inside(lane, "git", "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
        repo.git("worktree", "prune")
        assert lane.path in repo.git("worktree", "list")
        repo.fsck()
        for _ in range(2):
            inside(lane, "git", "add", "-A")
            inside(lane, "git", "commit", "-qm", "in the lane")
            assert inside(lane, "git", "rev-parse", "HEAD~1") == repo.head()
            Path(lane.git_dir, "index.lock").touch()
            Path(lane.git_dir, "MERGE_HEAD").write_text(repo.head() + "\n")
            Path(lane.path, ".git").unlink()
            lane.sync()
            assert inside(lane, "git", "status", "--porcelain", "-uall") == status
            assert inside(lane, "git", "rev-parse", "HEAD") == repo.head()
        repo.git("commit", "-qam", "meanwhile")
        lane.sync()
        assert inside(lane, "git", "rev-parse", "HEAD") == repo.head()
        repo.git("reset", "-q", "--soft", "HEAD~1")
        repo.git("reset", "-q", "a.txt")
        place, git_dir = lane.path, lane.git_dir
    assert not os.path.exists(place) and not os.path.exists(git_dir)
    after = state(repo)
    assert after[:2] + after[3:] == before[:2] + before[3:]
    assert repo.git("status", "--porcelain", "-uall") == status


@pytest.mark.deep
def test_packed_and_detached_heads_are_followed(repo: Sandbox, lane: Lane) -> None:
    repo.git("pack-refs", "--all")
    lane.sync()
    assert inside(lane, "git", "rev-parse", "HEAD") == repo.head()
    repo.commit("second", b_txt="2\n")
    repo.git("pack-refs", "--all")
    lane.sync()
    assert inside(lane, "git", "rev-parse", "HEAD") == repo.head()
    repo.git("checkout", "-q", "--detach", "HEAD~1")
    lane.sync()
    assert inside(lane, "git", "rev-parse", "HEAD") == repo.head()
    repo.git("checkout", "-q", "main")
    repo.git("symbolic-ref", "refs/heads/other", "refs/heads/main")
    repo.git("symbolic-ref", "HEAD", "refs/heads/other")
    for number in range(2):
        repo.commit(f"more {number}")
        lane.sync()
        assert inside(lane, "git", "rev-parse", "HEAD") == repo.head()


@pytest.mark.parametrize("reftable", [False, True])
def test_before_the_first_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reftable: bool) -> None:
    options: tuple[str, ...] = ()
    if reftable:
        git = find_new_git()
        if git is None:
            pytest.skip("no git of 2.45 or newer: set GITBATON_TEST_GIT")
        monkeypatch.setenv("PATH", os.path.dirname(git) + os.pathsep + os.environ["PATH"])
        options = ("--ref-format=reftable",)
    repo = Sandbox.init(tmp_path / "repo", *options)
    repo.write("f", "f\n")
    before = state(repo)
    with closing(Lane(discover(str(repo.path)))) as lane:
        lane.sync()
        assert inside(lane, "git", "status", "--porcelain") == "?? f"
        inside(lane, "git", "add", "-A")
        inside(lane, "git", "commit", "-qm", "root")
        lane.sync()
        assert inside(lane, "git", "status", "--porcelain") == "?? f"
    assert state(repo) == before


def test_a_newer_git_knows_the_lane(repo: Sandbox, lane: Lane, new_git: str) -> None:
    lane.sync()
    newer = Sandbox(repo.path, new_git)
    newer.git("worktree", "prune")
    assert f"worktree {lane.path}\nHEAD {repo.head()}\ndetached" in newer.git("worktree", "list", "--porcelain")
    assert (
        inside(lane, new_git, "status", "--porcelain") == ""
        and inside(lane, new_git, "rev-parse", "--show-toplevel") == lane.path
    )


def test_conflicts_split_and_sparse_indexes_come_along(repo: Sandbox) -> None:
    repo.commit("two", a_txt="two\n", b_txt="b\n")
    repo.write("d/f", "f\n")
    repo.commit("folder")
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("sparse-checkout", "set", "d")
    repo.git("checkout", "-q", "-b", "side", "HEAD~2")
    repo.commit("side", a_txt="side\n")
    repo.git("update-index", "--split-index")
    repo.try_git("merge", "main")
    status = repo.git("status", "--porcelain")
    assert "AA a.txt" in status or "UU a.txt" in status
    with closing(Lane(discover(str(repo.path)))) as lane:
        lane.sync()
        assert inside(lane, "git", "status", "--porcelain") == status
        assert inside(lane, "git", "ls-files", "-s", "-v") == repo.git("ls-files", "-s", "-v")
        assert inside(lane, "git", "sparse-checkout", "list") == "d"


@pytest.mark.deep
def test_nested_repositories_are_the_lanes_own(repo: Sandbox, tmp_path: Path) -> None:
    """A submodule, a linked work tree and a repository inside: what git does to the copies does not reach the originals."""
    other = Sandbox.init(tmp_path / "other")
    other.commit("other", o_txt="1\n")
    repo.git("submodule", "add", "-q", str(other.path), "sub")
    repo.commit("with a submodule")
    repo.git("worktree", "add", "-q", "linked")
    inner = Sandbox.init(repo.path / "inner")
    inner.commit("inner", i_txt="1\n")
    nested = [Sandbox(repo.path / name) for name in ("sub", "linked", "inner")]
    before = [(r.head(), r.git("status", "--porcelain"), r.git("ls-files", "-s")) for r in nested]
    status = repo.git("status", "--porcelain")
    with closing(Lane(discover(str(repo.path)))) as lane:
        for _ in range(2):
            lane.sync()
            assert inside(lane, "git", "status", "--porcelain") == status
            for name, was in zip(("sub", "linked", "inner"), before, strict=True):
                at = os.path.join(lane.path, name)
                assert inside(lane, "git", "-C", name, "rev-parse", "--show-toplevel") == at
                assert inside(lane, "git", "-C", name, "rev-parse", "HEAD") == was[0]
                assert inside(lane, "git", "-C", name, "status", "--porcelain") == was[1]
                inside(lane, "sh", "-c", f"cd {name} && echo x >new && git add new && git commit -qm lane && git rm -q new")
            assert lane.changed(lambda path: False) == {}
        assert "baton-step-" in nested[0].git("worktree", "list")
    assert [(r.head(), r.git("status", "--porcelain"), r.git("ls-files", "-s")) for r in nested] == before
    assert len(nested[0].git("worktree", "list").splitlines()) == 1
    assert len(repo.git("worktree", "list").splitlines()) == 2


def test_a_lane_of_a_linked_work_tree(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Sandbox(tmp_path / "side")
    side.commit("on the side", s_txt="s\n")
    side.write("s.txt", "changed\n")
    with closing(Lane(discover(str(side.path)))) as lane:
        lane.sync()
        assert inside(lane, "git", "rev-parse", "HEAD") == side.head()
        assert inside(lane, "git", "status", "--porcelain") == side.git("status", "--porcelain")
    assert len(repo.git("worktree", "list").splitlines()) == 2


def test_no_variable_leads_git_elsewhere(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(repo.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repo.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo.path / ".git/index"))
    monkeypatch.chdir(repo.path)
    with closing(Lane(discover(None))) as lane:
        lane.sync()
        assert inside(lane, "git", "rev-parse", "--show-toplevel") == lane.path
        env = lane.environment()
        assert "GIT_DIR" not in env and "GIT_INDEX_FILE" not in env
        assert str(env["GIT_CEILING_DIRECTORIES"]).startswith(os.path.dirname(lane.path) + ":")


# --- where it lies, and that it goes


def test_it_lies_beside_the_work_tree_but_in_no_other(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Lane(discover(str(repo.path)))) as lane:
        assert Path(lane.path).parent == tmp_path.resolve() and stat.S_IMODE(os.stat(lane.path).st_mode) == 0o700
    inner = Sandbox.init(repo.path / "inner")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    for where, expected in ((temporary, temporary.resolve()), (inner.path / "t", inner.path.resolve() / ".git/baton/lanes")):
        where.mkdir(exist_ok=True)
        monkeypatch.setattr(tempfile, "tempdir", str(where))
        with closing(Lane(discover(str(inner.path)))) as lane:
            lane.sync()
            assert Path(lane.path).parent == expected
            assert inside(lane, "git", "rev-parse", "--show-toplevel", "--is-inside-work-tree") == f"{lane.path}\ntrue"
            assert sorted(os.listdir(lane.path)) == sorted(
                [".git", *(p.name for p in inner.path.iterdir() if p.name != ".git")]
            )
    bare = Sandbox.init(tmp_path / "bare", "--bare")
    with pytest.raises(GitError, match="no work tree"):
        Lane(discover(str(bare.path)))


def left(repo: Sandbox) -> list[str]:
    """What lies beside the work tree, among git's registrations and ours, and the markers."""
    baton = repo.path / ".git/baton"
    places = (repo.path.parent, repo.path / ".git/worktrees", baton / "lanes.new", baton / "isolated")
    return [str(p) for place in places if place.is_dir() for p in place.iterdir() if p.name.startswith("baton-step-")]


def killed(opened: Repo, at: int) -> bool:
    """Use a lane in a process that is killed, with its group, at the ``at``-th thing it does; whether it was."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL)
        return code != 0
    try:
        os.setpgid(0, 0)
        left = [at]

        def hook(event: str, args: tuple[object, ...]) -> None:
            if event in ("os.posix_spawn", "os.rename", "os.mkdir", "fcntl.flock", "os.chmod", "os.remove", "os.rmdir"):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(0, signal.SIGKILL)

        sys.addaudithook(hook)
        with closing(Lane(opened)) as lane:
            lane.sync()
            Path(lane.path, "a.txt").unlink()
            lane.changed(lambda path: False)
        os._exit(0)
    except BaseException as error:
        os.write(2, repr(error).encode())
        os._exit(1)


@pytest.mark.deep
def test_killed_at_every_step(repo: Sandbox, tmp_path: Path) -> None:
    other = Sandbox.init(tmp_path / "other")
    other.commit("other")
    repo.git("submodule", "add", "-q", str(other.path), "sub")
    opened, before, at = discover(str(repo.path), door="binary"), state(repo), 1
    opened.settings()
    while killed(opened, at):
        sweep(opened)
        assert not left(repo), at
        at += 1
    assert at > 15 and state(repo) == before and not left(repo)
    assert not (repo.path / ".git/modules/sub/worktrees").exists()


STEP = "echo $$ >'{note}.new'; mv '{note}.new' '{note}'; while :; do touch f; sleep 0.01; done"


def ended(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.deep
def test_what_a_killed_owner_left_running_is_ended_by_the_next(repo: Sandbox, tmp_path: Path) -> None:
    note, word, opened = tmp_path / "note", os.urandom(8).hex(), discover(str(repo.path), door="binary")
    child = os.fork()
    if child == 0:
        try:
            lane = Lane(opened)
            lane.sync()
            lane.runs(ChildProcess(word=word))
            env = {**os.environ, groups.VARIABLE: f"outer {word}"}
            subprocess.Popen(["sh", "-c", STEP.format(note=note)], cwd=lane.path, env=env, start_new_session=True)
            until(note.exists)
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert left(repo) and not ended(note.read_text().strip())
    sweep(opened)
    with closing(Lane(opened)) as lane:
        assert {os.path.basename(place) for place in left(repo)} == {os.path.basename(lane.path)}
    assert ended(note.read_text().strip()) and not left(repo)


def abandoned(repo: Sandbox) -> None:
    """A lane whose owner has ended without a word."""
    assert in_child(lambda: Lane(discover(str(repo.path))).sync()) == 0


@pytest.mark.deep
def test_what_its_owner_left_goes_with_the_next(repo: Sandbox, tmp_path: Path) -> None:
    other = Sandbox.init(tmp_path / "other")
    other.commit("other")
    repo.git("submodule", "add", "-q", str(other.path), "sub")
    before, opened = state(repo), discover(str(repo.path))
    abandoned(repo)
    (dead,) = repo.path.parent.glob("baton-step-*")
    os.chmod(dead / "sub", 0)
    alive = Lane(opened)
    alive.sync()
    sweep(opened)
    assert not dead.exists() and os.path.exists(alive.path)
    assert len(os.listdir(repo.path / ".git/modules/sub/worktrees")) == 1
    alive.close()
    alive.close()
    assert state(repo) == before and not left(repo)


@pytest.mark.parametrize(("host", "boot", "swept"), [("far", "far", False), ("far", None, True), (None, "before", True)])
def test_what_another_machine_left_is_its_own(repo: Sandbox, host: str | None, boot: str | None, swept: bool) -> None:
    abandoned(repo)
    (marker,) = (repo.path / ".git/baton/isolated").iterdir()
    first, rest = marker.read_text().split("\n", 1)
    word, here, now = json.loads(first)
    marker.write_text(json.dumps([word, host or here, boot or now]) + "\n" + rest)
    sweep(discover(str(repo.path)))
    assert bool(left(repo)) != swept


def test_what_cannot_be_removed_is_tried_again_by_the_next(repo: Sandbox) -> None:
    def refuse(_: object) -> None:
        raise PermissionError(1, os.strerror(1))

    opened = discover(str(repo.path))
    with at("os.rmdir", always, refuse), pytest.raises(GitError, match="could not be removed"), closing(Lane(opened)):
        pass
    assert left(repo)
    sweep(opened)
    assert not left(repo)


def test_the_folders_around_it_keep_their_permissions(repo: Sandbox) -> None:
    around = (repo.path.parent, repo.path / ".git", repo.path / ".git/worktrees")
    with closing(Lane(discover(str(repo.path)))):  # that of another, so that the folder of both stays
        for folder in around:
            folder.chmod(0o755)
        with closing(Lane(discover(str(repo.path)))) as gone:
            subprocess.run(["rm", "-rf", gone.path, gone.git_dir], check=True)
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in around] == [0o755] * 3


def test_no_link_that_a_command_left_is_followed(repo: Sandbox, lane: Lane, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("somebody's")
    lane.sync()
    os.symlink(kept, os.path.join(lane.git_dir, "link"))
    os.unlink(os.path.join(lane.path, ".git"))
    os.symlink(kept, os.path.join(lane.path, ".git"))
    lane.sync()
    assert (kept / "file").read_text() == "somebody's" and not os.path.lexists(os.path.join(lane.git_dir, "link"))
    assert Path(lane.path, ".git").read_text() == f"gitdir: {lane.git_dir}\n"


@pytest.mark.parametrize("wrecked", ["gone", "garbage", "link"])
def test_what_a_command_did_to_the_lanes_own_refs_is_undone(repo: Sandbox, lane: Lane, wrecked: str) -> None:
    lane.sync()
    inside(lane, "git", "update-ref", "refs/worktree/mine", "HEAD")
    inside(lane, "git", "update-ref", "refs/bisect/bad", "HEAD")
    head = Path(lane.git_dir) / "HEAD"
    head.unlink()
    if wrecked == "garbage":
        head.write_text("nonsense\n")
    elif wrecked == "link":
        head.symlink_to(repo.path / ".git/HEAD")
    lane.sync()
    assert inside(lane, "git", "rev-parse", "HEAD") == repo.git("rev-parse", "HEAD")
    assert inside(lane, "git", "for-each-ref", "--format=%(refname)") == repo.git("for-each-ref", "--format=%(refname)")
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"


@pytest.mark.deep
def test_a_git_that_outlives_its_owner_is_not_swept_under_its_hands(
    repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, there = shutil.which("git"), tmp_path / "bin"
    there.mkdir()
    script = f'case " $* " in *" worktree add "*) touch "{there}/begun"; until test -e "{there}/go"; do sleep 0.01; done;; esac'
    (there / "git").write_text(f'#!/bin/sh\n{script}\n{real} "$@"; code=$?; rm -f "{there}/begun"; exit $code\n')
    (there / "git").chmod(0o755)
    opened = discover(str(repo.path), door="binary")
    opened.settings()
    child = os.fork()
    if child == 0:
        os.environ["PATH"] = f"{there}:{os.environ['PATH']}"
        opened.git.env["PATH"] = os.environ["PATH"]  # type: ignore[index]
        try:
            Lane(opened)
        finally:
            os._exit(1)
    until((there / "begun").exists)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    sweep(opened)
    assert left(repo), "git is about to make the rest of it"
    (there / "go").touch()
    until(lambda: not (there / "begun").exists())

    def swept() -> bool:
        sweep(opened)
        return not left(repo)

    until(swept)
