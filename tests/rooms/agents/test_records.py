"""What the clients' own records tell, one by one: recorded sessions in full, rare records, and records that nobody writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.agents import records
from gitbaton.agents.client import client
from gitbaton.agents.hooks.guard import deadline
from gitbaton.agents.signs import Answered, Asked, CommandRun, Edited, Ended, Planned, Said
from gitbaton.base.model import Usage
from tests.kit.places import DATA
from tests.kit.tables import each
from tests.kit.tiers import examples, model

AGENTS = ("claude", "codex", "gemini", "copilot", "opencode", "cursor", "kilo", "qwen", "droid", "")
RECORDED = (
    *(("claude", "transcript.tasks"), ("claude", "transcript.todowrite"), ("claude", "transcript.subagent")),
    *(("codex", "rollout.plan"), ("codex", "rollout.codemode"), ("codex", "rollout.longrunning")),
    *(("gemini", "chat.todos-and-compression"), ("copilot", "events.todos"), ("opencode", "db-rows")),
    *(("qwen", "chat.todos"), ("droid", "session.todos")),
)
USERS = ("msg_20383ffad001ObeN2vU9y9vBr5", "msg_2038450a9001TeISgEV3gXKL87", "msg_2038471ca001r0qflfT3MI8zCY")
SUMMARY = "msg_203844ce6001zCMaL1O2ztx6q9"
SESSION = "ses_dfc7c0303ffeuGt4cdcV03jBJ7"
PYTEST_FAILED = (
    "F..                                                                      [100%]\n"
    "=================================== FAILURES ===================================\n"
    "E       assert 1 == 1.5\n"
    "=========================== short test summary info ============================\n"
    "FAILED tests/test_x.py::test_half - assert 1 == 1.5\n"
    "1 failed, 2 passed in 0.12s"
)
PYTEST_PASSED = "...                                                                      [100%]\n3 passed in 0.10s"
NAMES = {"A": "PLAN-A read the header", "B": "PLAN-B fix the rounding bug", "C": "PLAN-C write the changelog"}
NAMES["D"] = "PLAN-D tag the release"
AT = "2026-11-22T13:47:13.716Z"
TIME = 1795355233.716


def signs(agent: str, record: dict[str, Any]) -> Iterator[Any]:
    """What a record of a client tells; nothing for an agent that is none of ours."""
    of = client(agent)
    return records.signs(of, record) if of is not None else iter(())


def may_tell(agent: str, line: bytes) -> bool:
    """Whether a line of a client's is worth parsing."""
    of = client(agent)
    return of is not None and records.may_tell(of, line)


def todos(agent: str, rows: Iterable[Mapping[str, object]]) -> Planned | None:
    """The plan in the rows of a client's table."""
    of = client(agent)
    return of.planned(list(rows)) if of is not None else None


def recorded(agent: str, name: str) -> list[dict[str, Any]]:
    """The records of a file; OpenCode's as the join of the tables ``part`` and ``message`` gives them, of its first session."""
    lines = (DATA / "plans" / agent / f"{name}.jsonl").read_bytes().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if agent != "opencode":
        return records
    rows = [row for row in records if row["table"] == "part" and row["session_id"] == SESSION]
    for row in rows:
        row["message_role"] = "user" if row["message_id"] in USERS else "assistant"
        row["message_agent"] = "compaction" if row["message_id"] == SUMMARY else "build"
    return rows


def told(agent: str, *records: dict[str, Any]) -> list[str]:
    """Signs, a line each, calls by their numbers; of calls that are neither commands nor edits the end is left out."""
    keys: dict[str, int] = {}
    lines = []
    for sign in (sign for record in records for sign in signs(agent, record)):
        match sign:
            case Asked() | Said():
                lines.append(f"{type(sign).__name__.lower()} {sign.text}")
            case Planned(items=items, whole=whole):
                shown = [f"{item.key}={item.text.removeprefix('PLAN-')[:1]}:{item.state}" for item in items]
                lines.append(" ".join(("plan" if whole else "change", *shown)))
            case CommandRun(key=key, command=command):
                lines.append(f"{keys.setdefault(key, len(keys) + 1)} ran {command}")
            case Edited(key=key, path=path):
                lines.append(f"{keys.setdefault(key, len(keys) + 1)} edited {path}")
            case Ended(key=key, status=status) if key in keys:
                lines.append(f"{keys[key]} ended {status}")
    return lines


def final(found: Iterable[object]) -> list[tuple[str, str | None]]:
    """The plan after all changes: texts and states."""
    plan: dict[str, tuple[str, str | None]] = {}
    for planned in (sign for sign in found if isinstance(sign, Planned)):
        plan = {} if planned.whole else plan
        for item in planned.items:
            text, state = plan.get(item.key, ("", None))
            plan[item.key] = (item.text or text, item.state or state)
    return list(plan.values())


END = [(NAMES["A"], "done"), (NAMES["B"], "done"), (NAMES["C"], "doing"), (NAMES["D"], "open")]
PLANS = ["plan 1=A:open 2=B:open 3=C:open 4=D:open", "plan 1=A:done 2=B:doing 3=C:open 4=D:open"]
PLANNED = ["plan 1=A:done 2=B:done 3=C:doing 4=D:open"]
WORK = [
    *("1 edited /repo/src/x.py", "1 ended 0", "2 ran sh -c 'exit 3'", "2 ended 3", "3 ran pytest -q", "3 ended 1"),
    *("4 edited /repo/src/x.py", "4 ended 0", "5 ran pytest -q", "5 ended 0"),
]
ASKED = ["asked Do the release of half()"]
SAID = ["said LAST-WORDS-1: the rounding bug is fixed; next is the changelog."]
TURN = ["asked continue please", "said LAST-WORDS-2: second turn, nothing to change."]
MADE = ["change 1=A:open", "change 2=B:open", "change 3=C:open", "change 4=D:open"]
COPILOTS = [
    *("1 ran mkdir -p '/repo/src'", "1 ended 0", "2 edited /repo/src/x.py", "2 edited /repo/src/x.py", "2 ended 0"),
    *("3 ran sh -c 'exit 3'", "3 ended 3", "4 ran pytest -q", "4 ended 1"),
    *("5 edited /repo/src/x.py", "5 edited /repo/src/x.py", "5 ended 0", "6 ran pytest -q", "6 ended 0"),
]


