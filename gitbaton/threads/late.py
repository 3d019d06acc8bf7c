"""Writes that came late: for checkpoints far from the tip of their chain, or not in it; and how writes are folded together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitbaton.errors import RecordError
from gitbaton.git.objects import Kind
from gitbaton.threads.codec import WIDTH, Id, Row, hasher, key, rows_blob, rows_of
from gitbaton.threads.commits import AUTHOR, file_entry, tree_rows
from gitbaton.threads.names import name_of, tree_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.objects import Algorithm
    from gitbaton.threads.chain import Read

__all__ = ["Batch", "Late", "Object", "fold", "merged"]

Batch = tuple[tuple[Row, ...], bool]
"""Writes as they came: rows, and whether they replace those with the same task and index."""

Object = tuple[Kind, Id, bytes]
"""A new object: its kind, id and bytes."""

_MESSAGE = b'late writes\n\n{"v":1}\n'
_HEAD = b"author %s 0 +0000\ncommitter %s 0 +0000\n\n%s" % (AUTHOR, AUTHOR, _MESSAGE)
_FOLDER = b"40000 i."
_KINDS = (b"100644 w.", b"100644 x.")  # a row that is there stays; it is replaced


def fold(held: dict[tuple[str, int], Row], batches: Iterable[Batch]) -> None:
    """Put writes into those of a checkpoint, by task and index, in the order in which they came."""
    for rows, replace in batches:
        for row in rows:
            if replace or key(row) not in held:
                held[key(row)] = row


def merged(own: Iterable[Row], batches: Iterable[Batch]) -> tuple[Row, ...]:
    """A checkpoint's own writes with later ones folded in, in the order of ``writes_sort_key``."""
    held = {key(row): row for row in own}
    fold(held, batches)
    return tuple(sorted(held.values()))


class Late:
    """The writes beside a chain, as a commit has them; ``tip`` is None where there are none. Everything is read on demand and
    kept; whatever is not ours raises RecordError."""

    __slots__ = ("_folders", "_rows", "_width", "algorithm", "read", "tip")

    def __init__(self, read: Read, algorithm: Algorithm, tip: Id | None) -> None:
        self.read, self.algorithm, self.tip = read, algorithm, tip
        self._width = WIDTH[algorithm]
        self._folders: dict[str, Id] | None = None
        self._rows: dict[str, tuple[Batch, ...]] = {}

    def ids(self) -> Iterable[str]:
        """The checkpoints that have late writes."""
        return self._tree().keys()

    def of(self, id: str) -> tuple[Batch, ...]:
        """The late writes of a checkpoint, to be folded into its own: at most one batch of each kind."""
        found = self._rows.get(id)
        if found is None:
            folder = self._tree().get(id) if self.tip is not None else None
            if folder is None:
                return ()
            found = self._rows[id] = self._read_rows(folder)
        return found

    def changed(self, gone: Iterable[str], more: Mapping[str, Sequence[Batch]]) -> tuple[Id | None, list[Object]]:
        """The tip, and the new objects, once the writes of some checkpoints are gone and others have come to those there are;
        the same tip and none where that changes nothing."""
        before = self._tree()
        folders = {id: oid for id, oid in before.items() if id not in set(gone)}
        objects: list[Object] = []
        identify = hasher(self.algorithm)

        def made(kind: Kind, data: bytes) -> Id:
            oid = identify(kind, data)
            objects.append((kind, oid, data))
            return oid

        for id, batches in more.items():
            weak, strong = _joined((*self.of(id), *batches) if id in folders else batches)
            rows = []
            for kind, part in (("w", weak), ("x", strong)):
                for task in sorted({row[1] for row in part}):
                    rows.append(file_entry(kind, task) + made("blob", rows_blob(row for row in part if row[1] == task)))
            if rows:
                folders[id] = made("tree", b"".join(sorted(rows)))
        if folders == before:
            return self.tip, []
        if not folders:
            return None, []
        named = sorted((f"i.{tree_name(id)}/".encode("ascii"), oid) for id, oid in folders.items())
        tree = made("tree", b"".join([b"40000 %s\0%s" % (name[:-1], oid) for name, oid in named]))
        return made("commit", b"tree %s\n%s" % (tree.hex().encode(), _HEAD)), objects

    def _tree(self) -> dict[str, Id]:
        if self._folders is None:
            self._folders = dict(self._read_tree(self.tip)) if self.tip is not None else {}
        return self._folders

    def _read_tree(self, tip: Id) -> Iterator[tuple[str, Id]]:
        data = self._data("commit", tip)
        digits = 2 * self._width
        try:
            tree = bytes.fromhex(data[5 : 5 + digits].decode("ascii"))
        except ValueError:
            raise _malformed() from None
        if data != b"tree %s\n%s" % (tree.hex().encode(), _HEAD):
            raise _malformed()
        for raw, oid in tree_rows(self._data("tree", tree), self._width):
            id = name_of(raw[len(_FOLDER) :])
            if not raw.startswith(_FOLDER) or id is None:
                raise _malformed()
            yield id, oid

    def _read_rows(self, folder: Id) -> tuple[Batch, ...]:
        held: dict[bytes, list[Row]] = {kind: [] for kind in _KINDS}
        for raw, oid in tree_rows(self._data("tree", folder), self._width):
            task = name_of(raw[9:])
            if raw[:9] not in held or task is None:
                raise _malformed()
            held[raw[:9]] += rows_of(self._data("blob", oid), task)
        return tuple((tuple(sorted(rows)), kind == _KINDS[1]) for kind, rows in held.items() if rows)

    def _data(self, kind: Kind, oid: Id) -> bytes:
        found, data = self.read(oid)
        if found != kind:
            raise _malformed()
        return data


def _malformed() -> RecordError:
    return RecordError("late writes are malformed")


def _joined(batches: Iterable[Batch]) -> tuple[list[Row], list[Row]]:
    """Batches as one that leaves rows of the checkpoint alone, and one that replaces them: the last word for each key."""
    weak: dict[tuple[str, int], Row] = {}
    strong: dict[tuple[str, int], Row] = {}
    for rows, replace in batches:
        for row in rows:
            if replace:
                weak.pop(key(row), None)
                strong[key(row)] = row
            elif key(row) not in strong:
                weak.setdefault(key(row), row)
    return list(weak.values()), list(strong.values())
