"""Restore killed at every step: the next command completes or rolls back; never a half state, never a lock."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.forkserver import python
from tests.kit.state import assert_same, snap, sound, stale_locks, state_of
from tests.kit.tiers import FULL

DRIVER = """
import os, resource, signal, sys
how, at, log = sys.argv.pop(1), int(sys.argv.pop(1)), sys.argv.pop(1)
count = 0
NAMES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.posix_spawn", "fcntl.flock", "os.utime", "os.chmod",
         "shutil.copyfile", "shutil.rmtree", "os.truncate", "os.link", "os.symlink", "subprocess.Popen", "os.fork", "os.exec"}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
def hook(event, args):
    global count
    if how == "named":
        hit = event == "gitbaton.restore"
    else:
        writes = event == "open" and isinstance(args[2], int) and args[2] & WRITING and args[0] != os.devnull
        hit = writes or event in NAMES
    if hit:
        count += 1
        if at == 0 and how == "named":
            fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(fd, (str(args[0]) + "\\n").encode())
            os.close(fd)
        if count == at:
            os.killpg(0, signal.SIGKILL)
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
else:
    sys.addaudithook(hook)
from gitbaton.main import run
run()
"""
NEXT = (
    ("status",),
    ("resume",),
    ("log",),
    ("verify",),
    ("tracks",),
    ("snapshot", "--track", "t", "--step", "n"),
)
RESTORE = ("restore", "goal", "--exact", "--index")
SMUDGE = """#!/bin/sh
# The n-th file kills: the whole group, or git alone.
count=$(($(cat "$COUNT") + 1))
echo $count >"$COUNT"
[ $count != "$AT" ] || case $HOW in
all) kill -9 0 ;;
git) kill -9 $PPID ;;
esac
exec cat
"""


def run(box: Sandbox, *argv: str, env: Mapping[str, str] | None = None) -> Outcome:
    """A command in a process group of its own, which it may kill."""
    if argv[0] == sys.executable:
        ended = python(argv[1:], os.fspath(box.path), {**os.environ, **(env or {})}, session=True, seconds=120)
        return Outcome(ended.code, ended.out.decode(errors="replace"), ended.err.decode(errors="replace"))
    done = subprocess.run(
        argv,
        cwd=box.path,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        start_new_session=True,
        timeout=120,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def driven(box: Sandbox, how: str, at: int, words: tuple[str, ...]) -> Outcome:
    log = os.fspath(box.path.parent / "names")
    return run(box, sys.executable, "-c", DRIVER, how, str(at), log, *words)


def everything(box: Sandbox) -> None:
    """A checkpoint of work in progress, and then everything goes wrong."""
    for name in ("b.txt", "c.txt", "d/e.txt", "d/f.txt", "gone.txt", "run.sh"):
        box.write(name, f"{name}\n")
    (box.path / "link").symlink_to("a.txt")
    box.commit("more")
    box.write("a.txt", "staged\n")
    box.git("add", "a.txt")
    box.write("a.txt", "edited\n")
    box.write("untracked.txt", "u\n")
    snap(box, "t", "s", "--label", "goal")
    box.write("a.txt", "spoilt\n")
    box.write("b.txt", "spoilt, and staged\n")
    box.git("add", "b.txt")
    box.git("rm", "-q", "-f", "gone.txt")
    (box.path / "run.sh").chmod(0o755)
    shutil.rmtree(box.path / "d")
    box.write("d", "a file now\n")
    (box.path / "link").unlink()
    box.write("link/in/side", "a directory now\n")
    (box.path / "untracked.txt").unlink()
    for number in range(4):
        box.write(f"new/{number}", f"stranger {number}\n")


class Scene:
    """A repository that is put back, at the same place, before each kill; the states before and after the command."""

    def __init__(self, repo: Sandbox, words: tuple[str, ...] = RESTORE, top: Path | None = None) -> None:
        self.repo, self.words, self.top = repo, words, top or repo.path
        self.model = self.top.parent / "model"
        self.before = state_of(repo)
        shutil.copytree(self.top, self.model, symlinks=True)
        repo.ok(*words)
        self.after = state_of(repo)
        assert self.before != self.after

    def fresh(self) -> None:
        shutil.rmtree(self.top)
        shutil.copytree(self.model, self.top, symlinks=True)

    def check_recovery(self, turn: int, what: str) -> bool:
        """All that must hold after the next command; whether that command, or the one before, went through."""
        box = self.repo
        broken = self.torn()
        done = box.baton(*NEXT[turn % len(NEXT)])
        assert done.code == 0, f"{what}: the next command: {done.code}\n{done.out}{done.err}"
        assert not broken or done.err.strip(), f"{what}: {NEXT[turn % len(NEXT)]} does not say what it did of a torn state"
        assert stale_locks(box) == [], f"{what}: {stale_locks(box)}"
        now = state_of(box)
        through = now.files == self.after.files
        assert_same(self.after if through else self.before, now, f"{what}: neither before nor after\n{done.err}")
        assert box.baton("status").err == "", f"{what}: recovered twice"
        sound(box)
        self.check_goes_on(what, through)
        return through

    def torn(self) -> bool:
        """Whether the work tree is neither as before nor as after."""
        try:
            files = state_of(self.repo).files
        except AssertionError:  # git itself cannot read what is left
            return True
        return files not in (self.before.files, self.after.files)

    def check_goes_on(self, what: str, through: bool) -> None:
        """Undo takes back what went through; what did not is done as if nothing had been."""
        box, back = self.repo, {"restore": "undo", "undo": "redo", "redo": "undo"}[self.words[0]]
        done = box.baton(*((back,) if through else self.words))
        assert done.code == 0, f"{what}: {done.code}\n{done.out}{done.err}"
        assert_same(self.before if through else self.after, state_of(box), f"{what}: going on")


@pytest.fixture
def scene(repo: Sandbox) -> Scene:
    everything(repo)
    return Scene(repo)


def names_of(scene: Scene) -> list[str]:
    """The named write steps of a whole run."""
    scene.fresh()
    assert driven(scene.repo, "named", 0, scene.words).code == 0
    return (scene.repo.path.parent / "names").read_text().splitlines()


@pytest.mark.deep
def test_t07_killed_at_each_named_step(scene: Scene) -> None:
    names = names_of(scene)
    assert len(names) >= 4, names
    seen = set()
    for at in range(1, len(names) + 1):
        scene.fresh()
        done = driven(scene.repo, "named", at, scene.words)
        assert done.code == -signal.SIGKILL
        seen.add(scene.check_recovery(at, f"killed at step {at}, {names[at - 1]}"))
    assert seen == {True, False}, "some kills leave it undone, others done"


@pytest.mark.deep
@pytest.mark.parametrize("verb", ["restore", "undo", "redo"])
def test_t07_killed_at_each_writing_event(repo: Sandbox, verb: str) -> None:
    everything(repo)
    if verb != "restore":
        repo.ok(*RESTORE)
    if verb == "redo":
        repo.ok("undo")
    scene = Scene(repo, RESTORE if verb == "restore" else (verb,))
    stride = 1 if FULL else {"restore": 7, "undo": 11, "redo": 14}[verb]
    at, seen = 1, set()
    while True:
        scene.fresh()
        done = driven(repo, "event", at, scene.words)
        if done.code == 0:
            break
        assert done.code == -signal.SIGKILL, done.err
        seen.add(scene.check_recovery(at // stride, f"{verb} killed at event {at}"))
        at += stride
    assert at > 10 and False in seen


def filtered(repo: Sandbox) -> None:
    """Every file goes through a filter that can kill."""
    script = repo.path.parent / "smudge"
    script.write_text(SMUDGE)
    script.chmod(0o755)
    repo.git("config", "filter.k.smudge", os.fspath(script))
    repo.git("config", "filter.k.clean", "cat")
    repo.write(".gitattributes", "*.k filter=k\n")
    for number in range(8):
        repo.write(f"{number}.k", f"{number}\n")
    (repo.path.parent / "count").write_text("0\n")
    repo.commit("filtered")
    everything(repo)
    for number in range(8):
        repo.write(f"{number}.k", f"spoilt {number}\n")


@pytest.mark.deep
@pytest.mark.parametrize("how", ["all", "git"])
def test_t07_git_killed_in_the_midst_of_writing_files(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    counter = repo.path.parent / "count"
    for name, value in {"COUNT": os.fspath(counter), "AT": "none", "HOW": how}.items():
        monkeypatch.setenv(name, value)
    filtered(repo)
    scene = Scene(repo)
    for at in range(1, 9, 1 if FULL else 3):
        scene.fresh()
        counter.write_text("0\n")
        done = run(repo, sys.executable, "-m", "gitbaton", *scene.words, env={"AT": str(at)})
        assert int(counter.read_text()) >= at, "the filter did not run"
        assert done.code == -signal.SIGKILL or how == "git", done.out + done.err
        time.sleep(0.02)  # git outlives its parent for a moment
        assert scene.check_recovery(at, f"git killed at file {at}: {done.err}") or done.code != 0


@pytest.mark.deep
def test_t07_the_next_restore_and_undo_recover_first(scene: Scene) -> None:
    names = names_of(scene)
    for at in range(1, len(names) + 1, 2):
        for words in (RESTORE, ("undo",)):
            scene.fresh()
            assert driven(scene.repo, "named", at, scene.words).code == -signal.SIGKILL
            torn = scene.torn()
            done = scene.repo.baton(*words)
            assert done.code in (0, 1), f"{names[at - 1]}: {words}: {done.code}\n{done.err}"
            assert done.err or not torn
            now = state_of(scene.repo)
            assert now.files in (scene.before.files, scene.after.files), f"{names[at - 1]}: {words}\n{done.err}"
            assert words != RESTORE or now.files == scene.after.files
            sound(scene.repo)


@pytest.mark.deep
def test_t07_a_kill_does_not_lose_what_was_edited_since(scene: Scene) -> None:
    names = names_of(scene)
    for at in range(1, len(names) + 1, 2):
        scene.fresh()
        assert driven(scene.repo, "named", at, scene.words).code == -signal.SIGKILL
        for name in ("a.txt", "c.txt", "brand-new.txt"):
            scene.repo.write(name, f"edited after the kill, {name}\n")
        scene.repo.baton("status")
        for name in ("a.txt", "c.txt", "brand-new.txt"):
            kept = (scene.repo.path / name).read_bytes() if (scene.repo.path / name).is_file() else b""
            wanted = f"edited after the kill, {name}\n"
            assert kept == wanted.encode() or held_by_a_ref(scene.repo, wanted), f"{names[at - 1]}: {name} is lost"
        assert stale_locks(scene.repo) == []


def held_by_a_ref(box: Sandbox, text: str) -> bool:
    oid = box.git("hash-object", "--stdin", stdin=text.encode())
    return oid in box.git("rev-list", "--objects", "--all")


@pytest.mark.deep
def test_where_head_has_moved_since_the_kill_nothing_is_written(repo: Sandbox) -> None:
    """A work tree that somebody has put in order is not overwritten by the next command, which may only read."""
    everything(repo)
    scene = Scene(repo)
    kept = 0
    for at in range(1, 200):
        scene.fresh()
        if driven(repo, "named", at, RESTORE).code == 0:
            break
        (repo.path / ".git/index.lock").unlink(missing_ok=True)  # as git says
        repo.git("reset", "-q", "--hard")
        repo.git("clean", "-qfdx")
        repo.git("switch", "-q", "-C", "elsewhere")
        repo.git("commit", "-q", "--allow-empty", "-m", "went on")
        done = repo.ok("log")
        assert repo.git("status", "--porcelain") == "", at
        if "HEAD has moved since" in done.err:
            kept += 1
            assert "'git baton restore " in done.err and "'git baton undo' takes back what it changed" in done.err
            assert repo.baton("undo").code in (0, 1)
    assert kept > 3
