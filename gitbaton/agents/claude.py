"""Claude Code: its events, its payloads, its answers."""

from __future__ import annotations

from gitbaton.agents.payload import specific as shape
from gitbaton.agents.payload import told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.values import Inject, Moment

# It would take context at more events, but not at PreCompact and PostCompact: there the error ends up in the conversation.
EVENTS: dict[str, tuple[Moment, Inject]] = {
    "SessionStart": ("start", "full"),
    "UserPromptSubmit": ("prompt", "nudge"),
    "PostToolUse": ("edit", "no"),
    "PostToolBatch": ("edit", "no"),
    "PreCompact": ("compact", "no"),
    "PostCompact": ("compacted", "no"),
    "Stop": ("turn", "no"),
    "StopFailure": ("turn", "no"),
    "SessionEnd": ("end", "no"),
}
FOLDERS = ("CLAUDE_PROJECT_DIR",)

__all__ = ["EVENTS", "FOLDERS", "shape", "told"]
