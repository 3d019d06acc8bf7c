"""Some blobs looked for in many trees, each tree read once, and trees written again without some paths."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gitbaton.errors import RecordError
from gitbaton.git.objects import NewObject, Objects, TreeEntry, new_object, parse_tree, tree_data
from gitbaton.model import Oid
from gitbaton.values import replace

_MAX_TREE = 64 << 20
_DEEPEST = 400
_GITLINK = b"160000"
Place = tuple[bytes, Oid]


class Sieve:
    """Where trees hold some of ``blobs``; the trees that were written again are in ``made``."""

    def __init__(self, objects: Objects, blobs: Collection[Oid]) -> None:
        self.objects, self.blobs = objects, blobs
        self.made: list[NewObject] = []
        self._seen: dict[Oid, tuple[Place, ...]] = {}

    def places(self, tree: Oid | None, depth: int = 0) -> tuple[Place, ...]:
        """Each path of a tree that holds one of the blobs, and which; what is not here holds none. Raises RecordError."""
        if tree is None or not self.blobs:
            return ()
        known = self._seen.get(tree)
        if known is not None:
            return known
        if depth > _DEEPEST:
            raise RecordError(f"tree {tree} lies more than {_DEEPEST} folders deep")
        found: list[Place] = []
        for entry in self._entries(tree):
            if entry.is_tree:
                found += ((entry.name + b"/" + path, oid) for path, oid in self.places(entry.oid, depth + 1))
            elif entry.oid in self.blobs and entry.mode != _GITLINK:
                found.append((entry.name, entry.oid))
        self._seen[tree] = tuple(found)
        return self._seen[tree]

    def changed(self, tree: Oid, wanted: Mapping[bytes, TreeEntry | None], stays: Collection[bytes] = ()) -> Oid:
        """The tree with what ``wanted`` has at some paths, None for nothing; a folder left empty goes, but for those at
        its top that ``stays`` names, and none is made."""
        made = self._changed(tree, wanted, stays) if wanted else tree
        return made or self._add(())

    def _changed(self, tree: Oid, wanted: Mapping[bytes, TreeEntry | None], stays: Collection[bytes] = ()) -> Oid | None:
        below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
        for path, entry in wanted.items():
            name, _, rest = path.partition(b"/")
            below.setdefault(name, {})[rest] = entry
        before = self._entries(tree)
        after: list[TreeEntry] = []
        for entry in before:
            inside = below.get(entry.name)
            if inside is None:
                after.append(entry)
            elif entry.is_tree:
                deeper = {path: new for path, new in inside.items() if path}
                oid = self._changed(entry.oid, deeper) if deeper else entry.oid
                oid = oid or (self._add(()) if entry.name in stays else None)
                after += [replace(entry, oid=oid)] if oid else []
            elif b"" not in inside:
                after.append(entry)
            elif (new := inside[b""]) is not None:
                after.append(replace(entry, mode=new.mode, oid=new.oid))
        there = {entry.name for entry in before}
        after += [new for name, inside in below.items() if name not in there and (new := inside.get(b"")) is not None]
        if after == before:
            return tree
        return self._add(after) if after else None

    def blob(self, data: bytes) -> Oid:
        """The id of a blob that is written with the trees."""
        self.made.append(new_object(self.objects.algorithm, "blob", data))
        return self.made[-1].oid

    def _add(self, entries: Collection[TreeEntry]) -> Oid:
        self.made.append(new_object(self.objects.algorithm, "tree", tree_data(entries)))
        return self.made[-1].oid

    def _entries(self, tree: Oid) -> list[TreeEntry]:
        found = self.objects.read(tree, _MAX_TREE)
        if found is None:
            return []
        if found.kind != "tree" or found.data is None:
            raise RecordError(f"object {tree} cannot be read as a tree")
        return parse_tree(found.data, self.objects.algorithm)
