"""``git baton revert``: what a turn changed is taken back, path by path, and nothing else; every option, and every message."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import Any

import pytest

from gitbaton import Baton
from gitbaton.cli.commands.mcptools import TOOLS, ToolCall
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.state import actions, assert_same, files_of, index_of, snap, state_of
from tests.kit.tiers import some

LINES = "".join(f"{number}\n" for number in range(1, 21))


class Turns:
    """Sessions that take turns in one work tree."""

    def __init__(self, repo: Sandbox) -> None:
        self.repo = repo

    def client(self, session: str) -> Client:
        return Client("claude", self.repo.path, session=session)

    def begin(self, session: str, prompt: str) -> None:
        self.client(session).fire("prompt", prompt=prompt)

    def edit(self, session: str, name: str, text: str) -> None:
        """The client's own tool writes a file, and its hook says so."""
        path = self.repo.write(name, text)
        self.client(session).fire("edit", tool_name="Write", tool_input={"file_path": str(path), "content": text})

    def end(self, session: str) -> None:
        self.client(session).fire("turn")

    def turn(self, session: str, prompt: str, **files: str) -> str:
        """A whole turn that writes files (``a_txt`` is ``a.txt``); the checkpoint at its end."""
        self.begin(session, prompt)
        for name, text in files.items():
            self.repo.write(name.replace("_", "."), text)
        self.end(session)
        return str(self.repo.ok("show", "@", "--json").json["checkpoint"]["id"])


@pytest.fixture
def turns(repo: Sandbox) -> Turns:
    snap(repo, "t", "start")
    return Turns(repo)


def texts(repo: Sandbox) -> Mapping[str, str]:
    return {name: entry[2].decode() for name, entry in files_of(repo.path).items()}


def test_the_newest_turn_goes_and_what_others_did_stays(turns: Turns, repo: Sandbox) -> None:
    repo.write("bar.txt", "bar\n")
    turns.turn("A", "change a", a_txt="A\n", new_txt="new\n")
    repo.write("bar.txt", "mine\n")
    turns.turn("B", "change bar", bar_txt="B\n")
    repo.write("notes.md", "mine\n")
    before = state_of(repo)
    done = repo.ok("revert", "@~2")
    assert done.out.splitlines()[:2] == ["write a.txt", "remove new.txt"] and "done: revert of " in done.out
    assert texts(repo) == {"a.txt": "one\n", "bar.txt": "B\n", "notes.md": "mine\n"}
    repo.ok("undo")
    assert_same(before, state_of(repo), "undo")
    repo.ok("redo")
    repo.ok("revert")
    assert texts(repo) == {"a.txt": "one\n", "bar.txt": "mine\n", "notes.md": "mine\n"}
    again = repo.ok("revert")
    assert again.out.startswith("nothing has to change: revert of ") and texts(repo)["bar.txt"] == "mine\n"


def test_a_turn_that_was_cut_short_is_taken_back_from_its_prompt_on(turns: Turns, repo: Sandbox) -> None:
    turns.turn("A", "one", one_txt="one\n")
    repo.write("a.txt", "mine\n")
    turns.begin("A", "two")
    repo.write("junk.txt", "junk\n")
    repo.write("one.txt", "spoilt\n")
    done = repo.ok("revert")
    assert "done: revert of the open turn: two\n" in done.out
    assert texts(repo) == {"a.txt": "mine\n", "one.txt": "one\n"}
    repo.ok("undo")
    assert texts(repo)["junk.txt"] == "junk\n"


@pytest.mark.deep
def test_the_first_turn_of_a_repository_without_a_checkpoint(repo: Sandbox) -> None:
    repo.ok("install")
    repo.write("mine.txt", "mine\n")
    client = Client("claude", repo.path)
    repo.git("add", "mine.txt")
    repo.git("commit", "-qm", "mine")
    client.fire("prompt", prompt="begin")
    repo.write("a.txt", "A\n")
    repo.git("add", "a.txt")
    repo.write("new.txt", "new\n")
    before = state_of(repo)
    repo.ok("revert")
    assert repo.git("status", "--porcelain") == "" and texts(repo) == {"a.txt": "one\n", "mine.txt": "mine\n"}
    repo.ok("undo")
    assert_same(before, state_of(repo), "undo")


