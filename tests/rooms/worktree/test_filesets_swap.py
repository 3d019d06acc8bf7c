"""Compare-and-swap of files: edits that come at any moment, kills, a full disk, folders and links in the way."""

from __future__ import annotations

import errno
import os
import random
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitbaton.base.errors import GitError
from gitbaton.base.system.files import signature
from gitbaton.git.repo import Repo, discover
from gitbaton.git.worktree.filesets import FileEntry, Files, swap
from tests.kit import Sandbox
from tests.kit.filekit import Kit, State, coarse, disk, put, without_calls
from tests.kit.moments import at
from tests.kit.tiers import some

PATHS = ("a", "a/b", "a/b/c", "a/d", "e", "f/g", "f/h/i")
CONTENTS = [("100644", b"one"), ("100644", b"two"), ("100755", b"one"), ("120000", b"e"), ("120000", b"nowhere")]


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(os.fspath(repo.path), door="binary")
    yield found
    found.close()


@pytest.fixture
def kit(repo: Sandbox, opened: Repo) -> Kit:
    (repo.path / "a.txt").unlink()
    return Kit(opened)


def chosen(random: random.Random) -> State:
    """Files that can stand beside each other."""
    state = {p: random.choice(CONTENTS) for p in random.sample(PATHS, random.randrange(len(PATHS)))}
    return {p: w for p, w in state.items() if not any(other.startswith(p + "/") for other in state)}


@contextmanager
def edited(edit: Callable[[], object]) -> Iterator[None]:
    """An edit after a path was looked at and before it is touched: the moment that nothing but the kernel guards."""
    with (
        at("os.link", lambda args: str(args[0]).endswith(".new"), lambda _: edit()),
        at("os.rename", lambda args: str(args[1]).endswith(".old"), lambda _: edit()),
    ):
        yield


@pytest.mark.deep
@some("linked", [False, True])
def test_nothing_but_the_expected_is_overwritten_or_removed(kit: Kit, linked: bool) -> None:
    def check() -> None:
        wrong, left_something = edited_at_random(kit)
        assert wrong == [] and 20 < left_something < 150

    if linked:  # a system that cannot exchange two files
        assert without_calls({"renameat2": errno.ENOSYS}, check) == 0
    else:
        check()


def edited_at_random(kit: Kit) -> tuple[list[object], int]:
    """What became otherwise than it may, of 150 swaps beside edits; and how many of them left something alone."""
    chance = random.Random(4711)
    edits = [0]

    def edit() -> None:
        if chance.random() < edits[0] / 10:
            put(kit.top, path := chance.choice(PATHS), chance.choice([*CONTENTS, None]))
            now = disk(kit.top)
            for p in {p for p in touched if p == path or p.startswith(path + "/") or path.startswith(p + "/")}:
                touched[p] = now.get(p)

    wrong, left_something = list[object](), 0
    for number in range(150):
        edits[0] = number % 4
        for path in os.listdir(kit.top):
            if path != ".git":
                put(kit.top, path, None)
        for path, what in chosen(chance).items():
            put(kit.top, path, what)
        touched: dict[str, tuple[str, bytes] | None] = {p: disk(kit.top).get(p) for p in PATHS}
        expect = {p: w for p, w in touched.items() if w is not None and chance.random() < 0.8}
        after = chosen(chance)
        changes = {p: after.get(p) for p in PATHS if chance.random() < 0.8}
        with edited(edit):
            left = kit.swap(changes, expect, between=edit)
        final = disk(kit.top)
        wrong += [(number, path) for path in final.keys() - set(PATHS)]
        for path in PATHS:
            kept = final.get(path) == touched[path]
            ours = path in changes and final.get(path) == changes[path] and touched[path] == expect.get(path)
            if not (kept or ours):
                wrong.append((number, path, touched[path], expect.get(path), changes.get(path, "-"), final.get(path)))
            if not edits[0] and path in changes and (final.get(path) == changes[path]) == (path in left):
                wrong.append((number, path))
        left_something += bool(left)
    return wrong, left_something


