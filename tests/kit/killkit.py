"""Processes that are killed at an event, and what must hold of the repository after the next command."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from tests.kit.agents import Client
from tests.kit.forkserver import python
from tests.kit.moments import always, at
from tests.kit.processes import locks
from tests.kit.repos import Outcome, Sandbox
from tests.kit.state import assert_same, snap, sound, stale_locks, state_of

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
from gitbaton.cli.main import run
run()
"""
NAMED = """
import os, resource, signal, sys
how, at = sys.argv.pop(1), int(sys.argv.pop(1))
left = iter(range(at - 1, -1, -1))
def hook(event, args):
    if event == "gitbaton.restore" and next(left) == 0:
        os.killpg(0, signal.SIGKILL)
if how == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, at))
else:
    sys.addaudithook(hook)
from gitbaton.cli.main import run
run()
"""
NEXT = (("status",), ("resume",), ("log",), ("verify",), ("tracks",), ("snapshot", "--track", "t", "--step", "n"))
REVERT = ("revert",)
MERGE = ("merge", "api")
RESTORE = ("restore", "goal", "--exact", "--index")


def killed(repo: Sandbox, words: list[str], env: Mapping[str, str] | None = None) -> bool:
    """Run a command in a process group of its own, which it may kill; whether it was killed."""
    done = python(words, os.fspath(repo.path), {**os.environ, **(env or {})}, session=True, seconds=60)
    assert done.code in (0, -signal.SIGKILL), done.err.decode()
    return done.code != 0


def age_locks(repo: Sandbox, seconds: float = 11) -> None:
    """As if the kill had been some time ago."""
    for name in locks(repo):
        when = time.time() - seconds
        os.utime(repo.path / ".git" / name, (when, when))


def run(box: Sandbox, *words: str, env: Mapping[str, str] | None = None) -> Outcome:
    """``python WORDS`` in a process group of its own, which may be killed."""
    ended = python(words, os.fspath(box.path), {**os.environ, **(env or {})}, session=True, seconds=120)
    return Outcome(ended.code, ended.out.decode(errors="replace"), ended.err.decode(errors="replace"))


def driven(box: Sandbox, how: str, at: int, words: tuple[str, ...]) -> Outcome:
    """A command that is killed at a ``named`` step of a restore, or whose files meet a ``limit`` of bytes."""
    return run(box, "-c", NAMED, how, str(at), *words)


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


def turned(box: Sandbox) -> None:
    """A turn in which everything goes wrong, staged and not, and what the user did beside it and on top of it."""
    lines = "".join(f"line {number}\n" for number in range(12))
    for name in ("b.txt", "c.txt", "d/e.txt", "d/f.txt", "gone.txt", "run.sh"):
        box.write(name, f"{name}\n")
    box.write("text", lines)
    (box.path / "link").symlink_to("a.txt")
    box.commit("more")
    box.write("untracked.txt", "u\n")
    snap(box, "t", "s")
    client = Client("claude", box.path)
    client.fire("prompt", prompt="spoil it")
    box.write("a.txt", "spoilt\n")
    box.write("b.txt", "spoilt, and staged\n")
    box.git("add", "b.txt")
    box.git("rm", "-q", "-f", "gone.txt")
    (box.path / "run.sh").chmod(0o755)
    shutil.rmtree(box.path / "d")
    box.write("d", "a file now\n")
    (box.path / "untracked.txt").unlink()
    box.write("text", lines.replace("line 2\n", "spoilt\n"))
    for number in range(4):
        box.write(f"new/{number}", f"stranger {number}\n")
    client.fire("turn")
    box.write("text", (box.path / "text").read_text().replace("line 9\n", "mine\n"))
    box.write("beside.md", "mine\n")


def apart(box: Sandbox) -> None:
    """Another track's work of every kind, and what the user does meanwhile, staged and not."""
    lines = "".join(f"line {number}\n" for number in range(12))
    for name in ("b.txt", "c.txt", "d/e.txt", "d/f.txt", "gone.txt", "moved.txt", "run.sh"):
        box.write(name, f"{name}\n" * 4)
    box.write("text", lines)
    (box.path / "link").symlink_to("a.txt")
    box.commit("more")
    box.write("text", lines.replace("line 2\n", "theirs\n"))
    (box.path / "gone.txt").unlink()
    (box.path / "run.sh").chmod(0o755)
    (box.path / "moved.txt").rename(box.path / "there.txt")
    shutil.rmtree(box.path / "d")
    box.write("d", "a file now\n")
    for number in range(4):
        box.write(f"new/{number}", f"stranger {number}\n")
    snap(box, "api", "s")
    box.git("reset", "-q", "--hard")
    box.git("clean", "-fdq")
    box.write("text", lines.replace("line 9\n", "mine\n"))
    box.write("moved.txt", "moved.txt\n" * 4 + "mine\n")
    box.write("b.txt", "mine, and staged\n")
    box.git("add", "b.txt", "text")
    box.write("beside.md", "mine\n")
    snap(box, "t", "s")


class Scene:
    """A repository that is put back, at the same place, before each kill; the states before and after the command."""

    def __init__(self, repo: Sandbox, words: tuple[str, ...] = RESTORE, top: Path | None = None) -> None:
        self.repo, self.words, self.top = repo, words, top or repo.path
        self.model = self.top.parent / "model"
        self.before = state_of(repo)
        shutil.copytree(self.top, self.model, symlinks=True)
        self.carry_out()
        self.after = state_of(repo)
        assert self.before != self.after

    def carry_out(self) -> None:
        self.repo.ok(*self.words)

    def fresh(self) -> None:
        shutil.rmtree(self.top)
        shutil.copytree(self.model, self.top, symlinks=True)

    def check_recovery(self, turn: int, what: str) -> bool:
        """All that must hold after the next command; whether that command, or the one before, went through."""
        box = self.repo
        broken = self.torn()
        done = box.here(*NEXT[turn % len(NEXT)])
        assert done.code == 0, f"{what}: the next command: {done.code}\n{done.out}{done.err}"
        assert not broken or done.err.strip(), f"{what}: {NEXT[turn % len(NEXT)]} does not say what it did of a torn state"
        assert stale_locks(box) == [], f"{what}: {stale_locks(box)}"
        now = state_of(box)
        through = now.files == self.after.files
        assert_same(self.after if through else self.before, now, f"{what}: neither before nor after\n{done.err}")
        assert box.here("status").err == "", f"{what}: recovered twice"
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
        box, back = (
            self.repo,
            {"restore": "undo", "revert": "undo", "merge": "undo", "undo": "redo", "redo": "undo"}[self.words[0]],
        )
        done = box.here(*((back,) if through else self.words))
        assert done.code == 0, f"{what}: {done.code}\n{done.out}{done.err}"
        assert_same(self.before if through else self.after, state_of(box), f"{what}: going on")


def names_of(scene: Scene) -> list[str]:
    """The named write steps of a whole run."""
    names = list[str]()
    scene.fresh()
    with at("gitbaton.restore", always, lambda args: names.append(str(args[0]))):
        assert scene.repo.here(*scene.words).code == 0
    return names
