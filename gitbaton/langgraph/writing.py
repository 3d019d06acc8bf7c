"""From a put of LangGraph to what a thread stores: names as plain text, and only the channels that changed, serialised."""

from __future__ import annotations

import json
from functools import partial
from uuid import UUID

import ormsgpack
from langgraph.checkpoint.base import WRITES_IDX_MAP, get_checkpoint_metadata
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from gitbaton.base.codec import plain
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.langgraph.threads.chain import file_entry
from gitbaton.langgraph.threads.codec import Id, Row, ThreadCheckpoint, Typed, json_text, loads, plain_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
    from langgraph.checkpoint.serde.base import SerializerProtocol

    from gitbaton.langgraph.branches import Branches
    from gitbaton.langgraph.threads.store import ThreadStore

    Versions = tuple[bytes, Mapping[str, Any]]

_RECENT = 1024
_CHOSEN = ("fork", "update")  # what LangGraph says of a checkpoint that a program asked for, after any other
_INLINE = 16 << 20  # bytes of JSON that stand in a commit
_TEXT = frozenset({str})
_place = partial(file_entry, "c")
# Nothing but JSON's own types, bytes, and keys that are text.
_STRICT = (
    ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_UUID
)


def as_text(given: object) -> str:
    """Return anything as text. Of an Enum that is text, or another class made from ``str``, the text that it is equal to."""
    if type(given) is str:
        return given
    return str.__str__(given if isinstance(given, str) else str(given))


def text(given: object, what: str) -> str:
    """Return a name as text: numbers are written out. Raises UsageError, which says ``what`` it is, for what is no name."""
    if type(given) is str:
        return given
    if not isinstance(given, (str, int, float, UUID)):
        raise UsageError(f"{what} must be text, not {plain(repr(given)[:60])}")
    return as_text(given)


def thread_of(named: Mapping[str, Any]) -> str:
    """Return the thread that a config names. Raises KeyError where it names none."""
    return as_text(named["thread_id"])


def namespace_of(named: Mapping[str, Any]) -> str:
    """Return the namespace that a config names; the empty one where it names none."""
    given = named.get("checkpoint_ns")
    return text(given, "a namespace") if given else ""


class CheckpointDraft:
    """Checkpoint that is ready to be stored; ``values`` are those that all have to be serialised if its parent changes;
    ``on_purpose``: its parent was chosen."""

    __slots__ = (
        *("channels", "ck", "config", "id", "md", "namespace", "on_purpose", "parent"),
        *("rest", "thread", "values", "versions"),
    )

    def __init__(self, config: RunnableConfig, checkpoint: Checkpoint) -> None:
        named: Mapping[str, Any] = config["configurable"]
        given = named["thread_id"]
        self.thread, self.namespace = thread_of(named), namespace_of(named)
        self.id = text(checkpoint["id"], "a checkpoint's id")
        self.config: RunnableConfig = {
            "configurable": {"thread_id": given, "checkpoint_ns": self.namespace, "checkpoint_id": self.id}
        }
        parent = named.get("checkpoint_id") or None
        self.parent = None if parent is None else text(parent, "a checkpoint's id")
        self.values = _named(checkpoint.get("channel_values") or {})
        self.versions: Mapping[str, Any] = checkpoint.get("channel_versions") or {}
        self.on_purpose = False
        self.rest: dict[str, Typed] = {}
        self.ck = self.md = b""
        self.channels: dict[str, Id | Typed] = {}


