"""A guard never breaks the guarded (T09), leaves the index alone (T11, T12), and does not slow with history (T14)."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import path_without_us
from tests.kit.places import program
from tests.kit.tiers import some

EVENTS = ("post-checkout", "post-commit", "post-merge", "post-rewrite")
COMMANDS = (
    ("checkout", "side"),
    ("merge", "-m", "m", "other"),
    ("commit", "--allow-empty", "-m", "x"),
    ("commit", "--amend", "--allow-empty", "-m", "y"),
    ("rebase", "main"),
    ("checkout", "--detach", "HEAD~1"),
    ("checkout", "nowhere"),
    ("push", "-q", "up", "main"),
    ("checkout", "main"),
)


def make(path: Path, tmp_path: Path) -> Sandbox:
    repo = Sandbox.init(path)
    repo.commit("first", a_txt="1\n")
    repo.git("branch", "side")
    repo.git("checkout", "-q", "-b", "other")
    repo.commit("on other", o_txt="1\n")
    repo.git("checkout", "-q", "main")
    repo.commit("second", a_txt="2\n")
    repo.git("init", "-q", "--bare", str(tmp_path / f"{path.name}.git"))
    repo.git("remote", "add", "up", str(tmp_path / f"{path.name}.git"))
    return repo


def ran(repo: Sandbox) -> list[tuple[int, str, str]]:
    return [(done.code, done.out, done.err) for done in (repo.run("git", *args) for args in COMMANDS)]


def shim(folder: Path, text: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A ``git-baton`` that stands first on PATH."""
    folder.mkdir()
    (folder / "git-baton").write_text(text)
    (folder / "git-baton").chmod(0o755)
    return lambda patch: patch.setenv("PATH", os.pathsep.join([str(folder), path_without_us()]))