@each(
    "agent, name, expected",
    [
        (
            "claude",
            "transcript.tasks",
            [*ASKED, *MADE, "change 1=:done", "change 2=:doing", *WORK, "change 2=:done", "change 3=:doing", *SAID, *TURN],
        ),
        ("claude", "transcript.todowrite", [*PLANS, *PLANNED]),
        ("claude", "transcript.subagent", []),
        ("codex", "rollout.plan", [*ASKED, *PLANS, *WORK, *PLANNED, *SAID, *TURN]),
        ("codex", "rollout.codemode", [*ASKED, *PLANS, *WORK, *PLANNED, *SAID, *TURN]),
        (
            "codex",
            "rollout.longrunning",
            ["asked go", "1 ran sleep 3; echo late; exit 7", "1 ended 7", "said LAST-WORDS-1"],
        ),
        ("gemini", "chat.todos-and-compression", [*ASKED, *PLANS, *WORK, *PLANNED, *SAID, *TURN]),
        ("copilot", "events.todos", [*ASKED, *COPILOTS, *SAID, *TURN]),
        (
            "opencode",
            "db-rows",
            [*ASKED, *PLANS, *WORK, *PLANNED, *SAID, "asked continue please", TURN[1]],
        ),
        ("qwen", "chat.todos", [*ASKED, *PLANS, *WORK, *PLANNED, *SAID, *TURN]),
        ("droid", "session.todos", [*ASKED, *WORK, *SAID, *TURN]),
    ],
)
def test_a_recorded_session_tells_all_that_was_done(agent: str, name: str, expected: list[str]) -> None:
    assert told(agent, *recorded(agent, name)) == expected


@each("agent, name", [row for row in RECORDED if row[1] not in ("transcript.subagent", "rollout.longrunning")])
def test_a_plan_in_the_end(agent: str, name: str) -> None:
    found = [sign for record in recorded(agent, name) for sign in signs(agent, record)]
    assert final(found) == ([] if agent in ("copilot", "droid") else END)


@each(
    "agent, name",
    [row for row in RECORDED if row[1] not in ("transcript.todowrite", "transcript.subagent", "rollout.longrunning")],
)
def test_what_commands_printed_is_kept_without_the_clients_own_lines(agent: str, name: str) -> None:
    found = [sign for record in recorded(agent, name) for sign in signs(agent, record)]
    commands = {sign.key for sign in found if isinstance(sign, CommandRun) and sign.command != "mkdir -p '/repo/src'"}
    outputs = [sign.output.rstrip("\n") for sign in found if isinstance(sign, Ended) and sign.key in commands]
    assert outputs == ["", PYTEST_FAILED, PYTEST_PASSED]


@each(
    "script",
    [
        'if (late) await tools.update_plan({"plan": [{"step": "a", "status": "pending"}]})',
        "await tools.update_plan({plan: steps})",
        'await tools.update_plan({"plan": [{"step": "a", "status": "pending"}]}); await tools.update_plan({"plan": []})',
        'text("await tools.update_plan({})")',
    ],
)
def test_a_script_that_does_more_than_write_a_plan_tells_of_none(script: str) -> None:
    payload = {"type": "custom_tool_call", "name": "exec", "call_id": "c", "input": script}
    assert not list(signs("codex", {"type": "response_item", "timestamp": AT, "payload": payload}))


@each("agent, name", [row for row in RECORDED if row[1] != "transcript.subagent"])
def test_times_go_forward_and_each_has_one(agent: str, name: str) -> None:
    times = [sign.at for record in recorded(agent, name) for sign in signs(agent, record)]
    known = [time for time in times if time is not None]
    assert known == sorted(times, key=lambda time: time or 0) and 1795355233 < known[0] <= known[-1] < known[0] + 900


@each("agent, name", RECORDED)
def test_no_line_that_tells_is_left_out_unread(agent: str, name: str) -> None:
    for record in recorded(agent, name):
        for separators in ((",", ":"), (", ", ": ")):
            line = json.dumps(record, separators=separators).encode()
            assert may_tell(agent, line) or not list(signs(agent, record)), line[:200]


def test_the_tables_hold_the_plan() -> None:
    def rows(agent: str, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (DATA / "plans" / agent / f"{name}.jsonl").read_bytes().splitlines()]

    theirs = [row for row in rows("opencode", "db-rows") if row["table"] == "todo"]
    found = todos("opencode", reversed(theirs))
    assert found is not None and found.whole and found.at == 1795355330.835 and final([found]) == END
    assert [item.key for item in found.items] == ["1", "2", "3", "4"]
    found = todos("copilot", rows("copilot", "session-db-todos"))
    assert found is not None and found.whole and found.at == 1795355627.0 and final([found]) == END
    assert found.items[0].key == "plan-a-read-the-header"


@each(
    "agent, rows, expected",
    [
        ("opencode", [], None),
        ("copilot", [], None),
        ("claude", [{"content": "x", "status": "pending"}], None),
        ("opencode", [{"content": 1}, {"content": ""}, {}], None),
        ("opencode", [{"content": "x", "status": [], "time_updated": "1795355330835", "position": None}], [("x", "open")]),
        ("opencode", [{"content": "x", "status": "cancelled", "position": 1.5}], [("x", "dropped")]),
        ("copilot", [{"id": "a", "title": "x", "status": "blocked"}, {"title": "no id"}, {"id": "b"}], [("x", "open")]),
    ],
)
def test_tables_of_other_shapes(agent: str, rows: list[dict[str, Any]], expected: list[tuple[str, str]] | None) -> None:
    found = todos(agent, rows)
    assert (found and final([found])) == expected and (found is None or found.at is None)


def claude(kind: str, content: object, **more: object) -> dict[str, Any]:
    return {"type": kind, "message": {"role": kind, "content": content}, "timestamp": AT, "isSidechain": False, **more}


def use(name: str, **given: object) -> dict[str, Any]:
    return claude("assistant", [{"type": "tool_use", "id": "t", "name": name, "input": given}])


def result(content: object, outcome: object = None, **more: object) -> dict[str, Any]:
    return claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": content, **more}], toolUseResult=outcome)


def queued(**fields: object) -> dict[str, Any]:
    return {"type": "attachment", "attachment": {"type": "queued_command", **fields}, "timestamp": AT}


