"""Compare-and-swap of files: edits that come at any moment, kills, a full disk, folders and links in the way."""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.errors import GitError
from gitbaton.git import fileplace, fileread, fileswap
from gitbaton.git.filesets import Entry, Files, swap
from gitbaton.git.objects import NewObject, new_object
from gitbaton.git.repo import Repo, discover
from tests.support import Sandbox
from tests.test_filesets_cache import coarse

State = dict[str, tuple[str, bytes]]  # path -> mode and bytes; what is on disk, or is to be
PATHS = ("a", "a/b", "a/b/c", "a/d", "e", "f/g", "f/h/i")
CONTENTS = [("100644", b"one"), ("100644", b"two"), ("100755", b"one"), ("120000", b"e"), ("120000", b"nowhere")]


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(os.fspath(repo.path), door="binary")
    yield found
    found.close()


def put(top: Path, path: str, what: tuple[str, bytes] | None) -> None:
    """Somebody's edit: in place or by rename; whatever is in its way goes."""
    full = top / path
    for above in [*full.relative_to(top).parents][-2::-1]:
        if (top / above).is_symlink() or (top / above).is_file():
            (top / above).unlink()
    if full.is_dir() and not full.is_symlink():
        shutil.rmtree(full)
    if what is None:
        full.unlink(missing_ok=True)
        return
    full.parent.mkdir(parents=True, exist_ok=True)
    if what[0] == "120000" or full.is_symlink():
        full.unlink(missing_ok=True)
    if what[0] == "120000":
        full.symlink_to(os.fsdecode(what[1]))
    else:
        full.write_bytes(what[1])
        full.chmod(0o755 if what[0] == "100755" else 0o644)


def disk(top: Path) -> State:
    found: State = {}
    for folder, folders, names in os.walk(top):
        folders[:] = [n for n in folders if n != ".git" and not os.path.islink(os.path.join(folder, n))]
        links = [n for n in os.listdir(folder) if os.path.islink(os.path.join(folder, n))]
        for name in {*names, *links}:
            full = Path(folder, name)
            path = os.fspath(full.relative_to(top))
            if full.is_symlink():
                found[path] = ("120000", os.fsencode(os.readlink(full)))
            else:
                mode = "100755" if full.stat().st_mode & 0o100 else "100644"
                found[path] = (mode, full.read_bytes())
    return found


class Kit:
    """Entries for contents, whose blobs are in the store."""

    def __init__(self, opened: Repo) -> None:
        self.opened, self.top = opened, Path(opened.layout.root or "")
        self.blobs: dict[bytes, NewObject] = {}

    def entry(self, path: str, what: tuple[str, bytes]) -> Entry:
        blob = self.blobs.get(what[1])
        if blob is None:
            blob = self.blobs[what[1]] = new_object("sha1", "blob", what[1])
            self.opened.objects.write([blob])
        return Entry(path=path, mode=what[0], oid=blob.oid)

    def entries(self, state: State) -> dict[str, Entry]:
        return {path: self.entry(path, what) for path, what in state.items()}

    def swap(self, changes: dict[str, tuple[str, bytes] | None], expect: State, **words: Any) -> tuple[str, ...]:
        wanted = {path: what and self.entry(path, what) for path, what in changes.items()}
        return swap(self.opened, os.fspath(self.top), wanted, self.entries(expect), **words)


@pytest.fixture
def kit(repo: Sandbox, opened: Repo) -> Kit:
    (repo.path / "a.txt").unlink()
    return Kit(opened)


def some(random: random.Random) -> State:
    """Files that can stand beside each other."""
    state = {p: random.choice(CONTENTS) for p in random.sample(PATHS, random.randrange(len(PATHS)))}
    return {p: w for p, w in state.items() if not any(other.startswith(p + "/") for other in state)}


def hooked(monkeypatch: pytest.MonkeyPatch, edit: Callable[[], None]) -> None:
    """An edit after a path was looked at and before it is touched: the moment that nothing but the kernel guards."""
    inside: list[str] = []
    for name in ("create", "replace", "remove"):
        real = getattr(fileplace, name)

        def late(*args: Any, real: Any = real) -> bool:
            if not inside:
                edit()
            inside.append("")
            try:
                return bool(real(*args))
            finally:
                inside.pop()

        monkeypatch.setattr(fileplace, name, late)