def without_git_baton(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PATH", path_without_us())


def no_interpreter(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shim(tmp_path / "shim", "#!/nowhere/venv/bin/python\n")(patch)


def python_raises(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shim(tmp_path / "shim", program("raise ImportError('line\\nline')\n"))(patch)


def killed(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shim(tmp_path / "shim", "#!/bin/sh\nkill -9 $$\n")(patch)


def corrupt_refs(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("refs/baton/tracks/t", "refs/checkpoints/t", "refs/notes/checkpoints", "BATON_HEAD"):
        for top in (repo.path, tmp_path / "a"):  # git itself minds a broken ref when it leaves a detached HEAD
            path = top / ".git" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("garbage\n")
    repo.git("config", "--unset-all", "notes.rewriteRef")  # git itself complains of a broken notes ref


def empty_expect(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    (repo.path / ".git/baton/expect").write_text("")


def garbage_everywhere(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("expect", "rewritten", "detached", "quiet", "flock", "log"):
        (repo.path / ".git/baton" / name).write_bytes(b"\xff\x00\n" * 3)


def folders_instead_of_files(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    for name in ("expect", "rewritten", "detached", "quiet", "flock", "log"):
        path = repo.path / ".git/baton" / name
        if path.exists():
            path.unlink()
        path.mkdir()


def no_folder(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(repo.path / ".git/baton")


def full_disk(repo: Sandbox, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    full = {"rewritten": "/dev/full", "log": "/dev/full", "detached": "/nowhere/detached", "quiet": "/nowhere/quiet"}
    for name, target in full.items():  # what a hook reads must end
        path = repo.path / ".git/baton" / name
        path.unlink(missing_ok=True)
        path.symlink_to(target)


DAMAGE = (
    without_git_baton,
    no_interpreter,
    python_raises,
    killed,
    corrupt_refs,
    empty_expect,
    garbage_everywhere,
    folders_instead_of_files,
    no_folder,
    full_disk,
)


@some("damage", DAMAGE, share=6)
@some("shell", ["/bin/dash", "/bin/bash"])
def test_t09_every_command_exits_as_without_us(
    tmp_path: Path, damage: Callable[[Sandbox, Path, pytest.MonkeyPatch], None], shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, ours = make(tmp_path / "a", tmp_path), make(tmp_path / "b", tmp_path)
    ours.ok("install")
    for event in EVENTS:
        script = ours.path / ".git/hooks" / event
        script.write_bytes(script.read_bytes().replace(b"#!/bin/sh", b"#!" + shell.encode(), 1))
    ours.ok("snapshot", "--track", "t", "--step", "s", "--no-files")
    ours.git("config", "baton.warn", "always")
    damage(ours, tmp_path, monkeypatch)
    for command, theirs, with_us in zip(COMMANDS, ran(plain), ran(ours), strict=True):
        assert with_us[0] == theirs[0], (command, with_us)
        assert with_us[1].replace("/b", "/a") == theirs[1].replace("/b", "/a"), command
        own = [line for line in with_us[2].splitlines() if line not in theirs[2].splitlines()]
        drift = ("warning: HEAD", "warning: checkpoint", "hint: git baton")
        own = [line for line in own if not (damage in (full_disk, garbage_everywhere) and line.startswith(drift))]
        assert len(own) <= 1, (command, own)
    assert plain.git("rev-parse", "--branches", "HEAD") == ours.git("rev-parse", "--branches", "HEAD")


@contextmanager
def held(repo: Sandbox) -> Iterator[None]:
    with open(repo.path / ".git/baton/flock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.mark.full
def test_t09_a_lock_that_somebody_holds_delays_and_changes_nothing(tmp_path: Path) -> None:
    repo = make(tmp_path / "r", tmp_path)
    repo.ok("install")
    repo.git("config", "--unset", "notes.rewriteRef")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    with held(repo):
        done = repo.run("git", "commit", "-q", "--amend", "-m", "x")
        assert (done.code, done.out, done.err) == (0, "", "")
        assert len(repo.run("git", "checkout", "-q", "side").err.splitlines()) == 3
    assert "is held by another process" in (repo.path / ".git/baton/log").read_text()


@pytest.mark.deep
def test_t09_a_read_only_repository_and_a_closed_or_full_standard_error(tmp_path: Path) -> None:
    repo = make(tmp_path / "r", tmp_path)
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    for target in ("2>/dev/full", "2>&-", "2>&- >&-", ">/dev/full 2>/dev/full", "2>&- <&- >&-"):
        for branch in ("side", "main"):
            done = subprocess.run(["sh", "-c", f"git checkout -q {branch} {target}"], cwd=repo.path)
            assert done.returncode == 0, (target, branch)


@pytest.mark.deep
def test_t09_the_users_own_exit_status_is_kept(tmp_path: Path) -> None:
    repo = make(tmp_path / "r", tmp_path)
    for event in EVENTS:
        hook = repo.path / ".git/hooks" / event
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f'#!/bin/sh\necho "{event} $*" >>"{tmp_path}/called"\nexit 7\n')
        hook.chmod(0o755)
    before = ran(repo)
    called = (tmp_path / "called").read_text()
    (tmp_path / "called").unlink()
    again = make(tmp_path / "s", tmp_path)
    shutil.rmtree(again.path / ".git/hooks")
    shutil.copytree(repo.path / ".git/hooks", again.path / ".git/hooks")
    again.ok("install")
    again.ok("snapshot", "--track", "t", "--step", "s")
    after = ran(again)
    assert [row[0] for row in after] == [row[0] for row in before]
    assert after[0][0] == 1  # git makes 1 of the hook's 7
    assert (tmp_path / "called").read_text() == called


def index_state(repo: Sandbox) -> tuple[bytes, int, int]:
    path = repo.path / ".git/index"
    found = os.stat(path)
    return path.read_bytes(), found.st_mtime_ns, found.st_ino


@pytest.mark.deep
def test_t11_partial_commits_hold_what_they_hold_without_us(tmp_path: Path) -> None:
    trees = []
    for name in ("a", "b"):
        repo = Sandbox.init(tmp_path / name)
        repo.commit("first", a_txt="".join(f"{i}\n" for i in range(20)), b_txt="1\n", c_txt="1\n")
        if name == "b":
            repo.ok("install")
            repo.ok("snapshot", "--track", "t", "--step", "s")
            repo.git("config", "baton.warn", "always")
        repo.write("b.txt", "2\n")
        repo.write("c.txt", "2\n")
        repo.write("a.txt", "top\n" + "".join(f"{i}\n" for i in range(20)) + "end\n")
        repo.git("add", "c.txt")
        states = []
        for args in (("commit", "-q", "-m", "path", "b.txt"), ("commit", "-q", "--amend", "-m", "path again", "b.txt")):
            repo.git(*args)
            states.append(repo.git("ls-files", "-s"))
        repo.run("git", "add", "-p", "a.txt", stdin=b"y\nn\n")
        repo.git("commit", "-q", "-m", "part")
        repo.write("b.txt", "3\n")
        repo.git("commit", "-q", "-a", "-m", "all")
        trees.append((repo.git("log", "--format=%T %s"), states, repo.git("ls-files", "-s"), repo.git("status", "--porcelain")))
        repo.fsck()
    assert trees[0] == trees[1]


@some("index", ["index.lock", "next-index-1234.lock"])
def test_t11_our_calls_with_a_hooks_environment_leave_the_index_alone(repo: Sandbox, index: str) -> None:
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.commit("more", b_txt="1\n")
    shutil.copy(repo.path / ".git/index", repo.path / ".git" / index)
    before = index_state(repo), (repo.path / ".git" / index).read_bytes()
    env = {"GIT_INDEX_FILE": f".git/{index}", "GIT_DIR": ".git"}
    for event in EVENTS:
        done = repo.run(str(repo.path / ".git/hooks" / event), "0" * 40, repo.head(), "1", env=env)
        assert done.code == 0 and len(done.err.splitlines()) <= 3
    assert before == (index_state(repo), (repo.path / ".git" / index).read_bytes())
    assert stat.S_ISREG(os.stat(repo.path / ".git" / index).st_mode)


@pytest.mark.deep
def test_t12_no_command_of_this_part_writes_the_index(repo: Sandbox) -> None:
    repo.commit("more", b_txt="1\n")
    repo.git("branch", "side", "HEAD~1")
    os.utime(repo.path / "a.txt", (1, 1))  # stale stat data: git status would write
    before = index_state(repo)
    for words in (["install"], ["snapshot", "--track", "t", "--step", "s"], ["doctor"], ["doctor", "--fix"], ["install"]):
        repo.baton(*words)
        assert index_state(repo) == before, words
    repo.baton("hook", "git", "post-checkout", "0" * 40, "1" * 40, "1")
    repo.ok("uninstall", "--purge", "--yes")
    assert index_state(repo) == before


BROKEN = """
import sys
import gitbaton.agents.hooks as hooks
from gitbaton.cli.main import run
def broken(words):
    raise {error}
hooks.dispatch = broken
sys.argv = ["git-baton", "hook", "claude", "Stop"]
run()
"""


@pytest.mark.deep
@pytest.mark.parametrize("error", ["ImportError('a module of ours is broken')", "MemoryError", "SystemExit(3)"])
def test_a_hook_that_cannot_even_begin_exits_as_if_there_were_none(repo: Sandbox, error: str) -> None:
    done = repo.run(sys.executable, "-c", BROKEN.replace("{error}", error))
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.full
def test_t14_hooks_look_at_no_history(repo: Sandbox) -> None:
    """Quiet or not, the number of processes and of files that a hook opens is the same with 10,000 refs and 300 checkpoints."""
    repo.git("branch", "side")
    repo.commit("more")
    repo.ok("install")
    repo.ok("snapshot", "--track", "t", "--step", "0", "--no-files")
    counts = [opened(repo, "side")]
    with repo.open() as baton:
        for number in range(300):
            baton.snapshot(str(number), track="t", files=False)
    tip = repo.head()
    stdin = "".join(f"create refs/tags/t{i} {tip}\n" for i in range(10_000)).encode()
    repo.git("update-ref", "--stdin", stdin=stdin)
    repo.git("pack-refs", "--all")
    counts.append(opened(repo, "side"))
    for few, many in zip(counts[0], counts[1], strict=True):
        assert many <= few + 5


def opened(repo: Sandbox, branch: str) -> tuple[int, int]:
    """Programs started by two checkouts, away and back: the drift path, and the quiet one."""
    log = repo.path.parent / "trace"
    found = []
    for name in (branch, "main"):
        words = [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=execve",
            "-e",
            "signal=none",
            "-o",
            str(log),
            "git",
            "checkout",
            "-q",
            name,
        ]
        assert repo.run(*words).code == 0
        found.append(sum("= 0" in line for line in log.read_text().splitlines()))
    return found[0], found[1]
