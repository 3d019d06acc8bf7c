"""Many notes at once: one commit of the notes ref, and none of the trees in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import cast

from gitbaton.codec import entry, parse_note
from gitbaton.git.notes import edit
from gitbaton.git.objects import MAX_READ, NewObject, Object, Objects, RefChange, commit_data, new_object, parse_tree
from gitbaton.model import Checkpoint, Oid
from gitbaton.store.read import Store
from gitbaton.store.refs import NOTES
from gitbaton.values import replace


def plan_notes(store: Store, notes: Mapping[Oid, bytes], author: bytes, message: bytes) -> tuple[list[NewObject], RefChange]:
    """The objects to write so that each text is the note of its commit, and the move of the notes ref. Reads only.

    ``author`` has a date. Raises RecordError when something else stands at the ref.
    """
    old, tree = store.notes_tree()
    pending = _Pending(store.objects)
    blobs = []
    for target, text in notes.items():
        blobs.append(new_object(pending.algorithm, "blob", text))
        made = edit(cast(Objects, pending), tree, target, blobs[-1].oid)
        pending.add(made)
        tree = made[-1].oid
    root = tree or new_object(pending.algorithm, "tree", b"").oid
    data = commit_data(tree=root, parents=(old,) if old else (), author=author, message=message)
    commit = new_object(pending.algorithm, "commit", data)
    return [*blobs, *pending.below(root), commit], RefChange(name=NOTES, new=commit.oid, old=old)


def more_entries(raw: bytes, new: Iterable[tuple[Oid, Checkpoint]], times: Mapping[Oid, datetime]) -> bytes:
    """A note with the entries of more checkpoints, newest first; one whose time ``times`` does not know stays where it is."""
    note = parse_note(raw)
    entries = list(note.entries)
    known = dict(times)
    for oid, c in sorted(new, key=lambda item: (item[1].created, item[0])):
        known[oid] = c.created
        places = (place for place, (other, _) in enumerate(entries) if other in known and known[other] <= c.created)
        entries.insert(next(places, len(entries)), (oid, entry(oid, c)))
    return replace(note, entries=tuple(entries)).render()


class _Pending:
    """Objects to read from, with trees on top that are not written yet."""

    def __init__(self, objects: Objects) -> None:
        self.objects, self.algorithm = objects, objects.algorithm
        self.made: dict[Oid, NewObject] = {}
        self.seen: dict[Oid, Object | None] = {}

    def add(self, items: Iterable[NewObject]) -> None:
        """Make trees known."""
        self.made |= {item.oid: item for item in items}

    def read(self, spec: str, limit: int = MAX_READ) -> Object | None:
        """See Objects; what exists is read once."""
        item = self.made.get(spec)
        if item is not None:
            return Object(oid=item.oid, kind=item.kind, size=len(item.data), data=item.data)
        if spec not in self.seen:
            self.seen[spec] = self.objects.read(spec, limit)
        return self.seen[spec]

    def below(self, root: Oid) -> list[NewObject]:
        """The new trees that a root reaches, what they point at first."""
        item = self.made.pop(root, None)
        if item is None:
            return []
        deeper = [made for entry in parse_tree(item.data, self.algorithm) if entry.is_tree for made in self.below(entry.oid)]
        return [*deeper, item]
