"""What a lane holds: the same files as the user's work tree, whatever happens on either side, and what a command changed."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.git.worktree.dirsync import Tree
from gitbaton.git.worktree.isolated import Lane
from gitbaton.git.worktree.swap import stat_signature
from tests.kit import Sandbox
from tests.kit.filekit import coarse
from tests.kit.moments import at
from tests.rooms.worktree.test_lanes import inside, lane, shown

__all__ = ["lane"]

NONE = (0, None, 0)
PATHS = ("a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", "a/b")
WHAT = (
    "write",
    "write",
    "sneak",
    "sneak",
    "append",
    "mode",
    "gone",
    "folder",
    "link",
    "touch",
    "rename",
    "fifo",
    "shut",
    "hard",
)
EDIT = st.tuples(st.sampled_from(WHAT), st.sampled_from(PATHS), st.sampled_from(PATHS), st.integers(0, 9))


def clear(path: Path) -> None:
    """Make room for something else."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.is_symlink() or path.exists():
        path.unlink()


def write(top: Path, path: Path, text: str) -> None:
    """A new file, whatever is in its way."""
    for folder in (*path.relative_to(top).parents,)[-2::-1]:
        if not (top / folder).is_dir() or (top / folder).is_symlink():
            clear(top / folder)
            (top / folder).mkdir()
    clear(path)
    path.write_text(text)


def sneak(path: Path, number: int) -> None:
    """Other content of the same size, and the old time again."""
    at = path.stat()
    with path.open("r+b") as file:
        file.write(b"%d" % number)
    os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))


def edit(top: Path, what: str, name: str, other: str, number: int) -> None:
    """One thing that somebody does to a file; what cannot be done there is not done."""
    path = top / name
    try:
        if what == "write":
            write(top, path, f"{number}" * (1 + number % 3))
        elif what == "sneak" and path.is_file() and not path.is_symlink():
            sneak(path, number)
        elif what == "append" and path.is_file():
            with path.open("ab") as file:
                file.write(b"more")
        elif what == "mode":
            path.chmod(0o600 + 0o10 * number)
        elif what == "touch":
            os.utime(path, ns=(number, number * 1_000_000_007), follow_symlinks=False)
        elif what == "rename":
            path.rename(top / other)
        elif what == "shut" and path.is_dir():
            path.chmod(0o500)
        elif what == "hard":
            os.link(path, top / other)
        elif what in ("gone", "folder", "link", "fifo"):
            clear(path)
            if what == "folder":
                path.mkdir(parents=True)
            elif what == "link":
                path.symlink_to(other if number % 2 else "missing/there")
            elif what == "fifo":
                os.mkfifo(path)
    except (OSError, shutil.Error):
        pass


