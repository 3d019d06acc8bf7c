"""Reports of threads: which there are, what happened in one, which checkpoint a name means, and all that it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import groupby, pairwise
from typing import Any

from gitbaton.base.codec import first_line, in_quotes, plain
from gitbaton.base.errors import AmbiguousNameError, BatonError, NotFoundError
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.render import in_shell
from gitbaton.langgraph.threads.codec import ThreadCheckpoint, Typed
from gitbaton.langgraph.threads.decoding import SCREEN, Doc, Limits, document, documents, flat, opened, readable
from gitbaton.langgraph.threads.store import ThreadStore

if TYPE_CHECKING:
    from gitbaton.base.secrets import Redactor

INTERRUPT = "__interrupt__"
_BACK = re.compile(r"@(?:~([0-9]{0,9}))?\Z")
_HEX = re.compile(r"[0-9a-f]{4,64}\Z")
_LEAST = 4  # characters of an id's beginning
_CANDIDATES = 20
_DELTA = "put together from writes of checkpoints before it"


@value
class CheckpointFacts:
    """Facts that a checkpoint states, as far as they can be read: ``checkpoint`` and ``metadata`` are its JSON."""

    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @property
    def ts(self) -> datetime | None:
        """Time at which it was made; None where it does not say so."""
        said = self.checkpoint.get("ts")
        try:
            when = datetime.fromisoformat(said) if isinstance(said, str) else None
            return None if when is None else (when if when.tzinfo else when.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            return None

    @property
    def source(self) -> str:
        """``input``, ``loop``, ``update``, ``fork``, or whatever it says, in one line."""
        return word(self.metadata.get("source"))

    @property
    def step(self) -> str:
        """Its number in the graph's run."""
        return word(self.metadata.get("step"))

    @property
    def run(self) -> str:
        """The run that made it."""
        return word(self.metadata.get("run_id"))

    def deltas(self) -> tuple[str, ...]:
        """The channels that hold differences since a value that an earlier checkpoint may have."""
        counters = self.metadata.get("counters_since_delta_snapshot")
        return tuple(counters) if isinstance(counters, Mapping) and all(isinstance(name, str) for name in counters) else ()

    def version(self, channel: str) -> str:
        """The version of a channel."""
        versions = self.checkpoint.get("channel_versions")
        return word(versions.get(channel)) if isinstance(versions, Mapping) else ""


@value
class ThreadSummary:
    """A namespace of a thread: how many checkpoints, the newest one, and whether it waits at an interrupt."""

    thread: str
    namespace: str
    count: int
    newest: ThreadCheckpoint
    facts: CheckpointFacts
    waits: bool


@value
class CheckpointRow:
    """A checkpoint in the list of its thread: the channels that changed, how many writes it has, and whether its parent is not
    the next one in the list, or ``gone``."""

    entry: ThreadCheckpoint
    facts: CheckpointFacts
    changed: tuple[str, ...]
    writes: int
    waits: bool
    fork: bool
    gone: bool


def word(said: object) -> str:
    """A small JSON value in one short line; nothing for what is not there or not small."""
    if isinstance(said, bool) or not isinstance(said, (str, int, float)):
        return ""
    return first_line(str(said))[:100]


def facts(store: ThreadStore, entry: ThreadCheckpoint) -> CheckpointFacts:
    """Return what a checkpoint states. Without the extra, what JSON could not carry is not read."""
    return CheckpointFacts(checkpoint=_object(store, entry, "ck", entry.ck), metadata=_object(store, entry, "md", entry.md))


def _object(store: ThreadStore, entry: ThreadCheckpoint, name: str, text: bytes) -> Mapping[str, Any]:
    try:
        stored = None if text or name not in entry.rest else store.blob(entry.rest[name])
        found = opened(stored) if stored is not None else json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    # What is not JSON may have names that are no texts.
    if all(isinstance(key, str) for key in found):
        return found
    return {key if isinstance(key, str) else flat(document(key, SCREEN, str)): item for key, item in found.items()}


