"""Writing whole notes on commits in one step: for what rewriting and import carry along."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.git.notes import edit
from gitbaton.git.objects import RefChange, commit_data, new_object
from gitbaton.model import Oid
from gitbaton.store.read import Store
from gitbaton.store.refs import NOTES

_AUTHOR = b"gitbaton <gitbaton@localhost>"


def put_notes(store: Store, notes: Mapping[Oid, bytes], seconds: int = 0) -> None:
    """Make each text the note of its commit, in one commit of the notes ref. Called with the lock held.

    ``seconds`` since 1970 date that commit. Raises RecordError when something else stands at the ref, RefConflictError
    when somebody moved it meanwhile.
    """
    old, tree = store.notes_tree()
    algorithm = store.objects.algorithm
    for target, text in notes.items():
        blob = new_object(algorithm, "blob", text)
        made = [blob, *edit(store.objects, tree, target, blob.oid)]
        store.objects.write(made)  # the next edit reads this tree
        tree = made[-1].oid
    if tree is None or not notes:
        return
    author = _AUTHOR + b" %d +0000" % seconds
    data = commit_data(tree=tree, parents=(old,) if old else (), author=author, message=b"notes carried along\n")
    commit = new_object(algorithm, "commit", data)
    store.objects.write([commit])
    store.objects.update([RefChange(name=NOTES, new=commit.oid, old=old)])
