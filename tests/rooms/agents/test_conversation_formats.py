"""What the clients' transcripts say, read and renamed; lines as the real clients write them, and lines nobody writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.agents import records as reading
from gitbaton.agents.claude import folder_of
from gitbaton.agents.client import client
from gitbaton.agents.records import MAX_LINE, Renamed
from gitbaton.agents.signs import Message
from tests.kit.tables import each

AGENTS = ("claude", "codex", "gemini", "copilot", "cursor", "opencode", "kilo", "qwen", "droid", "")
NEW = "0f0f0f0f-0000-4000-8000-000000000000"
OLD = "126d733a-9d0b-4572-8a3a-1bab79f5ecab"


def message_id(agent: str, line: bytes) -> str | None:
    of = client(agent)
    return reading.message_id(of, line) if of is not None else None


def messages(agent: str, raw: bytes) -> list[Message]:
    of = client(agent)
    return reading.messages(of, raw) if of is not None else []


def open_call(agent: str, raw: bytes) -> str | None:
    of = client(agent)
    return reading.open_call(of, raw) if of is not None else None


def renamed(agent: str, raw: bytes, session: str, *, foreign: bool) -> Renamed | None:
    of = client(agent)
    return reading.renamed(of, raw, session, foreign=foreign) if of is not None else None


def places(agent: str, session: str, env: dict[str, str]) -> list[tuple[str, str]]:
    of = client(agent)
    return reading.where(of, session, env) if of is not None else []


def rows(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def said(uuid: str, parent: str | None, kind: str, content: object, **more: object) -> dict[str, object]:
    """A line of Claude Code's."""
    message = {"role": kind, "content": content}
    return {"parentUuid": parent, "type": kind, "message": message, "uuid": uuid, "sessionId": OLD, **more}


