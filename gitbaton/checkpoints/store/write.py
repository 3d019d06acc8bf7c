"""Append a checkpoint: ``contents`` before the lock, ``append`` under it: objects, the chain, then note and tip."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from gitbaton.base.codec import (
    alike,
    check_new_track,
    check_track,
    decode_track,
    encode,
    entry,
    in_quotes,
    looks,
    message,
    os_error,
    parse_note,
)
from gitbaton.base.codec.notes import MAX_ENTRIES
from gitbaton.base.errors import BatonError, GitError, RecordError, RefConflictError, UsageError
from gitbaton.base.model import Checkpoint, Oid, Stored
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.store.chain import INDEX, RETRY_SECONDS, STAGES, append_to, landed, root_objects
from gitbaton.checkpoints.store.provenance import STATES, of_track
from gitbaton.checkpoints.store.read import Store
from gitbaton.checkpoints.store.refs import CHAINS, NOTES, chain_ref, tip_ref
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import Kind, NewObject, RefChange, author_at, commit_data, edit_notes, new_object
from gitbaton.git.publish import (
    fsync,
    keep_base,
    kept,
    kept_whole,
    move_refs,
    publish,
    publish_at_head,
    quarantined,
    store_large,
)
from gitbaton.git.reffiles import below

REPAIR_SECONDS = 2.0
_LOCK_HINT = "a lock file that a killed process left is removed once it is ten seconds old"
NOBODY = b"gitbaton <gitbaton@localhost>"


@value
class SnapshotDraft:
    """A checkpoint that is to be appended. ``author`` is ``Name <email>``; ``tree`` its commit's tree;
    ``stages`` the objects of the unmerged stages, the last one their tree.
    ``count_changed`` says how many paths differ between two trees.
    ``fresh``: its files were read anew, since objects that other commits hold are torn. ``kept``: trees that lie in a kept
    pack already, with all below them.
    ``follow`` fits the checkpoint to the one that it will follow, None for the first; it may raise UnchangedError."""

    checkpoint: Checkpoint
    author: bytes
    tree: Oid
    stages: tuple[NewObject, ...]
    count_changed: Callable[[Oid, Oid], int]
    follow: Callable[[SnapshotDraft, Stored | None], Checkpoint] | None = None
    fresh: bool = False
    kept: tuple[Oid, ...] = ()


class _Objects:
    """Objects collected for one write, in an order in which nothing points forward."""

    def __init__(self, store: Store) -> None:
        self.algorithm = store.objects.algorithm
        self.items: list[NewObject] = []

    def add(self, kind: Kind, data: bytes) -> Oid:
        """Collect one object; its id."""
        self.items.append(new_object(self.algorithm, kind, data))
        return self.items[-1].oid


def append(store: Store, draft: SnapshotDraft, warn: Callable[[str], None]) -> Stored:
    """Append a checkpoint to its track; the ids it gets depend on what is there now.

    Raises RefConflictError, which names the process in the way, when the chain cannot be moved for 8 seconds, and what
    ``draft.follow`` raises. Once the chain has moved the checkpoint is recorded: a note or a tip that cannot be derived from it
    now is a warning, and the next command's work.
    """
    ref = chain_ref(check_track(draft.checkpoint.track))
    for derived in (NOTES, tip_ref(draft.checkpoint.track)):
        store.repo.drop_broken(derived)
    for text in store.settle():
        warn(text)
    lost = _lost(store, "nothing is recorded")
    stored = append_to(store.repo, (ref,), lambda _: _append_once(store, draft, warn), seconds=RETRY_SECONDS, lost=lost)
    if stored.checkpoint.kind == "manual" and store.ours.mixed(stored.checkpoint.track):
        _own(store, stored, warn)
    return replace(stored, foreign=not store.ours.has(of_track(stored.checkpoint.track), stored.id))


def _lost(store: Store, said: str) -> tuple[str, ...]:
    """Return what to say where a ref stays locked: what was lost, and what becomes of the lock; that of all refs at once, on
    reftable, stays."""
    tables = os.path.isdir(os.path.join(store.repo.layout.common_dir, "reftable"))
    return (said,) if tables else (said, _LOCK_HINT)


def _own(store: Store, stored: Stored, warn: Callable[[str], None]) -> None:
    """Make the checkpoints below words that were written here foreign no more."""
    track = stored.checkpoint.track
    try:
        store.ours.own(of_track(track), (below.id for below in store.history(track).items))
    except (RecordError, OSError) as error:  # the next words do it
        warn(f"what came from elsewhere stays foreign: {os_error(error)}")


def _append_once(store: Store, draft: SnapshotDraft, warn: Callable[[str], None]) -> Stored:
    track = check_track(draft.checkpoint.track)
    tip = store.own_tip(track)
    if tip is None:
        refuse_name(store, track)
    if draft.follow is not None:
        draft = replace(draft, checkpoint=draft.follow(draft, tip))
    shown = store.objects.info(tip_ref(track)) if tip else None
    behind = tip is not None and (shown is None or shown.oid != tip.id)
    batch = _Objects(store)
    stored = _chain_commit(store, batch, draft, tip)
    changes = [[RefChange(name=chain_ref(track), new=stored.commit, old=tip.commit if tip else None)]]
    if not behind:
        changes += _derived(store, batch, stored, draft.author, warn)
    store.repo.stow(batch.items)
    checkpoint, automatic = draft.checkpoint, draft.checkpoint.kind == "auto"
    how = fsync(store.repo, automatic=automatic)
    try:  # before the ref moves: one that nobody knows of afterwards does no harm
        store.ours.add(of_track(track), [stored.id], mixed=tip is not None and tip.foreign, sync=how != "never")
    except OSError as error:
        warn(f"the checkpoint is shown as foreign: {os_error(error)}")

    files, known = checkpoint.files, {store.tree_of(checkpoint.head), tip.tree if tip else None}
    # Then all else that the new commits name is below HEAD or the tip, and git need not look for it.
    alone = not draft.stages and not draft.fresh and {draft.tree, files.index.tree if files else draft.tree} <= known

    def move() -> None:
        if alone:
            with kept_whole(store.repo, batch.items, how):
                move_refs(store.repo, *changes, how=how)
            keep_base(store.repo, checkpoint.head, *changes, how=how)
            return
        with kept(store.repo, quarantined(store.repo) if draft.fresh else (), how=how):
            publish_at_head(store.repo, checkpoint.head, *changes, without=draft.kept, automatic=automatic)

    def now() -> Oid | None:
        found = store.objects.info(chain_ref(track))
        return found.oid if found else None

    try:
        whole = landed(move, now, stored.commit)
    except BatonError:
        if tip is None:  # else the track would be missed, which was never here
            store.ours.drop(of_track(track), [stored.id])
        raise
    if not whole or behind:
        repair(store, stored, warn)
    return stored


def append_safety(store: Store, ref: str, draft: SnapshotDraft) -> Stored:
    """Put a safety checkpoint on top of the chain at ``ref``, which has neither tip blob nor note. Raises as ``append``."""

    def once(_: object) -> Stored:
        tip = store.tip_at(ref)
        batch = _Objects(store)
        stored = _chain_commit(store, batch, draft, tip)
        store.repo.stow(batch.items)
        store.ours.add(STATES, [stored.id], sync=fsync(store.repo) != "never")
        change = RefChange(name=ref, new=stored.commit, old=tip.commit if tip else None)
        publish_at_head(store.repo, draft.checkpoint.head, [change], without=draft.kept)
        return stored

    return append_to(store.repo, (ref,), once, seconds=RETRY_SECONDS, lost=_lost(store, "nothing is changed"))


@contextmanager
def contents(store: Store, draft: SnapshotDraft) -> Iterator[SnapshotDraft]:
    """Yield the draft, what is large of it on disk: for the time before the lock, which the block takes. Raises
    CollectedError."""
    files = draft.checkpoint.files
    store.repo.stow(draft.stages)
    trees = [draft.tree, *([files.index.tree] if files else ()), *(item.oid for item in draft.stages[-1:])]
    tip = store.own_tip(draft.checkpoint.track) if draft.checkpoint.kind != "safety" else None
    held = (store.tree_of(draft.checkpoint.head), tip.tree if tip else None)
    with store_large(store.repo, trees, held, automatic=draft.checkpoint.kind == "auto") as ready:
        yield replace(draft, kept=tuple(ready))


def refuse_name(store: Store, track: str, *, kept: bool = False) -> None:
    """Raise UsageError for a new track's name that is read as something else, unless it is ``kept`` of one that was here, that
    looks like another's, or that differs from one only in case, which is the same file on many disks."""
    check_new_track(track, kept=kept)
    names = map(decode_track, below(store.repo, CHAINS))
    if not any(name is not None and name != track and looks(name) == looks(track) for name in names):
        return  # what lies there need not be a ref
    for other in store.chains()[0]:
        if other != track and looks(other) == looks(track):
            raise UsageError(alike(track, other))


