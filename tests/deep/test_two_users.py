"""Two users of a group, each a process of its own user id, on one repository of ``git init --shared=group``."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import GITCONFIG
from tests.kit.places import ROOT

GROUP = 4321

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


@dataclass(frozen=True)
class User:
    """Somebody with a home, a umask that gives nothing to the group, and the group in common."""

    uid: int
    home: Path
    place: Path

    def start(self, *words: str, place: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command of this user's, to its end."""
        paths = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
        env = {
            **os.environ,
            "HOME": str(self.home),
            "PATH": f"{self.home.parent / 'bin'}:/usr/bin:/bin",
            "PYTHONPATH": os.pathsep.join(paths),
        }
        who: dict[str, Any] = {"user": self.uid, "group": GROUP, "extra_groups": [], "umask": 0o022}
        return subprocess.run(
            words,
            cwd=place or self.place,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            **who,
        )

    def run(self, *words: str, codes: tuple[int, ...] = (0,), place: Path | None = None) -> str:
        """The same for one that ends as it should; what it printed."""
        done = self.start(*words, place=place)
        said = f"{self.uid}: {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert done.returncode in codes, said
        assert "denied" not in said and "not permitted" not in said, said
        return done.stdout

    def baton(self, *words: str, codes: tuple[int, ...] = (0,), place: Path | None = None) -> str:
        return self.run("git-baton", *words, codes=codes, place=place)

    def write(self, name: str, text: str) -> None:
        """As an editor does that makes a new file and renames it."""
        new = self.place / (name + "~")
        new.write_text(text)
        os.chown(new, self.uid, GROUP)
        new.chmod(0o644)
        new.rename(self.place / name)


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[User, User]]:
    """The first one has made the repository, and committed."""
    top = Path(tempfile.mkdtemp(prefix="gitbaton-users-", dir="/tmp"))
    top.chmod(0o755)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(top))
    place = top / "repo"
    place.mkdir()
    made = []
    for uid in (4001, 4002):
        home = top / f"home{uid}"
        home.mkdir()
        (home / ".gitconfig").write_text(f"{GITCONFIG}[safe]\n\tdirectory = *\n")
        os.chown(home, uid, GROUP)
        made.append(User(uid, home, place))
    os.chown(place, 4001, GROUP)
    place.chmod(0o2775)
    try:
        (top / "bin").mkdir()
        script = top / "bin" / "git-baton"
        script.write_text(f'#!/bin/sh\nexec {interpreter(made[1])} -P -m gitbaton "$@"\n')
        script.chmod(0o755)
        first, second = made
        first.run("git", "init", "-q", "-b", "main", "--shared=group")
        first.write("a.txt", "one\n")
        first.run("git", "add", "-A")
        first.run("git", "commit", "-q", "-m", "first")
        yield first, second
    finally:
        shutil.rmtree(top)


def interpreter(user: User) -> str:
    """A Python that this user can run the package with: that of the tests may lie where only root can read."""
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        with suppress(OSError):
            if user.start(python, "-c", "import gitbaton.cli.main").returncode == 0:
                return python
    pytest.skip(f"another user can run neither {sys.executable} nor the system's Python with the package")


def work(user: User, far: Path) -> None:
    """What somebody does with a repository in a day; each verb finds what the other one's left."""
    name = str(user.uid)
    for step in ("one", "two", "three"):
        user.write("a.txt", f"{step} of {name}\n")
        user.write(f"{name}.txt", f"{step}\n")
        user.baton("snapshot", "--track", "both", "--step", f"{step} of {name}")
        user.baton("snapshot", "--track", name, "--step", step)
    user.baton("pin", f"{name}~1")
    user.baton("restore", f"{name}~1", "--force")
    assert (user.place / "a.txt").read_text() == f"two of {name}\n"
    user.baton("undo")
    assert (user.place / "a.txt").read_text() == f"three of {name}\n"
    user.baton("redo")
    user.baton("undo")
    user.baton("run", "--run", "all", "--step", f"s{name}", "--", "sh", "-c", "echo done")
    user.baton("run", "--run", "all", "--step", "shared", "--", "sh", "-c", "echo done")
    user.baton("journal", "show", "all")
    user.baton("install")
    for more in ((), ("--amend",)):
        (user.place / ".git/COMMIT_EDITMSG").unlink(missing_ok=True)  # which git itself gives to nobody else
        user.run("git", "commit", "-q", "--allow-empty", "-m", f"by {name}", *more)
    for verb in ("status", "resume", "log", "tracks", "du", "verify"):
        user.baton(verb, codes=(0, 1))
    user.baton("push", "--yes", "--runs", "far")
    user.baton("fetch", "far")
    user.baton("unpin", f"{name}~1")
    user.baton("forget", f"{name}~2", "--yes")
    user.baton("prune", "--keep-last", "2", "--yes")
    linked = far.parent / f"linked{name}"
    user.run("git", "worktree", "add", "-q", "--detach", str(linked), place=user.place)
    user.baton("snapshot", "--track", f"linked{name}", "--step", "there", place=linked)
    tree = far.parent / f"tree{name}"
    user.baton("worktree", str(tree), name)
    for gone in (linked, tree):  # git shares nothing of a linked work tree, and its gc must write there
        user.run("git", "worktree", "remove", "--force", str(gone))
    user.run("git", "gc", "-q")
    user.baton("export")  # what a snapshot in another work tree left behind here
    user.baton("doctor")


def test_each_goes_on_with_what_the_other_left(users: tuple[User, User]) -> None:
    first, _ = users
    far = first.home.parent / "far"
    far.parent.chmod(0o777 | stat.S_ISVTX)
    first.run("git", "init", "-q", "--bare", "--shared=group", str(far))
    first.run("git", "remote", "add", "far", str(far))
    for user in users:
        work(user, far)
        for name in ("objects", "refs", "baton"):
            top = user.place / ".git" / name
            assert not [p for p in (top, *top.rglob("*")) if p.is_dir() and not p.stat().st_mode & stat.S_IWGRP]
    for user in users:
        again(user)
    first.run("git", "fsck", "--strict", "--no-dangling")


def test_where_nothing_can_be_written_the_doctor_says_so(users: tuple[User, User]) -> None:
    """A hook does not, and its exit status is 0."""
    first, second = users
    first.baton("snapshot", "--track", "t", "--step", "one")
    second.baton("doctor")
    git = first.place / ".git"
    for place in (git / "objects", git / "refs/baton/tracks"):
        before = place.stat().st_mode & 0o7777
        place.chmod(0o555)
        rows = {user: user.baton("doctor", codes=(1,)).splitlines() for user in users}
        said = f"MEND folders: '{place}' cannot be written here: nothing is recorded"
        mends = {user: found[found.index(said) + 1].strip() for user, found in rows.items()}
        assert mends == {first: f"chmod u+rwx {place}", second: f"sudo chmod g+rwx {place}"}
        assert second.start("git-baton", "hook", "claude", "Stop").returncode == 0
        first.run("sh", "-c", mends[first])
        first.baton("doctor")
        place.chmod(before)
    second.baton("doctor")


def again(user: User) -> None:
    """The same repository a day later, as both have left it."""
    user.write("a.txt", f"again of {user.uid}\n")
    user.baton("snapshot", "--track", "both", "--step", f"again of {user.uid}")
    user.baton("restore", "both~1", "--force")
    user.baton("undo")
    user.baton("run", "--run", "all", "--step", f"again{user.uid}", "--", "true")
    user.baton("push", "--yes", "far")
    user.baton("export")  # what a snapshot in another work tree left behind here
    user.baton("doctor")