def test_a_text_that_was_changed_since_is_merged(turns: Turns, repo: Sandbox) -> None:
    repo.write("text", LINES)
    turn = turns.turn("A", "change line 2", text=LINES.replace("2\n", "two\n", 1))
    repo.write("text", (repo.path / "text").read_text().replace("19\n", "mine\n"))
    repo.ok("revert", turn)
    assert (repo.path / "text").read_text() == LINES.replace("19\n", "mine\n")


def test_what_does_not_merge_is_named_and_left(turns: Turns, repo: Sandbox) -> None:
    for name in ("both", "gone", "bin", "link"):
        repo.write(name, f"{name}\n")
    repo.write("bin", b"\0one")
    turns.begin("A", "change all")
    repo.write("both", "A\n")
    repo.write("bin", b"\0two")
    repo.write("gone", "A\n")
    repo.write("made", "A\n")
    (repo.path / "a.txt").unlink()
    repo.write("link", "A\n")
    turns.end("A")
    repo.write("both", "mine\n")
    repo.write("bin", b"\0mine")
    (repo.path / "gone").unlink()
    repo.write("made", "mine\n")
    repo.write("a.txt", "anew\n")
    (repo.path / "link").unlink()
    (repo.path / "link").symlink_to("both")
    before = state_of(repo)
    done = repo.baton("revert")
    assert (
        done.code == 1
        and done.out
        == (
            "conflict a.txt (removed by the turn, and made anew since)\n"
            "conflict bin (changed since, and no text)\n"
            "conflict both (changed since at the same lines)\n"
            "conflict gone (removed since)\n"
            "conflict link (changed since, and no text)\n"
            "conflict made (made by the turn, and changed since)\n"
        )
        + done.out[done.out.index("nothing is changed: revert of ") :]
    )
    assert "--merge writes both sides" in done.err
    assert_same(before, state_of(repo), "revert")
    merged = repo.baton("revert", "--merge")
    assert merged.code == 1 and "write both (with conflict markers)\n" in merged.out
    assert texts(repo)["both"] == "<<<<<<< now\nmine\n=======\nboth\n>>>>>>> before the turn\n"
    repo.ok("undo")
    assert_same(before, state_of(repo), "undo")


@pytest.mark.deep
def test_several_turns_go_newest_first_and_what_came_between_stays(turns: Turns, repo: Sandbox) -> None:
    repo.write("text", LINES)
    first = turns.turn("A", "one", text=LINES.replace("2\n", "two\n", 1))
    repo.write("text", (repo.path / "text").read_text().replace("10\n", "mine\n"))
    second = turns.turn("A", "two", text=(repo.path / "text").read_text().replace("19\n", "nineteen\n"), new="new\n")
    third = turns.turn("B", "three", other="B\n")
    before = state_of(repo)
    done = repo.ok("revert", f"{first}^..{second}")
    assert f"done: revert of 2 turns, from {first[:10]} to {second[:10]}\n" in done.out
    assert texts(repo) == {"a.txt": "one\n", "text": LINES.replace("10\n", "mine\n"), "other": "B\n"}
    repo.ok("undo")
    assert_same(before, state_of(repo), "undo")
    repo.ok("revert", "--session", "A")
    assert texts(repo) == {"a.txt": "one\n", "text": LINES.replace("10\n", "mine\n"), "other": "B\n"}
    repo.ok("undo")
    repo.ok("revert", f"{first}..", "--session", "B")
    assert "other" not in texts(repo) and texts(repo)["new"] == "new\n"
    repo.ok("undo")
    repo.ok("revert", f"{first}..")
    assert {*texts(repo)} == {"a.txt", "text"} and third


