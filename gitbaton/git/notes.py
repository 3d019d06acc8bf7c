"""Notes trees: find and edit a note, with git's own fan-out, and without ``git notes``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gitbaton.errors import RecordError
from gitbaton.git.objects import NewObject, Objects, TreeEntry, entries_of, new_object, tree_data
from gitbaton.model import Oid

_HEX = re.compile(rb"[0-9a-f]+\Z")


class _Level:
    """One tree on the way to a note: the hex digits spent to get here, and its entries."""

    def __init__(self, spent: int, entries: list[TreeEntry]) -> None:
        self.spent, self.entries = spent, entries


def find(objects: Objects, tree: Oid | None, commit: Oid) -> list[Oid]:
    """The blobs that the notes tree holds for a commit: none, one, or several where fan-outs are mixed."""
    blobs = []
    for level in _path(objects, tree, commit):
        rest = commit[level.spent :].encode()
        blobs += [e.oid for e in level.entries if e.name == rest and not e.is_tree]
    return blobs


def edit(objects: Objects, tree: Oid | None, commit: Oid, blob: Oid) -> list[NewObject]:
    """The trees to write so that ``blob`` is the one note of ``commit``; the last one is the new root."""
    levels = _path(objects, tree, commit)
    for level in levels:
        rest = commit[level.spent :].encode()
        level.entries = [e for e in level.entries if e.name != rest]
    last = levels[-1]
    last.entries.append(TreeEntry(mode=b"100644", name=commit[last.spent :].encode(), oid=blob))
    made: list[NewObject] = []
    while levels:
        level = levels.pop()
        entries = _spread(objects, level, made)
        made.append(new_object(objects.algorithm, "tree", tree_data(entries)))
        if levels:
            name = commit[level.spent - 2 : level.spent].encode()
            above = [e for e in levels[-1].entries if e.name != name]
            levels[-1].entries = [*above, TreeEntry(mode=b"40000", name=name, oid=made[-1].oid)]
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


def _path(objects: Objects, tree: Oid | None, commit: Oid) -> list[_Level]:
    """The trees from the root down towards a commit's note, as deep as they go.

    A tree that is fanned out but has no folder for these digits yet gets an empty one.
    """
    levels = [_Level(0, _entries(objects, tree) if tree else [])]
    while levels[-1].spent < len(commit) - 2:
        level = levels[-1]
        digits = commit[level.spent : level.spent + 2].encode()
        if any(e.name == digits and not e.is_tree for e in level.entries):
            break  # somebody's file stands where the folder would
        below = next((e for e in level.entries if e.name == digits and e.is_tree), None)
        if below is None and not any(_is_fan(e) for e in level.entries):
            break
        levels.append(_Level(level.spent + 2, _entries(objects, below.oid) if below else []))
    return levels


def _entries(objects: Objects, tree: Oid) -> list[TreeEntry]:
    found = entries_of(objects, tree)
    if found is None:
        raise RecordError(f"notes tree {tree} cannot be read")
    return found


def _is_fan(entry: TreeEntry) -> bool:
    return entry.is_tree and len(entry.name) == 2 and _HEX.match(entry.name) is not None


def _spread(objects: Objects, level: _Level, made: list[NewObject]) -> list[TreeEntry]:
    """The level's entries, moved into folders of two digits once git would: two notes behind each first digit.

    Only where no such folder is yet: where fan-outs are mixed, what lies flat may stay so.
    """
    length = (40 if objects.algorithm == "sha1" else 64) - level.spent
    notes = [e for e in level.entries if len(e.name) == length and not e.is_tree and _HEX.match(e.name)]
    count: dict[bytes, int] = {}
    for note in notes:
        count[note.name[:1]] = count.get(note.name[:1], 0) + 1
    taken = any(len(e.name) == 2 and _HEX.match(e.name) for e in level.entries)
    if len(count) < 16 or min(count.values()) < 2 or length <= 2 or taken:
        return level.entries
    folders: dict[bytes, list[TreeEntry]] = {}
    for note in notes:
        folders.setdefault(note.name[:2], []).append(TreeEntry(mode=note.mode, name=note.name[2:], oid=note.oid))
    kept = {note.name for note in notes}
    result = [e for e in level.entries if e.name not in kept]
    for digits, entries in folders.items():
        tree = new_object(objects.algorithm, "tree", tree_data(entries))
        made.append(tree)
        result.append(TreeEntry(mode=b"40000", name=digits, oid=tree.oid))
    return result
