"""OpenCode: the events, payloads and answers between our plugin and us."""

from __future__ import annotations

import re

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


_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S)


def unquoted(prompt: str) -> str:
    """What the user said: ``opencode run`` puts quotes around a word of its command line that holds blanks."""
    found = _QUOTED.fullmatch(prompt.strip())
    return found[1].replace('\\"', '"') if found and " " in found[1] else prompt


def told(fields: Fields) -> dict[str, object]:
    """What a payload says."""
    prompt = fields.get("prompt")
    return {
        "session": fields.get("sessionID"),
        "cwd": fields.get("directory"),
        "prompt": unquoted(prompt) if isinstance(prompt, str) else prompt,
        "child": fields.get("child"),
    }


def shape(name: str, text: str) -> str:
    """Context for the model: the plugin puts it where it belongs."""
    return text
