"""A restore's swap: the old file is put aside and looked at, the new one put into the free place; nothing is written over."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.base.errors import BatonError, StaleError
from gitbaton.checkpoints.restore import Order, Restored, carry_out
from tests.kit import Sandbox
from tests.kit.moments import Args, always, at
from tests.kit.tiers import some


def restored(repo: Sandbox) -> Restored:
    with Baton(repo.path, door="binary") as baton:
        return carry_out(baton, "restore", Order())[0]


@pytest.fixture
def two(repo: Sandbox) -> Sandbox:
    """Two files and a directory, recorded and spoilt."""
    repo.write("b.txt", "b\n")
    repo.write("d/x.txt", "x\n")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    for name in ("a.txt", "b.txt", "d/x.txt"):
        repo.write(name, "spoilt\n")
    return repo


@pytest.mark.deep
@some("link", [False, True], ids=["file", "link"])
def test_a_directory_of_attributes_that_became_a_file(repo: Sandbox, link: bool) -> None:
    repo.write("d/.gitattributes", "* text\n")
    repo.write("d/x", "x\n")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    for name in (".gitattributes", "x"):
        (repo.path / "d" / name).unlink()
    (repo.path / "d").rmdir()
    if link:
        (repo.path / "d").symlink_to("/tmp")
    else:
        repo.write("d", "a file\n")
    repo.ok("restore")
    assert (repo.path / "d/x").read_text() == "x\n" and (repo.path / "d/.gitattributes").read_text() == "* text\n"
    repo.ok("undo")
    assert ((repo.path / "d").is_symlink() == link and not (repo.path / "d").is_dir()) or link


def test_a_directory_keeps_what_it_is(two: Sandbox) -> None:
    folder = two.path / "d"
    folder.chmod(0o700)
    before = folder.stat()
    two.write("d/more.txt", "unknown\n")
    two.ok("restore", "--exact")
    after = folder.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert sorted(p.name for p in folder.iterdir()) == ["x.txt"]


@pytest.mark.deep
def test_groups_are_those_of_the_work_tree(two: Sandbox) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another group")
    folder = two.path / "d"
    os.chown(folder, -1, 1234)
    folder.chmod(0o2775)
    os.chown(two.path / "a.txt", -1, 4321)
    (folder / "x.txt").unlink()
    two.ok("restore")
    assert (folder / "x.txt").stat().st_gid == 1234 and (two.path / "a.txt").stat().st_gid == 4321


@pytest.mark.deep
def test_an_executable_bit_that_git_does_not_look_at_stays(two: Sandbox) -> None:
    two.git("config", "core.fileMode", "false")
    (two.path / "a.txt").chmod(0o750)
    two.ok("restore")
    assert stat.S_IMODE((two.path / "a.txt").stat().st_mode) == 0o750


@pytest.mark.deep
@some("number", [errno.EPERM, errno.ENOSYS, errno.EXDEV])
def test_without_hard_links(two: Sandbox, number: int) -> None:
    def refuse(_: Args) -> None:
        raise OSError(number, os.strerror(number))

    (two.path / "link").symlink_to("nowhere")
    two.ok("snapshot", "--track", "t", "--step", "spoilt", "--no-set-current")
    (two.path / "link").unlink()
    with at("os.link", always, refuse):
        restored(two)
    assert (two.path / "a.txt").read_text() == "spoilt\n" and os.readlink(two.path / "link") == "nowhere"


@contextmanager
def late(two: Sandbox, act: Callable[[int], object]) -> Iterator[None]:
    """A writer has b.txt open, and writes while it is aside; then ``act`` is done, each time that the new one is to come there,
    with its number."""
    writer, times = os.open(two.path / "b.txt", os.O_WRONLY | os.O_APPEND), count()

    def write(_: Args) -> None:
        if not (time := next(times)):
            os.write(writer, b"late\n")
            os.close(writer)
        act(time)

    with at("os.link", lambda args: str(args[0]).endswith("/new/b.txt") and args[1] == "b.txt", write):
        yield


@pytest.mark.deep
def test_what_is_written_late_is_kept_and_named(two: Sandbox) -> None:
    with late(two, int):
        done = restored(two)
    said = [text for text in done.warnings if "was written while it was replaced" in text]
    assert (two.path / "b.txt").read_text() == "b\n" and len(said) == 1
    assert Path(said[0].split("'")[3]).read_text() == "spoilt\nlate\n"


def test_what_is_written_late_is_named_when_the_restore_is_taken_back_too(two: Sandbox) -> None:
    def another(time: int) -> None:
        if not time:
            two.write("b.txt", "somebody's\n")

    with late(two, another), pytest.raises(BatonError) as failed:
        restored(two)
    kept = [text for text in failed.value.hints if "was written while it was replaced" in text]
    assert len(kept) == 1 and Path(kept[0].split("'")[3]).read_text() == "spoilt\nlate\n"
    assert (two.path / "b.txt").read_text() == "somebody's\n" and (two.path / "a.txt").read_text() == "spoilt\n"
    assert "'b.txt' is left as it is: it was written since" in failed.value.hints


@pytest.mark.deep
def test_what_was_put_aside_goes_back_when_a_swap_fails(two: Sandbox) -> None:
    def fail(_: int) -> None:
        raise StaleError("'d/x.txt' changed meanwhile")

    names = ("b.txt", "d/x.txt")  # the new a.txt was in its place already
    (two.path / "a.txt").chmod(0o600)
    before = {name: (two.path / name).stat().st_ino for name in names}
    with late(two, fail), pytest.raises(BatonError):
        restored(two)
    assert (two.path / "b.txt").read_text() == "spoilt\nlate\n", "a late byte is not lost"
    assert (two.path / "a.txt").read_text() == "spoilt\n"
    assert stat.S_IMODE((two.path / "a.txt").stat().st_mode) == 0o600
    assert {name: (two.path / name).stat().st_ino for name in names} == before


@pytest.mark.deep
def test_an_empty_file_made_after_a_kill_stays(two: Sandbox) -> None:
    """The beginning of a file is no torn one: git checks files out beside the work tree."""
    driver = "import os, signal, sys\ndef hook(e, a):\n    if e == 'os.link' and str(a[1]) == 'b.txt': os.kill(0, 9)\n"
    driver += "sys.addaudithook(hook)\nfrom gitbaton.cli.main import run\nrun()\n"
    done = two.run("setsid", "-w", "python", "-c", driver, "restore")
    assert done.code != 0 and (two.path / ".git/baton/restore").exists()
    two.write("b.txt", "")
    said = two.ok("status").err
    assert (two.path / "b.txt").read_bytes() == b"" and "'b.txt' is left as it is" in said


@pytest.mark.deep
def test_hints_say_how_to_go_on(two: Sandbox) -> None:
    done = two.baton("restore", "a.txt")
    assert done.code == 2 and "hint: to restore that path: git baton restore -- a.txt" in done.err
    two.ok("snapshot", "--track", "u", "--step", "theirs", "--no-set-current")
    done = two.baton("restore")
    assert done.code == 1 and "conflict a.txt" in done.out and "--force" in done.err
