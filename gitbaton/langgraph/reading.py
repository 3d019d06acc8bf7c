"""Reading for LangGraph: checkpoints, metadata and pending writes as fresh objects; listings; what delta channels need."""

from __future__ import annotations

import threading
from bisect import insort
from collections import deque
from functools import partial
from itertools import islice
from operator import itemgetter

import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from gitbaton.base.errors import RecordError
from gitbaton.langgraph.blocked import telling
from gitbaton.langgraph.threads.codec import Row, ThreadCheckpoint, Typed, json_text
from gitbaton.langgraph.threads.codec import loads as loads_json
from gitbaton.langgraph.writing import as_text, namespace_of, thread_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, DeltaChannelHistory, PendingWrite
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from gitbaton.langgraph.threads.store import ThreadStore

    Place = tuple[str, str, ThreadCheckpoint]

_KEYS = ormsgpack.OPT_NON_STR_KEYS
_ONCE, _NEVER = "read once", "cannot be joined"
_SURE = 1 << 52
_turn = itemgetter(0, 1)


class Documents:
    """Checkpoints that were read before, each kept as one MessagePack document, so that it is decoded at once: at most
    ``budget`` bytes of them, the oldest given up first. Safe from several threads."""

    def __init__(self, budget: int) -> None:
        self.budget, self.held = budget, 0
        self._kept: deque[tuple[ThreadCheckpoint, int]] = deque()
        self._lock = threading.Lock()

    def keep(self, entry: ThreadCheckpoint, document: bytes) -> None:
        """Remember the document of an entry that has none."""
        size = len(document)
        if size > self.budget // 4:
            entry.memo = _NEVER
            return
        if not self._lock.acquire(blocking=False):  # another time: nobody waits, and no fork can leave it held for ever
            return
        try:
            if type(entry.memo) is bytes:
                return
            entry.memo = document
            self._kept.append((entry, size))
            self.held += size
            while self.held > self.budget:
                oldest, size = self._kept.popleft()
                oldest.memo = None
                self.held -= size
        finally:
            self._lock.release()


