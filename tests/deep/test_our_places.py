"""Each file and folder of ours with something else in its place, under each verb: nobody waits, nothing outside changes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.capturekit import without_privilege
from tests.kit.forkserver import python
from tests.kit.places import ROOT
from tests.kit.tiers import FULL, some

WATCHDOG = 300  # seconds for what takes less than one: after that it waits for ever
SAVER = """
import os
from langgraph.checkpoint.base import empty_checkpoint
from gitbaton.langgraph import GitSaver
GitSaver(".").put({"configurable": {"thread_id": "chat", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {})
os._exit(0)
"""
NEW = "a new step"
VERBS = {
    "status": ("status",),
    "resume": ("resume", "--live"),
    "log": ("log",),
    "tracks": ("tracks",),
    "verify": ("verify",),
    "du": ("du",),
    "snapshot": ("snapshot", "--track", "t", "--step", "again"),
    "restore": ("restore", "t~1", "--force"),
    "undo": ("undo",),
    "run": ("run", "--run", "r", "--step", NEW, "--", "true"),
    "lane": ("run", "--run", "r", "--step", NEW, "--isolate", "tree", "--", "true"),
    "steps": ("run", "show", "r"),
    "bisect": ("bisect", "--good", "t~1", "--", "true"),
    "threads": ("thread", "list"),
    "push": ("push", "--yes", "--runs", "far"),
    "fetch": ("fetch", "far"),
    "page": ("page",),
    "export": ("export",),
    "prune": ("prune", "--keep-last", "2", "--yes"),
    "install": ("install",),
    "fix": ("doctor", "--fix"),
    "doctor": ("doctor",),
    "uninstall": ("uninstall",),
}
HOOKS = ("SessionStart", "UserPromptSubmit", "Stop")
GIT = {
    "checkout": ("checkout", "-q", "-B", "other"),
    "detach": ("checkout", "-q", "--detach"),
    "commit": ("commit", "-q", "--allow-empty", "-m", "more"),
    "amend": ("commit", "-q", "--amend", "--allow-empty", "-m", "other"),
}


def payload(box: Sandbox, event: str) -> bytes:
    words = {"session_id": "s", "cwd": str(box.path), "hook_event_name": event, "prompt": "go on", "source": "startup"}
    return json.dumps(words).encode()


def tour(box: Sandbox, far: Path) -> None:
    """Leave something of every kind."""
    Sandbox.init(far, "--bare")
    box.git("remote", "add", "far", str(far))
    box.ok("install")
    for step in ("one", "two", "three"):
        box.write("a.txt", step)
        box.ok("snapshot", "--track", "t", "--step", step)
    box.ok("restore", "t~1", "--force")
    for number, words in enumerate((("--isolate", "tree"), (), ())):
        box.ok("run", "--run", "r", "--step", f"s{number}", *words, "--reads", "a.txt", "--", "true")
    box.baton("run", "--run", "r", "--step", "bad", "--writes", "out", "--", "sh", "-c", "echo >out; exit 3")
    box.ok("push", "--yes", "--runs", "far")
    box.ok("fetch", "far")
    for event in HOOKS:
        box.baton("hook", "claude", event, stdin=payload(box, event))
    box.git("checkout", "-q", "--detach")
    box.git("commit", "-q", "--allow-empty", "-m", "more")
    box.git("commit", "-q", "--amend", "--allow-empty", "-m", "other")
    box.git("checkout", "-q", "main")
    box.ok("page")
    box.baton("bisect", "--good", "t~1", "--", "true")
    box.run(sys.executable, "-c", SAVER)


def places(box: Sandbox) -> list[str]:
    """The files and folders of ours, those above before those below."""
    top = box.path / ".git"
    found = [top / "baton", *sorted((top / "baton").rglob("*")), top / "BATON_HEAD"]
    return [str(p.relative_to(box.path)) for p in found] + [f"runtime/checkpoints/LATEST.{end}" for end in ("md", "json")]


MORE = (  # what is there now and then
    *("newest", "restore", "restore.bad", "revision", "latest", "log", "log.old", "files.cache", "late-hook"),
    *("late-hook-waits", "repacking", "pruning", "agents", "foreign", "foreign/t", "foreign-runs/r", "transcripts", "late"),
    *("transcripts/claude", "broken", "lanes", "lanes.new", "lock/run-r", "claims/0.json", "tmp/1.2", "expect.new"),
    *("isolated/baton-step-0123456789abcdef", "LATEST.md.new"),
)


class Beside:
    """Somebody's files outside the repository, of names that ours have, long since written."""

    def __init__(self, top: Path) -> None:
        self.top, self.file, self.folder = top, top / "file", top / "folder"
        (self.folder / "old").mkdir(parents=True)
        for path in (self.file, *(self.folder / name for name in ("1.2", "claude-s", "0.json", "r", "t", "log", "old/list"))):
            path.write_text("somebody's\n")
        for path in (*self.top.rglob("*"), self.top):
            os.utime(path, (1e9, 1e9))
        self.before = self.now()

    def now(self) -> list[tuple[object, ...]]:
        """All that a command could change."""
        found: list[tuple[object, ...]] = []
        for path in sorted((self.top, *self.top.rglob("*"))):
            seen = path.lstat()
            data: object = path.read_bytes() if stat.S_ISREG(seen.st_mode) else sorted(os.listdir(path))
            found.append((str(path), seen.st_mode, seen.st_uid, seen.st_mtime_ns, data))
        return found


def a_socket(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # a long path is none of a socket's
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("somebody's\n")


def anothers(path: Path) -> None:
    path.touch()
    os.chown(path, 4001, 4001)
    path.chmod(0)


KINDS: dict[str, Callable[[Path, Beside], object]] = {
    "pipe": lambda path, _: os.mkfifo(path),
    "link to a folder": lambda path, beside: path.symlink_to(beside.folder),
    "link to a file": lambda path, beside: path.symlink_to(beside.file),
    "link to nothing": lambda path, beside: path.symlink_to(beside.top / "nothing"),
    "hard link": lambda path, beside: path.hardlink_to(beside.file),
    "socket": lambda path, _: a_socket(path),
    "device": lambda path, _: os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5)),  # it gives zeros without an end
    "folder": lambda path, _: a_folder(path),
    "file": lambda path, _: path.write_bytes(b"\xff somebody's\n"),
    "another's": lambda path, _: anothers(path),
}
ROOTS = ("device", "another's")
DEEP = ("pipe", "link to a folder")
TOLD = (*DEEP, "link to a file", "link to nothing", "socket", "device")
CACHE = ".git/baton/newest"  # doctor itself makes it anew, in place of whatever is there, before it looks for strange files


class Place:
    """A place of ours in a repository that has used everything, and what stands there instead."""

    def __init__(self, box: Sandbox, name: str, kind: str, beside: Beside) -> None:
        self.path, self.kind, self.beside = box.path / name, kind, beside
        self.mode = self.links = 0

    def take(self) -> bool:
        """Put it there, unless it still is; whether it could be."""
        try:
            seen = self.path.lstat()
            if (stat.S_IFMT(seen.st_mode), seen.st_nlink) == (self.mode, self.links):
                return True
        except OSError:
            pass
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.is_dir() and not self.path.is_symlink():
                shutil.rmtree(self.path)
            self.path.unlink(missing_ok=True)
            KINDS[self.kind](self.path, self.beside)
        except (FileExistsError, NotADirectoryError):  # a command made something else of what is above it
            return False
        seen = self.path.lstat()
        self.mode, self.links = stat.S_IFMT(seen.st_mode), seen.st_nlink
        return True


@cache
def plain() -> list[str]:
    """How a program runs that permissions bind."""
    words = without_privilege()
    if words is None:
        pytest.skip("root reads everything here, and setpriv is missing")
    return words


def carried_out(box: Sandbox, what: str, kind: str) -> tuple[int, str, str]:
    """A command of either kind, to its end."""
    words = ("hook", "claude", what) if what in HOOKS else VERBS.get(what) or GIT[what]
    words = tuple(f"s{os.urandom(4).hex()}" if word is NEW else word for word in words)
    data, bound = payload(box, what) if what in HOOKS else b"", kind == "another's"
    if what in GIT or bound:
        argv = (*(plain() if bound else ()), *(("git",) if what in GIT else (sys.executable, "-P", "-m", "gitbaton")), *words)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        run = subprocess.run(argv, cwd=box.path, env=env, input=data, capture_output=True, timeout=WATCHDOG)
        return run.returncode, run.stdout.decode(), run.stderr.decode()
    done = python(["-m", "gitbaton", *words], str(box.path), os.environ, data, seconds=WATCHDOG)
    return done.code, done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace")


@some("kind", KINDS, keep=0, share=DEEP)
def test_nobody_waits_and_nothing_outside_changes(tmp_path: Path, kind: str) -> None:
    """Each place in turn, under each verb at full size; else each under some, which are others for the next one."""
    if kind in ROOTS and os.geteuid() != 0:
        pytest.skip("only root can make one")
    box, kept = Sandbox.begun(tmp_path / "box"), tmp_path / "kept"
    tour(box, tmp_path / "far.git")
    shutil.copytree(box.path, kept, symlinks=True)
    beside, wrong = Beside(tmp_path / "beside"), list[str]()
    commands, every = [*VERBS, *HOOKS, *GIT], 1 if FULL else 8
    names = places(box)
    names += [name for more in MORE if (name := f".git/baton/{more}") not in names]
    for number, name in enumerate(names):
        shutil.rmtree(box.path)
        shutil.copytree(kept, box.path, symlinks=True)
        place = Place(box, name, kind, beside)
        for what in commands[number % every :: every]:
            if not place.take():
                break
            code, _, err = carried_out(box, what, kind)
            guard = what in HOOKS or what in GIT
            if (guard and (code or "baton" in err)) or "this is a bug" in err or "Traceback" in err or err.count("fatal: ") > 1:
                wrong.append(f"{what} with a {kind} at {name}: {code} {err}")
            if beside.now() != beside.before:
                wrong.append(f"{what} with a {kind} at {name} changes what is beside it")
                shutil.rmtree(beside.top)
                place.beside = beside = Beside(tmp_path / "beside")
                place.mode = 0
        if kind in TOLD and name != CACHE and place.take():
            said = carried_out(box, "doctor", kind)[1]
            if not any(f"'{place.path}{end}' is a" in said for end in ("", ".bad")):  # which is where a bad record is put
                wrong.append(f"doctor does not name a {kind} at {name}: {said}")
    assert not wrong, "\n".join(wrong)