def threads(store: ThreadStore) -> tuple[list[ThreadSummary], dict[tuple[str, str], str]]:
    """All threads and namespaces, the one that moved last first; and those that cannot be read, each with the reason."""
    rows: list[ThreadSummary] = []
    wrong: dict[tuple[str, str], str] = {}
    for thread, namespace in store.chains():
        try:
            entry = store.latest(thread, namespace)
            if entry is not None:
                count = store.count(thread, namespace)
                waits = any(row[3] == INTERRUPT for row in store.rows(thread, namespace, entry))
                told = facts(store, entry)
                made = ThreadSummary(thread=thread, namespace=namespace, count=count, newest=entry, facts=told, waits=waits)
                rows.append(made)
        except BatonError as error:
            wrong[thread, namespace] = error.message
    rows.sort(key=lambda row: (row.facts.ts or _LONG_AGO, row.newest.id), reverse=True)
    return rows, wrong


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def steps(store: ThreadStore, thread: str, namespace: str, limit: int | None = None) -> list[CheckpointRow]:
    """The checkpoints of a thread, newest first, at most ``limit``. Raises RecordError, GitError."""
    found: list[ThreadCheckpoint] = []
    for entry in store.walk(thread, namespace):
        found.append(entry)
        if limit is not None and len(found) > limit:
            break
    listed, told = found[:limit], {entry.id: facts(store, entry) for entry in found}
    below = {upper.id: lower.id for upper, lower in pairwise(found)}
    rows = []
    for entry in listed:
        written = store.rows(thread, namespace, entry)
        fork = entry.parent is not None and entry.parent != below.get(entry.id)
        rows.append(
            CheckpointRow(
                entry=entry,
                facts=told[entry.id],
                changed=_changed(store, (thread, namespace), entry, told),
                writes=len(written),
                waits=entry is found[0] and any(row[3] == INTERRUPT for row in written),
                fork=fork,
                gone=fork and store.entry(thread, namespace, entry.parent or "") is None,
            )
        )
    return rows


def _changed(
    store: ThreadStore, place: tuple[str, str], entry: ThreadCheckpoint, told: dict[str, CheckpointFacts]
) -> tuple[str, ...]:
    """The channels that a checkpoint says it changed, else those of another version than the parent's."""
    mine = told[entry.id].checkpoint
    said = mine.get("updated_channels")
    if isinstance(said, list):
        return tuple(sorted(name for name in said if isinstance(name, str)))
    versions = mine.get("channel_versions")
    if entry.parent is not None and entry.parent not in told:
        parent = store.entry(*place, entry.parent)
        told[entry.parent] = facts(store, parent) if parent is not None else CheckpointFacts(checkpoint={}, metadata={})
    before = told[entry.parent].checkpoint.get("channel_versions") if entry.parent is not None else None
    old = before if isinstance(before, Mapping) else {}
    now = versions if isinstance(versions, Mapping) else {}
    return tuple(sorted(name for name, version in now.items() if isinstance(name, str) and old.get(name) != version))


def chosen(store: ThreadStore, thread: str, namespace: str | None, elsewhere: Mapping[str, Iterable[str]]) -> tuple[str, str]:
    """The thread and namespace that are meant; without a namespace the root one, else the only one. ``elsewhere``: the remotes
    from which threads were fetched that are not here. Raises NotFoundError that names what is near, AmbiguousNameError."""
    chains = store.chains()
    names = sorted({name for name, _ in chains})
    if thread not in names:
        raise missing(thread, elsewhere, names)
    there = [space for name, space in chains if name == thread]
    if namespace is None:
        if "" in there or len(there) == 1:
            return thread, "" if "" in there else there[0]
        raise AmbiguousNameError(f"thread {in_quotes(thread)} has {len(there)} namespaces; name one with --ns", *_spaces(there))
    if namespace not in there:
        said = f"thread {in_quotes(thread)} has no namespace {in_quotes(namespace)}"
        raise NotFoundError(said, *_spaces(there))
    return thread, namespace


def missing(thread: str, elsewhere: Mapping[str, Iterable[str]], names: Iterable[str] = ()) -> NotFoundError:
    """The error for a thread that is not here: what was fetched, or what is near."""
    remotes = [f"it was fetched from {in_quotes(remote)}: {joins(remote)}" for remote in sorted(elsewhere.get(thread, ()))]
    near = [f"perhaps {in_quotes(name)} is meant" for name in get_close_matches(thread[:200], names, n=3, cutoff=0.55)]
    return NotFoundError(f"there is no thread {in_quotes(thread)}", *(remotes or (*near, "'git baton thread list' lists them")))


def joins(remote: str) -> str:
    """Return the command that takes in threads that were only fetched."""
    return f"'git baton sync --threads {in_shell(remote)}' takes it in"


def _spaces(there: list[str]) -> list[str]:
    shown = [f"namespace {in_quotes(space)}" for space in there[:_CANDIDATES]]
    return shown + (["..."] if len(there) > _CANDIDATES else [])


