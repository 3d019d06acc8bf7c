"""Rewind on a terminal: picked, shown, carried out; whatever is answered, nothing happens that was not shown."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.rewindkit import SURE, WHAT, WHICH, Screen, spoken_to, steps, take, three
from tests.kit.state import State, assert_same, state_of
from tests.kit.tiers import some


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """Three checkpoints of a track, and a spoilt file."""
    three(repo).write("a.txt", "spoilt\n")
    return repo


@pytest.fixture
def two(box: Sandbox) -> Sandbox:
    """Another track's work in the way."""
    box.write("b.txt", "somebody else's\n")
    take(box, "s", "other", set_current=False)
    return box


def all_refs(box: Sandbox) -> str:
    return box.git("for-each-ref")


def objects(box: Sandbox) -> str:
    return box.git("count-objects", "-v")


def check_untouched(box: Sandbox, then: State, refs: str) -> None:
    assert_same(then, state_of(box), "left")
    assert all_refs(box) == refs


@pytest.mark.full
def test_pick_by_number_see_the_plan_restore_and_undo(box: Sandbox) -> None:
    then = state_of(box)
    screen = Screen(box)
    listed = steps(screen.answer(WHICH, "2\n"))
    assert [row.split()[0] for row in listed] == ["1", "2", "3"]
    said = [" ".join(row.split()[3:]) for row in listed]
    assert said == [
        "now . - 1 file +1 -2 third step",
        "now + green 2 files +2 -0 second step [good]",
        "now . - 0 files +0 -0 first step",
    ]
    shown = screen.answer(WHAT, "f\n")
    assert "would write a.txt\nfiles: 1 write\n" in shown and "newer: 1 checkpoint of the track, which stay\n" in shown
    assert "conversation: not offered" in shown and "changed in it: 2 files +2 -0\n" in shown
    code, rest = screen.end()
    assert code == 0 and "write a.txt\n" in rest and "second step\nhint: 'git baton undo' takes it back" in rest
    assert (box.path / "a.txt").read_text() == "one\ntwo\n" and (box.path / "b.txt").read_text() == "b\n"
    box.ok("undo")
    assert_same(then, state_of(box), "undone")


@pytest.mark.full
@some("name", ["good", "t~1", "@~1", "@{1}"])
def test_pick_by_name(box: Sandbox, name: str) -> None:
    screen = Screen(box)
    screen.answer(WHICH, f" {name} \n")
    assert "step: second step\n" in screen.answer(WHAT, "files\n")
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.full
def test_the_words_are_those_of_a_dry_run_and_of_restore(box: Sandbox) -> None:
    box.write("d/new.txt", "new\n")
    dry = box.ok("restore", "-n", "t~2")
    screen = Screen(box)
    screen.answer(WHICH, "3\n")
    shown = screen.answer(WHAT, "q\n")
    assert dry.out in shown and "files: 1 write, 2 keep\n" in shown
    assert screen.end()[0] == 0
    exact = Screen(box, "--exact")
    exact.answer(WHICH, "3\n")
    assert "would remove b.txt\nwould remove d/new.txt\nfiles: 2 remove, 1 write\n" in exact.answer(WHAT, "f\n")
    assert exact.end()[0] == 0
    assert not (box.path / "b.txt").exists()


@pytest.mark.full
@some("answers", [[""], ["q"], ["1", ""], ["1", "q"], ["1", "quit"], ["nonsense", "q"]])
def test_leaving_changes_nothing(box: Sandbox, answers: list[str]) -> None:
    then, refs, kept = state_of(box), all_refs(box), objects(box)
    screen = Screen(box)
    for prompt, answer in zip([WHICH, WHICH if len(answers[0]) > 1 else WHAT], answers, strict=False):
        screen.answer(prompt, answer + "\n")
    code, _ = screen.end()
    assert code == 0
    check_untouched(box, then, refs)
    assert objects(box) == kept and not list((box.path / ".git/baton").glob("tmp/*"))


