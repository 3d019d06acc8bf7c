"""Factory's droid: whose words a prompt has, what its calls gave, and its transcript as a tree."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from gitbaton.agents.client import read
from gitbaton.agents.droid import CLIENT
from gitbaton.agents.records import messages, shown, signs
from gitbaton.agents.signs import Asked, Called, CommandRun, Edited, Ended, Planned, Said, Searched, Sign
from tests.kit import Sandbox
from tests.kit.agents import Client, steps
from tests.kit.agents import checkpoints as checkpoints_of
from tests.kit.payloads import FOLDER
from tests.kit.places import DATA
from tests.kit.tables import each

AT = "2026-11-29T16:36:50.327Z"


def lines(name: str) -> bytes:
    return (DATA / "plans" / "droid" / f"{name}.jsonl").read_bytes()


def told(*records: dict[str, Any]) -> list[str]:
    """The signs of some records, a line each; of each reply nothing."""
    return [text for record in CLIENT.sift(records) for sign in signs(CLIENT, record) if (text := line(sign))]


def line(sign: Sign) -> str:
    match sign:
        case Asked() | Said():
            return f"{type(sign).__name__.lower()} {sign.text}"
        case CommandRun():
            return f"{sign.key} {sign.command}"
        case Edited():
            return f"{sign.key} {sign.path}"
        case Called():
            return f"{sign.key} {sign.text}"
        case Ended():
            how = "refused" if sign.refused else "goes on" if sign.running else str(sign.status)
            return " ".join(filter(None, (sign.key, how, sign.output)))
        case Planned():
            return f"plan {[(item.text, item.state) for item in sign.items]}"
        case Searched():
            return f"found {sign.text}"
    return ""


def row(role: str, *content: object, key: str = "m", parent: str | None = None, **more: object) -> dict[str, Any]:
    links = {"id": key, "timestamp": AT, **({"parentId": parent} if parent else {})}
    return {"type": "message", **links, "message": {"role": role, "content": list(content), **more}}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def call(name: str, **given: object) -> dict[str, Any]:
    return row("assistant", {"type": "tool_use", "id": "k", "name": name, "input": given})


def gave(content: object, *, failed: bool = False) -> dict[str, Any]:
    return row("user", {"type": "tool_result", "tool_use_id": "k", "is_error": failed, "content": content})


@each(
    "record, expected",
    [
        (row("user", text("go")), ["asked go"]),
        (row("user", text("<system-reminder>\nx\n</system-reminder>"), key="context-m"), []),
        (row("user", text("<system-reminder>\nx\n</system-reminder>"), text("go")), ["asked go"]),
        (row("user", hookEventName="Stop", visibility="user_only"), []),
        (row("user", text("what a hook says"), hookEventName="SessionStart"), []),
        (row("user", text("for the model"), visibility="llm_only"), []),
        (row("user", text("# Task Tool Invocation\n\nLook around")), []),
        (row("assistant", {"type": "thinking", "thinking": "hm"}, text("done")), ["said done"]),
        ({"type": "compaction_state", "id": "c", "timestamp": AT, "summaryText": "x"}, []),
        ({"type": "message", "message": None}, []),
        ({"type": "message", "message": {"role": "user", "content": "x"}}, ["asked x"]),
    ],
)
def test_only_the_users_words_are_a_prompt(record: dict[str, Any], expected: list[str]) -> None:
    assert told(record) == expected


RUN = call("Execute", command="make")


@each(
    "records, expected",
    [
        ((RUN, gave("fine\n\n\n[Process exited with code 0]")), ["k make", "k 0 fine"]),
        (
            (RUN, gave("Error: Command failed (exit code: 2)\nno rule\n\n\n[Process exited with code 2]", failed=True)),
            ["k make", "k 2 no rule"],
        ),
        ((RUN, gave("Error: Command failed (exit code: 3)\n\n[Process exited with code 3]", failed=True)), ["k make", "k 3"]),
        ((RUN, gave("The user rejected this.", failed=True)), ["k make", "k refused The user rejected this."]),
        (
            (call("Execute", command="serve", fireAndForget=True), gave("PID 7, log /tmp/x")),
            ["k serve", "k goes on PID 7, log /tmp/x"],
        ),
        ((call("Create", file_path="/a"), gave('{"success":true}')), ["k /a", 'k 0 {"success":true}']),
        ((call("Edit", file_path="/a"), gave("Error: not found", failed=True)), ["k /a", "k 1 Error: not found"]),
        (
            (call("ApplyPatch", input="*** Begin Patch\n*** Add File: /a\n+x\n*** Update File: /b\n*** End Patch"), gave("ok")),
            ["k /a", "k /b", "k 0 ok"],
        ),
        (
            (call("Task", description="a part", prompt="x"), gave("session_id: s-1\nUse this report as it is.\nIt is so.")),
            ["k a part", "k 0 It is so."],
        ),
        (
            (call("TodoWrite", todos="1. [completed] read\n2. [in_progress] mend\n3. [pending] tell"), gave("ok")),
            ["plan [('read', 'done'), ('mend', 'doing'), ('tell', 'open')]"],
        ),
        ((call("TodoWrite", todos=[{"content": "read", "status": "pending"}]), gave("ok")), ["plan [('read', 'open')]"]),
        ((call("TodoWrite", todos="1. [pending] read"), gave("Error: not available", failed=True)), []),
        ((call("Grep", pattern="x"), gave("./half.py")), ["found ./half.py"]),
        ((call("Grep", pattern="x"), gave("Error", failed=True)), []),
        ((gave(None),), ["k 0"]),
    ],
)
def test_what_calls_gave(records: tuple[dict[str, Any], ...], expected: list[str]) -> None:
    assert told(*records) == expected


def test_a_subagent_is_a_session_of_its_own_and_known_by_the_first_line_of_its_transcript() -> None:
    assert re.search(CLIENT.part, lines("session.child").partition(b"\n")[0])
    assert not re.search(CLIENT.part, lines("session.subagent").partition(b"\n")[0])
    found = []
    for one in json.loads((FOLDER / "droid_subagent.json").read_text()):
        event = read("droid", one["registered_for"], json.dumps(one["payload"]).encode(), {})
        assert event is not None
        found.append((event.name, event.moment, event.child))
    assert found == [
        ("SessionStart", "start", True),
        ("UserPromptSubmit", "other", False),
        ("Stop", "turn", False),
        ("SessionEnd", "end", False),
        ("SubagentStop", "other", False),
        ("Stop", "turn", False),
        ("SessionEnd", "end", False),
    ]
    parent = told(*(json.loads(raw) for raw in lines("session.subagent").splitlines()))
    assert parent == [
        "asked Let somebody look",
        "said Delegating.",
        "toolu_000000000000000000000012 a part",
        "toolu_000000000000000000000012 0 SUB-ANSWER",
        "said It looked.",
    ]


def test_rows_of_hooks_stand_beside_the_branch() -> None:
    rows = [
        row("user", hookEventName="SessionStart"),
        row("user", text("<system-reminder>\nx\n</system-reminder>"), key="context-a"),
        row("user", text("one"), key="a", parent="context-a"),
        row("assistant", text("done one"), key="b", parent="a"),
        row("user", hookEventName="Stop", key="h", parent="b"),
        row("user", text("two"), key="c", parent="b"),
        row("assistant", text("done two"), key="d", parent="c"),
        row("user", text("two, better"), key="e", parent="b"),
        row("assistant", text("done better"), key="f", parent="e"),
    ]
    raw = b"\n".join(json.dumps(one).encode() for one in rows)
    said = [one.text for one in messages(CLIENT, raw) if one.who != "system"]
    assert said == ["one", "done one", "two, better", "done better"]
    summary = json.dumps({"type": "compaction_state", "id": "s", "timestamp": AT, "summaryText": "in short"}).encode()
    assert [part.content for part in shown(CLIENT, summary) if part.summary] == ["in short"]
    assert CLIENT.light({"type": "compaction_state", "systemInfo": {"x": 1}}) == {"type": "compaction_state"}


def test_its_commands_are_told_the_session_in_the_file_that_it_gives_for_that(repo: Sandbox) -> None:
    client = Client("droid", repo.path)
    file = Path(client.payload("SessionStart")["CLAUDE_ENV_FILE"])
    client.fire("start")
    assert not file.exists(), "there is no folder for it"
    file.parent.mkdir(parents=True)
    client.fire("start")
    line = f'export GIT_BATON_DROID_SESSION="{client.session}"\n'
    assert file.read_text() == line and file.stat().st_mode & 0o777 == 0o600
    file.write_text("export THEIRS='1'\n")
    client.fire("start")
    assert file.read_text() == f"export THEIRS='1'\n{line}"


def test_no_file_is_written_that_it_did_not_lay_in_its_own_folder(repo: Sandbox, tmp_path: Path) -> None:
    client = Client("droid", repo.path)
    folder = client.home / ".factory"
    folder.mkdir()
    for name in ("theirs", "shells"):
        (tmp_path / name).write_text("as it was\n")
    (folder / "link").symlink_to(tmp_path)
    (folder / "env").symlink_to(tmp_path / "shells")
    os.mkfifo(folder / "pipe")
    places = (tmp_path / "theirs", folder / "link/theirs", folder / "env", folder / "../theirs", folder / "pipe", folder)
    for place in (*map(str, places), "theirs", "", 7, None, f"{folder}/\0"):
        client.fire("start", CLAUDE_ENV_FILE=place)
    client.send("SessionStart", client.payload("SessionStart", session_id='"; x', CLAUDE_ENV_FILE=f"{folder}/new"))
    assert {(tmp_path / name).read_text() for name in ("theirs", "shells")} == {"as it was\n"}
    assert {path.name for path in folder.iterdir()} == {"link", "env", "pipe"}


@pytest.mark.deep
def test_only_the_session_that_the_user_began_takes_checkpoints(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    child, own = tmp_path / "child.jsonl", tmp_path / "own.jsonl"
    child.write_bytes(lines("session.child"))
    own.write_bytes(lines("session.todos"))
    repo.write("a.txt", "two\n")
    Client("droid", repo.path, session="child").fire("turn", transcript_path=str(child))
    assert steps(checkpoints_of(repo, "t")) == ["the old words"]
    Client("droid", repo.path, session="own").fire("turn", transcript_path=str(own))
    assert steps(checkpoints_of(repo, "t"))[1:] == ["turn ended: Do the release of half()"]
    told = repo.ok("resume", "--json").json["told"]
    assert told["said"]["text"] == "LAST-WORDS-2: second turn, nothing to change."
    assert told["worked"]["text"] == "LAST-WORDS-1: the rounding bug is fixed; next is the changelog."


@pytest.mark.deep
def test_after_a_compaction_without_a_hook_it_is_told_at_the_next_call(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "the old words")
    client, talk = Client("droid", repo.path), tmp_path / "talk.jsonl"
    path = {"transcript_path": str(talk)}

    def write(*records: dict[str, Any]) -> None:
        with talk.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def hooked(said: str) -> dict[str, Any]:
        return row("user", hookEventName="PostToolUse", hookResults=[{"exitCode": 0, "stdout": said}])

    write(hooked(client.fire("start", **path)), row("user", text("go")))
    assert client.fire("edit", **path) == ""
    write({"type": "compaction_state", "id": "s", "timestamp": AT, "summaryText": "in short"})
    told = client.fire("edit", **path)
    assert "the old words" in told
    write(hooked(told))
    assert client.fire("edit", **path) == ""
    talk.unlink()
    assert client.fire("edit", **path) == ""
