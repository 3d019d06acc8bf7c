"""Flush of the log into git's refs, as one pack; and edits of whole threads (delete, copy, prune, join): drafted while
others put, moved once the log holds nothing of what goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, GitError, RefConflictError, UsageError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import RefChange
from gitbaton.langgraph.threads.build import Built, Side, apart, building, metadata_of, needed, rebuild
from gitbaton.langgraph.threads.chain import Batch, LateWrites, Object, ThreadChain
from gitbaton.langgraph.threads.codec import Id, Row, ThreadCheckpoint, encode_put, encode_writes, key, replaces
from gitbaton.langgraph.threads.core import Core, Frozen, ThreadLine, View
from gitbaton.langgraph.threads.names import THREADS, cut, names_of, prefix_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.langgraph.threads.build import Made, Metadata

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
    """Flush, as ``flush``, but return the lines that cannot be brought, with why."""
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
    """Return all that git lacks, the number up to which the log has it, and the lines that it has beyond that, too: those that
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


def _carry(core: Core, line: ThreadLine) -> None:
    """Append what the log has of a line once more. It comes to the same if only a part of it is appended, and if git has it."""
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
    """Drop from log and memory what is in git now. With the log's lock held."""
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
    """Build what is frozen on top of what git has, store it and move the refs; a move by another process meanwhile is built
    upon. Returns the views that result, and the lines that cannot be brought: they keep no other from git."""
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
    """Retry ``attempt`` for as long as it gives refs that another process has moved or locked; after PATIENCE with ``last``.
    Stale lock files are removed."""
    end = time.monotonic() + PATIENCE
    while names := attempt(last=time.monotonic() > end):
        clear_stale_locks(core.repo.layout.common_dir, names)
        time.sleep(0.01)


def place(line: ThreadLine) -> Place:
    """Return the key of a line."""
    return line.thread, line.namespace


def _built(
    core: Core, lines: Sequence[Frozen], built: list[Work], failed: Failed, give_way: Callable[[], None] | None
) -> Iterator[Object]:
    """Yield the objects of lines that git lacks, as they are made; those that can be brought are added to ``built``."""
    for each in lines:
        objects = _line(core, each, built, give_way)
        try:
            # Of a line that could not be brought before, nothing is stored until it is whole: it is tried again and again.
            yield from list(objects) if place(each.line) in core.stuck else objects
        except BatonError as error:
            failed[place(each.line)] = error


def _line(core: Core, frozen: Frozen, built: list[Work], give_way: Callable[[], None] | None) -> Iterator[Object]:
    """Yield the objects of one line that git lacks."""
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
    """Yield the blobs of new checkpoints that git lacks, or may have collected."""
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
    """Move the refs of lines to what was built, all at once where nothing is in the way; add the views of those that moved and
    the errors of those that never will; return the others."""
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


def changes_of(line: ThreadLine, view: View, made: Sequence[Id | None]) -> list[RefChange]:
    """Return the changes of a line's refs."""
    return [
        RefChange(name=ref, old=old.hex() if old else None, new=new.hex() if new else None)
        for ref, old, new in zip((line.ref, line.late), (view.tip, view.late_tip), made, strict=True)
        if old or new
    ]


def delete(core: Core, thread: str) -> None:
    """See ThreadStore."""
    edit(core, lambda draft: draft.drop(thread), (), {thread})


def delete_runs(core: Core, run_ids: Iterable[str], metadata: Metadata | None) -> None:
    """See ThreadStore."""
    wanted = set(run_ids)

    def work(part: LineEdit) -> None:
        before, new = part.before, list[ThreadCheckpoint]()
        for entry in part.view.chain.walk():
            met = before.view.chain.find(entry.id) if before is not None else None
            if before is not None and met is not None and met.commit == entry.commit:
                part.gone.update({id: None for id in before.gone if id <= entry.id})
                break  # all below is the same
            new.append(entry)
            if entry.md and b'"run_id"' not in entry.md:
                continue
            run = metadata_of(entry, metadata).get("run_id")
            if isinstance(run, str) and run in wanted:
                part.gone[entry.id] = None
        if part.gone and before is not None and before.gone and before.view.late_tip == part.view.late_tip:
            part.resume(before, new)
        elif part.gone:
            part.rebuild(part.gone)

    def plan(draft: EditDraft) -> None:
        for place in draft.places([THREADS]):
            draft.once(place, work)

    if wanted:
        edit(core, plan)


def copy(core: Core, source: str, target: str) -> None:
    """See ThreadStore."""

    def plan(draft: EditDraft) -> None:
        for thread, namespace in draft.places(prefix_of(source), source):
            if thread == source:
                view = core.shelf.look(core.line(source, namespace))
                core.note_ours([core.line(target, namespace).ref])
                draft.once((target, namespace), partial(LineEdit.unite, theirs=view), view.tip, view.late_tip)

    if source != target:
        edit(core, plan, {source, target})


def join(core: Core, place: Place, draw: Callable[[Side], Made]) -> None:
    """See ThreadStore."""

    def work(part: LineEdit) -> None:
        tip, late, objects = draw(Side(part.view.chain, part.view.late))
        part.made, part.objects = (tip, late), [*objects]

    edit(core, lambda draft: draft.once(place, work), {place[0]})


