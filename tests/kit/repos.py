"""A real repository in a temporary directory, and what a test does with it."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha1
from pathlib import Path
from typing import Any

from gitbaton import Baton
from gitbaton.cli.main import call
from tests.kit.forkserver import python

SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit status, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def loose(place: Path, oid: str, git_dir: str = ".git") -> Path:
    """The file of an object that a test may damage, in a repository that has no pack any more."""
    objects = place / git_dir / "objects"
    for pack in objects.glob("pack/*.pack"):
        data = pack.read_bytes()
        for file in objects.glob(f"pack/{pack.stem}.*"):
            file.unlink()
        subprocess.run(["git", "-C", str(place), "unpack-objects", "-q"], input=data, check=True)
    path = objects / oid[:2] / oid[2:]
    path.chmod(0o644)
    return path


class Sandbox:
    """A repository at ``path``; every command runs in it with the sealed environment of the test."""

    def __init__(self, path: Path, git: str = "git") -> None:
        self.path = path
        self.program = git

    @classmethod
    def init(cls, path: Path, *options: str, git: str = "git") -> Sandbox:
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([git, "init", "-q", "-b", "main", *options, str(path)], check=True, capture_output=True)
        return cls(path, git)

    @classmethod
    def begun(cls, path: Path) -> Sandbox:
        """A repository with one commit that holds ``a.txt``: a copy of one that is made once a session."""
        shutil.copytree(_begun(), path, symlinks=True)
        _refresh(path / ".git" / "index", path / "a.txt")
        return cls(path)

    def loose(self, oid: str) -> Path:
        """The file of an object that a test may damage; no other copy is in a pack."""
        return loose(self.path, oid)

    def run(
        self, *argv: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None, cwd: Path | None = None
    ) -> Outcome:
        """Any program, never failing the test by itself."""
        if argv[:3] == (sys.executable, "-m", "gitbaton"):
            return self.baton(*argv[3:], env=env, stdin=stdin, cwd=cwd)
        done = subprocess.run(
            argv,
            cwd=cwd or self.path,
            env={**os.environ, **(env or {})},
            input=stdin if stdin is not None else b"",
            capture_output=True,
        )
        return Outcome(
            done.returncode, done.stdout.decode("utf-8", "surrogateescape"), done.stderr.decode("utf-8", "surrogateescape")
        )

    def git(self, *args: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> str:
        """A git command that must succeed; its output without the last newline."""
        done = self.run(self.program, *args, env=env, stdin=stdin)
        assert done.code == 0, f"git {' '.join(args)}: {done.code}\n{done.err}"
        return done.out.removesuffix("\n")

    def everything(self) -> str:
        """What its objects hold, reachable or not."""
        return self.git("cat-file", "--batch-all-objects", "--batch")

    def try_git(self, *args: str, env: Mapping[str, str] | None = None) -> Outcome:
        """A git command that may fail."""
        return self.run(self.program, *args, env=env)

    def baton(
        self, *args: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None, cwd: Path | None = None
    ) -> Outcome:
        """``git baton``, as a process, as a user runs it."""
        done = python(["-m", "gitbaton", *args], os.fspath(cwd or self.path), {**os.environ, **(env or {})}, stdin or b"")
        return Outcome(done.code, done.out.decode("utf-8", "surrogateescape"), done.err.decode("utf-8", "surrogateescape"))

    def here(self, *args: str) -> Outcome:
        """``git baton`` in this process, so that a test can change how long it waits."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = call(["--repo-root", os.fspath(self.path), *args])
        return Outcome(code, out.getvalue(), err.getvalue())

    def ok(self, *args: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None) -> Outcome:
        """``git baton`` that must succeed."""
        done = self.baton(*args, env=env, stdin=stdin)
        assert done.code == 0, f"git baton {' '.join(args)}: {done.code}\n{done.out}\n{done.err}"
        return done

    def open(self, **options: Any) -> Baton:
        """The Python API on this repository."""
        return Baton(self.path, **options)

    def write(self, name: str, text: str | bytes = "") -> Path:
        """A file of the work tree."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def commit(self, message: str = "commit", **files: str) -> str:
        """Write files (``a_txt`` is ``a.txt``), stage everything and commit; the commit's id."""
        for name, text in files.items():
            self.write(name.replace("_", "."), text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head()

    def pulled(self, message: str = "commit", **files: str) -> str:
        """The same, as somebody else's: HEAD's reflog does not say that it was made here."""
        oid = self.commit(message, **files)
        self.git("reflog", "delete", "HEAD@{0}")
        return oid

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def tree(self, what: str) -> dict[str, str]:
        """``path -> mode id`` of a tree-ish, recursively."""
        raw = self.run(self.program, "ls-tree", "-r", "-z", what).out
        rows = (row.split("\t", 1) for row in raw.split("\0") if row)
        return {path: f"{meta.split(' ')[0]} {meta.split(' ')[2]}" for meta, path in rows}

    def fsck(self) -> None:
        """Git must find nothing wrong."""
        done = self.try_git("fsck", "--strict", "--no-dangling")
        assert done.code == 0 and "error" not in done.err, done.out + done.err


@cache
def _begun() -> Path:
    place = Path(tempfile.mkdtemp(prefix="gitbaton-begun-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    box = Sandbox.init(place / "repo")
    box.write("a.txt", "one\n")
    box.git("add", "-A")
    who = {"NAME": "A U Thor", "EMAIL": "author@example.com", "DATE": "1767225600 +0000"}
    # A fixture of a whole module may be the first to ask, before any test is sealed.
    env = {f"GIT_{role}_{name}": text for role in ("AUTHOR", "COMMITTER") for name, text in who.items()}
    box.git("commit", "-q", "-m", "first", env=env)
    for sample in (box.path / ".git" / "hooks").glob("*.sample"):
        sample.unlink()  # thirteen files that each copy would have
    return box.path


def _refresh(index: Path, file: Path) -> None:
    """What ``git update-index --refresh`` does to an index of one file: its copy has another inode and other times."""
    data, found = bytearray(index.read_bytes()[:-20]), file.lstat()
    times = (*divmod(found.st_ctime_ns, 10**9), *divmod(found.st_mtime_ns, 10**9))
    struct.pack_into(">6L", data, 12, *times, found.st_dev & 0xFFFFFFFF, found.st_ino & 0xFFFFFFFF)  # its mode stays
    struct.pack_into(">3L", data, 40, found.st_uid, found.st_gid, found.st_size)
    index.write_bytes(data + sha1(data).digest())


def integer_clock(start: datetime = SOME_TIME) -> Callable[[], datetime]:
    """A clock that is one second later each time it is asked."""
    ticks = iter(range(1 << 30))
    return lambda: start + timedelta(seconds=next(ticks))


def find_new_git() -> str | None:
    """A git of 2.45 or newer: the one GITBATON_TEST_GIT names, or the one on PATH."""
    for candidate in (os.environ.get("GITBATON_TEST_GIT"), "git"):
        if not candidate:
            continue
        try:
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True).stdout
        except OSError:
            continue
        words = said.split()
        major, minor = (int(n) for n in words[2].split(".")[:2])
        if (major, minor) >= (2, 45):
            return candidate
    return None
