"""What is told is of the turn and the session that it is of: hooks that are late, turns without a record, sessions before."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos, checkpoints
from tests.kit.talks import Talk
from tests.kit.tiers import some

OTHER = "5e551011-0000-4000-8000-000000000002"
PLAN = {"drop the users table": "in_progress", "write the changelog": "pending"}


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    repo.commit("first", **{"x.py": "one\n", ".gitignore": "local/\n"})
    repo.ok("snapshot", "--track", "t", "the old words")
    return Talk(repo, tmp_path / "talk.jsonl")


def another(talk: Talk, name: str = "other") -> Talk:
    """Another session of the same work tree, later."""
    return Talk(talk.repo, talk.path.with_name(f"{name}.jsonl"), session=OTHER)


def newest(repo: Sandbox) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the newest checkpoint of the only track observed, and what was said around it."""
    found = json.loads(repo.ok("resume", "--json").out)
    return found["checkpoint"].get("observed", {}), found.get("told", {})


def late(talk: Talk, words: str, at: float) -> None:
    """The end of a turn at a moment, whose checkpoint a process of its own takes now."""
    name = talk.client.words["turn"]
    payload = talk.client.payload(name, transcript_path=str(talk.path), last_assistant_message=words)
    env = {"GIT_BATON_LATE": "turn ended: Mend the parser", "GIT_BATON_CAME_AT": str(round(at * 1000))}
    assert talk.client.send(name, payload, env=env).code == 0


