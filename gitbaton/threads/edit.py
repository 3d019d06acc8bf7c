"""Edits of whole threads (delete, copy, prune, join): drafted while others put, moved when the log has nothing of what goes."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.errors import BatonError, GitError, NotFoundError, RefConflictError, UsageError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.objects import RefChange
from gitbaton.threads.build import rebuild
from gitbaton.threads.codec import key, loads, rows_of
from gitbaton.threads.core import Core
from gitbaton.threads.flush import PATIENCE, WAIT, Failed, Place, bring, drain, freeze, settle
from gitbaton.threads.late import Batch, Object, merged
from gitbaton.threads.names import cut, names_of, prefix_of
from gitbaton.threads.values import Entry, Id, Row
from gitbaton.threads.view import Line, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Metadata = Callable[[Entry], Any]
    Find = Callable[[str], Entry | None]

_ALL = ("refs/baton/threads/", "refs/baton/late/")
_COUNTERS = "counters_since_delta_snapshot"
_ROUNDS = 3  # see flush


class Choice:
    """What counts where two chains have the same checkpoint or the same write: asked with theirs first, then ours."""

    def __init__(self, entry: Callable[[Entry, Entry], Entry], row: Callable[[Row, Row], Row]) -> None:
        self.entry, self.row = entry, row


def delete(core: Core, thread: str) -> None:
    """See ThreadStore."""
    edit(core, lambda draft: _delete(draft, thread), (), {thread})


def _delete(draft: Draft, thread: str) -> None:
    """Draft that all refs of a thread go, whatever they point at."""
    draft.folders += prefix_of(thread)
    for ref, oid in draft.core.shelf.refs.listing(*prefix_of(thread)).items():
        names = names_of(ref, thread)
        if names is not None and names[0] == thread:
            draft.changes.append(RefChange(name=ref, old=oid, new=None))


def delete_runs(core: Core, run_ids: Iterable[str], metadata: Metadata | None) -> None:
    """See ThreadStore."""
    wanted = set(run_ids)
    if wanted:
        edit(core, lambda draft: _delete_runs(draft, wanted, metadata))


def _delete_runs(draft: Draft, wanted: set[str], metadata: Metadata | None) -> None:
    def work(part: Part, line: Line) -> None:
        before, new = part.before, list[Entry]()
        for entry in part.view.chain.walk():
            met = before.view.chain.find(entry.id) if before is not None else None
            if before is not None and met is not None and met.commit == entry.commit:
                part.gone.update({id: None for id in before.gone if id <= entry.id})
                break  # all below is the same
            new.append(entry)
            if entry.md and b'"run_id"' not in entry.md:
                continue
            run = _metadata(entry, metadata).get("run_id")
            if isinstance(run, str) and run in wanted:
                part.gone[entry.id] = None
        if part.gone and before is not None and before.gone and before.view.late_tip == part.view.late_tip:
            _resumed(part, line, before, new)
        elif part.gone:
            _rebuilt(part, line, part.view, part.gone, {})

    for names in draft.lines(_ALL[:1]):
        draft.once(names, work)


def _resumed(part: Part, line: Line, before: Part, new: Sequence[Entry]) -> None:
    """Put what came since upon what was built before, which has all below it already."""
    shelf, (tip, late) = part.core.shelf, before.made
    puts = {entry.id: None if entry.id in part.gone else entry for entry in new}
    kept = [entry for entry in new if entry.id not in part.gone and entry.written]
    rows = {entry.id: [(tuple(_rows(part.core, entry)), True)] for entry in kept}
    made = rebuild(shelf.chain(tip), puts, rows, shelf.late(late), names=_names(line, part.view))
    part.objects += [*before.objects, *made.objects]
    part.move(line, part.view, made.tip, made.late_tip)


def _rebuilt(
    draft: Draft, line: Line, view: View, puts: Mapping[str, Entry | None], rows: Mapping[str, Sequence[Batch]]
) -> None:
    made = rebuild(view.chain, puts, rows, view.late, names=_names(line, view))
    draft.objects += made.objects
    draft.move(line, view, made.tip, made.late_tip)


def _names(line: Line, view: View) -> bytes | None:
    """What the commits of a line say of its names; what its chain says where the line does not know them."""
    whole = line.names or not cut(line.ref)
    return line.names if whole else view.head.names if view.head is not None else None


def _metadata(entry: Entry, metadata: Metadata | None) -> Mapping[str, Any]:
    """A checkpoint's metadata; what JSON does not carry is read by ``metadata``, and is nothing without it."""
    found = loads(entry.md) if entry.md else metadata(entry) if metadata is not None else None
    return found if isinstance(found, Mapping) else {}