def test_only_the_paths_that_are_named_come_back(turns: Turns, repo: Sandbox) -> None:
    turns.turn("A", "two files", a_txt="A\n", d="A\n")
    assert repo.ok("revert", "--", "a.txt").out.splitlines()[0] == "write a.txt"
    assert texts(repo) == {"a.txt": "one\n", "d": "A\n"}
    done = repo.baton("revert", "--", "nowhere")
    assert (done.code, done.err.splitlines()[0]) == (129, "fatal: 'nowhere' matches no file that the turn changed")
    done = repo.ok("revert", "--", "nowhere", "d")
    assert "warning: 'nowhere' matches no file that the turn changed" in done.err and "d" not in texts(repo)
    named = repo.baton("revert", "a.txt")
    assert named.code == 2 and "hint: to take back what a turn did to that path: git baton revert -- a.txt" in named.err


def test_a_dry_run_and_json_say_what_would_be(turns: Turns, repo: Sandbox) -> None:
    turn = turns.turn("A", "one", a_txt="A\n", new="new\n")
    before = state_of(repo)
    done = repo.ok("revert", "-n")
    assert done.out == f"would be done: revert of {turn[:10]}: one\nwould write a.txt\nwould remove new\n"
    assert_same(before, state_of(repo), "a dry run")
    said = repo.ok("revert", "--dry-run", "--json").json
    assert (said["op"], said["what"], said["safety"]) == ("revert", f"revert of {turn[:10]}: one", None)
    real = repo.ok("revert", "--json")
    assert actions(real) == {"a.txt": "write", "new": "remove"} and real.json["plan"] == said["plan"] and real.json["safety"]


@pytest.mark.deep
def test_the_index_comes_back_where_it_is_still_as_the_turn_left_it(turns: Turns, repo: Sandbox) -> None:
    repo.commit("more", b_txt="b\n", c_txt="c\n")
    repo.write("c.txt", "staged\n")
    repo.git("add", "c.txt")
    before = index_of(repo)
    turns.begin("A", "stage things")
    for name in ("a.txt", "c.txt", "new.txt"):
        repo.write(name, "A\n")
    repo.git("add", "-A")
    turns.end("A")
    repo.git("add", "-A")
    state = state_of(repo)
    repo.ok("revert")
    assert index_of(repo) == before and texts(repo)["c.txt"] == "staged\n"
    repo.ok("undo")
    assert_same(state, state_of(repo), "undo")


@pytest.mark.deep
def test_what_the_turn_committed_stays_and_is_named(turns: Turns, repo: Sandbox) -> None:
    turns.begin("A", "change and commit")
    oid = repo.commit("change a", a_txt="A\n")
    turns.end("A")
    done = repo.ok("revert")
    short = oid[:10]
    assert f"the turn also committed {short} 'change a'; it stays: " in done.err and f"'git revert {short}'" in done.err
    assert repo.head() == oid and texts(repo)["a.txt"] == "one\n" and repo.git("diff", "--cached") == ""
    repo.ok("undo")
    repo.git("revert", "--no-edit", short)
    assert texts(repo)["a.txt"] == "one\n"


@pytest.mark.deep
def test_a_switch_of_branches_within_a_turn_is_said(turns: Turns, repo: Sandbox) -> None:
    turns.begin("A", "on a branch")
    repo.git("switch", "-qc", "feature")
    repo.commit("one", a_txt="A\n")
    repo.commit("two", a_txt="AA\n")
    turns.end("A")
    done = repo.ok("revert")
    assert "the turn also switched to branch 'feature', which stays: git switch main" in done.err
    assert "the turn also committed 2 times, up to " in done.err and texts(repo)["a.txt"] == "one\n"


