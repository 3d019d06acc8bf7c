"""A client's payload to an Event, and our text to the answer in that client's shape. Pure: no environment, no files."""

from __future__ import annotations

import json

from gitbaton.agents.client import client
from gitbaton.agents.payload import absolute, edited_in, fields_of, valid, word
from gitbaton.agents.values import Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def read(agent: str, event: str, data: bytes, env: Mapping[str, str]) -> Event | None:
    """The event that a hook was called for; None where it has to be silent. Raises nothing, whatever the bytes are.

    Silent: for an agent that is not one of ours, and for Claude Code's hook when another client runs it. Of a payload that
    cannot be read nothing counts; the event's word and ``env`` still do.
    """
    of = client(agent)
    fields = fields_of(data) if of is not None else {}
    told = of.told(fields, env) if of is not None else None
    if of is None or told is None:
        return None
    moment, inject = of.events.get(event, ("other", "no"))
    prompt, said = told.get("prompt"), told.get("said")
    if moment == "prompt" and isinstance(prompt, str) and of.own_words(prompt):
        moment, inject = "other", "no"
    command = told.get("command")
    if moment == "command" and not (isinstance(command, str) and command.strip()):  # of another tool
        moment = "other"
    folders = (told.get("cwd"), *(env.get(name) for name in of.places))
    return Event(
        agent=agent,
        name=event,
        moment=moment,
        inject=inject,
        session=word(told.get("session")),
        cwd=next((place for place in map(absolute, folders) if place), None),
        transcript=absolute(told.get("transcript")),
        prompt=valid(prompt) if isinstance(prompt, str) else None,
        said=valid(said) if moment == "turn" and isinstance(said, str) and said.strip() else None,
        running=running if isinstance(running := told.get("running"), tuple) and moment == "turn" else None,
        source=word(told.get("source")) if moment == "start" else None,
        child=told.get("child") is True,
        who=word(told.get("who")) if moment in ("child-start", "child-end") else None,
        command=valid(command) if moment == "command" and isinstance(command, str) else None,
        edited=edited_in(fields, of.editors) if moment == "edit" else (),
    )


def answer(event: Event, text: str) -> bytes:
    """What to print so that ``text`` reaches the model; nothing where the client takes no context or there is no text."""
    of = client(event.agent)
    if of is None or not text or of.events.get(event.name, ("other", "no"))[1] == "no":
        return b""
    shape = of.answer(event.name, valid(text))
    return (shape if isinstance(shape, str) else json.dumps(shape, separators=(",", ":"))).encode()
