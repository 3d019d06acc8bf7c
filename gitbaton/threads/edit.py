"""Edits of whole threads: delete, copy, prune, join. The log is empty while one is made, so no crash brings anything back."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from gitbaton.errors import BatonError, GitError, NotFoundError, RefConflictError, UsageError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import RefChange
from gitbaton.threads.build import rebuild
from gitbaton.threads.codec import key, loads, rows_of
from gitbaton.threads.core import Core
from gitbaton.threads.flush import PATIENCE, WAIT, Objects, bring, flush, settle
from gitbaton.threads.late import Batch, merged
from gitbaton.threads.names import names_of, prefix_of
from gitbaton.threads.table import Line
from gitbaton.threads.values import Entry, Id, Row
from gitbaton.threads.view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Metadata = Callable[[Entry], Any]
    Find = Callable[[str], Entry | None]

_ALL = ("refs/baton/threads/", "refs/baton/late/")
_COUNTERS = "counters_since_delta_snapshot"


class Draft:
    """What an edit comes to: refs that move, and objects that they need."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.changes: list[RefChange] = []
        self.objects: Objects = []

    def line(self, thread: str, namespace: str) -> tuple[Line, View]:
        """A line and what git has of it now."""
        line = self.core.line(thread, namespace)
        return line, self.core.shelf.look(line)

    def move(self, line: Line, view: View, tip: Id | None, late: Id | None) -> None:
        """Have a line's refs point elsewhere."""
        for ref, old, new in ((line.ref, view.tip, tip), (line.late, view.late_tip, late)):
            if old != new:
                self.changes.append(RefChange(name=ref, old=old.hex() if old else None, new=new.hex() if new else None))

    def lines(self, *prefixes: str) -> list[tuple[str, str]]:
        """Threads and namespaces of refs below prefixes."""
        found = (names_of(ref) for ref in self.core.shelf.names(*prefixes))
        return sorted({names for names in found if names is not None})


class Choice:
    """What counts where two chains have the same checkpoint or the same write: asked with theirs first, then ours."""

    def __init__(self, entry: Callable[[Entry, Entry], Entry], row: Callable[[Row, Row], Row]) -> None:
        self.entry, self.row = entry, row


def _edit(core: Core, plan: Callable[[Draft], None], gone: Container[str] = ()) -> None:
    """Carry out what ``plan`` drafts, in one transaction; from the start again where somebody moves a ref meanwhile. Of the
    threads ``gone``, which the plan deletes, nothing is brought into git before."""
    if core.wal.readonly:
        raise GitError(f"'{core.folder}' cannot be written")
    try:
        flush(core)  # most of it, while others put
    except BatonError:
        if not gone:
            raise
    with core.wal.flushing(WAIT), core.wal.lock(), core.careful():
        core.catch_up()
        frozen, sealed = core.table.freeze(), core.wal.rotate()
        staying = [each for each in frozen if each.line.thread not in gone]
        views = bring(core, staying, None)
        if len(staying) == len(frozen):
            settle(core, views, sealed)
        _move(core, plan)
        if len(staying) < len(frozen):
            settle(core, views, sealed)
        core.wal.bump()
        core.epoch = core.wal.epoch
        core.shelf.epoch += 1


def _move(core: Core, plan: Callable[[Draft], None]) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        draft = Draft(core)
        plan(draft)
        if not draft.changes:
            return
        kept = core.shelf.packs.write(draft.objects)
        try:
            core.shelf.move(draft.changes)
            return
        except RefConflictError:
            if time.monotonic() > end:
                raise
        finally:
            kept.release()
        clear_stale_locks(core.repo.layout.common_dir, [change.name for change in draft.changes])
        time.sleep(0.01)


def delete(core: Core, thread: str) -> None:
    """See ThreadStore."""
    _edit(core, lambda draft: _delete(draft, thread), {thread})


def _delete(draft: Draft, thread: str) -> None:
    """Draft that all refs of a thread go, whatever they point at."""
    for ref, oid in draft.core.shelf.refs.listing(*prefix_of(thread)).items():
        names = names_of(ref)
        if names is not None and names[0] == thread:
            draft.changes.append(RefChange(name=ref, old=oid, new=None))