def _chain_commit(store: Store, batch: _Objects, draft: SnapshotDraft, tip: Stored | None) -> Stored:
    checkpoint = replace(draft.checkpoint, previous=tip.id if tip else None)
    if tip is not None and checkpoint.created <= tip.checkpoint.created:
        checkpoint = replace(checkpoint, created=_just_after(tip))
    author = author_at(draft.author, checkpoint.created)
    batch.items += [] if tip else root_objects(batch.algorithm)
    first = tip.commit if tip else store.root
    head_tree = store.tree_of(checkpoint.head)
    base = _base(batch, draft, checkpoint, author, first, head_tree)
    if checkpoint.files is not None:
        before = tip.tree if tip else store.tree_of(store.first_base(checkpoint)) or batch.add("tree", b"")
        changed = 0 if before == draft.tree else draft.count_changed(before, draft.tree)
        checkpoint = replace(checkpoint, files=replace(checkpoint.files, changed=changed))
    raw = encode(checkpoint)
    oid = batch.add("blob", raw)
    parents = (first, base) if base else (first,)
    text = message(checkpoint.step, raw)
    commit = batch.add("commit", commit_data(tree=draft.tree, parents=parents, author=author, message=text))
    return Stored(id=oid, commit=commit, base=base, tree=draft.tree, raw=raw, checkpoint=checkpoint)