class Writer:
    """Stores checkpoints and writes with one serialiser. ``recent`` remembers the channel versions of the newest checkpoint of
    some threads; writers of one store may share it, and ``branches``."""

    def __init__(
        self, store: ThreadStore, serde: SerializerProtocol, recent: dict[tuple[str, str], Versions], branches: Branches
    ) -> None:
        self.store, self.serde, self.recent, self.branches = store, serde, recent, branches
        self._dumps = serde.dumps_typed

    def draft(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
        parent: Callable[[str, str, str], ThreadCheckpoint | None],
    ) -> CheckpointDraft:
        """Serialise a checkpoint: later changes of the caller's objects do not touch it. ``parent`` finds the one that it
        follows; where it finds none, all channels are serialised. Raises KeyError without a thread id, and what the serialiser
        raises."""
        draft = CheckpointDraft(config, checkpoint)
        draft.on_purpose = metadata.get("source") in _CHOSEN
        body: dict[str, Any] = {**checkpoint, "id": draft.id, "channel_values": [*draft.values]}
        if body["channel_values"] == sorted(draft.values, key=_place):
            del body["channel_values"]
        draft.ck = self._text(draft, "ck", body)
        draft.md = self._text(draft, "md", get_checkpoint_metadata(config, metadata))
        held, old = None, None
        for name, value in draft.values.items():
            if name not in new_versions and draft.parent is not None:
                if held is None:
                    held, old = self._parent(draft, parent)
                oid = held.get(name)
                if oid is not None and old is not None and name in old and draft.versions.get(name) == old[name]:
                    draft.channels[name] = oid
                    continue
            draft.channels[name] = self._typed(value)
        return draft

    def put(self, draft: CheckpointDraft) -> None:
        """Store a draft; it is durable when this returns."""
        d = draft
        note = None if d.on_purpose else self.branches.watch(d.thread, d.namespace, d.id, d.parent)
        if not self.store.put(d.thread, d.namespace, d.id, d.parent, d.ck, d.md, d.channels, d.rest, note):
            every: dict[str, Id | Typed] = {name: self._typed(value) for name, value in d.values.items()}
            self.store.put(d.thread, d.namespace, d.id, d.parent, d.ck, d.md, every, d.rest, note)
        self.branches.met(d.thread, d.namespace, d.id)
        if d.ck:
            recent, chain = self.recent, (d.thread, d.namespace)
            if len(recent) >= _RECENT and chain not in recent:
                recent.clear()
            recent[chain] = (d.ck, dict(d.versions))

    def writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> tuple[str, str, str, tuple[Row, ...], bool]:
        """Return the arguments of the store's ``put_writes``, serialised. Raises KeyError without a thread id or a checkpoint
        id."""
        named: Mapping[str, Any] = config["configurable"]
        special = WRITES_IDX_MAP
        path, task = text(task_path, "the path of a task"), text(task_id, "the id of a task")
        rows = tuple(
            (path, task, special.get(channel, number), text(channel, "a channel's name"), *self._typed(value))
            for number, (channel, value) in enumerate(writes)
        )
        replace = all(channel in special for channel, _ in writes)
        return thread_of(named), namespace_of(named), as_text(named["checkpoint_id"]), rows, replace

    def _parent(
        self, draft: CheckpointDraft, find: Callable[[str, str, str], ThreadCheckpoint | None]
    ) -> tuple[Mapping[str, Id], Mapping[str, Any] | None]:
        """Return the blobs of the parent's channels and their versions."""
        entry = find(draft.thread, draft.namespace, draft.parent or "")
        if entry is None:
            return {}, None
        known = self.recent.get((draft.thread, draft.namespace))
        if known is not None and known[0] == entry.ck:
            return entry.channels, known[1]
        try:
            checkpoint = loads(entry.ck) if entry.ck else self.serde.loads_typed(self.store.blob(entry.rest["ck"]))
        except RecordError:
            return entry.channels, None
        found = checkpoint.get("channel_versions") if isinstance(checkpoint, dict) else None
        return entry.channels, found if isinstance(found, dict) else None

    def _text(self, draft: CheckpointDraft, kind: str, value: object) -> bytes:
        try:
            ormsgpack.packb(value, option=_STRICT)  # far faster than a look at each value in Python
            text = plain_text(value)
        except ormsgpack.MsgpackEncodeError:
            text = json_text(value)
        if text is None or len(text) > _INLINE:
            draft.rest[kind] = self._typed(value) if kind == "ck" else self._about(value)
            return b""
        return text

    def _about(self, value: object) -> Typed:
        """Serialise metadata that are no exact JSON. With LangGraph's own serialiser, what that has no form for (integers
        beyond 64 bits, deep lists) is written as the other savers write all metadata."""
        try:
            return self._typed(value)
        except (TypeError, ValueError, RecursionError):
            if type(self.serde) is not JsonPlusSerializer:
                raise
            try:
                return "json", json.dumps(value).encode("ascii")
            except (TypeError, ValueError, RecursionError):
                pass
            raise

    def _typed(self, value: object) -> Typed:
        kind, data = self._dumps(value)
        return kind, data if type(data) is bytes else bytes(data)


def _named(values: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Return the values of channels by names that are text and nothing more."""
    if _TEXT.issuperset(map(type, values)):
        return values
    for name in values:
        if not isinstance(name, str):
            raise UsageError(f"a channel's name must be text, not {plain(repr(name)[:60])}")
    return {as_text(name): value for name, value in values.items()}
