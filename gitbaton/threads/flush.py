"""The flush: what the log has is brought into git's refs, as one pack, and the log lets go of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gitbaton.codec import plain
from gitbaton.errors import BatonError, GitError, RefConflictError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import Kind, RefChange
from gitbaton.threads.build import Built, rebuild
from gitbaton.threads.core import Core
from gitbaton.threads.table import Frozen
from gitbaton.threads.values import Id
from gitbaton.threads.view import View

WAIT = 60.0  # seconds for the flush lock
PATIENCE = 15.0  # seconds for a ref that somebody else has locked: a lock ten seconds old is of a process that was killed
Objects = list[tuple[Kind, Id, bytes]]
Work = tuple[Frozen, View, Built, Objects]
"""A line, what git has of it, what it is to have, and the new values that this needs."""


def flush(core: Core, *, wait: float | None = WAIT, give_way: Callable[[], None] | None = None) -> bool:
    """Bring all that was appended until now into git; whether there was anything. Raises GitError when another process
    flushes for ``wait`` seconds, and whatever git raises; the log then keeps all."""
    if core.wal.readonly:
        with core.wal.lock():
            core.catch_up()
        if not core.table.count:
            return False
    with core.wal.flushing(wait):
        with core.wal.lock(), core.careful():
            core.catch_up()
            if not core.table.count:
                return False
            frozen, sealed = core.table.freeze(), core.wal.rotate()
        views = bring(core, frozen, give_way)
        with core.wal.lock(), core.careful():
            core.catch_up()
            settle(core, views, sealed)
    core.shelf.packs.tidy()
    return True


def settle(core: Core, views: Sequence[tuple[Frozen, View]], sealed: int) -> None:
    """Let go of what is in git now. With the log's lock held."""
    core.wal.drop(sealed)
    core.epoch = core.wal.epoch
    core.shelf.epoch += 1  # a reader that was slow may still bring in an older view: it will not count
    for frozen, view in views:
        view.epoch = core.shelf.epoch
        frozen.line.view = view
    core.table.forget(sealed + 1)


def bring(core: Core, frozen: Sequence[Frozen], give_way: Callable[[], None] | None) -> list[tuple[Frozen, View]]:
    """Build what is frozen on top of what git has, store it and move the refs; somebody who moves one meanwhile is built upon.
    The views that result. A line that cannot be built keeps no other from git; then the error is raised in the end."""
    views: list[tuple[Frozen, View]] = []
    left, end, failed = list(frozen), time.monotonic() + PATIENCE, list[BatonError]()
    while left:
        built = []
        for each in left:
            try:
                built.append(_build(core, each, give_way))
            except BatonError as error:
                failed.append(error)
        objects = {one[1]: one for _, _, made, blobs in built for one in (*blobs, *made.objects)}
        kept = core.shelf.packs.write(list(objects.values()), give_way)
        try:
            moved, left = _move(core, built)
            views += moved
        finally:
            kept.release()
        if left and time.monotonic() > end:
            raise RefConflictError(f"cannot update a ref: '{left[0].line.ref}' is locked or moved by others all the time")
        if left:
            clear_stale_locks(core.repo.layout.common_dir, [ref for each in left for ref in (each.line.ref, each.line.late)])
            time.sleep(0.01)
    if failed:
        raise failed[0]
    return views


def _build(core: Core, frozen: Frozen, give_way: Callable[[], None] | None) -> Work:
    view = core.shelf.look(frozen.line)
    held = core.table.blobs
    blobs: Objects = []
    taken: set[Id] = set()
    for entry in frozen.puts.values():
        for oid in (*entry.channels.values(), *entry.rest.values()):
            found = held.get(oid)
            if found is not None:
                blobs.append(("blob", oid, found[1]))
            else:
                taken.add(oid)
    for entry in frozen.puts.values():
        if taken and entry.parent is not None and entry.parent not in frozen.puts:
            above = view.find(entry.parent)
            taken.difference_update(above.channels.values() if above is not None else ())
    # The ref was moved by hand since: git may have collected them, while we still have them.
    blobs += [("blob", oid, _kept(core, frozen, oid)) for oid in taken]
    return frozen, view, rebuild(view.chain, frozen.puts, frozen.rows, view.late, pause=give_way), blobs


def _kept(core: Core, frozen: Frozen, oid: Id) -> bytes:
    try:
        return core.shelf.packs.read(oid)[1]
    except GitError as error:
        said = f"thread '{plain(frozen.line.thread)}' cannot be brought into git: {error.message}"
        raise GitError(said, "git collected it after somebody removed or moved the thread's ref") from None


def _move(core: Core, built: Sequence[Work]) -> tuple[list[tuple[Frozen, View]], list[Frozen]]:
    """Move the refs of lines to what was built, all at once where nobody is in the way: the views of those that moved, and the
    others."""
    changes = [_changes(frozen, view, made) for frozen, view, made, _ in built]
    try:
        core.shelf.move([change for some in changes for change in some])
        moved = [True] * len(built)
    except RefConflictError:
        moved = [_moved(core, some) for some in changes]
    views, left = [], []
    for (frozen, view, made, _), there in zip(built, moved, strict=True):
        if there:
            views.append((frozen, core.shelf.make(made.tip, made.late_tip, view)))
        else:
            left.append(frozen)
    return views, left


def _moved(core: Core, changes: Sequence[RefChange]) -> bool:
    try:
        core.shelf.move(changes)
        return True
    except RefConflictError:
        return False


def _changes(frozen: Frozen, view: View, made: Built) -> list[RefChange]:
    line = frozen.line
    pairs = ((line.ref, view.tip, made.tip), (line.late, view.late_tip, made.late_tip))
    return [RefChange(name=ref, old=_hex(old), new=_hex(new)) for ref, old, new in pairs if old != new]


def _hex(oid: Id | None) -> str | None:
    return oid.hex() if oid is not None else None
