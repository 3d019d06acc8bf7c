"""Restore across file systems: a repository that is elsewhere than its work tree, and a file system mounted inside of it."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import pack

import pytest

from tests.kit import Sandbox
from tests.kit.capturekit import git_elsewhere, without_privilege
from tests.kit.moments import Args, at
from tests.kit.state import Entry, files_of, snap

pytestmark = pytest.mark.deep
KILLED = """import os, sys
seen = 0
def hook(event, args):
    global seen
    if event in ("os.link", "os.rename", "os.remove", "os.mkdir", "gitbaton.restore"):
        seen += 1
        if seen == {moment}:
            os.kill(os.getpid(), 9)
sys.addaudithook(hook)
sys.argv[1:] = ["restore", "--exact"]
from gitbaton.cli.main import run
run()
"""


@pytest.fixture
def apart(repo: Sandbox) -> Iterator[Sandbox]:
    """A repository whose git directory is on another file system than its work tree."""
    with git_elsewhere(repo):
        yield repo


@contextmanager
def mount(place: Path, *words: str) -> Iterator[None]:
    place.mkdir()
    if subprocess.run(["mount", *words, place], capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def mounted(repo: Sandbox) -> Iterator[Sandbox]:
    """A repository with a file system of its own at ``m``."""
    with mount(repo.path / "m", "-t", "tmpfs", "tmpfs"):
        yield repo


@pytest.fixture
def bound(repo: Sandbox, tmp_path: Path) -> Iterator[Sandbox]:
    """A repository with a part of its own file system mounted at ``m``."""
    (tmp_path / "other").mkdir()
    with mount(repo.path / "m", "--bind", os.fspath(tmp_path / "other")):
        yield repo


def spoil(box: Sandbox) -> tuple[dict[str, Entry], dict[str, Entry]]:
    """Record files of all kinds, and change them: written, gone, new, links, a folder that became a file and the reverse."""
    for name in ("one", "m/two", "m/d/three", "m/f"):
        box.write(name, f"then {name}\n")
    (box.path / "m/link").symlink_to("two")
    box.write("m/d/private", "then\n").chmod(0o600)
    box.commit("all")
    snap(box)
    then = dict(files_of(box.path))
    box.write("one", "now\n")
    box.write("m/two", "now two\n")
    box.write("m/d/private", "now\n").chmod(0o600)
    (box.path / "m/link").unlink()
    (box.path / "m/link").symlink_to("elsewhere")
    (box.path / "m/d/three").unlink()
    (box.path / "m/f").unlink()
    box.write("m/f/deep/er", "now\n")
    return then, dict(files_of(box.path))


def left(box: Sandbox) -> list[str]:
    """What a restore left of its own in the work tree."""
    return [os.fspath(p) for p in box.path.rglob(".baton-*")]


@pytest.mark.parametrize("box", ["apart", "mounted", "bound"])
def test_all_comes_back_and_goes_again(box: str, request: pytest.FixtureRequest) -> None:
    repo: Sandbox = request.getfixturevalue(box)
    then, now = spoil(repo)
    repo.ok("restore", "--exact")
    assert files_of(repo.path) == then and left(repo) == []
    assert stat.S_IMODE((repo.path / "m/d/private").stat().st_mode) == 0o600
    repo.ok("undo")
    assert files_of(repo.path) == now and left(repo) == []
    repo.ok("redo")
    assert files_of(repo.path) == then and left(repo) == []


@pytest.mark.parametrize("box", ["apart", "mounted"])
def test_killed_at_any_moment_it_is_ended_by_the_next_command(box: str, request: pytest.FixtureRequest) -> None:
    repo: Sandbox = request.getfixturevalue(box)
    then, now = spoil(repo)
    ends, moment = [], 0
    while True:
        moment += 7
        if repo.run(sys.executable, "-c", KILLED.format(moment=moment)).code != -9:
            break
        repo.ok("status")
        found = files_of(repo.path)
        ends.append(found == then)
        assert found in (then, now), moment
        assert left(repo) == [], moment
        assert stat.S_IMODE((repo.path / "m/d/private").stat().st_mode) == 0o600
        if found == then:
            repo.ok("undo")
        assert files_of(repo.path) == now, moment
    assert {*ends} == {True, False} and files_of(repo.path) == then


@pytest.mark.parametrize("box", ["apart", "mounted"])
def test_what_is_written_late_is_kept_and_named(box: str, request: pytest.FixtureRequest) -> None:
    repo: Sandbox = request.getfixturevalue(box)
    then, _ = spoil(repo)
    writer = os.open(repo.path / "m/two", os.O_WRONLY | os.O_APPEND)

    seen: list[str] = []

    def write(_: Args) -> None:
        os.write(writer, b"late\n")
        seen.append(repo.git("status", "--porcelain", "-uall"))

    with at("os.link", lambda args: str(args[0]).endswith("/new/m/two"), write):
        done = repo.here("restore", "--exact")
    os.close(writer)
    said = [line for line in done.err.splitlines() if "was written while it was replaced" in line]
    assert done.code == 0 and files_of(repo.path)["m/two"] == then["m/two"] and len(said) == 1
    assert Path(said[0].split("'")[3]).read_text() == "now two\nlate\n" and left(repo) == []
    assert len(seen) == 1 and ".baton-" not in seen[0]


@pytest.mark.parametrize("box", ["apart", "mounted", "bound"])
def test_where_one_file_cannot_be_put_all_are_as_before(box: str, request: pytest.FixtureRequest) -> None:
    repo: Sandbox = request.getfixturevalue(box)
    _, now = spoil(repo)

    def full(_: Args) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with at("os.link", lambda args: args[1] == "three", full):
        done = repo.here("restore", "--exact")
    assert done.code == 128 and "No space left on device" in done.err
    assert files_of(repo.path) == now and left(repo) == []


def test_a_mount_in_which_nothing_can_be_written_is_left_alone(mounted: Sandbox) -> None:
    then, now = spoil(mounted)
    subprocess.run(["mount", "-o", "remount,ro", mounted.path / "m"], check=True)
    done = mounted.baton("restore")
    found = files_of(mounted.path)
    assert done.code == 1 and "unwritable" in done.out + done.err
    assert found["one"] == then["one"] and {p: w for p, w in found.items() if p != "one"} == {
        p: w for p, w in now.items() if p != "one"
    }


def test_without_room_for_what_waits_nothing_is_changed_and_the_room_is_named(repo: Sandbox) -> None:
    """A disk that is full is no file's fault: the others of a restore would be no sooner done."""
    with mount(repo.path / "m", "-t", "tmpfs", "-o", "nr_inodes=12", "tmpfs"):
        repo.write("one", "then\n")
        repo.write("m/two", "then\n")
        snap(repo)
        repo.write("one", "now\n")
        repo.write("m/two", "now\n")
        repo.write(".git/info/exclude", "full*\n")
        with pytest.raises(OSError, match="No space left"):
            for n in range(12):
                repo.write(f"m/full{n}", "")
        now = dict(files_of(repo.path))
        done = repo.baton("restore")
        assert done.code == 128 and "No space left on device" in done.err
        assert files_of(repo.path) == now and left(repo) == []


