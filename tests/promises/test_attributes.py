"""What comes back is what was on disk, whatever attributes and settings converted files then, and convert them now."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.killkit import Scene, driven
from tests.kit.state import assert_same, files_of, snap, state_of
from tests.kit.tiers import first, some

Act = Callable[[Sandbox], object]
TEXT = b"one\ntwo\nthree $Id$\n"


def again(box: Sandbox, *names: str) -> None:
    """Have git check out files anew."""
    for name in names:
        (box.path / name).unlink()
    box.git("checkout", "-q", "--", *names)


def attributes(line: str, place: str = ".gitattributes") -> Act:
    def act(box: Sandbox) -> None:
        box.write(place, line + "\n")
        again(box, "a.txt", "sub/b.txt")

    return act


def config(key: str, text: str) -> Act:
    def act(box: Sandbox) -> None:
        box.git("config", key, text)
        again(box, "a.txt", "sub/b.txt")

    return act


def both(*acts: Act) -> Act:
    return lambda box: [act(box) for act in acts]


def nothing(box: Sandbox) -> None:
    pass


def general(box: Sandbox) -> None:
    place = box.path.parent / "general-attributes"
    place.write_text("*.txt eol=crlf\n")
    box.git("config", "core.attributesFile", str(place))
    again(box, "a.txt", "sub/b.txt")


def linked(box: Sandbox) -> None:
    box.write("rules", "*.txt eol=crlf\n")
    (box.path / ".gitattributes").symlink_to("rules")
    again(box, "a.txt", "sub/b.txt")


def removed(box: Sandbox) -> None:
    (box.path / ".gitattributes").unlink(missing_ok=True)
    box.git("rm", "-q", "--cached", "--ignore-unmatch", ".gitattributes")
    again(box, "a.txt", "sub/b.txt")


def committed(box: Sandbox) -> None:
    box.write(".gitattributes", "*.txt text eol=crlf\n")
    box.git("add", "--renormalize", ".")
    box.git("add", ".gitattributes")
    box.git("commit", "-qm", "attributes")
    again(box, "a.txt", "sub/b.txt")


def ignored(box: Sandbox) -> None:
    box.write(".git/info/exclude", "sub/.gitattributes\n")
    box.write("sub/.gitattributes", "b.txt -text\n")
    attributes("*.txt eol=crlf")(box)


FILTERS = {"lower": "tr A-Z a-z", "upper": "tr a-z A-Z"}


def filtered(box: Sandbox) -> None:
    box.git("config", "filter.shout.clean", FILTERS["lower"])
    box.git("config", "filter.shout.smudge", FILTERS["upper"])
    box.git("config", "filter.shout.required", "true")
    attributes("a.txt filter=shout")(box)


CRLF = attributes("*.txt eol=crlf")
CASES: dict[str, tuple[Act, Act]] = {
    "eol appears": (nothing, CRLF),
    "eol goes": (CRLF, removed),
    "eol turns": (CRLF, attributes("*.txt eol=lf")),
    "encoding appears": (nothing, attributes("*.txt working-tree-encoding=UTF-16")),
    "encoding goes": (attributes("*.txt working-tree-encoding=UTF-16"), removed),
    "filter appears": (nothing, filtered),
    "filter goes": (filtered, removed),
    "ident appears": (nothing, attributes("*.txt ident")),
    "ident goes": (attributes("*.txt ident"), removed),
    "subfolder": (CRLF, attributes("b.txt -text", "sub/.gitattributes")),
    "macro": (nothing, attributes("[attr]dos text eol=crlf\n*.txt dos")),
    "info appears": (nothing, attributes("*.txt eol=crlf", ".git/info/attributes")),
    "info over both": (attributes("a.txt -text", ".git/info/attributes"), CRLF),
    "info turns": (attributes("*.txt eol=crlf", ".git/info/attributes"), attributes("", ".git/info/attributes")),
    "autocrlf on": (nothing, config("core.autocrlf", "true")),
    "autocrlf off": (config("core.autocrlf", "true"), config("core.autocrlf", "false")),
    "core.eol": (attributes("* text"), config("core.eol", "crlf")),
    "attributesFile": (nothing, general),
    "link": (nothing, linked),
    "link goes": (linked, both(removed, CRLF)),
    "committed": (nothing, committed),
    "committed then": (committed, attributes("* -text")),
    "an ignored one stays": (ignored, attributes("*.txt eol=lf")),
}


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    made = Sandbox.init(tmp_path / "work")
    made.write("a.txt", TEXT.decode())
    made.write("sub/b.txt", TEXT.decode())
    made.write("plain", "left alone\n")
    made.commit("one")
    return made


SHOWN = ("eol appears", "filter goes", "info turns")


@pytest.mark.parametrize("edits", first([True, False]))
@some("case", [*SHOWN, *(case for case in CASES if case not in SHOWN)], keep=2)
def test_one_run_gives_the_bytes_of_then_and_undo_those_of_before(box: Sandbox, case: str, edits: bool) -> None:
    first, second = CASES[case]
    first(box)
    snap(box)
    then = files_of(box.path)
    second(box)
    if edits:
        box.write("new.md", "new\r\n")
        data = (box.path / "sub/b.txt").read_bytes()
        (box.path / "sub/b.txt").write_bytes(data + data[2:] if data[:2] == b"\xff\xfe" else data + data)
    before = state_of(box)
    assert then != before.files
    done = box.baton("restore", "@", "--exact")
    assert done.code == 0, done.out + done.err
    assert files_of(box.path) == then, case
    assert box.ok("restore", "@", "--exact").out.startswith("nothing has to change")
    box.ok("undo")
    assert_same(before, state_of(box), "undone")
    box.ok("redo")
    assert files_of(box.path) == then, "redone"


def test_attributes_that_no_checkout_followed_are_known_to_have_changed_nothing(box: Sandbox) -> None:
    box.write(".gitattributes", "*.txt eol=crlf\n")  # the files on disk stay as they are
    snap(box)
    again(box, "a.txt")
    assert b"\r" in (box.path / "a.txt").read_bytes()
    box.ok("restore", "@")
    assert (box.path / "a.txt").read_bytes() == TEXT
    box.commit("attributes")
    snap(box)  # and the bytes are not forgotten where nothing has changed since
    again(box, "a.txt", "sub/b.txt")
    box.ok("restore", "@")
    assert (box.path / "a.txt").read_bytes() == (box.path / "sub/b.txt").read_bytes() == TEXT


def test_a_file_that_nobody_wrote_since_stays_whatever_attributes_say(box: Sandbox) -> None:
    snap(box)
    box.write(".gitattributes", "*.txt eol=crlf\n")
    kept = (box.path / "a.txt").stat().st_mtime_ns
    assert "a.txt" not in box.ok("restore", "@", "--exact").out
    assert (box.path / "a.txt").stat().st_mtime_ns == kept


def test_a_named_path_comes_back_with_its_bytes_and_nothing_else_moves(box: Sandbox) -> None:
    snap(box)
    CRLF(box)
    before = state_of(box)
    assert box.ok("restore", "@", "--", "a.txt").out.startswith("write a.txt\ndone")
    assert (box.path / "a.txt").read_bytes() == TEXT
    assert b"\r" in (box.path / "sub/b.txt").read_bytes() and (box.path / ".gitattributes").exists()
    box.ok("undo")
    assert_same(before, state_of(box), "undone")


@pytest.mark.deep
def test_a_turn_that_changed_attributes_is_taken_back_with_the_bytes_that_went_with_them(box: Sandbox) -> None:
    snap(box)
    client = Client("claude", box.path)
    client.fire("prompt", prompt="line ends")
    CRLF(box)
    client.fire("turn")
    before = state_of(box)
    box.ok("revert", "--", ".gitattributes")
    assert b"\r" in (box.path / "a.txt").read_bytes(), "not asked for"
    box.ok("undo")
    box.ok("revert")
    assert (box.path / "a.txt").read_bytes() == (box.path / "sub/b.txt").read_bytes() == TEXT
    box.ok("undo")
    assert_same(before, state_of(box), "undone")


def test_a_file_is_shown_as_a_restore_would_write_it(box: Sandbox) -> None:
    snap(box)
    CRLF(box)
    snap(box)
    words = (sys.executable, "-m", "gitbaton", "show")
    shown = [subprocess.run([*words, f"{name}:a.txt"], cwd=box.path, capture_output=True).stdout for name in ("@~1", "@")]
    assert shown == [TEXT, TEXT.replace(b"\n", b"\r\n")]


@pytest.mark.deep
def test_filters_run_where_git_runs_them(box: Sandbox) -> None:
    box.write("tools/up", '#!/bin/sh\ntest -d .git && test -z "$GIT_OBJECT_DIRECTORY" && exec tr a-z A-Z\n').chmod(0o755)
    box.git("config", "filter.shout.clean", "tr A-Z a-z")
    box.git("config", "filter.shout.smudge", "tools/up")
    box.git("config", "filter.shout.required", "true")
    attributes("a.txt filter=shout")(box)
    snap(box)
    then = files_of(box.path)
    removed(box)
    assert box.baton("restore", "@", "--exact").code == 0
    assert files_of(box.path) == then and b"ONE" in then["a.txt"][2]


@pytest.mark.deep
def test_what_a_sparse_checkout_leaves_out_stays_away(box: Sandbox) -> None:
    snap(box)
    box.git("sparse-checkout", "set", "--no-cone", "/*", "!/sub/")
    box.write(".gitattributes", "*.txt eol=crlf\n")
    again(box, "a.txt")
    before = state_of(box)
    box.ok("restore", "@", "--exact", "--", "a.txt", ".gitattributes")
    assert (box.path / "a.txt").read_bytes() == TEXT and not (box.path / "sub").exists()
    box.ok("undo")
    assert_same(before, state_of(box), "undone")


@pytest.mark.deep
@pytest.mark.parametrize("case", ["encoding appears", "filter goes", "autocrlf on", "committed then"])
def test_a_restore_across_attributes_that_is_killed_is_ended_by_the_next_command(box: Sandbox, case: str) -> None:
    before, after = CASES[case]
    before(box)
    snap(box, "t", "s", "--label", "goal")
    after(box)
    scene = Scene(box)
    for step in range(1, 10):
        scene.fresh()
        if driven(box, "named", step, scene.words).code == 0:
            break
        scene.check_recovery(step, f"killed at its step {step}")
    assert step > 5


def test_a_link_is_a_link_again_and_a_text_file_a_text_file_where_git_makes_no_links(box: Sandbox) -> None:
    for name in ("link", "text"):
        (box.path / name).symlink_to("a.txt")
    box.commit("links")
    box.git("config", "core.symlinks", "false")
    again(box, "text")
    snap(box)
    then = files_of(box.path)
    assert then["link"][0] == "link" and then["text"][0] == "file"
    again(box, "link")
    (box.path / "text").unlink()
    before = files_of(box.path)
    box.ok("restore", "@")
    assert files_of(box.path) == then
    box.ok("undo")
    assert files_of(box.path) == before
    box.ok("redo")
    assert files_of(box.path) == then


@pytest.mark.deep
def test_a_link_of_before_core_symlinks_was_set_is_a_link_again(box: Sandbox) -> None:
    (box.path / "link").symlink_to("a.txt")
    box.commit("link")
    snap(box, "t", "s", "--label", "goal")
    then = files_of(box.path)
    box.git("config", "core.symlinks", "false")
    (box.path / "link").unlink()
    box.write("a.txt", "other\n")
    scene = Scene(box)
    assert files_of(box.path) == then
    for step in range(4, 9):
        scene.fresh()
        if driven(box, "named", step, scene.words).code == 0:
            break
        scene.check_recovery(step, f"killed at its step {step}")


@pytest.mark.parametrize("edited", [False, True])
def test_undo_of_one_file_takes_no_conversion_for_an_edit(repo: Sandbox, *, edited: bool) -> None:
    """The attributes of then stay away with the other paths, and git takes the file for a changed one."""
    repo.commit("lines", a_txt="one\n")
    repo.write(".gitattributes", "*.txt text eol=crlf\n")
    again(repo, "a.txt")
    snap(repo)
    (repo.path / ".gitattributes").unlink()
    again(repo, "a.txt")
    snap(repo)
    repo.ok("restore", "@~1", "--", "a.txt")
    assert (repo.path / "a.txt").read_bytes() == b"one\r\n"
    if edited:
        (repo.path / "a.txt").write_bytes(b"two\r\n")
    done = repo.ok("undo")
    assert ("edited since" in done.err) == edited
    assert (repo.path / "a.txt").read_bytes() == b"one\n"


def test_attributes_that_cannot_be_written_down_are_told_in_a_line(box: Sandbox) -> None:
    snap(box)
    place = box.path / ".git/baton/attributes"
    place.unlink()
    place.mkdir()
    done = box.ok("snapshot", "--track", "t", "s")
    said = f"not all that is derived from it: '{place}': Is a directory\n"
    assert done.err == f"warning: the checkpoint is recorded, but {said}"