@pytest.mark.deep
def test_where_no_turn_is_on_record_the_restore_that_goes_back_is_named(repo: Sandbox) -> None:
    back = "hint: to have the files back as a checkpoint has them: git baton restore "
    for text in ("one\n", "two\n"):
        repo.write("a.txt", text)
        only = repo.ok("snapshot", text, "--track", "a b").out.split()[-2]
        if text == "one\n":
            assert repo.baton("revert").err.splitlines()[1] == f"{back}@"
    done = repo.baton("revert")
    assert (done.code, done.err.splitlines()[:2]) == (1, ["fatal: no turn of an agent is on record here", f"{back}@~1"])
    assert repo.baton("revert", "--track", "a b").err.splitlines()[1] == f"{back}'a b'~1"
    assert repo.baton("revert", "@").err.splitlines()[1:] == [f"{back}{only}~1"]
    assert repo.baton("revert", "@~1..@").err.splitlines()[1:] == [f"{back}@~1"]
    assert repo.baton("revert", "--session", "A").err.splitlines()[1:] == [f"{back}@~1"]
    repo.ok(*done.err.splitlines()[1].partition("git baton ")[2].split())
    assert texts(repo)["a.txt"] == "one\n"


@pytest.mark.deep
def test_where_there_is_no_turn(turns: Turns, repo: Sandbox) -> None:
    done = repo.baton("revert")
    assert (done.code, done.err.splitlines()[0]) == (1, "fatal: no turn of an agent is on record here")
    done = repo.baton("revert", "@")
    assert done.code == 2 and "is of no turn of an agent\n" in done.err
    done = repo.baton("revert", "--session", "A")
    assert done.code == 2 and "no turn of a session 'A' that changed something is on record" in done.err
    done = repo.baton("revert", "@..")
    assert done.code == 1 and "no turn ended after '@' up to 'now'" in done.err
    assert repo.baton("revert", "@", "--session", "A").code == 129
    repo.write("mine.txt", "mine\n")
    turn = turns.turn("A", "nothing")
    done = repo.baton("revert", "@^")
    assert done.code == 2 and "is of no turn of an agent\n" in done.err
    hint = done.err.splitlines()[-1].removeprefix("hint: the turn after it: git baton ")
    assert repo.ok(*hint.split()).out == f"nothing has to change: revert of {turn[:10]}: nothing\n"
    done = repo.ok("revert")
    assert done.out == f"nothing has to change: revert of {turn[:10]}: nothing\n"


@pytest.mark.deep
@some("own", [True, False])
def test_what_two_sessions_may_have_changed_is_a_conflict_unless_their_clients_tell(
    turns: Turns, repo: Sandbox, own: bool
) -> None:
    turns.begin("A", "change foo")
    turns.begin("B", "change bar")
    for session, name in (("A", "foo"), ("B", "bar")):
        if own:
            turns.edit(session, name, f"{session}\n")
        else:
            repo.write(name, f"{session}\n")
    turns.end("A")
    first = str(repo.ok("show", "@", "--json").json["checkpoint"]["id"])
    turns.end("B")
    done = repo.baton("revert", first)
    if own:
        assert done.code == 0 and texts(repo) == {"a.txt": "one\n", "bar": "B\n"}
        assert "keep bar (changed by session 'B' (\"change bar\"))\n" in done.out
    else:
        assert done.code == 1 and texts(repo) == {"a.txt": "one\n", "foo": "A\n", "bar": "B\n"}
        assert (
            "conflict bar (session 'A' (\"change foo\") or session 'B' (\"change bar\"): either may have changed it)"
            in done.out
        )
        assert "hint: a path that is named is taken back all the same" in done.err
        repo.ok("revert", first, "--", "foo")
        assert texts(repo) == {"a.txt": "one\n", "bar": "B\n"}


@pytest.mark.deep
def test_an_undo_says_that_it_goes_over_what_was_done_since_that_revert(turns: Turns, repo: Sandbox) -> None:
    turns.turn("A", "change both", a_txt="A\n", b_txt="B\n")
    repo.ok("revert")
    repo.commit("committed since", a_txt="committed\n")
    repo.write("b.txt", "edited\n")
    said = "warning: HEAD has moved since that revert: this undo puts other bytes over 1 file committed since; HEAD has them\n"
    told = repo.ok("undo").err
    assert said in told and "over 1 file edited since that revert; 'git baton redo' brings the edits back\n" in told


