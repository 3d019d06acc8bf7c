"""The asynchronous methods of a saver: each does what its namesake does, and none keeps the event loop waiting for a disk."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from langgraph.checkpoint.base import BaseCheckpointSaver

from gitbaton.langgraph.naming import namespace_of, thread_of, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from typing import Any, Self, TypeVar

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        DeltaChannelHistory,
    )

    from gitbaton.langgraph.reading import Reader
    from gitbaton.langgraph.writing import Writer
    from gitbaton.threads.store import ThreadStore

    T = TypeVar("T")

_AT_ONCE = 64
_THREADS = 16


class Aside:
    """Threads of a saver's own, for what the event loop must not wait for. Those of the loop run synchronous nodes, too, which
    may all be waiting for a graph that waits for this saver."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """What ``work`` gives, done in one of the threads."""
        pool, process = self._pool, os.getpid()
        if pool is None or self._process != process:  # a fork takes no threads along
            pool = ThreadPoolExecutor(_THREADS, "gitbaton-aside")
            self._pool, self._process = pool, process
        try:
            done = asyncio.get_running_loop().run_in_executor(pool, work, *args)
        except RuntimeError:
            if threading.main_thread().is_alive():
                raise
            return work(*args)  # the interpreter waits for its last threads, and no pool takes work any more
        return await done

    def drop(self) -> None:
        """Let the threads end when they have done what they were given; who asks again gets others."""
        self._pool = None


class AsyncMethods(BaseCheckpointSaver[str]):
    """Half of a saver: the other half has the methods that wait."""

    store: ThreadStore
    _reader: Reader
    _writer: Writer
    _aside: Aside

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._aside.run(self.close)

    def close(self) -> None:
        """Let go of the repository."""
        raise AssertionError

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As ``get_tuple``; without leaving the event loop where everything is in memory."""
        named: Mapping[str, Any] = config["configurable"]
        thread, namespace, wanted = thread_of(named), namespace_of(named), named.get("checkpoint_id")
        entry = self.store.ready(thread, namespace, whole(wanted) if wanted else None)
        if entry is not None and (entry.commit is None or type(entry.memo) is bytes) and not entry.written:
            return self._reader.whole(thread, namespace, entry)
        return await self._aside.run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As ``list``; checkpoints are read some at a time."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while some := await self._aside.run(lambda: [*islice(found, _AT_ONCE)]):
            for item in some:
                yield item
            if len(some) < _AT_ONCE:
                break

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """As ``put``. The checkpoint is serialised before this first waits: what the caller changes later is not in it."""
        draft = self._writer.draft(config, checkpoint, metadata, new_versions, self.store.ready)
        await self._aside.run(self._writer.put, draft)
        return draft.config

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As ``put_writes``. The writes are serialised before this first waits."""
        await self._aside.run(self._writer.store.put_writes, *self._writer.writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """As ``delete_thread``."""
        await self._aside.run(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As ``delete_for_runs``."""
        await self._aside.run(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As ``copy_thread``."""
        await self._aside.run(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As ``prune``."""
        await self._aside.run(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As ``get_delta_channel_history``."""
        return await self._aside.run(lambda: self.get_delta_channel_history(config=config, channels=channels))
