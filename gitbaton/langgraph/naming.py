"""The names that LangGraph gives, as plain text: threads, namespaces, checkpoints, tasks, channels."""

from __future__ import annotations

from uuid import UUID

from gitbaton.codec import plain
from gitbaton.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def whole(given: object) -> str:
    """Anything as text. Of an Enum that is text, or another class made from ``str``, the text that it is equal to."""
    if type(given) is str:
        return given
    return str.__str__(given if isinstance(given, str) else str(given))


def text(given: object, what: str) -> str:
    """A name as text: numbers are written out. Raises UsageError, which says ``what`` it is, for what is no name."""
    if type(given) is str:
        return given
    if not isinstance(given, (str, int, float, UUID)):
        raise UsageError(f"{what} must be text, not {plain(repr(given)[:60])}")
    return whole(given)


def thread_of(named: Mapping[str, Any]) -> str:
    """The thread that a config names. Raises KeyError where it names none."""
    return whole(named["thread_id"])


def namespace_of(named: Mapping[str, Any]) -> str:
    """The namespace that a config names; the empty one where it names none."""
    given = named.get("checkpoint_ns")
    return text(given, "a namespace") if given else ""
