"""A restore cares only for its own paths: whoever writes beside it neither stops it nor is touched."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from gitbaton.checkpoints.restore import Order, alone, apply, planned
from tests.kit import Sandbox
from tests.kit.processes import meanwhile
from tests.kit.state import actions


@pytest.fixture
def spoilt(repo: Sandbox) -> Sandbox:
    """``a.txt`` and ``d/x`` differ from the track's checkpoint."""
    repo.commit("more", b_txt="b\n")
    repo.write("d/x", "then\n")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.write("a.txt", "now\n")
    repo.write("d/x", "now\n")
    return repo


def growing(path: Path) -> Callable[[], None]:
    """One more line in a file, and a moment of rest."""

    def grow() -> None:
        with open(path, "a") as file:
            file.write("line\n")
        time.sleep(0.001)

    return grow


def appearing(folder: Path) -> Callable[[], None]:
    """One more file in a folder, and a moment of rest."""
    numbers = count()

    def appear() -> None:
        (folder / f"part.{next(numbers)}").write_text("part\n")
        time.sleep(0.002)

    return appear


@pytest.mark.full
@pytest.mark.parametrize("how", ["a log grows", "files appear", "a tracked file is edited"])
def test_b10_what_is_written_beside_a_restore_does_not_stop_it(spoilt: Sandbox, how: str) -> None:
    beside = {
        "a log grows": growing(spoilt.path / "server.log"),
        "files appear": appearing(spoilt.path),
        "a tracked file is edited": growing(spoilt.path / "b.txt"),
    }
    words = ("restore", "--", "a.txt", "d") if how == "a tracked file is edited" else ("restore",)
    with meanwhile(beside[how]):
        spoilt.ok(*words)
    assert (spoilt.path / "a.txt").read_text() == "one\n" and (spoilt.path / "d/x").read_text() == "then\n"
    with meanwhile(beside[how]):
        spoilt.ok("undo")
    assert (spoilt.path / "a.txt").read_text() == "now\n"


@pytest.mark.deep
def test_b10_a_file_that_is_never_still_is_left_and_the_rest_comes_back(spoilt: Sandbox) -> None:
    with meanwhile(growing(spoilt.path / "d/x")):
        done = spoilt.baton("restore", "--json")
    assert done.code == 1, done.err
    assert actions(done) == {"a.txt": "write", "d/x": "refuse"}
    assert {p["path"]: p["reason"] for p in done.json["paths"]}["d/x"] == "unstable"
    assert (spoilt.path / "a.txt").read_text() == "one\n"


def test_b10_a_plan_holds_while_its_own_paths_do(spoilt: Sandbox) -> None:
    """What is shown at a prompt stays what is done, whatever grows beside it."""
    with spoilt.open() as baton:
        with planned(baton, Order()) as shown:
            pass
        spoilt.write("server.log", "line\n")
        spoilt.write("b.txt", "edited\n")
        order = Order(paths=("a.txt", "d/x"))
        with planned(baton, order, alone(baton.repo)) as again:
            spoilt.write("server.log", "more\n")
            spoilt.write("b.txt", "edited again\n")
            assert again.digest == shown.digest
            assert apply(again).safety is not None
        spoilt.write("a.txt", "now\n")
        with planned(baton, order) as other:
            assert other.digest != shown.digest
    assert (spoilt.path / "b.txt").read_text() == "edited again\n"
