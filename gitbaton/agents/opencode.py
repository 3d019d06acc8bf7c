"""OpenCode: the events, payloads and answers between our plugin and us."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.payload import Fields
    from gitbaton.agents.values import Inject, Moment

EVENTS: dict[str, tuple[Moment, Inject]] = {
    "context": ("start", "full"),
    "compacting": ("compact", "full"),
    "prompt": ("prompt", "no"),
    "edited": ("edit", "no"),
    "idle": ("turn", "no"),
    "compacted": ("compacted", "no"),
    "ended": ("end", "no"),
}
FOLDERS: tuple[str, ...] = ()


def told(fields: Fields) -> dict[str, object]:
    """What a payload says."""
    return {
        "session": fields.get("sessionID"),
        "cwd": fields.get("directory"),
        "prompt": fields.get("prompt"),
        "child": fields.get("child"),
    }


def shape(name: str, text: str) -> str:
    """Context for the model: the plugin puts it where it belongs."""
    return text