@pytest.mark.deep
def test_a_track_is_named_and_undo_leads_here(turns: Turns, repo: Sandbox) -> None:
    turn = turns.turn("A", "change a", a_txt="A\n")
    repo.ok("snapshot", "--track", "other", "elsewhere")
    assert repo.baton("revert").code == 1, "no turn of the current track"
    done = repo.baton("undo", turn[:8])
    assert done.code == 129 and "hint: to take back a turn, and not a restore: git baton revert TURN\n" in done.err
    (repo.path / ".git" / "BATON_HEAD").unlink()
    assert repo.ok("revert", "t", "--dry-run").out.endswith("would write a.txt\n"), "with no track current"
    assert repo.ok("revert", "--session", "A", "--dry-run").out.endswith("would write a.txt\n")
    assert repo.ok("revert", "--track", "t").out.startswith("write a.txt\n")
    assert repo.ok("revert", "@", "--track", "t").out.startswith("nothing has to change")
    assert repo.ok("resume", "--porcelain", "--track", "t").out.count("restored=taken back: turn \"change a\": 'a.txt'") == 1
    assert f"reverted {turn[:4]}: change a" in repo.ok("log", "--all").out


@pytest.mark.deep
def test_an_mcp_client_takes_a_turn_back(turns: Turns, repo: Sandbox) -> None:
    turns.turn("A", "change a", a_txt="A\n", new="new\n")
    tool = next(tool for tool in TOOLS if tool.name == "revert")
    given: dict[str, Any] = {"paths": ["a.txt"]}
    for applied in (False, True):
        with Baton(repo.path, door="binary") as baton:
            answer = tool.run(baton, ToolCall(given=tool.check(given), place=str(repo.path)))
        assert ("\nwould write a.txt" in answer.text, answer.document["applied"]) == (not applied, applied)
        assert texts(repo) == {"a.txt": "one\n" if applied else "A\n", "new": "new\n"}
        given |= {"apply": True, "plan": answer.document["plan"]}


def test_foreign_turns_ask_for_a_word(turns: Turns, repo: Sandbox, tmp_path: os.PathLike[str]) -> None:
    turn = turns.turn("A", "change a", a_txt="A\n")
    repo.commit("all")
    clone = Sandbox.begun(repo.path.parent / "clone")
    clone.git("fetch", "-q", str(repo.path), "+refs/heads/main:refs/heads/main", "--update-head-ok")
    clone.git("reset", "-q", "--hard")
    clone.git("remote", "add", "origin", str(repo.path))
    clone.ok("fetch")
    done = clone.baton("revert", turn)
    assert done.code == 128 and "was fetched from elsewhere" in done.err and texts(clone)["a.txt"] == "A\n"
    clone.ok("revert", turn, "--foreign")
    assert texts(clone)["a.txt"] == "one\n"


@some(
    ("words", "said"),
    [
        (("",), "fatal: the turn's name is empty\n"),
        (("--session", ""), "fatal: the session's id is empty\n"),
        (("--session", "s", "@"), "fatal: TURN and --session exclude each other; a range A..B and --session do not\n"),
    ],
)
def test_an_empty_name_is_no_name_that_was_not_given(turns: Turns, repo: Sandbox, words: tuple[str, ...], said: str) -> None:
    turns.turn("A", "one", one="one\n")
    done = repo.baton("revert", *words)
    assert (done.code, done.err.partition("\n")[0] + "\n") == (129, said) and texts(repo)["one"] == "one\n"


@pytest.mark.deep
def test_an_option_after_the_dashes_changes_nothing(turns: Turns, repo: Sandbox) -> None:
    turns.turn("A", "one", one="one\n")
    done = repo.baton("revert", "--", "one", "-n")
    assert done.code == 129 and "'-n' matches no file" in done.err and texts(repo)["one"] == "one\n"


