"""GitSaver: LangGraph's checkpoints as commits of a git repository; no asynchronous method keeps an event loop waiting."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from langgraph.checkpoint.base import BaseCheckpointSaver, get_checkpoint_id
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError, UsageError
from gitbaton.checkpoints.baton import Baton
from gitbaton.git.questions import create_bare
from gitbaton.langgraph.blocked import allowed
from gitbaton.langgraph.branches import Branches
from gitbaton.langgraph.reading import CheckpointReader, Documents, entries, history
from gitbaton.langgraph.threads.store import ThreadStore
from gitbaton.langgraph.writing import Writer, as_text, namespace_of, thread_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self, TypeVar

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple, DeltaChannelHistory
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from gitbaton.langgraph.threads.codec import ThreadCheckpoint

    T = TypeVar("T")

_AT_ONCE = 64
_THREADS = 16


class Aside:
    """A pool of worker threads, for what the event loop must not wait for. Those of the loop run synchronous nodes, too, which
    may all be waiting for a graph that waits for this saver."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Run ``work`` in one of the workers; return what it gives."""
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
        """End the workers once they have done their work; a later call starts others."""
        self._pool = None


class _Done:
    """Awaitable that has its result already."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


class GitSaver(BaseCheckpointSaver[str]):
    """A checkpointer for LangGraph in a git repository; one class for synchronous and asynchronous graphs.

    ``path``: a repository, or any directory in one; where nothing is, or an empty folder, a bare repository is made. Or an open
    ``Baton``, which stays the caller's to close. ``serde``: instead of LangGraph's own serialiser, which here builds nothing
    but LangGraph's and LangChain's safe types and what ``allow`` names (classes, or pairs of module and name), and never
    unpickles. So a graph whose state holds a ``Plan`` of its own, a Pydantic model, a dataclass or an Enum, needs

        GitSaver(path, allow=[Plan])  # or allow=[("my_module", "Plan")]

    else it gets the plain content of a ``Plan``, a dict say, and the logger ``gitbaton.langgraph`` warns once of each class.
    With LANGGRAPH_STRICT_MSGPACK=true a compiled graph names the classes of its own schema itself.

    ``fsync``: False trades the last moments before a power cut for speed; a killed process loses nothing either way.
    ``cache``: bytes of stored values that are kept in memory.

    Safe in several threads, and in any number of processes on one repository: each sees what any has put. A put is durable
    when it returns. A context manager, synchronous and asynchronous. Raises NotARepositoryError, GitError, and UsageError for
    an ``allow`` that is no such list.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Baton,
        *,
        serde: SerializerProtocol | None = None,
        allow: Sequence[type | tuple[str, str]] = (),
        fsync: bool = True,
        cache: int = 128 << 20,
    ) -> None:
        if serde is not None and allow:
            raise UsageError("give either a serialiser or 'allow', not both: a serialiser has its own list")
        names = allowed(allow)
        if not isinstance(path, Baton) and _nothing_at(os.fspath(path)):
            create_bare(os.fspath(path), sync=fsync)
        self.store = ThreadStore.open(path.repo if isinstance(path, Baton) else path, sync=fsync, cache=cache)
        self._aside = Aside()
        self._documents = Documents(cache // 4)
        self._recent: dict[tuple[str, str], Any] = {}
        self._branches = Branches()
        self._tells = serde is None
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=names or None))

    @property
    def serde(self) -> SerializerProtocol:
        """Serialiser of values; LangGraph replaces it in the copy that ``with_allowlist`` gives."""
        return self._reader.serde

    @serde.setter
    def serde(self, serde: SerializerProtocol) -> None:
        """Serialise with this from now on."""
        self._reader = CheckpointReader(
            self.store, serde, self._documents, tells=self._tells and type(serde) is JsonPlusSerializer
        )
        self._writer = Writer(self.store, serde, self._recent, self._branches)

    @classmethod
    def from_conn_string(cls, conn_string: str) -> Self:
        """A saver for ``with`` or ``async with``, as the other savers have it; ``conn_string`` is a path."""
        return cls(conn_string)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._aside.run(self.close)

    def setup(self) -> Awaitable[None]:
        """Do nothing: all that a saver needs was made with it. Programs call this of other savers, synchronous ones without
        ``await`` and asynchronous ones with it; here both work."""
        return _Done()

    async def asetup(self) -> None:
        """Do nothing, as ``setup``, under the name that other asynchronous savers have for it."""

    def flush(self) -> None:
        """Everything that was put is in git's refs when this returns: before a push, or to look at it with git."""
        self.store.flush()

    def maintain(self) -> None:
        """Flush, and let git pack the repository anew. It waits for git: not for every day."""
        self.store.maintain()

    def close(self) -> None:
        """Let go of the repository; the last one to do so brings everything into git's refs. Copies share it."""
        self.store.close()
        self._aside.drop()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, else the newest of its thread and namespace; None where there is none. Raises
        KeyError without a thread id, and what the serialiser raises."""
        named: Mapping[str, Any] = config["configurable"]
        thread, namespace = thread_of(named), namespace_of(named)
        wanted = named.get("checkpoint_id")
        entry = self.store.entry(thread, namespace, as_text(wanted)) if wanted else self.store.latest(thread, namespace)
        self._was_read(thread, namespace, entry, bool(wanted))
        return None if entry is None else self._reader.tuple_of(thread, namespace, entry)

    def _was_read(self, thread: str, namespace: str, entry: ThreadCheckpoint | None, asked: bool) -> None:
        self._branches.met(thread, namespace, entry.id if entry is not None else None)
        if asked and entry is not None:
            self._branches.asked(thread, namespace, entry.id)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first by id: of all threads (``config`` None), of a thread (no ``checkpoint_ns``) or of
        one namespace; ``filter`` has metadata that must be equal. Raises as ``get_tuple`` does."""
        for thread, namespace, entry in entries(self._reader, config, filter, before, limit):
            if before is not None:  # LangGraph looks so for where a graph in a graph stood
                self._branches.asked(thread, namespace, entry.id)
            yield self._reader.tuple_of(thread, namespace, entry)

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Store a checkpoint; ``config`` names the one that it follows. A channel that is not in ``new_versions`` and has its
        parent's version is the parent's. The same id again replaces. Durable when it returns. Raises KeyError without a thread
        id, and what the serialiser raises."""
        draft = self._writer.draft(config, checkpoint, metadata, new_versions, self.store.entry)
        self._writer.put(draft)
        return draft.config

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store a task's writes with the checkpoint that ``config`` names, which may come later. Durable when it returns."""
        draft = self._writer.writes(config, writes, task_id, task_path)
        self.store.put_writes(*draft)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread in all namespaces; one that is not there is no error."""
        self.store.delete(as_text(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints, with their writes, that name one of these runs in their metadata. They may be what a delta
        channel of a later checkpoint is rebuilt from. Raises what the serialiser raises, with nothing deleted."""
        self.store.delete_runs([as_text(run) for run in run_ids], self._reader.metadata)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread, in all namespaces."""
        self.store.copy(as_text(source_thread_id), as_text(target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """``keep_latest``: keep the newest checkpoint of each namespace with its writes, and what delta channels need to be
        rebuilt there. ``delete``: keep nothing. Raises UsageError for another strategy, NotFoundError where something of that
        is missing, and what the serialiser raises, with nothing removed."""
        self.store.prune([as_text(thread) for thread in thread_ids], strategy, self._reader.metadata)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """The writes that delta channels of a checkpoint are rebuilt from, oldest first, and the values they begin at."""
        named: Mapping[str, Any] = config["configurable"]
        wanted = get_checkpoint_id(config)
        place = thread_of(named), namespace_of(named)
        return history(self._reader, *place, as_text(wanted) if wanted else None, channels) if channels else {}

    def get_next_version(self, current: str | None, channel: None) -> str:
        """The version after ``current``: a count, and a random part that tells branches apart."""
        number = 0 if current is None else current if isinstance(current, int) else int(current.split(".")[0])
        return f"{number + 1:032}.{random.random():016}"

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do ``get_tuple`` in a worker, or in the event loop where everything is in memory."""
        named: Mapping[str, Any] = config["configurable"]
        thread, namespace, wanted = thread_of(named), namespace_of(named), named.get("checkpoint_id")
        entry = self.store.ready(thread, namespace, as_text(wanted) if wanted else None)
        if entry is not None and (entry.commit is None or type(entry.memo) is bytes) and not entry.written:
            self._was_read(thread, namespace, entry, bool(wanted))
            return self._reader.tuple_of(thread, namespace, entry)
        return await self._aside.run(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do ``list`` in a worker, some checkpoints at a time."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while some := await self._aside.run(lambda: [*islice(found, _AT_ONCE)]):
            for item in some:
                yield item
            if len(some) < _AT_ONCE:
                break

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Do ``put`` in a worker. The checkpoint is serialised before this first waits: what the caller changes later is not in
        it."""
        draft = self._writer.draft(config, checkpoint, metadata, new_versions, self.store.ready)
        await self._aside.run(self._writer.put, draft)
        return draft.config

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Do ``put_writes`` in a worker. The writes are serialised before this first waits."""
        await self._aside.run(self._writer.store.put_writes, *self._writer.writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Do ``delete_thread`` in a worker."""
        await self._aside.run(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do ``delete_for_runs`` in a worker."""
        await self._aside.run(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do ``copy_thread`` in a worker."""
        await self._aside.run(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do ``prune`` in a worker."""
        await self._aside.run(lambda: self.prune(thread_ids, strategy=strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do ``get_delta_channel_history`` in a worker."""
        return await self._aside.run(lambda: self.get_delta_channel_history(config=config, channels=channels))


def _nothing_at(path: str) -> bool:
    try:
        with os.scandir(path) as found:
            return next(found, None) is None
    except FileNotFoundError:
        return True
    except NotADirectoryError:
        return False
    except OSError as error:
        raise GitError(f"{in_quotes(path)} cannot be opened: {error.strerror}") from None