def copy(core: Core, source: str, target: str) -> None:
    """See ThreadStore."""
    if source != target:
        edit(core, lambda draft: _copy(draft, source, target), {source, target})


def _copy(draft: Draft, source: str, target: str) -> None:
    for thread, namespace in draft.lines(prefix_of(source), source):
        if thread == source:
            _, view = draft.line(source, namespace)

            def work(part: Part, line: Line, view: View = view) -> None:
                _unite(part, line, part.view, view, Choice(_first, _first))

            draft.once((target, namespace), work, view.tip, view.late_tip)


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

    def work(part: Part, line: Line) -> None:
        _unite(part, line, part.view, theirs, Choice(lambda one, two: max(one, two, key=_rank), max))

    edit(core, lambda draft: draft.once((thread, namespace), work), {thread})


def _rank(entry: Entry) -> Any:
    """What decides, in all clones alike, between two checkpoints with one id."""
    return entry.ck, entry.md, entry.parent or "", sorted(entry.channels.items()), sorted(entry.rest.items())


def _unite(draft: Draft, line: Line, ours: View, theirs: View, choice: Choice) -> None:
    """Take another chain and its late writes into a line."""
    # The chain of another name may not be ours as it is, where its commits or ours say the name.
    foreign = theirs.head is not None and theirs.head.names != _names(line, theirs)
    if ours.tip is None and ours.late_tip is None and not foreign:
        draft.move(line, ours, theirs.tip, theirs.late_tip)
        return
    puts, rows = _lacking(draft.core, ours, theirs, choice)
    turned = Choice(lambda own, other: choice.entry(other, own), lambda own, other: choice.row(other, own))
    equal = not puts and not rows
    if foreign or any(_lacking(draft.core, theirs, ours, turned)):
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
            for names in draft.lines(prefix_of(thread)[:1], thread):
                if names[0] == thread:
                    draft.once(names, lambda part, line: _keep_latest(part, line, metadata))

    if wanted:
        edit(core, plan, *((), set(wanted)) if strategy == "delete" else (set(wanted),))


def _keep_latest(draft: Part, line: Line, metadata: Metadata | None) -> None:
    """Draft that one line keeps its newest checkpoint, what that is put together from, and writes for one yet to come."""
    view = draft.view
    if view.head is None:
        return
    kept = _needed(line.thread, view.find, view.head, metadata)
    puts: dict[str, Entry | None] = {id: None for id in view.late.ids() if id < view.head.id and id not in kept}
    if len(kept) == view.head.seq + 1:
        if puts:
            _rebuilt(draft, line, view, puts, {})
        return
    rows = {id: [(tuple(_rows(draft.core, entry)), True)] for id, entry in kept.items() if entry.written}
    made = rebuild(draft.core.shelf.chain(None), {**puts, **kept}, rows, view.late, names=_names(line, view))
    draft.objects += made.objects
    draft.move(line, view, made.tip, made.late_tip)


def remove(core: Core, wanted: Mapping[Place, Iterable[str]], metadata: Metadata | None) -> dict[Place, set[str]]:
    """See ThreadStore."""
    lines = {place: set(ids) for place, ids in wanted.items()}
    went: dict[Place, set[str]] = {place: set() for place in lines}

    def work(part: Part, line: Line) -> None:
        place, view = (line.thread, line.namespace), part.view
        there = [entry.id for entry in view.chain.walk()]
        stays = [id for id in there if id not in lines[place]]
        kept = needed(line.thread, view.find, there[:1] + stays, metadata)
        went[place] = {id for id in there if id not in kept}
        if went[place]:
            _rebuilt(part, line, view, dict.fromkeys(went[place]), {})

    def plan(draft: Draft) -> None:
        for place in lines:
            draft.once(place, work)

    if any(lines.values()):
        edit(core, plan, {thread for thread, _ in lines})
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


