"""Entries of a thread made into what LangGraph reads: checkpoints, metadata, pending writes, each time as fresh objects."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial

import ormsgpack
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from gitbaton.errors import RecordError
from gitbaton.langgraph.blocked import telling
from gitbaton.threads.codec import loads as loads_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from langgraph.checkpoint.base import Checkpoint, CheckpointMetadata, PendingWrite
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from gitbaton.threads.store import ThreadStore
    from gitbaton.threads.values import Entry, Row, Typed

_KEYS = ormsgpack.OPT_NON_STR_KEYS
_ONCE, _NEVER = "read once", "cannot be joined"


class Joined:
    """Checkpoints that were read before, each kept as one MessagePack document, so that it is decoded at once: at most
    ``budget`` bytes of them, the oldest given up first. Safe from several threads."""

    def __init__(self, budget: int) -> None:
        self.budget, self.held = budget, 0
        self._kept: deque[tuple[Entry, int]] = deque()
        self._lock = threading.Lock()

    def keep(self, entry: Entry, document: bytes) -> None:
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


class Reader:
    """Reads the entries of one store with one serialiser; what it remembers it shares with other readers of that store.
    ``tells``: what the serialiser does not build is said, once for each class."""

    def __init__(self, store: ThreadStore, serde: SerializerProtocol, joined: Joined, *, tells: bool = False) -> None:
        self.store, self.serde, self.joined = store, serde, joined
        # Only this very class is known to decode MessagePack so; whatever derives from it or wraps it is asked itself.
        self._hook = getattr(serde, "_unpack_ext_hook", None) if type(serde) is JsonPlusSerializer else None
        self._loads: Callable[[Typed], Any] = serde.loads_typed
        self._unpack: Callable[[bytes], Any] = partial(ormsgpack.unpackb, ext_hook=self._hook, option=_KEYS)
        if tells:
            self._loads, self._unpack = telling(self._loads), telling(self._unpack)

    def whole(self, thread: str, namespace: str, entry: Entry) -> CheckpointTuple:
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

    def metadata(self, entry: Entry) -> CheckpointMetadata:
        """The metadata of a checkpoint."""
        found: CheckpointMetadata = self._json(entry, "md", entry.md)
        return found

    def value(self, entry: Entry, channel: str) -> object:
        """The value of a channel that the checkpoint has. Raises KeyError where it has none."""
        return self._loads(self.store.blob(entry.channels[channel]))

    def _first(self, entry: Entry) -> tuple[Checkpoint, CheckpointMetadata]:
        """Each part decoded by itself, which proves it whole; an entry that is read again is joined for the next time."""
        loads, channels = self._loads, entry.channels
        checkpoint = self._json(entry, "ck", entry.ck)
        parts = {name: self.store.blob(channels[name]) for name in _ordered(checkpoint.get("channel_values"), channels)}
        metadata = self._json(entry, "md", entry.md)
        if checkpoint.get("id") != entry.id:
            raise RecordError(f"the checkpoint '{entry.id}' is not one that gitbaton wrote: it says that it is another")
        if entry.memo is _ONCE and self._hook is not None:
            document = _join(entry, checkpoint, parts, metadata)
            if document is None:
                entry.memo = _NEVER
            else:
                self.joined.keep(entry, document)
        elif entry.memo is None:
            entry.memo = _ONCE
        checkpoint["channel_values"] = {name: loads(typed) for name, typed in parts.items()}
        return checkpoint, metadata

    def _json(self, entry: Entry, kind: str, text: bytes) -> Any:
        found = loads_json(text) if text else self._loads(self.store.blob(entry.rest[kind]))
        if type(found) is not dict:
            raise RecordError(f"the checkpoint '{entry.id}' is not one that gitbaton wrote: its '{kind}' is no map")
        return found


def _ordered(names: object, channels: Iterable[str]) -> Iterable[str]:
    """Channels in the order in which they were put, as far as the checkpoint says which it was."""
    if type(names) is not list:
        return channels
    there = set(channels)
    return dict.fromkeys([*(name for name in names if type(name) is str and name in there), *channels])


def _join(entry: Entry, checkpoint: Any, parts: dict[str, Typed], metadata: Any) -> bytes | None:
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
