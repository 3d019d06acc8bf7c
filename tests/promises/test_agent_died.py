"""A session that died, without an end of its turn: what it was asked is there from the moment it was said, and its records are
read again at the next start."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitbaton.agents.hooks.agent import SECONDS
from tests.kit import Sandbox
from tests.kit.agents import Client, autos, log_of, steps
from tests.kit.state import snap
from tests.kit.talks import Talk
from tests.kit.tiers import deep, some
from tests.promises.test_agent_deadline import wait_for

TASK = "Mend the parser of dates"
KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def left(repo: Sandbox) -> dict[str, Any]:
    """What the only session has left."""
    folder = repo.path / ".git" / "baton" / "sessions"
    (path,) = [each for each in folder.iterdir() if "." not in each.name]
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


def test_what_is_asked_is_kept_from_the_moment_it_is_said(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt=f"{TASK}\nwith the key {KEY}, and more: {'word ' * 600}")
    client.fire("prompt", prompt="and its tests")
    found = left(repo)
    assert found["asked_first"].startswith(f"{TASK}\nwith the key [redacted:") and len(found["asked_first"]) == 2000
    assert found["asked_last"] == "and its tests" and found["asked_last_at"] >= found["asked_first_at"] > 0
    assert found["transcript"] == client.payload("UserPromptSubmit")["transcript_path"] and KEY not in json.dumps(found)
    client.fire("start", source="clear")
    assert "asked_first" not in left(repo) and log_of(repo) == ""


@some(("key", "word"), [("observe", "tests"), ("observe", "none"), ("transcripts", "position"), ("transcripts", "off")])
def test_no_words_are_kept_where_none_are_wanted(repo: Sandbox, key: str, word: str) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt=TASK)
    repo.git("config", f"baton.{key}", word)
    client.fire("prompt", prompt=f"{TASK}\nsecond line")
    assert not any(name.startswith("asked") for name in left(repo)) and log_of(repo) == ""


@some(("key", "word"), [("observe", "tests"), ("transcripts", "position"), ("transcripts", "off")])
def test_nothing_of_commands_is_kept_where_no_words_are_wanted(talk: Talk, key: str, word: str) -> None:
    talk.repo.git("config", f"baton.{key}", word)
    begun(talk)
    talk.run("deploy --to=customer.com secret.py", "wrote printed.txt")
    talk.say("See said.py.")
    talk.stop()
    facts = "".join(path.read_text() for path in (talk.repo.path / ".git/baton/sessions").glob("*.facts"))
    assert "x.py" in facts, "what was edited is"
    assert not [name for name in ("customer.com", "secret.py", "printed.txt", "said.py") if name in facts]


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    """A session in a repository where gitbaton was used, and that has no checkpoint yet."""
    repo.commit("first", **{"x.py": "one\n", "y.py": "one\n"})
    (repo.path / ".git/baton").mkdir()
    return Talk(repo, tmp_path / "talk.jsonl")


def begun(talk: Talk, task: str = TASK, idle: float = 0) -> None:
    """A turn in whose midst the process dies."""
    talk.clock = lambda: datetime.now(UTC) - timedelta(seconds=idle)
    talk.now = talk.clock()
    talk.fire("start")
    talk.fire("prompt", prompt=task)
    talk.ask(task)
    talk.plan(**{"find the bug": "completed", "mend it": "in_progress"})
    talk.edit("x.py", "two\n")
    talk.say("The bug is in half(), and I mend it now.")


def long_ago(talk: Talk, seconds: float = 3600) -> None:
    """What the session left is as old as after a reboot, or a night."""
    then = time.time() - seconds
    for path in (*(talk.repo.path / ".git/baton/sessions").iterdir(), talk.path):
        if path.is_file():
            os.utime(path, (then, then))


def told(talk: Talk, agent: str = "claude", place: Path | None = None, **fields: Any) -> str:
    """What a new session of a client is told."""
    return Client(agent, place or talk.repo.path, session="5e551011-0000-4000-8000-00000000000f").fire("start", **fields)


@some("idle", [0, 3600])
def test_a_session_that_died_in_its_first_turn_is_told(talk: Talk, idle: int) -> None:
    begun(talk, idle=idle)
    long_ago(talk, idle)
    text = told(talk)
    assert TASK in text and "mend it" in text and "The bug is in half()" in text and "x.py" in text
    assert steps(autos(talk.repo, "main")) == [f"turn not ended: {TASK}"]
    assert "mend it" in talk.repo.ok("resume").out and log_of(talk.repo) == ""
    assert ("may still be at work" in text) == (not idle)


@pytest.mark.deep
def test_the_same_with_what_other_turns_recorded(talk: Talk) -> None:
    talk.now = datetime.now(UTC) - timedelta(seconds=7200)
    talk.clock = lambda: talk.now
    talk.fire("prompt", prompt="Read it first")
    talk.ask("Read it first")
    talk.edit("y.py", "two\n")
    talk.say("Read.")
    talk.stop()
    begun(talk, idle=3600)
    text = told(talk)
    assert text.index(TASK) < text.index("Read it first") and "The bug is in half()" in text and "x.py" in text
    assert len(autos(talk.repo, "main")) == 1, "it may be at work still: its end is its own"
    long_ago(talk)
    again = told(talk)
    assert "The bug is in half()" in again and "at work" not in again
    assert steps(autos(talk.repo, "main"))[1:] == [f"turn not ended: Read it first; last prompt: {TASK}"]
    assert "The bug is in half()" in told(talk), "and all readers know it now"
    assert len(autos(talk.repo, "main")) == 2 and log_of(talk.repo) == ""


def test_what_was_asked_is_told_before_the_client_has_written_it_down(talk: Talk) -> None:
    talk.fire("prompt", prompt=f"{TASK}\nand nothing else")
    text = told(talk)
    assert f"Newest request, 0 seconds ago: {TASK}" in text and "and nothing else" in text


@pytest.mark.deep
def test_a_turn_whose_prompt_no_hook_heard_to_its_end_is_named_by_the_record(talk: Talk) -> None:
    """A killed hook: that of the plugin has taken the event up, and that of the project leaves it to it."""
    talk.ask(TASK)
    talk.fire("prompt", prompt=TASK)
    talk.edit("a.txt", "1")
    talk.stop()
    talk.ask("and its tests")
    talk.edit("b.txt", "1")
    talk.stop()
    assert steps(autos(talk.repo, "main"))[-1] == f"turn ended: {TASK}; last prompt: and its tests"
    talk.say("nothing was asked since")
    talk.edit("c.txt", "1")
    talk.stop()
    assert steps(autos(talk.repo, "main"))[-1] == f"turn ended: {TASK}; last prompt: and its tests"
    talk.ask(f"{TASK}, all of it")
    talk.fire("prompt", prompt=f"{TASK}, all of it")
    talk.edit("d.txt", "1")
    talk.stop()
    assert steps(autos(talk.repo, "main"))[-1] == f"turn ended: {TASK}; last prompt: {TASK}, all of it"


def test_a_cleared_task_is_not_told_as_what_there_is_to_do(talk: Talk) -> None:
    begun(talk)
    assert TASK not in told(talk, source="clear")
    assert TASK not in talk.fire("start", source="clear"), "its own session"
    assert TASK not in told(talk), "and later neither"


@pytest.mark.deep
def test_a_session_that_is_resumed_is_told_its_own_turn(talk: Talk) -> None:
    begun(talk)
    talk.stop()
    begun(talk, "Now the tests of it")
    text = talk.fire("start", source="resume")
    assert "Now the tests of it" in text and "may still be at work" not in text and "cut in the midst of a turn" in text
    assert steps(autos(talk.repo, "main")) == [f"turn ended: {TASK}"], "its files are those of the next prompt"
    talk.fire("prompt", prompt="go on")
    cut = f"turn not ended: {TASK}; last prompt: Now the tests of it"
    assert steps(autos(talk.repo, "main")) == [f"turn ended: {TASK}", cut] and log_of(talk.repo) == ""
    talk.repo.write("y.py", "three\n")
    talk.fire("prompt", prompt="go on now")
    assert steps(autos(talk.repo, "main"))[2:] == [f"turn not ended: {TASK}; last prompt: go on"]


@pytest.mark.deep
def test_what_was_committed_since_a_cut_turn_is_drift(talk: Talk) -> None:
    begun(talk)
    talk.stop()
    begun(talk, "Now the tests of it")
    talk.repo.commit("mine", **{"y.py": "two\n"})
    text = talk.fire("start", source="resume")
    assert "cut in the midst of a turn" in text and "drift: head-ahead:1,files-changed:1\n" in text, text
    assert "Now the tests of it" in text and "head-ahead:1" in talk.repo.ok("resume", "--porcelain", "--live").out


def test_a_session_that_ended_is_not_told_as_cut(talk: Talk) -> None:
    begun(talk)
    talk.stop()
    talk.say("a late word of the client's own")
    text = told(talk)
    assert "may still be at work" in text and "in the midst" not in text
    talk.fire("end")
    assert "that session has ended" in told(talk) and "turn not ended" not in " ".join(steps(autos(talk.repo, "main")))


@pytest.mark.deep
def test_two_sessions_that_died_are_both_told_the_newest_first(talk: Talk, tmp_path: Path) -> None:
    begun(talk, "Mend the reader", idle=7200)
    other = Talk(talk.repo, tmp_path / "other.jsonl", session="5e551011-0000-4000-8000-000000000002")
    begun(other, "Mend the writer", idle=3600)
    long_ago(talk)
    long_ago(other)
    text = told(talk, "codex")
    assert text.index("Mend the writer") < text.index("Mend the reader")
    assert steps(autos(talk.repo, "main")) == ["turn not ended: Mend the reader", "turn not ended: Mend the writer"]
    again = told(talk)
    assert again.index("Mend the writer") < again.index("Mend the reader") and len(autos(talk.repo, "main")) == 2
    assert log_of(talk.repo) == ""


@pytest.mark.deep
@pytest.mark.parametrize("edits", [False, True])
def test_who_dies_after_one_that_died_hands_both_on(talk: Talk, tmp_path: Path, edits: bool) -> None:
    """Also where the first had only looked, so that no file tells of it."""
    talk.fire("prompt", prompt="Find the bug in the reader")
    talk.ask("Find the bug in the reader")
    talk.run("grep -n half x.py", "1: half")
    if edits:
        talk.edit("x.py", "two\n")
    other = Talk(talk.repo, tmp_path / "other.jsonl", session="5e551011-0000-4000-8000-000000000002")
    begun(other, "Mend the writer")
    assert steps(autos(talk.repo, "main"))[:1] == ["turn not ended: Find the bug in the reader"]
    text = told(talk)
    assert text.index("Mend the writer") < text.index("Find the bug in the reader") and log_of(talk.repo) == ""
    other.stop()
    assert "Find the bug in the reader" in told(talk), "and when the second had ended"


@pytest.mark.deep
def test_what_the_user_edits_later_is_not_the_dead_sessions(talk: Talk) -> None:
    """Its turn is recorded once, while it says nothing more."""
    begun(talk)
    mine = Client("claude", talk.repo.path, session="mine")
    mine.fire("start")
    mine.fire("prompt", prompt="one")
    talk.repo.write("y.py", "by the second\n")
    mine.fire("turn")
    talk.repo.write("y.py", "by hand\n")
    mine.fire("prompt", prompt="two")
    said = steps(autos(talk.repo, "main"))
    assert said == [f"turn not ended: {TASK}", "turn ended: one", "before a prompt (auto)"]


def test_what_ran_when_the_session_died_is_told(talk: Talk) -> None:
    begun(talk)
    note = "Command running in background with ID: b1"
    talk.call("Bash", {"command": "npm run watch", "run_in_background": True}, note)
    assert "npm run watch" in told(talk)


@pytest.mark.deep
@pytest.mark.parametrize("agent", ["codex", "gemini", "opencode", "copilot", "cursor"])
def test_a_session_that_died_is_told_in_every_client(talk: Talk, agent: str) -> None:
    begun(talk)
    text = told(talk, agent)
    assert TASK in text and "mend it" in text and "The bug is in half()" in text and log_of(talk.repo) == ""


@pytest.mark.deep
@pytest.mark.parametrize("word", ["observe=tests", deep("observe=all"), deep("transcripts=position")])
def test_a_test_that_runs_while_another_session_begins_has_its_result(talk: Talk, word: str) -> None:
    """Also where no words are kept, and so nothing of a command that goes on."""
    snap(talk.repo, "t", "S")
    talk.repo.git("config", *f"baton.{word}".split("="))
    talk.client.asked("test it", transcript_path=str(talk.path))
    talk.ask("test it")
    talk.record("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest -q tests"}}])
    Client("claude", talk.repo.path, session="another").fire("start", source="startup")
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "is_error": True,
        "content": "Exit code 1\n1 failed, 2 passed in 0.1s",
    }
    talk.record("user", [result])
    talk.repo.write("a.txt", "changed\n")
    talk.fire("turn")
    (run,) = json.loads(talk.repo.ok("show", "--json").out)["checkpoint"]["observed"]["tests"]
    assert (run["result"], run["failed"], log_of(talk.repo)) == ("failed", 1, "")


@pytest.mark.deep
def test_a_session_of_another_work_tree_is_not_told_here(talk: Talk, tmp_path: Path) -> None:
    place = tmp_path / "linked"
    talk.repo.git("worktree", "add", "-q", "-b", "side", str(place))
    theirs = Talk(Sandbox(place), tmp_path / "theirs.jsonl")
    begun(theirs)
    assert TASK not in told(talk)
    assert TASK in told(theirs, place=place) and not autos(talk.repo, "main")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.deep
@pytest.mark.parametrize("spoil", [Path.unlink, emptied, half, fifo, endless, folder])
@pytest.mark.parametrize("looked", [False, True], ids=["never looked at", "looked at"])
def test_whatever_became_of_the_records_the_task_is_told(talk: Talk, spoil: Callable[[Path], None], looked: bool) -> None:
    begun(talk)
    if looked:
        assert TASK in told(talk)
    spoil(talk.path)
    text = told(talk)
    assert TASK in text and log_of(talk.repo) == ""
    assert steps(autos(talk.repo, "main"))[0] == f"turn not ended: {TASK}"


@pytest.mark.deep
def test_a_session_that_died_with_fifty_megabytes_is_told_in_time(talk: Talk) -> None:
    talk.fire("prompt", prompt=TASK)
    talk.ask(TASK)
    talk.run("grep -rn word src", "x" * 5000)
    lines = talk.path.read_bytes().splitlines(keepends=True)
    with talk.path.open("ab") as file:
        for number in range(10_000):
            file.write(b"".join(lines[1:]).replace(b"toolu_", b"toolu_%d_" % number))
    talk.edit("x.py", "two\n")
    talk.say("The bug is in half(), and I mend it now.")
    begun_at = time.monotonic()
    text = Client("claude", talk.repo.path, session="other")
    done = text.send("SessionStart", text.payload("SessionStart"))
    assert time.monotonic() - begun_at < 8 and TASK in done.out and "The bug is in half()" in done.out


@pytest.mark.deep
@pytest.mark.parametrize("agent", ["claude", "codex", "copilot"])
def test_a_compactions_hook_has_the_time_that_its_client_gives_it(repo: Sandbox, tmp_path: Path, agent: str) -> None:
    """Nobody has to take its checkpoint late, where git alone takes longer than any other hook has."""
    snap(repo, "t", "S")
    repo.write("a.txt", "two\n")
    slow = tmp_path / "slow"
    slow.mkdir()
    body = f'case " $* " in *" write-tree "*) sleep {SECONDS + 1};; esac\nexec "{shutil.which("git")}" "$@"\n'
    (slow / "git").write_text("#!/bin/sh\n" + body)
    (slow / "git").chmod(0o755)
    client = Client(agent, repo.path)
    name = client.words["compact"]
    done = client.send(name, client.payload(name), env={"PATH": f"{slow}{os.pathsep}{os.environ['PATH']}"})
    assert done.code == 0 and steps(autos(repo, "t")) == ["before compaction (auto)"] and log_of(repo) == ""


@pytest.mark.deep
def test_of_a_turn_that_said_much_the_rest_is_stored_when_nobody_waits(talk: Talk) -> None:
    """The checkpoint has the position at once, and the conversation is read, redacted, from what was stored since."""
    talk.fire("prompt", prompt=TASK)
    talk.ask(TASK)
    talk.run("cat log", f"{KEY} " + "word " * 10_000)
    talk.edit("x.py", "two\n")
    found = talk.stop()["checkpoint"]["agent"]["transcript"]
    assert found.startswith(f"bytes={talk.path.stat().st_size} ") and "stored=" not in found
    ref = f"refs/baton/transcripts/claude/{talk.client.session}"
    assert wait_for(lambda: talk.repo.try_git("rev-parse", "-q", "--verify", ref).code == 0), log_of(talk.repo)
    assert wait_for(lambda: f'"bytes": {talk.path.stat().st_size},' in talk.repo.git("cat-file", "blob", f"{ref}:meta"))
    talk.path.unlink()  # the client's own
    said = talk.repo.ok("transcript", "show").out
    assert TASK in said and KEY not in said and log_of(talk.repo) == ""
    assert KEY not in talk.repo.run("git", "cat-file", "--batch-all-objects", "--batch").out
