"""What the tests of the LangGraph saver share: configurations, checkpoints, puts, and what a tuple says in plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("langgraph.checkpoint.base")

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

Saver = BaseCheckpointSaver[Any]
SYNC = ("get_tuple", "put", "put_writes", "delete_thread", "delete_for_runs", "copy_thread", "prune")


def config(thread: object = "t", ns: str | None = "", id: str | None = None) -> Any:
    """A configuration; ``ns`` None leaves the namespace out."""
    named: dict[str, Any] = {"thread_id": thread}
    named |= {} if ns is None else {"checkpoint_ns": ns}
    return {"configurable": named | ({} if id is None else {"checkpoint_id": id})}


def number(n: int) -> str:
    """The id of the checkpoint with this number: ids sort as numbers do."""
    return f"1ef00000-0000-6000-8000-{n:012d}"


def checkpoint(id: str, values: Mapping[str, Any] | None = None, versions: Mapping[str, Any] | None = None, **more: Any) -> Any:
    """A checkpoint whose channels have the version 1, unless they are given."""
    values = values or {}
    return {
        "v": 4,
        "id": id,
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict(dict.fromkeys(values, 1) if versions is None else versions),
        "versions_seen": {},
        "updated_channels": None,
        **more,
    }


def put(
    saver: Saver,
    id: str,
    values: Mapping[str, Any] | None = None,
    *,
    thread: str = "t",
    ns: str = "",
    parent: str | None = None,
    versions: Mapping[str, Any] | None = None,
    new: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Put a checkpoint; all its channels are new, unless ``new`` names those that are."""
    made = checkpoint(id, values, versions)
    all_of = made["channel_versions"]
    fresh = {name: all_of[name] for name in (all_of if new is None else new)}
    about: Any = {"source": "loop", "step": 0, "parents": {}, **(metadata or {})}
    return saver.put(config(thread, ns, parent), made, about, fresh)


def chain(saver: Saver, count: int, **words: Any) -> list[str]:
    """Put ``count`` checkpoints, each with the value of its own number; their ids, oldest first."""
    ids = [number(n) for n in range(count)]
    for n, id in enumerate(ids):
        put(saver, id, {"n": n}, versions={"n": n}, parent=ids[n - 1] if n else None, metadata={"step": n}, **words)
    return ids


def ids(found: Iterable[CheckpointTuple]) -> list[str]:
    """The ids of checkpoints in their order."""
    return [item.config["configurable"]["checkpoint_id"] for item in found]


def plain(item: CheckpointTuple | None) -> Any:
    """A tuple as values that compare: the places of it and its parent, and all it holds."""
    if item is None:
        return None
    places = [
        where and tuple(str(where["configurable"].get(key, "")) for key in ("thread_id", "checkpoint_ns", "checkpoint_id"))
        for where in (item.config, item.parent_config)
    ]
    return {"places": places, "checkpoint": item.checkpoint, "metadata": item.metadata, "writes": item.pending_writes or []}


def bridged(cls: type[Saver]) -> type[Saver]:
    """A class whose asynchronous methods call the synchronous ones of ``cls`` in a thread: those that it has itself."""
    import asyncio

    def call(name: str) -> Callable[..., Any]:
        async def method(self: Saver, *args: Any, **words: Any) -> Any:
            return await asyncio.to_thread(getattr(self, name), *args, **words)

        return method

    async def alist(self: Saver, *args: Any, **words: Any) -> Any:
        for item in await asyncio.to_thread(lambda: list(self.list(*args, **words))):
            yield item

    own: Sequence[str] = [n for n in SYNC if getattr(cls, n) is not getattr(BaseCheckpointSaver, n)]
    methods: dict[str, Any] = {f"a{name}": call(name) for name in own}
    if cls.list is not BaseCheckpointSaver.list:
        methods["alist"] = alist
    return type(f"{cls.__name__}Bridged", (cls,), methods)