NOTICE = next(
    str(record["payload"]["prompt"])
    for record in recorded("claude", "hooks.background")
    if str(record["payload"].get("prompt")).startswith("<task-notification>")
)
OTHERS = [
    "<task-notification>\n<summary>x</summary>",
    "<command-name>/compact</command-name>",
    "<command-message>x</command-message>",
    "<local-command-stdout>x</local-command-stdout>",
    "<system-reminder>\nx\n</system-reminder>",
    "<bash-input>ls</bash-input>",
    "<ide_opened_file>x</ide_opened_file>",
    "[Request interrupted by user for tool use]",
    " \n",
]
TEXT = {"type": "text", "text": "a prompt"}


@each(
    "record, expected",
    [
        (claude("user", "a prompt"), ["asked a prompt"]),
        (claude("user", [TEXT, {"type": "image"}, TEXT]), ["asked a prompt\na prompt"]),
        (claude("user", [{"type": "text", "text": "<ide_selection>x</ide_selection>"}, TEXT]), ["asked a prompt"]),
        (claude("user", "what is <system-reminder>?"), ["asked what is <system-reminder>?"]),
        (claude("user", "<command-message>fix</command-message>\n<command-name>/fix</command-name>"), ["asked /fix"]),
        *((claude("user", text), []) for text in OTHERS),
        *((claude("user", "x", **{name: True}), []) for name in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")),
        (claude("user", "x", isSidechain=True), []),
        (claude("user", "x", origin={"kind": "peer"}), []),
        (claude("user", "x", origin={"kind": "human"}), ["asked x"]),
        (claude("user", [TEXT, {"type": "tool_result", "tool_use_id": "t", "content": "x"}]), []),
        (queued(prompt="in between", commandMode="prompt"), ["asked in between"]),
        (queued(prompt=[TEXT], origin={"kind": "human"}), ["asked a prompt"]),
        (queued(prompt="ls", commandMode="bash"), []),
        (queued(prompt="x", isMeta=True), []),
        (queued(prompt="", origin=None), []),
        ({"type": "attachment", "attachment": {"type": "prompt_snapshot", "prompt": "x"}}, []),
        ({"type": "queue-operation", "operation": "enqueue", "content": "later"}, []),
        ({"type": "last-prompt", "lastPrompt": "x"}, []),
        (claude("assistant", [{"type": "thinking", "thinking": "x"}, TEXT]), ["said a prompt"]),
        (claude("assistant", [TEXT], isApiErrorMessage=True), []),
        ({"type": "assistant", "message": {"model": "<synthetic>", "content": [TEXT]}}, []),
        ({"type": "system", "content": "Conversation compacted"}, []),
        (use("TodoWrite", todos=[]), ["plan"]),
        (use("TodoWrite", todos=[{"content": 1}]), []),
        (use("TodoWrite", todos=[{"content": "A"}, {}, {"content": "B", "status": "?"}]), ["plan 1=A:open 3=B:open"]),
        (use("TaskUpdate", taskId="3", status="deleted"), ["change 3=:dropped"]),
        (use("TaskUpdate", taskId="3", subject="A"), ["change 3=A:None"]),
        (use("TaskUpdate", taskId="3", status="pending"), ["change 3=:open"]),
        (use("TaskUpdate", taskId="3", addBlocks=["4"]), []),
        (use("TaskUpdate", taskId=3, status="completed"), []),
        (result("x", {"task": {"id": "7", "subject": "A"}}), ["change 7=A:open"]),
        (result("x", {"task": {"id": "7", "subject": "A", "status": "completed"}}), ["change 7=A:done"]),
        (use("Bash", command="ls"), ["1 ran ls"]),
        (use("Bash", command=["ls"]), []),
        (use("MultiEdit", file_path="a"), ["1 edited a"]),
        (use("NotebookEdit", notebook_path="/b.ipynb"), ["1 edited /b.ipynb"]),
        (use("Read", file_path="a"), []),
    ],
)
def test_rare_records_of_claude(record: dict[str, Any], expected: list[str]) -> None:
    assert told("claude", record) == expected
    assert may_tell("claude", json.dumps(record).encode()) or not expected


@each(
    "record, status, output",
    [
        (result("Exit code 3\nlate", "Error: Exit code 3\nlate", is_error=True), 3, "late"),
        (result("Exit code 143\nCommand timed out after 1s", is_error=True), 143, "Command timed out after 1s"),
        (result([{"type": "text", "text": "Exit code 2"}], is_error=True), 2, ""),
        (result("Exit code 1 it said", is_error=True), None, "Exit code 1 it said"),
        (result("Exit code 99999999999\n", is_error=True), None, "Exit code 99999999999\n"),
        (result("Exit code 3", is_error=False), 0, "Exit code 3"),
        (result("x", {"stdout": "out", "stderr": "err"}), 0, "out\nerr"),
        (result("x", {"stdout": "half", "interrupted": True}), None, "half"),
        (result("running", {"stdout": "half", "backgroundTaskId": "b"}), None, ""),
        (result("File created", {"filePath": "/a", "content": "x"}), 0, ""),
        (claude("user", NOTICE.replace("toolu_35992fe1d7ee4fd0b61e", "t")), 7, ""),
        (claude("user", NOTICE.replace("toolu_35992fe1d7ee4fd0b61e", "t"), origin={"kind": "task-notification"}), 7, ""),
        (queued(prompt=NOTICE.replace("toolu_35992fe1d7ee4fd0b61e", "t"), commandMode="task-notification"), 7, ""),
        ({"type": "queue-operation", "content": NOTICE.replace("toolu_35992fe1d7ee4fd0b61e", "t"), "timestamp": AT}, 7, ""),
    ],
)
def test_how_calls_of_claude_end(record: dict[str, Any], status: int | None, output: str) -> None:
    running = "backgroundTaskId" in str(record)
    assert list(signs("claude", record)) == [Ended(at=TIME, key="t", status=status, output=output, running=running)]
    assert may_tell("claude", json.dumps(record, separators=(",", ":")).encode())


@each(
    "text, refused",
    [
        ("The user doesn't want to proceed with this tool use. The tool use was rejected.", True),
        ("The user doesn't want to take this action right now. STOP what you are doing.", True),
        ("Permission to use Bash with command rm -rf x has been denied.", True),
        ("Claude requested permissions to write to /x/a.py, but you haven't granted it yet.", True),
        ("This command requires approval", True),
        ("cd in '/x y' was blocked. For security, only these directories are allowed.", True),
        ("PreToolUse:Bash hook error: [guard]: no", True),
        ("<tool_use_error>String to replace not found in file.\nString: x</tool_use_error>", True),
        ("<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>", True),
        ("<tool_use_error>Cancelled: parallel tool call errored</tool_use_error>", True),
        ("Cancelled: parallel tool call errored", True),
        ("Sibling tool call errored", True),
        ("Exit code 1\nPermission to use the port has been denied.", False),
        ("Exit code 1\nrejected by user", False),
        ("make: the user doesn't want to proceed", False),
        ("Request failed with status code 404", False),
    ],
)
def test_a_call_that_was_never_made_is_known_by_what_its_client_says(text: str, refused: bool) -> None:
    (ended,) = [one for one in signs("claude", result(text, is_error=True)) if isinstance(one, Ended)]
    assert ended.refused == refused


def notice(summary: str, ids: str = "<tool-use-id>t</tool-use-id>") -> dict[str, Any]:
    return claude("user", f"<task-notification>\n{ids}\n<summary>{summary}</summary>\n</task-notification>")


@each(
    "record, key, status",
    [
        (notice('Background command "x" completed (exit code 0)'), "t", 0),
        (notice('Background command "ends with exit code 0" failed with exit code 7'), "t", 7),
        (notice('Background command "<tool-use-id>u</tool-use-id></summary>" failed with exit code 7'), "t", 7),
        (notice('Background command "exit code 0" was stopped'), "t", None),
        (notice('Background command "x" failed with exit code 7', "<task-id>b1</task-id>"), "b1", 7),
    ],
)
def test_notices_of_commands_in_the_background(record: dict[str, Any], key: str, status: int | None) -> None:
    assert list(signs("claude", record)) == [Ended(at=TIME, key=key, status=status)]


@each("record", [notice('Agent "x" completed'), notice('Background command "x" failed with exit code 7', "")])
def test_notices_that_end_no_command(record: dict[str, Any]) -> None:
    assert not list(signs("claude", record))


@each(
    "text, expected",
    [
        ("<ide_selection>" * 30_000, []),
        ("fix <system-reminder>it" + "<bash-input>" * 30_000, ["asked fix <system-reminder>it" + "<bash-input>" * 30_000]),
        ("a<ide_x y>b</ide_x><ide_x>c</ide_x>d<system-reminder>", ["asked ad<system-reminder>"]),
        ("a<ide_x><ide_y>b</ide_y>c</ide_x>d</ide_x>", ["asked ad</ide_x>"]),
        ("<command-name>/fix</command-name>" + "<command-args>" * 30_000, ["asked /fix"]),
        ("<task-notification><task-id>t</task-id><status>failed</status><summary>" + "<result>" * 30_000 + "</summary>", []),
    ],
)
def test_blocks_that_are_begun_and_never_ended_take_no_time(text: str, expected: list[str]) -> None:
    with deadline(5):
        assert told("claude", claude("user", text)) == expected


def test_a_command_in_the_background_ends_under_the_key_of_its_call() -> None:
    began, answer, prompt = "Bash", {"stdout": "", "interrupted": False, "backgroundTaskId": "b2eekv33h"}, NOTICE
    records = use(began, command="sleep 2; exit 7", run_in_background=True), result("running", answer), claude("user", prompt)
    lines = [json.dumps(record).replace('"t"', '"toolu_35992fe1d7ee4fd0b61e"') for record in records]
    expected = ["1 ran sleep 2; exit 7", "1 ended None", "1 ended 7"]
    assert told("claude", *map(json.loads, lines)) == expected


def codex(kind: str, begun: object = 1000, done: object = 2500, **item: object) -> dict[str, Any]:
    payload = {
        "type": "item_completed",
        "item": {"type": kind, "id": "c", **item},
        "started_at_ms": begun,
        "completed_at_ms": done,
    }
    return {"type": "event_msg", "timestamp": AT, "payload": payload}


def command(*words: object, **more: object) -> dict[str, Any]:
    return codex("CommandExecution", **{"command": list(words), "status": "completed", "exit_code": 0, **more})


def plan(given: object, name: str = "update_plan") -> dict[str, Any]:
    return {"type": "response_item", "payload": {"type": "function_call", "name": name, "arguments": given, "call_id": "c"}}


BROKEN: list[object] = ["", "[", '{"plan": {}}', "[" * 100_000, {"plan": []}, None, '"x"', '{"plan": NaN}']
MOVED = {"/a": {"type": "update", "move_path": "/b"}, "/c": {"type": "delete"}, "": {}, "/\0": {}}


@each(
    "record, expected",
    [
        (command("/bin/zsh", "-lc", "ls | wc"), ["1 ran ls | wc", "1 ended 0"]),
        (command("sh", "-c", "ls"), ["1 ran ls", "1 ended 0"]),
        (command("ls", "a b"), ["1 ran ls 'a b'", "1 ended 0"]),
        (command("ls", 1), []),
        (command("ls", status="failed", exit_code=-1), ["1 ran ls", "1 ended None"]),
        (command("ls", status="declined", exit_code=1), ["1 ran ls", "1 ended None"]),
        (command("ls", exit_code=True), ["1 ran ls", "1 ended None"]),
        (command("ls", exit_code="0"), ["1 ran ls", "1 ended None"]),
        (command("ls", exit_code=10**30), ["1 ran ls", "1 ended None"]),
        (command("ls", id=None), []),
        (codex("CommandExecution", command="ls"), ["1 ran ls", "1 ended None"]),
        (
            codex("FileChange", changes=MOVED, status="completed"),
            [f"1 {what}" for path in "abc" for what in (f"edited /{path}", "ended 0")],
        ),
        (codex("FileChange", changes={"/a": None}, status="failed"), ["1 edited /a", "1 ended 1"]),
        (codex("FileChange", changes=["/a"], status="completed"), []),
        (codex("UserMessage", content=[{"type": "local_image", "path": "x"}, {"type": "text", "text": "go"}]), ["asked go"]),
        (codex("AgentMessage", content=[{"type": "Text", "text": ""}]), []),
        (codex("Reasoning", content=[{"type": "Text", "text": "x"}]), []),
        (plan('{"plan": []}'), ["plan"]),
        (plan('{"plan": [{"step": "A \\ud800", "status": "pending"}]}'), ["plan 1=A:open"]),
        (plan('{"plan": [{"step": "A", "status": "in_progress"}]}'), ["plan 1=A:doing"]),
        (plan('{"plan": [{"step": "A\ud800", "status": "in_progress"}]}'), ["plan 1=A:doing"]),
        *((plan(text), []) for text in BROKEN),
        (plan('{"plan": []}', "exec_command"), []),
        ({"type": "compacted", "payload": {"message": "x", "replacement_history": [plan('{"plan": []}')]}}, []),
        ({"type": "response_item", "payload": {"type": "message", "role": "user", "content": "x"}}, []),
        ({"type": "event_msg", "payload": {"type": "task_complete", "last_agent_message": "x"}}, []),
    ],
)
def test_rare_records_of_codex(record: dict[str, Any], expected: list[str]) -> None:
    assert told("codex", record) == expected
    assert may_tell("codex", json.dumps(record).encode()) or not expected


def test_commands_that_were_declined_in_codex_are_refused() -> None:
    for status, refused in (("declined", True), ("failed", False)):
        item = codex("CommandExecution", command=["bash", "-lc", "rm -rf x"], aggregated_output="", status=status)
        (_, ended) = signs("codex", item)
        assert ended.refused == refused


def test_times_of_codex_are_those_of_the_command() -> None:
    assert [sign.at for sign in signs("codex", command("ls"))] == [1.0, 2.5]
    assert [sign.at for sign in signs("codex", command("ls", begun=None, done="2"))] == [TIME, TIME]


def gemini(**fields: object) -> dict[str, Any]:
    return {"id": "g", "timestamp": AT, "type": "gemini", "content": "", **fields}


def call(name: str, output: str = "", shown: object = None, status: object = "success", **args: object) -> dict[str, Any]:
    answer = [{"functionResponse": {"id": "k", "name": name, "response": {"output": output}}}]
    found = {"id": "k", "name": name, "args": args, "result": answer, "status": status, "resultDisplay": shown}
    return gemini(toolCalls=[{**found, "timestamp": "2026-11-22T13:47:14.716Z"}])


def shell(output: str, shown: object = None, status: object = "success") -> dict[str, Any]:
    text = f"<untrusted_context>\nOutput: {output}\nProcess Group PGID: 1\n</untrusted_context>"
    return call("run_shell_command", text, shown, status, command="ls")


@each(
    "record, status, output",
    [
        (shell("(empty)"), 0, ""),
        (shell("(empty)\nExit Code: 3", "Command exited with code: 3"), 3, ""),
        (shell("a\nExit Code: 1", "a"), 1, "a"),
        (shell("a\nExit Code: 0\nExit Code: 1", "a\nExit Code: 0"), 1, "a\nExit Code: 0"),
        (shell("a\nExit Code: 0\nExit Code: 1"), 1, "a\nExit Code: 0"),
        (shell("a\nExit Code: 5", "a\nExit Code: 5"), 0, "a\nExit Code: 5"),
        (
            shell("a\nProcess Group PGID: 7\nExit Code: 0\nb\nExit Code: 2", None),
            2,
            "a\nProcess Group PGID: 7\nExit Code: 0\nb",
        ),
        (shell("a\nSignal: 9", "a"), None, "a"),
        (shell("a\nExit Code: 1\nBackground PIDs: 5", "a"), 1, "a"),
        (shell("a", "a", "cancelled"), None, "a"),
        (shell("a", "a", "error"), None, "a"),
        (call("run_shell_command", "Command moved to background (PID: 4).", "x", command="ls"), None, "x"),
        (call("run_shell_command", "Exit Code: 4\nProcess Group PGID: 4", command="ls"), 4, ""),
        (call("run_shell_command", command="ls"), None, ""),
    ],
)
def test_how_commands_of_gemini_end(record: dict[str, Any], status: int | None, output: str) -> None:
    begun, ended = signs("gemini", record)
    assert begun == CommandRun(at=TIME, key="k", command="ls", cwd=".")
    assert ended == Ended(at=TIME + 1, key="k", status=status, output=output)


@each(
    "cwd, place",
    [
        ("/repo", "/repo"),
        ("file:///repo", "/repo"),
        ("file:///a%20b/%C3%A9%2541", "/a b/\u00e9%41"),
        ("file:///a%FF", None),
        ("/a%20b", "/a%20b"),
        ("file:///a%00", None),
        ("file://", None),
        (3, None),
        (None, None),
    ],
)
def test_where_a_command_of_codex_ran(cwd: object, place: str | None) -> None:
    begun = next(signs("codex", command("ls", cwd=cwd)))
    assert isinstance(begun, CommandRun) and (begun.command, begun.cwd) == ("ls", place)


CONTEXT = "<session_context>\nThis is the Gemini CLI.\n</session_context>"
HOOK = "<hook_context>x</hook_context>"
ANSWER = {"functionResponse": {"response": {"output": "x"}}}


@each(
    "record, expected",
    [
        (gemini(type="user", content=[{"text": CONTEXT}]), []),
        (gemini(type="user", content=[{"text": CONTEXT}, {"text": "go"}]), ["asked go"]),
        (gemini(type="user", content=[{"text": f"{HOOK}\n\ngo"}, {"text": HOOK}]), ["asked go"]),
        (gemini(type="user", content="go"), ["asked go"]),
        (gemini(type="user", content=["go", "on"]), ["asked go\non"]),
        (
            gemini(type="user", content=[{"text": "go @x"}, {"text": "content of x"}], displayContent=[{"text": "go @x"}]),
            ["asked go @x"],
        ),
        (gemini(type="user", content=[ANSWER, {"text": "x"}]), []),
        (gemini(content=[{"text": "hm", "thought": True}, {"text": "so"}]), ["said so"]),
        (gemini(content=" "), []),
        (gemini(type="info", content="x"), []),
        ({"$set": {"messages": [gemini(content="x"), shell("a")]}}, []),
        ({**gemini(content="x"), "$set": {}}, []),
        ({"$rewindTo": "g"}, []),
        (shell("a", status="executing"), ["1 ran ls"]),
        (call("write_file", file_path="/a", status="awaiting_approval"), ["1 edited /a"]),
        (call("replace", file_path="/a", status="cancelled"), ["1 edited /a", "1 ended 1"]),
        (call("replace", file_path="/a", status="error"), ["1 edited /a", "1 ended 1"]),
        (call("write_todos", todos=[{"description": "A", "status": "blocked"}]), ["plan 1=A:open"]),
        (call("write_todos", todos=[{"description": "A", "status": "cancelled"}]), ["plan 1=A:dropped"]),
        (call("write_todos", todos=[], status="error"), []),
        (call("write_todos", todos=[]), ["plan"]),
        (call("update_topic", strategic_intent="x"), []),
    ],
)
def test_rare_records_of_gemini(record: dict[str, Any], expected: list[str]) -> None:
    assert told("gemini", record) == expected
    assert may_tell("gemini", json.dumps(record).encode()) or not expected


def test_a_message_of_gemini_that_is_written_twice_tells_its_calls_once() -> None:
    records = recorded("gemini", "chat.todos-and-compression")
    twins = [record for record in records if record.get("type") == "gemini" and record.get("content") == ""]
    assert len(twins) == 16 and len({record["id"] for record in twins}) == 8
    assert [bool(told("gemini", record)) for record in twins] == [False, True] * 8


def copilot(kind: str, **data: object) -> dict[str, Any]:
    return {"type": kind, "data": {"toolCallId": "k", **data}, "id": "e", "timestamp": AT, "parentId": None}


def start(name: str, **arguments: object) -> dict[str, Any]:
    return copilot("tool.execution_start", toolName=name, arguments=arguments)


def complete(**data: object) -> dict[str, Any]:
    return copilot("tool.execution_complete", **data)


@each(
    "records, expected",
    [
        ([copilot("user.message", content="go", transformedContent="x", parentAgentTaskId="p")], ["asked go"]),
        ([copilot("user.message", content="go", source="skill-pdf")], []),
        ([copilot("user.message", content="go", source="agent-7f")], []),
        ([copilot("user.message", content="A task has ended.", source="system")], []),
        ([copilot("user.message", content="go", source="user")], ["asked go"]),
        ([copilot("user.message", content="go", isAutopilotContinuation=True)], []),
        ([copilot("user.message", content="go", agentId="a")], []),
        ([{**copilot("user.message", content="go"), "agentId": "a"}], []),
        ([copilot("assistant.message", content="x", parentToolCallId="t")], []),
        ([{**start("bash", command="ls"), "agentId": "a"}], []),
        ([{**start("edit", path="/x.py"), "agentId": "a"}], ["1 edited /x.py"]),
        ([copilot("assistant.message", content="I look", toolRequests=[{"name": "bash"}])], ["said I look"]),
        ([copilot("assistant.message", content="", toolRequests=[{"name": "bash"}])], []),
        ([copilot("system.message", content="x")], []),
        ([copilot("model.message", message={"content": "x"})], []),
        ([start("bash", command="ls"), complete(success=False, error={"message": "denied"})], ["1 ran ls", "1 ended None"]),
        ([start("bash", command="ls"), complete(success=True, shellExecution={})], ["1 ran ls", "1 ended None"]),
        ([start("bash", command="ls"), complete(shellExecution={"exitCode": 7})], ["1 ran ls", "1 ended 7"]),
        ([start("edit", path="/a"), complete(success=False, error={"message": "x"})], ["1 edited /a", "1 ended None"]),
        ([start("edit", path="/a"), complete(success=True)], ["1 edited /a", "1 ended None"]),
        (
            [complete(success=True, fileEdits=[{"path": "/a"}, None, {"path": "/b"}])],
            ["1 edited /a", "1 ended 0", "1 edited /b", "1 ended 0"],
        ),
        ([start("sql", query="DELETE FROM todos"), start("view", path="/a")], []),
    ],
)
def test_rare_records_of_copilot(records: list[dict[str, Any]], expected: list[str]) -> None:
    assert told("copilot", *records) == expected
    assert any(may_tell("copilot", json.dumps(record).encode()) for record in records) or not expected


def test_what_copilot_says_of_a_call_that_failed_is_its_output() -> None:
    (ended,) = signs("copilot", complete(success=False, error={"message": "denied by the user", "code": "denied"}))
    assert ended == Ended(at=TIME, key="k", status=None, output="denied by the user", refused=True)
    (ended,) = signs("copilot", complete(success=False, error={"message": "no such shell", "code": "failure"}))
    assert ended == Ended(at=TIME, key="k", status=None, output="no such shell")


@each("text", ["[Operation Cancelled] Reason: User denied execution.", "Tool execution denied by policy."])
def test_a_command_of_gemini_that_was_not_allowed_is_refused(text: str) -> None:
    answer = [{"functionResponse": {"response": {"error": text}}}]
    made = {"id": "k", "name": "run_shell_command", "args": {"command": "ls"}, "result": answer, "status": "cancelled"}
    (_, ended) = signs("gemini", gemini(toolCalls=[made]))
    assert (ended.output, ended.refused) == (text, True)


def part(data: object, role: str = "assistant", **more: object) -> dict[str, Any]:
    return {"time_created": 1000, "data": data, "message_role": role, "message_agent": "build", **more}


def tool(name: str, status: str = "completed", metadata: object = None, **given: object) -> dict[str, Any]:
    state = {
        "status": status,
        "input": given,
        "metadata": metadata,
        "output": "(no output)",
        "time": {"start": 2000, "end": 3000},
    }
    return part({"type": "tool", "tool": name, "callID": "k", "state": state})


FILES = {"files": [{"filePath": "/a", "movePath": "/b"}, {"filePath": "/c"}, 1]}


@each(
    "record, expected",
    [
        (part({"type": "text", "text": "go"}, "user"), ["asked go"]),
        (part({"type": "text", "text": "go", "synthetic": True}, "user"), []),
        (part({"type": "text", "text": "go", "ignored": True}, "user"), []),
        (part({"type": "text", "text": "so"}), ["said so"]),
        (part({"type": "text", "text": "so"}, message_agent="compaction"), []),
        (part({"type": "text", "text": "so"}, "?"), []),
        (part({"type": "reasoning", "text": "so"}), []),
        (part({"type": "patch", "files": ["/a"]}), []),
        (part('{"type": "text", "text": "so"}'), []),
        (tool("bash", metadata={"exit": 4}, command="ls"), ["1 ran ls", "1 ended 4"]),
        (tool("bash", metadata={"exit": None}, command="ls"), ["1 ran ls", "1 ended None"]),
        (tool("bash", "error", {"exit": 0}, command="ls"), ["1 ran ls", "1 ended None"]),
        (tool("bash", "running", command="ls"), ["1 ran ls"]),
        (tool("bash", "pending"), []),
        (tool("edit", "error", filePath="/a"), ["1 edited /a", "1 ended 1"]),
        (tool("edit", "running", filePath="/a"), ["1 edited /a"]),
        (
            tool("apply_patch", metadata=FILES, patchText="x"),
            [f"1 {what}" for path in "abc" for what in (f"edited /{path}", "ended 0")],
        ),
        (tool("apply_patch", "running", FILES), []),
        (tool("todowrite", todos=[]), ["plan"]),
        (tool("todowrite", "error", todos=[]), []),
        (tool("read", filePath="/a"), []),
    ],
)
def test_rare_rows_of_opencode(record: dict[str, Any], expected: list[str]) -> None:
    assert told("opencode", record) == expected


def test_a_command_of_opencode_that_was_not_allowed_is_refused() -> None:
    state = {
        "status": "error",
        "input": {"command": "ls"},
        "error": "The user rejected permission to use this specific tool call.",
    }
    (_, ended) = signs("opencode", part({"type": "tool", "tool": "bash", "callID": "k", "state": state}))
    assert (ended.status, ended.refused) == (None, True)


def test_times_of_opencode_are_those_of_the_call() -> None:
    found = list(signs("opencode", tool("bash", metadata={"exit": 0}, command="ls")))
    assert found == [CommandRun(at=2.0, key="k", command="ls", cwd="."), Ended(at=3.0, key="k", status=0, output="")]


TIMELESS: list[object] = [None, True, -1, 10**400, float("inf"), float("nan"), [], {}, "", "yesterday", "1795355233716"]
TIMELESS += ["0001-01-01T00:00:00+14:00", "2026-13-01", "\ud800" * 20]


@each(
    "found, expected",
    [
        (AT, TIME),
        ("2026-11-22T14:47:13.716+01:00", TIME),
        ("2026-11-22 13:47:13.716", TIME),
        (1795355233716, TIME),
        (1795355233716.0, TIME),
        *((junk, None) for junk in TIMELESS),
    ],
)
def test_times(found: object, expected: float | None) -> None:
    record = {**claude("user", "x"), "timestamp": found}
    assert list(signs("claude", record)) == [Asked(at=expected, text="x")]


def test_half_a_character_is_told_as_one_that_is_missing_but_in_a_path() -> None:
    assert told("claude", claude("user", "\ud83d\ude00 \ud83d")) == ["asked \U0001f600 \ufffd"]
    assert told("claude", use("Bash", command="echo \ud83d")) == ["1 ran echo \ufffd"]
    assert told("claude", use("Write", file_path="/\ud83d")) == []
    assert told("claude", use("Write", file_path="/" + "a" * 5000)) == []


NOISE: list[tuple[str, dict[str, Any]]] = [
    (
        "claude",
        {"type": "attachment", "attachment": {"type": "prompt_snapshot", "systemPrompt": ["x"], "tools": [{"type": "object"}]}},
    ),
    ("claude", {"type": "api-request-shape", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}),
    ("claude", {"type": "attachment", "attachment": {"type": "task_reminder", "content": json.dumps({"type": "user"})}}),
    ("claude", {"type": "last-prompt", "lastPrompt": "x"}),
    ("codex", {"type": "world_state", "payload": {"state": {}}}),
    ("codex", {"type": "response_item", "payload": {"type": "reasoning", "summary": []}}),
    ("codex", {"type": "event_msg", "payload": {"type": "task_complete"}}),
    ("gemini", {"$set": {"messages": [{"id": "g", "type": "gemini", "content": "x"}]}}),
    ("gemini", {"sessionId": "s", "kind": "main"}),
    ("copilot", {"type": "model.messages_snapshot", "data": {"messages": [{"role": "user", "content": "x"}]}}),
    ("copilot", {"type": "hook.start", "data": {"input": json.dumps({"type": "user.message"})}}),
    ("cursor", claude("user", "x")),
    ("", claude("user", "x")),
]


def spent(**used: Any) -> dict[str, Any]:
    """What Claude Code writes of an answer."""
    found = claude("assistant", [{"type": "text", "text": "x"}])
    found["message"] |= {"id": "msg_1", "model": "claude-opus-4-5", "usage": used}
    return found


def counted(read: object, wrote: object = 7, cached: object = 0, total: object = 30, **last: Any) -> dict[str, Any]:
    """What Codex writes of an answer."""
    last = {"input_tokens": read, "output_tokens": wrote, "cached_input_tokens": cached, **last}
    info = {"total_token_usage": {"total_tokens": total, "input_tokens": 20, "output_tokens": 10}, "last_token_usage": last}
    return {"type": "event_msg", "timestamp": AT, "payload": {"type": "token_count", "info": info}}


def billed(**usage: Any) -> dict[str, Any]:
    """What Copilot CLI writes of an answer."""
    usage = {"model": "gpt-5", "accounting": {"usageId": "chat-1"}, **usage}
    return {"type": "session.usage_record", "timestamp": AT, "data": {"usage": usage}}


def finished(message: str, **tokens: Any) -> dict[str, Any]:
    """What OpenCode keeps of an answer."""
    part = json.dumps({"type": "step-finish", "tokens": tokens})
    row = {"id": "prt_1", "data": part, "message": message, "time_created": TIME * 1000, "time_updated": 0}
    of = client("opencode")
    found = of.record(row)[0] if of is not None else None
    assert found is not None
    return found


MESSAGE = json.dumps({"role": "assistant", "providerID": "anthropic", "modelID": "claude-opus-4-5"})
NEW = {"input_tokens": 3, "output_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100}
CHAT = {"id": "g1", "type": "gemini", "model": "gemini-3-pro", "timestamp": AT, "content": ""}
CACHE = {"write": 20, "read": 100}
SAME_MODEL = [
    ("claude", spent(**NEW), "msg_1", "claude-opus-4-5", (23, 7, 100)),
    ("claude", spent(input_tokens=3, output_tokens=7), "msg_1", "claude-opus-4-5", (3, 7, 0)),
    ("claude", spent(output_tokens=7), "msg_1", "claude-opus-4-5", None),
    ("claude", spent(input_tokens=True, output_tokens=7), "msg_1", "claude-opus-4-5", None),
    ("claude", spent(input_tokens=-3, output_tokens=7), "msg_1", "claude-opus-4-5", None),
    ("codex", {**counted(123, cached=100), "model": "gpt-5.5"}, "30/20/10", "gpt-5.5", (23, 7, 100)),
    ("codex", counted(123, cached=None), "30/20/10", "", (123, 7, 0)),
    (
        "gemini",
        {**CHAT, "tokens": {"input": 120, "output": 5, "cached": 100, "thoughts": 2, "tool": 3}},
        "g1",
        "gemini-3-pro",
        (23, 7, 100),
    ),
    ("gemini", CHAT, "g1", "gemini-3-pro", None),
    (
        "opencode",
        finished(MESSAGE, total=130, input=3, output=5, reasoning=2, cache=CACHE),
        "prt_1",
        "anthropic/claude-opus-4-5",
        (23, 7, 100),
    ),
    (
        "opencode",
        finished(MESSAGE, input=3, output=7, reasoning=2, cache=CACHE),
        "prt_1",
        "anthropic/claude-opus-4-5",
        (23, 7, 100),
    ),
    (
        "copilot",
        billed(inputTokens=123, outputTokens=7, cacheReadTokens=100, cacheWriteTokens=20),
        "chat-1",
        "gpt-5",
        (23, 7, 100),
    ),
    (
        "copilot",
        billed(inputTokens=3, outputTokens=7, cacheReadTokens=100, cacheWriteTokens=20),
        "chat-1",
        "gpt-5",
        (23, 7, 100),
    ),
    ("copilot", billed(inputTokens=3, outputTokens=7, model="a model\n"), "chat-1", "", (3, 7, 0)),
]


@each("agent, record, key, model, tokens", SAME_MODEL)
def test_each_client_tells_the_model_and_the_tokens_of_a_request(
    agent: str, record: dict[str, Any], key: str, model: str, tokens: tuple[int, int, int] | None
) -> None:
    usage = None if tokens is None else Usage(input=tokens[0], output=tokens[1], cached=tokens[2])
    found = [sign for sign in signs(agent, record) if isinstance(sign, Answered)]
    assert found == [Answered(at=TIME, key=key, model=model, usage=usage)]
    assert may_tell(agent, json.dumps(record).encode())


NOT_ANSWERED = [
    ("claude", {**spent(**NEW), "isSidechain": True}),
    ("claude", {**spent(**NEW), "isApiErrorMessage": True}),
    ("codex", {"type": "event_msg", "payload": {"type": "token_count", "info": None}}),
    ("codex", {"type": "turn_context", "payload": {"model": "gpt-5.5"}}),
    ("gemini", {**CHAT, "model": None}),
    ("copilot", {**billed(inputTokens=3, outputTokens=7), "agentId": "explore"}),
]


@each("agent, record", NOT_ANSWERED)
def test_what_is_no_answer_of_the_sessions_own_counts_for_nothing(agent: str, record: dict[str, Any]) -> None:
    assert [sign for sign in signs(agent, record) if isinstance(sign, Answered)] == []


def test_codex_names_the_model_once_a_turn() -> None:
    of = client("codex")
    assert of is not None
    context: dict[str, Any] = {"type": "turn_context", "payload": {"model": "gpt-5.5"}}
    sifted = of.sift([counted(1), context, counted(2, total=31), counted(3, total=32)])
    found = [sign for record in sifted for sign in signs("codex", record) if isinstance(sign, Answered)]
    assert [sign.model for sign in found] == ["", "gpt-5.5", "gpt-5.5"]


@each("agent, record", NOISE)
def test_noise_is_not_worth_parsing(agent: str, record: dict[str, Any]) -> None:
    assert not may_tell(agent, json.dumps(record, separators=(",", ":")).encode())
    assert not may_tell(agent, json.dumps(record).encode()) and not list(signs(agent, record))


@pytest.mark.deep
@pytest.mark.parametrize("size", [10 << 20])
def test_a_line_of_megabytes_is_read_in_no_time_to_speak_of(size: int) -> None:
    filler = "Exit Code: 1\nOutput: <shellId: 1>\n<summary>exit code 1 "
    text = filler * (size // len(filler))
    for agent, record in (
        ("claude", claude("user", text)),
        ("claude", notice(text)),
        ("claude", result(text, is_error=True)),
        ("codex", command("ls", aggregated_output=text)),
        ("gemini", shell(text)),
        ("gemini", gemini(type="user", content=[{"text": HOOK * 10_000 + text}])),
        ("copilot", complete(result={"content": text})),
        ("opencode", part({"type": "text", "text": text})),
    ):
        assert may_tell(agent, json.dumps(record).encode())
        list(signs(agent, record))


EXAMPLES = [(agent, record) for agent, name in RECORDED for record in recorded(agent, name) if list(signs(agent, record))] + [
    *(("claude", record) for record in (use("TaskUpdate", taskId="1"), result("x", {"task": {"id": "1", "subject": "x"}}))),
    *(("claude", record) for record in (queued(prompt="x"), notice('Background command "x" failed with exit code 7'))),
    ("copilot", complete(success=True, fileEdits=[{"path": "/a"}])),
    ("opencode", tool("apply_patch", metadata=FILES)),
    ("codex", codex("FileChange", changes=MOVED, status="completed")),
]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(), max_size=8),
    st.sampled_from(["", "0", "\ud800", "\0", "completed", 10**400, -1, 1 << 47]),
)
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def nodes(found: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON document, as its container and key."""
    here = list(found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ())
    return [(found, key) for key, _ in here] + [node for _, value in here for node in nodes(value)]


@pytest.mark.deep
@model(examples(2000, 60))
@given(agent=st.sampled_from(AGENTS), record=st.dictionaries(st.text(max_size=4), JUNK, max_size=4))
def test_no_record_is_an_error(agent: str, record: dict[str, Any]) -> None:
    assert all(isinstance(sign, (Asked, Edited, Ended, Planned, CommandRun, Said)) for sign in signs(agent, record))
    found = todos(agent, [record, {"content": record}])
    assert found is None or all(isinstance(item.text, str) for item in found.items)


@pytest.mark.deep
@model(examples(6000, 60))
@given(data=st.data())
def test_a_record_with_other_values_is_no_error(data: st.DataObject) -> None:
    agent, record = data.draw(st.sampled_from(EXAMPLES))
    mutant = json.loads(json.dumps(record))
    for _ in range(data.draw(st.integers(1, 3))):
        places = nodes(mutant)
        container, key = places[data.draw(st.integers(0, len(places) - 1))]
        container[key] = data.draw(JUNK)
    found = list(signs(agent, mutant))
    for sign in found:
        assert sign.at is None or 0 <= sign.at < 1 << 38
        for holder in (sign, *(sign.items if isinstance(sign, Planned) else ())):
            fields = [getattr(holder, name) for name in type(holder).__annotations__]
            assert all(field.encode("utf-8") or not field for field in fields if isinstance(field, str))
    assert found == list(signs(agent, mutant))
    assert not found or may_tell(agent, json.dumps(mutant).encode())
    assert agent == "opencode" or all(not list(signs(other, mutant)) for other in ("cursor", "", "opencode", "kilo"))