@pytest.mark.deep
@some(("key", "code"), [("\x03", 130), ("\x04", 0)], ids=["ctrl-c", "end-of-input"])
@some("raw", [False, True], ids=["cooked", "raw"])
def test_ctrl_c_and_the_end_of_input_at_each_prompt(two: Sandbox, key: str, code: int, raw: bool) -> None:
    then, refs = state_of(two), all_refs(two)
    enter = "\r" if raw else "\n"
    for before in ([], [(WHICH, "1")], [(WHICH, "1"), (WHAT, "f")]):
        screen = Screen(two, raw=raw)
        for prompt, answer in before:
            screen.answer(prompt, answer + enter)
        screen.answer((WHICH, WHAT, SURE)[len(before)], key)
        ended, rest = screen.end()
        assert ended == code and "Traceback" not in rest and rest.endswith("\n")
        check_untouched(two, then, refs)


@pytest.mark.deep
def test_an_unfinished_line_is_no_answer(box: Sandbox) -> None:
    then, refs = state_of(box), all_refs(box)
    screen = Screen(box)
    screen.answer(WHICH, "2\n")
    screen.answer(WHAT, "f\x04\x04")
    assert screen.end()[0] == 0
    check_untouched(box, then, refs)


@pytest.mark.deep
@some("end", ["\r", "\r\n"])
def test_a_terminal_that_sends_carriage_returns(box: Sandbox, end: str) -> None:
    screen = Screen(box, raw=True)
    screen.answer(WHICH, "2" + end)
    screen.answer(WHAT, "f" + end)
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.full
def test_a_terminal_that_hangs_up(box: Sandbox) -> None:
    then = state_of(box)
    screen = Screen(box)
    screen.answer(WHICH, "2\n")
    screen.until(WHAT)
    os.close(screen.master)
    assert screen.child.wait(60) in (0, -signal.SIGHUP)
    assert_same(then, state_of(box), "hung up")


@pytest.mark.deep
def test_garbage_asks_again(box: Sandbox) -> None:
    garbage = ["0", "4", "-1", "99999999999", "\u0663", "\x1b[A", "\udcff", "--output=x", "t~9", "nope", "\x00", "x" * 900]
    screen = Screen(box)
    screen.until(WHICH)
    for typed in garbage:
        screen.type(typed + "\n")
        shown = screen.until(WHICH)
        assert "\nerror: " in shown and "\nhint: " in shown and "\x1b" not in shown, typed
    screen.type("1\n")
    screen.until(WHAT)
    for typed in garbage:
        screen.type(typed + "\n")
        shown = screen.until(WHAT)
        assert " is not understood; it can be f, q\n" in shown and "\x1b" not in shown, typed
    screen.type("f\n")
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "three\n"


@pytest.mark.deep
def test_conflicts_are_confirmed_and_left_alone(two: Sandbox) -> None:
    screen = Screen(two)
    screen.answer(WHICH, "1\n")
    shown = screen.answer(WHAT, "f\n")
    assert "would conflict a.txt (track 'other'" in shown and "would conflict b.txt" in shown
    screen.answer(SURE, "n\n")
    screen.answer(WHICH, "1\n")
    screen.answer(WHAT, "f\n")
    assert "2 conflicts are left alone" in screen.until(SURE)
    two.write("c.txt", "beside it, since it was shown\n")
    screen.type("yes\n")
    code, rest = screen.end()
    assert code == 1 and "conflict b.txt (track 'other'" in rest
    assert (two.path / "b.txt").read_text() == "somebody else's\n"


@pytest.mark.deep
def test_force_is_confirmed_and_undone(two: Sandbox) -> None:
    then = state_of(two)
    screen = Screen(two, "--force")
    screen.answer(WHICH, "1\n")
    assert "conflict" not in screen.answer(WHAT, "f\n").partition("would")[2]
    assert "somebody else's work is changed, too" in screen.answer(SURE, "y\n")
    assert screen.end()[0] == 0
    assert (two.path / "b.txt").read_text() == "b\n"
    two.ok("undo")
    assert_same(then, state_of(two), "undone")


@pytest.mark.full
def test_what_changed_after_it_was_shown_is_shown_anew(box: Sandbox) -> None:
    screen = Screen(box)
    screen.answer(WHICH, "2\n")
    assert "would write a.txt\nfiles: 1 write\n" in screen.until(WHAT)
    box.write("b.txt", "mine, since\n")
    refs = all_refs(box)
    screen.type("f\n")
    shown = screen.until(WHAT)
    assert "warning: it is not what was shown any more, and nothing is changed" in shown
    assert "would write a.txt\nwould write b.txt\nfiles: 2 write\n" in shown
    assert (box.path / "b.txt").read_text() == "mine, since\n" and all_refs(box) == refs
    screen.type("f\n")
    assert screen.end()[0] == 0
    assert (box.path / "b.txt").read_text() == "b\n"
    box.ok("undo")
    assert (box.path / "b.txt").read_text() == "mine, since\n"


