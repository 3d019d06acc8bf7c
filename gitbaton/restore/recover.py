"""After a restore that was killed: the next command completes it or takes it back, and says which."""

from __future__ import annotations

import os

from gitbaton.baton import Baton
from gitbaton.codec import plain
from gitbaton.errors import BatonError, GitError, RecordError
from gitbaton.git.objects import parse_commit
from gitbaton.restore import intent as intents
from gitbaton.restore.intent import Intent, alone, reached
from gitbaton.restore.settle import go_on, index_is_of_before, roll_back, told
from gitbaton.store import safety_ref
from gitbaton.store.safety import take_back
from gitbaton.worktree.aside import rescue
from gitbaton.worktree.staged import IndexLock


def recover(baton: Baton) -> list[str]:
    """Bring an interrupted restore of this work tree to an end; what should be said about it. Raises nothing of git's.

    One that is still at work is waited for, ten seconds at most, and left alone.
    """
    repo = baton.repo
    if not os.path.lexists(intents.path(repo)):
        return []
    if repo.listings is not None:  # they were begun before the files are as they will be
        for process in repo.listings[1:]:
            process.stop()
        repo.listings = None
    try:
        with alone(repo):
            try:
                intent = intents.read(repo)
            except RecordError as error:
                IndexLock(repo.layout.index, "").release_any()
                place = intents.set_aside(repo)
                hint = "the state before the restore is in its safety checkpoint; see 'git baton undo --dry-run'"
                return [f"{error}; it is set aside as '{place}': {hint}"]
            if intent is not None and intent.root != (repo.layout.root or ""):
                return [f"a restore was interrupted in another work tree, '{plain(intent.root)}'; it is left as it is"]
            late = rescue(repo)
            return [*late, *(_end(baton, intent) if intent is not None else [])]
    except (BatonError, OSError) as error:
        return [f"an interrupted restore waits for the next command: {error}"]


def _end(baton: Baton, intent: Intent) -> list[str]:
    lock = IndexLock(baton.repo.layout.index, intent.mark)
    reached("recover")
    lock.release()
    if intent.safety is None:
        _forget(baton, intent)
        return [f"an interrupted {intent.op} was rolled back; no file had been changed"]
    try:
        left = go_on(baton, intent)
    except (BatonError, OSError) as error:
        if intent.index and not index_is_of_before(baton, intent):
            raise GitError(f"it cannot be completed yet: {error}") from None
        try:
            left = roll_back(baton, intent)
        except RecordError as second:  # what it needs is gone for good
            place = intents.set_aside(baton.repo)
            return [f"an interrupted {intent.op} cannot be ended: {second}; its record is set aside as '{place}'"]
        if left:
            intents.remove(baton.repo)
        else:
            _forget(baton, intent)
        return [f"an interrupted {intent.op} was rolled back, because it could not be completed: {error}", *told(left)]
    reached("done")
    intents.remove(baton.repo)
    return [f"an interrupted {intent.op} was completed", *told(left)]


def _forget(baton: Baton, intent: Intent) -> None:
    """Take the safety checkpoint back, if the restore came so far: nothing needs it."""
    ref = safety_ref(baton.repo.layout.git_dir, baton.repo.layout.common_dir)
    with baton.repo.lock((ref,)):
        found = baton.store.objects.read(ref)
        if found is not None and found.data is not None and found.oid != intent.previous:
            first = parse_commit(found.data).parents[:1]
            if first != ((intent.previous or baton.store.root),):
                raise GitError(f"'{ref}' is not where the interrupted {intent.op} left it")
            reached("take-back")
            take_back(baton.store, ref, found.oid, intent.previous)
    intents.remove(baton.repo)
