"""Cursor: its events, its payloads, its answers. From documents only: it could not be run."""

from __future__ import annotations

from gitbaton.agents.payload import dumped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.payload import Fields
    from gitbaton.agents.values import Inject, Moment

EVENTS: dict[str, tuple[Moment, Inject]] = {
    "sessionStart": ("start", "full"),
    "beforeSubmitPrompt": ("prompt", "no"),
    "afterFileEdit": ("edit", "no"),
    "postToolUse": ("edit", "flagged"),
    "preCompact": ("compact", "no"),
    "stop": ("turn", "no"),
    "sessionEnd": ("end", "no"),
}
FOLDERS = ("CURSOR_PROJECT_DIR",)


def told(fields: Fields) -> dict[str, object]:
    """What a payload says; it names the folders of the workspace, the first is where the agent works."""
    roots = fields.get("workspace_roots")
    return {
        "session": fields.get("conversation_id") or fields.get("session_id"),
        "cwd": roots[0] if isinstance(roots, list) and roots else None,
        "transcript": fields.get("transcript_path"),
        "prompt": fields.get("prompt"),
        "source": fields.get("source"),
    }


def shape(name: str, text: str) -> str:
    """Context for the model."""
    return dumped({"additional_context": text})