def test_a_same_size_edit_of_the_same_moment_stays(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    coarse(monkeypatch)
    for number in range(10):
        put(kit.top, "f", ("100644", b"one"))
        change = None if number % 2 else ("100644", b"new")
        with edited(lambda: put(kit.top, "f", ("100644", b"two"))):
            assert kit.swap({"f": change}, {"f": ("100644", b"one")}) == ("f",), number
        assert disk(kit.top) == {"f": ("100644", b"two")}, number


def test_links_out_of_the_work_tree_are_refused_before_anything_is_written(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    put(kit.top, "way", ("120000", b"../outside"))
    for path, target in (("l", b"../x"), ("d/l", b"../../x"), ("l", b"/etc/passwd"), ("l", b"way/x"), ("l", b"d/../../x")):
        with pytest.raises(GitError, match=rf"^'{path}' would be a symbolic link that leads out of the work tree, to '"):
            kit.swap({"a": ("100644", b"one"), path: ("120000", target)}, {})
        assert disk(kit.top).keys() == {"way"}
    inside = os.fsencode(kit.top) + b"/a"
    assert kit.swap({"d/l": ("120000", b"../a"), "d/m": ("120000", inside), "d/n": ("120000", b"..")}, {}) == ()


def test_nothing_is_done_through_a_link_or_outside(kit: Kit, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x").write_bytes(b"one")
    put(kit.top, "way", ("120000", b"../outside"))
    changes: dict[str, tuple[str, bytes] | None] = {"way/x": None, "way/y": ("100644", b"two"), "way/d/z": ("100644", b"two")}
    assert kit.swap(changes, {"way/x": ("100644", b"one")}) == ("way/d/z", "way/y")
    assert disk(tmp_path / "outside") == {"x": ("100644", b"one")}
    for path in (".git/config", "d/.git/x", "../x", "/x", "d/../x", "", ".GIT/x", "git~1"):
        with pytest.raises(GitError, match=r"cannot be a path of a work tree$"):
            kit.swap({"ok": ("100644", b"one"), path: ("100644", b"one")}, {})
    assert not (kit.top / "ok").exists()


def test_a_folder_goes_with_its_last_file_only(kit: Kit) -> None:
    for path in ("d/e/f/a", "d/e/b", "d/theirs", "g/h"):
        put(kit.top, path, ("100644", b"one"))
    (kit.top / "g/empty").mkdir()
    ours: State = dict.fromkeys(("d/e/f/a", "d/e/b", "g/h"), ("100644", b"one"))
    assert kit.swap(dict.fromkeys(ours), ours) == ()
    assert sorted(os.listdir(kit.top)) == [".git", "d", "g"]
    assert os.listdir(kit.top / "d") == ["theirs"] and os.listdir(kit.top / "g") == ["empty"]


def test_a_file_becomes_a_folder_and_back(kit: Kit) -> None:
    file: State = {"d": ("100644", b"one"), "l": ("120000", b"d")}
    folder: State = {"d/x/y": ("100755", b"two"), "d/z": ("100644", b"one"), "l/m": ("100644", b"one")}
    assert kit.swap(dict(file), {}) == ()
    assert kit.swap({**dict.fromkeys(file), **folder}, file) == () and disk(kit.top) == folder
    assert kit.swap({**dict.fromkeys(folder), **file}, folder) == () and disk(kit.top) == file
    put(kit.top, "d", None)
    put(kit.top, "d/theirs", ("100644", b"two"))
    assert kit.swap({"d": ("100644", b"two")}, file) == ("d",)
    assert kit.swap({"d": ("100644", b"two")}, {}) == ("d",) and disk(kit.top)["d/theirs"] == ("100644", b"two")


def test_what_is_as_it_should_be_is_not_written(kit: Kit) -> None:
    put(kit.top, "d/a", ("100755", b"one"))
    before = signature(os.stat(kit.top / "d/a"))
    assert kit.swap({"d/a": ("100755", b"one"), "none": None, "x/y": None}, {"none": ("100644", b"one")}) == ()
    assert signature(os.stat(kit.top / "d/a")) == before


def test_a_special_file_in_the_way_is_left_alone(kit: Kit) -> None:
    os.mkfifo(kit.top / "p")
    assert kit.swap({"p": ("100644", b"one")}, {}) == ("p",)
    assert kit.swap({"p": None}, {"p": ("100644", b"one")}) == ("p",)
    assert stat.S_ISFIFO(os.lstat(kit.top / "p").st_mode)


def test_a_missing_object_is_an_error_and_changes_nothing(kit: Kit) -> None:
    lost = {name: FileEntry(path=name, mode=mode, oid="1" * 40) for name, mode in (("f", "100644"), ("l", "120000"))}
    for name in lost:
        with pytest.raises(GitError, match="1111"):
            swap(kit.opened, os.fspath(kit.top), {name: lost[name]}, {})
    assert disk(kit.top) == {}


def test_files_by_digest_come_from_where_they_were_made(kit: Kit, tmp_path: Path) -> None:
    lane = tmp_path / "lane"
    put(lane, "d/big", ("100755", b"B" * 3_000_000))
    (entry,) = Files(kit.opened, os.fspath(lane), cached=False).scan(["d/big"], store="none").entries.values()
    root = os.fspath(kit.top)
    assert swap(kit.opened, root, {"d/big": entry}, {}) == ("d/big",) and disk(kit.top) == {}
    assert swap(kit.opened, root, {"d/big": entry}, {}, source=os.fspath(lane)) == ()
    assert disk(kit.top) == {"d/big": ("100755", b"B" * 3_000_000)}
    assert swap(kit.opened, root, {"d/big": entry}, {}) == ()
    put(lane, "d/big", ("100755", b"C"))
    put(kit.top, "d/big", None)
    for message in ("'d/big' has changed since it was recorded", "'d/big' is not there any more to be brought in"):
        with pytest.raises(GitError, match=message):
            swap(kit.opened, root, {"d/big": entry}, {}, source=os.fspath(lane))
        assert disk(kit.top) == {}
        put(lane, "d/big", None)


@pytest.mark.deep
def test_what_a_scan_has_read_is_not_read_again(kit: Kit) -> None:
    put(kit.top, "d/a", ("100644", b"one"))
    time.sleep(0.07)
    seen = Files(kit.opened, os.fspath(kit.top), cached=False)
    seen.scan(["d/**"])
    with at("open", lambda args: args[0] == "a" and not args[2] & os.O_ACCMODE, lambda _: pytest.fail("it was read")):
        assert kit.swap({"d/a": ("100644", b"two")}, {"d/a": ("100644", b"one")}, known=seen.known) == ()
    assert disk(kit.top) == {"d/a": ("100644", b"two")}


@pytest.mark.parametrize("more", [False, True])
def test_two_edits_in_the_moment_of_an_exchange_are_both_kept(kit: Kit, more: bool) -> None:
    """The second one while the first exchange is undone: of the new file, or another file in its place."""
    put(kit.top, "f", ("100644", b"one"))

    def replaced(by: bytes) -> None:
        (kit.top / "new").write_bytes(by)
        os.replace(kit.top / "new", kit.top / "f")

    def again(_: object) -> None:
        if more:
            with open(kit.top / "f", "ab") as file:
                file.write(b" and more")
        else:
            replaced(b"edit 2")

    with edited(lambda: replaced(b"edit 1")), at("open", lambda args: str(args[0]).endswith(".old"), again):
        assert kit.swap({"f": ("100644", b"two")}, {"f": ("100644", b"one")}) == ("f",)
    found = disk(kit.top)
    assert found.pop("f") == ("100644", b"two and more" if more else b"edit 2")
    assert list(found.values()) == [("100644", b"edit 1")]


def test_without_hard_links_and_exchanges(kit: Kit) -> None:
    def work() -> None:
        before: State = {"f": ("100644", b"one"), "gone": ("100644", b"one"), "theirs": ("100644", b"edit")}
        for path, what in before.items():
            put(kit.top, path, what)
        changes: dict[str, tuple[str, bytes] | None] = dict.fromkeys(("d/new", "f", "theirs"), ("100755", b"two"))
        assert kit.swap({**changes, "gone": None}, {**before, "theirs": ("100644", b"one")}) == ("theirs",)
        assert disk(kit.top) == {"d/new": ("100755", b"two"), "f": ("100755", b"two"), "theirs": ("100644", b"edit")}
        with edited(lambda: put(kit.top, "d/late", ("100644", b"edit"))):
            assert kit.swap({"d/late": ("100644", b"two")}, {}) == ("d/late",)
        assert disk(kit.top)["d/late"] == ("100644", b"edit") and not list(kit.top.rglob(".baton-*"))

    assert without_calls({"linkat": errno.EPERM, "renameat2": errno.ENOSYS}, work) == 0