@pytest.mark.full
@some("move", [("commit", "-q", "--allow-empty", "-m", "x"), ("add", "a.txt"), ("switch", "-q", "-c", "other")])
def test_head_and_index_count_as_well(box: Sandbox, move: tuple[str, ...]) -> None:
    screen = Screen(box)
    screen.answer(WHICH, "2\n")
    screen.until(WHAT)
    box.git(*move)
    screen.type("f\n")
    shown = screen.until(WHAT) if move[0] != "switch" else ""
    assert shown == "" or "is not what was shown any more" in shown
    screen.type("f\n" if shown else "")
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.deep
def test_in_a_linked_work_tree_and_with_sha256(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "new", "--object-format=sha256")
    box.commit("first", a_txt="one\n")
    box.git("worktree", "add", "-q", "../beside")
    beside = Sandbox(tmp_path / "beside")
    take(beside, "s")
    beside.write("a.txt", "spoilt\n")
    screen = Screen(beside, "--track", "t")
    screen.answer(WHICH, "1\n")
    screen.answer(WHAT, "f\n")
    assert screen.end()[0] == 0
    assert (beside.path / "a.txt").read_text() == "one\n"


@pytest.mark.full
def test_the_state_before_a_restore_can_be_picked_by_its_id(box: Sandbox) -> None:
    box.ok("restore", "t~1")
    kept = box.git("log", "-1", "--format=%B", "refs/baton/safety/main-worktree").partition("\n\n")[2].rstrip() + "\n"
    name = box.git("hash-object", "--stdin", stdin=kept.encode())
    screen = Screen(box)
    screen.answer(WHICH, name + "\n")
    shown = screen.answer(WHAT, "f\n")
    assert ", safety, " in shown and "newer: " not in shown
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "spoilt\n"


@pytest.mark.full
def test_another_tracks_snapshot_after_it_was_shown_makes_a_conflict(box: Sandbox) -> None:
    screen = Screen(box)
    screen.answer(WHICH, "2\n")
    screen.until(WHAT)
    take(box, "s", "other", set_current=False)
    screen.type("f\n")
    assert "would conflict a.txt (track 'other'" in screen.answer(WHAT, "q\n")
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "spoilt\n"


@pytest.mark.deep
def test_a_file_that_cannot_be_written_is_shown_before_the_rest_comes_back(box: Sandbox) -> None:
    (box.path / "b.txt").unlink()
    nested = Sandbox.init(box.path / "b.txt")
    nested.commit("of its own")
    screen = Screen(box)
    screen.answer(WHICH, "2\n")
    shown = screen.answer(WHAT, "f\n")
    assert "would refuse b.txt (submodule)" in shown and "would write a.txt" in shown
    code, rest = screen.end()
    assert code == 1 and "refuse b.txt" in rest
    assert (box.path / "a.txt").read_text() == "one\ntwo\n" and (box.path / "b.txt/.git").exists()


@pytest.mark.full
def test_a_checkpoint_without_files_is_said_and_asked_again(box: Sandbox) -> None:
    take(box, "words only", files=False)
    screen = Screen(box)
    assert "no files" in steps(screen.answer(WHICH, "1\n"))[0]
    assert "was recorded without files" in screen.answer(WHICH, "2\n")
    screen.answer(WHAT, "f\n")
    assert screen.end()[0] == 0


@pytest.mark.full
def test_the_index_comes_back_when_asked(box: Sandbox) -> None:
    box.git("add", "a.txt")
    take(box, "staged")
    box.git("reset", "-q")
    screen = Screen(box, "--index")
    screen.answer(WHICH, "1\n")
    assert "files: the files are like this now" in screen.answer(WHAT, "f\n")
    assert screen.end()[0] == 0
    assert box.git("diff", "--cached", "--name-only") == "a.txt"


def sessions(home: Path) -> list[Path]:
    """The session files that are not the one made by hand."""
    return [path for path in home.rglob("*.jsonl") if path.parent.name != "-there"]


