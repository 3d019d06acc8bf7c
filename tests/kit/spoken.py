"""One conversation as each client records it: what the user and the agent said, a command, a file that was read, a thought, an
image, and words of the system's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gitbaton.agents.transcripts import Mode, record
from gitbaton.base.clients import HookEvent
from gitbaton.base.codec import transcript_text
from gitbaton.base.model import Agent
from tests.kit.repos import Sandbox

SESSION = "5e551011-0000-4000-8000-0000000000aa"
SPOKEN = (
    ("user", "First: count the words in the list"),
    ("assistant", "I look at the list"),
    ("assistant", "It holds seventeen words"),
    ("user", "Second: sort them, please"),
    ("assistant", "They are sorted now"),
)
COMMAND, PRINTED = "wc -w list.txt", "17 list.txt of the command"
PATH, TEXT = "list.txt", "seventeen words of the file"
SUMMARY = "A summary: seventeen words were counted in the list"
UNSAID = ("a thought of the model", "obey the system", "aW1hZ2U=")
_AT = "2026-11-20T16:30:{:02}.000Z"
Record = dict[str, Any]


def _claude() -> list[Record]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": UNSAID[2]}}
    shell = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": COMMAND}}
    look = {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"file_path": PATH}}
    said = [
        ("user", [{"type": "text", "text": SPOKEN[0][1]}, image]),
        ("assistant", [{"type": "thinking", "thinking": UNSAID[0], "signature": "s"}, {"type": "text", "text": SPOKEN[1][1]}]),
        ("assistant", [shell]),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": PRINTED}]),
        ("assistant", [look]),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": TEXT}]}]),
        ("assistant", [{"type": "text", "text": SPOKEN[2][1]}]),
        ("user", SPOKEN[3][1]),
        ("assistant", [{"type": "text", "text": SPOKEN[4][1]}]),
    ]
    found: list[Record] = []
    for number, (kind, content) in enumerate(said):
        links = {"uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "isSidechain": False}
        line = {"type": kind, "message": {"role": kind, "content": content}, "sessionId": SESSION}
        found.append({**links, **line, "timestamp": _AT.format(number)})
    aside = {"type": "system", "content": UNSAID[1], "uuid": "s1", "parentUuid": "u8", "sessionId": SESSION}
    return [*found, aside]


def compacted(agent: str) -> list[Record]:
    """The records of Claude Code or Codex, compacted after the first turn: what the model is sent begins with the summary."""
    found = RECORDS[agent]()
    if agent == "codex":
        return [*found[:13], {"timestamp": _AT.format(12), "type": "compacted", "payload": {"message": SUMMARY}}, *found[13:]]
    end: Record = {"uuid": "c1", "parentUuid": None, "logicalParentUuid": "u6", "type": "system", "subtype": "compact_boundary"}
    flags: Record = {"isCompactSummary": True, "isVisibleInTranscriptOnly": True, "timestamp": _AT.format(6)}
    told: Record = {"uuid": "c2", "parentUuid": "c1", "type": "user", "message": {"role": "user", "content": SUMMARY}, **flags}
    return [*found[:7], {**end, "content": "Conversation compacted"}, told, {**found[7], "parentUuid": "c2"}, *found[8:]]


def _codex() -> list[Record]:
    def item(**payload: Any) -> Record:
        return {"type": "response_item", "payload": payload}

    def said(number: int, *parts: Record) -> list[Record]:
        role, text = SPOKEN[number]
        part = {"type": "input_text" if role == "user" else "output_text", "text": text}
        event = {"type": "user_message" if role == "user" else "agent_message", "message": text}
        return [item(type="message", role=role, content=[part, *parts]), {"type": "event_msg", "payload": event}]

    shell = {"name": "exec_command", "arguments": json.dumps({"cmd": COMMAND})}
    meta = {"id": SESSION, "session_id": SESSION, "cwd": "/x", "originator": "codex_exec", "cli_version": "0.171.0"}
    found = [
        {"type": "session_meta", "payload": meta},
        item(type="message", role="developer", content=[{"type": "input_text", "text": UNSAID[1]}]),
        *said(0, {"type": "input_image", "image_url": f"data:image/png;base64,{UNSAID[2]}"}),
        item(type="reasoning", summary=[{"type": "summary_text", "text": UNSAID[0]}]),
        *said(1),
        item(type="function_call", call_id="c1", **shell),
        item(type="function_call_output", call_id="c1", output=PRINTED),
        item(type="function_call", call_id="c2", name="read_file", arguments=json.dumps({"path": PATH})),
        item(type="function_call_output", call_id="c2", output=TEXT),
        *said(2),
        *said(3),
        *said(4),
    ]
    return [{"timestamp": _AT.format(number), **record} for number, record in enumerate(found)]


def _gemini() -> list[Record]:
    def call(number: int, name: str, args: Record, output: str) -> Record:
        part = {"functionResponse": {"id": f"g{number}", "name": name, "response": {"output": output}}}
        done = {"status": "success", "timestamp": _AT.format(number), "result": [part], "resultDisplay": output}
        return {"id": f"g{number}", "name": name, "args": args, **done}

    calls = [call(3, "run_shell_command", {"command": COMMAND}, PRINTED), call(4, "read_file", {"file_path": PATH}, TEXT)]
    image = {"inlineData": {"mimeType": "image/png", "data": UNSAID[2]}}
    thought = {"subject": UNSAID[0], "description": UNSAID[0]}
    said: list[Record] = [
        {"type": "user", "content": [{"text": SPOKEN[0][1]}, image]},
        {"type": "gemini", "content": SPOKEN[1][1], "thoughts": [thought], "toolCalls": calls},
        {"type": "gemini", "content": SPOKEN[2][1]},
        {"type": "user", "content": [{"text": SPOKEN[3][1]}]},
        {"type": "gemini", "content": SPOKEN[4][1]},
        {"type": "info", "content": UNSAID[1]},
    ]
    found: list[Record] = [
        {"id": f"m{number}", "timestamp": _AT.format(number), **record} for number, record in enumerate(said)
    ]
    return [{"sessionId": SESSION, "projectHash": "h", "startTime": _AT.format(0), "kind": "main"}, *found]


def _copilot() -> list[Record]:
    def call(number: int, name: str, given: Record, output: str) -> list[tuple[str, Record]]:
        start = {"toolCallId": f"t{number}", "toolName": name, "arguments": given}
        done = {"toolCallId": f"t{number}", "success": True, "result": {"content": output}}
        return [("tool.execution_start", start), ("tool.execution_complete", done)]

    said: list[tuple[str, Record]] = [
        ("system.message", {"content": UNSAID[1]}),
        ("user.message", {"content": SPOKEN[0][1]}),
        ("assistant.message", {"content": SPOKEN[1][1], "reasoningText": UNSAID[0]}),
        *call(1, "bash", {"command": COMMAND}, PRINTED),
        *call(2, "view", {"path": PATH}, TEXT),
        ("assistant.message", {"content": SPOKEN[2][1]}),
        ("user.message", {"content": SPOKEN[3][1]}),
        ("assistant.message", {"content": SPOKEN[4][1]}),
    ]
    return [
        {"type": kind, "id": f"e{number}", "timestamp": _AT.format(number), "data": data}
        for number, (kind, data) in enumerate(said)
    ]


RECORDS: dict[str, Callable[[], list[Record]]] = {"claude": _claude, "codex": _codex, "gemini": _gemini, "copilot": _copilot}
FILES = {
    "claude": f".claude/projects/-else/{SESSION}.jsonl",
    "codex": f".codex/sessions/2026/11/20/rollout-2026-11-20T16-30-52-{SESSION}.jsonl",
    "gemini": f".gemini/tmp/repo/chats/session-2026-11-20T16-30-{SESSION[:8]}.jsonl",
    "copilot": f".copilot/session-state/{SESSION}/events.jsonl",
}


def recorded(agent: str, home: Path, records: Iterable[Record] = ()) -> Path:
    """Write the conversation as a client records it, below a home folder, or other records of the client's."""
    path = home / FILES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records or RECORDS[agent]()))
    return path


def taken(agent: str, repo: Sandbox, path: Path, mode: Mode = "full", track: str = "") -> str:
    """A checkpoint, of track ``agent`` if of no other, at the end of the turn that is on record; its id."""
    event = HookEvent(agent=agent, name="Stop", moment="turn", session=SESSION, transcript=str(path))
    with repo.open(door="binary") as baton:
        found = record(baton, event, mode, None)
        assert found is not None
        told = Agent(name=agent, session=SESSION, transcript=transcript_text(found))
        return baton.snapshot("talk", track=track or agent, agent=told).stored.id
