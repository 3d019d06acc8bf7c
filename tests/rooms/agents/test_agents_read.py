"""Payloads of coding agents to events: every captured one, broken ones, and any JSON at all."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.agents.client import read
from gitbaton.base.clients import NAMES, HookEvent, Inject, Moment
from gitbaton.base.values import replace
from tests.kit.payloads import captured, opencode_events
from tests.kit.tables import each

DIR = "/home/dev/project"
CLAUDE: dict[str, Any] = {
    "agent": "claude",
    "session": "e8b31b82-3a88-40ec-b500-13cf0a0662a6",
    "cwd": DIR,
    "transcript": "/home/dev/.claude/projects/-home-dev-project/e8b31b82-3a88-40ec-b500-13cf0a0662a6.jsonl",
}
CHILDS = f"{CLAUDE['transcript'].removesuffix('.jsonl')}/subagents/agent-a76a5b8b03fbbd980.jsonl"
CODEX: dict[str, Any] = {
    "agent": "codex",
    "session": "01a1f9cb-e9e1-7112-be19-dda67f9d62e0",
    "cwd": DIR,
    "transcript": "/home/dev/.codex/sessions/2026/11/20/rollout-2026-11-20T16-30-52-01a1f9cb-e9e1-7112-be19-dda67f9d62e0.jsonl",
}
GEMINI: dict[str, Any] = {
    "agent": "gemini",
    "session": "a695a169-8652-468b-bcde-9b1983bf5809",
    "cwd": DIR,
    "transcript": "/home/dev/.gemini/tmp/repo/chats/session-2026-11-20T16-30-a695a169.jsonl",
}
COPILOT: dict[str, Any] = {"agent": "copilot", "session": "332c3594-4d3b-4fdf-be30-f9dcdfd4aeb3", "cwd": DIR}
COPILOT_FILE = "/home/dev/.copilot/session-state/332c3594-4d3b-4fdf-be30-f9dcdfd4aeb3/events.jsonl"
QWEN: dict[str, Any] = {
    "agent": "qwen",
    "session": "e1bc1b6a-8ef1-4031-9d3a-cab3edf07fb5",
    "cwd": DIR,
    "transcript": "/home/dev/.qwen/projects/-home-dev-project/chats/e1bc1b6a-8ef1-4031-9d3a-cab3edf07fb5.jsonl",
}
QWENS = f"{QWEN['transcript'].removesuffix('.jsonl').replace('chats', 'subagents')}/agent-general-purpose-call_13.jsonl"
DROID: dict[str, Any] = {
    "agent": "droid",
    "session": "7da4655b-c5a6-4c71-8da8-91196765f26f",
    "cwd": DIR,
    "transcript": "/home/dev/.factory/sessions/-home-dev-project/7da4655b-c5a6-4c71-8da8-91196765f26f.jsonl",
}
ASKED = "Create hello.txt"
LOOK, PRINT = "cat hello.txt && git status --short", "printf %s 'hello from the stub model\n' > 'hello.txt'"
MOMENTS = (
    *("start", "prompt", "request", "edit", "compact", "compacted", "turn", "end", "command", "child-start", "child-end"),
    "other",
)
INJECTS = ("no", "full", "short", "flagged", "nudge")

HELLO = ("/home/dev/project/hello.txt",)
EXPECTED: dict[str, list[HookEvent]] = {
    "claude": [
        HookEvent(**CLAUDE, name="SessionStart", moment="start", inject="full", source="startup"),
        HookEvent(**CLAUDE, name="UserPromptSubmit", moment="prompt", inject="nudge", prompt=ASKED),
        HookEvent(**CLAUDE, name="PreToolUse", moment="other"),
        HookEvent(**CLAUDE, name="PostToolUse", moment="edit", edited=HELLO),
        HookEvent(**CLAUDE, name="PostToolBatch", moment="edit"),
        HookEvent(**CLAUDE, name="PreToolUse", moment="command", command=LOOK),
        HookEvent(**CLAUDE, name="PostToolUse", moment="edit"),
        HookEvent(**CLAUDE, name="Stop", moment="turn", said="STUB: I wrote hello.txt.", running=()),
        HookEvent(**CLAUDE, name="PreCompact", moment="compact"),
        HookEvent(**{**CLAUDE, "transcript": CHILDS}, name="SubagentStop", moment="child-end", child=True),
        HookEvent(**CLAUDE, name="SessionStart", moment="start", inject="full", source="compact"),
        HookEvent(**CLAUDE, name="PostCompact", moment="compacted"),
        HookEvent(**CLAUDE, name="SessionEnd", moment="end"),
    ],
    "codex": [
        HookEvent(**CODEX, name="SessionStart", moment="start", inject="full", source="startup"),
        HookEvent(**CODEX, name="UserPromptSubmit", moment="prompt", inject="nudge", prompt=ASKED),
        HookEvent(**CODEX, name="PreToolUse", moment="command", command=PRINT),
        HookEvent(**CODEX, name="PostToolUse", moment="edit"),
        HookEvent(**CODEX, name="PreCompact", moment="compact"),
        HookEvent(**CODEX, name="PostCompact", moment="compacted"),
        HookEvent(**CODEX, name="SessionStart", moment="start", inject="full", source="compact"),
        HookEvent(**CODEX, name="Stop", moment="turn", said="STUB: done after auto compaction."),
        HookEvent(**CODEX, name="SessionEnd", moment="end"),
        HookEvent(**CODEX, name="SessionStart", moment="start", inject="full", source="resume"),
    ],
    "gemini": [
        HookEvent(**GEMINI, name="SessionStart", moment="start", inject="full", source="startup"),
        HookEvent(**GEMINI, name="BeforeAgent", moment="prompt", inject="short", prompt=ASKED),
        HookEvent(**GEMINI, name="PreCompress", moment="request"),
        HookEvent(**GEMINI, name="BeforeTool", moment="other"),
        HookEvent(**GEMINI, name="AfterTool", moment="edit", edited=HELLO),
        HookEvent(**GEMINI, name="BeforeTool", moment="command", command=LOOK),
        HookEvent(**GEMINI, name="AfterTool", moment="edit"),
        HookEvent(**GEMINI, name="AfterAgent", moment="turn", prompt=ASKED, said="STUB: I wrote hello.txt."),
        HookEvent(**GEMINI, name="SessionEnd", moment="end"),
        HookEvent(**GEMINI, name="SessionStart", moment="start", inject="full", source="resume"),
    ],
    "copilot": [
        HookEvent(**COPILOT, name="sessionStart", moment="start", inject="full", source="new"),
        HookEvent(**COPILOT, name="userPromptSubmitted", moment="prompt", inject="flagged", prompt=ASKED),
        HookEvent(**COPILOT, name="preToolUse", moment="other"),
        HookEvent(**COPILOT, name="postToolUse", moment="edit", inject="flagged", edited=HELLO),
        HookEvent(**COPILOT, name="preToolUse", moment="command", command="cat hello.txt"),
        HookEvent(**COPILOT, name="postToolUse", moment="edit", inject="flagged"),
        HookEvent(**COPILOT, name="preCompact", moment="compact", transcript=COPILOT_FILE),
        HookEvent(**COPILOT, name="agentStop", moment="turn", transcript=COPILOT_FILE),
        HookEvent(**COPILOT, name="sessionEnd", moment="end"),
        HookEvent(**COPILOT, name="sessionStart", moment="start", inject="full", source="resume"),
    ],
    "droid": [
        HookEvent(**DROID, name="SessionStart", moment="start", inject="full", source="startup"),
        HookEvent(**DROID, name="UserPromptSubmit", moment="prompt", inject="flagged", prompt="one"),
        HookEvent(**DROID, name="PreToolUse", moment="other"),
        HookEvent(**DROID, name="PreToolUse", moment="command", command="sh -c 'exit 3'"),
        HookEvent(**DROID, name="PostToolUse", moment="edit", inject="flagged", edited=(f"{DIR}/src/x.py",)),
        HookEvent(**DROID, name="PostToolUse", moment="edit", inject="flagged"),
        HookEvent(**DROID, name="Stop", moment="turn"),
        HookEvent(**DROID, name="PreCompact", moment="compact"),
        HookEvent(
            agent="droid",
            session="d620ced2-73fa-4e5f-bf8e-6394ab4994e1",
            cwd=DIR,
            transcript=DROID["transcript"].replace(DROID["session"], "d620ced2-73fa-4e5f-bf8e-6394ab4994e1"),
            name="SessionStart",
            moment="start",
            inject="full",
            source="compact",
        ),
        HookEvent(**DROID, name="SessionEnd", moment="end"),
    ],
    "qwen": [
        HookEvent(**QWEN, name="SessionStart", moment="start", inject="full", source="startup"),
        HookEvent(**QWEN, name="UserPromptSubmit", moment="prompt", inject="nudge", prompt="Do the release of half()"),
        HookEvent(**QWEN, name="PreToolUse", moment="other"),
        HookEvent(**QWEN, name="TodoCreated", moment="other"),
        HookEvent(**QWEN, name="UserPromptSubmit", moment="other", prompt=""),
        HookEvent(**QWEN, name="PostToolUse", moment="edit", edited=(f"{DIR}/src/x.py",)),
        HookEvent(**QWEN, name="PreToolUse", moment="command", command="sh -c 'exit 3'"),
        HookEvent(**QWEN, name="PostToolUseFailure", moment="other"),
        HookEvent(
            **QWEN,
            name="Stop",
            moment="turn",
            said="LAST-WORDS-1: the rounding bug is fixed; next is the changelog.",
            running=(),
        ),
        HookEvent(**QWEN, name="PreCompact", moment="compact"),
        HookEvent(**QWEN, name="PostCompact", moment="compacted"),
        HookEvent(**QWEN, name="SessionStart", moment="start", inject="full", source="compact"),
        HookEvent(**QWEN, name="SubagentStart", moment="child-start", child=True, who="general-purpose"),
        HookEvent(**QWEN, name="PreToolUse", moment="command", child=True, command="echo sub"),
        HookEvent(**QWEN, name="PostToolUse", moment="edit", child=True),
        HookEvent(**{**QWEN, "transcript": QWENS}, name="SubagentStop", moment="child-end", child=True, who="general-purpose"),
        HookEvent(**QWEN, name="UserPromptExpansion", moment="other", prompt="Please fix the issue 12 now."),
        HookEvent(**QWEN, name="UserPromptSubmit", moment="prompt", inject="nudge", prompt="/fix 12"),
        HookEvent(**QWEN, name="SessionStart", moment="start", inject="full", source="resume"),
    ],
}


def told(agent: str, event: str, payload: object, **env: str) -> HookEvent:
    """The event of a payload that is not silent."""
    found = read(agent, event, payload if isinstance(payload, bytes) else json.dumps(payload).encode(), env)
    assert found is not None
    return found


def test_little_is_loaded() -> None:
    code = "import sys; from gitbaton.agents.client import read; read('codex', 'Stop', b'{}', {}); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in loaded if name.startswith("gitbaton.agents.")}
    assert ours == {f"gitbaton.agents.{name}" for name in ("client", "codex", "payload", "records", "signs")}


@each("agent", EXPECTED)
def test_every_captured_payload(agent: str) -> None:
    assert [read(agent, c.event, c.data, c.env) for c in captured(agent)] == EXPECTED[agent]


def test_opencode_through_our_plugin() -> None:
    seen = opencode_events()
    session, folder = seen["session.compacting"]["i"]["sessionID"], seen["plugin.init"]["directory"]
    payload = {"sessionID": session, "directory": folder}
    base = HookEvent(agent="opencode", name="context", moment="start", session="ses_e0633f7d4ffebXcTStR9tvuGWa", cwd=DIR)
    assert told("opencode", "context", payload) == replace(base, inject="full")
    assert told("opencode", "compacting", payload) == replace(base, name="compacting", moment="compact", inject="full")
    said = replace(base, name="prompt", moment="prompt", prompt="do it", child=True)
    assert told("opencode", "prompt", {**payload, "child": True, "prompt": "do it"}) == said
    for name, moment in (("edited", "edit"), ("idle", "turn"), ("compacted", "compacted"), ("ended", "end")):
        assert told("opencode", name, {**payload, "child": False}) == replace(base, name=name, moment=moment), name
    assert not told("opencode", "idle", {**payload, "child": "yes"}).child
    asked = replace(base, name="command", moment="command", command="git clean -fd", child=True)
    assert told("opencode", "command", {**payload, "child": True, "command": "git clean -fd"}) == asked


def test_only_the_shell_runs_a_command() -> None:
    other = {"tool_name": "Write", "tool_input": {"command": "x"}}
    for fields in (other, {"tool_name": "Bash"}, {"tool_name": "Bash", "tool_input": {"command": 3}}):
        found = told("claude", "PreToolUse", {"cwd": DIR, **fields})
        assert (found.moment, found.command) == ("other", None), fields
    words = {"tool_name": "Bash", "tool_input": {"command": ["bash", "-lc", "git clean -fd"]}}
    assert told("codex", "PreToolUse", words).command == "bash -lc 'git clean -fd'"
    for args in ({"command": "git clean -fd"}, json.dumps({"command": "git clean -fd"})):  # some versions give a text
        assert told("copilot", "preToolUse", {"toolName": "bash", "toolArgs": args}).command == "git clean -fd"


def test_cursor_as_documented() -> None:
    payload = {
        "conversation_id": "c-1",
        "generation_id": "g-1",
        "cursor_version": "2.1",
        "workspace_roots": [DIR, "/elsewhere"],
        "transcript_path": "/home/dev/t.jsonl",
        "cwd": "/not/this",
    }
    base = HookEvent(agent="cursor", name="", moment="other", session="c-1", cwd=DIR, transcript="/home/dev/t.jsonl")
    table: tuple[tuple[str, Moment, Inject], ...] = (
        ("sessionStart", "start", "full"),
        ("beforeSubmitPrompt", "prompt", "no"),
        ("afterFileEdit", "edit", "no"),
        ("postToolUse", "edit", "flagged"),
        ("preCompact", "compact", "no"),
        ("stop", "turn", "no"),
        ("sessionEnd", "end", "no"),
        ("afterShellExecution", "other", "no"),
    )
    for name, moment, inject in table:
        assert told("cursor", name, payload) == replace(base, name=name, moment=moment, inject=inject), name
    assert told("cursor", "beforeSubmitPrompt", {**payload, "prompt": "hi"}).prompt == "hi"
    assert told("cursor", "sessionStart", {"session_id": "s-1"}).session == "s-1"
    for roots in ([], None, "/a", [5], [["/a"]], ["a"], {"0": "/a"}):
        assert told("cursor", "stop", {"workspace_roots": roots}, CURSOR_PROJECT_DIR="/env").cwd == "/env", roots


@pytest.mark.parametrize(
    ("name", "moment", "inject"),
    [
        ("SessionStart", "start", "full"),
        ("UserPromptSubmit", "prompt", "flagged"),
        ("PostToolUse", "edit", "flagged"),
        ("PreCompact", "compact", "no"),
        ("Stop", "turn", "no"),
        ("SessionEnd", "end", "no"),
        ("SubagentStop", "other", "no"),
    ],
)
def test_copilot_in_the_other_spelling(name: str, moment: Moment, inject: Inject) -> None:
    payload = {"hook_event_name": name, "session_id": "s", "cwd": "/w", "transcript_path": "/t", "prompt": "p"}
    event = HookEvent(
        agent="copilot", name=name, moment=moment, inject=inject, session="s", cwd="/w", transcript="/t", prompt="p"
    )
    assert told("copilot", name, payload) == event


@pytest.mark.parametrize(
    ("agent", "name", "moment"),
    [("claude", "StopFailure", "turn"), ("codex", "Interrupt", "turn"), ("codex", "StopFailure", "other")],
)
def test_events_that_no_capture_holds(agent: str, name: str, moment: str) -> None:
    assert told(agent, name, {}).moment == moment


@each("agent", ["claude", "codex"])
def test_a_subagent_carries_its_id(agent: str) -> None:
    assert told(agent, "PostToolUse", {"agent_id": "a1", "agent_type": "explorer"}).child
    for other in ("", None, 7, True, ["a"], {"a": 1}):
        assert not told(agent, "PostToolUse", {"agent_id": other, "agent_type": "explorer"}).child, other


def test_claude_is_silent_where_another_client_runs_its_hooks() -> None:
    data = captured("claude")[0].data
    for payload in (data, b"", b"\x00"):
        assert read("claude", "SessionStart", payload, {"COPILOT_CLI": "1", "CLAUDE_PROJECT_DIR": DIR}) is None
        assert read("claude", "SessionStart", payload, {"CURSOR_VERSION": "2.1"}) is None
    assert read("claude", "Stop", b'{"cursor_version":"2.1"}', {}) is None
    assert read("claude", "Stop", b'{"cursor_version":"2.1","x":"' + b"a" * (9 << 20) + b'"}', {}) is None
    assert read("claude", "Stop", data, {"COPILOT_MODEL": "m", "CURSOR_TRACE_ID": "t"}) is not None
    assert read("copilot", "agentStop", data, {"COPILOT_CLI": "1"}) is not None
    assert read("cursor", "stop", b'{"cursor_version":"2.1"}', {"CURSOR_VERSION": "2.1"}) is not None


@each("agent", ["", "Claude", "claude ", "cline", "../claude", "payload", "translate", "claude\0"])
def test_an_unknown_agent_is_silent(agent: str) -> None:
    assert read(agent, "SessionStart", captured("claude")[0].data, {}) is None


@each("word", ["", "sessionstart", "SESSIONSTART", "SessionStart ", "sessionStart", "Nope", "\udcff", "__len__"])
def test_an_unknown_event_is_read_and_means_nothing(word: str) -> None:
    event = told("claude", word, captured("claude")[0].payload)
    assert event == HookEvent(**CLAUDE, name=word, moment="other")


HOME_OF = {
    "claude": "CLAUDE_PROJECT_DIR",
    "gemini": "GEMINI_PROJECT_DIR",
    "copilot": "COPILOT_PROJECT_DIR",
    "cursor": "CURSOR_PROJECT_DIR",
    "qwen": "QWEN_PROJECT_DIR",
    "droid": "FACTORY_PROJECT_DIR",
}
START = {"copilot": "sessionStart", "cursor": "sessionStart", "opencode": "context", "kilo": "context"}
BROKEN = {
    "empty": b"",
    "blank": b" \n",
    "text": b"hello",
    "cut": captured("claude")[0].data[:-9],
    "two": b"{}{}",
    "array": b'[{"session_id":"s","cwd":"/w"}]',
    "string": b'"cwd"',
    "null": b"null",
    "number": b"1e999",
    "digits": b"9" * 10_000,
    "nul": b"\0" * 100,
    "nul inside": b'{"session_id":"s"\0,"cwd":"/w"}',
    "not utf-8": b"\xff\xfe{}",
    "deep array": b"[" * 200_000,
    "deep object": b'{"a":' * 200_000,
    "wrong types": json.dumps(
        dict.fromkeys(("session_id", "sessionId", "sessionID", "conversation_id", "cwd", "prompt"), 5)
    ).encode(),
    "relative": b'{"cwd":"a/b","directory":"./a","workspace_roots":["a"],"transcript_path":"t","transcriptPath":"~/t"}',
    "no path": b'{"cwd":"/a\\u0000b","directory":"/\\ud800","workspace_roots":["/a\\u0000"],"transcript_path":"/\\u0000"}',
    "too long": json.dumps(dict.fromkeys(("cwd", "directory", "transcript_path", "transcriptPath"), "/" * 4096)).encode(),
    "no word": json.dumps(dict.fromkeys(("session_id", "sessionId", "sessionID", "source"), "s" * 1025)).encode(),
    "ten megabytes of nothing": b"\xff" * (10 << 20),
}


@each("broken", BROKEN)
@each("agent", NAMES)
def test_of_a_broken_payload_word_and_environment_count(agent: str, broken: str) -> None:
    name = START.get(agent, "SessionStart")
    home = HOME_OF.get(agent)
    bare = HookEvent(agent=agent, name=name, moment="start", inject="full")
    assert told(agent, name, BROKEN[broken]) == bare
    assert told(agent, name, BROKEN[broken], **({home: "/env"} if home else {})) == replace(bare, cwd="/env" if home else None)
    assert told(agent, name, BROKEN[broken], **({home: "env"} if home else {})) == bare


def test_the_environment_of_another_client_does_not_count() -> None:
    everything = {name: f"/{name}" for name in (*HOME_OF.values(), "GEMINI_CWD")}
    places = {agent: told(agent, "x", b"", **everything).cwd for agent in NAMES}
    own = {agent: f"/{name}" for agent, name in HOME_OF.items()}
    assert places == {**own, "gemini": "/GEMINI_CWD", "codex": None, "opencode": None, "kilo": None}
    assert told("claude", "Stop", {"cwd": "/payload"}, CLAUDE_PROJECT_DIR="/env").cwd == "/payload"


LONG = "x" * (10 << 20)


@pytest.mark.full
@each("agent", EXPECTED)
@each("field", ["prompt", "tool_response", "tool_input", "toolArgs"])
def test_ten_megabytes_in_one_field(agent: str, field: str) -> None:
    for call, expected in zip(captured(agent), EXPECTED[agent], strict=True):
        payload = {k: v for k, v in call.payload.items() if k != field} | {field: LONG if field == "prompt" else {"a": LONG}}
        data = json.dumps(payload).encode()
        for text in (data, data[: 9 << 20]):  # whole, and as the reader cuts it
            found = read(agent, call.event, text, call.env)
            assert found is not None
            for name in ("agent", "name", "session", "cwd", "transcript", "source", "child", "who"):
                assert getattr(found, name) == getattr(expected, name), (call.event, name)
            assert field == "prompt" or found.prompt == expected.prompt


def test_of_a_large_payload_the_head_counts() -> None:
    pad = b" " * (9 << 20)
    assert told("claude", "Stop", b'{"session_id":"s","cwd":"/w"}' + pad).cwd == "/w"
    assert (
        told("claude", "Stop", b' {\n"session_id" : "s" ,\t"agent_id":"a","t":[1,{"cwd":"/no"}],"cwd":"/w",' + pad).cwd == "/w"
    )
    for odd in (
        b"",
        b"[",
        b'{"cwd"',
        b'{"cwd":',
        b'{5:"/w"',
        b'{["a"]:5,',
        b"{{}:5,",
        b'{"cwd" "/w"',
        b'{"x":' + b"[" * 60_000,
        b'{"x":-',
        b"{,",
        b'{"cwd":"/w',
    ):
        assert told("claude", "Stop", odd + pad) == HookEvent(agent="claude", name="Stop", moment="turn"), odd[:20]
    far = b'{"a":"' + b"x" * (70 << 10) + b'","cwd":"/w","b":"'
    assert told("claude", "Stop", far + pad).cwd is None
    assert told("claude", "Stop", far + b'"}').cwd == "/w"


@each("agent", ["claude", "codex"])
def test_the_last_words_of_a_turn(agent: str) -> None:
    def words(found: object) -> str | None:
        return told(agent, "Stop", {"session_id": "s", "last_assistant_message": found}).said

    assert words(" It is done.\n") == " It is done.\n"
    assert words("a\ud800b") == "a\ufffdb"
    for nothing in ("", " \n\t", None, 5, True, ["done"], {"text": "done"}):
        assert words(nothing) is None, nothing
    assert told(agent, "Stop", {"prompt": "p"}).said is None
    assert told(agent, "SubagentStop", {"last_assistant_message": "x"}).said is None
    assert told("copilot", "agentStop", {"last_assistant_message": "x"}).said is None


def test_texts_are_valid_and_paths_keep_their_bytes() -> None:
    event = told("claude", "UserPromptSubmit", b'{"session_id":"a\\ud800b","prompt":"\\ud83d\\ude00 \\udc00","cwd":"/caf\xe9"}')
    assert (event.session, event.prompt, event.cwd) == ("a\ufffdb", "\U0001f600 \ufffd", "/caf\udce9")
    assert told("claude", "Stop", b'\xef\xbb\xbf{"cwd":"/w","prompt":"a\tb\nc"}').cwd == "/w"
    assert told("claude", "Stop", b'{"n":' + b"9" * 10_000 + b',"cwd":"/w","f":NaN}').cwd == "/w"
    assert told("claude", "UserPromptSubmit", {"prompt": "", "session_id": ""}).prompt == ""


def test_source_says_why_a_session_starts() -> None:
    assert told("claude", "SessionStart", {"source": "fork"}).source == "fork"
    assert told("claude", "UserPromptSubmit", {"source": "typed"}).source is None


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("plain ", "plain "),
        ("<hook_context>a</hook_context>\n\nsay", "say"),
        ("\n<hook_context>a\n&lt;b&gt;</hook_context><hook_context>c</hook_context> say\n", "say\n"),
        ("<hook_context>a</hook_context>", ""),
        ("why <hook_context>a</hook_context>?", "why <hook_context>a</hook_context>?"),
        ("<hook_context>say", "<hook_context>say"),
        ("<hook_context>a</hook_context> <hook_context>say", "<hook_context>say"),
        ("a</hook_context>", "a</hook_context>"),
        ("", ""),
    ],
)
def test_gemini_prompt_without_hooks_context(prompt: str, said: str) -> None:
    assert told("gemini", "BeforeAgent", {"prompt": prompt}).prompt == said


FIELDS = sorted({k for agent in EXPECTED for c in captured(agent) for k in c.payload} | {"sessionID", "directory", "child"})
EVENTS = sorted(
    {c.event for agent in EXPECTED for c in captured(agent)} | {"context", "compacting", "prompt", "idle", "stop", "x"}
)
ANY_TEXT = st.text(st.characters(), max_size=20) | st.sampled_from(["/", "/a", "a", "<hook_context>", "</hook_context>", "/\0"])
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
PAYLOADS = st.dictionaries(st.sampled_from([*FIELDS, "workspace_roots", "conversation_id", "agent_id"]), ANY_JSON, max_size=12)
ENVS = st.dictionaries(
    st.sampled_from([*HOME_OF.values(), "GEMINI_CWD", "COPILOT_CLI", "CURSOR_VERSION"]), ANY_TEXT, max_size=3
)


def check_event(event: HookEvent | None, agent: str, name: str) -> None:
    """Every promise that an event makes to the hooks."""
    if event is None:
        assert agent == "claude"
        return
    assert (event.agent, event.name) == (agent, name)
    assert event.moment in MOMENTS and event.inject in INJECTS
    assert isinstance(event.child, bool)
    for path in (event.cwd, event.transcript):
        assert path is None or (path.startswith("/") and "\0" not in path and path.encode("utf-8", "surrogateescape"))
    for word in (event.session, event.source):
        assert word is None or 0 < len(word.encode()) <= 4096
    for text in (event.prompt, event.said):
        assert text is None or isinstance(text.encode(), bytes)
    assert event.said is None or event.said.strip()


@pytest.mark.deep
@given(st.sampled_from(NAMES), st.sampled_from(EVENTS), PAYLOADS, ENVS, st.booleans())
def test_any_payload(agent: str, name: str, payload: dict[str, Any], env: dict[str, str], ascii_only: bool) -> None:
    data = json.dumps(payload, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    check_event(read(agent, name, data, env), agent, name)
    if "COPILOT_CLI" not in env and "CURSOR_VERSION" not in env and "cursor_version" not in payload:
        assert read(agent, name, data, env) is not None


@pytest.mark.deep
@given(st.sampled_from(NAMES), st.text(max_size=20), st.binary(max_size=200), ENVS)
def test_any_bytes(agent: str, name: str, data: bytes, env: dict[str, str]) -> None:
    check_event(read(agent, name, data, env), agent, name)


def test_quotes_that_opencode_puts_around_a_prompt_are_not_the_users() -> None:
    for prompt, said in (
        ('"say \\"half\\" twice"', 'say "half" twice'),
        ('"one"', '"one"'),  # it quotes only what holds blanks
        ('"a b" c', '"a b" c'),
        ('say "so"', 'say "so"'),
    ):
        assert told("opencode", "prompt", {"prompt": prompt}).prompt == said


def test_where_copilots_records_are_is_known_without_its_saying_so() -> None:
    data = json.dumps({"sessionId": COPILOT["session"], "cwd": DIR, "reason": "complete"}).encode()
    for env, found in (
        ({"HOME": "/home/dev"}, COPILOT_FILE),
        ({"HOME": "/home/dev", "COPILOT_HOME": "/c"}, f"/c/session-state/{COPILOT['session']}/events.jsonl"),
        ({}, None),
    ):
        event = read("copilot", "sessionEnd", data, env)
        assert event is not None and event.transcript == found
    event = read("copilot", "sessionEnd", b'{"sessionId": "../../etc"}', {"HOME": "/home/dev"})
    assert event is not None and event.transcript is None


PATCH = "\n".join(
    (
        "*** Begin Patch",
        "*** Update File: src/a.py",
        "@@",
        "-*** Add File: no",
        "+x",
        "*** Move to: src/b.py",
        "*** Add File: c d.txt",
        "+1",
        "*** End Patch",
    )
)


@each(
    "agent, event, payload, edited",
    [
        ("claude", "PostToolUse", {"tool_name": "MultiEdit", "tool_input": {"file_path": "/p/a"}}, ("/p/a",)),
        (
            "claude",
            "PostToolUse",
            {"tool_name": "NotebookEdit", "tool_input": {"notebook_path": "/p/n.ipynb"}},
            ("/p/n.ipynb",),
        ),
        ("claude", "PostToolUse", {"tool_name": "Bash", "tool_input": {"command": "cat a", "file_path": "/p/a"}}, ()),
        ("claude", "Stop", {"tool_name": "Write", "tool_input": {"file_path": "/p/a"}}, ()),
        (
            "codex",
            "PostToolUse",
            {"tool_name": "apply_patch", "tool_input": {"command": PATCH}},
            ("src/a.py", "src/b.py", "c d.txt"),
        ),
        ("codex", "PostToolUse", {"tool_name": "apply_patch", "tool_input": PATCH}, ("src/a.py", "src/b.py", "c d.txt")),
        ("gemini", "AfterTool", {"tool_name": "replace", "tool_input": {"file_path": "/p/a"}}, ("/p/a",)),
        ("copilot", "postToolUse", {"toolName": "edit", "toolArgs": '{"path": "/p/a"}'}, ("/p/a",)),
        ("copilot", "postToolUse", {"toolName": "view", "toolArgs": {"path": "/p/a"}}, ()),
        ("copilot", "PostToolUse", {"tool_name": "Write", "tool_input": {"file_path": "/p/a"}}, ("/p/a",)),
        ("gemini", "AfterTool", {"tool_name": "Write", "tool_input": {"file_path": "/p/a"}}, ()),
        ("cursor", "afterFileEdit", {"file_path": "/p/a", "edits": []}, ("/p/a",)),
        ("cursor", "afterFileEdit", {"file_path": "/p/a\0b"}, ()),
        ("claude", "PostToolUse", {"tool_name": ["Write"], "tool_input": {"file_path": "/p/a"}}, ()),
        ("claude", "PostToolUse", {"tool_name": "Write", "tool_input": {"file_path": ["/p/a"]}}, ()),
        ("claude", "PostToolUse", {"tool_name": "Write", "tool_input": "{"}, ()),
        ("claude", "PostToolUse", {"tool_name": "Write"}, ()),
    ],
)
def test_what_a_tool_edited(agent: str, event: str, payload: dict[str, object], edited: tuple[str, ...]) -> None:
    assert told(agent, event, payload).edited == edited
