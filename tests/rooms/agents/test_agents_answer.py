"""Answers to coding agents: byte for byte per client and event, and valid whatever the text holds."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.agents.client import answer, read
from gitbaton.base.clients import NAMES, HookEvent
from tests.kit.payloads import captured
from tests.kit.tables import each

TEXT = 'step: "one"\nnext: caf\u00e9 \U0001f600\t<b>\u2028\x1b'
QUOTED = rb"step: \"one\"\nnext: caf\u00e9 \ud83d\ude00\t<b>\u2028\u001b"
SPECIFIC = b'{"hookSpecificOutput":{"hookEventName":"%s","additionalContext":"%s"}}'

GOLDEN: dict[str, dict[str, bytes]] = {
    "claude": {name: SPECIFIC % (name.encode(), QUOTED) for name in ("SessionStart", "UserPromptSubmit")},
    "droid": {name: SPECIFIC % (name.encode(), QUOTED) for name in ("SessionStart", "UserPromptSubmit", "PostToolUse")},
    "qwen": {name: SPECIFIC % (name.encode(), QUOTED) for name in ("SessionStart", "UserPromptSubmit")},
    "codex": {name: SPECIFIC % (name.encode(), QUOTED) for name in ("SessionStart", "UserPromptSubmit")},
    "gemini": {
        "SessionStart": SPECIFIC % (b"SessionStart", QUOTED),
        "BeforeAgent": SPECIFIC % (b"BeforeAgent", QUOTED),
    },
    "copilot": dict.fromkeys(
        ("sessionStart", "userPromptSubmitted", "postToolUse", "SessionStart", "UserPromptSubmit", "PostToolUse"),
        b'{"additionalContext":"%s"}' % QUOTED,
    ),
    "cursor": dict.fromkeys(("sessionStart", "postToolUse"), b'{"additional_context":"%s"}' % QUOTED),
    "opencode": dict.fromkeys(("context", "compacting"), TEXT.encode()),
    "kilo": dict.fromkeys(("context", "compacting"), TEXT.encode()),
}
SHARED = ("SessionStart", "SessionEnd", "PreToolUse", "PostToolUse", "Notification", "Nope", "")
CLAUDE_LIKE = ("UserPromptSubmit", "PreCompact", "PostCompact", "Stop", "SubagentStart", "SubagentStop", "PermissionRequest")
EVENTS: dict[str, tuple[str, ...]] = {
    "claude": (*SHARED, *CLAUDE_LIKE, "PostToolBatch", "StopFailure", "PostToolUseFailure", "Setup", "WorktreeCreate"),
    "droid": (*SHARED, "UserPromptSubmit", "PreCompact", "Stop", "SubagentStop"),
    "qwen": (*SHARED, *CLAUDE_LIKE, "StopFailure", "PostToolBatch", "TodoCreated", "TodoCompleted", "UserPromptExpansion"),
    "codex": (*SHARED, *CLAUDE_LIKE, "Interrupt", "PreModelRequest", "PostModelRequest"),
    "gemini": (*SHARED, "BeforeAgent", "AfterAgent", "BeforeModel", "AfterModel", "BeforeTool", "AfterTool", "PreCompress"),
    "copilot": (
        *(*SHARED, "sessionStart", "userPromptSubmitted", "preToolUse", "postToolUse", "preCompact", "agentStop"),
        *("sessionEnd", "errorOccurred", "UserPromptSubmit", "PreCompact", "Stop"),
    ),
    "cursor": (
        *("sessionStart", "sessionEnd", "preToolUse", "postToolUse", "beforeSubmitPrompt", "afterFileEdit", "preCompact"),
        *("stop", "beforeReadFile", "SessionStart", "Nope"),
    ),
    "opencode": ("context", "compacting", "prompt", "edited", "idle", "compacted", "ended", "SessionStart", "Nope"),
    "kilo": ("context", "compacting", "prompt", "edited", "idle", "compacted", "ended", "SessionStart", "Nope"),
}
EVERY = [(agent, name) for agent, names in EVENTS.items() for name in names]

# codex-rs refuses an answer with a field it does not know; these are the fields it knows at each event.
UNIVERSAL: dict[str, Any] = {
    "continue": {"type": "boolean"},
    "stopReason": {"type": "string"},
    "suppressOutput": {"type": "boolean"},
    "systemMessage": {"type": "string"},
}
TAKE_CONTEXT = ("SessionStart", "UserPromptSubmit", "PostToolUse")


def codex_schema(name: str) -> dict[str, Any]:
    """What Codex takes at an event: no field but those listed."""
    specific = {
        "type": "object",
        "additionalProperties": False,
        "required": ["hookEventName"],
        "properties": {"hookEventName": {"const": name}, "additionalContext": {"type": "string"}},
    }
    more = {"hookSpecificOutput": specific} if name in TAKE_CONTEXT else {}
    return {"type": "object", "additionalProperties": False, "properties": {**UNIVERSAL, **more}}


def event(agent: str, name: str, data: bytes = b"") -> HookEvent:
    """The event of that name, as the client's hook gets it."""
    found = read(agent, name, data, {})
    assert found is not None
    return found