CALL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}
ANSWER = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "a.txt"}, {"type": "image"}]}
PROMPT = {"type": "prompt_snapshot", "systemPrompt": ["obey"]}
CLAUDE = (
    {"type": "queue-operation", "operation": "enqueue", "sessionId": OLD, "content": "hello"},
    said("u1", None, "user", "hello", permissionMode="bypassPermissions"),
    {"parentUuid": "u1", "type": "attachment", "attachment": PROMPT, "uuid": "a1", "sessionId": OLD},
    {"parentUuid": "a1", "type": "attachment", "attachment": {"type": "date"}, "uuid": "a2", "sessionId": OLD},
    {"type": "api-request", "id": "r-1", "sessionId": OLD},
    said("u2", "a2", "assistant", [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look"}]),
    said("u3", "u2", "assistant", [CALL]),
    said("u4", "u3", "user", [ANSWER]),
    said("u5", "u4", "user", "a side", isSidechain=True),
    said("u6", "u4", "user", [{"type": "text", "text": "a reminder"}], isMeta=True),
    {"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "uuid": "u7", "parentUuid": None},
    {"type": "attachment", "attachment": {"type": "hook_additional_context", "content": ["step=x"]}, "uuid": "a3"},
)
META = {"id": OLD, "session_id": OLD, "cwd": "/x", "base_instructions": {"text": "obey"}, "model_provider": "stub"}


def item(**payload: object) -> dict[str, object]:
    """A line of Codex's."""
    return {"timestamp": "2026-11-21T01:05:25.341Z", "type": "response_item", "payload": payload}


CODEX = (
    {"type": "session_meta", "payload": META},
    {"type": "turn_context", "payload": {"approval_policy": "never"}},
    {"type": "event_msg", "payload": {"type": "task_started", "thread_id": OLD}},
    item(type="message", id="m1", role="developer", content=[{"type": "input_text", "text": "obey"}]),
    item(type="message", id="m2", role="user", content=[{"type": "input_text", "text": "hello"}]),
    item(type="reasoning", id="rs", summary=[]),
    item(type="function_call", id="f1", name="exec_command", arguments='{"cmd": "ls"}', call_id="c1"),
    item(type="function_call_output", id="f2", call_id="c1", output="a.txt"),
    item(type="custom_tool_call", call_id="c2", name="apply_patch", input="*** Begin"),
    item(type="custom_tool_call_output", call_id="c2", output=[{"type": "input_text", "text": "done"}]),
    item(type="local_shell_call", call_id="c3", action={"command": "pwd"}),
    {"type": "compacted", "payload": {"message": "so far"}},
    item(type="message", role="assistant", content=[{"type": "output_text", "text": "bye"}]),
)
GEMINI = (
    {"sessionId": OLD, "projectHash": "h", "kind": "main"},
    {"id": "g1", "type": "user", "content": [{"text": "hello"}]},
    {"id": "g2", "type": "gemini", "content": "I lo"},
    {"$set": {"lastUpdated": "now"}},
    {
        "id": "g2",
        "type": "gemini",
        "content": "I look",
        "toolCalls": [{"name": "ls", "args": {"path": "."}, "resultDisplay": "a.txt"}],
    },
    {"id": "g3", "type": "user", "content": "oops"},
    {"$rewindTo": "g3"},
    {"$set": {"messages": [{"id": "g2", "type": "gemini", "content": "old"}, {"id": "g4", "type": "info", "content": "note"}]}},
)
COPILOT = (
    {"type": "session.start", "data": {"sessionId": OLD}, "id": "e0"},
    {"type": "user.message", "data": {"content": "hello"}, "id": "e1"},
    {"type": "assistant.message", "data": {"content": "", "toolRequests": []}, "id": "e2"},
    {"type": "tool.execution_start", "data": {"toolCallId": "t", "toolName": "view", "arguments": {"path": "a"}}, "id": "e3"},
    {"type": "tool.execution_complete", "data": {"toolCallId": "t", "result": {"content": "text"}}, "id": "e4"},
    {"type": "session.compaction_complete", "data": {"summaryContent": "so far"}, "id": "e5"},
)


def told(agent: str, *records: Any) -> list[tuple[str, str]]:
    return [(f"{m.who} {m.name}".strip(), m.text) for m in messages(agent, rows(*records))]


def test_what_was_said_to_claude() -> None:
    assert told("claude", *CLAUDE) == [
        ("user", "hello"),
        ("assistant", "I look"),
        ("tool Bash", "ls"),
        ("tool Bash", "a.txt\n[image]"),
        ("system", "a reminder"),
        ("system", "Conversation compacted"),
        ("system", "step=x"),
    ]


def test_what_was_said_to_codex() -> None:
    assert told("codex", *CODEX) == [
        ("system", "obey"),
        ("user", "hello"),
        ("tool exec_command", '{"cmd": "ls"}'),
        ("tool exec_command", "a.txt"),
        ("tool apply_patch", "*** Begin"),
        ("tool apply_patch", "done"),
        ("tool local_shell", "pwd"),
        ("system", "so far"),
        ("assistant", "bye"),
    ]


def test_what_was_said_to_gemini_and_copilot() -> None:
    assert told("gemini", *GEMINI) == [
        ("user", "hello"),
        ("assistant", "I look"),
        ("tool ls", '{"path": "."}'),
        ("tool ls", "a.txt"),
        ("system", "note"),
    ]
    assert told("gemini", *GEMINI, {"$rewindTo": "unknown"}) == []
    given = {"functionResponse": {"name": "edit", "response": {"output": "Modified."}}}
    call = {"name": "edit", "args": {"path": "a"}, "resultDisplay": {"fileDiff": "-a"}, "result": [given]}
    edit = {"id": "g1", "type": "gemini", "content": "", "toolCalls": [call]}
    assert told("gemini", edit) == [("tool edit", '{"path": "a"}'), ("tool edit", "Modified.")]
    tool = ("tool view", '{"path": "a"}'), ("tool view", "text")
    assert told("copilot", *COPILOT) == [("user", "hello"), *tool, ("system", "so far")]


@pytest.mark.parametrize(
    ("agent", "record", "expected"),
    [
        ("claude", CLAUDE[1], "u1"),
        ("claude", CLAUDE[2], None),
        ("claude", CLAUDE[4], None),
        ("codex", CODEX[0], None),
        ("codex", CODEX[4], "m2"),
        ("codex", item(type="local_shell_call", call_id="c3"), "c3"),
        ("gemini", GEMINI[1], "g1"),
        ("gemini", GEMINI[3], None),
        ("copilot", COPILOT[5], "e5"),
        ("copilot", {"id": "a b"}, None),
        ("copilot", {"id": 3}, None),
        ("copilot", {"id": "x" * 129}, None),
        ("claude", {"type": "user", "uuid": "x\n"}, None),
        ("codex", {"type": "response_item", "payload": []}, None),
        ("claude", [1], None),
    ],
)
def test_the_id_of_a_message(agent: str, record: object, expected: str | None) -> None:
    assert message_id(agent, json.dumps(record).encode()) == expected


def test_a_line_that_is_too_long_is_not_looked_into() -> None:
    fits = json.dumps({"id": "a", "x": "y" * (MAX_LINE - 30)}).encode()
    assert len(fits) <= MAX_LINE and message_id("gemini", fits) == "a"
    assert message_id("gemini", fits + b" " * 30) is None


def test_a_call_without_an_answer_is_seen() -> None:
    assert open_call("claude", rows(*CLAUDE)) is None
    assert open_call("claude", rows(*CLAUDE[:7])) == "Bash"
    assert open_call("codex", rows(*CODEX[:10])) is None
    assert open_call("codex", rows(*CODEX)) == "local_shell"
    assert open_call("codex", rows(*CODEX[:9])) == "apply_patch"
    assert open_call("codex", b"") is None


def again(agent: str, *records: Any, foreign: bool = False) -> list[Any]:
    done = renamed(agent, rows(*records) + b"{bad\n[1]\n\n \n\xff\n", NEW, foreign=foreign)
    assert done is not None and done.data.endswith(b"\n") and done.left_out == 3
    return [json.loads(row) for row in done.data.splitlines()]


def no_number(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


@each("foreign", [False, True])
@each("agent", ["claude", "codex"])
def test_a_line_that_cannot_be_written_again_is_left_out(agent: str, foreign: bool) -> None:
    records: tuple[Any, ...] = CLAUDE if agent == "claude" else CODEX
    odd = [b'{"type": "user", "uuid": "u9", "n": %s}' % n for n in (b"1e999", b"[-1E+400]", b"NaN", b"-Infinity", b"9" * 5000)]
    deep = [b'{"type": "user", "a":' * n + b"1" + b"}" * n for n in (100, 50_000, 100_000)]
    done = renamed(agent, b"\n".join([rows(records[0]), *odd, *deep, rows(*records[1:])]), NEW, foreign=foreign)
    assert done is not None and done.left_out == len(odd) + len(deep) - 1
    left = [json.loads(row, parse_constant=no_number) for row in done.data.splitlines()]
    plain = renamed(agent, rows(*records), NEW, foreign=foreign)
    assert plain is not None and plain.left_out == 0
    assert [r for r in left if "a" not in r] == [json.loads(row) for row in plain.data.splitlines()]


def test_a_session_of_codex_without_its_first_line_is_none() -> None:
    assert renamed("codex", rows(*CODEX).replace(b'"cwd": "/x"', b'"cwd": 1e999'), NEW, foreign=False) is None


def test_only_the_session_of_claude_changes() -> None:
    assert again("claude", *CLAUDE) == [{**r, "sessionId": NEW} if "sessionId" in r else r for r in CLAUDE]


def test_only_the_session_of_codex_changes() -> None:
    parent = {"type": "session_meta", "payload": {"id": "parent", "session_id": "parent"}}
    done = again("codex", *CODEX, parent)
    assert done[0]["payload"] == {**META, "id": NEW, "session_id": NEW}
    assert done[2]["payload"]["thread_id"] == NEW and done[-1] == parent
    assert done[3:-1] == list(CODEX[3:]) and done[1] == CODEX[1]


def test_of_a_stranger_only_what_was_said_stays() -> None:
    done = again("claude", *CLAUDE, foreign=True)
    assert [(r["uuid"], r["parentUuid"]) for r in done] == [
        *[("u1", None), ("u2", "u1"), ("u3", "u2"), ("u4", "u3"), ("u5", "u4"), ("u6", "u4"), ("u7", None)]
    ]
    assert "obey" not in json.dumps(done) and "permissionMode" not in json.dumps(done)
    codex = again("codex", *CODEX, foreign=True)
    assert codex[0]["payload"] == {"id": NEW, "session_id": NEW, "cwd": "/x", "model_provider": "stub"}
    assert {r["type"] for r in codex} == {"session_meta", "response_item", "compacted"}
    assert "obey" not in json.dumps(codex) and "never" not in json.dumps(codex) and len(codex) == len(CODEX) - 3


def test_parents_in_a_circle_end() -> None:
    circle = [{"type": "x", "uuid": a, "parentUuid": b} for a, b in (("a", "b"), ("b", "a"), ("c", "c"))]
    done = again("claude", *circle, said("u1", "a", "user", "x"), said("u2", "c", "user", "y"), foreign=True)
    assert [r["parentUuid"] for r in done] == [None, None]


@pytest.mark.parametrize(
    ("agent", "raw"),
    [
        ("claude", b""),
        ("claude", rows({"type": "mode"})),
        ("codex", b""),
        ("codex", rows(*CODEX[1:])),
        ("codex", rows(CODEX[0])),
        ("codex", rows({"type": "session_meta", "payload": {"id": 3}}, *CODEX[1:])),
        ("codex", rows({"type": "session_meta", "payload": None}, *CODEX[1:])),
    ],
)
@pytest.mark.parametrize("foreign", [False, True])
def test_what_cannot_be_resumed_is_not_written(agent: str, raw: bytes, foreign: bool) -> None:
    assert renamed(agent, raw, NEW, foreign=foreign) is None


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["user", "tool_use", "message", "system"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "message", "content", "uuid", "id", "payload", "text", "input", "call_id", "$set", "messages", "data"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@pytest.mark.deep
@given(records=st.lists(json_values, max_size=6), noise=st.binary(max_size=40))
def test_nothing_that_anybody_writes_is_an_error(records: list[Any], noise: bytes) -> None:
    raw = rows(*records) + noise + b"\n" + b'{"a":' * 5000 + b'\n{"id": NaN}\n{"id": ' + b"9" * 5000 + b"}\n"
    for agent in AGENTS:
        assert all(isinstance(m, Message) and m.text.strip() for m in messages(agent, raw))
        open_call(agent, raw)
        for row in raw.split(b"\n"):
            message_id(agent, row)
    for agent in ("claude", "codex"):
        for foreign in (False, True):
            done = renamed(agent, raw, NEW, foreign=foreign)
            assert done is None or all(isinstance(json.loads(row), dict) for row in done.data.splitlines())


def test_deep_content_is_cut() -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [{"content": deep}]
    assert told("claude", said("u", None, "user", deep)) == [("user", "...")]


LONG = "/tmp/tc/run/" + "/".join(f"longdirectory_{n}" for n in range(18))


@pytest.mark.parametrize(
    ("directory", "folder"),
    [
        ("/tmp/tc/run/proj.a_b", "-tmp-tc-run-proj-a-b"),
        ("/tmp/tc/run/\u00fcn\u00ef code", "-tmp-tc-run--n--code"),
        ("/tmp/tc/run/nfd-e\u0301x-\U0001f600", "-tmp-tc-run-nfd-e-x---"),
        (LONG, "-tmp-tc-run-" + "-".join(f"longdirectory-{n}" for n in range(11)) + "-longdirecto-3nbu0x"),
    ],
)
def test_the_folder_is_the_one_that_claude_made(directory: str, folder: str) -> None:
    assert folder_of(directory) == folder


def test_places_are_below_the_client_s_own_folder() -> None:
    env = {"HOME": "/h", "CODEX_HOME": "/c"}
    assert places("codex", "a-1", env)[1] == ("/c", "archived_sessions/rollout-*-a-1.jsonl")
    assert places("claude", "a-1", env) == [("/h/.claude", "projects/*/a-1.jsonl")]
    assert places("gemini", "0123456789", env) == [("/h/.gemini", "tmp/*/chats/session-*-01234567.jsonl")]
    assert places("droid", "a-1", env) == [("/h/.factory", "sessions/*/a-1.jsonl")]
    assert places("qwen", "a-1", {**env, "QWEN_HOME": "/q"}) == [("/q", "projects/*/chats/a-1.jsonl")]
    assert [places(a, "a-1", env) for a in ("cursor", "opencode", "kilo", "", "x")] == [[]] * 5
    assert [places("claude", s, env) for s in ("../a", "a/b", "*", "", "a\n", "x" * 129)] == [[]] * 6
    assert places("claude", "a", {"HOME": "rel"}) == [] and places("claude", "a", {}) == []
