"""The hook scripts: silent and without a process while there is nothing to say, at most three lines when there is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.places import ROOT
from tests.kit.tiers import first, some

EVENTS = ("post-checkout", "post-commit", "post-merge", "post-rewrite")
SHELLS = ("/usr/bin/dash", "/usr/bin/bash")
HOOKS = ROOT / "hooks"


def install(repo: Sandbox, shell: str = "/bin/sh") -> None:
    """Our hooks, run by a given shell."""
    repo.ok("install")
    for folder in (repo.path / ".git" / "hooks", repo.path / ".git" / "baton" / "hooks"):
        for event in EVENTS:
            script = folder / event
            script.write_bytes(script.read_bytes().replace(b"#!/bin/sh\n", f"#!{shell}\n".encode(), 1))


def snap(repo: Sandbox, step: str = "step", *more: str) -> None:
    repo.ok("snapshot", "--track", "t", "--step", step, *more)


@pytest.fixture(params=first([s for s in SHELLS if os.path.exists(s)]))
def watched(request: pytest.FixtureRequest, repo: Sandbox) -> Sandbox:
    """Two branches, our hooks, no checkpoint."""
    repo.git("branch", "side")
    repo.commit("second", a_txt="two\n")
    install(repo, request.param)
    return repo


def spoken(repo: Sandbox, *args: str, **env: str) -> list[str]:
    """What a git command that must succeed prints on standard error, without git's own chat."""
    done = repo.run("git", *args, env=env)
    assert done.code == 0, done.err
    return [line for line in done.err.splitlines() if line.startswith(("warning:", "hint:", "error:", "fatal:", "sh:", "/"))]


@pytest.mark.deep
def test_without_a_checkpoint_not_a_byte(watched: Sandbox) -> None:
    before = watched.git("config", "--list", "--local")
    for args in (
        ("checkout", "-q", "side"),
        ("merge", "-q", "main"),
        ("commit", "-q", "--allow-empty", "-m", "x"),
        ("commit", "-q", "--amend", "--allow-empty", "-m", "y"),
        ("rebase", "-q", "main"),
        ("checkout", "-q", "--detach"),
        ("checkout", "-q", "main"),
    ):
        done = watched.run("git", *args)
        assert (done.code, done.out, done.err) == (0, "", ""), args
    assert watched.git("config", "--list", "--local") == before
    assert not (watched.path / ".git/baton/rewritten").exists() and not (watched.path / ".git/baton/log").exists()


def test_drift_is_three_lines_and_home_is_none(watched: Sandbox) -> None:
    snap(watched, "lexer\nmore")
    lines = spoken(watched, "checkout", "-q", "side")
    assert len(lines) == 3
    assert lines[0].startswith("warning: HEAD has left the checkpoint 'lexer' of track 't', taken on main ")
    assert lines[1].startswith("warning: HEAD is now side ") and "branch-switched,head-behind:1" in lines[1]
    assert lines[2] == "hint: git baton resume --live"
    assert spoken(watched, "checkout", "-q", "main") == []
    assert spoken(watched, "checkout", "-q", "-b", "other") == []  # the same commit
    assert spoken(watched, "checkout", "-q", "--", "a.txt") == []


@pytest.mark.full
def test_merge_and_pull_speak_and_squash_does_not(watched: Sandbox) -> None:
    watched.git("checkout", "-q", "side")
    snap(watched)
    assert spoken(watched, "merge", "-q", "--squash", "main") == []
    watched.git("reset", "-q", "--hard")
    lines = spoken(watched, "merge", "-q", "main")
    assert len(lines) == 3 and "head-ahead:1" in lines[1]


@pytest.mark.full
@some(
    ("setting", "count"),
    [("baton.warn=never", 0), ("advice.batonDrift=false", 2), ("baton.warn=always", 3), ("baton.warn=head", 3)],
)
def test_settings_decide_how_much(repo: Sandbox, setting: str, count: int) -> None:
    repo.git("branch", "side")
    repo.commit("second")
    install(repo)
    snap(repo)
    assert len(spoken(repo, "-c", setting, "checkout", "-q", "side")) == count
    assert spoken(repo, "checkout", "-q", "main") == []
    assert spoken(repo, "checkout", "-q", "side", GIT_BATON="0") == []


@pytest.mark.full
def test_a_commit_says_one_line_and_only_when_asked(watched: Sandbox) -> None:
    snap(watched, "lexer")
    quiet = watched.path / ".git/baton/quiet"
    assert spoken(watched, "commit", "-q", "--allow-empty", "-m", "a") == [] and quiet.exists()
    os.utime(quiet, (1, 1))
    watched.git("config", "baton.warn", "Always")
    lines = spoken(watched, "commit", "-q", "--allow-empty", "-m", "b")
    assert lines == ["warning: checkpoint 'lexer' of track 't' is behind: head-ahead:2"]
    assert spoken(watched, "-c", "baton.warn=head", "commit", "-q", "--allow-empty", "-m", "c") == []
    assert len(spoken(watched, "commit", "-q", "--allow-empty", "-m", "d")) == 1


