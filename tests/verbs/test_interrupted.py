"""Ctrl-C in a restore, an undo or a redo: one line says what has become of the files, and it is so."""

from __future__ import annotations

import pytest

from tests.kit import Sandbox
from tests.kit.moments import Args, at

NOTHING, DONE = "was interrupted, and nothing is changed", "was interrupted when all was done"
HALFWAY = "was interrupted halfway\nhint: the next 'git baton' command puts that right: git baton status"


@pytest.fixture
def track(repo: Sandbox) -> Sandbox:
    """One restore behind, and one undone: each of the three verbs has something to do."""
    for text in ("one\n", "two\n", "three\n"):
        repo.write("a.txt", text)
        repo.git("add", "a.txt")
        repo.ok("snapshot", "--track", "t", "--step", text)
    for words in (("restore", "t~2"), ("restore", "t~1"), ("undo",)):
        repo.ok(*words)
    return repo


def press(_: Args) -> None:
    raise KeyboardInterrupt


@pytest.mark.deep
@pytest.mark.parametrize("op", ["restore", "undo", "redo"])
def test_what_ctrl_c_left_is_said(track: Sandbox, op: str) -> None:
    words = ("restore", "t") if op == "restore" else (op,)
    for step in ("intent", "safety", "begin", "files", "index"):
        before = track.git("status", "--porcelain=v2"), (track.path / "a.txt").read_bytes()
        with at("gitbaton.restore", (step,).__eq__, press):
            done = track.here(*words)
        assert (done.code, done.err) == (130, f"fatal: the {op} {NOTHING}\n"), step
        assert (track.git("status", "--porcelain=v2"), (track.path / "a.txt").read_bytes()) == before
    passed: list[Args] = []

    def again(args: Args) -> bool:
        """At the index, and once more while it is taken back."""
        passed.append(args)
        return ("index",) in passed

    with at("gitbaton.restore", again, press), at("os.rename", again, press):
        done = track.here(*words)
    assert (done.code, done.err) == (130, f"fatal: the {op} {HALFWAY}\n")
    assert f"an interrupted {op} was " in track.ok("status").err


@pytest.mark.deep
@pytest.mark.parametrize("op", ["restore", "undo"])
def test_what_was_done_is_not_called_undone(track: Sandbox, op: str) -> None:
    removed: list[str] = []

    def after(args: Args) -> bool:
        """Once, when the record of the restore has just gone."""
        removed.append(str(args[0]))
        return len(removed) > 1 and removed[-2].endswith("/baton/restore")

    with at("os.remove", after, press):
        done = track.here(*(("restore", "t") if op == "restore" else (op,)))
    back = "redo" if op == "undo" else "undo"
    assert (done.code, done.err) == (130, f"fatal: the {op} {DONE}\nhint: 'git baton {back}' takes it back\n")
    track.ok(back)
