"""The flush: what the log has is brought into git's refs, as one pack, and the log lets go of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from gitbaton.errors import RefConflictError
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


def flush(core: Core, *, wait: float | None = WAIT, give_way: Callable[[], None] | None = None) -> bool:
    """Bring all that was appended until now into git; whether there was anything. Raises GitError when another process
    flushes for ``wait`` seconds, and whatever git raises; the log then keeps all."""
    with core.wal.flushing(wait):
        with core.wal.lock():
            core.catch_up()
            if not core.table.count:
                return False
            frozen, sealed = core.table.freeze(), core.wal.rotate()
        views = bring(core, frozen, give_way)
        with core.wal.lock():
            core.catch_up()
            settle(core, views, sealed)
    core.shelf.packs.tidy()
    return True


def flush_locked(core: Core) -> None:
    """As ``flush``, with the flush lock and the log's lock held: nothing is in the log afterwards, and nothing comes."""
    core.catch_up()
    if core.table.count:
        frozen, sealed = core.table.freeze(), core.wal.rotate()
        settle(core, bring(core, frozen, None), sealed)


def settle(core: Core, views: Sequence[tuple[Frozen, View]], sealed: int) -> None:
    """Let go of what is in git now. With the log's lock held."""
    core.wal.drop(sealed)
    core.epoch = core.wal.epoch  # our own drop: the views are of after it
    for frozen, view in views:
        view.epoch = core.shelf.epoch
        frozen.line.view = view
    core.table.forget(sealed + 1)


def bring(core: Core, frozen: Sequence[Frozen], give_way: Callable[[], None] | None) -> list[tuple[Frozen, View]]:
    """Build what is frozen on top of what git has, store it and move the refs; somebody who moves one meanwhile is built upon.
    The views that result."""
    views: list[tuple[Frozen, View]] = []
    left, end = list(frozen), time.monotonic() + PATIENCE
    while left:
        built = [(each, *_build(core, each, give_way)) for each in left]
        kept = core.shelf.packs.write(_objects(core, built))
        left = []
        try:
            for each, view, made in built:
                try:
                    views.append((each, _move(core, each, view, made)))
                except RefConflictError:
                    if time.monotonic() > end:
                        raise
                    left.append(each)
        finally:
            kept.release()
        if left:
            clear_stale_locks(core.repo.layout.common_dir, [ref for each in left for ref in (each.line.ref, each.line.late)])
            time.sleep(0.01)
    return views


def _build(core: Core, frozen: Frozen, give_way: Callable[[], None] | None) -> tuple[View, Built]:
    view = core.shelf.look(frozen.line)
    return view, rebuild(view.chain, frozen.puts, frozen.rows, view.late, pause=give_way)


def _objects(core: Core, built: Sequence[tuple[Frozen, View, Built]]) -> Objects:
    """What goes into the pack: the new blobs that the newest versions of checkpoints name, and what was built."""
    objects: Objects = []
    blobs = core.table.blobs
    for frozen, _, made in built:
        for entry in frozen.puts.values():
            for oid in (*entry.channels.values(), *entry.rest.values()):
                found = blobs.get(oid)
                if found is not None:
                    objects.append(("blob", oid, found[1]))
        objects += made.objects
    return list({each[1]: each for each in objects}.values())


def _move(core: Core, frozen: Frozen, view: View, made: Built) -> View:
    """Move the refs of one line to what was built; the view of it."""
    line = frozen.line
    pairs = ((line.ref, view.tip, made.tip), (line.late, view.late_tip, made.late_tip))
    changes = [RefChange(name=ref, old=_hex(old), new=_hex(new)) for ref, old, new in pairs if old != new]
    if changes:
        core.shelf.move(changes)
    return core.shelf.make(made.tip, made.late_tip, view)


def _hex(oid: Id | None) -> str | None:
    return oid.hex() if oid is not None else None