@pytest.mark.deep
def test_a_range_the_wrong_way_round_says_the_right_one(turns: Turns, repo: Sandbox) -> None:
    turns.turn("A", "one", one="one\n")
    turns.turn("A", "two", two="two\n")
    done = repo.baton("revert", "t..t~1")
    assert done.code == 1 and "the other way round: git baton revert 't~1..t'\n" in done.err
    assert repo.ok("revert", "-n", "t~1..t").out.startswith("would be done: revert of ")


def test_line_endings_that_git_makes_nothing_of_come_back(turns: Turns, repo: Sandbox) -> None:
    repo.write(".gitattributes", "* text=auto\n")
    for name in ("to-crlf", "to-lf"):
        (repo.path / name).write_bytes(b"1\r\n2\n" if name == "to-lf" else b"1\n2\n")
    repo.commit("both")
    (repo.path / "to-lf").write_bytes(b"1\r\n2\n")
    snap(repo, "t", "before")
    before = files_of(repo.path)
    turns.begin("A", "go")
    (repo.path / "to-crlf").write_bytes(b"1\r\n2\r\n")
    (repo.path / "to-lf").write_bytes(b"1\n2\n")
    turns.end("A")
    after = files_of(repo.path)
    assert set(actions(repo.ok("revert", "--json"))) == {"to-crlf", "to-lf"} and files_of(repo.path) == before
    repo.ok("undo")
    assert files_of(repo.path) == after
    (repo.path / "to-crlf").write_bytes(b"1\r\n2\r\n3\r\n")
    repo.ok("revert")
    assert (repo.path / "to-crlf").read_bytes().replace(b"\r\n", b"\n") == b"1\n2\n3\n"
    assert (repo.path / "to-lf").read_bytes() == b"1\r\n2\n"


@pytest.mark.deep
@some("ended", [True, False])
def test_ignored_files_that_a_command_of_the_turn_removed_are_named(turns: Turns, repo: Sandbox, ended: bool) -> None:
    repo.write(".git/info/exclude", "*.db\n")
    repo.write("data/app.db", "rows\n")
    turns.begin("A", "clean up")
    turns.client("A").fire("PreToolUse", tool_name="Bash", tool_input={"command": "rm -rf data a.txt"})
    shutil.rmtree(repo.path / "data")
    (repo.path / "a.txt").unlink()
    if ended:
        turns.end("A")
    done = repo.ok("revert")
    before = next(one["id"] for one in repo.ok("log", "--json").json["checkpoints"] if one["step"].startswith("before '"))
    said = f"the turn also removed 'data/app.db', which git ignores: 'git baton restore {before[:10]}' has it"
    assert said in done.err and (repo.path / "a.txt").exists(), done
    repo.ok("restore", before)
    assert (repo.path / "data/app.db").read_text() == "rows\n"
    assert "also removed" not in repo.ok("revert", "-n").err


def test_what_no_tool_of_an_open_turn_wrote_is_named(turns: Turns, repo: Sandbox) -> None:
    turns.begin("A", "go")
    turns.edit("A", "agent.txt", "agent\n")
    repo.write("mine.txt", "mine\n")
    done = repo.ok("revert", "-n")
    said = "no tool of the turn is known to have written 'mine.txt'; what you did since its prompt counts as its own"
    assert f"warning: {said}\n" in done.err and "agent.txt" not in done.err


@pytest.mark.parametrize("spec", ["../../x", ":(bad)x"])
def test_paths_that_git_refuses_are_refused_in_its_own_words(turns: Turns, repo: Sandbox, spec: str) -> None:
    turns.turn("A", "one", a_txt="A\n")
    done = repo.baton("revert", "--", spec)
    said = repo.try_git("log", "--", spec).err.replace(f"{spec}: '", "'")  # it names the path twice
    assert (done.code, done.err) == (128, said) and said.startswith("fatal: ") and (repo.path / "a.txt").read_text() == "A\n"
