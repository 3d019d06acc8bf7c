"""Safety chain: the states before each restore of a work tree, as steps of undo and redo."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gitbaton.errors import NotFoundError, RecordError
from gitbaton.git.objects import RefChange, lookup
from gitbaton.model import STEPPING, Oid, Stored
from gitbaton.store.chain import INDEX, STAGES
from gitbaton.store.read import Store
from gitbaton.values import value


@value
class Steps:
    """What can be undone and redone in a work tree, the next one last, and the chain's newest commit."""

    undo: tuple[Stored, ...]
    redo: tuple[Stored, ...]


AFTER = b"after"  # in that tree: the work tree's tree afterwards
AFTER_ATTRIBUTES = b"after-attributes"  # in that tree: the attributes files by which files were checked out
INDEX_AFTER = b"index-after"  # in that tree: the index that the paths of a revert come from
INDEX_FLAGS = b"index-after-flags"  # and their bits, as a list
ROOMS = (b"raw", b"held", b"held-index", AFTER, b"after-raw", b"after-held", AFTER_ATTRIBUTES, INDEX_AFTER)
"""In that tree: folders of paths of the work tree."""
LEFT = b"left"  # the paths that a step left alone


def steps(store: Store, ref: str) -> Steps:
    """Replay the chain at ``ref``: a restore can be undone and ends what could be redone; an undo can be redone."""
    try:
        entries = store.chain(ref, None).items
    except NotFoundError:
        return Steps(undo=(), redo=())
    return replay(store, entries)


def replay(store: Store, entries: Sequence[Stored]) -> Steps:
    """The same for the checkpoints of such a chain, newest first. What was done in another repository is no step of ours."""
    undo: list[Stored] = []
    redo: list[Stored] = []
    for entry in reversed(entries):
        done = entry.checkpoint.restore
        if done is None or entry.foreign:
            continue
        if done.op not in STEPPING:
            undo.append(entry)
            redo.clear()
            continue
        source, other = (undo, redo) if done.op == "undo" else (redo, undo)
        if not paths_beside(store, entry, LEFT):  # what was left alone can be asked for again
            at = next((n for n, entry in enumerate(source) if entry.id == done.target), len(source))
            del source[at:]  # and what lies above it, which cannot be carried out any more
        other.append(entry)
    return Steps(undo=tuple(undo), redo=tuple(redo))


def beside(store: Store, stored: Stored) -> Oid | None:
    """The tree of the second parent of a checkpoint's index commit; None without one.

    It holds ``1/ 2/ 3/ flags modes`` and of ROOMS ``raw/ held/ held-index/``, and of a safety checkpoint the others and lists
    of paths.
    """
    files = stored.checkpoint.files
    commit = store.commit(stored.base) if files else None
    if files is None or commit is None or commit.message != INDEX or commit.tree != files.index.tree:
        return None
    second = store.commit(commit.parents[-1]) if commit.parents else None
    return second.tree if second is not None and second.message == STAGES else None


def in_beside(store: Store, stored: Stored, name: bytes) -> Oid:
    """The id of a folder of that tree. Raises RecordError when there is none."""
    tree = beside(store, stored)
    entry = lookup(store.objects, tree, name) if tree else None
    if entry is None or not entry.is_tree:
        raise RecordError(f"safety checkpoint '{stored.id}' does not say what its restore did")
    return entry.oid


def paths_beside(store: Store, stored: Stored, name: bytes) -> list[str] | None:
    """The paths that a blob of that tree lists, each ended by NUL; None where there is no such blob."""
    tree = beside(store, stored)
    entry = lookup(store.objects, tree, name) if tree else None
    found = store.objects.read(entry.oid, 256 << 20) if entry is not None else None
    if found is None or found.kind != "blob" or found.data is None:
        return None
    return [os.fsdecode(path) for path in found.data.split(b"\0")[:-1]]


def take_back(store: Store, ref: str, commit: Oid, previous: Oid | None) -> None:
    """Remove the newest entry of a chain, whose restore has changed nothing. Raises RefConflictError."""
    store.objects.update([RefChange(name=ref, new=previous, old=commit)])
