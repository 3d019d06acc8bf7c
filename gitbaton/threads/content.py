"""All of one checkpoint for who looks at it: metadata, channels and pending writes, without the secrets in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby

from gitbaton.threads.decoding import Doc, Limits, document, documents, opened, readable
from gitbaton.threads.reports import Facts, facts
from gitbaton.threads.store import ThreadStore
from gitbaton.threads.values import Entry, Row, Typed
from gitbaton.values import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.secrets import Redactor

_DELTA = "put together from writes of checkpoints before it"


@value
class Shown:
    """A stored value: its type and size, and either the value or why it is not there. ``name`` is its channel's, ``index`` that
    of a write in its task."""

    name: str
    kind: str
    size: int
    doc: Doc = None
    why: str = ""
    index: int = 0


@value
class Task:
    """The writes of one task."""

    path: str
    id: str
    writes: tuple[Shown, ...]


@value
class Content:
    """A checkpoint as it is shown. ``unread``: whether values stay closed for want of the extra."""

    entry: Entry
    facts: Facts
    metadata: dict[str, Doc]
    channels: tuple[Shown, ...]
    tasks: tuple[Task, ...]
    unread: bool


def content(store: ThreadStore, place: tuple[str, str], entry: Entry, limits: Limits, redactor: Redactor) -> Content:
    """A checkpoint of the thread and namespace ``place``. Raises RecordError, GitError, ScanError."""
    told, rows = facts(store, entry), store.rows(*place, entry)
    look = _Look(limits, redactor.text)
    channels = [look.shown(name, store.blob(oid)) for name, oid in entry.channels.items()]
    channels += [Shown(name=name, kind="delta", size=0, why=_DELTA) for name in told.deltas() if name not in entry.channels]
    channels.sort(key=lambda shown: shown.name)
    writes = [replace(look.shown(row[3], (row[4], row[5])), index=row[2]) for row in rows]
    metadata = [(name, document(item, limits, redactor.text)) for name, item in told.metadata.items()]
    pairs = [*metadata, *((shown.name, shown.doc) for shown in (*channels, *writes))]
    docs = iter(documents(pairs, redactor.line))
    clean = {name: next(docs) for name, _ in metadata}
    channels = [replace(shown, doc=next(docs)) for shown in channels]
    writes = [replace(shown, doc=next(docs)) for shown in writes]
    return Content(
        entry=entry,
        facts=told,
        metadata=clean,
        channels=tuple(channels),
        tasks=tuple(_tasks(rows, iter(writes))),
        unread=look.unread,
    )


def _tasks(rows: tuple[Row, ...], writes: Iterator[Shown]) -> Iterator[Task]:
    for (path, task), group in groupby(rows, lambda row: row[:2]):
        yield Task(path=path, id=task, writes=tuple(next(writes) for _ in group))


class _Look:
    """Opens values and remembers whether any stayed closed."""

    def __init__(self, limits: Limits, clean: Callable[[str], str]) -> None:
        self.limits, self.clean, self.readable, self.unread = limits, clean, readable(), False

    def shown(self, name: str, typed: Typed) -> Shown:
        """A value as far as it can be shown."""
        kind, data = typed
        shown = Shown(name=name, kind=kind, size=len(data))
        if kind == "msgpack" and not self.readable:
            self.unread = True
            return replace(shown, why="not read")
        try:
            return replace(shown, doc=document(opened(typed), self.limits, self.clean))
        except ValueError as error:
            return replace(shown, why=str(error))
