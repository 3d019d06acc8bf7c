"""What the user took back is not told, shown, planned or tested: only the branch that leads to the last record counts."""

from __future__ import annotations

import itertools
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, log_of
from tests.kit.talks import Talk
from tests.kit.tiers import full, some

LOOKS = ("each turn", "in the end")


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "the old words")
    return Talk(repo, tmp_path / "talk.jsonl")


def file_of(name: str) -> str:
    """The file that a turn writes; what tests saw of it is a fact of the work tree, whoever took the turn back."""
    return f"{name.replace('gone', 'file')}.py"


def prompt(name: str) -> str:
    """A prompt unlike every other: of two that are nearly the same the later counts."""
    return f"{name}: {' '.join(f'{name}-{part}' for part in 'abcde')}"


def turn(talk: Talk, name: str) -> str | None:
    """A whole turn of which each part bears a name; the record before it."""
    talk.client.asked(prompt(name), transcript_path=str(talk.path))
    before = talk.ask(prompt(name))
    talk.plan(**{f"{name} item": "in_progress"})
    talk.edit(file_of(name), "x\n")
    talk.run(f"pytest -q {name}", "1 passed in 0.1s")
    talk.say(f"{name} is done.\n- one\n- two\n- three")
    return before


def back(talk: Talk, to: str | None) -> None:
    """The user takes back what came after a record, with its files."""
    talk.back(to)
    remove(talk.repo)


def remove(repo: Sandbox) -> None:
    for path in repo.path.glob("file*.py"):
        path.unlink()


def mid(talk: Talk) -> Iterator[None]:
    turn(talk, "kept1")
    yield
    before = turn(talk, "gone1")
    yield
    back(talk, before)
    turn(talk, "kept2")
    yield


def two_turns_at_once(talk: Talk) -> Iterator[None]:
    turn(talk, "kept1")
    yield
    before = turn(talk, "gone1")
    yield
    turn(talk, "gone2")
    yield
    back(talk, before)
    turn(talk, "kept2")
    yield


def twice(talk: Talk) -> Iterator[None]:
    turn(talk, "kept1")
    before = turn(talk, "gone1")
    yield
    back(talk, before)
    turn(talk, "gone2")
    yield
    back(talk, before)
    turn(talk, "kept2")
    yield


def first(talk: Talk) -> Iterator[None]:
    turn(talk, "gone1")
    yield
    back(talk, None)
    turn(talk, "kept2")
    yield


def after_a_compaction(talk: Talk) -> Iterator[None]:
    turn(talk, "kept1")
    yield
    talk.compacted()
    before = turn(talk, "gone1")
    yield
    back(talk, before)
    turn(talk, "kept2")
    yield


def before_a_compaction(talk: Talk) -> Iterator[None]:
    turn(talk, "kept1")
    before = turn(talk, "gone1")
    yield
    talk.compacted()
    turn(talk, "gone2")
    yield
    back(talk, before)
    turn(talk, "kept2")
    yield


def compacted_afterwards(talk: Talk) -> Iterator[None]:
    turn(talk, "kept1")
    yield
    before = turn(talk, "gone1")
    yield
    back(talk, before)
    talk.compacted()
    turn(talk, "kept2")
    yield


def without_a_look_between(talk: Talk) -> Iterator[None]:
    turn(talk, "kept1")
    yield
    before = turn(talk, "gone1")
    back(talk, before)
    turn(talk, "kept2")
    yield


STORIES = [mid, first, twice, two_turns_at_once, after_a_compaction, before_a_compaction]
STORIES += [compacted_afterwards, without_a_look_between]


def shown(repo: Sandbox) -> str:
    """All that is said of the newest checkpoint, to a model and to people."""
    told = Client("claude", repo.path, session="5e551011-0000-4000-8000-00000000000f").fire("start")
    return told + repo.ok("resume", "--json").out + repo.ok("show", "--json").out + repo.ok("transcript", "show").out