def prune(core: Core, threads: Iterable[str], strategy: str, metadata: Metadata | None) -> None:
    """See ThreadStore."""
    if strategy not in ("keep_latest", "delete"):
        raise UsageError(f"strategy '{strategy}' is neither 'keep_latest' nor 'delete'")
    wanted = list(dict.fromkeys(threads))

    def keep_latest(part: LineEdit) -> None:
        view, head = part.view, part.view.head
        if head is None:
            return
        kept = needed(part.line.thread, view.find, [head.id], metadata)
        # Writes for a checkpoint that is yet to come stay.
        gone: dict[str, ThreadCheckpoint | None] = {id: None for id in view.late.ids() if id < head.id and id not in kept}
        if len(kept) == head.seq + 1:
            part.rebuild(gone)
        else:
            part.rebuild({**gone, **kept}, {id: view.chain.rows(entry) for id, entry in kept.items()}, anew=True)

    def plan(draft: EditDraft) -> None:
        for thread in wanted:
            if strategy == "delete":
                draft.drop(thread)
                continue
            for place in draft.places(prefix_of(thread)[:1], thread):
                if place[0] == thread:
                    draft.once(place, keep_latest)

    if wanted:
        edit(core, plan, *((), set(wanted)) if strategy == "delete" else (set(wanted),))


def remove(core: Core, wanted: Mapping[Place, Iterable[str]], metadata: Metadata | None) -> dict[Place, set[str]]:
    """See ThreadStore."""
    lines = {place: set(ids) for place, ids in wanted.items()}
    went: dict[Place, set[str]] = {place: set() for place in lines}

    def work(part: LineEdit) -> None:
        place = part.line.thread, part.line.namespace
        there = [entry.id for entry in part.view.chain.walk()]
        stays = [id for id in there if id not in lines[place]]
        kept = needed(part.line.thread, part.view.find, there[:1] + stays, metadata)
        went[place] = {id for id in there if id not in kept}
        part.rebuild(dict.fromkeys(went[place]))

    def plan(draft: EditDraft) -> None:
        for place in lines:
            draft.once(place, work)

    if any(lines.values()):
        edit(core, plan, {thread for thread, _ in lines})
    return went


class LineEdit:
    """Edit of one line: the new tips of its refs (``made``), and the ``objects`` that they need; drafted when they, and what
    else counts, pointed at ``tips``. ``before`` is the edit for other tips, while this is drafted; ``gone`` are the checkpoints
    that it removes."""

    def __init__(self, core: Core, line: ThreadLine, view: View, tips: tuple[Id | None, ...], before: LineEdit | None) -> None:
        self.core, self.line, self.view, self.tips, self.before = core, line, view, tips, before
        self.gone: dict[str, ThreadCheckpoint | None] = {}
        self.made: Sequence[Id | None] = (view.tip, view.late_tip)
        self.objects: list[Object] = []

    def names(self, view: View) -> bytes | None:
        """Return what the commits of the line say of its names; where the line does not know them, what a chain says."""
        whole = self.line.names or not cut(self.line.ref)
        return self.line.names if whole else view.head.names if view.head is not None else None

    def rebuild(
        self,
        puts: Mapping[str, ThreadCheckpoint | None],
        rows: Mapping[str, Sequence[Row]] | None = None,
        *,
        anew: bool = False,
    ) -> None:
        """Draft the line with checkpoints put or removed (None), and writes that must stand. ``anew``: of these alone."""
        if puts or rows:
            shelf, batches = self.core.shelf, {id: [(tuple(some), True)] for id, some in (rows or {}).items() if some}
            self._build(shelf.chain(None) if anew else self.view.chain, puts, batches, self.view.late)

    def resume(self, before: LineEdit, new: Sequence[ThreadCheckpoint]) -> None:
        """Put what came since upon what was built before, which has all below it already."""
        shelf, (tip, late) = self.core.shelf, before.made
        puts = {entry.id: None if entry.id in self.gone else entry for entry in new}
        rows = {entry.id: [(self.view.chain.rows(entry), True)] for entry in new if entry.id not in self.gone and entry.written}
        self.objects += before.objects
        self._build(shelf.chain(tip), puts, rows, shelf.late(late))

    def _build(
        self,
        chain: ThreadChain,
        puts: Mapping[str, ThreadCheckpoint | None],
        rows: Mapping[str, Sequence[Batch]],
        late: LateWrites,
    ) -> None:
        made = rebuild(chain, puts, rows, late, names=self.names(self.view))
        self.objects += made.objects
        self.made = made.tip, made.late_tip

    def unite(self, theirs: View) -> None:
        """Draft that the line gets what another has and it lacks; of what both have the other's counts."""
        ours = self.view
        # The chain of another name may not be ours as it is, where its commits or ours say the name.
        foreign = theirs.head is not None and theirs.head.names != self.names(theirs)
        if ours.tip is None and ours.late_tip is None and not foreign:
            self.made = theirs.tip, theirs.late_tip
            return
        sides = Side(ours.chain, ours.late), Side(theirs.chain, theirs.late)
        found = apart(*sides, None, both=lambda _, their: their)
        if found.ours and (found.theirs or foreign):
            self.rebuild(found.ours.puts, found.ours.rows)
        elif found.ours:
            self.made = theirs.tip, theirs.late_tip


