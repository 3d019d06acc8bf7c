"""Writing a track: objects first, then the chain, then what is derived from it. Called with the lock held."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from gitbaton.codec import ROOT_MESSAGE, check_track, encode, entry, message, parse_note
from gitbaton.errors import RecordError, RefConflictError, UsageError
from gitbaton.git.notes import edit
from gitbaton.git.objects import Kind, NewObject, RefChange, commit_data, new_object, parse_commit, tree_data
from gitbaton.model import Checkpoint, Oid, Stored
from gitbaton.store.read import Store
from gitbaton.store.refs import NOTES, chain_ref, tip_ref
from gitbaton.values import replace, value

RETRY_SECONDS = 20.0
NOBODY = b"gitbaton <gitbaton@localhost>"


@value
class Draft:
    """A checkpoint that is to be appended. ``author`` is ``Name <email>``; ``tree`` its commit's tree;
    ``stages`` the objects of the unmerged stages, the last one their tree.
    ``count_changed`` says how many paths differ between two trees."""

    checkpoint: Checkpoint
    author: bytes
    tree: Oid
    stages: tuple[NewObject, ...]
    count_changed: Callable[[Oid, Oid], int]


class _Batch:
    """Objects collected for one write, in an order in which nothing points forward."""

    def __init__(self, store: Store) -> None:
        self.algorithm = store.objects.algorithm
        self.items: list[NewObject] = []

    def add(self, kind: Kind, data: bytes) -> Oid:
        """Collect one object; its id."""
        self.items.append(new_object(self.algorithm, kind, data))
        return self.items[-1].oid


def append(store: Store, draft: Draft, warn: Callable[[str], None]) -> Stored:
    """Put a checkpoint on top of its track; the ids it gets depend on what is there now.

    Raises RefConflictError, naming who moved, when another writer is faster for 20 seconds.
    """
    deadline, pause = time.monotonic() + RETRY_SECONDS, 0.005
    while True:
        try:
            return _append_once(store, draft, warn)
        except RefConflictError as error:
            if time.monotonic() > deadline:
                raise RefConflictError(f"{error.message}; another writer keeps moving it") from None
            time.sleep(pause)
            pause = min(pause * 2, 0.5)


def _append_once(store: Store, draft: Draft, warn: Callable[[str], None]) -> Stored:
    track = check_track(draft.checkpoint.track)
    tip = store.tip(track)
    if tip is None:
        _refuse_twin(store, track)
    else:
        shown = store.objects.info(tip_ref(track))
        if shown is None or shown.oid != tip.id:
            repair(store, tip, warn)
    batch = _Batch(store)
    stored = _chain_commit(store, batch, draft, tip)
    changes = [[RefChange(name=chain_ref(track), new=stored.commit, old=tip.commit if tip else None)]]
    changes += _derived(store, batch, stored, draft.author, warn)
    store.objects.write(batch.items)
    try:
        store.objects.update(*changes)
    except RefConflictError:
        found = store.objects.info(chain_ref(track))
        if found is None or found.oid != stored.commit:
            raise
        repair(store, stored, warn)
    return stored


def _refuse_twin(store: Store, track: str) -> None:
    """A track whose name differs only in case would be the same file on many disks."""
    for other in store.chains()[0]:
        if other.casefold() == track.casefold():
            raise UsageError(f"track '{track}' differs from the track '{other}' only in case")


def _chain_commit(store: Store, batch: _Batch, draft: Draft, tip: Stored | None) -> Stored:
    checkpoint = replace(draft.checkpoint, previous=tip.id if tip else None)
    if tip is not None and checkpoint.created <= tip.checkpoint.created:
        checkpoint = replace(checkpoint, created=tip.checkpoint.created + timedelta(microseconds=1))
    author = _dated(draft.author, checkpoint.created)
    first = tip.commit if tip else _root(batch)
    head_tree = store.tree_of(checkpoint.head)
    base = _base(batch, draft, checkpoint, author, first, head_tree)
    if checkpoint.files is not None:
        before = tip.tree if tip else head_tree or batch.add("tree", b"")
        changed = 0 if before == draft.tree else draft.count_changed(before, draft.tree)
        checkpoint = replace(checkpoint, files=replace(checkpoint.files, changed=changed))
    raw = encode(checkpoint)
    oid = batch.add("blob", raw)
    parents = (first, base) if base else (first,)
    text = message(checkpoint.step, raw)
    commit = batch.add("commit", commit_data(tree=draft.tree, parents=parents, author=author, message=text))
    return Stored(id=oid, commit=commit, base=base, tree=draft.tree, raw=raw, checkpoint=checkpoint)


def _dated(author: bytes, created: datetime) -> bytes:
    return author + b" %d +0000" % int(created.astimezone(UTC).timestamp() // 1)


def _root(batch: _Batch) -> Oid:
    """The common root of all chains: the same object in every repository of one object format."""
    empty = batch.add("tree", tree_data(()))
    return batch.add("commit", commit_data(tree=empty, parents=(), author=NOBODY + b" 0 +0000", message=ROOT_MESSAGE))


def _base(batch: _Batch, draft: Draft, checkpoint: Checkpoint, author: bytes, first: Oid, head_tree: Oid | None) -> Oid | None:
    """The second parent: HEAD, or a commit of the index when the index says more than HEAD does."""
    head, files = checkpoint.head, checkpoint.files
    staged = files.index.tree if files else head_tree
    empty = batch.add("tree", b"")
    plain = files is None or not (files.index.flags or files.index.unmerged or draft.stages)
    if plain and head != first and staged == (head_tree or empty):
        return head
    if staged is None:
        return head
    parents = [head] if head else []
    if draft.stages:
        batch.items += draft.stages
        stages = commit_data(tree=draft.stages[-1].oid, parents=(), author=author, message=b"gitbaton stages 1\n")
        parents.append(batch.add("commit", stages))
    return batch.add("commit", commit_data(tree=staged, parents=parents, author=author, message=b"gitbaton index 1\n"))


def _derived(store: Store, batch: _Batch, stored: Stored, author: bytes, warn: Callable[[str], None]) -> list[list[RefChange]]:
    """The note first and the tip last, each on its own: a tip that is up to date proves that the note is, too."""
    changes = []
    checkpoint = stored.checkpoint
    if checkpoint.kind == "manual" and checkpoint.head is not None:
        try:
            changes.append([_note(store, batch, stored, checkpoint.head, author)])
        except RecordError as error:
            warn(f"no note is written: {error.message}")
    ref = tip_ref(checkpoint.track)
    found = store.objects.info(ref)
    if found is None or found.oid != stored.id:
        changes.append([RefChange(name=ref, new=stored.id, old=found.oid if found else None)])
    return changes


def _note(store: Store, batch: _Batch, stored: Stored, head: Oid, author: bytes) -> RefChange:
    old, tree = store.notes_tree()
    note = parse_note(store.note(head, tree)).with_entry(stored.id, entry(stored.id, stored.checkpoint))
    blob = batch.add("blob", note.render())
    batch.items += edit(store.objects, tree, head, blob)
    dated = _dated(author, stored.checkpoint.created)
    text = f"checkpoint {stored.id}\n".encode()
    parents = (old,) if old else ()
    commit = batch.add("commit", commit_data(tree=batch.items[-1].oid, parents=parents, author=dated, message=text))
    return RefChange(name=NOTES, new=commit, old=old)


def repair(store: Store, tip: Stored, warn: Callable[[str], None]) -> None:
    """Bring the note and the tip of a track in line with its chain. The note keeps the chain commit's author."""
    batch = _Batch(store)
    batch.add("blob", tip.raw)
    found = store.objects.read(tip.commit)
    author = parse_commit(found.data).author.rsplit(b" ", 2)[0] if found and found.data else NOBODY
    noted = tip.checkpoint.head is None or tip.checkpoint.kind != "manual"
    if not noted and tip.checkpoint.head is not None:
        noted = tip.id in _noted(store, tip.checkpoint.head)
    changes = _derived(store, batch, tip, author, warn)
    if noted:
        changes = [c for c in changes if c[0].name != NOTES]
    store.objects.write(batch.items)
    store.objects.update(*changes)


def _noted(store: Store, head: Oid) -> list[Oid]:
    try:
        return store.noted(head, store.notes_tree()[1])
    except RecordError:
        return []
