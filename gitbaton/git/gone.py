"""Objects that are gone or torn: which of some cannot be read, and a tree without the folders that cannot."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gitbaton.errors import RecordError
from gitbaton.git.objects import LARGEST, MAX_TREE, NewObject, Objects, TreeEntry, new_object, parse_tree, tree_data
from gitbaton.model import Oid


def missing(objects: Objects, oids: Iterable[Oid]) -> dict[Oid, str]:
    """Those of the ids that name no object here, each with the words that say so."""
    return _without(objects, oids, 0)


def unreadable(objects: Objects, oids: Iterable[Oid]) -> dict[Oid, str]:
    """As ``missing``, and those that are torn: each object is read to its end."""
    return _without(objects, oids, LARGEST)


def _without(objects: Objects, oids: Iterable[Oid], limit: int) -> dict[Oid, str]:
    asked = list(dict.fromkeys(oids))
    found = zip(asked, objects.read_many(asked, limit), strict=True)
    return {oid: said(oid) for oid, item in found if item is None}


def said(oid: Oid) -> str:
    """The words for an object that cannot be read."""
    return f"object {oid} is not here, or torn"


class Readable:
    """A tree of which every folder can be read: what cannot is in it as in ``other``, or not at all. ``gone`` are those
    folders, by path ("": the whole), with the reason; ``new`` the trees that were made for it."""

    def __init__(self, objects: Objects, tree: Oid, other: Oid) -> None:
        self.objects, self.gone, self.new = objects, dict[str, str](), list[NewObject]()
        self.tree = self._read("", tree, other) or other

    def _read(self, path: str, tree: Oid, other: Oid | None) -> Oid | None:
        """What stands for a tree; None where nothing does."""
        if tree == other:
            return tree
        entries = self._entries(tree)
        if entries is None:
            self.gone[path] = said(tree)
            return other
        there = {e.name: e.oid for e in (self._entries(other) if other is not None else None) or () if e.is_tree}
        kept: list[TreeEntry] = []
        for entry in entries:
            oid: Oid | None = entry.oid
            if entry.is_tree:
                name = os.fsdecode(entry.name)
                oid = self._read(f"{path}/{name}" if path else name, entry.oid, there.get(entry.name))
            kept += [TreeEntry(mode=entry.mode, name=entry.name, oid=oid)] if oid is not None else []
        if kept == entries:
            return tree
        if not kept and path:
            return None
        made = new_object(self.objects.algorithm, "tree", tree_data(kept))
        self.new.append(made)
        return made.oid

    def _entries(self, tree: Oid) -> list[TreeEntry] | None:
        item = next(iter(self.objects.read_many([tree], MAX_TREE)))
        if item is None or item.kind != "tree" or item.data is None:
            return None
        try:
            return parse_tree(item.data, self.objects.algorithm)
        except RecordError:
            return None
