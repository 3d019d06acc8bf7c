"""The scratch work tree of a bisection: what a command may do in it, and that it goes, after a kill with the next command."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitbaton.care.tools import bisection
from gitbaton.git.repo import discover
from gitbaton.git.worktree.crashmarker import sweep
from gitbaton.git.worktree.scratch import Scratch, scratch
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.doors import build
from tests.kit.forkserver import python
from tests.kit.tiers import some
from tests.verbs.test_bisect import check_gone, state, temp, untouched

__all__ = ["temp"]

PATIENCE = 60.0
BISECT = ("bisect", "--good", "t~2", "--")
NOT_LAST = ("grep", "-qv", "2", "a.txt")
DRIVER = """
import os, signal, sys
at, count = int(sys.argv.pop(1)), 0
def hook(event, args):
    global count
    if event in ("os.posix_spawn", "os.rename", "fcntl.flock", "fcntl.fcntl"):
        count += 1
        if count == at:
            os.killpg(0, signal.SIGKILL)
sys.addaudithook(hook)
from gitbaton.cli.main import run
run()
"""


@pytest.fixture
def track(repo: Sandbox, temp: Path) -> Sandbox:
    """Three checkpoints and work that is not recorded."""
    with repo.open() as baton:
        for number in range(3):
            repo.write("a.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="t")
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "the user's own\n")
    return repo


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def swept(repo: Sandbox) -> None:
    """What the next command does first."""
    sweep(discover(str(repo.path)))


def cleared(repo: Sandbox, temp: Path) -> bool:
    return not list(temp.iterdir()) and not (repo.path / ".git/worktrees").exists()


@contextmanager
def bisecting(repo: Sandbox, note: Path, script: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A bisection whose command runs: the process, and the ids that the command wrote into ``note``."""
    words = [sys.executable, "-m", "gitbaton", *BISECT, "sh", "-c", script]
    with subprocess.Popen(
        words, cwd=repo.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        until(lambda: note.exists() and note.read_text().endswith("go\n"))
        try:
            yield child, [int(word) for word in note.read_text().split()[:-1]]
        finally:
            child.kill()


@pytest.mark.deep
@some("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_every_signal_clears_away(track: Sandbox, temp: Path, tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "note"
    script = f"touch left; sleep 600 & echo $$ $! >'{note}'; echo go >>'{note}'; wait"
    before = state(track)
    with bisecting(track, note, script) as (child, running):
        assert all(alive(pid) for pid in running) and len(running) == 2
        assert not cleared(track, temp) and str(temp) in track.git("worktree", "list")
        child.send_signal(number)
        child.wait()
        assert child.returncode == (130 if number == signal.SIGINT else -number)
        if number == signal.SIGKILL:
            assert not cleared(track, temp) and str(temp) in track.baton("doctor").out
            assert track.baton(*BISECT, *NOT_LAST).code == 0
        check_gone(track, temp)
        assert not any(alive(pid) for pid in running)
    assert state(track) == before


@pytest.mark.full
def test_a_command_that_does_not_listen_is_ended(track: Sandbox, temp: Path, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with bisecting(track, note, f"trap '' TERM; echo $$ >'{note}'; echo go >>'{note}'; while :; do sleep 0.1; done") as (
        child,
        running,
    ):
        child.terminate()
        assert child.wait() == -signal.SIGTERM
        check_gone(track, temp)
        assert not alive(running[0])


@pytest.mark.deep
def test_killed_while_git_fills_the_work_tree(track: Sandbox, temp: Path, tmp_path: Path) -> None:
    """Git's own process is ended, too: it would go on writing into what is being removed."""
    note = tmp_path / "note"
    smudge = track.write(
        "../smudge", f"#!/bin/sh\ntest ! -e '{tmp_path}/on' || {{ echo $$ >'{note}'; echo go >>'{note}'; sleep 600; }}\ncat\n"
    )
    smudge.chmod(0o755)
    track.git("config", "filter.slow.smudge", str(smudge))
    track.write(".gitattributes", "a.txt filter=slow\n")
    track.ok("snapshot", "--track", "t", "--step", "filtered")
    track.ok("snapshot", "--track", "t", "--step", "last")
    (tmp_path / "on").touch()
    before = state(track)
    with bisecting(track, note, "true") as (child, running):
        child.kill()
        child.wait()
        swept(track)
        check_gone(track, temp)
        assert not alive(running[0])
    assert state(track) == before


@pytest.mark.deep
def test_killed_at_every_step(track: Sandbox, temp: Path) -> None:
    before = state(track)
    for at in range(1, 200):
        done = python(["-c", DRIVER, str(at), *BISECT, *NOT_LAST], str(track.path), os.environ, session=True)
        swept(track)
        assert cleared(track, temp), at
        if done.code == 0:
            break
        assert done.code == -signal.SIGKILL, done.err
    assert at > 10 and state(track) == before


@pytest.mark.deep
def test_what_a_killed_owner_left_goes_with_the_next_and_nothing_of_a_living_one(track: Sandbox, temp: Path) -> None:
    repo, commit = discover(str(track.path)), track.git("rev-parse", "refs/baton/tracks/t")
    left = Scratch(repo)
    left.make(commit)
    left.move(commit)
    os.close(left.marker.lock_fd)  # as the kernel does when the owner dies
    with scratch(repo, commit) as other, scratch(repo, commit) as third:
        assert not Path(left.path).exists() and left.path not in track.git("worktree", "list")
        assert Path(other.path).exists() and Path(third.path).exists()
    check_gone(track, temp)


@pytest.mark.deep
def test_other_work_trees_stay(track: Sandbox, temp: Path, tmp_path: Path) -> None:
    track.git("worktree", "add", "-q", "--detach", str(tmp_path / "gitbaton-mine"))
    (tmp_path / "gitbaton-mine/own.txt").write_text("mine\n")
    before = state(track)
    assert track.baton(*BISECT, *NOT_LAST).code == 0
    assert Sandbox(tmp_path / "gitbaton-mine").baton(*BISECT, *NOT_LAST).code == 0
    assert state(track) == before and list(temp.iterdir()) == []
    assert (tmp_path / "gitbaton-mine/own.txt").read_text() == "mine\n"


WILD = {
    "edits": "echo x >a.txt; echo y >new.txt; mkdir -p deep/er; touch deep/er/f",
    "stages": "echo x >a.txt; git add -A; git rm -q --cached a.txt",
    "commits": "echo x >a.txt; git commit -qam own",
    "conflicts": "git update-index --add --cacheinfo 100644,$(git rev-parse HEAD:a.txt),z; git read-tree -m HEAD HEAD~1 HEAD~1",
    "no permission": "mkdir -p shut/in; touch shut/in/f; chmod 0 shut/in; chmod 0500 shut; chmod 0500 .",
    "file becomes folder": "rm a.txt; mkdir a.txt; touch a.txt/f",
    "symlinks": "ln -sfn / root; ln -sfn ../../repo user; rm a.txt; ln -s /etc/passwd a.txt",
    "hidden": "git update-index --assume-unchanged a.txt; echo x >a.txt",
}


@pytest.mark.full
@some("what", WILD)
def test_what_a_command_does_stays_in_the_work_tree(track: Sandbox, temp: Path, what: str) -> None:
    """Each candidate has its own files again, and what lies beside them stays, as with ``git bisect run``."""
    want = "n=$(cat a.txt); case $n in 0|1|2) ;; *) exit 128 ;; esac; "
    with untouched(track, temp):
        for first in (1, 2):
            script = f"{want}{WILD[what]}; test $n -lt {first}"
            done = track.baton("bisect", "--json", "--good", "t~2", "--", "sh", "-c", script)
            assert done.code == 0 and done.json["first_bad"]["step"] == f"step {first}", done.err


def test_build_leftovers_stay_for_the_next_run(track: Sandbox, temp: Path) -> None:
    track.ok("snapshot", "--track", "t", "--step", "last")
    script = "test -e built && exit 0; touch built; exit 1"  # what follows finds what the run on the bad one built
    done = track.baton("bisect", "--json", "--good", "t~3", "--", "sh", "-c", script)
    assert done.json["first_bad"]["step"] == "last" and done.json["tried"] == 3


@pytest.mark.deep
def test_a_command_that_removes_its_repository_harms_no_other(track: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the temporary directory inside the user's work tree, git would find the user's repository."""
    inside = track.path / "tmp"
    inside.mkdir()
    track.git("config", "core.excludesFile", "/dev/null")
    (track.path / ".git/info/exclude").write_text("/tmp/\n/runtime/\n")
    monkeypatch.setenv("TMPDIR", str(inside))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with untouched(track, inside):
        track.baton("bisect", "--good", "t~2", "--", "sh", "-c", "rm -rf .git; exit 1")
        track.baton("bisect", "--good", "t~2", "--", "sh", "-c", 'rm -rf "$PWD"; exit 1')
    assert (track.path / "a.txt").read_text() == "the user's own\n"


@pytest.mark.deep
def test_no_hook_of_the_users_runs(track: Sandbox, temp: Path, tmp_path: Path) -> None:
    for name in ("post-checkout", "reference-transaction", "pre-auto-gc", "post-index-change"):
        track.write(f".git/hooks/{name}", f"#!/bin/sh\necho {name} >>'{tmp_path}/hooked'\n").chmod(0o755)
    with untouched(track, temp):
        assert track.baton(*BISECT, *NOT_LAST).code == 0
    assert not (tmp_path / "hooked").exists()


@pytest.mark.full
@pytest.mark.parametrize("name", ["sha256", "reftable", "libgit2"])
def test_in_every_format(tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    repo = build(tmp_path / name, name, monkeypatch).sandbox
    with repo.open() as baton:
        for number in range(4):
            repo.write("n.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="t")
        with untouched(repo, temp):
            plan = bisection.plan(baton, "t~3", None)
            verdict = bisection.search(baton, plan, ("sh", "-c", "test $(cat n.txt) -lt 2"), say=lambda step: None)
    assert [c.checkpoint.step for c in verdict.candidates] == ["step 2"]


def test_a_command_may_use_the_terminal(track: Sandbox, temp: Path) -> None:
    """In a process group of its own it would be stopped when it reads from the terminal."""
    master, slave = pty.openpty()

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    words = [sys.executable, "-m", "gitbaton", *BISECT, "sh", "-c", "read -r word </dev/tty; test $word = good"]
    words[words.index("t~2")] = "t~1"
    with subprocess.Popen(words, cwd=track.path, stdin=slave, stdout=slave, stderr=slave, preexec_fn=own_terminal) as child:
        os.write(master, b"bad\ngood\n")
        shown, deadline = b"", time.monotonic() + PATIENCE
        while child.poll() is None or select.select([master], [], [], 0)[0]:
            if select.select([master], [], [], 0.05)[0]:
                shown += os.read(master, 1 << 16)
            if time.monotonic() > deadline:
                child.kill()
    os.close(slave)
    os.close(master)
    assert child.returncode == 0 and b"is the first bad checkpoint" in shown, shown
    check_gone(track, temp)