def delete_runs(core: Core, run_ids: Iterable[str], metadata: Metadata | None) -> None:
    """See ThreadStore."""
    wanted = set(run_ids)
    if wanted:
        _edit(core, lambda draft: _delete_runs(draft, wanted, metadata))


def _delete_runs(draft: Draft, wanted: set[str], metadata: Metadata | None) -> None:
    for names in draft.lines(_ALL[0]):
        line, view = draft.line(*names)
        gone: dict[str, Entry | None] = {}
        for entry in view.chain.walk():
            if entry.md and b'"run_id"' not in entry.md:
                continue
            run = _metadata(entry, metadata).get("run_id")
            if isinstance(run, str) and run in wanted:
                gone[entry.id] = None
        if gone:
            _rebuilt(draft, line, view, gone, {})


def _rebuilt(
    draft: Draft, line: Line, view: View, puts: Mapping[str, Entry | None], rows: Mapping[str, Sequence[Batch]]
) -> None:
    made = rebuild(view.chain, puts, rows, view.late)
    draft.objects += made.objects
    draft.move(line, view, made.tip, made.late_tip)


def _metadata(entry: Entry, metadata: Metadata | None) -> Mapping[str, Any]:
    """A checkpoint's metadata; what JSON does not carry is read by ``metadata``, and is nothing without it."""
    found = loads(entry.md) if entry.md else metadata(entry) if metadata is not None else None
    return found if isinstance(found, Mapping) else {}


def copy(core: Core, source: str, target: str) -> None:
    """See ThreadStore."""
    if source != target:
        _edit(core, lambda draft: _copy(draft, source, target))


def _copy(draft: Draft, source: str, target: str) -> None:
    for thread, namespace in draft.lines(*prefix_of(source)):
        if thread == source:
            _, view = draft.line(source, namespace)
            line, there = draft.line(target, namespace)
            _unite(draft, line, there, view, Choice(_first, _first))


def _first(theirs: Any, _ours: Any) -> Any:
    return theirs


def join(core: Core, thread: str, namespace: str, tip: Id, late: Id | None) -> None:
    """See ThreadStore."""
    chain, other = core.shelf.chain(tip), core.shelf.late(late)
    chain.verify()
    for entry in chain.walk():
        for _ in _rows(core, entry):  # what cannot be read could never be written anew
            continue
    for id in other.ids():
        other.of(id)
    theirs = View(core.shelf, chain, other, {})

    def plan(draft: Draft) -> None:
        line, view = draft.line(thread, namespace)
        _unite(draft, line, view, theirs, Choice(lambda one, two: max(one, two, key=_rank), max))

    _edit(core, plan)


def _rank(entry: Entry) -> Any:
    """What decides, in all clones alike, between two checkpoints with one id."""
    return entry.ck, entry.md, entry.parent or "", sorted(entry.channels.items()), sorted(entry.rest.items())


def _unite(draft: Draft, line: Line, ours: View, theirs: View, choice: Choice) -> None:
    """Take another chain and its late writes into a line."""
    if ours.tip is None and ours.late_tip is None:
        draft.move(line, ours, theirs.tip, theirs.late_tip)
        return
    puts, rows = _lacking(draft.core, ours, theirs, choice)
    turned = Choice(lambda own, other: choice.entry(other, own), lambda own, other: choice.row(other, own))
    equal = not puts and not rows
    if any(_lacking(draft.core, theirs, ours, turned)):
        if not equal:
            _rebuilt(draft, line, ours, puts, rows)
    elif not equal or _tips(theirs) > _tips(ours):  # so that clones which have the same come to the same commits
        draft.move(line, ours, theirs.tip, theirs.late_tip)


def _tips(view: View) -> tuple[Id, Id]:
    return view.tip or b"", view.late_tip or b""


def _lacking(core: Core, ours: View, theirs: View, choice: Choice) -> tuple[dict[str, Entry | None], dict[str, list[Batch]]]:
    """The checkpoints and writes that we are to take from them."""
    puts: dict[str, Entry | None] = {}
    met: dict[str, tuple[Entry | None, Entry | None]] = {}
    for entry in theirs.chain.walk():
        own = ours.find(entry.id)
        if own is not None and own.commit == entry.commit:
            break  # and so are all below
        if own is None or (_rank(entry) != _rank(own) and choice.entry(entry, own) is entry):
            puts[entry.id] = entry
        met[entry.id] = own, entry
    for id in theirs.late.ids():
        met.setdefault(id, (ours.find(id), theirs.find(id)))
    rows: dict[str, list[Batch]] = {}
    for id, (own, other) in met.items():
        held = {key(row): row for row in _all_rows(core, ours, id, own)}
        more = [row for row in _all_rows(core, theirs, id, other) if held.get(key(row)) != row]
        more = [row for row in more if key(row) not in held or choice.row(row, held[key(row)]) == row]
        if more:
            rows[id] = [(tuple(more), True)]
    return puts, rows


