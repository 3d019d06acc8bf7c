"""Gemini CLI: its events, its payloads, its answers."""

from __future__ import annotations

import re

from gitbaton.agents import payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.payload import Fields
    from gitbaton.agents.values import Inject, Moment

EVENTS: dict[str, tuple[Moment, Inject]] = {
    "SessionStart": ("start", "full"),
    "BeforeAgent": ("prompt", "short"),
    "PreCompress": ("request", "no"),  # before every request, compressed or not
    "AfterTool": ("edit", "no"),
    "AfterAgent": ("turn", "no"),
    "SessionEnd": ("end", "no"),
}
FOLDERS = ("GEMINI_CWD", "GEMINI_PROJECT_DIR")
shape = payload.specific
_BLOCKS = re.compile(r"\s*(?:<hook_context>.*?</hook_context>\s*)+", re.DOTALL)


def told(fields: Fields) -> dict[str, object]:
    """What a payload says; the prompt without what hooks put into it."""
    prompt = fields.get("prompt")
    return {**payload.told(fields), "prompt": without_context(prompt) if isinstance(prompt, str) else None}


def without_context(prompt: str) -> str:
    """What the user said: a prompt without the blocks of hooks' context that the client has put before it."""
    blocks = _BLOCKS.match(prompt)  # one further back is the user's own; a block holds no other, the client escapes ``<``
    return prompt[blocks.end() :] if blocks else prompt