@pytest.mark.deep
@some(("answer", "files"), [("c", False), ("both", True), ("f", True)])
def test_the_conversation_is_written_back_as_a_new_session(box: Sandbox, tmp_path: Path, answer: str, files: bool) -> None:
    home = tmp_path / "home"
    box.write("a.txt", "four\n")
    spoken_to(box, home)
    box.write("a.txt", "spoilt\n")
    screen = Screen(box)
    assert steps(screen.answer(WHICH, "1\n"))[0].endswith("claude  talked")
    shown = screen.until(WHAT)
    assert "conversation: 2 lines, as a new session of 'claude'\n" in shown
    assert shown.endswith("restore [f]iles, [c]onversation, [b]oth or ")
    assert not sessions(home)
    screen.type(answer + "\n")
    code, rest = screen.end()
    assert code == 0
    assert (box.path / "a.txt").read_text() == ("four\n" if files else "spoilt\n")
    assert len(sessions(home)) == (answer != "f")
    if answer != "f":
        written = sessions(home)[0]
        assert f"resume it with: claude --resume {written.stem}\n" in rest
        assert [json.loads(row)["sessionId"] for row in written.read_text().splitlines()] == [written.stem] * 2
    assert ("'git baton undo' takes it back" in rest) == files


@pytest.mark.deep
def test_a_conversation_that_cannot_be_resumed_says_why(box: Sandbox, tmp_path: Path) -> None:
    spoken_to(box, tmp_path / "home", agent="gemini")
    screen = Screen(box)
    assert " gemini " in steps(screen.answer(WHICH, "1\n"))[0]
    shown = screen.answer(WHAT, "c\n")
    assert "conversation: not offered: " in shown and shown.endswith("restore [f]iles or ")
    assert "it can be f, q\n" in screen.answer(WHAT, "\n")
    assert screen.end()[0] == 0


@pytest.mark.full
def test_what_was_fetched_needs_to_be_allowed_and_is_quoted(box: Sandbox) -> None:
    with box.open() as baton, baton.repo.lock(()):
        baton.store.mark("t", [stored.id for stored in baton.store.history("t").items])
    screen = Screen(box)
    screen.answer(WHICH, "2\n")
    shown = screen.answer(WHICH, "q\n")
    assert "\n> step: second step\n" in shown and "was fetched from elsewhere" in shown and "--foreign" in shown
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "spoilt\n"
    screen = Screen(box, "--foreign")
    screen.answer(WHICH, "2\n")
    screen.answer(WHAT, "f\n")
    assert screen.end()[0] == 0
    assert (box.path / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.deep
def test_without_a_terminal_129_and_the_plain_commands(box: Sandbox) -> None:
    then, refs = state_of(box), all_refs(box)
    done = box.baton("rewind", stdin=b"2\nf\n")
    assert done.code == 129 and not done.out
    rows = done.err.splitlines()
    assert rows[0].startswith("fatal: ") and all(row.startswith("hint: ") for row in rows[1:])
    for words in ("git baton log", "git baton restore --dry-run CHECKPOINT", "git baton restore CHECKPOINT"):
        assert words in done.err
    assert "--conversation" not in done.err, "there is none"
    check_untouched(box, then, refs)


@pytest.mark.deep
def test_b5_conflicts_are_named_and_exactly_those_are_overwritten(two: Sandbox) -> None:
    two.write("c.txt", "beside it\n")
    then = state_of(two)
    screen = Screen(two)
    screen.answer(WHICH, "1\n")
    screen.answer(WHAT, "f\n")
    shown = screen.answer(SURE, "o\n")
    assert "in conflict: a.txt (track 'other', checkpoint " in shown and "in conflict: b.txt (track 'other'" in shown
    assert "2 conflicts are left alone, all else comes back; 'o' overwrites exactly those, too; " in shown
    assert_same(then, state_of(two), "nothing is changed before it is shown")
    shown = screen.answer(WHAT, "f\n")
    assert "they are overwritten, too; now it would be:\n" in shown
    assert "would write a.txt\nwould write b.txt\nwould keep c.txt" in shown
    assert screen.end()[0] == 0
    assert ((two.path / "a.txt").read_text(), (two.path / "b.txt").read_text()) == ("three\n", "b\n")
    two.ok("undo")
    assert_same(then, state_of(two), "undone")


@pytest.fixture
def agent(repo: Sandbox) -> Client:
    """A client whose turn changed a file and made one, after which the user went on in another."""
    take(repo, "first step")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="make it worse")
    repo.write("a.txt", "worse\n")
    repo.write("junk.txt", "junk\n")
    client.fire("turn")
    repo.write("notes.md", "mine\n")
    return client