@pytest.mark.full
def test_a_changed_configuration_ends_the_quiet(watched: Sandbox) -> None:
    snap(watched)
    assert spoken(watched, "commit", "-q", "--allow-empty", "-m", "a") == []
    for key, where in (("--local", ".git/config"), ("--global", str(Path(os.environ["HOME"]) / ".gitconfig"))):
        watched.git("config", key, "baton.warn", "always")
        later = os.stat(watched.path / ".git/baton/quiet").st_mtime + 2
        os.utime(watched.path / where, (later, later))
        assert len(spoken(watched, "commit", "-q", "--allow-empty", "-m", "b")) == 1
        watched.git("config", key, "--unset", "baton.warn")
        assert spoken(watched, "commit", "-q", "--allow-empty", "-m", "c") == []


@pytest.mark.full
def test_after_an_amend_nothing_is_behind(watched: Sandbox) -> None:
    watched.git("config", "baton.warn", "always")
    snap(watched)
    assert spoken(watched, "commit", "-q", "--amend", "-m", "again") == []
    assert (watched.path / ".git/baton/expect").read_text().strip() == watched.head()
    watched.ok("verify")


@pytest.mark.full
def test_head_left_on_no_branch_is_said_where_git_is_silent(watched: Sandbox) -> None:
    watched.git("checkout", "-q", "--detach")
    watched.commit("lost")
    lost = watched.head()
    snap(watched)
    done = watched.run("git", "checkout", "main")
    assert "leaving" not in done.err
    assert f"hint: left 1 commit on no branch; a checkpoint keeps it: git branch NAME {lost}\n" in done.err


@pytest.mark.full
def test_several_commits_left_and_home_again(watched: Sandbox) -> None:
    snap(watched)  # on main, and it stays current
    watched.git("checkout", "-q", "--detach")
    assert (watched.path / ".git/baton/detached").read_text() == "1\n"
    watched.commit("one")
    lost = watched.commit("two")
    watched.ok("snapshot", "--track", "u", "--step", "s", "--no-set-current")
    done = watched.run("git", "checkout", "-q", "main")
    assert done.err == f"hint: left 2 commits on no branch; a checkpoint keeps them: git branch NAME {lost}\n"
    assert (watched.path / ".git/baton/detached").read_text() == "0\n"
    watched.git("checkout", "-q", lost)
    watched.git("branch", "kept")
    assert watched.run("git", "checkout", "-q", "main").err == ""


@pytest.mark.full
def test_no_hint_where_git_says_it_or_a_branch_holds_it(watched: Sandbox) -> None:
    snap(watched)
    watched.git("checkout", "-q", "--detach")
    watched.commit("lost")
    done = watched.run("git", "checkout", "main")
    assert "leaving 1 commit behind" in done.err and "left 1" not in done.err
    assert "hint: left" not in watched.run("git", "checkout", "side").err
    watched.git("config", "baton.warn", "never")
    watched.git("checkout", "-q", "--detach")
    watched.commit("kept")
    snap(watched)
    assert watched.run("git", "checkout", "-q", "main").err == ""


def strace(repo: Sandbox, *args: str) -> list[str]:
    """The programs that a git command starts in our hooks, ourselves included."""
    log = repo.path.parent / "strace"
    repo.run("strace", "-f", "-qq", "-e", "trace=execve", "-e", "signal=none", "-o", str(log), "git", *args)
    programs = [line.split('execve("', 1)[1].split('"')[0] for line in log.read_text().splitlines() if "= 0" in line]
    after = next((i for i, p in enumerate(programs) if ".git/hooks/" in p or "baton/hooks" in p), len(programs))
    return programs[after:]


@pytest.mark.full
@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
@some("event", ["post-checkout", "post-merge", "post-commit"])
def test_the_quiet_path_starts_no_process(repo: Sandbox, event: str) -> None:
    repo.git("branch", "same")
    install(repo)
    snap(repo)
    commit = ("commit", "-q", "--allow-empty", "-m", "x")
    args = {"post-checkout": ("checkout", "-q", "same"), "post-merge": ("merge", "-q", "same"), "post-commit": commit}[event]
    if event == "post-merge":
        head = repo.head()
        repo.git("checkout", "-q", "same")
        repo.commit("more")
        snap(repo)
        repo.git("update-ref", "refs/heads/main", head)
        repo.git("checkout", "-q", "main")
        (repo.path / ".git/baton/expect").write_text(repo.git("rev-parse", "same") + "\n")
    if event == "post-commit":
        os.utime(repo.path / ".git/config", (1, 1))
        repo.git("commit", "-q", "--allow-empty", "-m", "stamps the quiet")
    assert strace(repo, *args) == [f".git/hooks/{event}"]


