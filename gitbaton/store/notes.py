"""Whole notes written in one commit, for those that a rewrite carries along."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.git.publish import publish
from gitbaton.model import Oid
from gitbaton.store.bundle import plan_notes
from gitbaton.store.read import Store


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