def resolve(store: ThreadStore, thread: str, namespace: str, name: str = "@") -> ThreadCheckpoint:
    """The checkpoint that a name means: ``@`` the newest, ``@~3`` three before it in the list, an id or the beginning of one,
    or a commit of the chain or its beginning. Raises NotFoundError, AmbiguousNameError, RecordError, GitError."""
    back = _BACK.match(name)
    if back:
        return _back(store, thread, namespace, 0 if name == "@" else int(back[1] or 1))
    exact = store.entry(thread, namespace, name)
    if exact is not None:
        return exact
    walk, hexed = store.walk(thread, namespace) if len(name) >= _LEAST else (), _HEX.match(name) is not None
    found = [e for e in walk if e.id.startswith(name) or (hexed and e.commit is not None and e.commit.hex().startswith(name))]
    if len(found) == 1:
        return found[0]
    if found:
        told = [(entry.id, facts(store, entry)) for entry in found[:_CANDIDATES]]
        shown = [f"{plain(id)} {of.source} {of.step}".rstrip() for id, of in told]
        more = ["..."] if len(found) > _CANDIDATES else []
        raise AmbiguousNameError(f"{in_quotes(name)} could mean {len(found)} checkpoints", *shown, *more)
    said = f"thread {in_quotes(thread)} has no checkpoint {in_quotes(name)}"
    raise NotFoundError(said, *_near(store, thread, namespace, name), _listing(thread, namespace))


def _back(store: ThreadStore, thread: str, namespace: str, count: int) -> ThreadCheckpoint:
    for number, entry in enumerate(store.walk(thread, namespace)):
        if number == count:
            return entry
    raise NotFoundError(f"thread {in_quotes(thread)} has no checkpoint {count} before its newest", _listing(thread, namespace))


def _near(store: ThreadStore, thread: str, namespace: str, name: str) -> list[str]:
    ids = [entry.id for _, entry in zip(range(2000), store.walk(thread, namespace), strict=False)]
    return [f"perhaps {in_quotes(found)} is meant" for found in get_close_matches(name[:200], ids, n=2, cutoff=0.7)]


def _listing(thread: str, namespace: str) -> str:
    space = f" --ns {in_shell(namespace)}" if namespace else ""
    return f"they are listed by: git baton thread log {in_shell(thread)}{space}"


@value
class ShownValue:
    """A stored value: its type and size, and either the value or why it is not there. ``name`` is its channel's, ``index`` that
    of a write in its task."""

    name: str
    kind: str
    size: int
    doc: Doc = None
    why: str = ""
    index: int = 0


@value
class Content:
    """A checkpoint as it is shown; ``tasks`` are path, id and writes of each. ``unread``: whether values stay closed for want
    of the extra."""

    entry: ThreadCheckpoint
    facts: CheckpointFacts
    metadata: dict[str, Doc]
    channels: tuple[ShownValue, ...]
    tasks: tuple[tuple[str, str, tuple[ShownValue, ...]], ...]
    unread: bool


def content(store: ThreadStore, place: tuple[str, str], entry: ThreadCheckpoint, limits: Limits, redactor: Redactor) -> Content:
    """A checkpoint of the thread and namespace ``place``. Raises RecordError, GitError, ScanError."""
    told, rows = facts(store, entry), store.rows(*place, entry)
    channels = [_shown(name, store.blob(oid), limits, redactor.text) for name, oid in entry.channels.items()]
    channels += [
        ShownValue(name=name, kind="delta", size=0, why=_DELTA) for name in told.deltas() if name not in entry.channels
    ]
    channels.sort(key=lambda shown: shown.name)
    writes = [replace(_shown(row[3], (row[4], row[5]), limits, redactor.text), index=row[2]) for row in rows]
    metadata = [(name, document(item, limits, redactor.text)) for name, item in told.metadata.items()]
    pairs = [*metadata, *((shown.name, shown.doc) for shown in (*channels, *writes))]
    docs = iter(documents(pairs, redactor.line))
    clean = {name: next(docs) for name, _ in metadata}
    channels = [replace(shown, doc=next(docs)) for shown in channels]
    left = iter([replace(shown, doc=next(docs)) for shown in writes])
    tasks = [(path, task, tuple(next(left) for _ in group)) for (path, task), group in groupby(rows, lambda row: row[:2])]
    return Content(
        entry=entry,
        facts=told,
        metadata=clean,
        channels=tuple(channels),
        tasks=tuple(tasks),
        unread=not readable() and any(shown.kind == "msgpack" for shown in (*channels, *writes)),
    )


def _shown(name: str, typed: Typed, limits: Limits, clean: Callable[[str], str]) -> ShownValue:
    """A value as far as it can be shown."""
    shown = ShownValue(name=name, kind=typed[0], size=len(typed[1]))
    try:
        return replace(shown, doc=document(opened(typed), limits, clean))
    except ValueError as error:
        return replace(shown, why=str(error))