class CheckpointReader:
    """Reads the entries of one store with one serialiser; what it remembers it shares with other readers of that store.
    ``tells``: what the serialiser does not build is said, once for each class."""

    def __init__(self, store: ThreadStore, serde: SerializerProtocol, documents: Documents, *, tells: bool = False) -> None:
        self.store, self.serde, self.documents = store, serde, documents
        # Only this very class is known to decode MessagePack so; whatever derives from it or wraps it is asked itself.
        self._hook = getattr(serde, "_unpack_ext_hook", None) if type(serde) is JsonPlusSerializer else None
        self._loads: Callable[[Typed], Any] = serde.loads_typed
        self._unpack: Callable[[bytes], Any] = partial(ormsgpack.unpackb, ext_hook=self._hook, option=_KEYS)
        if tells:
            self._loads, self._unpack = telling(self._loads), telling(self._unpack)

    def tuple_of(self, thread: str, namespace: str, entry: ThreadCheckpoint) -> CheckpointTuple:
        """All of a checkpoint. Raises RecordError, GitError, and what the serialiser raises."""
        memo = entry.memo
        if type(memo) is bytes and self._hook is not None:
            try:
                checkpoint, values, metadata = self._unpack(memo)
                checkpoint["channel_values"] = values
            except ormsgpack.MsgpackDecodeError:  # nested too deep by the two levels that joining adds
                entry.memo = _NEVER
                checkpoint, metadata = self._first(entry)
        else:
            checkpoint, metadata = self._first(entry)
        rows = self.store.rows(thread, namespace, entry)
        parent = entry.parent
        return CheckpointTuple(
            {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": entry.id}},
            checkpoint,
            metadata,
            {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": parent}} if parent else None,
            self.writes(rows) if rows else [],
        )

    def writes(self, rows: Sequence[Row]) -> list[PendingWrite]:
        """The pending writes that rows stand for, in their order."""
        loads = self._loads
        return [(row[1], row[3], loads((row[4], row[5]))) for row in rows]

    def metadata(self, entry: ThreadCheckpoint) -> CheckpointMetadata:
        """The metadata of a checkpoint."""
        found: CheckpointMetadata = self._json(entry, "md", entry.md)
        return found

    def value(self, entry: ThreadCheckpoint, channel: str) -> object:
        """The value of a channel that the checkpoint has. Raises KeyError where it has none."""
        return self._loads(self.store.blob(entry.channels[channel]))

    def _first(self, entry: ThreadCheckpoint) -> tuple[Checkpoint, CheckpointMetadata]:
        """Each part decoded by itself, which proves it whole; an entry that is read again is joined for the next time."""
        loads, channels = self._loads, entry.channels
        checkpoint = self._json(entry, "ck", entry.ck)
        names, order = checkpoint.get("channel_values"), [*channels]
        if type(names) is list:  # in the order in which they were put, as far as the checkpoint says which it was
            order = [*dict.fromkeys([*(name for name in names if type(name) is str and name in channels), *channels])]
        parts = {name: self.store.blob(channels[name]) for name in order}
        metadata = self._json(entry, "md", entry.md)
        if checkpoint.get("id") != entry.id:
            raise RecordError(f"the checkpoint '{entry.id}' is not one that gitbaton wrote: it says that it is another")
        if entry.memo is _ONCE and self._hook is not None:
            document = _join(entry, checkpoint, parts, metadata)
            if document is None:
                entry.memo = _NEVER
            else:
                self.documents.keep(entry, document)
        elif entry.memo is None:
            entry.memo = _ONCE
        checkpoint["channel_values"] = {name: loads(typed) for name, typed in parts.items()}
        return checkpoint, metadata

    def _json(self, entry: ThreadCheckpoint, kind: str, text: bytes) -> Any:
        found = loads_json(text) if text else self._loads(self.store.blob(entry.rest[kind]))
        if type(found) is not dict:
            raise RecordError(f"the checkpoint '{entry.id}' is not one that gitbaton wrote: its '{kind}' is no map")
        return found


def _join(entry: ThreadCheckpoint, checkpoint: Any, parts: dict[str, Typed], metadata: Any) -> bytes | None:
    """``[checkpoint, values, metadata]`` as one document; None where that would not give exactly what its parts give."""
    if entry.rest:
        return None
    try:
        pieces = [b"\x93", ormsgpack.packb(checkpoint), _map(len(parts))]
        for name, (kind, data) in parts.items():
            if kind == "msgpack":
                pieces += (ormsgpack.packb(name), data)
            elif kind == "null":
                pieces += (ormsgpack.packb(name), b"\xc0")
            elif kind == "bytes":
                pieces += (ormsgpack.packb(name), ormsgpack.packb(data))
            else:
                return None
        pieces.append(ormsgpack.packb(metadata))
    except ormsgpack.MsgpackEncodeError:  # an integer beyond 64 bits, half of a surrogate pair
        return None
    return b"".join(pieces)


def _map(size: int) -> bytes:
    """The head of a MessagePack map."""
    if size < 16:
        return bytes((0x80 | size,))
    return b"\xde" + size.to_bytes(2, "big") if size < 1 << 16 else b"\xdf" + size.to_bytes(4, "big")


def history(
    reader: CheckpointReader, thread: str, namespace: str, checkpoint: str | None, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """For each channel its writes before ``checkpoint`` (default: the newest), oldest first, and, where there is one, the value
    they begin at. Only what is asked for is decoded."""
    store = reader.store
    rows: dict[str, list[Sequence[Row]]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    target = store.entry(thread, namespace, checkpoint) if checkpoint else store.latest(thread, namespace)
    parent, met = target.parent if target else None, {target.id if target else ""}
    remaining = set(rows)
    while parent is not None and remaining and parent not in met:
        met.add(parent)
        entry = store.entry(thread, namespace, parent)
        if entry is None:
            break
        found = store.rows(thread, namespace, entry)
        for channel in [*remaining]:
            if own := [row for row in found if row[3] == channel]:
                rows[channel].append(own)
            if channel in entry.channels:
                seeds[channel] = reader.value(entry, channel)
                remaining.discard(channel)
        parent = entry.parent
    result: dict[str, DeltaChannelHistory] = {}
    for channel in rows:
        writes = [write for own in reversed(rows[channel]) for write in reader.writes(own)]
        result[channel] = {"writes": writes, "seed": seeds[channel]} if channel in seeds else {"writes": writes}
    return result


def entries(
    reader: CheckpointReader,
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
    only, below = as_text(only) if only else None, as_text(below) if below else None
    if limit is not None and limit <= 0:
        return iter(())
    if thread is not None and namespace is not None:
        found = _one(reader, [(thread, namespace)], only, below) if only else _chain(reader, (thread, namespace), below)
    elif only:
        found = _one(reader, [c for c in reader.store.chains(thread) if namespace is None or c[1] == namespace], only, below)
    else:
        newest = reader.store.newest(thread)
        found = _all(reader, {c: newest[c] for c in sorted(newest) if namespace is None or c[1] == namespace}, below)
    if where:
        found = _matching(reader, found, where)
    return islice(found, limit)


def _one(reader: CheckpointReader, chains: list[tuple[str, str]], only: str, below: str | None) -> Iterator[Place]:
    if below and only >= below:
        return
    for thread, namespace in chains:
        entry = reader.store.entry(thread, namespace, only)
        if entry is not None:
            yield thread, namespace, entry


def _chain(reader: CheckpointReader, place: tuple[str, str], below: str | None) -> Iterator[Place]:
    return ((*place, entry) for entry in reader.store.walk(*place, below or None))


def _all(reader: CheckpointReader, newest: Mapping[tuple[str, str], str | None], below: str | None) -> Iterator[Place]:
    """Yield the checkpoints of all chains, newest first. A chain is opened when it is the turn of its newest checkpoint, so
    that the first few come soon. One of unknown newest checkpoint is opened first, which raises why."""
    waiting = sorted(((id, -number) for number, id in enumerate(newest.values()) if id is not None))
    chains = [*newest]
    begun: list[tuple[str, int, Place, Iterator[Place]]] = []  # of each opened chain what comes next, the newest last

    def go_on(number: int, rest: Iterator[Place], most: str | None) -> None:
        for place in rest:
            if most is None or place[2].id <= most:  # what came since is not listed
                insort(begun, (place[2].id, -number, place, rest), key=_turn)
                break

    for number, id in enumerate(newest.values()):
        if id is None:
            go_on(number, _chain(reader, chains[number], below), None)
    while waiting or begun:
        while waiting and (not begun or waiting[-1] > begun[-1][:2]):
            most, number = waiting.pop()
            go_on(-number, _chain(reader, chains[-number], below), most)
        if begun:
            _, number, place, rest = begun.pop()
            yield place
            go_on(-number, rest, None)


def _matching(reader: CheckpointReader, found: Iterator[Place], where: Mapping[str, Any]) -> Iterator[Place]:
    """Yield checkpoints with metadata that equal ``where``; a text that must stand in the stored JSON spares decoding most of
    them."""
    needles = [needle for key, wanted in where.items() if (needle := _needle(key, wanted))]
    for place in found:
        entry = place[2]
        if entry.md and any(needle not in entry.md for needle in needles):
            continue
        metadata: Mapping[str, Any] = reader.metadata(entry)
        if all(wanted == metadata.get(key) for key, wanted in where.items()):
            yield place


def _needle(key: str, wanted: object) -> bytes | None:
    """Return a text that stored JSON must hold where ``key`` equals ``wanted``; None where there are several ways to write
    it."""
    if type(wanted) is str or (type(wanted) is int and 1 < abs(wanted) < _SURE):  # 1 equals true
        text = json_text({key: wanted})
        return text[1:-1] if text else None
    return None
