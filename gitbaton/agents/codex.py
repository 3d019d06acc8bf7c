"""Codex CLI: its events, its payloads, its answers. It took over Claude Code's, and refuses an answer with a field too many."""

from __future__ import annotations

from gitbaton.agents.payload import specific

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.payload import Fields
    from gitbaton.agents.values import Inject, Moment

EVENTS: dict[str, tuple[Moment, Inject]] = {
    "SessionStart": ("start", "full"),
    "UserPromptSubmit": ("prompt", "no"),
    "PostToolUse": ("edit", "no"),
    "PreCompact": ("compact", "no"),
    "PostCompact": ("compacted", "no"),
    "Stop": ("turn", "no"),
    "Interrupt": ("turn", "no"),
    "SessionEnd": ("end", "no"),
}
FOLDERS: tuple[str, ...] = ()  # it sets none; those in its environment are another client's


def told(fields: Fields) -> dict[str, object]:
    """What a payload says; a subagent's events carry an ``agent_id``."""
    agent_id = fields.get("agent_id")
    return {
        "session": fields.get("session_id"),
        "cwd": fields.get("cwd"),
        "transcript": fields.get("transcript_path"),
        "prompt": fields.get("prompt"),
        "said": fields.get("last_assistant_message"),
        "source": fields.get("source"),
        "child": isinstance(agent_id, str) and agent_id != "",
    }


def shape(name: str, text: str) -> str:
    """Context for the model at the event ``name``."""
    return specific(name, text)
