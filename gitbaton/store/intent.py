"""Crash marker of a change of several refs: written before it, so that the next command can finish it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gitbaton.codec import in_quotes
from gitbaton.errors import BatonError, GitError, GitTimeoutError, RefConflictError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import OID, RefChange, is_ref
from gitbaton.git.publish import fsync, kept, move_refs
from gitbaton.git.repo import Repo, put
from gitbaton.model import Oid
from gitbaton.store import newest
from gitbaton.store.chain import Chains
from gitbaton.system.files import read_regular

_HEADER = b"gitbaton revision 1\n"
_END = b"end\n"


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "revision")


def pending(repo: Repo) -> bool:
    """Whether a change of several refs was begun and not ended: one look at a file's name."""
    return os.path.lexists(_path(repo))


def carry_out(store: Chains, first: Sequence[RefChange], last: Sequence[RefChange], new: Sequence[Oid]) -> None:
    """Carry out ``first`` wholly or not at all, then ``last``, which are derived from it; ``new`` are the objects that no ref
    reaches yet. Called with the lock held.

    After a kill ``settle`` does what is left. Raises RefConflictError and GitError where nothing was changed.
    """
    free = [RefChange(name=c.name, new=c.old, old=c.old) for c in last if c.old is not None]
    how = fsync(store.repo)
    with kept(store.repo, new, walk=False, how=how):
        rows = [f"{c.name} {c.old or '-'} {c.new or '-'}\n" for c in (*first, *last)]
        put(store.repo, _path(store.repo), _HEADER + os.fsencode("".join(rows)) + _END, sync=True)
        newest.drop(store.repo)
        try:
            move_refs(store.repo, [*first, *free], *([last] if last else []), how=how)
        except (RefConflictError, GitError):
            found = store.objects.info(first[0].name)
            if (found.oid if found is not None else None) != first[0].new:
                _forget(store)
                raise
            return  # the rest waits for the next command
    _forget(store)


def settle(store: Chains) -> list[str]:
    """Finish what a killed process had begun; what is in the way is said, and tried again the next time.

    A ref that has moved on since stays where it is, and so does one that can never be moved. Called with the lock held.
    """
    if not pending(store.repo):
        return []
    said: list[str] = []
    try:
        changes = _kept(store)
        clear_stale_locks(store.repo.layout.common_dir, tuple(change.name for change in changes))
        for change in changes:
            found = store.objects.info(change.name)
            if (found.oid if found is not None else None) == change.old != change.new:
                said += _moved(store, change)
        _forget(store)
    except (BatonError, OSError) as error:
        return [f"a change that was begun is not finished yet: {error}"]
    return said


def _moved(store: Chains, change: RefChange) -> list[str]:
    """Move one ref; why it cannot be, where trying again cannot help. Raises RefConflictError, GitTimeoutError."""
    try:
        if change.new is not None and store.objects.info(change.new) is None:
            raise GitError(f"object {change.new} does not exist any more")
        move_refs(store.repo, [change], how=fsync(store.repo))
    except GitTimeoutError:
        raise
    except GitError as error:
        return [f"a change that was begun could not be finished: {in_quotes(change.name)}: {error.message}"]
    return []


def _kept(store: Chains) -> list[RefChange]:
    """The changes of the file; none of a file that is not whole, as after a power loss."""
    raw = read_regular(_path(store.repo), 64 << 20)
    if not raw.startswith(_HEADER) or not raw.endswith(_END):
        return []
    rows = [row.split(" ") for row in os.fsdecode(raw[len(_HEADER) : -len(_END)]).splitlines()]
    ids = [tuple(None if oid == "-" else oid for oid in row[1:]) for row in rows]
    if not all(len(row) == 3 and is_ref(row[0]) for row in rows) or not all(o is None or OID.match(o) for p in ids for o in p):
        return []
    return [RefChange(name=row[0], old=pair[0], new=pair[1]) for row, pair in zip(rows, ids, strict=True)]


def _forget(store: Chains) -> None:
    if pending(store.repo):
        os.unlink(_path(store.repo))
