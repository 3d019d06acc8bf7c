"""Conversations as messages that any client could have said, from which another client's session is written. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.agents.client import Client
from gitbaton.agents.records import arguments_of, dict_of, kept_records, parsed, text_of, time_of
from gitbaton.agents.signs import Asked, Message, Said, Shown
from gitbaton.base.values import replace, value

MOST = 2_000
"""Characters of a call, and of what it gave, that are carried; a client has its own files of more."""
_END = MOST // 2 - 30
_NO_ANSWER = "(interrupted: no result)"
_NO_PROMPT = "(a prompt that is not on record)"
_IMAGES = ("image", "input_image", "image_url", "local_image")
_DEPTH = 6


@value
class Converted:
    """A conversation as messages: the first is the user's, every call has its answer. ``open_call``: the name of a tool that
    was called last and had not answered. ``left_out``: what was not carried, each with how many; ``cut``: how many calls and
    results were."""

    messages: tuple[Message, ...]
    open_call: str | None
    left_out: Mapping[str, int]
    cut: int

    @property
    def said(self) -> int:
        """Count the messages of the user and the agent."""
        return sum(message.who in ("user", "assistant") for message in self.messages)


def converted(of: Client, raw: bytes) -> Converted:
    """Return the conversation of a client's transcript: what the user and the agent said, commands and calls of tools, and
    summaries of compactions. Neither thoughts, images, nor what the system said."""
    found: list[Message] = []
    calls: dict[str, int] = {}  # those that have no answer yet, and where they are in what was found
    left = dict.fromkeys(("image", "thought", "system message"), 0)
    cut = 0

    def short(text: str) -> str:
        nonlocal cut
        if len(text) <= MOST:
            return text
        cut += 1
        return f"{text[:_END]}\n[{len(text) - 2 * _END} characters are left out]\n{text[-_END:]}"

    at = 0.0
    for record in kept_records(of, raw):
        at = max(at, time_of(record.get("timestamp", record.get("time_created"))) or at)
        parts = sorted(of.read(record), key=lambda part: isinstance(part, Shown) and part.who == "tool")  # said, then called
        answers = any(isinstance(part, Shown) and part.answer for part in parts)
        for part in parts:
            if isinstance(part, Asked) and not (answers and part.kind):  # else it stands in the answer
                found.append(Message(who="user", text=part.text, at=at))
            elif isinstance(part, Said):
                found.append(Message(who="assistant", text=part.text, at=at))
            elif isinstance(part, Shown):
                left["image"] += _images(part.content)
                left["thought"] += part.who == "thought"
                if part.summary and (text := text_of(part.content).strip()):
                    found.append(Message(who="summary", text=text, at=at))
                elif part.who == "system":
                    left["system message"] += 1
                elif part.who == "tool" and not part.answer:
                    given = (parsed(part.content) or part.content) if isinstance(part.content, str) else part.content
                    command = of.asked(part.name, given)
                    calls[part.key] = len(found)
                    if isinstance(command, str) and command.strip():
                        found.append(Message(who="command", text=short(command), name=part.name, at=at))
                    else:
                        found.append(Message(who="tool", text=short(arguments_of(part.content)), name=part.name, at=at))
                elif part.answer:
                    answer = short(text_of(part.content)) or "(nothing)"
                    place = calls.pop(part.key, None)
                    if place is None:
                        found.append(Message(who="tool", text="", name="?", answer=answer, at=at))
                    else:
                        found[place] = replace(found[place], answer=answer)
    opened = next((found[place].name for place in reversed(calls.values())), None)
    found = [replace(m, answer=m.answer or _NO_ANSWER) if m.who in ("command", "tool") else m for m in found]
    if found and found[0].who not in ("user", "summary"):
        found.insert(0, Message(who="user", text=_NO_PROMPT, at=found[0].at))
    return Converted(
        messages=tuple(found),
        open_call=opened,
        left_out={name: count for name, count in left.items() if count},
        cut=cut,
    )


def _images(content: object, depth: int = _DEPTH) -> int:
    if isinstance(content, list):
        return sum(_images(item, depth - 1) for item in content) if depth else 0
    part = dict_of(content)
    one = part.get("type") in _IMAGES or "inlineData" in part
    return int(one) + (_images(part.get("content"), depth - 1) if depth and not one else 0)
