"""What real clients recorded, through the real hook: a checkpoint holds the plan, the tests, the edits, the last words."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, injected
from tests.kit.places import DATA
from tests.kit.talks import Talk
from tests.kit.tiers import some

END = {"PLAN-A read the header": "done", "PLAN-B fix the rounding bug": "done", "PLAN-C write the changelog": "doing"}
END["PLAN-D tag the release"] = "open"
TRANSCRIPTS = {
    "claude": "transcript.tasks.jsonl",
    "codex": "rollout.codemode.jsonl",
    "gemini": "chat.todos-and-compression.jsonl",
    "copilot": "events.todos.jsonl",
    "qwen": "chat.todos.jsonl",
}  # droid's models are offered no list: its own tests have its session
SESSIONS = {"opencode": "ses_dfc7c0303ffeuGt4cdcV03jBJ7", "kilo": "ses_dd7e04a4effebfTR9ll4C8BFx3"}


def rows(agent: str, name: str, repo: Sandbox) -> list[dict[str, Any]]:
    text = (DATA / "plans" / agent / name).read_text().replace("/repo", str(repo.path))
    return [json.loads(line) for line in text.splitlines()]


def laid_out(agent: str, repo: Sandbox, client: Client) -> dict[str, str]:
    """The recorded session where the client would keep it; what its payload says of that."""
    home = client.home
    if agent in TRANSCRIPTS:
        folder = home / "session"
        folder.mkdir()
        path = folder / "talk.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows(agent, TRANSCRIPTS[agent], repo)))
        if agent == "copilot":
            with closing(sqlite3.connect(folder / "session.db")) as database, database:
                database.execute(
                    "CREATE TABLE todos (id TEXT, title TEXT, description TEXT, status TEXT, created_at, updated_at)"
                )
                for row in rows(agent, "session-db-todos.jsonl", repo):
                    database.execute("INSERT INTO todos VALUES (?,?,?,?,?,?)", tuple(row.values()))
        return {"transcriptPath" if agent == "copilot" else "transcript_path": str(path)}
    folder = home / f".local/share/{agent}"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / f"{agent}.db")) as database, database:
        database.execute("CREATE TABLE message (id, session_id, time_created, time_updated, data)")
        database.execute("CREATE TABLE part (id, message_id, session_id, time_created, time_updated, data)")
        database.execute("CREATE TABLE todo (session_id, content, status, priority, position, time_created, time_updated)")
        messages: dict[str, str] = {}
        for row in rows(agent, "db-rows.jsonl", repo):
            if row["table"] == "todo":
                database.execute("INSERT INTO todo VALUES (?,?,?,?,?,?,?)", tuple(row.values())[1:])
            elif row["session_id"] == client.session:
                said = row["data"].get("type") == "text" and row["data"]["text"].startswith('"')
                messages.setdefault(row["message_id"], row.get("message", {}).get("role", "user" if said else "assistant"))
                at = row["time_created"]
                part = (row["id"], row["message_id"], row["session_id"], at, at, json.dumps(row["data"]))
                database.execute("INSERT INTO part VALUES (?,?,?,?,?,?)", part)
        for name, role in messages.items():
            kept = json.dumps({"role": role, "agent": "build"})
            database.execute("INSERT INTO message VALUES (?,?,?,?,?)", (name, client.session, 0, 0, kept))
    return {}


@some("agent", [*TRANSCRIPTS, *SESSIONS])
def test_a_recorded_session_is_what_the_next_one_is_told(repo: Sandbox, tmp_path: Path, agent: str) -> None:
    repo.commit("first", **{"src/x.py": "def half(n):\n    return n / 2\n"})
    session = SESSIONS.get(agent, "5e551011-0000-4000-8000-000000000001")
    client = Client(agent, repo.path, session=session, home=tmp_path / "home")
    repo.ok("snapshot", "--track", "t", "words")
    client.fire("turn", **{"last_assistant_message": None, "prompt_response": None, **laid_out(agent, repo, client)})
    found = json.loads(repo.ok("show", "--json").out)["checkpoint"]["observed"]
    (plan,) = found["plans"]
    assert {item["text"]: item["state"] for item in plan["items"]} == END and plan["agent"] == agent
    (run,) = found["tests"]
    assert (run["command"], run["result"], run["passed"]) == ("pytest -q", "passed", 3)
    assert found["edited"]["paths"] == ["src/x.py"]
    assert [one["text"].strip('"') for one in found["asked"]] == ["Do the release of half()"]
    told = json.loads(repo.ok("resume", "--json").out)["told"]
    assert told["said"]["text"] == "LAST-WORDS-2: second turn, nothing to change."
    assert [(ran["command"], ran["status"]) for ran in told["commands"]][-3:] == [
        ("sh -c 'exit 3'", 3),
        ("pytest -q", 1),
        ("pytest -q", 0),
    ]
    for other in ("claude", "gemini"):
        text = Client(other, repo.path, session="5e551011-0000-4000-8000-00000000000f").fire("start")
        assert "doing: PLAN-C write the changelog" in text and "open: PLAN-D tag the release" in text
        assert "pytest -q: passed (3 passed)" in text and "LAST-WORDS-2" in text


@pytest.mark.deep
def test_a_plan_has_no_items_that_only_a_subagent_named(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", **{"src/x.py": "def half(n):\n    return n / 2\n"})
    client = Client("copilot", repo.path, home=tmp_path / "home")
    where = laid_out("copilot", repo, client)
    repo.ok("snapshot", "--track", "t", "words")
    at = "2026-11-22 13:54:07"
    made = ("subplan-x-look-around", "SUBPLAN-X look around", "In full", "in_progress", at, at)
    query = f"INSERT INTO todos (id, title) VALUES ('{made[0]}', '{made[1]}');"
    query += " UPDATE todos SET status='done' WHERE id='plan-a-read-the-header'"  # the session's own
    call = {"toolCallId": "c", "toolName": "sql", "arguments": {"query": query}, "parentToolCallId": "p"}
    record = {"type": "tool.execution_start", "data": call, "id": "e", "timestamp": "2026-11-22T13:54:07.000Z", "agentId": "7f"}
    with open(where["transcriptPath"], "a") as file:
        file.write(json.dumps(record) + "\n")
    with closing(sqlite3.connect(Path(where["transcriptPath"]).with_name("session.db"))) as database, database:
        database.execute("INSERT INTO todos VALUES (?,?,?,?,?,?)", made)
    for text in ("three\n", "four\n"):  # read anew, and read on
        repo.write("src/x.py", text)
        client.fire("turn", **where)
        (plan,) = json.loads(repo.ok("show", "--json").out)["checkpoint"]["observed"]["plans"]
        assert {item["text"]: item["state"] for item in plan["items"]} == END


@pytest.mark.deep
def test_a_subagents_own_file_is_not_read(repo: Sandbox, tmp_path: Path) -> None:
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.path.write_text("".join(json.dumps(row) + "\n" for row in rows("claude", "transcript.subagent.jsonl", repo)))
    repo.write("a.txt", "one\n")
    repo.ok("snapshot", "--track", "t", "words")
    repo.write("a.txt", "two\n")
    assert "plans" not in talk.stop()["checkpoint"].get("observed", {})


@pytest.mark.deep
@pytest.mark.parametrize("size", [2 << 20, 200 << 20], ids=["2MB", "200MB"])
def test_a_long_conversation_is_read_from_its_end_and_says_so(repo: Sandbox, tmp_path: Path, size: int) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "words")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("the task that stands at the beginning")
    noise = json.dumps({"type": "attachment", "attachment": {"type": "prompt_snapshot", "content": "x" * 100_000}}) + "\n"
    with talk.path.open("a") as file:
        for _ in range(size // len(noise)):
            file.write(noise)
        file.write('{"type":"user","huge":"' + "y" * (10 << 20) + '"}\n')
    talk.run("pytest -q", "3 passed in 0.10s")
    talk.edit("x.py", "two\n")
    with talk.path.open("a") as file:
        file.write('{"type":"assistant","message":{"content":[{"type":"text","te')  # half a line
    found = talk.stop()["checkpoint"]["observed"]
    assert found["tests"][0]["result"] == "passed" and found["edited"]["paths"] == ["x.py"]
    assert found["asked"][0]["text"] == "the task that stands at the beginning"
    if size > 32 << 20:
        assert found["partial"] is True
        text = Client("claude", repo.path, session="5e551011-0000-4000-8000-00000000000f").fire("start")
        assert "The beginning of a long conversation was not read." in text


@pytest.mark.deep
def test_the_clients_files_are_only_read(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "words")
    client = Client("copilot", repo.path, home=tmp_path / "home")
    path = laid_out("copilot", repo, client)["transcriptPath"]
    database = Path(path).with_name("session.db")
    before = [(one.read_bytes(), os.stat(one).st_mtime_ns) for one in (Path(path), database)]
    repo.write("x.py", "two\n")
    done = client.send("agentStop", client.payload("agentStop", transcriptPath=path))
    assert injected("copilot", "agentStop", done) == ""
    assert before == [(one.read_bytes(), os.stat(one).st_mtime_ns) for one in (Path(path), database)]
    assert sorted(one.name for one in database.parent.iterdir()) == ["session.db", "talk.jsonl"]
    database.write_bytes(b"no database at all" * 100)
    repo.write("x.py", "three\n")
    client.fire("turn", transcriptPath=path)
    assert json.loads(repo.ok("show", "--json").out)["checkpoint"]["observed"]["plans"], "what was seen stays seen"
