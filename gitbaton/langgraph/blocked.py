"""Blocked classes: a saver that reads builds safe types and those of its allow-list; of each other one it warns once."""

from __future__ import annotations

import logging
import threading
from functools import cache, wraps

from langgraph.checkpoint.serde.event_hooks import register_serde_event_listener

from gitbaton.base.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import ParamSpec, TypeVar

    from langgraph.checkpoint.serde.event_hooks import SerdeEvent

    P = ParamSpec("P")
    T = TypeVar("T")

_MOST = 1000  # classes that are told: a stranger may have named any number
_LONGEST = 300
_EXAMPLE = "GitSaver(..., allow=[MyClass, ('my_module', 'MyClass')])"
_log = logging.getLogger("gitbaton.langgraph")
_here = threading.local()
_told: set[tuple[str, str]] = set()


def allowed(given: Iterable[type | tuple[str, str]]) -> tuple[type | tuple[str, str], ...]:
    """Return what ``allow`` names. Raises UsageError for anything but classes and pairs of module and name."""
    if isinstance(given, str | bytes | type) or not hasattr(given, "__iter__"):
        raise _unusable(given)
    items = tuple(given)
    for item in items:
        pair = isinstance(item, tuple) and len(item) == 2 and all(isinstance(part, str) and part for part in item)
        if not (pair or isinstance(item, type)):
            raise _unusable(item)
    return items


def _unusable(given: object) -> UsageError:
    shown = repr(given)
    shown = shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "..."
    return UsageError(f"'allow' takes a list of classes and of pairs of module and name, not {shown}", _EXAMPLE)


def telling(call: Callable[P, T]) -> Callable[P, T]:
    """Return the same call, which says as a warning of the logger ``gitbaton.langgraph`` what LangGraph does not build in
    it."""
    _listen()

    @wraps(call, assigned=(), updated=())
    def told(*args: P.args, **words: P.kwargs) -> T:
        _here.reads = True
        try:
            return call(*args, **words)
        finally:
            _here.reads = False

    return told


@cache
def _listen() -> None:
    register_serde_event_listener(_heard)


def _heard(event: SerdeEvent) -> None:
    """Warn once of a class that one of our readers does not build: LangGraph tells every listener of every serialiser."""
    if event["kind"] != "msgpack_blocked" or not getattr(_here, "reads", False):
        return
    module, name = event["module"], event["name"]
    if (module, name) in _told or len(_told) >= _MOST or len(str(module)) + len(str(name)) > _LONGEST:
        return
    _told.add((module, name))
    _log.warning(
        "%r of the module %r comes back from a checkpoint as its plain content (a dict, say), since nobody allowed that class."
        " If it is a class of yours: GitSaver(..., allow=[(%r, %r)]). Or set LANGGRAPH_STRICT_MSGPACK=true before LangGraph is"
        " imported: then a compiled graph names the classes of its own schema.",
        *(name, module, module, name),
    )
