"""Whose work a path is, as restore tells it: what a track captured first stays its own, whoever commits it afterwards."""

from __future__ import annotations

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.state import actions, snap


def edited(box: Sandbox, track: str, step: str, commit: bool = False, **files: str) -> str:
    """Files written, a checkpoint of them, and perhaps a commit; the checkpoint's id."""
    for name, text in files.items():
        box.write(name.replace("_", "."), text)
    found = snap(box, track, step)
    if commit:
        box.git("add", "-A")
        box.git("commit", "-qm", step)
    return found


def planned(box: Sandbox, checkpoint: str) -> dict[str, str]:
    """What a restore would do, and with whose work it is in conflict."""
    done = box.baton("restore", "--dry-run", "--json", checkpoint)
    assert done.code in (0, 1), done.err
    return {row["path"]: f"{row['action']} {row['reason']}".split(",")[0].split(" 'commit")[0] for row in done.json["paths"]}


def whose(done: Outcome) -> dict[str, str]:
    return {row["path"]: row["reason"].split(",")[0].split(" ")[0] for row in done.json["paths"]}


def test_b5_snapshot_commit_rewind(repo: Sandbox) -> None:
    snap(repo, "T", "s0")
    edited(repo, "T", "s1", commit=True, a_txt="1\n", new="1\n")
    edited(repo, "T", "s2", commit=True, a_txt="2\n")
    head = repo.head()
    done = repo.baton("restore", "--json", "T~2")
    assert done.code == 0 and actions(done) == {"a.txt": "write", "new": "keep"}, done.out
    assert (repo.path / "a.txt").read_text() == "one\n" and repo.head() == head
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "2\n"


@pytest.mark.full
@pytest.mark.parametrize("how", ["amend", "rebase", "another's commit"])
def test_b5_whoever_committed_it_afterwards(repo: Sandbox, how: str) -> None:
    repo.git("checkout", "-qb", "upstream")
    repo.commit("colleague's", theirs="theirs\n")
    repo.git("checkout", "-q", "main")
    edited(repo, "T", "s0", a_txt="0\n")
    edited(repo, "T", "s1", commit=how != "another's commit", a_txt="1\n")
    if how == "amend":
        repo.git("commit", "-q", "--amend", "-m", "otherwise")
    elif how == "rebase":
        repo.git("rebase", "-q", "upstream")
    else:
        repo.git("-c", "user.name=Somebody", "-c", "user.email=else@x", "commit", "-qam", "took it")
    expected = {"a.txt": "write "}
    if how == "rebase":
        expected["theirs"] = "keep committed here since"
    assert planned(repo, "T~1") == expected
    edited(repo, "T", "s2")
    assert planned(repo, "T~2") == expected


@pytest.mark.full
def test_b5_what_a_merge_brought_stays_a_conflict_also_when_it_was_captured(repo: Sandbox) -> None:
    repo.commit("more", b="b\n")
    repo.git("checkout", "-qb", "colleague")
    repo.commit("colleague's", b="theirs\n")
    repo.git("checkout", "-q", "main")
    snap(repo, "T", "s0")
    edited(repo, "T", "s1", commit=True, a_txt="1\n")
    repo.git("merge", "-q", "--no-ff", "-m", "merge", "colleague")
    merge = repo.git("rev-parse", "--short=10", "HEAD")
    snap(repo, "T", "captured")
    assert planned(repo, "T~2") == {"a.txt": "write ", "b": f"conflict commit {merge}"}
    edited(repo, "T", "s2", b="mine upon it\n")
    assert planned(repo, "T~3")["b"] == "write ", "our own edit of it is ours"


@pytest.mark.full
def test_b5_what_another_track_brought_stays_a_conflict_also_when_it_was_captured(repo: Sandbox) -> None:
    repo.commit("more", b="b\n")
    snap(repo, "T", "s0")
    edited(repo, "U", "theirs", b="theirs\n")
    edited(repo, "T", "captured", a_txt="1\n", commit=True)
    assert planned(repo, "T~1") == {"a.txt": "write ", "b": "conflict track 'U'"}


@pytest.mark.full
def test_b5_another_agents_edit_after_its_newest_checkpoint_stays_a_conflict(repo: Sandbox) -> None:
    repo.commit("more", b="b\n", c="c\n")
    snap(repo, "T", "s0")
    edited(repo, "U", "theirs", b="theirs\n")
    assert planned(repo, "T") == {"b": "conflict track 'U'"}
    repo.write("b", "theirs, edited again\n")
    repo.write("c", "mine\n")
    assert planned(repo, "T") == {"b": "conflict track 'U'", "c": "write "}
    snap(repo, "T", "it merely captured this")
    repo.write("b", "and once more\n")
    repo.write("c", "mine again\n")
    snap(repo, "U", "it merely captured that")
    repo.write("c", "mine, a third time\n")
    found = planned(repo, "T~1")
    assert found["b"] == "conflict track 'U'"


