"""A snapshot killed at every step: the tip is the old or the new one, and the next command goes on as if nothing had been."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.forkserver import python
from tests.kit.processes import chain, locks, noted
from tests.kit.tiers import FULL

DRIVER = """
import os, signal, sys
at, count = int(sys.argv.pop(1)), 0
NAMES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.posix_spawn", "fcntl.flock", "os.utime",
         "shutil.copyfile", "shutil.rmtree", "os.truncate", "os.link", "os.symlink"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
def hook(event, args):
    global count
    writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING and args[0] != os.devnull
    if writes or event in NAMES:
        count += 1
        if count == at:
            os.killpg(0, signal.SIGKILL)
sys.addaudithook(hook)
from gitbaton.main import run
run()
"""
WORDS = ["snapshot", "--track", "t", "--step", "new"]


def killed(repo: Sandbox, words: list[str], env: Mapping[str, str] | None = None) -> bool:
    """Run a command in a process group of its own, which it may kill; whether it was killed."""
    done = python(words, os.fspath(repo.path), {**os.environ, **(env or {})}, session=True, seconds=60)
    assert done.code in (0, -signal.SIGKILL), done.err.decode()
    return done.code != 0


class Scene:
    """A repository that is copied for each kill: main or linked work tree, with or without a checkpoint before."""

    def __init__(self, path: Path, *, before: bool, linked: bool) -> None:
        self.path, self.linked, self.steps = path, linked, ["old"] if before else []
        repo = Sandbox.init(path / "model/repo")
        repo.commit("first", a_txt="one\n")
        if linked:
            repo.git("worktree", "add", "-q", "-b", "side", "../linked")
        for step in self.steps:
            done = repo.baton("snapshot", "--track", "t", "--step", step, cwd=self.place(path / "model"))
            assert done.code == 0, done.err

    def place(self, top: Path) -> Path:
        return top / ("linked" if self.linked else "repo")

    def fresh(self) -> tuple[Sandbox, Sandbox]:
        """The scene anew: the main repository, and the work tree in which the snapshot is taken."""
        top = self.path / "scene"
        shutil.rmtree(top, ignore_errors=True)
        shutil.copytree(self.path / "model", top, symlinks=True)
        repo, work = Sandbox(top / "repo"), Sandbox(self.place(top))
        if self.linked:
            inside = repo.path / ".git/worktrees/linked"
            (inside / "gitdir").write_text(f"{work.path}/.git\n")
            work.write(".git", f"gitdir: {inside}\n")
        work.write("b.txt", "work in progress\n")
        return repo, work


def index_of(work: Sandbox) -> tuple[bytes, int, int]:
    path = work.path / work.git("rev-parse", "--git-path", "index")
    return path.read_bytes(), path.stat().st_ino, path.stat().st_mtime_ns


def age_locks(repo: Sandbox, seconds: float = 11) -> None:
    """As if the kill had been some time ago."""
    for name in locks(repo):
        when = time.time() - seconds
        os.utime(repo.path / ".git" / name, (when, when))


def after_a_kill(repo: Sandbox, work: Sandbox, before: list[str], index: tuple[bytes, int, int]) -> list[str]:
    """All that must hold; the steps that the chain had directly after the kill."""
    assert index_of(work) == index
    exists = repo.try_git("rev-parse", "-q", "--verify", "refs/baton/tracks/t").code == 0
    found = [r["step"] for r in chain(repo, "t")] if exists else []
    assert found in (before, [*before, "new"])
    repo.fsck()
    age_locks(repo)
    with work.open() as baton:  # libgit2 finds what the binary door left
        assert len(baton.status()[0]) == (1 if found else 0)
        if found:
            resumed = baton.resume("t")
            assert resumed.stored.checkpoint.step == found[-1] and resumed.warnings == ()
            assert repo.git("rev-parse", "refs/checkpoints/t") == resumed.stored.id == noted(work, "HEAD")[0]
            assert resumed.stored.id in (work.path / "runtime/checkpoints/LATEST.json").read_text()
    assert work.try_git("status").code == 0
    with work.open(door="binary") as baton:
        assert baton.snapshot("next", track="t").warnings == ()
    records = chain(repo, "t")
    assert [r["step"] for r in records] == [*found, "next"] and locks(repo) == []
    assert noted(work, "HEAD") == [r["id"] for r in reversed(records)]
    assert work.git("symbolic-ref", "BATON_HEAD") == "refs/checkpoints/t"
    expect = work.path / work.git("rev-parse", "--git-path", "baton") / "expect"
    assert expect.read_text() == work.head() + "\n"
    assert "work in progress" in work.git("show", "refs/baton/tracks/t:b.txt")
    work.git("add", "b.txt")
    work.git("commit", "-q", "-m", "go on")
    return found


@pytest.mark.deep
@pytest.mark.parametrize(
    ("before", "linked", "stride"),
    [(False, False, 3), (True, False, 2), (False, True, 7), (True, True, 7)],
    ids=["first", "second", "first-linked", "second-linked"],
)
def test_t18_killed_at_every_step_of_python(tmp_path: Path, before: bool, linked: bool, stride: int) -> None:
    scene = Scene(tmp_path, before=before, linked=linked)
    seen, at = set(), 1
    while True:
        repo, work = scene.fresh()
        index = index_of(work)
        over = not killed(repo if not linked else work, ["-c", DRIVER, str(at), *WORDS])
        seen.add(len(after_a_kill(repo, work, scene.steps, index)))
        if over:
            break
        at += 1 if FULL else stride
    assert at > 20 and seen == {len(scene.steps), len(scene.steps) + 1}


WRAPPER = """#!/bin/sh
# The n-th call kills: its parent before or after git ran, or the whole group in the midst of it.
count=$(($(cat "$COUNT") + 1))
echo $count >"$COUNT"
[ $count = $AT ] || exec "$REAL" "$@"
case $HOW in
before) kill -9 $PPID ;;
after) "$REAL" "$@"; kill -9 $PPID ;;
esac
"""


@pytest.mark.deep
@pytest.mark.parametrize("how", ["before", "after"])
def test_t18_killed_before_and_after_every_call_of_git(tmp_path: Path, how: str) -> None:
    scene = Scene(tmp_path, before=True, linked=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text(WRAPPER)
    (tools / "git").chmod(0o755)
    real = shutil.which("git")
    assert real
    seen, at = set(), 1
    while True:
        repo, work = scene.fresh()
        index = index_of(work)
        (tmp_path / "count").write_text("0\n")
        env = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "REAL": real,
            "AT": str(at),
            "HOW": how,
            "COUNT": str(tmp_path / "count"),
        }
        over = not killed(repo, ["-m", "gitbaton", *WORDS], env)
        time.sleep(0.02)  # git outlives its parent for a moment
        seen.add(len(after_a_kill(repo, work, scene.steps, index)))
        if over:
            break
        at += 1
    assert at > 5 and seen == {1, 2}


MIDST = """#!/bin/sh
case " $* " in
*" $VERB "*) (sleep $DELAY; kill -9 0) & ;;
esac
exec "$REAL" "$@"
"""


@pytest.mark.deep
@pytest.mark.parametrize("verb", ["pack-objects", "update-ref"])
def test_t18_git_and_its_parent_killed_in_the_midst_of_writing(tmp_path: Path, verb: str) -> None:
    scene = Scene(tmp_path, before=True, linked=False)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "git").write_text(MIDST)
    (tools / "git").chmod(0o755)
    real = shutil.which("git")
    assert real
    kills = 0
    for tenth in range(5, 30, 4):
        repo, work = scene.fresh()
        index = index_of(work)
        env = {"PATH": f"{tools}:{os.environ['PATH']}", "REAL": real, "VERB": verb, "DELAY": f"{tenth / 10_000:.4f}"}
        kills += killed(repo, ["-m", "gitbaton", *WORDS], env)
        after_a_kill(repo, work, scene.steps, index)
    assert kills


def test_what_killed_processes_left_goes_after_an_hour(repo: Sandbox) -> None:
    folder = repo.path / ".git/baton/tmp"
    old, young = folder / "4194305.1", folder / "2.2"  # no process has so large a number
    alive = folder / f"{os.getpid()}.3"  # of a run, whose step may take longer
    for place, seconds in ((old, 3700), (young, 60), (alive, 3700)):
        place.mkdir(parents=True)
        (place / "index.0").write_bytes(b"x")
        os.utime(place, (time.time() - seconds, time.time() - seconds))
    repo.ok("snapshot", "--track", "t", "--step", "s")
    assert {*folder.iterdir()} == {young, alive}
