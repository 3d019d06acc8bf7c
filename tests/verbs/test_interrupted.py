"""Ctrl-C in a restore, an undo or a redo: one line says what has become of the files, and it is so."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import Sandbox

apply = importlib.import_module("gitbaton.restore.apply")  # the package has a function of that name
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


def pressed(*_: Any) -> None:
    raise KeyboardInterrupt


def pressing(at: str) -> Callable[[str], None]:
    """Ctrl-C at a step of a restore."""
    return lambda name: pressed() if name == at else None


@pytest.mark.deep
@pytest.mark.parametrize("op", ["restore", "undo", "redo"])
def test_what_ctrl_c_left_is_said(track: Sandbox, monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    words = ("restore", "t") if op == "restore" else (op,)
    for at in ("intent", "safety", "begin", "files", "index"):
        monkeypatch.setattr(apply, "reached", pressing(at))
        before = track.git("status", "--porcelain=v2"), (track.path / "a.txt").read_bytes()
        done = track.here(*words)
        assert (done.code, done.err) == (130, f"fatal: the {op} {NOTHING}\n"), at
        assert (track.git("status", "--porcelain=v2"), (track.path / "a.txt").read_bytes()) == before
    monkeypatch.setattr(apply, "roll_back", pressed)  # and once more, while it is taken back
    done = track.here(*words)
    assert (done.code, done.err) == (130, f"fatal: the {op} {HALFWAY}\n")
    assert f"an interrupted {op} was " in track.ok("status").err


@pytest.mark.deep
@pytest.mark.parametrize("op", ["restore", "undo"])
def test_what_was_done_is_not_called_undone(track: Sandbox, monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    real = apply.intents.remove
    monkeypatch.setattr(apply.intents, "remove", lambda repo: pressed(real(repo)))
    done = track.here(*(("restore", "t") if op == "restore" else (op,)))
    back = "redo" if op == "undo" else "undo"
    assert (done.code, done.err) == (130, f"fatal: the {op} {DONE}\nhint: 'git baton {back}' takes it back\n")
    track.ok(back)
