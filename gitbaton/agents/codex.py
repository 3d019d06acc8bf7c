"""Codex CLI: its events, its payloads, its answers. It took over Claude Code's, and refuses an answer with a field too many."""

from __future__ import annotations

from gitbaton.agents.payload import specific as shape
from gitbaton.agents.payload import told

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.values import Inject, Moment

EVENTS: dict[str, tuple[Moment, Inject]] = {
    "SessionStart": ("start", "full"),
    "UserPromptSubmit": ("prompt", "nudge"),
    "PostToolUse": ("edit", "no"),
    "PreCompact": ("compact", "no"),
    "PostCompact": ("compacted", "no"),
    "Stop": ("turn", "no"),
    "Interrupt": ("turn", "no"),
    "SessionEnd": ("end", "no"),
}
FOLDERS: tuple[str, ...] = ()  # it sets none; those in its environment are another client's

__all__ = ["EVENTS", "FOLDERS", "shape", "told"]