@pytest.mark.parametrize("where", ["m", "m/d"])
def test_what_the_top_of_a_mount_gives_to_all_in_it_is_not_given_elsewhere(mounted: Sandbox, where: str) -> None:
    """Files wait there: its group and its default access list are those of what is made in it, and of nothing else."""
    top, user = mounted.path / "m", 0xFFFFFFFF
    (top / "d").mkdir()
    rows = (1, 7, user), (2, 7, 5), (4, 5, user), (0x10, 7, user), (0x20, 5, user)
    try:
        os.setxattr(mounted.path / where, "system.posix_acl_default", pack("<I", 2) + b"".join(pack("<HHI", *r) for r in rows))
        os.chown(top, -1, os.getegid() + 7)
    except OSError:
        pytest.skip("no access lists, or no groups to give")
    top.chmod(0o2775)
    names = ("m/d/old", "m/d/new", "m/other")
    for name in names:
        path = mounted.write(name, "then\n")
        path.chmod(0o640)
    seen = {
        name: ("system.posix_acl_access" in os.listxattr(mounted.path / name), (mounted.path / name).stat().st_gid)
        for name in names
    }
    snap(mounted)
    mounted.write("m/d/old", "now\n")
    (mounted.path / "m/d/new").unlink()
    (mounted.path / "m/other").unlink()
    mounted.ok("restore")
    assert {
        n: ("system.posix_acl_access" in os.listxattr(mounted.path / n), (mounted.path / n).stat().st_gid) for n in names
    } == seen


def test_where_something_is_mounted_no_file_comes_and_the_others_do(repo: Sandbox) -> None:
    repo.write("m", "then\n")
    repo.write("one", "then\n")
    snap(repo)
    repo.write("one", "now\n")
    (repo.path / "m").unlink()
    with mount(repo.path / "m", "-t", "tmpfs", "tmpfs"):
        repo.write("m/d/two", "now\n")
        done = repo.baton("restore", "--exact")
        assert done.code == 1 and "refuse m (unwritable)" in done.out
        assert (repo.path / "m/d/two").read_text() == "now\n" and (repo.path / "one").read_text() == "then\n"
        assert left(repo) == []


@pytest.mark.parametrize("box", ["apart", "mounted"])
@pytest.mark.parametrize("killed", [False, True])
def test_only_the_folder_of_a_file_need_be_writable(box: str, killed: bool, request: pytest.FixtureRequest) -> None:
    """As where files are put by git: the top of a disk that is shared often belongs to another user."""
    repo: Sandbox = request.getfixturevalue(box)
    lesser = without_privilege(sys.executable, "-m", "gitbaton", "restore")
    if lesser is None:
        pytest.skip("root writes everywhere here, and setpriv is missing")
    top, name = (repo.path, "s/f") if box == "apart" else (repo.path / "m", "m/s/f")
    repo.write(name, "one\n")
    snap(repo)
    repo.write(name, "two\n")
    top.chmod(0o555)
    try:
        if killed:
            killer = [*lesser[:-3], "-c", KILLED.replace(', "--exact"', "").format(moment=4)]
            assert repo.run(*killer).code == -9
        done = repo.run(*lesser)
    finally:
        top.chmod(0o755)
    assert done.code in (0, 1) if killed else done.code == 0, done.err
    assert (repo.path / name).read_text() == "one\n" and left(repo) == []
