"""Gemini CLI: its events, its payloads, its answers."""

from __future__ import annotations

from gitbaton.agents.payload import specific

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
OPENING, CLOSING = "<hook_context>", "</hook_context>"


def told(fields: Fields) -> dict[str, object]:
    """What a payload says; the prompt without what hooks put into it."""
    prompt = fields.get("prompt")
    return {
        "session": fields.get("session_id"),
        "cwd": fields.get("cwd"),
        "transcript": fields.get("transcript_path"),
        "prompt": without_context(prompt) if isinstance(prompt, str) else None,
        "source": fields.get("source"),
    }


def shape(name: str, text: str) -> str:
    """Context for the model at the event ``name``."""
    return specific(name, text)


def without_context(prompt: str) -> str:
    """What the user said: a prompt without the blocks of hooks' context and the blanks after each."""
    said, at = [], 0
    while (start := prompt.find(OPENING, at)) >= 0 and (end := prompt.find(CLOSING, start)) >= 0:
        said.append(prompt[at:start])
        at = end + len(CLOSING)
        while prompt[at : at + 1] in ("\n", "\r", " ", "\t"):
            at += 1
    return "".join([*said, prompt[at:]])