def _just_after(tip: Stored) -> datetime:
    try:
        return tip.checkpoint.created + timedelta(microseconds=1)
    except OverflowError:
        raise RecordError(f"commit {tip.commit} is dated at the end of time; nothing can follow it") from None


def _base(
    batch: _Objects, draft: SnapshotDraft, checkpoint: Checkpoint, author: bytes, first: Oid, head_tree: Oid | None
) -> Oid | None:
    """Return the second parent: HEAD, or a commit of the index when the index says more than HEAD does."""
    head, files = checkpoint.head, checkpoint.files
    staged = files.index.tree if files else head_tree
    empty = batch.add("tree", b"")
    plain = files is None or not (files.index.flags or files.index.unmerged or draft.stages)
    if staged is None or (plain and head != first and staged == (head_tree or empty)):
        return head
    parents = [head] if head else []
    if draft.stages:
        batch.items += draft.stages
        stages = commit_data(tree=draft.stages[-1].oid, parents=(), author=author, message=STAGES)
        parents.append(batch.add("commit", stages))
    return batch.add("commit", commit_data(tree=staged, parents=parents, author=author, message=INDEX))


def _derived(
    store: Store, batch: _Objects, stored: Stored, author: bytes, warn: Callable[[str], None]
) -> list[list[RefChange]]:
    """Return the moves of the note and of the tip, each on its own and the tip last: where it is up to date, the note is,
    too."""
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


def _note(store: Store, batch: _Objects, stored: Stored, head: Oid, author: bytes) -> RefChange:
    old, tree = store.notes_tree()
    note = parse_note(store.note(head, tree)).with_entry(stored.id, entry(stored.id, stored.checkpoint))
    blob = batch.add("blob", note.render())
    batch.items += edit_notes(store.objects, tree, head, blob)
    who, text = author_at(author, stored.checkpoint.created), f"checkpoint {stored.id}\n".encode()
    above = [old] if old else []
    commit = batch.add("commit", commit_data(tree=batch.items[-1].oid, parents=above, author=who, message=text))
    return RefChange(name=NOTES, new=commit, old=old)


def repair(store: Store, tip: Stored, warn: Callable[[str], None]) -> None:
    """Bring the notes and the tip of a track in line with its chain. What is in the way is a warning that names it."""
    refs = (NOTES, tip_ref(tip.checkpoint.track))
    for ref in refs:
        store.repo.drop_broken(ref)
    clear_stale_locks(store.repo.layout.common_dir, refs)
    try:
        append_to(store.repo, refs, lambda _: _repair_once(store, tip, warn), seconds=REPAIR_SECONDS)
    except (RefConflictError, GitError, RecordError) as error:
        said = f"{in_quotes(tip.checkpoint.track)} is recorded, but its note or '{refs[1]}' is behind"
        warn(f"{said}; the next command repairs it: {error.message}")


def _repair_once(store: Store, tip: Stored, warn: Callable[[str], None]) -> None:
    shown = store.objects.info(tip_ref(tip.checkpoint.track))
    for stored in _unshown(store, tip, shown.oid if shown else None):
        batch = _Objects(store)
        try:
            changes = _missing_note(store, batch, stored)
        except RecordError as error:
            warn(f"no note is written: {error.message}")
            continue
        if changes:
            publish(store.repo, *changes, new=batch.items)
    if shown is None or shown.oid != tip.id:
        change = RefChange(name=tip_ref(tip.checkpoint.track), new=tip.id, old=shown.oid if shown else None)
        publish(store.repo, [change], new=[new_object(store.objects.algorithm, "blob", tip.raw)])


def _unshown(store: Store, tip: Stored, shown: Oid | None) -> list[Stored]:
    """Return the checkpoints above the one that the tip ref shows, oldest first; only the newest when it shows a stranger."""
    items = store.history(tip.checkpoint.track, MAX_ENTRIES).items
    if shown is None:
        return list(reversed(items))
    at = next((i for i, s in enumerate(items) if s.id == shown), None)
    return [tip] if at is None else list(reversed(items[:at]))


def _missing_note(store: Store, batch: _Objects, stored: Stored) -> list[list[RefChange]]:
    """Return the note of a checkpoint that has none yet; it keeps the chain commit's author. Raises RecordError."""
    head = stored.checkpoint.head
    if (
        stored.checkpoint.kind != "manual"
        or head is None
        or store.tree_of(head) is None
        or stored.id in store.noted(head, store.notes_tree()[1])
    ):
        return []
    found = store.commit(stored.commit)
    author = found.author.rsplit(b" ", 2)[0] if found is not None else NOBODY
    return [[_note(store, batch, stored, head, author)]]
