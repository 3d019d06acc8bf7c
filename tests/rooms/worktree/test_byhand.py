"""Capture by hand: the same tree as git's own, or git is asked."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from gitbaton import Baton
from tests.kit import Sandbox
from tests.kit.tiers import some

capture = import_module("gitbaton.worktree.capture")
NAMES = [f"{top}{name}" for top in ("", "d/", "d/e/", "f/", "f.x/", "f-y/") for name in ("a", "b.c", "é", "sp ace", "-n")]


def captured(repo: Sandbox) -> str:
    with Baton(repo.path, door="binary") as baton:
        return baton.snapshot("s", track="t").stored.tree


def by_git(repo: Sandbox) -> str:
    copy = repo.path.parent / "copy"
    shutil.copy2(repo.path / ".git/index", copy)
    repo.git("add", "-A", env={"GIT_INDEX_FILE": str(copy)})
    return repo.git("write-tree", env={"GIT_INDEX_FILE": str(copy)})


def spoil(path: Path, dice: random.Random) -> None:
    """Write, remove, or make executable; a file may stand where a folder was, and the other way round."""
    if path.is_dir():
        shutil.rmtree(path)
    for above in reversed(path.parents):
        if above.is_file():
            above.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    what = dice.randrange(4)
    if what == 0:
        path.unlink(missing_ok=True)
        return
    path.write_bytes(dice.randbytes(dice.choice((0, 3, 5000))))
    path.chmod(0o755 if what == 1 else 0o644)


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_is_the_one_that_git_makes(repo: Sandbox, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(seed)
    hand: list[object] = []
    real = capture.taken_in

    def seen(*words: object, still: bool) -> object:
        hand.append(real(*words, still=still))
        return hand[-1]

    monkeypatch.setattr(capture, "taken_in", seen)
    for _ in range(4):
        for name in dice.sample(NAMES, 6):
            spoil(repo.path / name, dice)
        if dice.random() < 0.3:
            spoil(repo.path / dice.choice(("d/e", "f", "d")), dice)
        expected = by_git(repo)
        assert captured(repo) == expected
        if dice.random() < 0.5:
            repo.git("add", "-A")
    assert any(hand)
    repo.fsck()


def a_link(repo: Sandbox) -> None:
    (repo.path / "l").symlink_to("a.txt")


def a_folder_of_links(repo: Sandbox) -> None:
    repo.write("../elsewhere/x", "x\n")
    shutil.rmtree(repo.path / "d")
    (repo.path / "d").symlink_to(repo.path.parent / "elsewhere")


def no_modes(repo: Sandbox) -> None:
    repo.git("config", "core.fileMode", "false")
    repo.write("run", "x\n").chmod(0o755)


def line_ends(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write("crlf", "one\r\n")


def attributes(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.id ident\n")
    repo.write("x.id", "$Id: 1 $\n")


def large(repo: Sandbox) -> None:
    repo.write("large", "x" * (1 << 20) + "x")


def flag(repo: Sandbox) -> None:
    repo.git("update-index", "--assume-unchanged", "a.txt")


@some("arrange", [a_link, a_folder_of_links, no_modes, line_ends, attributes, large, flag], 3, ids=lambda f: f.__name__)
def test_what_is_more_than_bytes_is_left_to_git(
    repo: Sandbox, arrange: Callable[[Sandbox], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("d/x", "x\n")
    repo.commit("more")
    arrange(repo)
    repo.write("new", "new\n")
    expected = by_git(repo)
    given: list[object] = []
    real = capture.taken_in

    def seen(*words: object, still: bool) -> object:
        given.append(real(*words, still=still))
        return given[-1]

    monkeypatch.setattr(capture, "taken_in", seen)
    assert captured(repo) == expected and given == [None]
