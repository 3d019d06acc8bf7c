"""The real git-crypt and git-lfs: locked, missing, with a new key, in a second clone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.kit.gates import held, leaks
from tests.kit.repos import Sandbox

SECRET = "pw of the real kind"


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


class Crypt:
    """A repository with git-crypt, its ``key``, a hub with its first commit, and a folder of programs without git-crypt."""

    def __init__(self, place: Path) -> None:
        need("git-crypt")
        self.place, self.hub, self.box = place, Sandbox.init(place / "hub", "--bare"), Sandbox.init(place / "work")
        self.key = place / "key"
        self.box.run("git-crypt", "init")
        self.box.write(".gitattributes", "secret* filter=git-crypt diff=git-crypt\n")
        self.box.write("secret", f"{SECRET}\n")
        self.box.commit("one")
        self.box.run("git-crypt", "export-key", str(self.key))
        self.box.git("remote", "add", "origin", str(self.hub.path))
        self.box.git("push", "-q", "origin", "main")

    def pushed(self, box: Sandbox, *words: str) -> None:
        box.ok("push", "origin", "--yes", *words)
        assert leaks(self.hub, SECRET) == leaks(box, SECRET) == []


@pytest.fixture
def crypt(tmp_path: Path) -> Crypt:
    return Crypt(tmp_path)


def without(program: str, place: Path) -> dict[str, str]:
    """An environment whose PATH does not have a program."""
    programs = place / "programs"
    programs.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for entry in Path(folder).iterdir() if os.path.isdir(folder) else ():
            link = programs / entry.name
            if entry.name != program:
                link.unlink(missing_ok=True)
                link.symlink_to(entry)
    return {"PATH": str(programs)}


def test_git_crypt_that_runs(crypt: Crypt) -> None:
    box = crypt.box
    box.write("secret", f"{SECRET} two\n")
    box.write("secret new", f"{SECRET} three\n")
    assert box.ok("snapshot", "--track", "t", "unlocked").err == "" and held(box) == set()
    crypt.pushed(box)
    box.write("secret", "gone\n")
    box.ok("restore", "t")
    assert (box.path / "secret").read_text() == f"{SECRET} two\n" and leaks(box, SECRET) == []


def test_git_crypt_that_is_missing(crypt: Crypt) -> None:
    box, env = crypt.box, without("git-crypt", crypt.place)
    os.utime(box.path / "secret", (1, 1))
    box.write("secret new", f"{SECRET} three\n")
    done = box.ok("snapshot", "--track", "t", "not on PATH", env=env)
    assert "'secret' did not pass its filter" in done.err and "'secret new' did not pass its filter" in done.err
    crypt.pushed(box)
    box.write("secret", "gone\n")
    (box.path / "secret new").unlink()
    box.ok("restore", "t", env=env)
    assert (box.path / "secret").read_text() == f"{SECRET}\n"
    assert (box.path / "secret new").read_text() == f"{SECRET} three\n" and leaks(box, SECRET) == []


def test_git_crypt_that_is_locked_and_its_second_clone(crypt: Crypt) -> None:
    box = crypt.box
    box.write("secret", f"{SECRET} two\n")
    box.ok("snapshot", "--track", "t", "unlocked")
    crypt.pushed(box)
    there = Sandbox(crypt.place / "there")
    box.git("clone", "-q", str(crypt.hub.path), str(there.path))  # as a locked one: no filter is configured
    there.ok("fetch", "origin")
    os.utime(there.path / "secret", (1, 1))
    assert there.ok("snapshot", "--track", "u", "locked, as git has it").err.count("did not pass") == 0
    there.write("secret", f"{SECRET} by hand\n")
    assert "'secret' did not pass its filter" in there.ok("snapshot", "--track", "u", "locked").err
    crypt.pushed(there)
    there.git("checkout", "-q", "--", "secret")
    there.run("git-crypt", "unlock", str(crypt.key))
    assert (there.path / "secret").read_text() == f"{SECRET}\n"
    there.ok("restore", "t", "--foreign", "--force")
    assert (there.path / "secret").read_text() == f"{SECRET} two\n"
    there.ok("restore", "u", "--force")
    assert (there.path / "secret").read_text() == f"{SECRET} by hand\n" and leaks(there, SECRET) == []


def test_git_crypt_with_a_new_key(crypt: Crypt) -> None:
    box = crypt.box
    box.write("secret", f"{SECRET} two\n")
    box.ok("snapshot", "--track", "t", "the old key")
    shutil.rmtree(box.path / ".git/git-crypt")
    box.run("git-crypt", "init")
    box.write("secret", f"{SECRET} three\n")
    box.ok("snapshot", "--track", "t", "the new key")
    crypt.pushed(box)
    box.write("secret", "gone\n")
    box.ok("restore", "t")
    assert (box.path / "secret").read_text() == f"{SECRET} three\n" and leaks(box, SECRET) == []


def test_git_lfs(tmp_path: Path) -> None:
    need("git-lfs")
    box = Sandbox.init(tmp_path / "work")
    box.git("lfs", "install", "--local", "--skip-repo")
    box.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    box.write("a.bin", f"{SECRET}\n")
    box.commit("one")
    box.write("a.bin", f"{SECRET} two\n")
    assert box.ok("snapshot", "--track", "t", "it runs").err == "" and held(box) == set()
    env = without("git-lfs", tmp_path)
    box.write("b.bin", f"{SECRET} three\n")
    assert "'b.bin' did not pass its filter" in box.ok("snapshot", "--track", "t", "it is missing", env=env).err
    box.write("b.bin", "gone\n")
    box.ok("restore", "t", env=env)
    assert (box.path / "b.bin").read_text() == f"{SECRET} three\n" and leaks(box, SECRET) == []
    bare = Sandbox(tmp_path / "plain")
    box.git("clone", "-q", str(box.path), str(bare.path), env={"GIT_LFS_SKIP_SMUDGE": "1"})
    os.utime(bare.path / "a.bin", (1, 1))  # a pointer in a clone that has no git-lfs is as git has it
    assert bare.ok("snapshot", "--track", "t", "pointers", env=env).err == "" and held(bare) == set()


@pytest.mark.parametrize("way", ["name", "path", "pushurls", "rewritten", "linked"])
def test_the_content_that_git_lfs_keeps_goes_along(tmp_path: Path, way: str) -> None:
    need("git-lfs")
    hub, box = Sandbox.init(tmp_path / "hub", "--bare"), Sandbox.init(tmp_path / "work")
    box.git("lfs", "install", "--local", "--skip-repo")
    box.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    box.write("a.bin", "one\n")
    box.commit("one")
    box.git("remote", "add", "origin", "../hub")
    box.git("push", "-q", "--no-verify", "origin", "main")
    if way == "pushurls":
        Sandbox.init(tmp_path / "second", "--bare")
        for place in ("hub", "second"):
            box.git("config", "--add", "remote.origin.pushurl", str(tmp_path / place))
    elif way == "rewritten":
        box.git("remote", "set-url", "origin", str(tmp_path / "read"))
        box.git("config", f"url.{tmp_path}/hub.pushInsteadOf", f"{tmp_path}/read")
    elif way == "linked":
        box.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
        box = Sandbox(tmp_path / "linked")
    box.write("a.bin", "two\n")
    box.ok("snapshot", "--track", "t", "--step", "s")
    done = box.ok("push", str(hub.path) if way == "path" else "origin", "--yes")
    assert "push the content of 2 files by git-lfs" in done.out or "push the content of 1 file by git-lfs" in done.out
    kept = [path.read_text() for path in (hub.path / "lfs/objects").rglob("*") if path.is_file()]
    assert "two\n" in kept
    there = Sandbox(tmp_path / "there")
    box.git("clone", "-q", "--no-checkout", str(hub.path), str(there.path))
    there.git("lfs", "install", "--local", "--skip-repo")
    there.run("git", "checkout", "-q", "main", env={"GIT_LFS_SKIP_SMUDGE": "1"})
    there.ok("fetch", "origin")
    there.ok("restore", "t", "--foreign", "--force")
    assert (there.path / "a.bin").read_text() == "two\n"
