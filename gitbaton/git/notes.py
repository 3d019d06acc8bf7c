"""Notes trees: find and edit a note, with git's own fan-out, and without ``git notes``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from gitbaton.errors import RecordError
from gitbaton.git.objects import NewObject, Objects, TreeEntry, entries_of, new_object, tree_data
from gitbaton.model import Oid

_HEX = re.compile(rb"[0-9a-f]+\Z")


def find(objects: Objects, tree: Oid | None, commit: Oid) -> list[Oid]:
    """The blobs that the notes tree holds for a commit: none, one, or several where fan-outs are mixed."""
    levels = [(commit[spent:].encode(), entries) for spent, entries in _path(objects, tree, commit)]
    return [e.oid for rest, entries in levels for e in entries if e.name == rest and not e.is_tree]


def edit(objects: Objects, tree: Oid | None, commit: Oid, blob: Oid) -> list[NewObject]:
    """The trees to write so that ``blob`` is the one note of ``commit``; the last one is the new root."""
    made: list[NewObject] = []
    name, mode, oid = "", b"100644", blob  # what stands in the tree: the note, then one folder after the other
    for spent, entries in reversed(_path(objects, tree, commit)):
        rest = commit[spent:]
        name = name or rest
        others = [e for e in entries if e.name not in (rest.encode(), name.encode())]
        new = TreeEntry(mode=mode, name=name.encode(), oid=oid)
        made.append(new_object(objects.algorithm, "tree", tree_data(_spread(objects, len(rest), [*others, new], made))))
        name, mode, oid = commit[spent - 2 : spent], b"40000", made[-1].oid
    return made


def walk(objects: Objects, tree: Oid, spent: str = "") -> Iterator[tuple[Oid, Oid]]:
    """Every note of a notes tree: the id of the object it is for, and its blob. Raises RecordError for a tree not there."""
    length = 40 if objects.algorithm == "sha1" else 64
    for entry in _entries(objects, tree):
        if _is_fan(entry) and len(spent) < length - 2:
            yield from walk(objects, entry.oid, spent + entry.name.decode())
        elif not entry.is_tree and _HEX.match(entry.name) and len(spent) + len(entry.name) == length:
            yield spent + entry.name.decode(), entry.oid


def exchange(objects: Objects, tree: Oid, blobs: Mapping[Oid, Oid | None]) -> list[NewObject]:
    """The trees to write so that other blobs stand where these stood, None for none at all; the last one is the new root.

    Folders that become empty go; everything else stays where it is.
    """
    made: list[NewObject] = []
    kept = []
    for entry in _entries(objects, tree):
        if _is_fan(entry):
            below = exchange(objects, entry.oid, blobs)
            if below and below[-1].data == b"":
                continue
            made += below
            entry = TreeEntry(mode=entry.mode, name=entry.name, oid=below[-1].oid if below else entry.oid)
        elif not entry.is_tree and entry.oid in blobs:
            other = blobs[entry.oid]
            if other is None:
                continue
            entry = TreeEntry(mode=entry.mode, name=entry.name, oid=other)
        kept.append(entry)
    root = new_object(objects.algorithm, "tree", tree_data(kept))
    return [*made, root]


def _path(objects: Objects, tree: Oid | None, commit: Oid) -> list[tuple[int, list[TreeEntry]]]:
    """The trees from the root down towards a commit's note, as deep as they go: how many of its digits are spent to get there,
    and the entries.

    A tree that is fanned out but has no folder for these digits yet gets an empty one.
    """
    spent, entries = 0, _entries(objects, tree) if tree else []
    levels = [(spent, entries)]
    while spent < len(commit) - 2:
        digits = commit[spent : spent + 2].encode()
        below = next((e for e in entries if e.name == digits), None)
        if below is not None and not below.is_tree:
            break  # somebody's file stands where the folder would
        if below is None and not any(_is_fan(e) for e in entries):
            break
        spent, entries = spent + 2, _entries(objects, below.oid) if below else []
        levels.append((spent, entries))
    return levels


def _entries(objects: Objects, tree: Oid) -> list[TreeEntry]:
    found = entries_of(objects, tree)
    if found is None:
        raise RecordError(f"notes tree {tree} cannot be read")
    return found


def _is_fan(entry: TreeEntry) -> bool:
    return entry.is_tree and len(entry.name) == 2 and _HEX.match(entry.name) is not None


def _spread(objects: Objects, length: int, entries: list[TreeEntry], made: list[NewObject]) -> list[TreeEntry]:
    """The entries of a tree in which a note's name has ``length`` digits, moved into folders of two digits once git would: two
    notes behind each first digit.

    Only where no such folder is yet: where fan-outs are mixed, what lies flat may stay so.
    """
    notes = [e for e in entries if len(e.name) == length and not e.is_tree and _HEX.match(e.name)]
    count = Counter(note.name[:1] for note in notes)
    taken = any(len(e.name) == 2 and _HEX.match(e.name) for e in entries)
    if len(count) < 16 or min(count.values()) < 2 or length <= 2 or taken:
        return entries
    folders: dict[bytes, list[TreeEntry]] = {}
    for note in notes:
        folders.setdefault(note.name[:2], []).append(TreeEntry(mode=note.mode, name=note.name[2:], oid=note.oid))
    kept = {note.name for note in notes}
    result = [e for e in entries if e.name not in kept]
    for digits, below in folders.items():
        tree = new_object(objects.algorithm, "tree", tree_data(below))
        made.append(tree)
        result.append(TreeEntry(mode=b"40000", name=digits, oid=tree.oid))
    return result
