"""The table in memory: what the log has and git has not yet, by thread and namespace."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping

from gitbaton.threads.commits import names_data
from gitbaton.threads.names import late_ref, ref_of
from gitbaton.threads.values import Entry, Id, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.threads.view import View

Batch = tuple[int, tuple[Row, ...], bool]
"""Writes as the log has them: the segment, the rows, and whether they replace."""


class Held:
    """Checkpoints that git has not: by id, with the segment of each, and their ids in order. Nothing is ever taken out."""

    __slots__ = ("order", "puts")

    def __init__(self, puts: dict[str, tuple[int, Entry]]) -> None:
        self.puts, self.order = puts, sorted(puts)


class Line:
    """One thread in one namespace: ``held`` and ``rows``, by the checkpoint's id, are what git has not; ``view`` is what git
    had at the last look, None where nobody has looked; ``names`` is what its commits say of the two.

    Changed under the log's lock only, and readers hold no lock: whoever takes something out of memory puts another ``held``
    or list in its place, after ``view`` has it or is out of date; and readers look at memory before they look at ``view``.
    """

    __slots__ = ("held", "late", "late_path", "names", "namespace", "path", "ref", "rows", "thread", "view")

    def __init__(self, thread: str, namespace: str) -> None:
        self.thread, self.namespace = thread, namespace
        self.ref, self.late = ref_of(thread, namespace), late_ref(thread, namespace)
        self.names = names_data(thread, namespace)
        self.path = self.late_path = b""
        self.held = Held({})
        self.rows: dict[str, list[Batch]] = {}
        self.view: View | None = None

    @property
    def puts(self) -> dict[str, tuple[int, Entry]]:
        """The checkpoints that git has not, by id."""
        return self.held.puts


class Frozen:
    """What one flush brings into git of one line."""

    __slots__ = ("line", "puts", "rows")

    def __init__(self, line: Line) -> None:
        self.line = line
        self.puts = {id: entry for id, (_, entry) in line.puts.items()}
        self.rows = {id: [(rows, replace) for _, rows, replace in batches] for id, batches in line.rows.items()}


class Table:
    """All lines, and the contents of blobs that only the log has. ``size`` counts the bytes of the log that it stands for,
    ``count`` the records."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], Line] = {}
        self.blobs: dict[Id, tuple[int, bytes]] = {}
        self.size = self.count = 0
        self._weights: dict[int, tuple[int, int]] = {}
        self._dirty: dict[Line, None] = {}

    def put(self, segment: int, line: Line, entry: Entry, blobs: Mapping[Id, bytes]) -> None:
        """Take in a checkpoint."""
        for oid, data in blobs.items():
            self.blobs[oid] = (segment, data)
        id, held = entry.id, line.held
        self._dirty[line] = None
        new = id not in held.puts
        held.puts[id] = (segment, entry)
        if new:  # after it is there: readers take the ids first
            insort(held.order, id)

    def writes(self, segment: int, line: Line, id: str, rows: tuple[Row, ...], *, replace: bool) -> None:
        """Take in writes of a task."""
        self._dirty[line] = None
        # A new list: readers may be going over the old one.
        line.rows[id] = [*line.rows.get(id, ()), (segment, rows, replace)]

    def weigh(self, segment: int, size: int) -> None:
        """Count one record."""
        count, sum_ = self._weights.get(segment, (0, 0))
        self._weights[segment] = (count + 1, sum_ + size)
        self.size += size
        self.count += 1

    def weight(self, segment: int) -> int:
        """The bytes of the log that are in a segment."""
        return self._weights.get(segment, (0, 0))[1]

    def dirty(self) -> list[Line]:
        """The lines that have something for git."""
        return list(self._dirty)

    def freeze(self) -> list[Frozen]:
        """All that git has not, as it is now."""
        return [Frozen(line) for line in self.dirty()]

    def forget(self, below: int) -> None:
        """Drop what came in segments before ``below``: git has it. Every line's view must have it, or is set to None before."""
        if not any(segment < below for segment in self._weights):
            return
        for line in self.dirty():
            _forget(line, below)
            if not line.puts and not line.rows:
                del self._dirty[line]
        for oid in [oid for oid, (segment, _) in self.blobs.items() if segment < below]:
            del self.blobs[oid]
        for segment in [s for s in self._weights if s < below]:
            count, size = self._weights.pop(segment)
            self.count -= count
            self.size -= size


def _forget(line: Line, below: int) -> None:
    line.held = Held({id: kept for id, kept in line.held.puts.items() if kept[0] >= below})
    line.rows = {id: left for id, batches in line.rows.items() if (left := [b for b in batches if b[0] >= below])}
