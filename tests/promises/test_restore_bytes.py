"""What a checkpoint could not take in is not known to restore (T08); bytes, modes, links and names come back (T24)."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.capturekit import without_privilege
from tests.kit.state import SAFETY, actions, assert_same, snap, sound, state_of
from tests.kit.tiers import some

ALL = ("--exact", "--index", "--force")


@some("options", [(), ("--exact",), ALL], ids=["default", "exact", "all"])
def test_t08_a_nested_repository_without_commits_is_not_known(repo: Sandbox, options: tuple[str, ...]) -> None:
    nest = Sandbox.init(repo.path / "nest")
    nest.write("inside", "then\n")
    snap(repo)
    assert '"path": "nest"' in repo.git("cat-file", "-p", "refs/checkpoints/t").split('"skipped"')[1]
    nest.write("inside", "now\n")
    shutil.rmtree(nest.path / ".git")
    repo.write("nest/more", "more\n")
    repo.write("a.txt", "two\n")
    done = repo.baton("restore", *options)
    assert done.code in (0, 1), done.err
    assert (repo.path / "nest/inside").read_text() == "now\n" and (repo.path / "nest/more").read_text() == "more\n"
    assert (repo.path / "a.txt").read_text() == "one\n"


@pytest.mark.full
@some("options", [(), ("--exact",), ALL], ids=["default", "exact", "all"])
@some("way", ["excluded", "too-large", "untracked"])
def test_t08_what_was_left_out_of_the_checkpoint_is_never_touched(repo: Sandbox, way: str, options: tuple[str, ...]) -> None:
    settings = {
        "excluded": ("baton.exclude", "big*"),
        "too-large": ("baton.maxFileSize", "10"),
        "untracked": ("baton.untracked", "none"),
    }
    repo.git("config", *settings[way])
    repo.write("big.bin", "left out of it\n")
    snap(repo)
    repo.git("config", "--unset", settings[way][0])
    repo.write("big.bin", "and edited since\n")
    repo.write("a.txt", "two\n")
    done = repo.baton("restore", *options)
    assert done.code in (0, 1), done.err
    assert (repo.path / "big.bin").read_text() == "and edited since\n"
    assert (repo.path / "a.txt").read_text() == "one\n"


def lesser(repo: Sandbox, *words: str) -> list[str]:
    found = without_privilege(sys.executable, "-m", "gitbaton", *words)
    if found is None:
        pytest.skip("root reads everything here, and setpriv is missing")
    return found


@pytest.mark.deep
def test_t08_a_file_nobody_could_read_is_not_known(repo: Sandbox) -> None:
    repo.write("b.txt", "committed\n")
    repo.commit("b")
    repo.write("b.txt", "never seen\n").chmod(0)
    done = repo.run(*lesser(repo, "snapshot", "--track", "t", "--step", "s"))
    assert done.code == 0, done.err
    (repo.path / "b.txt").chmod(0o644)
    repo.write("b.txt", "never seen, and edited\n")
    repo.write("a.txt", "two\n")
    for options in ((), ALL):
        done = repo.baton("restore", "--json", *options)
        assert done.code in (0, 1), done.err
        assert (repo.path / "b.txt").read_text() == "never seen, and edited\n"
    assert (repo.path / "a.txt").read_text() == "one\n"


@pytest.mark.deep
def test_t08_a_file_nobody_can_read_now_is_refused(repo: Sandbox) -> None:
    repo.write("b.txt", "then\n")
    snap(repo)
    repo.write("b.txt", "now\n").chmod(0)
    repo.write("a.txt", "two\n")
    done = repo.run(*lesser(repo, "restore", "--json", *ALL))
    assert done.code == 1, done.err
    assert actions(done)["b.txt"] == "refuse" and actions(done)["a.txt"] == "write"
    assert (repo.path / "b.txt").read_text() == "now\n" and (repo.path / "a.txt").read_text() == "one\n"


@pytest.mark.deep
def test_t08_a_special_file_in_the_way_is_refused(repo: Sandbox) -> None:
    snap(repo)
    (repo.path / "a.txt").unlink()
    os.mkfifo(repo.path / "a.txt")
    done = repo.baton("restore", "--json", *ALL)
    assert done.code == 1 and actions(done) == {"a.txt": "refuse"}
    assert (repo.path / "a.txt").is_fifo()


def outside(repo: Sandbox) -> Path:
    place = repo.path.parent / "outside"
    place.mkdir()
    (place / "b.txt").write_text("outside b\n")
    (place / "stranger").write_text("outside\n")
    return place


def fingerprint(place: Path) -> dict[str, tuple[bytes, int, int]]:
    return {p.name: (p.read_bytes(), p.stat().st_ino, p.stat().st_mtime_ns) for p in place.iterdir()}


@pytest.mark.full
@some("options", [(), ("--exact",), ALL], ids=["default", "exact", "all"])
def test_t24_a_directory_swapped_for_a_link_is_never_written_through(repo: Sandbox, options: tuple[str, ...]) -> None:
    repo.write("d/b.txt", "b\n")
    repo.write("d/deep/c.txt", "c\n")
    repo.commit("d")
    then = state_of(repo)
    snap(repo)
    place = outside(repo)
    before = fingerprint(place)
    shutil.rmtree(repo.path / "d")
    (repo.path / "d").symlink_to(place)
    mess = state_of(repo)
    done = repo.baton("restore", *options)
    assert fingerprint(place) == before
    assert done.code == 0, done.out + done.err
    assert_same(then, state_of(repo), "restored")
    repo.ok("undo")
    assert fingerprint(place) == before
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.full
@some("shape", ["parent", "top-of-two", "file"])
def test_t24_links_that_were_there_then_are_links_again(repo: Sandbox, shape: str) -> None:
    place = outside(repo)
    before = fingerprint(place)
    if shape == "file":
        (repo.path / "way").symlink_to(place / "b.txt")
    else:
        repo.write("x/y", "y\n")
        (repo.path / "x/way").symlink_to(place)
    then = state_of(repo)
    snap(repo)
    link = repo.path / ("way" if shape == "file" else "x/way")
    link.unlink()
    if shape == "file":
        repo.write("way", "a file\n")
    elif shape == "parent":
        repo.write("x/way/b.txt", "inside\n")
    else:
        shutil.rmtree(repo.path / "x")
        (repo.path / "x").symlink_to(place)
    mess = state_of(repo)
    done = repo.baton("restore", "--exact")
    assert fingerprint(place) == before
    assert done.code == 0, done.out + done.err
    assert_same(then, state_of(repo), "restored")
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")
    assert fingerprint(place) == before


def test_t24_a_hard_link_is_not_written_through(repo: Sandbox) -> None:
    snap(repo)
    other = repo.path.parent / "other.txt"
    other.write_text("two\n")
    (repo.path / "a.txt").unlink()
    os.link(other, repo.path / "a.txt")
    repo.ok("restore")
    assert other.read_text() == "two\n" and (repo.path / "a.txt").read_text() == "one\n"


@pytest.mark.deep
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "default"])
def test_t24_a_directory_of_unknown_files_where_the_checkpoint_has_a_file(repo: Sandbox, exact: bool) -> None:
    snap(repo)
    (repo.path / "a.txt").unlink()
    repo.write("a.txt/in/side", "unknown\n")
    mess = state_of(repo)
    done = repo.baton("restore", "--json", *(["--exact"] if exact else []))
    if not exact:
        assert done.code == 1 and actions(done)["a.txt"] == "refuse"
        assert state_of(repo).files == mess.files
        return
    assert done.code == 0, done.err
    assert (repo.path / "a.txt").read_text() == "one\n"
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.deep
def test_t24_a_link_or_file_where_the_checkpoint_has_a_directory_is_replaced(repo: Sandbox) -> None:
    repo.write("d/b.txt", "b\n")
    repo.write("e/f/g.txt", "g\n")
    snap(repo)
    then = state_of(repo)
    shutil.rmtree(repo.path / "d")
    shutil.rmtree(repo.path / "e")
    repo.write("d", "a file\n")
    (repo.path / "e").symlink_to("a.txt")
    mess = state_of(repo)
    repo.ok("restore")
    assert_same(then, state_of(repo), "restored")
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.deep
def test_t24_crlf_exec_links_and_names_are_what_they_were(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.write("crlf.txt", b"x\r\ny\r\n")
    repo.write("empty", b"")
    repo.write("tool", "#!/bin/sh\r\n").chmod(0o755)
    names = [
        unicodedata.normalize("NFC", "\u00e9"),
        unicodedata.normalize("NFD", "\u00e9"),
        "new\nline",
        os.fsdecode(b"\xff\xfe"),
    ]
    names += ["Case", "case", "tab\t", '"quoted"', "-option", ":(top)x", "*"]
    for number, name in enumerate(names):
        repo.write(f"names/{name}", f"{number}\r\n".encode())
    (repo.path / "dangling").symlink_to("nowhere")
    repo.commit("all of it")
    repo.write("mixed.txt", b"x\r\ny\n")
    repo.write("lone.txt", b"x\ny\n")
    snap(repo)
    then = state_of(repo)
    for name in names:
        repo.write(f"names/{name}", b"spoilt\r\n")
    repo.write("crlf.txt", b"x\ny\n")
    repo.write("mixed.txt", b"x\ny\r\n")
    (repo.path / "lone.txt").unlink()
    (repo.path / "tool").chmod(0o644)
    repo.write("empty", "no more\n")
    (repo.path / "dangling").unlink()
    mess = state_of(repo)
    done = repo.ok("restore", "--json")
    assert {f"names/{name}" for name in names} < actions(done).keys()
    assert_same(then, state_of(repo), "restored")
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.deep
def test_t24_a_mode_comes_back_without_other_line_ends(repo: Sandbox) -> None:
    repo.write("tool", "#!/bin/sh\n").chmod(0o755)
    repo.commit("tool")
    repo.git("config", "core.autocrlf", "true")
    then = state_of(repo)
    snap(repo)
    (repo.path / "tool").chmod(0o644)
    mess = state_of(repo)
    repo.ok("restore")
    assert_same(then, state_of(repo), "restored")
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")


def test_t24_a_case_only_rename_goes_back(repo: Sandbox) -> None:
    repo.commit("readme", ReadMe="text\n")
    then = state_of(repo)
    snap(repo)
    repo.git("mv", "ReadMe", "README")
    mess = state_of(repo)
    repo.ok("restore", "--exact", "--index")
    assert_same(then, state_of(repo), "restored")
    repo.ok("undo")
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.full
@some("staged", [False, True], ids=["edited", "staged"])
@some("kind", ["mixed", "ident", "one-way-filter"])
def test_t24_bytes_that_no_filter_gives_back_are_in_the_safety_checkpoint(repo: Sandbox, kind: str, staged: bool) -> None:
    """Contract 2: every byte that restore overwrites. Cleaned content alone is not those bytes."""
    if kind == "mixed":
        repo.git("config", "core.autocrlf", "true")
        precious = b"x\r\nprecious\ny\r\n"
    elif kind == "ident":
        repo.write(".gitattributes", "*.txt ident\n")
        precious = b"$Id: by hand $ precious\n"
    else:
        repo.write(".gitattributes", "*.txt filter=f\n")
        repo.git("config", "filter.f.clean", "sed s/secret/cleaned/")
        precious = b"secret, precious\n"
    repo.commit("attributes")
    snap(repo)
    repo.write("a.txt", precious)
    if staged:
        repo.git("add", "a.txt")
    mess = state_of(repo)
    repo.ok("restore")
    assert precious != (repo.path / "a.txt").read_bytes()
    repo.ok("undo")
    assert (repo.path / "a.txt").read_bytes() == precious
    assert_same(mess, state_of(repo), "undone")


@pytest.mark.deep
def test_t24_an_empty_directory_of_the_user_is_no_hindrance(repo: Sandbox) -> None:
    repo.write("d/b.txt", "b\n")
    snap(repo)
    (repo.path / "d/b.txt").unlink()
    (repo.path / "d/b.txt").mkdir()
    repo.write("x/y", "y\n")
    repo.ok("restore")
    assert (repo.path / "d/b.txt").read_text() == "b\n" and (repo.path / "x/y").exists()
    sound(repo)


@pytest.mark.deep
def test_t24_nothing_of_a_nested_repository_is_written(repo: Sandbox) -> None:
    nest = Sandbox.init(repo.path / "nest")
    nest.commit("first", n_txt="n\n")
    snap(repo)
    nest.write("n.txt", "dirty\n")
    nest.commit("second", m_txt="m\n")
    before = {p: p.read_bytes() for p in nest.path.rglob("*") if p.is_file()}
    repo.write("a.txt", "two\n")
    done = repo.baton("restore", *ALL)
    assert done.code in (0, 1), done.err
    assert {p: p.read_bytes() for p in nest.path.rglob("*") if p.is_file()} == before
    assert (repo.path / "a.txt").read_text() == "one\n"
    assert "nest" in done.out + done.err, "contract 6: reported"


@pytest.mark.deep
def test_a_nested_repository_where_the_checkpoint_has_files_is_not_written_into(repo: Sandbox) -> None:
    repo.write("nest/x", "then\n")
    snap(repo)
    shutil.rmtree(repo.path / "nest")
    nest = Sandbox.init(repo.path / "nest")
    nest.commit("first", x="theirs\n")
    done = repo.baton("restore", "--json", *ALL)
    assert done.code == 1 and set(actions(done).values()) == {"refuse"}
    assert (repo.path / "nest/x").read_text() == "theirs\n" and (repo.path / "nest/.git/HEAD").exists()
    assert nest.git("status", "--porcelain") == ""


@pytest.mark.deep
def test_an_operation_in_progress_keeps_its_files_and_is_mentioned(repo: Sandbox) -> None:
    repo.git("checkout", "-qb", "other")
    repo.commit("theirs", a_txt="theirs\n")
    repo.git("checkout", "-q", "main")
    repo.commit("ours", a_txt="ours\n", b_txt="b\n")
    snap(repo)
    assert repo.try_git("merge", "other").code == 1
    repo.write("b.txt", "spoilt\n")
    before = state_of(repo)
    done = repo.baton("restore", "--", "b.txt")
    assert done.code == 0, done.err
    now = state_of(repo)
    assert now.refs == before.refs and "MERGE_HEAD" in "".join(now.refs)
    assert {k: v for k, v in now.index.items() if k != "b.txt"} == {k: v for k, v in before.index.items() if k != "b.txt"}
    assert "merge" in done.err, "restoring across an operation in progress says so"
    assert (repo.path / "b.txt").read_text() == "b\n"
    assert repo.try_git("rev-parse", "-q", "--verify", SAFETY).code == 0