def judged(repo: Sandbox) -> None:
    text = shown(repo)
    gone = sorted({word for word in ("gone1", "gone2") if word in text})
    assert not gone, f"{gone} in {text}"
    found = json.loads(repo.ok("resume", "--json").out)
    observed, told = found["checkpoint"]["observed"], found["told"]
    assert [one["text"].partition(":")[0] for one in observed["asked"]][-1] == "kept2" and "kept2" in told["said"]["text"]
    assert [item["text"] for plan in observed["plans"] for item in plan["items"]] == ["kept2 item"]
    assert observed["edited"]["paths"][0] == "kept2.py" and not [p for p in observed["edited"]["paths"] if "file" in p]
    assert observed["tests"][0]["command"] == "pytest -q kept2"
    assert prompt("kept2") in text and not log_of(repo)


@some("story", STORIES, 1, ids=[story.__name__ for story in STORIES])
@pytest.mark.parametrize("looks", ["each turn", full("in the end")])
def test_what_claudes_user_took_back_is_told_nowhere(talk: Talk, story: Callable[[Talk], Iterator[None]], looks: str) -> None:
    for _ in story(talk):
        if looks == "each turn":
            talk.fire("turn", last_assistant_message=None)
    talk.fire("turn", last_assistant_message=None)
    judged(talk.repo)
    assert ("kept1" in shown(talk.repo)) == (story is not first)


@pytest.mark.deep
def test_the_same_prompt_again_counts_once(talk: Talk) -> None:
    before = turn(talk, "kept2")
    talk.fire("turn", last_assistant_message=None)
    back(talk, before)
    turn(talk, "kept2")
    talk.fire("turn", last_assistant_message=None)
    found = json.loads(talk.repo.ok("resume", "--json").out)["checkpoint"]["observed"]
    assert [one["text"] for one in found["asked"]] == [prompt("kept2")] and found["turns"] == 1


@pytest.mark.deep
def test_what_an_image_alone_asked_for_is_taken_back_too(talk: Talk) -> None:
    turn(talk, "kept1")
    before = talk.ask("[Image #1]")
    talk.run("pytest -q gone1", "1 passed in 0.1s")
    back(talk, before)
    turn(talk, "kept2")
    talk.fire("turn", last_assistant_message=None)
    judged(talk.repo)
    assert "kept1" in shown(talk.repo) and "gone1" not in shown(talk.repo)