@pytest.mark.full
@pytest.mark.skipif(shutil.which("strace") is None, reason="no strace")
def test_a_linked_work_tree_is_as_quiet(repo: Sandbox) -> None:
    repo.git("branch", "same")
    install(repo)
    repo.git("worktree", "add", "-q", "../a 'b' \"c\"", "same")
    tree = Sandbox(repo.path.parent / "a 'b' \"c\"")
    snap(tree)
    assert [os.path.basename(p) for p in strace(tree, "checkout", "-q", "-b", "new")] == ["post-checkout"]
    tree.commit("more")
    snap(tree)
    lines = spoken(tree, "checkout", "-q", "same")
    assert len(lines) == 3 and "head-behind:1" in lines[1]
    assert spoken(tree, "checkout", "-q", "new") == []


@some("name", ["with space", "quo\"te's", "-dash", "new\nline", "back\\slash", "trailing "], 2)
def test_paths_of_any_kind(tmp_path: Path, name: str) -> None:
    repo = Sandbox.init(tmp_path / "top" / name)
    repo.commit("first", a_txt="1\n")
    folder = repo.path / ".git/hooks"
    folder.mkdir(exist_ok=True)
    for event in EVENTS:
        shutil.copy(HOOKS / event, folder / event)
    (repo.path / ".git/baton").mkdir(exist_ok=True)
    (repo.path / ".git/baton/expect").write_text("0" * 40 + "\n")
    repo.git("branch", "side")
    assert repo.run("git", "checkout", "-q", "side").code == 0
    linked = Sandbox(tmp_path / f"linked{name}")
    repo.git("worktree", "add", "-q", "-b", "linked", str(linked.path))
    state = Path(linked.git("rev-parse", "--absolute-git-dir")) / "baton"
    state.mkdir(exist_ok=True)
    done = linked.run("git", "checkout", "-q", "--detach")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert (state / "detached").exists()


@pytest.mark.full
def test_separate_git_directories_and_submodules(repo: Sandbox, tmp_path: Path) -> None:
    for form in ("absolute", "relative"):
        other = Sandbox.init(tmp_path / form, f"--separate-git-dir={tmp_path / (form + '.git')}")
        if form == "relative":
            other.write(".git", "gitdir: ../relative.git\n")
        other.commit("first", a_txt="1\n")
        other.git("branch", "side")
        other.commit("second")
        other.ok("install")
        snap(other)
        assert len(spoken(other, "checkout", "-q", "side")) == 3
        assert spoken(other, "-C", str(tmp_path), "--git-dir", f"{form}/.git", "--work-tree", form, "checkout", "main") == []
        relative = spoken(other, "-C", str(tmp_path), "--git-dir", f"{form}/.git", "--work-tree", form, "checkout", "side")
        assert len(relative) == 3
    repo.git("submodule", "--quiet", "add", str(tmp_path / "absolute"), "sub")
    sub = Sandbox(repo.path / "sub")
    sub.git("checkout", "-q", "-b", "fresh")
    sub.commit("deeper")
    sub.ok("install")
    snap(sub)
    assert len(spoken(sub, "checkout", "-q", "-")) == 3
    assert spoken(repo, "submodule", "--quiet", "update", "--init") == []


@pytest.mark.deep
def test_reftable_asks_git_and_says_the_same(tmp_path: Path, new_git: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").symlink_to(os.path.realpath(shutil.which(new_git) or new_git))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    repo = Sandbox.init(tmp_path / "r", "--ref-format=reftable")
    repo.commit("first", a_txt="1\n")
    repo.git("branch", "side")
    repo.commit("second")
    repo.ok("install")
    snap(repo)
    assert len(spoken(repo, "checkout", "-q", "side")) == 3
    assert len(spoken(repo, "merge", "-q", "--no-ff", "-m", "m", "main")) == 3
    assert spoken(repo, "checkout", "-q", "main") == []
    repo.git("checkout", "-q", "--detach")
    lost = repo.commit("lost")
    snap(repo)
    assert f"git branch NAME {lost}" in repo.run("git", "checkout", "-q", "main").err


def test_python_keeps_a_log_and_nothing_else(repo: Sandbox) -> None:
    install(repo)
    snap(repo)
    ref = repo.path / ".git/refs/baton/tracks/t"
    ref.write_text("0123456789012345678901234567890123456789\n")
    done = repo.run(sys.executable, "-m", "gitbaton", "hook", "git", "post-merge", "0")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert "hook git post-merge 0: RecordError" in (repo.path / ".git/baton/log").read_text()
    for words in (["hook", "git"], ["hook", "git", "post-unknown"], ["hook", "git", "post-rewrite"], ["hook", "git", "x\ny"]):
        done = repo.run(sys.executable, "-m", "gitbaton", *words, stdin=b"\xff\x00 garbage\n")
        assert (done.code, done.out, done.err) == (0, "", ""), words


def test_the_guard_is_reached_before_typer(repo: Sandbox) -> None:
    code = "import sys; sys.argv = ['git-baton', 'hook', 'git', 'post-merge', '0']\n"
    code += "import os; os._exit = lambda code: sys.exit(1 if 'typer' in sys.modules or 'pygit2' in sys.modules else 0)\n"
    done = repo.run(sys.executable, "-c", code + "from gitbaton.cli.main import run; run()")
    assert (done.code, done.err) == (0, "")