@pytest.mark.full
def test_b5_an_edit_upon_our_own_is_ours_also_when_others_captured_it(repo: Sandbox) -> None:
    edited(repo, "T", "s0", a_txt="0\n")
    edited(repo, "U", "theirs", b="theirs\n")
    edited(repo, "T", "s1", a_txt="1\n")
    snap(repo, "U", "it merely captured a")
    repo.write("a.txt", "2\n")
    repo.write("fresh", "3\n")
    assert planned(repo, "T~1") == {
        "a.txt": "write ",
        "b": "keep not in that checkpoint",
        "fresh": "keep not in that checkpoint",
    }


@pytest.mark.full
def test_b5_a_restore_makes_its_paths_the_tracks_and_no_others(repo: Sandbox) -> None:
    """The safety checkpoint is of T and holds everything; it counts for what the restore wrote."""
    repo.commit("more", b="b\n", c="c\n")
    edited(repo, "T", "s0", a_txt="0\n")
    edited(repo, "U", "theirs", b="theirs\n", c="theirs\n")
    repo.write("b", "theirs, not captured\n")
    repo.ok("restore", "T", "--", "c")
    repo.write("c", "upon what was restored\n")
    assert planned(repo, "T") == {"b": "conflict track 'U'", "c": "write "}
    snap(repo, "U", "it captured the restored one")
    repo.write("c", "once more\n")
    assert planned(repo, "T")["b"] == "conflict track 'U'"
    repo.write("a.txt", "never captured\n")
    repo.ok("restore", "T", "--", "a.txt")
    repo.ok("undo")
    repo.git("commit", "-qam", "took it")
    assert planned(repo, "T")["a.txt"] == "write ", "its safety checkpoint had it first"


@pytest.mark.full
def test_b5_the_tracks_checkpoints_count_wherever_they_were_taken(repo: Sandbox) -> None:
    repo.commit("more", b="b\n")
    snap(repo, "T", "s0")
    repo.git("worktree", "add", "-q", "-b", "side", "../side")
    side = Sandbox(repo.path.parent / "side")
    edited(side, "T", "s1", commit=True, a_txt="1\n")
    edited(side, "U", "u1", commit=True, b="1\n")
    repo.git("merge", "-q", "--ff-only", "side")
    assert planned(repo, "T~1") == {"a.txt": "write ", "b": f"conflict commit {repo.git('rev-parse', '--short=10', 'HEAD')}"}


@pytest.mark.full
def test_b5_after_a_prune_doubt_means_conflict(repo: Sandbox) -> None:
    """U had it first, which nobody can tell any more: T's capture of it is the earliest that is left."""
    repo.commit("more", b="b\n")
    snap(repo, "U", "before")
    snap(repo, "T", "s0")
    edited(repo, "U", "theirs", b="theirs\n")
    edited(repo, "T", "captured", a_txt="1\n")
    edited(repo, "U", "theirs still", c="c\n")
    assert planned(repo, "T~1")["b"] == "conflict track 'U'"
    repo.ok("prune", "--keep-last", "1", "U")
    found = planned(repo, "T~1")
    assert found["b"] == found["a.txt"] == "conflict changed since", "of neither it can be told"


def test_b5_nothing_is_asked_twice(repo: Sandbox) -> None:
    """What is a conflict says whose it is, and comes back when it is named."""
    snap(repo, "T", "s0")
    repo.pulled("no checkpoint of it", a_txt="committed\n")
    done = repo.baton("restore", "--json", "T")
    assert done.code == 1 and whose(done) == {"a.txt": "commit"}
    repo.ok("restore", "T", "--", "a.txt")
    assert (repo.path / "a.txt").read_text() == "one\n"


@pytest.mark.deep
def test_b5_a_turn_in_which_the_agent_committed_is_taken_back(repo: Sandbox) -> None:
    """Its checkpoints are from before the turn and from its end: nobody captured what it committed in between."""
    snap(repo, "T", "before the turn")
    repo.commit("in the turn", a_txt="1\n")
    repo.commit("and once more", a_txt="2\n", new="2\n")
    snap(repo, "T", "turn ended")
    head = repo.head()
    assert planned(repo, "T~1") == {"a.txt": "write ", "new": "keep committed here since"}
    repo.ok("restore", "T~1")
    assert (repo.path / "a.txt").read_text() == "one\n" and repo.head() == head
    assert repo.git("diff", "--cached", "--name-only") == ""
    repo.ok("undo")
    assert repo.git("status", "--porcelain") == ""
    snap(repo, "U", "another agent's turn begins")
    repo.commit("another agent's turn", a_txt="3\n")
    snap(repo, "U", "another agent's turn ended")
    assert planned(repo, "T~1")["a.txt"] == "conflict track 'U'"