@pytest.mark.deep
@settings(max_examples=120, deadline=None)
@given(rounds=st.lists(st.lists(st.tuples(st.booleans(), EDIT), max_size=8), min_size=1, max_size=4))
def test_whatever_happens_both_are_the_same_after_a_sync(
    rounds: list[list[tuple[bool, tuple[str, str, str, int]]]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        theirs, ours = Path(name) / "theirs", Path(name) / "ours"
        theirs.mkdir()
        ours.mkdir()
        for number, path in enumerate(("a", "b", "d/x", "d/e/z", "d/e", "d")):
            edit(theirs, "touch" if number > 3 else "write", path, path, number)
        tree = Tree(str(theirs), str(ours), (), lambda path, text: False)
        tree.sync()
        assert shown(ours) == shown(theirs)
        for edits in rounds:
            for mine, (what, path, other, number) in edits:
                edit(ours if mine else theirs, what, path, other, number)
            if not any(mine for mine, _ in edits):
                assert tree.changed() == {}
            if all(mine for mine, _ in edits):
                now, then = shown(ours), shown(theirs)
                differ = {p for p in now.keys() | then.keys() if now.get(p, NONE)[:2] != then.get(p, NONE)[:2]}
                real = {p for p in differ if any(not stat.S_ISDIR(side[p][0]) for side in (now, then) if p in side)}
                assert real <= set(tree.changed())
            tree.sync()
            assert shown(ours) == shown(theirs)
            assert {p.name for p in ours.rglob("*") if p.is_fifo()} == set()
        tree.sync()
        assert tree.changed() == {}


def test_what_no_time_tells_of_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the clock of files stands still for a while, as on older kernels, only the content tells of a change."""
    coarse(monkeypatch, 10_000_000)
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    tree = Tree(str(theirs), str(ours), (), lambda path, text: False)
    ours.mkdir()
    write(tmp_path, theirs / "a", "x")
    for _ in range(6):
        time.sleep(0.035)  # of an original that is young nobody can tell what the copy was
        tree.sync()
        sneak(ours / "a", 1)
        assert [*tree.changed()] == ["a"]
        for number in (2, 3):
            sneak(theirs / "a", number)
            tree.sync()
            assert (ours / "a").read_text() == str(number)


@pytest.mark.deep
def test_what_has_not_changed_is_not_copied_again(repo: Sandbox, lane: Lane) -> None:
    for number in range(40):
        repo.write(f"d/{number}", f"{number}\n")
    lane.sync()
    time.sleep(0.03)
    lane.sync()
    made = {p: p.stat().st_ino for p in Path(lane.path, "d").iterdir()}
    time.sleep(0.03)
    with at("open", lambda args: str(args[0]).isdigit(), lambda _: pytest.fail("a file is opened")):
        lane.sync()
    assert len(made) == 40 and {p: p.stat().st_ino for p in made} == made


@pytest.mark.deep
def test_a_large_file_with_holes_keeps_them(repo: Sandbox, lane: Lane) -> None:
    with (repo.path / "image").open("wb") as file:
        file.truncate(64 << 20)
        file.seek(8 << 20)
        file.write(os.urandom(200_000))
        file.seek(40 << 20)
        file.write(b"x")
    repo.write("dense", os.urandom(300_000))
    lane.sync()
    for name in ("image", "dense"):
        assert Path(lane.path, name).read_bytes() == (repo.path / name).read_bytes()
    copy = Path(lane.path, "image").stat()
    assert copy.st_size == 64 << 20 and copy.st_blocks * 512 < 1 << 20


def test_holes_are_not_read(repo: Sandbox, lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    with (repo.path / "image").open("wb") as file:
        file.write(b"x")
        file.truncate(2 << 30)
    sizes, read = list[int](), os.read

    def counted(fd: int, size: int) -> bytes:
        data = read(fd, size)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "read", counted)
    lane.sync()
    assert 0 < sum(sizes) < 1 << 20 and Path(lane.path, "image").stat().st_size == 2 << 30


def test_files_that_somebody_always_appends_to(repo: Sandbox, lane: Lane) -> None:
    small, large = repo.write("small.log", ""), repo.write("large.log", b"x" * 300_000)
    stop = threading.Event()

    def append() -> None:
        while not stop.is_set():
            for path in (small, large):
                with path.open("ab") as file:
                    file.write(b"one more line\n")

    thread = threading.Thread(target=append)
    thread.start()
    try:
        for _ in range(20):
            lane.sync()
            assert lane.changed(lambda path: False) == {}
    finally:
        stop.set()
        thread.join()
    for path in (small, large):
        assert path.read_bytes().startswith(Path(lane.path, path.name).read_bytes())
    lane.sync()
    for path in (small, large):
        assert path.read_bytes() == Path(lane.path, path.name).read_bytes()


def test_only_what_is_a_file_is_taken(repo: Sandbox, lane: Lane) -> None:
    os.mkfifo(repo.path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")  # the current directory is the test's
        os.rename("socket", repo.path / "socket")
        repo.write("node_modules/x/i.js", "ignored, too\n")
        repo.write(".gitignore", "node_modules\n")
        lane.sync()
    assert sorted(os.listdir(lane.path)) == [".git", ".gitignore", "a.txt", "node_modules"]
    assert Path(lane.path, "node_modules/x/i.js").read_text() == "ignored, too\n"


def test_what_cannot_be_read_is_left_out(repo: Sandbox, lane: Lane) -> None:
    """Root reads everything, so the work is done by somebody else."""
    repo.write("shut/f", "1")
    repo.write("open", "2")
    repo.write("secret", "3").chmod(0)
    repo.write("fixed/f", "4")
    (repo.path / "shut").chmod(0)
    (repo.path / "fixed").chmod(0o555)
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        for folder in repo.path.parents:
            if not folder.stat().st_mode & 0o001:
                folder.chmod(folder.stat().st_mode | 0o011)
        target = Path(name) / "lane"
        child = os.fork()
        if child == 0:
            try:
                if os.getuid() == 0:
                    os.setgid(65534)
                    os.setuid(65534)
                target.mkdir()
                tree = Tree(str(repo.path), str(target), (str(repo.path / ".git"),), lambda path, text: False)
                for _ in range(2):
                    tree.sync()
                    assert sorted(tree.left_out) == ["secret", "shut"]
                os.chmod(target / "fixed", 0)
                (target / "open").unlink()
                tree.sync()
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert sorted(os.listdir(target)) == ["a.txt", "fixed", "open"]
        assert os.listdir(target / "fixed") == ["f"] and stat.S_IMODE((target / "fixed").stat().st_mode) == 0o555
    (repo.path / "shut").chmod(0o700)


def test_what_a_nested_repository_has_of_its_own_costs_no_look(repo: Sandbox, lane: Lane) -> None:
    """It may have tens of thousands of objects, and each step would look at all of them."""
    for number in range(100):
        repo.write(f"n/.git/objects/{number}", "object\n")
    repo.write("n/f", "1\n")
    lane.sync()
    looks: list[object] = []
    inside(lane, "rm", "n/f")
    sys.setprofile(lambda frame, event, arg: looks.append(arg) if event == "c_call" and arg is os.lstat else None)
    try:
        found = lane.changed(lambda path: False)
    finally:
        sys.setprofile(None)
    assert [*found] == ["n/f"] and 0 < len(looks) < 50


def test_what_a_command_changes_is_told(repo: Sandbox, lane: Lane) -> None:
    repo.write("kept", "kept\n")
    repo.write("gone/f", "gone\n")
    repo.write("run", "run\n")
    repo.write("theirs", "1\n")
    repo.write(".gitignore", "*.cache\n")
    lane.sync()
    inside(
        lane,
        "sh",
        "-c",
        "echo x >a.txt; rm -r gone; echo x >gone; chmod +x run; echo kept >kept; ln -s y link; mkdir out; "
        "echo 1 >out/f; echo 2 >more; touch x.cache theirs",
    )
    repo.write("theirs", "2\n")
    found = lane.changed(lambda path: path.startswith("out/"))
    assert {path: (then is not None, there) for path, (then, there) in found.items()} == {
        "a.txt": (True, True),
        "gone": (False, True),
        "gone/f": (True, False),
        "link": (False, True),
        "more": (False, True),
        "run": (True, True),
        "theirs": (False, True),
    }
    seen = {path: then for path, (then, _) in found.items() if then is not None}
    assert {path for path, then in seen.items() if then != stat_signature(str(repo.path / path))} == set()
    lane.sync()
    assert lane.changed(lambda path: False) == {}
