"""Batched notes: many edits in one commit of the notes ref."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import cast

from gitbaton.codec import Note, entry, parse_note, short, track_in
from gitbaton.errors import GitError, RecordError
from gitbaton.git.notes import edit, exchange, walk
from gitbaton.git.objects import MAX_READ, NewObject, Object, Objects, RefChange, commit_data, new_object, parse_tree
from gitbaton.git.publish import publish
from gitbaton.model import Checkpoint, Oid
from gitbaton.store.join import marks
from gitbaton.store.read import Store
from gitbaton.store.refs import NOTES
from gitbaton.values import replace, value

_LARGEST = 256 << 20  # bytes of a note, also of one that somebody else wrote
_CHUNK = 256


@value
class Place:
    """Where a checkpoint stands: its time as it is stored, its track, and its commit in that track's chain."""

    created: bytes
    track: str
    commit: Oid


class Places:
    """The checkpoints of the chains here, as of their last listing: each is read from its newest on, as far as it must be."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._known: dict[str, dict[Oid, Place]] = {}
        self._rest: dict[str, Iterator[dict[Oid, Place]]] = {}

    def find(self, oid: Oid, *tracks: str) -> Place | None:
        """Where a checkpoint stands in the first of some tracks that has it; None in none that can be read."""
        for track in tracks:
            known = self._known.setdefault(track, {})
            for more in () if oid in known else self._rest.setdefault(track, self._walk(track)):
                known |= more
                if oid in known:
                    break
            if oid in known:
                return known[oid]
        return None

    def anywhere(self, oid: Oid, text: bytes) -> Place | None:
        """Where a checkpoint stands, beginning with the track that its entry names."""
        return self.find(oid, *dict.fromkeys((track_in(text), *sorted(self.store.chains()[0]))))

    def checkpoint(self, place: Place) -> Checkpoint:
        """The checkpoint there. Raises RecordError."""
        return self.store.stored(self.store.objects.read(place.commit), place.track, place.commit).checkpoint

    def full(self, oid: Oid, text: bytes) -> bytes:
        """The entry of a checkpoint as its chain has it; the given text where none does."""
        place = self.anywhere(oid, text)
        try:
            return entry(oid, self.checkpoint(place)) if place is not None else text
        except RecordError:
            return text

    def _walk(self, track: str) -> Iterator[dict[Oid, Place]]:
        tip = self.store.chains()[0].get(track)
        try:
            oids = self.store.objects.first_parents(tip) if tip is not None else []
        except GitError:  # a broken one knows none
            return
        for start in range(0, len(oids), _CHUNK):
            part = oids[start : start + _CHUNK]
            found = zip(part, marks(self.store, part), strict=True)
            yield {mark[1]: Place(created=mark[0], track=track, commit=at) for at, mark in found if mark is not None}


def plan_notes(
    store: Store,
    notes: Mapping[Oid, bytes],
    author: bytes,
    message: bytes,
    removed: Collection[Oid] = (),
    onto: tuple[Oid | None, Oid | None] | None = None,
    full: Callable[[Oid, bytes], bytes] | None = None,
) -> tuple[list[NewObject], RefChange | None]:
    """The objects to write so that each text is the note of its commit, and the move of the notes ref, None when it stays.

    The entries of the checkpoints ``removed`` go from all notes, wherever git has copied them, and then the new commit has no
    parent, so that it does not lead to the old text. Reads only. ``author`` has a date; ``onto``: a commit of notes and its
    tree instead of ours; ``full``: see Note.render. Raises RecordError when something else stands at the ref.
    """
    old, tree = store.notes_tree() if onto is None else onto
    pending = _Pending(store.objects)
    blobs = _without(store.objects, tree, removed, full) if tree and removed else {}
    if tree and blobs:
        texts = {blob: text and new_object(pending.algorithm, "blob", text) for blob, text in blobs.items()}
        made = exchange(store.objects, tree, {blob: new.oid if new else None for blob, new in texts.items()})
        pending.add(made)
        tree = made[-1].oid
    elif not notes:
        return [], None
    new = [made for made in texts.values() if made] if blobs else []
    for target, text in notes.items():
        new.append(new_object(pending.algorithm, "blob", text))
        made = edit(cast(Objects, pending), tree, target, new[-1].oid)
        pending.add(made)
        tree = made[-1].oid
    root = tree or new_object(pending.algorithm, "tree", b"").oid
    parents = (old,) if old and not blobs else ()
    data = commit_data(tree=root, parents=parents, author=author, message=message)
    commit = new_object(pending.algorithm, "commit", data)
    return [*new, *pending.below(root), commit], RefChange(name=NOTES, new=commit.oid, old=old)


def _without(
    objects: Objects, tree: Oid, removed: Collection[Oid], full: Callable[[Oid, bytes], bytes] | None
) -> dict[Oid, bytes]:
    """The blobs of a notes tree that have entries of checkpoints, and their text without these. Raises RecordError for one
    that cannot be read."""
    named: dict[Oid, Oid] = {}
    for target, blob in walk(objects, tree):
        named.setdefault(blob, target)
    gone = frozenset(removed)
    changed = {}
    for (blob, target), found in zip(named.items(), objects.read_many(list(named), _LARGEST), strict=True):
        if found is None or found.data is None:
            raise RecordError(f"the note of {target} cannot be read, so that nothing can be removed from it")
        note = parse_note(found.data)
        kept = tuple(item for item in note.entries if item[0] not in gone)
        if len(kept) != len(note.entries):
            empty = not kept and not note.preamble and not note.older
            changed[blob] = b"" if empty else replace(note, entries=kept).render(full)
    return changed


def merged_note(
    raws: Iterable[bytes],
    new: Mapping[Oid, bytes],
    times: Mapping[Oid, bytes],
    dropped: Callable[[Oid], bool],
    full: Callable[[Oid, bytes], bytes] | None = None,
) -> bytes:
    """Several notes of one commit and new entries as one note: whoever joins the same ones writes the same.

    ``times``: when checkpoints were created, as text that sorts; entries stand newest first, and one whose time is not known
    after them. Entries of ``dropped`` checkpoints are left out; text that is not ours is kept; ``full``: see Note.render.
    """
    notes = [parse_note(raw) for raw in raws]
    entries: dict[Oid, bytes] = dict(new)
    for note in notes:
        for oid, text in note.entries:
            said = (text, entries.get(oid, text))
            entries[oid] = min(said, key=lambda text: (text == short(text), text)) if oid not in new else new[oid]
    order = sorted((oid for oid in entries if not dropped(oid)), key=lambda oid: (times.get(oid, b""), oid), reverse=True)
    preamble = b""
    for note in notes:
        preamble = _all_text(preamble, note.preamble)
    older = any(note.older for note in notes)
    return Note(preamble=preamble, entries=tuple((oid, entries[oid]) for oid in order), older=older).render(full)


def _all_text(one: bytes, other: bytes) -> bytes:
    """Two texts that are not ours as one that has the paragraphs of both, in an order that is the same for all: whichever is
    first, and whatever was put together before. Only a text that nothing differs from keeps its own."""
    first, second = ({p.strip(b"\n") for p in text.split(b"\n\n")} - {b""} for text in (one, other))
    if not first or not second:
        return one if first else other
    if first == second:
        return min(one, other)
    return b"".join(sorted(paragraph + b"\n\n" for paragraph in first | second)).removesuffix(b"\n")


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


def put_notes(store: Store, notes: Mapping[Oid, bytes], seconds: int) -> None:
    """Make each text the note of its commit, in one commit of the notes ref. Called with the lock held.

    ``seconds`` since 1970 date that commit. Raises RecordError when something else stands at the ref, RefConflictError
    when somebody moved it meanwhile.
    """
    if not notes:
        return
    author = b"gitbaton <gitbaton@localhost> %d +0000" % seconds
    objects, change = plan_notes(store, notes, author, b"notes carried along\n")
    if change:
        publish(store.repo, [change], new=objects)