def test_calls_that_ran_at_once_all_count(talk: Talk) -> None:
    talk.ask("kept: run both")
    talk.record("assistant", [{"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "pytest -q a"}}])
    first = talk.last
    talk.record("assistant", [{"type": "tool_use", "id": "b", "name": "Bash", "input": {"command": "pytest -q b"}}])
    second = talk.last
    for key, call in (("a", first), ("b", second)):  # each result hangs on its own call
        result = {"type": "tool_result", "tool_use_id": key, "content": "1 passed in 0.1s"}
        talk.record("user", [result], toolUseResult={"stdout": "1 passed in 0.1s"}, parentUuid=call)
    talk.say("both are green")
    talk.fire("turn", last_assistant_message=None)
    found = json.loads(talk.repo.ok("resume", "--json").out)["checkpoint"]["observed"]
    assert sorted(run["command"] for run in found["tests"]) == ["pytest -q a", "pytest -q b"]


@pytest.mark.deep
def test_a_session_that_goes_on_in_its_file_keeps_what_it_has(talk: Talk) -> None:
    turn(talk, "kept1")
    talk.fire("turn", last_assistant_message=None)
    talk.fire("end")
    talk.fire("start", source="resume")
    turn(talk, "kept2")
    talk.fire("turn", last_assistant_message=None)
    judged(talk.repo)
    assert "kept1" in shown(talk.repo)


@pytest.mark.deep
def test_a_forked_session_tells_what_its_copy_holds(talk: Talk, tmp_path: Path) -> None:
    """The records before the fork stand in the new file, too; what the first session did afterwards is not of its branch."""
    turn(talk, "kept1")
    talk.fire("turn", last_assistant_message=None)
    copied, last = talk.path.read_bytes(), talk.last
    fork = Talk(talk.repo, tmp_path / "fork.jsonl", session="5e551011-0000-4000-8000-000000000002")
    fork.path.write_bytes(copied)
    fork.last, fork.ids, fork.now = last, itertools.count(1000), talk.now
    turn(fork, "kept2")
    fork.fire("turn", last_assistant_message=None)
    found = json.loads(talk.repo.ok("resume", "--json").out)
    assert [one["text"] for one in found["checkpoint"]["observed"]["asked"]] == [prompt("kept1"), prompt("kept2")]
    assert found["checkpoint"]["observed"]["turns"] == 2


class Rollout:
    """A session of Codex, whose rollout is written as things happen."""

    def __init__(self, repo: Sandbox, path: Path) -> None:
        self.repo, self.path, self.client, self.ids = repo, path, Client("codex", repo.path), 0
        self.now = datetime.now(UTC)
        self.event("session_meta", {"id": self.client.session})

    def event(self, kind: str, payload: dict[str, Any]) -> None:
        self.now = max(self.now + timedelta(milliseconds=1), datetime.now(UTC))
        at = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        with self.path.open("a") as file:
            file.write(json.dumps({"timestamp": at, "type": kind, "payload": payload}) + "\n")

    def item(self, kind: str, **fields: Any) -> None:
        self.ids += 1
        self.event("event_msg", {"type": "item_completed", "item": {"type": kind, "id": f"i{self.ids}", **fields}})

    def said(self, role: str, text: str) -> None:
        words = [{"type": "text", "text": text}]
        self.event("response_item", {"type": "message", "role": role, "content": words})
        self.item("UserMessage" if role == "user" else "AgentMessage", content=words)

    def turn(self, name: str) -> None:
        self.said("user", prompt(name))
        plan = json.dumps({"plan": [{"step": f"{name} item", "status": "in_progress"}]})
        self.event(
            "response_item", {"type": "function_call", "name": "update_plan", "arguments": plan, "call_id": f"c{self.ids}"}
        )
        self.repo.write(file_of(name), "x\n")
        self.item("FileChange", changes={str(self.repo.path / file_of(name)): {"type": "add"}}, status="completed")
        command = ["bash", "-lc", f"pytest -q {name}"]
        done = {"status": "completed", "exit_code": 0, "aggregated_output": "1 passed in 0.1s"}
        self.item("CommandExecution", command=command, **done)
        self.said("assistant", f"{name} is done.")

    def back(self, turns: int) -> None:
        self.event("event_msg", {"type": "thread_rolled_back", "num_turns": turns})

    def stop(self) -> None:
        self.client.fire("turn", transcript_path=str(self.path), last_assistant_message=None)


@pytest.mark.parametrize("looks", ["each turn", pytest.param("in the end", marks=pytest.mark.deep)])
@pytest.mark.parametrize("turns", [1, pytest.param(2, marks=pytest.mark.deep)])
def test_turns_that_codex_rolled_back_are_told_nowhere(repo: Sandbox, tmp_path: Path, looks: str, turns: int) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    talk = Rollout(repo, tmp_path / "rollout.jsonl")
    for name in ("kept1", *(f"gone{n}" for n in range(1, turns + 1))):
        talk.turn(name)
        if looks == "each turn":
            talk.stop()
    talk.back(turns)
    remove(repo)
    talk.turn("kept2")
    talk.stop()
    judged(repo)
    assert "kept1" in shown(repo)


@pytest.mark.deep
def test_a_prompt_that_was_taken_back_last_is_not_told_from_its_hook(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    talk = Rollout(repo, tmp_path / "rollout.jsonl")
    talk.turn("kept1")
    early = (talk.now - timedelta(minutes=2)).strftime("%Y-%m-%dT%H:%M")
    talk.path.write_text(re.sub(r'(?<="timestamp": ")\d{4}-\d\d-\d\dT\d\d:\d\d', early, talk.path.read_text()))
    talk.stop()
    talk.client.fire("prompt", prompt=prompt("gone1"), transcript_path=str(talk.path))
    talk.turn("gone1")
    talk.stop()
    talk.back(1)
    talk.client.fire("compact", transcript_path=str(talk.path))
    told = json.loads(repo.ok("resume", "--json").out)["told"]
    assert told["latest"]["text"] == prompt("kept1") and [one["text"] for one in told["asked"]] == [prompt("kept1")]


def started(repo: Sandbox, home: Path = Path()) -> str:
    """What a new session is told."""
    return Client("claude", repo.path, session="5e551011-0000-4000-8000-00000000000f", home=home).fire("start")


def night(talk: Talk | Rollout) -> None:
    """What the session left is an hour old."""
    then = time.time() - 3600
    for path in (*(talk.repo.path / ".git/baton/sessions").iterdir(), talk.path):
        os.utime(path, (then, then))


@pytest.mark.deep
@some("typed", [False, True], ids=["nothing typed since", "and typed something"])
def test_what_claudes_user_took_back_last_is_not_told_though_no_hook_came_since(talk: Talk, typed: bool) -> None:
    turn(talk, "kept1")
    talk.fire("turn", last_assistant_message="kept1 is done.\n- one\n- two\n- three")
    before = turn(talk, "gone1")
    talk.fire("turn", last_assistant_message="gone1 is done.\n- one\n- two\n- three")
    back(talk, before)
    if typed:
        talk.ask(prompt("kept2"))
    else:
        talk.record("system", "rewound", subtype="rewind", isMeta=True)
        talk.say("kept1 goes on.")
    text = started(talk.repo)
    assert "gone1" not in text and prompt("kept2" if typed else "kept1") in text, text
    night(talk)
    assert "gone1" not in started(talk.repo)
    text = shown(talk.repo)
    assert "gone1" not in text and prompt("kept2" if typed else "kept1") in text and not log_of(talk.repo), text


@pytest.mark.deep
@some("typed", [False, True], ids=["nothing typed since", "and typed something"])
def test_what_codex_rolled_back_last_is_not_told_though_no_hook_came_since(repo: Sandbox, tmp_path: Path, typed: bool) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    talk = Rollout(repo, tmp_path / "rollout.jsonl")
    for name in ("kept1", "gone1"):
        talk.client.asked(prompt(name), transcript_path=str(talk.path))
        talk.turn(name)
        talk.client.fire("turn", transcript_path=str(talk.path), last_assistant_message=f"{name} is done.")
    talk.back(1)
    remove(repo)
    if typed:
        talk.said("user", prompt("kept2"))
    text = started(repo)
    assert "gone1" not in text and prompt("kept2" if typed else "kept1") in text, text
    night(talk)
    assert "gone1" not in started(repo)
    text = shown(repo)
    assert "gone1" not in text and prompt("kept2" if typed else "kept1") in text and not log_of(repo), text


@pytest.mark.deep
@pytest.mark.parametrize("turns", [1, 2])
def test_who_rolls_back_and_leaves_hands_that_on(repo: Sandbox, tmp_path: Path, turns: int) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    talk = Rollout(repo, tmp_path / "rollout.jsonl")
    for name in ("kept2", *(f"gone{n}" for n in range(1, turns + 1))):
        talk.client.asked(prompt(name), transcript_path=str(talk.path))
        talk.turn(name)
        talk.stop()
    talk.back(turns)
    remove(repo)
    talk.client.fire("end", transcript_path=str(talk.path))
    judged(repo)
    assert "kept2" in shown(repo) and "gone1" not in shown(repo)


@pytest.mark.deep
@pytest.mark.parametrize("agent", ["gemini", "copilot"])
@pytest.mark.parametrize("looks", LOOKS)
def test_what_gemini_and_copilot_took_back_is_told_nowhere(repo: Sandbox, tmp_path: Path, looks: str, agent: str) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    client, path = Client(agent, repo.path), tmp_path / "talk.jsonl"
    field = "transcriptPath" if agent == "copilot" else "transcript_path"

    def write(record: dict[str, Any]) -> None:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        with path.open("a") as file:
            file.write(json.dumps({"timestamp": at, **record}) + "\n")

    for name in ("kept1", "gone1", "gone2", "kept2"):
        ask, answer = prompt(name), f"{name} is done."
        if agent == "gemini":
            write({"id": f"{name}-u", "type": "user", "content": [{"text": ask}]})
            write({"id": f"{name}-a", "type": "gemini", "content": answer})
        else:
            write({"id": f"{name}-u", "type": "user.message", "data": {"content": ask}})
            write({"id": f"{name}-a", "type": "assistant.message", "data": {"content": answer}})
        if looks == "each turn" or name == "kept2":
            client.fire("turn", **{field: str(path)})
        if name == "gone2":
            back = {"type": "session.snapshot_rewind", "data": {"upToEventId": "gone1-u", "eventsRemoved": 4}}
            write({"$rewindTo": "gone1-u"} if agent == "gemini" else back)
    text = shown(repo)
    assert "gone1" not in text and "gone2" not in text, text
    assert "kept1" in text and "kept2 is done." in text
    write(
        {"$rewindTo": "kept2-u"}
        if agent == "gemini"
        else {"type": "session.snapshot_rewind", "data": {"upToEventId": "kept2-u", "eventsRemoved": 2}}
    )
    text = started(repo)
    assert "kept2" not in text and prompt("kept1") in text and not log_of(repo), "no hook came since"


@pytest.mark.deep
def test_what_opencode_deleted_is_told_nowhere(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    client = Client("opencode", repo.path, home=tmp_path / "home")
    folder = client.home / ".local/share/opencode"
    folder.mkdir(parents=True)
    clock = itertools.count(int(datetime.now(UTC).timestamp() * 1000) - 10_000, 10)

    def run(sql: str, *values: object) -> None:
        with closing(sqlite3.connect(folder / "opencode.db")) as database, database:
            database.execute(sql, values)

    run("CREATE TABLE message (id, session_id, time_created, time_updated, data)")
    run("CREATE TABLE part (id, message_id, session_id, time_created, time_updated, data)")
    run("CREATE TABLE todo (session_id, content, status, priority, position, time_created, time_updated)")
    for name in ("kept1", "gone1", "gone2", "kept2"):
        if name == "kept2":
            run("DELETE FROM part WHERE message_id LIKE 'gone%'")
            run("DELETE FROM message WHERE id LIKE 'gone%'")
        for role, text in (("user", prompt(name)), ("assistant", f"{name} is done.")):
            at, key = next(clock), f"{name}-{role}"
            run("INSERT INTO message VALUES (?,?,?,?,?)", key, client.session, at, at, json.dumps({"role": role}))
            part = json.dumps({"type": "text", "text": text})
            run("INSERT INTO part VALUES (?,?,?,?,?,?)", key, key, client.session, at, at, part)
        client.fire("turn")
    text = client.fire("start") + repo.ok("resume", "--json").out
    assert "gone1" not in text and "gone2" not in text, text
    assert prompt("kept1") in text and "kept2 is done." in text
    run("DELETE FROM part WHERE message_id LIKE 'kept2%'")
    run("DELETE FROM message WHERE id LIKE 'kept2%'")
    assert "kept2 is done." in started(repo), "a database that is not there says nothing"
    text = started(repo, client.home)
    assert "kept2" not in text and prompt("kept1") in text and not log_of(repo), "no hook came since"