@pytest.mark.deep
def test_a_late_end_of_a_turn_takes_nothing_of_the_turn_after(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.say("The parser is mended.")
    ended = talk.now.timestamp()
    talk.now += timedelta(milliseconds=1)  # the next turn begins a moment later
    talk.ask("Now write the changelog")
    talk.edit("y.py", "new\n")
    talk.say("Let me look at the tags.")
    late(talk, "The parser is mended.", ended + 0.0005)
    _, told = newest(talk.repo)
    assert told["said"]["text"] == "The parser is mended."
    assert [one["text"] for one in told["texts"]] == ["Let me look at the tags."], "the turn after goes on"
    assert [one["text"] for one in told["actions"]] == ["edited y.py"]
    assert told["latest"]["text"] == "Now write the changelog"
    talk.say("The changelog is written.")
    talk.stop()
    rows = talk.repo.ok("log", "--no-fold").out
    assert "turn 1  Mend the parser" in rows and "turn 2  Now write the changelog" in rows, rows
    _, told = newest(talk.repo)
    assert told["said"]["text"] == "The changelog is written." and "texts" not in told


@pytest.mark.deep
def test_a_result_that_a_session_before_saw_says_more_than_one_that_nobody_knows(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.run("pytest -q", "2 passed in 0.01s")
    talk.stop()
    other = another(talk)
    other.ask("Look again")
    other.edit("x.py", "three\n")
    other.run("pytest -q | head -1", "..")
    other.stop()
    text = Client("claude", talk.repo.path, session="third").fire("start")
    assert "tests: pytest -q: passed (2 passed), " in text and " ago; stale: x.py changed since" in text, text
    other.ask("Once more")
    other.run("pytest -q | tail -1", "1 failed, 1 passed in 0.01s")
    other.stop()
    assert [run["result"] for run in newest(talk.repo)[0]["tests"]] == ["failed"]


@pytest.mark.deep
def test_a_prompt_that_a_hook_heard_before_it_was_on_record_is_one(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    client, path = Client("gemini", repo.path), tmp_path / "chat.jsonl"
    for number in range(2):
        at = datetime.now(UTC) + timedelta(seconds=0.4)
        prompt, words = f"Mend part {number} of the parser", [{"text": "It is mended."}]
        path.write_text(
            (path.read_text() if path.exists() else "") + json.dumps({"$set": {"lastUpdated": at.isoformat()}}) + "\n"
        )
        client.fire("prompt", prompt=prompt, transcript_path=str(path))
        repo.write("a.txt", f"{number} begun\n")
        client.fire("compact", transcript_path=str(path))
        records = [("user", [{"text": prompt}]), ("gemini", words)]
        with path.open("a") as file:
            for kind, content in records:
                record = {"id": f"{kind}{number}", "timestamp": at.isoformat(), "type": kind, "content": content}
                file.write(json.dumps(record) + "\n")
        repo.write("a.txt", f"{number} done\n")
        client.fire("turn", prompt=prompt, transcript_path=str(path))
    asked = [one["text"] for one in newest(repo)[1]["asked"]]
    assert asked == ["Mend part 0 of the parser", "Mend part 1 of the parser"]


def turns(client: Client, *said: tuple[str, str], path: str | None = None) -> None:
    """Turns that no transcript tells of: their prompts and last words are in the payloads alone; each changes ``work.txt``."""
    for prompt, words in said:
        client.fire("prompt", prompt=prompt, transcript_path=path)
        work = client.place / "work.txt"
        work.write_text((work.read_text() if work.exists() else "") + f"{prompt}\n")
        client.fire("turn", last_assistant_message=words, transcript_path=path)


@pytest.mark.deep
@some("gone", [None, "gone"])
def test_a_turn_without_a_transcript_has_its_own_prompt_and_words(talk: Talk, gone: str | None) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.say("The parser is mended.")
    talk.stop()
    talk.fire("end")
    client = Client("codex", talk.repo.path, session=OTHER)
    path = None if gone is None else str(talk.path.with_name("gone.jsonl"))
    turns(client, ("Write the changelog\nof 2.0", "It is written."), ("go on", "And spelled."), path=path)
    observed, told = newest(talk.repo)
    assert observed["turns"] == 2 and told["said"]["text"] == "And spelled."
    assert [(one["text"], one.get("earlier", False)) for one in told["asked"]] == [
        ("Mend the parser", True),
        ("Write the changelog\nof 2.0", False),
    ]
    assert told["latest"]["text"] == "go on" and told["latest"]["about"] == "It is written."
    why = talk.repo.ok("why", "work.txt:1").out
    assert "Write the changelog" in why and "It is written." in why and "parser" not in why
    assert "parser" not in talk.repo.ok("blame", "work.txt").out
    rows = [row for row in talk.repo.ok("log").out.splitlines() if "turn " in row]
    assert len(rows) == 3 and sum("parser" in row for row in rows) == 1


@pytest.mark.deep
def test_a_turn_that_only_goes_on_is_not_told_with_another_sessions_prompt(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.say("The parser is mended.")
    talk.stop()
    turns(Client("codex", talk.repo.path, session=OTHER), ("continue", "The lexer is mended, too."))
    _, told = newest(talk.repo)
    assert told["said"]["text"] == "The lexer is mended, too."
    for text in (talk.repo.ok("why", "work.txt:1").out, talk.repo.ok("log", "-n", "1").out):
        assert "continue" in text and "Mend the parser" not in text, text


def test_a_turn_that_only_said_something_keeps_its_words(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.say("The parser is mended.")
    talk.stop()
    talk.ask("go on")
    talk.say("What is left: the printer, but wait for Ann.")
    talk.stop()
    assert newest(talk.repo)[1]["said"]["text"] == "What is left: the printer, but wait for Ann."
    count = len(checkpoints(talk.repo, "t"))
    talk.fire("end")
    assert len(checkpoints(talk.repo, "t")) == count, "nothing was said or done since"


@pytest.mark.deep
def test_a_turn_that_only_looked_is_there_after_a_compaction(talk: Talk) -> None:
    talk.ask("Why does half() round down?")
    talk.stop()
    talk.ask("yes")
    talk.say("I look at the callers first.")
    talk.run("make check", "error: no rule", 2)
    count = len(checkpoints(talk.repo, "t"))
    talk.fire("compact")
    assert len(checkpoints(talk.repo, "t")) == count + 1
    _, told = newest(talk.repo)
    assert [one["text"] for one in told["texts"]] == ["I look at the callers first."]
    assert told["actions"][0]["text"] == "make check" and told["actions"][0]["status"] == 2
    assert told["error"]["command"] == "make check" and told["error"]["output"] == "error: no rule"
    talk.fire("compact")
    assert len(checkpoints(talk.repo, "t")) == count + 1, "nothing is new"


@pytest.mark.deep
def test_a_session_that_is_closed_in_the_midst_of_a_turn_keeps_the_turn(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.stop()
    talk.ask("and its tests")
    talk.say("I begin with the fixtures.")
    talk.run("make fixtures")
    talk.fire("end")
    _, told = newest(talk.repo)
    assert [one["text"] for one in told["texts"]] == ["I begin with the fixtures."] and told["latest"][
        "text"
    ] == "and its tests"


@pytest.mark.deep
def test_a_turn_that_an_error_cut_off_is_kept(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.stop()
    talk.ask("and its tests")
    talk.say("I begin with the fixtures.")
    talk.edit("fixtures.py", "new\n")
    payload = talk.client.payload("Stop", transcript_path=str(talk.path), last_assistant_message="API Error: overloaded")
    assert talk.client.send("StopFailure", {**payload, "hook_event_name": "StopFailure"}).code == 0
    _, told = newest(talk.repo)
    assert [one["text"] for one in told["texts"]] == ["I begin with the fixtures."]
    assert [one["text"] for one in told["actions"]] == ["edited fixtures.py"]


@pytest.mark.deep
def test_what_a_shell_changed_and_what_is_ignored_is_edited_too(talk: Talk) -> None:
    talk.ask("Generate the tables")
    talk.edit("x.py", "two\n")
    talk.edit("local/notes.txt", "mine\n")
    talk.run("python gen.py")
    talk.repo.write("tables.py", "made\n")
    os.utime(talk.repo.path / "tables.py", (talk.now.timestamp() + 1,) * 2)  # the clock of files is coarse
    talk.stop()
    observed, _ = newest(talk.repo)
    assert observed["edited"]["paths"] == ["tables.py", "local/notes.txt", "x.py"]
    talk.ask("and the index")
    talk.edit("index.py", "new\n")
    talk.stop()
    assert sorted(newest(talk.repo)[0]["edited"]["paths"]) == ["index.py", "local/notes.txt", "tables.py", "x.py"]


def test_what_a_shell_changed_before_the_first_checkpoint_is_edited(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    repo.write("mine.txt", "of the user, before\n")
    (repo.path / ".git/baton").mkdir()
    old = time.time() - 3600
    os.utime(repo.path / "mine.txt", (old, old))
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("Generate the tables")
    talk.run("python gen.py")
    repo.write("tables.py", "made\n")
    talk.fire("turn", last_assistant_message=None)
    observed, _ = newest(repo)
    assert observed["edited"]["paths"] == ["tables.py"]


def test_what_another_session_at_work_writes_is_not_this_ones(talk: Talk) -> None:
    other = another(talk)
    other.fire("prompt", prompt="Generate the tables")
    other.ask("Generate the tables")
    talk.ask("Mend the parser")
    other.run("python gen.py")
    talk.repo.write("tables.py", "made\n")
    talk.edit("x.py", "two\n")
    talk.stop()
    assert newest(talk.repo)[0]["edited"]["paths"] == ["x.py"]


def test_what_an_older_version_left_is_made_anew(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.edit("x.py", "two\n")
    talk.stop()
    (left,) = (talk.repo.path / ".git/baton/sessions").glob("*.facts")
    assert json.loads(left.read_text())["v"] == 4
    left.write_text(json.dumps({**json.loads(left.read_text()), "v": 1, "facts": {"plan": None, "asked": []}}))
    talk.edit("y.py", "new\n")
    talk.stop()
    observed, told = newest(talk.repo)
    assert [one["text"] for one in told["asked"]] == ["Mend the parser"] and observed["turns"] == 1
    assert set(observed["edited"]["paths"]) == {"x.py", "y.py"} and json.loads(left.read_text())["v"] == 4


@pytest.mark.deep
def test_a_move_of_head_brings_no_edits(talk: Talk) -> None:
    talk.repo.git("checkout", "-q", "-b", "other")
    talk.repo.commit("many", **{f"m{n}.txt": "x\n" for n in range(30)})
    talk.repo.git("checkout", "-q", "-")
    talk.ask("Look at the other branch")
    talk.run("git checkout other")
    talk.repo.git("checkout", "-q", "other")
    talk.stop()
    assert "edited" not in newest(talk.repo)[0]


@pytest.mark.deep
def test_what_an_earlier_session_was_asked_and_planned_is_marked_and_goes(talk: Talk) -> None:
    talk.ask("Rewrite the auth")
    talk.plan(**PLAN)
    talk.edit("x.py", "two\n")
    talk.say("Shelved for now.")
    talk.stop()
    other = another(talk)
    other.ask("Fix a typo")
    other.edit("README", "typo\n")
    other.stop()
    observed, told = newest(talk.repo)
    assert [plan["session"] for plan in observed["plans"]] == [talk.client.session], "no words came after it"
    assert [(one["text"], one.get("earlier")) for one in observed["asked"]] == [
        ("Rewrite the auth", True),
        ("Fix a typo", None),
    ]
    assert told["said"]["text"] == "Shelved for now." and told["said"]["earlier"]
    talk.repo.ok("snapshot", "--track", "t", "auth is shelved")
    other.edit("README", "typo 2\n")
    other.stop()
    observed, told = newest(talk.repo)
    assert "plans" not in observed and [one["text"] for one in told["asked"]] == ["Rewrite the auth", "Fix a typo"]
    talk.repo.ok("snapshot", "--track", "t", "typo fixed", "--label", "v1")
    other.ask("and the other one")
    other.edit("README", "typo 3\n")
    other.stop()
    assert [one["text"] for one in newest(talk.repo)[1]["asked"]] == ["and the other one"]


@pytest.mark.deep
def test_the_newest_request_is_not_cut_for_an_older_one(talk: Talk) -> None:
    old = "Build the wizard." + "".join(f" Old requirement {n}: page {n} must do it." for n in range(60))
    new = "Migrate billing." + "".join(f" Rule {n}: never touch table {n}." for n in range(40)) + " DO NOT call the live API."
    talk.ask(old)
    talk.edit("x.py", "two\n")
    talk.stop()
    other = another(talk)
    other.ask(new)
    other.edit("b.py", "new\n")
    other.ask("Also mind the docs")
    other.say("I do.")
    other.fire("compact")
    asked = {one["text"][:12]: one["text"] for one in newest(talk.repo)[1]["asked"]}
    assert asked["Migrate bill"] == new and len(asked["Build the wi"]) <= 510


@pytest.mark.deep
def test_a_command_of_the_users_own_is_a_request(talk: Talk) -> None:
    """Also one without words, and not what its skill says, nor a command of the client's."""
    talk.ask("Mend the parser")
    talk.say("The parser is mended.")
    talk.stop()
    talk.record("user", "<command-message>dates</command-message>\n<command-name>/dates</command-name>")
    talk.record("user", [{"type": "text", "text": "Base directory for this skill: /x\nMend all dates."}], isMeta=True)
    talk.edit("x.py", "two\n")
    talk.stop()
    talk.record("user", "<command-name>/cost</command-name>\n<command-message>cost</command-message>")
    talk.fire("compact")
    observed, told = newest(talk.repo)
    assert [one["text"] for one in told["asked"]] == ["Mend the parser", "/dates"] and told["latest"]["text"] == "/dates"
    assert observed["turns"] == 2 and "turn 2  /dates" in talk.repo.ok("log", "--no-fold").out


def test_files_that_were_read_and_a_command_are_told_from_the_work_tree(talk: Talk) -> None:
    talk.ask("Mend the parser")
    talk.run(f"cd {talk.repo.path} && make check {talk.repo.path}/x.py", "error", 2)
    talk.edit("x.py", "two\n")
    talk.fire("compact")
    _, told = newest(talk.repo)
    assert [one["text"] for one in told["actions"]] == ["make check x.py", "edited x.py"]
    assert told["error"]["command"] == "make check x.py"
    assert not [one for one in autos(talk.repo, "t") if "/x.py" in json.dumps(one["observed"])]


def test_commits_that_were_there_at_the_first_request_are_not_since_then(repo: Sandbox, tmp_path: Path) -> None:
    """Git's times are of whole seconds, and a clock may have been ahead."""
    later = f"{datetime.now(UTC) + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    repo.git("commit", "-q", "--allow-empty", "-m", "OLDER", env={"GIT_COMMITTER_DATE": later})
    (repo.path / ".git" / "baton").mkdir()
    talk = Talk(repo, tmp_path / "talk.jsonl")
    for number in (1, 2):
        talk.ask(f"make m {number}")
        talk.fire("prompt", prompt=f"make m {number}")
        talk.edit("m.py", f"{number}\n")
        repo.git("add", "m.py")
        repo.git("commit", "-q", "-m", f"MADE {number}", env={"GIT_COMMITTER_DATE": later})
        talk.fire("turn")
        told = another(talk, f"next{number}").fire("start", source="startup")
        assert "OLDER" not in told
        assert "commits since: " in told and f"MADE {number}" in told and "MADE 1" in told
