"""A restore of a few plain files needs no index of its own; what is written meanwhile is seen all the same."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitbaton import Baton
from gitbaton.errors import StaleError
from gitbaton.restore import Order, Plan, carry_out
from gitbaton.restore.apply import apply, open_plan
from gitbaton.restore.scene import Scene
from tests.kit import Sandbox


@pytest.fixture
def spoilt(repo: Sandbox) -> Sandbox:
    """Three files recorded, then one of them edited, one removed, one made; all of it a while ago."""
    repo.write("d/b", "b\n")
    repo.write("c", "c\n")
    repo.commit("more")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.write("a.txt", "spoilt\n")
    (repo.path / "d/b").unlink()
    repo.write("e/new", "new\n")
    time.sleep(0.1)
    return repo


@contextmanager
def planned(repo: Sandbox, order: Order | None = None) -> Iterator[Plan]:
    with Baton(repo.path, door="binary") as baton, open_plan(baton, "restore", order or Order()) as plan:
        assert sorted(plan.scene.taken) == ["a.txt", "d/b", "e/new"]
        yield plan


def test_the_look_is_not_needed(spoilt: Sandbox) -> None:
    with planned(spoilt) as plan:
        plan.scene.look_again()
        assert not plan.scene.looking and plan.scene.copied.lacks.keys() == plan.scene.taken.keys()
        done = apply(plan)
    assert (spoilt.path / "a.txt").read_text() != "spoilt\n" and (spoilt.path / "d/b").read_text() == "b\n"
    assert done.safety is not None and spoilt.git("show", f"{done.safety.commit}:e/new") == "new"
    spoilt.ok("undo")
    assert (spoilt.path / "a.txt").read_text() == "spoilt\n" and not (spoilt.path / "d/b").exists()
    spoilt.fsck()


def test_some_of_the_paths(spoilt: Sandbox) -> None:
    with planned(spoilt, Order(paths=("d/b",))) as plan:
        tree = plan.tree
        assert plan.scene.copied.lacks
        apply(plan)
    assert (spoilt.path / "a.txt").read_text() == "spoilt\n" and (spoilt.path / "d/b").read_text() == "b\n"
    listed = spoilt.git("ls-tree", "-r", "--name-only", tree).split()
    assert listed == ["a.txt", "c", "d/b", "e/new"] and spoilt.git("show", f"{tree}:a.txt") == "spoilt"


def test_the_index_can_be_made_to_fit(spoilt: Sandbox) -> None:
    with planned(spoilt) as plan:
        index = plan.scene.index
        assert index.write_tree() == plan.scene.tree
        assert index.git.out("diff-files", "--name-only") == b"" == index.git.out("ls-files", "-o", "--exclude-standard")


@pytest.mark.parametrize("path", ["a.txt", "d/b", "c"])
def test_what_is_written_after_the_plan(spoilt: Sandbox, path: str) -> None:
    if path == "c":  # is as in the index, and not as in the checkpoint
        spoilt.write("c", "other\n")
        spoilt.git("commit", "-q", "-a", "-m", "other")
        time.sleep(0.1)
    with Baton(spoilt.path, door="binary") as baton, open_plan(baton, "restore", Order(force=True)) as plan:
        spoilt.write(path, "later!\n")
        with pytest.raises(StaleError):
            apply(plan)
    assert (spoilt.path / path).read_text() == "later!\n"
    if path != "a.txt":
        assert (spoilt.path / "a.txt").read_text() == "spoilt\n"


def test_what_is_written_between_the_capture_and_its_mark(spoilt: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Scene.mark

    def late(self: Scene, *words: object) -> None:
        spoilt.write("a.txt", "better\n")
        monkeypatch.setattr(Scene, "mark", real)
        real(self, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(Scene, "mark", late)
    with planned(spoilt) as plan, pytest.raises(StaleError):
        apply(plan)
    assert (spoilt.path / "a.txt").read_text() == "better\n" and not (spoilt.path / "d/b").exists()
    time.sleep(0.1)
    with Baton(spoilt.path, door="binary") as baton:
        done, _ = carry_out(baton, "restore", Order())
    assert done.safety is not None and spoilt.git("show", f"{done.safety.commit}:a.txt") == "better"


def test_a_file_of_this_moment_is_left_to_git(spoilt: Sandbox) -> None:
    with Baton(spoilt.path, door="binary") as baton:
        spoilt.write("a.txt", "just now\n")
        with open_plan(baton, "restore", Order()) as plan:
            assert not plan.scene.taken
            assert plan.scene.copied.git.out("diff-files", "--name-only") == b""
