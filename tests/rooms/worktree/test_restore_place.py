"""A restore's swap: the old file is put aside and looked at, the new one put into the free place; nothing is written over."""

from __future__ import annotations

import errno
import os
import stat
from importlib import import_module
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.errors import BatonError, StaleError
from gitbaton.restore import Order, Restored, carry_out
from gitbaton.values import replace
from gitbaton.worktree.swapall import SwapAll
from tests.kit import Sandbox
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


def test_an_executable_bit_that_git_does_not_look_at_stays(two: Sandbox) -> None:
    two.git("config", "core.fileMode", "false")
    (two.path / "a.txt").chmod(0o750)
    two.ok("restore")
    assert stat.S_IMODE((two.path / "a.txt").stat().st_mode) == 0o750


@pytest.mark.deep
@some("number", [errno.EPERM, errno.ENOSYS, errno.EXDEV])
def test_without_hard_links(two: Sandbox, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    (two.path / "link").symlink_to("nowhere")
    two.ok("snapshot", "--track", "t", "--step", "spoilt", "--no-set-current")
    (two.path / "link").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refused)
        restored(two)
    assert (two.path / "a.txt").read_text() == "spoilt\n" and os.readlink(two.path / "link") == "nowhere"


def late(two: Sandbox, monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> Path:
    """A writer has b.txt open, and writes while it is aside."""
    place = two.path / "b.txt"
    writer = os.open(place, os.O_WRONLY | os.O_APPEND)
    real = SwapAll._put_new

    def put_new(self: SwapAll, path: str) -> None:
        if path == "b.txt":
            os.write(writer, b"late\n")
            os.close(writer)
            if fails:
                raise StaleError("'d/x.txt' changed meanwhile")
        real(self, path)

    monkeypatch.setattr(SwapAll, "_put_new", put_new)
    return place


def test_what_is_written_late_is_kept_and_named(two: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    place = late(two, monkeypatch, fails=False)
    done = restored(two)
    said = [text for text in done.warnings if "was written while it was replaced" in text]
    assert place.read_text() == "b\n" and len(said) == 1
    assert Path(said[0].split("'")[3]).read_text() == "spoilt\nlate\n"


def test_what_is_written_late_is_named_when_the_restore_is_taken_back_too(
    two: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = two.path / "b.txt"
    writer = os.open(place, os.O_WRONLY | os.O_APPEND)
    real, tries = SwapAll._put_new, iter(range(9))

    def put_new(self: SwapAll, path: str) -> None:
        if path == "b.txt" and next(tries) == 0:
            os.write(writer, b"late\n")
            os.close(writer)
            place.write_text("somebody's\n")
        real(self, path)

    monkeypatch.setattr(SwapAll, "_put_new", put_new)
    with pytest.raises(BatonError) as failed:
        restored(two)
    kept = [text for text in failed.value.hints if "was written while it was replaced" in text]
    assert len(kept) == 1 and Path(kept[0].split("'")[3]).read_text() == "spoilt\nlate\n"
    assert place.read_text() == "somebody's\n" and (two.path / "a.txt").read_text() == "spoilt\n"
    assert "'b.txt' is left as it is: it was written since" in failed.value.hints


def test_what_was_put_aside_goes_back_when_a_swap_fails(two: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("a.txt", "b.txt", "d/x.txt")
    (two.path / "a.txt").chmod(0o600)
    before = {name: (two.path / name).stat().st_ino for name in names}
    place = late(two, monkeypatch, fails=True)
    monkeypatch.setattr(import_module("gitbaton.restore.apply"), "_MOVED", 1)
    with pytest.raises(BatonError):
        restored(two)
    assert place.read_text() == "spoilt\nlate\n", "a late byte is not lost"
    assert (two.path / "a.txt").read_text() == "spoilt\n"
    assert stat.S_IMODE((two.path / "a.txt").stat().st_mode) == 0o600
    assert (two.path / "b.txt").stat().st_ino == before["b.txt"]
    assert (two.path / "d/x.txt").stat().st_ino == before["d/x.txt"]


@pytest.mark.deep
def test_an_empty_file_made_after_a_kill_stays(two: Sandbox) -> None:
    """The beginning of a file is no torn one: git checks files out beside the work tree."""
    driver = "import os, signal, sys\ndef hook(e, a):\n    if e == 'os.link' and str(a[1]) == 'b.txt': os.kill(0, 9)\n"
    driver += "sys.addaudithook(hook)\nfrom gitbaton.main import run\nrun()\n"
    done = two.run("setsid", "-w", "python", "-c", driver, "restore")
    assert done.code != 0 and (two.path / ".git/baton/restore").exists()
    two.write("b.txt", "")
    said = two.ok("status").err
    assert (two.path / "b.txt").read_bytes() == b"" and "'b.txt' is left as it is" in said


def test_what_was_fetched_is_restored_only_when_it_is_allowed(two: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command fetches yet: the flag is set on what ``resolve`` gives."""
    real = Baton.resolve
    monkeypatch.setattr(Baton, "resolve", lambda self, name="@": replace(real(self, name), foreign=True))
    with Baton(two.path, door="binary") as baton:
        with pytest.raises(BatonError, match="was fetched from elsewhere"):
            carry_out(baton, "restore", Order())
        assert (two.path / "b.txt").read_text() == "spoilt\n"
        carry_out(baton, "restore", Order(foreign=True))
    assert (two.path / "b.txt").read_text() == "b\n"


@pytest.mark.deep
def test_hints_say_how_to_go_on(two: Sandbox) -> None:
    done = two.baton("restore", "a.txt")
    assert done.code == 2 and "hint: to restore the file of that name: git baton restore -- a.txt" in done.err
    two.ok("snapshot", "--track", "u", "--step", "theirs", "--no-set-current")
    done = two.baton("restore")
    assert done.code == 1 and "conflict a.txt" in done.out and "--force" in done.err
