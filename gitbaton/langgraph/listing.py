"""Which checkpoints a listing names, newest first, told without reading more than it must."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import itemgetter

from gitbaton.langgraph.naming import namespace_of, thread_of, whole
from gitbaton.threads.codec import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from langchain_core.runnables import RunnableConfig

    from gitbaton.langgraph.reading import Reader
    from gitbaton.threads.values import Entry

    Place = tuple[str, str, Entry]

_SURE = 1 << 52


def entries(
    reader: Reader,
    config: RunnableConfig | None,
    where: Mapping[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[Place]:
    """Thread, namespace and entry of what a listing asks for. Raises KeyError for a ``config`` without a thread id."""
    named: Mapping[str, Any] = {} if config is None else config["configurable"]
    thread = None if config is None else thread_of(named)
    namespace = None if named.get("checkpoint_ns") is None else namespace_of(named)
    only, below = named.get("checkpoint_id"), before["configurable"].get("checkpoint_id") if before else None
    only, below = whole(only) if only else None, whole(below) if below else None
    if limit is not None and limit <= 0:
        return iter(())
    if thread is not None and namespace is not None:
        chains = [(thread, namespace)]
    else:
        chains = [c for c in reader.store.chains(thread) if namespace is None or c[1] == namespace]
    found = _one(reader, chains, only, below) if only else _all(reader, chains, below)
    if where:
        found = _matching(reader, found, where)
    return islice(found, limit)


def _one(reader: Reader, chains: list[tuple[str, str]], only: str, below: str | None) -> Iterator[Place]:
    if below and only >= below:
        return
    for thread, namespace in chains:
        entry = reader.store.entry(thread, namespace, only)
        if entry is not None:
            yield thread, namespace, entry


def _all(reader: Reader, chains: list[tuple[str, str]], below: str | None) -> Iterator[Place]:
    def one(thread: str, namespace: str) -> Iterator[tuple[str, Place]]:
        for entry in reader.store.walk(thread, namespace, below or None):
            yield entry.id, (thread, namespace, entry)

    if len(chains) == 1:
        ((thread, namespace),) = chains
        return ((thread, namespace, entry) for entry in reader.store.walk(thread, namespace, below or None))
    return map(itemgetter(1), merge(*(one(*chain) for chain in chains), key=itemgetter(0), reverse=True))


def _matching(reader: Reader, found: Iterator[Place], where: Mapping[str, Any]) -> Iterator[Place]:
    """Those whose metadata equal ``where``; a text that must stand in the stored JSON spares decoding most of it."""
    needles = [needle for key, wanted in where.items() if (needle := _needle(key, wanted))]
    for place in found:
        entry = place[2]
        if entry.md and any(needle not in entry.md for needle in needles):
            continue
        metadata: Mapping[str, Any] = reader.metadata(entry)
        if all(wanted == metadata.get(key) for key, wanted in where.items()):
            yield place


def _needle(key: str, wanted: object) -> bytes | None:
    """What JSON that we wrote must hold where ``key`` equals ``wanted``; None where there are several ways to write it."""
    if type(wanted) is str or (type(wanted) is int and 1 < abs(wanted) < _SURE):  # 1 equals true
        text = json_text({key: wanted})
        return text[1:-1] if text else None
    return None
