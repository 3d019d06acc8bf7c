"""A client's payload to an Event, and our text to the answer in that client's shape. Pure: no environment, no files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from gitbaton.agents.payload import absolute, fields_of, valid, word
from gitbaton.agents.values import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.payload import Client

_MODULES = {
    "claude": "gitbaton.agents.claude",
    "codex": "gitbaton.agents.codex",
    "gemini": "gitbaton.agents.gemini",
    "opencode": "gitbaton.agents.opencode",
    "copilot": "gitbaton.agents.copilot",
    "cursor": "gitbaton.agents.cursor",
}
_NOTICE = "<task-notification>"  # a prompt that begins so is the client's own: a command in the background has ended


def read(agent: str, event: str, data: bytes, env: Mapping[str, str]) -> Event | None:
    """The event that a hook was called for; None where it has to be silent. Raises nothing, whatever the bytes are.

    Silent: for an agent that is not one of ours, and for Claude Code's hook when another client runs it. Of a payload that
    cannot be read nothing counts; the event's word and ``env`` still do.
    """
    client = _client(agent)
    if client is None:
        return None
    fields = fields_of(data)
    if agent == "claude" and (env.get("COPILOT_CLI") or env.get("CURSOR_VERSION") or fields.get("cursor_version")):
        return None  # Copilot and Cursor run Claude Code's hooks beside their own: one event, one answer
    moment, inject = client.EVENTS.get(event, ("other", "no"))
    told = client.told(fields)
    prompt, said = told.get("prompt"), told.get("said")
    if moment == "prompt" and isinstance(prompt, str) and prompt.lstrip().startswith(_NOTICE):
        moment, inject = "other", "no"
    session, transcript = word(told.get("session")), told.get("transcript")
    if agent == "copilot" and not transcript:
        from gitbaton.agents import copilot

        transcript = copilot.transcript(session, env)
    places = (told.get("cwd"), *(env.get(name) for name in client.FOLDERS))
    return Event(
        agent=agent,
        name=event,
        moment=moment,
        inject=inject,
        session=session,
        cwd=next((place for place in map(absolute, places) if place), None),
        transcript=absolute(transcript),
        prompt=valid(prompt) if isinstance(prompt, str) else None,
        said=valid(said) if moment == "turn" and isinstance(said, str) and said.strip() else None,
        source=word(told.get("source")) if moment == "start" else None,
        child=told.get("child") is True,
    )


def answer(event: Event, text: str) -> bytes:
    """What to print so that ``text`` reaches the model; nothing where the client takes no context or there is no text."""
    client = _client(event.agent)
    if client is None or not text or client.EVENTS.get(event.name, ("other", "no"))[1] == "no":
        return b""
    return client.shape(event.name, valid(text)).encode("utf-8")


def _client(agent: str) -> Client | None:
    module = _MODULES.get(agent)
    return import_module(module) if module else None
