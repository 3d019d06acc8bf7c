"""Every object that can still be read, wherever it lies, behind the door that all readers know; and what is reachable of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gitbaton.errors import GitError, GitTimeoutError, RecordError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import MAX_READ, NewObject, Object, is_oid, object_id, parse_commit, parse_tree
from gitbaton.git.repo import Repo
from gitbaton.git.tornfiles import Spare
from gitbaton.model import Oid

LARGEST = 256 << 20
_BATCH = 2000
_TREE, _LINK = b"40000", b"160000"


class Heap(BinaryObjects):
    """The repository's objects as if it were mended: those of ``more`` are there, what is torn is not, and refs point where
    ``pointing`` says. ``made``: the objects found elsewhere, to be written again."""

    def __init__(self, repo: Repo, pointing: Mapping[str, Oid], torn: Collection[Oid]) -> None:
        super().__init__(repo.git, repo.layout.git_dir, repo.layout.common_dir, repo.layout.algorithm)
        self.pointing, self.torn = dict(pointing), torn
        self.made: dict[Oid, NewObject] = {}
        self.spares: list[Spare] = []
        self.packed: list[Spare] = []  # those of them that hold what packs did
        self.found: set[Oid] = set()  # those of them that were found elsewhere
        self.promised = False  # whether a remote promised what is missing, as to a partial clone

    def add(self, objects: Iterable[NewObject]) -> None:
        """Have objects here that are to be written."""
        self.made |= {item.oid: item for item in objects}

    def info(self, spec: str) -> Object | None:
        """See Objects."""
        return self.read(spec, 0)

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects; what is torn is not there."""
        oid = spec if is_oid(self.algorithm, spec) else self.pointing.get(spec)
        if oid is None:
            return None
        if oid not in self.made:
            found = self.lying(oid, limit)
            if found is not None or not self.find([oid]):
                return found
        made = self.made[oid]
        size = len(made.data)
        return Object(oid=oid, kind=made.kind, size=size, data=made.data if size <= limit else None)

    def lying(self, oid: Oid, limit: int = 0) -> Object | None:
        """As ``read``, of an object that lies in the repository."""
        try:
            found = super().info(oid)
            if found is not None and (found.size <= limit or oid in self.torn):
                found = self._ask().contents(found)
        except GitTimeoutError:
            raise
        except GitError:
            return None
        if found is not None and oid in self.torn and object_id(self.algorithm, found.kind, found.data or b"") != oid:
            return None
        return found

    def read_many(self, oids: Sequence[Oid], limit: int = MAX_READ) -> Iterator[Object | None]:
        """See Objects."""
        apart = {oid for oid in oids if oid in self.made or oid in self.torn}
        rest = super().read_many([oid for oid in oids if oid not in apart], limit)
        for oid in oids:
            found = None if oid in apart else next(rest)
            yield self.read(oid, limit) if found is None else found

    def refs(self, *prefixes: str) -> dict[str, Oid]:
        """See Objects."""
        return {name: oid for name, oid in self.pointing.items() if name.startswith(prefixes)}

    def first_parents(self, start: Oid, limit: int | None = None) -> list[Oid]:
        """See Objects."""
        return self._step_by_step(start, limit)

    def find(self, wanted: Iterable[Oid]) -> int:
        """Look for objects that are not here among the spare ones; how many were found."""
        items = [item for item in map(self._spare, wanted) if item is not None]
        self.add(items)
        self.found |= {item.oid for item in items}
        return len(items)

    def _spare(self, oid: Oid) -> NewObject | None:
        for spare in self.spares:
            found = spare.read(oid, LARGEST)
            if found is not None and found.data is not None and object_id(self.algorithm, found.kind, found.data) == oid:
                return NewObject(oid=oid, kind=found.kind, data=found.data)
        return None


class Reach:
    """What some objects lead to: ``good`` can be read, ``bad`` cannot, each with a path at which it was met. ``stop``: what is
    known already, with all that it leads to; ``ends``: commits whose parents a shallow clone does not have. With ``contents``
    blobs are read, too, and not only looked up."""

    def __init__(self, heap: Heap, stop: Collection[Oid] = (), ends: Collection[Oid] = (), *, contents: bool = False) -> None:
        self.heap, self.stop, self.ends, self.contents = heap, stop, ends, contents
        self.good: set[Oid] = set()
        self.bad: dict[Oid, bytes] = {}
        self.leaves: set[Oid] = set()  # those of them that are files, and lead to nothing

    def walk(self, roots: Iterable[Oid] | Mapping[Oid, bytes]) -> Reach:
        """Go on from some objects, each with its path where that is known."""
        deeper: list[tuple[Oid, bytes]]
        deeper = list(roots.items()) if isinstance(roots, Mapping) else [(oid, b"") for oid in roots]
        blobs: dict[Oid, bytes] = {}
        while deeper:
            level = {oid: path for oid, path in deeper if self._new(oid)}
            deeper, oids = [], list(level)
            for start in range(0, len(oids), _BATCH):
                part = oids[start : start + _BATCH]
                for oid, found in zip(part, self.heap.read_many(part, LARGEST), strict=True):
                    deeper += self._below(oid, found, level[oid], blobs)
        asked = [oid for oid in blobs if self._new(oid)]
        for oid, found in zip(asked, self.heap.read_many(asked, LARGEST if self.contents else 0), strict=True):
            self._take(oid, found, blobs[oid])
            self.leaves |= {oid} & self.bad.keys()
        return self

    def _new(self, oid: Oid) -> bool:
        return oid not in self.good and oid not in self.bad and oid not in self.stop

    def _take(self, oid: Oid, found: Object | None, path: bytes) -> None:
        if found is None and (oid in self.heap.torn or not self.heap.promised):
            self.bad[oid] = path
        else:
            self.good.add(oid)

    def _below(self, oid: Oid, found: Object | None, path: bytes, blobs: dict[Oid, bytes]) -> list[tuple[Oid, bytes]]:
        self._take(oid, found, path)
        if found is None or found.data is None:
            return []
        try:
            if found.kind == "commit":
                commit = parse_commit(found.data)
                return [(commit.tree, path), *((parent, path) for parent in commit.parents if oid not in self.ends)]
            if found.kind == "tag":
                return [(found.data[7 : found.data.index(b"\n")].decode("ascii", "replace"), path)]
            if found.kind == "blob":
                return []
            entries = parse_tree(found.data, self.heap.algorithm)
        except (RecordError, ValueError):
            self.good.discard(oid)
            self.bad[oid] = path
            return []
        inside = path + b"/" if path else b""
        for entry in entries:
            if entry.mode not in (_TREE, _LINK):
                blobs.setdefault(entry.oid, inside + entry.name)
        return [(entry.oid, inside + entry.name) for entry in entries if entry.is_tree]