@pytest.mark.parametrize("linked", [False, True])
def test_nothing_but_the_expected_is_overwritten_or_removed(kit: Kit, monkeypatch: pytest.MonkeyPatch, linked: bool) -> None:
    if linked:  # a system without renameat2
        monkeypatch.setattr(fileplace, "_renameat2", [None])
    chance = random.Random(4711)
    edits = [0]

    def edit() -> None:
        if chance.random() < edits[0] / 10:
            put(kit.top, path := chance.choice(PATHS), chance.choice([*CONTENTS, None]))
            now = disk(kit.top)
            for p in {p for p in touched if p == path or p.startswith(path + "/") or path.startswith(p + "/")}:
                touched[p] = now.get(p)

    hooked(monkeypatch, edit)
    left_something = 0
    for number in range(150):
        edits[0] = number % 4
        for path in os.listdir(kit.top):
            if path != ".git":
                put(kit.top, path, None)
        for path, what in some(chance).items():
            put(kit.top, path, what)
        touched: dict[str, tuple[str, bytes] | None] = {p: disk(kit.top).get(p) for p in PATHS}
        expect = {p: w for p, w in touched.items() if w is not None and chance.random() < 0.8}
        after = some(chance)
        changes = {p: after.get(p) for p in PATHS if chance.random() < 0.8}
        left = kit.swap(changes, expect, between=edit)
        final = disk(kit.top)
        assert final.keys() <= set(PATHS), final
        for path in PATHS:
            kept = final.get(path) == touched[path]
            ours = path in changes and final.get(path) == changes[path] and touched[path] == expect.get(path)
            assert kept or ours, (number, path, touched[path], expect.get(path), changes.get(path, "-"), final.get(path))
            if not edits[0] and path in changes:
                assert (final.get(path) == changes[path]) == (path not in left), (number, path)
        left_something += bool(left)
    assert 20 < left_something < 150


BEFORE: State = {
    "d/a": ("100644", b"old a"),
    "d/gone": ("100644", b"old"),
    "x/y": ("120000", b"../d/a"),
    "keep": ("100644", b"k"),
}
AFTER: dict[str, tuple[str, bytes] | None] = {
    "d/a": ("100755", b"new a"),
    "d/gone": None,
    "x/y": ("120000", b"z"),
    "n/e/w": ("100644", b"new" * 50_000),
    "keep": ("100644", b"k"),
}


def begin(kit: Kit) -> None:
    for path in os.listdir(kit.top):
        if path != ".git":
            put(kit.top, path, None)
    for path, what in BEFORE.items():
        put(kit.top, path, what)
    kit.entries(BEFORE)
    kit.entries({p: w for p, w in AFTER.items() if w})


def check_old_or_new(kit: Kit) -> None:
    found = disk(kit.top)
    for path in {*BEFORE, *AFTER}:
        assert found.get(path) in (BEFORE.get(path), AFTER.get(path)), path
    strange = found.keys() - BEFORE.keys() - AFTER.keys()
    assert all(".baton-" in path for path in strange), strange


def mutations(monkeypatch: pytest.MonkeyPatch, strike: Callable[[str], None]) -> None:
    """``strike`` before each call that changes a folder or a file on disk."""

    def wrap(name: str) -> None:
        real = getattr(os, name)

        def wrapped(*args: Any, **words: Any) -> Any:
            writing = name != "open" or args[1] & os.O_CREAT
            if name == "write":
                found = os.fstat(args[0])
                writing = bool(stat.S_ISREG(found.st_mode) and found.st_nlink)
            if writing:
                strike(name)
            return real(*args, **words)

        monkeypatch.setattr(os, name, wrapped)

    for name in ("open", "write", "symlink", "link", "rename", "unlink", "mkdir", "rmdir"):
        wrap(name)


