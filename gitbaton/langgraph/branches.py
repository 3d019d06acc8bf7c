"""Warnings of unintended branches: two runs of one thread at once, and a run of a thread that was deleted. What they put is
stored, as LangGraph's other savers do."""

from __future__ import annotations

import logging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Place = tuple[str, str]
    K = TypeVar("K")
    V = TypeVar("V")

_LONGEST = 300
_log = logging.getLogger("gitbaton.langgraph")


class Branches:
    """Checkpoints that a saver and its copies have read and put of late, ``most`` of each, which tell an intended branch from
    another one. Safe in several threads."""

    def __init__(self, most: int = 1024) -> None:
        self.most = most
        self._met: dict[Place, str | None] = {}  # the checkpoint that was read or put last; None where there was none to read
        self._asked: dict[tuple[str, str, str], None] = {}
        self._told: dict[Place, None] = {}

    def met(self, thread: str, namespace: str, id: str | None) -> None:
        """Remember what was read or put last."""
        self._remember(self._met, (thread, namespace), id)

    def asked(self, thread: str, namespace: str, id: str) -> None:
        """Remember a checkpoint that a caller named, or looked for beside the newest: a branch from it is intended."""
        self._remember(self._asked, (thread, namespace, id), None)

    def watch(self, thread: str, namespace: str, id: str, parent: str | None) -> Callable[[str | None], None] | None:
        """Return a callback that takes the newest checkpoint as it was when one that follows ``parent`` was put, and warns;
        None where there would be nothing to warn of."""
        place = thread, namespace
        if place in self._told or (thread, namespace, parent) in self._asked:
            return None
        if parent is None and self._met.get(place, "") is not None:  # not a run that found nothing when it began
            return None

        def tell(before: str | None) -> None:
            quiet = self._met.get(place) is None if before is None else id <= before
            if before == parent or quiet:
                return
            self._remember(self._told, place, None)
            name = _shown(thread) + (f" (namespace {_shown(namespace)})" if namespace else "")
            if before is None:
                _log.warning(
                    "thread %s is there again: it was deleted while a run of it went on, and that run has put the checkpoint"
                    " %s. When the run has ended, delete it once more.",
                    *(name, _shown(id)),
                )
            else:
                _log.warning(
                    "thread %s has two branches: two runs of it went on at once. The newest checkpoint is now %s, which follows"
                    " %s; %s, the newest until then, is in the other branch. Nothing is lost: name 'checkpoint_id': %s to go on"
                    " from that.",
                    *(name, _shown(id), _shown(parent) if parent else "none", _shown(before), _shown(before)),
                )

        return tell

    def _remember(self, held: dict[K, V], key: K, value: V) -> None:
        held[key] = value
        if len(held) > self.most:  # the oldest half goes
            for old in list(held)[: len(held) // 2]:
                held.pop(old, None)


def _shown(name: str) -> str:
    text = repr(name)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