def test_a_turn_is_taken_back_and_what_came_since_stays(agent: Client, repo: Sandbox) -> None:
    then, dry = state_of(repo), repo.ok("revert", "-n", "-v").out
    screen = Screen(repo)
    assert "1" in steps(screen.answer(WHICH, "1\n"))[0]
    shown = screen.answer(WHAT, "t\n")
    assert f"{dry}take this turn back: 1 remove, 1 write\n" in shown and "go back to here: 1 keep\n" in shown
    assert shown.endswith("[t]ake this turn back, restore [f]iles, e[x]act or ")
    code, rest = screen.end()
    assert code == 0 and "done: revert of " in rest and "'git baton undo' takes it back" in rest
    assert (repo.path / "a.txt").read_text() == "one\n" and not (repo.path / "junk.txt").exists()
    assert (repo.path / "notes.md").read_text() == "mine\n"
    again = Screen(repo)
    again.answer(WHICH, "1\n")
    assert "take this turn back: no file of it is left to take back\n" in again.answer(WHAT, "q\n")
    repo.ok("undo")
    assert_same(then, state_of(repo), "undone")


@pytest.mark.deep
def test_of_a_turn_the_state_after_it_can_come_back_too(agent: Client, repo: Sandbox) -> None:
    repo.write("a.txt", "mine\n")
    screen = Screen(repo)
    screen.answer(WHICH, "1\n")
    shown = screen.answer(WHAT, "f\n")
    assert "take this turn back: 1 conflict, 1 remove\n" in shown and "go back to here: 1 write, 1 keep\n" in shown
    assert screen.end()[0] == 0
    assert (repo.path / "a.txt").read_text() == "worse\n" and (repo.path / "junk.txt").exists()


@pytest.mark.deep
def test_a_conflict_of_a_turn_is_named_and_only_it_is_left(agent: Client, repo: Sandbox) -> None:
    repo.write("a.txt", "mine\n")
    screen = Screen(repo)
    screen.answer(WHICH, "1\n")
    screen.answer(WHAT, "t\n")
    shown = screen.answer(SURE, "y\n")
    assert "in conflict: a.txt (changed since at the same lines)\n" in shown and "'o' overwrites" not in shown
    assert screen.end()[0] == 1
    assert (repo.path / "a.txt").read_text() == "mine\n" and not (repo.path / "junk.txt").exists()


@pytest.mark.deep
def test_the_open_turn_is_the_first_row_and_taken_back(agent: Client, repo: Sandbox) -> None:
    agent.fire("prompt", prompt="and worse")
    repo.write("a.txt", "much worse\n")
    then = state_of(repo)
    screen = Screen(repo)
    first = steps(screen.answer(WHICH, "0\n"))[0].split()
    assert first[0] == "0" and first[-5:] == ["turn", "not", "ended:", "and", "worse"]
    shown = screen.answer(WHAT, "t\n")
    assert "changed so far: 1 file\n" in shown and "take this turn back: 1 write\n" in shown and "go back" not in shown
    assert shown.endswith("[t]ake this turn back or ")
    code, rest = screen.end()
    assert code == 0 and "done: revert of the open turn: and worse\n" in rest
    assert (repo.path / "a.txt").read_text() == "worse\n"
    again = Screen(repo)
    assert steps(again.answer(WHICH, "q\n"))[0].split()[0] == "1", "it has ended"
    repo.ok("undo")
    assert_same(then, state_of(repo), "undone")


@pytest.mark.deep
def test_a_checkpoint_of_no_turn_is_only_gone_back_to(agent: Client, repo: Sandbox) -> None:
    screen = Screen(repo)
    screen.answer(WHICH, "t~1\n")
    shown = screen.answer(WHAT, "q\n")
    assert (
        "take this turn back" not in shown
        and "files: 1 write, 2 keep\n" in shown
        and shown.endswith("restore [f]iles, e[x]act or ")
    )
