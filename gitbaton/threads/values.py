"""What a thread holds: checkpoints with their channels, and the writes of tasks that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Id = bytes
"""An object id as its 20 or 32 bytes; hexadecimal only where people or git's text formats need it."""

Typed = tuple[str, bytes]
"""A serialised value: what LangGraph's serialiser calls its type, and its bytes."""

Row = tuple[str, str, int, str, str, bytes]
"""One write of a task: task path, task id, index, channel, type, bytes. Rows compare in LangGraph's ``writes_sort_key``."""

Jump = tuple[Id, str, int]
"""A commit further down in a chain: its id, and the id and number of its checkpoint."""

Parts = tuple[Mapping[str, Id], Mapping[str, Id], Mapping[str, Id]]
"""What a checkpoint's tree holds: channels, rest, written."""


class Entry:
    """One checkpoint of a thread in one namespace.

    ``id`` is the checkpoint's own and ``parent`` that of the checkpoint it follows, which need not be here. ``ck`` is the JSON
    text of the checkpoint without the values of its channels, ``md`` that of its metadata, both ASCII; an empty one stands in
    ``rest``. ``channels`` gives the blob of each channel's value, ``rest`` blobs of what JSON cannot carry (``ck``, ``md``),
    and ``written`` the blob of each task's writes, without those that came late. Of an entry of a chain these three are read
    from its ``tree`` when they are first asked for, which may raise GitError or RecordError. ``commit`` is None until it is in
    git; ``up`` is the commit below it, ``seq`` how many are below it, ``jump`` some that are further down, ``subject`` the
    first line of the commit's message, ``names`` what it says of thread and namespace where their ref cannot hold them.
    ``memo`` belongs to whoever reads entries. All else never changes: a changed checkpoint is another Entry.
    """

    __slots__ = (
        *("channels", "ck", "commit", "id", "jump", "load", "md", "memo", "names"),
        *("parent", "rest", "seq", "subject", "tree", "up", "written"),
    )
    if TYPE_CHECKING:
        channels: Mapping[str, Id]
        rest: Mapping[str, Id]
        written: Mapping[str, Id]

    def __init__(
        self,
        id: str,
        parent: str | None,
        ck: bytes,
        md: bytes,
        channels: Mapping[str, Id] | None,
        *,
        rest: Mapping[str, Id] | None = None,
        written: Mapping[str, Id] | None = None,
        commit: Id | None = None,
        up: Id | None = None,
        seq: int = -1,
        jump: tuple[Jump, ...] = (),
        tree: Id | None = None,
        subject: bytes = b"",
        load: Callable[[Entry], Parts] | None = None,
        names: bytes = b"",
    ) -> None:
        self.id, self.parent, self.ck, self.md = id, parent, ck, md
        if channels is not None:
            self.channels, self.rest, self.written = channels, rest or {}, written or {}
        self.commit, self.up, self.seq, self.jump, self.tree = commit, up, seq, jump, tree
        self.subject, self.load, self.names = subject, load, names
        self.memo: Any = None

    def __getattr__(self, name: str) -> Any:  # of a slot that is not filled yet
        if name not in ("channels", "rest", "written") or self.load is None:
            raise AttributeError(name)
        self.channels, self.rest, self.written = self.load(self)
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"Entry({self.id!r}, commit={self.commit.hex() if self.commit else None})"


@value
class Put:
    """A checkpoint as the log has it: ``blobs`` are the contents (``type``, NUL, bytes) of its new blobs."""

    thread: str
    namespace: str
    entry: Entry
    blobs: Mapping[Id, bytes]


@value
class Writes:
    """Writes of one task as the log has them. ``replace``: they take the place of rows with the same task and index; else a
    row that is there stays."""

    thread: str
    namespace: str
    id: str
    rows: tuple[Row, ...]
    replace: bool
