"""A swap of files that is interrupted after any of them, and one that finds the disk full."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gitbaton.base.errors import GitError
from gitbaton.git.repo import Repo, discover
from tests.kit import Sandbox
from tests.kit.filekit import Kit, State, disk, put


@pytest.fixture
def opened(repo: Sandbox) -> Iterator[Repo]:
    found = discover(os.fspath(repo.path), door="binary")
    yield found
    found.close()


@pytest.fixture
def kit(repo: Sandbox, opened: Repo) -> Kit:
    (repo.path / "a.txt").unlink()
    return Kit(opened)


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


def test_a_swap_that_is_interrupted_after_each_file_can_be_done_again(kit: Kit) -> None:
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


def test_a_full_disk_leaves_the_old_bytes_and_no_rubbish(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
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
