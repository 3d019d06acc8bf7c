"""The flush: what the log has is brought into git's refs, as one pack, and the log lets go of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence

from gitbaton.codec import in_quotes
from gitbaton.errors import BatonError, GitError, RefConflictError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import RefChange
from gitbaton.threads.build import Built, building
from gitbaton.threads.chain import Object
from gitbaton.threads.codec import Id, Row, encode_put, encode_writes, key, replaces
from gitbaton.threads.core import Core, Frozen
from gitbaton.threads.view import Line, View

WAIT = 60.0  # seconds for the flush lock
PATIENCE = 15.0  # seconds for a ref that somebody else has locked: a lock ten seconds old is of a process that was killed
_FEW = 16  # checkpoints that are looked through at a time
ROUNDS = 3  # in the first it is seen what cannot be brought, in the second the log lets go of all else
Place = tuple[str, str]
Failed = dict[Place, BatonError]
"""Lines that cannot be brought into git, by thread and namespace."""
Work = tuple[Frozen, View, Built]
"""A line, what git has of it, and what it is to have."""


def flush(core: Core, *, wait: float | None = WAIT, give_way: Callable[[], None] | None = None) -> bool:
    """Bring all that was appended until now into git; whether there was anything. Raises GitError when another process
    flushes for ``wait`` seconds, whatever git raises, and the first error of a line that cannot be brought, after all others
    were; the log keeps what git has not."""
    there, failed = drain(core, wait=wait, give_way=give_way)
    if failed:
        raise next(iter(failed.values()))
    return there


def drain(core: Core, *, wait: float | None = WAIT, give_way: Callable[[], None] | None = None) -> tuple[bool, Failed]:
    """As ``flush``, but lines that cannot be brought are not raised: they are told, with why."""
    if core.wal.readonly:
        with core.wal.lock():
            core.catch_up()
        if not core.table.count:
            return False, {}
    with core.wal.flushing(wait):
        for _ in range(ROUNDS):
            with core.wal.lock(), core.careful():
                core.catch_up()
                if not core.table.count:
                    return False, {}
                frozen, sealed, carried = freeze(core)
            views, failed = bring(core, frozen, give_way)
            core.stuck = failed if views else {}
            if failed.keys() <= carried:
                with core.wal.prepared(sealed), core.wal.lock(), core.careful():
                    core.catch_up()
                    settle(core, views, sealed)
                break
            if not views:  # nothing else is in the way of these lines
                break
    core.shelf.packs.tidy()
    return True, failed


def freeze(core: Core, gone: Container[str] = ()) -> tuple[list[Frozen], int, set[Place]]:
    """All that git has not, the number up to which the log has it, and the lines that it has beyond that, too: those that
    could not be brought the last time, but for threads ``gone``. With the log's lock held."""
    frozen, sealed = core.table.freeze(), core.wal.rotate()
    stuck = [each.line for each in frozen if place(each.line) in core.stuck and each.line.thread not in gone]
    if not stuck:
        core.carried = 0
    if not stuck or len(stuck) == len(frozen) or core.wal.ending:
        return frozen, sealed, set()
    for line in stuck:
        _carry(core, line)
    core.carried = core.table.weight(sealed)
    return frozen, sealed, {place(line) for line in stuck}


def _carry(core: Core, line: Line) -> None:
    """Append anew what the log has of a line. It comes to the same if only a part of it is appended, and if git has it."""
    table, wal = core.table, core.wal
    for _, entry in list(line.puts.values()):
        held = {oid: table.blobs.get(oid) for oid in (*entry.channels.values(), *entry.rest.values())}
        blobs = {oid: found[1] for oid, found in held.items() if found is not None}
        record = encode_put(line.thread, line.namespace, entry, blobs)
        wal.append(record)
        table.put(wal.segment, line, entry, blobs)
        table.weigh(wal.segment, len(record))
    for id, batches in list(line.rows.items()):
        last: dict[tuple[str, int], tuple[Row, bool]] = {}
        for _, rows, replace in batches:
            last |= {key(row): (row, strong) for row in rows if (strong := replaces(row, replace)) or key(row) not in last}
        anew = []
        for replace in (False, True):
            rows = tuple(row for row, strong in last.values() if strong == replace)
            if rows:
                record = encode_writes(line.thread, line.namespace, id, rows, replace)
                wal.append(record)
                anew.append((wal.segment, rows, replace))
                table.weigh(wal.segment, len(record))
        line.rows[id] = anew


def settle(core: Core, views: Sequence[tuple[Frozen, View]], sealed: int) -> None:
    """Let go of what is in git now. With the log's lock held."""
    core.wal.drop(sealed)
    core.epoch = core.wal.epoch
    core.shelf.epoch += 1  # a reader that was slow may still bring in an older view: it will not count
    for frozen, view in views:
        view.epoch = core.shelf.epoch
        frozen.line.view = view
    core.table.forget(sealed)


