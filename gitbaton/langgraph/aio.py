"""The asynchronous methods of a saver: each does what its namesake does, and none keeps the event loop waiting for a disk."""

from __future__ import annotations

import asyncio
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


async def _aside(work: Callable[..., T], *args: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work, *args)


class AsyncMethods(BaseCheckpointSaver[str]):
    """Half of a saver: the other half has the methods that wait."""

    store: ThreadStore
    _reader: Reader
    _writer: Writer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await _aside(self.close)

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
        return await _aside(self.get_tuple, config)

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
        while some := await _aside(lambda: [*islice(found, _AT_ONCE)]):
            for item in some:
                yield item
            if len(some) < _AT_ONCE:
                break

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """As ``put``. The checkpoint is serialised before this first waits: what the caller changes later is not in it."""
        draft = self._writer.draft(config, checkpoint, metadata, new_versions, self.store.ready)
        await _aside(self._writer.put, draft)
        return draft.config

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As ``put_writes``. The writes are serialised before this first waits."""
        await _aside(self._writer.store.put_writes, *self._writer.writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """As ``delete_thread``."""
        await _aside(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As ``delete_for_runs``."""
        await _aside(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As ``copy_thread``."""
        await _aside(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As ``prune``."""
        await _aside(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As ``get_delta_channel_history``."""
        return await _aside(lambda: self.get_delta_channel_history(config=config, channels=channels))
