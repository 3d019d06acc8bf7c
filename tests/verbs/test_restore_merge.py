"""A restore in the middle of a merge resolves nothing, and after it brings no conflict back."""

from __future__ import annotations

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.state import actions, assert_same, index_of, snap, state_of

MARKERS = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> other\n"


@pytest.fixture
def branches(repo: Sandbox) -> Sandbox:
    """Two branches that changed ``a.txt``; a checkpoint on ``main`` holds an edit of it, and one of ``b.txt``."""
    repo.git("checkout", "-qb", "other")
    repo.commit("theirs", a_txt="theirs\n", c_txt="theirs\n")
    repo.git("checkout", "-q", "main")
    repo.commit("ours", a_txt="ours\n", b_txt="b\n")
    repo.write("b.txt", "then\n")
    snap(repo, "t", "before")
    repo.git("checkout", "-q", "--", "b.txt")
    return repo


@pytest.fixture
def merging(branches: Sandbox) -> Sandbox:
    assert branches.try_git("merge", "other").code == 1
    assert (branches.path / "a.txt").read_text() == MARKERS
    return branches


def reasons(done: Outcome) -> dict[str, str]:
    return {row["path"]: row["reason"] for row in done.json["paths"]}


def test_a3_a_path_that_is_unmerged_now_is_a_conflict(merging: Sandbox) -> None:
    before = index_of(merging)["a.txt"]
    done = merging.baton("restore", "--json")
    assert done.code == 1
    assert actions(done) == {"a.txt": "conflict", "b.txt": "write", "c.txt": "keep"}
    assert reasons(done)["a.txt"] == "unmerged, and not at the checkpoint"
    assert (merging.path / "a.txt").read_text() == MARKERS and index_of(merging)["a.txt"] == before
    done = merging.baton("restore")
    assert "conflict a.txt (unmerged, and not at the checkpoint)" in done.out
    assert "hint: an unmerged path is yours to resolve; --force writes the file and leaves it unmerged" in done.err
    assert "somebody else's" not in done.err


@pytest.mark.full
@pytest.mark.parametrize("words", [("--force",), ("--", "a.txt")], ids=["forced", "named"])
def test_a3_the_file_is_written_and_the_stages_stay(merging: Sandbox, words: tuple[str, ...]) -> None:
    before, merge = index_of(merging)["a.txt"], state_of(merging)
    done = merging.ok("restore", *words)
    assert "write a.txt" in done.out
    assert (merging.path / "a.txt").read_text() == "ours\n" and index_of(merging)["a.txt"] == before
    failed = merging.try_git("commit", "-m", "merged")
    assert failed.code == 128 and "unmerged" in failed.err, "git commits no merge without one side"
    merging.ok("undo")
    assert_same(merge, state_of(merging), "undone")
    merging.ok("redo")
    assert (merging.path / "a.txt").read_text() == "ours\n" and index_of(merging)["a.txt"] == before


@pytest.mark.full
def test_a3_the_whole_index_comes_back_but_for_a_conflict_that_is_left(merging: Sandbox) -> None:
    merging.git("add", "b.txt")
    merging.write("d.txt", "staged\n")
    merging.git("add", "d.txt")
    before, merge = index_of(merging), state_of(merging)
    done = merging.baton("restore", "--index", "--json")
    assert done.code == 1 and actions(done)["a.txt"] == "conflict"
    now = index_of(merging)
    assert now["a.txt"] == before["a.txt"] and "d.txt" not in now
    merging.ok("undo")
    assert_same(merge, state_of(merging), "undone")
    merging.write("a.txt", "ours\n")
    done = merging.baton("restore", "--index", "--json")
    assert done.code == 1 and actions(done)["a.txt"] == "conflict", "its file is as then, and its entry is not"
    assert index_of(merging)["a.txt"] == before["a.txt"]
    merging.ok("restore", "--index", "--force")
    assert all(row.split(" ")[-1] == "0" for rows in index_of(merging).values() for row in rows), "it was asked for"


@pytest.mark.full
def test_a3_after_abort_a_checkpoint_from_within_brings_no_stages(merging: Sandbox) -> None:
    snap(merging, "t", "in the conflict")
    merging.git("merge", "--abort")
    before = state_of(merging)
    done = merging.baton("restore", "--json")
    assert done.code == 0 and actions(done) == {"a.txt": "write", "c.txt": "create"}, done.err
    assert (merging.path / "a.txt").read_text() == MARKERS
    now = index_of(merging)
    assert now["a.txt"] == before.index["a.txt"] and "U" not in merging.git("status", "--porcelain")[:2]
    merging.ok("undo")
    assert_same(before, state_of(merging), "undone")
    merging.ok("restore", "--index")
    assert len(index_of(merging)["a.txt"]) == 3
    merging.ok("undo")
    assert_same(before, state_of(merging), "undone, stages and all")


@pytest.mark.full
def test_a3_within_the_same_merge_a_conflict_that_was_resolved_wrongly_comes_back(merging: Sandbox) -> None:
    snap(merging, "t", "in the conflict")
    conflict = state_of(merging)
    merging.write("a.txt", "resolved wrongly\n")
    merging.git("add", "a.txt")
    wrong = state_of(merging)
    merging.ok("restore")
    assert_same(conflict, state_of(merging), "restored")
    merging.ok("undo")
    assert_same(wrong, state_of(merging), "undone")
    merging.ok("redo")
    assert_same(conflict, state_of(merging), "redone")


@pytest.mark.full
def test_a3_undo_of_a_step_from_before_the_merge_resolves_nothing(branches: Sandbox) -> None:
    """Modify against delete: the file is as the step left it, and the index is not."""
    branches.git("checkout", "-q", "other")
    branches.git("rm", "-q", "b.txt", "--ignore-unmatch")
    branches.git("checkout", "-q", "main")
    branches.git("checkout", "-qb", "gone")
    branches.git("rm", "-q", "b.txt")
    branches.git("commit", "-qm", "gone")
    branches.git("checkout", "-q", "main")
    branches.ok("restore")
    branches.git("commit", "-qam", "then")
    assert branches.try_git("merge", "gone").code == 1
    merge = state_of(branches)
    assert len(merge.index["b.txt"]) == 2 and (branches.path / "b.txt").read_text() == "then\n"
    done = branches.baton("undo", "--json")
    assert done.code == 1 and actions(done) == {"b.txt": "conflict"}
    assert_same(merge, state_of(branches), "left alone")
    branches.ok("undo", "--force")
    assert (branches.path / "b.txt").read_text() == "b\n" and index_of(branches)["b.txt"] == merge.index["b.txt"]