def test_a_same_size_edit_of_the_same_moment_stays(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (fileswap, fileread):
        monkeypatch.setattr(place, "signature", coarse)
    hooked(monkeypatch, lambda: (kit.top / "f").write_bytes(b"two") and None)
    for number in range(10):
        put(kit.top, "f", ("100644", b"one"))
        change = None if number % 2 else ("100644", b"new")
        assert kit.swap({"f": change}, {"f": ("100644", b"one")}) == ("f",), number
        assert disk(kit.top) == {"f": ("100644", b"two")}, number


def killer(number: int) -> Callable[[str], None]:
    """Kills this process at the ``number``-th call."""
    left = iter(range(number, -1, -1))

    def strike(_: str) -> None:
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return strike


def test_r20_a_swap_that_is_killed_anywhere_leaves_each_file_old_or_new(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    number, killed = 0, True
    while killed:
        begin(kit)
        child = os.fork()
        if child == 0:
            mutations(monkeypatch, killer(number))
            mine = Kit(discover(os.fspath(kit.top), door="binary"))
            mine.blobs = kit.blobs
            mine.swap(AFTER, BEFORE)
            os._exit(0)
        killed = os.waitpid(child, 0)[1] == signal.SIGKILL
        check_old_or_new(kit)
        assert kit.swap(AFTER, {p: w for p, w in disk(kit.top).items() if p in BEFORE}) == ()
        assert disk(kit.top) == {p: w for p, w in AFTER.items() if w}, number
        number += 1
    assert number > 15


def test_a_swap_that_is_killed_after_each_file_can_be_done_again(kit: Kit) -> None:
    for number in range(10):
        begin(kit)
        done = [0]

        def stop(most: int = number, done: list[int] = done) -> None:
            done[0] += 1
            if done[0] > most:
                raise KeyboardInterrupt

        try:
            kit.swap(AFTER, BEFORE, between=stop)
        except KeyboardInterrupt:
            check_old_or_new(kit)
            assert not list(kit.top.rglob(".baton-*"))
            assert kit.swap(AFTER, BEFORE) == ()
        assert disk(kit.top) == {p: w for p, w in AFTER.items() if w}
    assert done[0] == 4


def test_r20_a_full_disk_leaves_the_old_bytes_and_no_rubbish(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    number, failed = 0, True
    while failed:
        begin(kit)
        strikes = iter([*range(number, -1, -1)])

        def full(name: str, strikes: Iterator[int] = strikes) -> None:
            if name in ("open", "write", "symlink", "link", "mkdir") and next(strikes, 1) == 0:
                raise OSError(28, os.strerror(28))

        with monkeypatch.context() as patched:
            mutations(patched, full)
            try:
                kit.swap(AFTER, BEFORE)
                failed = False
            except GitError as error:
                assert "cannot be written: No space left on device" in error.message
                assert error.message.split("'")[1] in AFTER
        check_old_or_new(kit)
        assert not list(kit.top.rglob(".baton-*")), number
        assert failed == ((kit.top / "n").exists() is False or disk(kit.top).get("x/y") == BEFORE["x/y"]), number
        number += 1
    assert number > 7
    assert disk(kit.top) == {p: w for p, w in AFTER.items() if w}


def test_a_file_moved_aside_by_a_killed_swap_stays_unless_it_is_stored(kit: Kit) -> None:
    put(kit.top, "f", ("100644", b"one"))
    aside = kit.top / fileswap._names("f")[1]
    aside.write_bytes(b"an edit that nobody has")
    assert kit.swap({"f": ("100644", b"two")}, {"f": ("100644", b"one")}) == ()
    assert aside.read_bytes() == b"an edit that nobody has" and (kit.top / "f").read_bytes() == b"two"
    aside.write_bytes(b"one")
    assert kit.swap({"f": None}, {"f": ("100644", b"two")}) == ()
    assert os.listdir(kit.top) == [".git"]


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
    before = os.stat(kit.top / "d/a")
    assert kit.swap({"d/a": ("100755", b"one"), "none": None, "x/y": None}, {"none": ("100644", b"one")}) == ()
    assert os.stat(kit.top / "d/a") == before


def test_a_special_file_in_the_way_is_left_alone(kit: Kit) -> None:
    os.mkfifo(kit.top / "p")
    assert kit.swap({"p": ("100644", b"one")}, {}) == ("p",)
    assert kit.swap({"p": None}, {"p": ("100644", b"one")}) == ("p",)
    assert stat.S_ISFIFO(os.lstat(kit.top / "p").st_mode)


def test_a_missing_object_is_an_error_and_changes_nothing(kit: Kit) -> None:
    lost = {name: Entry(path=name, mode=mode, oid="1" * 40) for name, mode in (("f", "100644"), ("l", "120000"))}
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


def test_what_a_scan_has_read_is_not_read_again(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    put(kit.top, "d/a", ("100644", b"one"))
    time.sleep(0.07)
    seen = Files(kit.opened, os.fspath(kit.top), cached=False)
    seen.scan(["d/**"])
    monkeypatch.setattr("gitbaton.git.fileread.Reader.read", None)
    assert kit.swap({"d/a": ("100644", b"two")}, {"d/a": ("100644", b"one")}, files=seen) == ()
    assert disk(kit.top) == {"d/a": ("100644", b"two")}