class Draft:
    """What an edit comes to: refs that move, objects that they need, and folders of refs that are to be empty. ``parts`` are
    what earlier drafts of the same edit came to, by line."""

    def __init__(self, core: Core, parts: dict[Place, Part] | None = None) -> None:
        self.core = core
        self.parts = parts if parts is not None else {}
        self.changes: list[RefChange] = []
        self.objects: list[Object] = []
        self.folders: list[str] = []

    def line(self, thread: str, namespace: str) -> tuple[Line, View]:
        """A line and what git has of it now."""
        line = self.core.line(thread, namespace)
        return line, self.core.shelf.look(line)

    def move(self, line: Line, view: View, tip: Id | None, late: Id | None) -> None:
        """Have a line's refs point elsewhere."""
        for ref, old, new in ((line.ref, view.tip, tip), (line.late, view.late_tip, late)):
            if old != new:
                self.changes.append(RefChange(name=ref, old=old.hex() if old else None, new=new.hex() if new else None))

    def lines(self, prefixes: Iterable[str], *known: str) -> list[tuple[str, str]]:
        """Threads and namespaces of refs below prefixes; ``known`` as for ``Core.named``."""
        return sorted({*self.core.named(self.core.shelf.names(*prefixes), *known)})

    def once(self, names: Place, work: Callable[[Part, Line], None], *others: Id | None) -> None:
        """Draft what becomes of one line by ``work``, or take what it came to when the line, and ``others``, were the same."""
        line, view = self.line(*names)
        tips, part = (view.tip, view.late_tip, *others), self.parts.get(names)
        if part is None or part.tips != tips:
            part = self.parts[names] = Part(self.core, view, tips, part)
            work(part, line)
            part.before = None
        self.changes += part.changes
        self.objects += part.objects


class Part(Draft):
    """What an edit comes to for one line, whose refs point at ``tips``; ``before`` is what it came to when they pointed
    elsewhere, ``gone`` the checkpoints that it removes, ``made`` what the refs are to point at."""

    def __init__(self, core: Core, view: View, tips: tuple[Id | None, ...], before: Part | None) -> None:
        super().__init__(core)
        self.view, self.tips, self.before = view, tips, before
        self.gone: dict[str, Entry | None] = {}
        self.made = view.tip, view.late_tip

    def move(self, line: Line, view: View, tip: Id | None, late: Id | None) -> None:
        """See Draft."""
        super().move(line, view, tip, late)
        self.made = tip, late


def edit(core: Core, plan: Callable[[Draft], None], touched: Container[str] | None = None, gone: Container[str] = ()) -> None:
    """Carry out what ``plan`` drafts, in one transaction; from the start again where somebody moves a ref meanwhile. ``gone``
    are the threads that it deletes, ``touched`` those that it needs whole: the error of one that cannot be brought into git is
    raised, with nothing changed. None: those of all threads are raised when it is done."""
    if core.wal.readonly:
        raise GitError(f"'{core.folder}' cannot be written")
    try:
        failed = drain(core)[1]  # most of it, while others put
    except BatonError:
        if not gone:
            raise
        failed = {}
    _refuse(failed, touched)
    parts: dict[Place, Part] = {}
    with core.wal.flushing(WAIT):
        ahead = Draft(core, parts)
        if not gone:
            plan(ahead)
        made = {item[1] for item in ahead.objects}
        with core.shelf.packs.written(ahead.objects):
            for _ in range(_ROUNDS):
                with core.wal.lock(), core.careful():
                    done = _brought(core, gone)
                    if done is not None:
                        failed = done
                        _refuse(failed, touched)
                        _move(core, plan, parts, made)
                        break
    if done is None:
        raise RefConflictError("the threads cannot be edited: what is put meanwhile cannot be brought into git")
    for error in failed.values() if touched is None else ():
        raise error


def _refuse(failed: Failed, touched: Container[str] | None) -> None:
    for (thread, _), error in failed.items():
        if touched is not None and thread in touched:
            raise error


def _brought(core: Core, gone: Container[str]) -> Failed | None:
    """Bring what came since into git, and have the log let go of it, and of all that it has of threads ``gone``: whoever is
    killed from here on leaves such a thread whole or not at all. The lines that cannot be brought, with nothing else in the
    log; None: once more, now that they are known. With the log's lock held."""
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


def _move(core: Core, plan: Callable[[Draft], None], parts: dict[Place, Part], made: Container[Id]) -> None:
    """Move the refs as is planned now; the objects ``made`` are there. With the log's lock held."""
    end = time.monotonic() + PATIENCE
    while True:
        draft = Draft(core, parts)
        plan(draft)
        with core.shelf.packs.written([item for item in draft.objects if item[1] not in made]):
            try:
                if draft.changes:
                    core.shelf.move(draft.changes)
                if draft.folders:
                    core.shelf.gone(draft.folders)
                break
            except RefConflictError:
                if time.monotonic() > end:
                    raise
        clear_stale_locks(core.repo.layout.common_dir, [change.name for change in draft.changes])
        time.sleep(0.01)
    core.wal.bump()
    core.epoch = core.wal.epoch
    core.shelf.epoch += 1
