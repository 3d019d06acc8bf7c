"""GitHub Copilot CLI: its events, its payloads, its answers."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gitbaton.agents.payload import dumped, names_one

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.payload import Fields
    from gitbaton.agents.values import Inject, Moment

# Registered in PascalCase, an event comes with the fields of Claude Code's; the answers are the same.
EVENTS: dict[str, tuple[Moment, Inject]] = {
    "sessionStart": ("start", "full"),
    "userPromptSubmitted": ("prompt", "flagged"),
    "postToolUse": ("edit", "flagged"),
    "preCompact": ("compact", "no"),
    "agentStop": ("turn", "no"),
    "sessionEnd": ("end", "no"),
    "SessionStart": ("start", "full"),
    "UserPromptSubmit": ("prompt", "flagged"),
    "PostToolUse": ("edit", "flagged"),
    "PreCompact": ("compact", "no"),
    "Stop": ("turn", "no"),
    "SessionEnd": ("end", "no"),
}
FOLDERS = ("COPILOT_PROJECT_DIR",)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def transcript(session: str | None, env: Mapping[str, str]) -> str | None:
    """Where it keeps a session's records: only some payloads say so, and a turn that was broken off has none of those."""
    home = env.get("COPILOT_HOME") or (env["HOME"] + "/.copilot" if env.get("HOME") else "")
    return f"{home}/session-state/{session}/events.jsonl" if home and session and _ID.fullmatch(session) else None


def told(fields: Fields) -> dict[str, object]:
    """What a payload says, in camelCase or in snake_case. A subagent's events carry its own id as the session's, too."""
    return {
        "session": fields.get("sessionId") or fields.get("session_id"),
        "cwd": fields.get("cwd"),
        "transcript": fields.get("transcriptPath") or fields.get("transcript_path"),
        "prompt": fields.get("prompt"),
        "source": fields.get("source"),
        "child": names_one(fields.get("agentId") or fields.get("agent_id")),
    }


def shape(name: str, text: str) -> str:
    """Context for the model."""
    return dumped({"additionalContext": text})