class EditDraft:
    """Draft of an edit: refs that move, objects that they need, and folders of refs that are to be empty. ``parts`` are the
    edits of earlier drafts, by line."""

    def __init__(self, core: Core, parts: dict[Place, LineEdit]) -> None:
        self.core, self.parts = core, parts
        self.changes: list[RefChange] = []
        self.objects: list[Object] = []
        self.folders: list[str] = []

    def places(self, prefixes: Iterable[str], *known: str) -> list[Place]:
        """Return threads and namespaces of refs below prefixes; ``known`` as for ``Core.named``."""
        return sorted({*self.core.named(self.core.shelf.refs.listing(*prefixes), *known)})

    def once(self, place: Place, work: Callable[[LineEdit], None], *others: Id | None) -> None:
        """Draft what becomes of one line by ``work``, or take what it came to when the line, and ``others``, were the same."""
        line = self.core.line(*place)
        view, part = self.core.shelf.look(line), self.parts.get(place)
        tips = view.tip, view.late_tip, *others
        if part is None or part.tips != tips:
            part = self.parts[place] = LineEdit(self.core, line, view, tips, part)
            work(part)
            part.before = None
        self.changes += [change for change in changes_of(line, view, part.made) if change.old != change.new]
        self.objects += part.objects

    def drop(self, thread: str) -> None:
        """Draft that all refs of a thread go, whatever they point at."""
        self.folders += prefix_of(thread)
        for ref, oid in self.core.shelf.refs.listing(*prefix_of(thread)).items():
            names = names_of(ref, thread)
            if names is not None and names[0] == thread:
                self.changes.append(RefChange(name=ref, old=oid, new=None))


def edit(
    core: Core, plan: Callable[[EditDraft], None], touched: Container[str] | None = None, gone: Container[str] = ()
) -> None:
    """Carry out what ``plan`` drafts, in one transaction; again from the start where another process moves a ref meanwhile.
    ``gone`` are the threads that it deletes, ``touched`` those that it needs whole: the error of one that cannot be brought
    into git is raised, with nothing changed. None: those of all threads are raised when it is done."""
    if core.wal.readonly:
        raise GitError(f"{in_quotes(core.folder)} cannot be written")
    try:
        failed = drain(core)[1]  # most of it, while others put
    except BatonError:
        if not gone:
            raise
        failed = {}
    _refuse(failed, touched)
    ahead, done = EditDraft(core, {}), None
    with core.wal.flushing(WAIT):
        if not gone:
            plan(ahead)
        with core.shelf.packs.written(ahead.objects):
            for _ in range(ROUNDS):
                with core.wal.lock(), core.careful():
                    done = _flush_and_drop(core, gone)
                    if done is not None:
                        _refuse(done, touched)
                        _move_planned(core, plan, ahead)
                        break
    if done is None:
        raise RefConflictError("the threads cannot be edited: what is put meanwhile cannot be brought into git")
    if touched is None and done:
        raise next(iter(done.values()))


def _refuse(failed: Failed, touched: Container[str] | None) -> None:
    for (thread, _), error in failed.items():
        if touched is not None and thread in touched:
            raise error


def _flush_and_drop(core: Core, gone: Container[str]) -> Failed | None:
    """Flush the log to git and drop deleted threads (``gone``) from it, so that a kill from here on leaves such a thread whole
    or not at all. Return lines that failed, or None to retry, now that they are known. With the log's lock held."""
    core.catch_up()
    frozen, sealed, carried = freeze(core, gone)
    going = [each for each in frozen if each.line.thread in gone]
    views, failed = bring(core, [each for each in frozen if each.line.thread not in gone], None)
    with suppress(BatonError):
        views += bring(core, going, None)[0]
    if failed.keys() <= carried:
        for each in going:
            each.line.view = None
        settle(core, views, sealed)
    elif views or going:
        core.stuck = failed
        return None
    return failed


def _move_planned(core: Core, plan: Callable[[EditDraft], None], ahead: EditDraft) -> None:
    """Move the refs as is planned now; the objects of the draft made ``ahead`` are there. With the log's lock held."""
    there = {item[1] for item in ahead.objects}

    def attempt(*, last: bool) -> list[str]:
        draft = EditDraft(core, ahead.parts)
        plan(draft)
        with core.shelf.packs.written([item for item in draft.objects if item[1] not in there]):
            try:
                if draft.changes:
                    core.shelf.move(draft.changes)
                if draft.folders:
                    core.shelf.durable.emptied(draft.folders)
            except RefConflictError:
                if last:
                    raise
                return [change.name for change in draft.changes]
        return []

    insist(core, attempt)
    core.wal.bump()
    core.epoch = core.wal.epoch
    core.shelf.epoch += 1