def bring(
    core: Core, frozen: Sequence[Frozen], give_way: Callable[[], None] | None
) -> tuple[list[tuple[Frozen, View]], Failed]:
    """Build what is frozen on top of what git has, store it and move the refs; somebody who moves one meanwhile is built upon.
    The views that result, and the lines that cannot be brought: they keep no other from git."""
    views: list[tuple[Frozen, View]] = []
    failed: Failed = {}
    left = list(frozen)

    def attempt(*, last: bool) -> list[str]:
        nonlocal left
        built: list[Work] = []
        with core.shelf.packs.written(_built(core, left, built, failed, give_way), give_way or int):
            left = _move(core, built, views, failed)
        for each in left:
            if last or place(each.line) in core.stuck:  # nobody waits for it a second time
                said = f"cannot update a ref: {in_quotes(each.line.ref)} is locked or moved by others all the time"
                failed[place(each.line)] = RefConflictError(said)
        left = [each for each in left if place(each.line) not in failed]
        return [ref for each in left for ref in (each.line.ref, each.line.late)]

    if left:
        core.repo.prefetch_settings()
        insist(core, attempt)
    return views, failed


def insist(core: Core, attempt: Callable[..., Sequence[str]]) -> None:
    """Make an attempt to move refs, which gives those that somebody else has moved or locked meanwhile, and make it anew for
    as long as it gives any; after PATIENCE with ``last``. A lock that a killed process left goes."""
    end = time.monotonic() + PATIENCE
    while names := attempt(last=time.monotonic() > end):
        clear_stale_locks(core.repo.layout.common_dir, names)
        time.sleep(0.01)


def place(line: Line) -> Place:
    """What names a line."""
    return line.thread, line.namespace


def _built(
    core: Core, lines: Sequence[Frozen], built: list[Work], failed: Failed, give_way: Callable[[], None] | None
) -> Iterator[Object]:
    """What lines need and git has not, as it is made; those that can be brought are added to ``built``."""
    for each in lines:
        objects = _line(core, each, built, give_way)
        try:
            # Of a line that could not be brought before, nothing is stored until it is whole: it is tried again and again.
            yield from list(objects) if place(each.line) in core.stuck else objects
        except BatonError as error:
            failed[place(each.line)] = error


def _line(core: Core, frozen: Frozen, built: list[Work], give_way: Callable[[], None] | None) -> Iterator[Object]:
    """As ``_built``, of one line."""
    view = core.shelf.look(frozen.line)
    yield from _values(core, frozen, view, give_way)
    names = frozen.line.names
    steps = building(view.chain, frozen.puts, frozen.rows, view.late, names=names, pause=give_way)
    while True:
        try:
            yield from next(steps)
        except StopIteration as end:
            built.append((frozen, view, end.value))
            return


def _values(core: Core, frozen: Frozen, view: View, give_way: Callable[[], None] | None) -> Iterator[Object]:
    """The blobs of new checkpoints that git has not, or may have collected."""
    held = core.table.blobs
    seen, taken, new = set[Id](), set[Id](), list[Id]()
    for number, entry in enumerate(frozen.puts.values()):
        for oid in (*entry.channels.values(), *entry.rest.values()):
            if oid not in seen:
                seen.add(oid)
                (new.append if oid in held else taken.add)(oid)
        if give_way is not None and number % _FEW == 0:
            give_way()
    for entry in frozen.puts.values():
        if taken and entry.parent is not None and entry.parent not in frozen.puts:
            above = view.find(entry.parent)
            taken.difference_update(above.channels.values() if above is not None else ())
    # The ref was moved by hand since: git may have collected them, while we still have them.
    kept: list[Object] = [("blob", oid, _kept(core, frozen, oid)) for oid in taken]
    for oid in new:
        yield "blob", oid, held[oid][1]
    yield from kept


def _kept(core: Core, frozen: Frozen, oid: Id) -> bytes:
    try:
        return core.shelf.packs.read(oid)[1]
    except GitError as error:
        said = f"thread {in_quotes(frozen.line.thread)} cannot be brought into git: {error.message}"
        raise GitError(said, "git collected it after somebody removed or moved the thread's ref") from None


def _move(core: Core, built: Sequence[Work], views: list[tuple[Frozen, View]], failed: Failed) -> list[Frozen]:
    """Move the refs of lines to what was built, all at once where nobody is in the way: the views of those that moved are
    added, and the errors of those that never will. The others."""
    left = []
    changes = [changes_of(frozen.line, view, (made.tip, made.late_tip)) for frozen, view, made in built]
    core.note_ours([frozen.line.ref for frozen, _, _ in built])
    try:
        core.shelf.move([change for some in changes for change in some])
        wrong: list[BatonError | None] = [None] * len(built)
    except (RefConflictError, GitError):
        wrong = [_wrong(core, some) for some in changes]
    for (frozen, view, made), error in zip(built, wrong, strict=True):
        if isinstance(error, RefConflictError):
            left.append(frozen)
        elif error is not None:
            failed[place(frozen.line)] = error
        else:
            views.append((frozen, core.shelf.make(made.tip, made.late_tip, view)))
    return left


def _wrong(core: Core, changes: Sequence[RefChange]) -> BatonError | None:
    try:
        core.shelf.move(changes)
        return None
    except (RefConflictError, GitError) as error:
        return error


def changes_of(line: Line, view: View, made: Sequence[Id | None]) -> list[RefChange]:
    """What becomes of a line's refs, where there is one or is to be one."""
    return [
        RefChange(name=ref, old=old.hex() if old else None, new=new.hex() if new else None)
        for ref, old, new in zip((line.ref, line.late), (view.tip, view.late_tip), made, strict=True)
        if old or new
    ]