@pytest.mark.parametrize(("agent", "name"), EVERY)
def test_golden(agent: str, name: str) -> None:
    assert answer(event(agent, name), TEXT) == GOLDEN[agent].get(name, b"")
    assert answer(event(agent, name), "") == b""


def test_every_golden_event_is_looked_at() -> None:
    assert {(agent, name) for agent, names in GOLDEN.items() for name in names} <= set(EVERY)
    assert set(GOLDEN) == set(EVENTS) == set(NAMES)


@pytest.mark.parametrize(("agent", "name"), EVERY)
def test_an_event_says_it_takes_text_where_it_does(agent: str, name: str) -> None:
    assert (event(agent, name).inject != "no") == bool(answer(event(agent, name), "x"))


@each("agent", ["claude", "codex", "gemini", "copilot"])
def test_captured_sessions(agent: str) -> None:
    spoken = [c.event for c in captured(agent) if answer(event(agent, c.event, c.data), TEXT)]
    assert (
        spoken
        == {
            "claude": ["SessionStart", "UserPromptSubmit", "SessionStart"],
            "codex": ["SessionStart", "UserPromptSubmit", "SessionStart", "SessionStart"],
            "gemini": ["SessionStart", "BeforeAgent", "SessionStart"],
            "copilot": ["sessionStart", "userPromptSubmitted", "postToolUse", "postToolUse", "sessionStart"],
        }[agent]
    )


def test_an_event_that_claims_too_much_is_not_believed() -> None:
    assert answer(HookEvent(agent="claude", name="PreCompact", moment="start", inject="full"), TEXT) == b""
    assert answer(HookEvent(agent="codex", name="Nope", moment="start", inject="full"), TEXT) == b""
    assert answer(HookEvent(agent="nobody", name="SessionStart", moment="start", inject="full"), TEXT) == b""


def test_half_a_surrogate_pair_becomes_a_replacement_character() -> None:
    for text, seen in (("a\ud800b", "a\ufffdb"), ("\udc00", "\ufffd"), ("\ud83d\ude00", "\U0001f600"), ("\udce9", "\ufffd")):
        assert json.loads(answer(event("codex", "SessionStart"), text))["hookSpecificOutput"]["additionalContext"] == seen
        assert answer(event("opencode", "context"), text) == seen.encode()


ANY_TEXT = st.text(st.characters()) | st.text(st.characters(min_codepoint=0xD700, max_codepoint=0xE100))


@pytest.mark.deep
@given(st.sampled_from(EVENTS["codex"]), ANY_TEXT)
def test_codex_knows_every_field(name: str, text: str) -> None:
    out = answer(event("codex", name), text)
    if name in ("SessionStart", "UserPromptSubmit") and text:
        jsonschema.validate(json.loads(out), codex_schema(name))
    else:
        assert out == b""


def test_the_schema_refuses_what_codex_refuses() -> None:
    for wrong in ({"additionalContext": "x"}, {"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "x"}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, codex_schema("SessionStart"))


@given(st.sampled_from(EVERY), ANY_TEXT)
def test_any_text_arrives(which: tuple[str, str], text: str) -> None:
    agent, name = which
    out = answer(event(agent, name), text)
    if not out:
        assert not text or name not in GOLDEN[agent]
        return
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if agent in ("opencode", "kilo"):
        assert out.decode() == whole
        return
    assert out.isascii() and b"\n" not in out
    document = json.loads(out)
    inner = document.get("hookSpecificOutput", document)
    assert inner.get("additionalContext", inner.get("additional_context")) == whole
    json.dumps(document, ensure_ascii=False).encode()  # no half of a surrogate pair is left: Rust's reader refuses one