def _all_rows(core: Core, view: View, id: str, entry: Entry | None) -> tuple[Row, ...]:
    """The writes of a checkpoint, late ones too, whether it is there or not."""
    return merged(_rows(core, entry) if entry is not None else (), view.late.of(id))


def _rows(core: Core, entry: Entry) -> Iterator[Row]:
    for task, oid in entry.written.items():
        yield from rows_of(core.shelf.packs.read(oid)[1], task)


def prune(core: Core, threads: Iterable[str], strategy: str, metadata: Metadata | None) -> None:
    """See ThreadStore."""
    if strategy not in ("keep_latest", "delete"):
        raise UsageError(f"strategy '{strategy}' is neither 'keep_latest' nor 'delete'")
    wanted = list(dict.fromkeys(threads))

    def plan(draft: Draft) -> None:
        for thread in wanted:
            if strategy == "delete":
                _delete(draft, thread)
                continue
            for names in draft.lines(prefix_of(thread)[0]):
                if names[0] == thread:
                    _keep_latest(draft, names, metadata)

    if wanted:
        _edit(core, plan, set(wanted) if strategy == "delete" else ())


def _keep_latest(draft: Draft, names: tuple[str, str], metadata: Metadata | None) -> None:
    """Draft that one line keeps its newest checkpoint, what that is put together from, and writes for one yet to come."""
    line, view = draft.line(*names)
    if view.head is None:
        return
    kept = _needed(names[0], view.find, view.head, metadata)
    puts: dict[str, Entry | None] = {id: None for id in view.late.ids() if id < view.head.id and id not in kept}
    if len(kept) == view.head.seq + 1:
        if puts:
            _rebuilt(draft, line, view, puts, {})
        return
    rows = {id: [(tuple(_rows(draft.core, entry)), True)] for id, entry in kept.items() if entry.written}
    made = rebuild(draft.core.shelf.chain(None), {**puts, **kept}, rows, view.late)
    draft.objects += made.objects
    draft.move(line, view, made.tip, made.late_tip)


def remove(core: Core, thread: str, namespace: str, ids: Iterable[str], metadata: Metadata | None) -> set[str]:
    """See ThreadStore."""
    wanted, went = set(ids), set[str]()

    def plan(draft: Draft) -> None:
        line, view = draft.line(thread, namespace)
        there = [entry.id for entry in view.chain.walk()]
        kept = needed(thread, view.find, there[:1] + [id for id in there if id not in wanted], metadata)
        went.clear()
        went.update(id for id in there if id not in kept)
        if went:
            _rebuilt(draft, line, view, dict.fromkeys(went), {})

    if wanted:
        _edit(core, plan)
    return went


def needed(thread: str, find: Find, ids: Iterable[str], metadata: Metadata | None) -> set[str]:
    """Checkpoints, and those from which their delta channels are put together."""
    found: set[str] = set()
    for id in ids:
        entry = find(id)
        found |= _needed(thread, find, entry, metadata).keys() if entry is not None else set()
    return found


def _needed(thread: str, find: Find, head: Entry, metadata: Metadata | None) -> dict[str, Entry]:
    """A checkpoint, and those before it down to where each of its delta channels has a value."""
    counters = _metadata(head, metadata).get(_COUNTERS)
    missing = {name for name in counters if name not in head.channels} if isinstance(counters, Mapping) else set()
    kept, at = {head.id: head}, head
    while missing and at.parent is not None and at.parent not in kept:
        found = find(at.parent)
        if found is None:
            raise NotFoundError(
                f"checkpoint '{at.parent}' of thread '{thread}' is not here, and channel '{min(missing)}' of '{head.id}' is put"
                " together from it; nothing was pruned"
            )
        kept[found.id] = at = found
        missing -= found.channels.keys()
    return kept
