"""One open store: the log, the table in memory and `Shelf` (refs and objects of threads); all users in a process share it."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from weakref import WeakValueDictionary

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, GitError, RecordError
from gitbaton.base.values import cast
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import RefChange
from gitbaton.git.packs import Mark, Packs, RefWatch
from gitbaton.git.publish import Durable
from gitbaton.git.repo import Repo, has_folder, sharer
from gitbaton.langgraph.threads.chain import Entries, LateWrites, ThreadChain, merged, named, names_data
from gitbaton.langgraph.threads.codec import (
    Id,
    Put,
    Row,
    ThreadCheckpoint,
    Typed,
    blob_of,
    decode,
    encode_put,
    encode_writes,
    hasher,
    typed_of,
)
from gitbaton.langgraph.threads.log import Log
from gitbaton.langgraph.threads.names import THREADS, Cut, cut, late_ref, names_of, prefix_of, ref_of

LogBatch = tuple[int, tuple[Row, ...], bool]
"""Writes as the log has them: the record's number, the rows, and whether they replace."""


class Unflushed:
    """Checkpoints that git has not: by id, with their records' numbers, and the ids in order. Nothing is taken out."""

    __slots__ = ("order", "puts")

    def __init__(self, puts: dict[str, tuple[int, ThreadCheckpoint]]) -> None:
        self.puts, self.order = puts, sorted(puts)


class ThreadLine:
    """One thread in one namespace: ``held`` and ``rows``, by the checkpoint's id, are what git has not; ``view`` is what git
    had at the last look, None before the first look; ``names`` is what its commits say of the two.

    Changed under the log's lock only, and readers hold no lock: a writer that takes something out of memory puts another
    ``held`` or list in its place, after ``view`` has it or is out of date; and readers look at memory before they look at
    ``view``."""

    __slots__ = ("held", "late", "late_path", "names", "namespace", "path", "ref", "rows", "thread", "view")

    def __init__(self, thread: str, namespace: str) -> None:
        self.thread, self.namespace = thread, namespace
        self.ref, self.late = ref_of(thread, namespace), late_ref(thread, namespace)
        self.names = names_data(thread, namespace)
        self.path = self.late_path = b""
        self.held = Unflushed({})
        self.rows: dict[str, list[LogBatch]] = {}
        self.view: View | None = None

    @property
    def puts(self) -> dict[str, tuple[int, ThreadCheckpoint]]:
        """The checkpoints that git has not, by id."""
        return self.held.puts


class View:
    """A line's chain and late writes. ``known`` are checkpoints of this very chain by their id, while something else has them:
    the cache of entries, or a reader."""

    __slots__ = ("chain", "epoch", "head", "known", "late", "late_mark", "late_tip", "mark", "tip")

    def __init__(self, chain: ThreadChain, late: LateWrites, known: WeakValueDictionary[str, ThreadCheckpoint]) -> None:
        self.chain, self.late, self.known = chain, late, known
        self.tip, self.late_tip = chain.tip, late.tip
        self.head = chain.head()
        self.epoch = -1
        self.mark: Mark | None = None
        self.late_mark: Mark | None = None

    def find(self, id: str) -> ThreadCheckpoint | None:
        """A checkpoint of the chain."""
        found = self.known.get(id)
        if found is None and self.head is not None and id <= self.head.id:
            found = self.chain.find(id)
            if found is not None:
                self.known[id] = found
        return found


class Shelf:
    """The objects and refs of threads in one repository. Safe in several threads."""

    def __init__(self, repo: Repo, *, cache: int) -> None:
        self.repo = repo
        self.packs = Packs(repo, cache=cache // 2)
        self.refs = RefWatch(repo)
        self.entries = Entries(cache // 2)
        self.epoch = 0
        self.durable = Durable(repo)

    def place(self, line: ThreadLine) -> ThreadLine:
        """Say where the files of a new line's refs are."""
        line.path, line.late_path = self.refs.path(line.ref), self.refs.path(line.late)
        return line

    def view(self, line: ThreadLine) -> View:
        """Return what git has of a line now. Raises GitError or RecordError when it cannot be read."""
        return self.fresh(line) or self.look(line)

    def fresh(self, line: ThreadLine) -> View | None:
        """Return what git had of a line at the last look, if nothing has moved since."""
        view = line.view
        if view is not None and view.epoch == self.epoch and self.refs.mark(line.path) == view.mark:
            if view.late_mark is None:
                if not os.access(line.late_path, os.F_OK):
                    return view
            elif self.refs.mark(line.late_path) == view.late_mark:
                return view
        return None

    def look(self, line: ThreadLine) -> View:
        """Read a line's refs anew."""
        epoch, old = self.epoch, line.view
        mark, tip = self.tip(line.ref)
        late_mark, late_tip = self.tip(line.late)
        try:
            view = self.make(tip, late_tip, old)
        except RecordError as error:
            raise RecordError(f"ref {in_quotes(line.ref)}: {error.message}", *error.hints) from None
        view.epoch, view.mark = epoch, mark
        # None: it has no file of its own, and the appearance of one is what is looked for.
        view.late_mark = None if late_tip is None and late_mark and len(late_mark) != 3 else late_mark or (-1,)
        line.view = view
        return view

    def tip(self, ref: str) -> tuple[Mark | None, Id | None]:
        """Return a mark of a ref and the commit that it points at."""
        mark, oid = self.refs.look(ref)
        return mark, bytes.fromhex(oid) if oid else None

    def make(self, tip: Id | None, late_tip: Id | None, old: View | None = None) -> View:
        """Return the view of two tips, with what ``old`` knows of the same chain."""
        same = old if old is not None and old.tip == tip else None
        chain, known = (
            (same.chain, same.known) if same is not None else (self.chain(tip), WeakValueDictionary[str, ThreadCheckpoint]())
        )
        return View(chain, old.late if old is not None and old.late_tip == late_tip else self.late(late_tip), known)

    def chain(self, tip: Id | None) -> ThreadChain:
        """Return the chain that a commit ends."""
        return ThreadChain(self.packs.read, self.packs.algorithm, tip, self.entries)

    def late(self, tip: Id | None) -> LateWrites:
        """Return the late writes that a commit holds."""
        return LateWrites(self.packs.read, self.packs.algorithm, tip)

    def move(self, changes: Sequence[RefChange]) -> None:
        """Move refs in one transaction; all are fsynced when this returns, those too that stay where they are: the process that
        moved them may have been killed before. Raises RefConflictError and GitError as Objects.update."""
        new = [change for change in changes if change.new != change.old]
        if new:
            self.durable.update_all(new)
        self.durable.confirm([change for change in changes if change.new == change.old])

    def close(self) -> None:
        """Close all handles."""
        self.durable.close()
        self.packs.close()
        self.refs.close()
        self.repo.close()


def again(repo: Repo) -> Repo:
    """Return the same repository with handles of its own."""
    return Repo(repo.layout, repo.git, "binary" if isinstance(repo.objects, BinaryObjects) else None)


_LINES = 4096  # lines of which nothing waits in memory that are kept there


class Frozen:
    """State of one line that a flush brings into git."""

    __slots__ = ("line", "puts", "rows")

    def __init__(self, line: ThreadLine) -> None:
        self.line = line
        self.puts = {id: entry for id, (_, entry) in line.puts.items()}
        self.rows = {id: [(rows, replace) for _, rows, replace in batches] for id, batches in line.rows.items()}


class Table:
    """All lines, and the contents of blobs that only the log has. ``size`` counts the bytes of the log that it stands for,
    ``count`` the records."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], ThreadLine] = {}
        self.blobs: dict[Id, tuple[int, bytes]] = {}
        self.size = self.count = 0
        self._weights: dict[int, int] = {}
        self._dirty: dict[ThreadLine, None] = {}

    def put(self, number: int, line: ThreadLine, entry: ThreadCheckpoint, blobs: Mapping[Id, bytes]) -> None:
        """Take in a checkpoint."""
        self.blobs.update((oid, (number, data)) for oid, data in blobs.items())
        id, held = entry.id, line.held
        self._dirty[line] = None
        new = id not in held.puts
        held.puts[id] = (number, entry)
        if new:  # after it is there: readers take the ids first
            insort(held.order, id)

    def writes(self, number: int, line: ThreadLine, id: str, rows: tuple[Row, ...], *, replace: bool) -> None:
        """Take in writes of a task."""
        self._dirty[line] = None
        # A new list: readers may be going over the old one.
        line.rows[id] = [*line.rows.get(id, ()), (number, rows, replace)]

    def weigh(self, number: int, size: int) -> None:
        """Count one record."""
        self._weights[number] = size
        self.size += size
        self.count += 1

    def weight(self, start: int) -> int:
        """Return the bytes of the log from a number on."""
        return sum(size for number, size in self._weights.items() if number >= start)

    def dirty(self) -> list[ThreadLine]:
        """Return the lines that git lacks something of."""
        return list(self._dirty)

    def freeze(self) -> list[Frozen]:
        """Freeze all that git lacks, as it is now."""
        return [Frozen(line) for line in self.dirty()]

    def forget(self, below: int) -> None:
        """Drop what came in records before ``below``: git has it. Every line's view must have it, or is set to None before."""
        if not any(number < below for number in self._weights):
            return
        for line in self.dirty():
            line.held = Unflushed({id: kept for id, kept in line.held.puts.items() if kept[0] >= below})
            line.rows = {id: left for id, batches in line.rows.items() if (left := [b for b in batches if b[0] >= below])}
            if not line.puts and not line.rows:
                del self._dirty[line]
        for oid in [oid for oid, (number, _) in self.blobs.items() if number < below]:
            del self.blobs[oid]
        for number in [s for s in self._weights if s < below]:
            self.count -= 1
            self.size -= self._weights.pop(number)


class Core:
    """The parts of a store and how they are read and written; flushes and edits are in modules of their own."""

    def __init__(self, repo: Repo, *, sync: bool, cache: int) -> None:
        self.repo = repo
        self.sync, self.cache = sync, cache
        self.folder = os.path.join(repo.shared_dir, "wal")
        self.reset()
        self.start()

    def reset(self) -> None:
        """Forget all, and open everything when it is used: the log and git have it all. In a forked child what is open is the
        parent's."""
        self._starting = threading.Lock()
        self.table = Table()
        self.lines = self.table.lines
        self.broken = ""
        # Whether the table may lack what the log has: while it takes that in, and when something cut it short.
        self.unsure = False
        self.epoch = -1
        self.walks: dict[Walk, None] = {}
        self.noted = set[str]()  # the refs that the record of this machine is known to name
        self.stuck: dict[tuple[str, str], BatonError] = {}  # lines that could not be brought into git, and why
        self.carried = 0  # bytes of the log that are theirs
        self.started = False
        self.wal = cast("Log", _Unopened(self))

    def start(self) -> None:
        """Open everything, once. Raises GitError when the log cannot be opened."""
        with self._starting:
            if not self.started:
                self.repo = again(self.repo)
                self.shelf = Shelf(self.repo, cache=self.cache)
                self.identify = hasher(self.shelf.packs.algorithm)
                try:
                    if os.path.lexists(self.folder) and not has_folder(self.repo, self.folder):
                        raise GitError(f"the log of threads cannot be opened: '{self.folder}' is no folder of ours")
                    self.wal = Log(self.folder, sync=self.sync, share=sharer(self.repo))
                except BaseException:
                    self.shelf.close()
                    raise
                self.started = True

    def line(self, thread: str, namespace: str, lines: dict[tuple[str, str], ThreadLine] | None = None) -> ThreadLine:
        """Return a line, made when it was not met before."""
        lines = self.lines if lines is None else lines
        found = lines.get((thread, namespace))
        if found is None:
            made = self.shelf.place(ThreadLine(thread, namespace))
            if isinstance(thread, Cut) or isinstance(namespace, Cut):
                return made  # the line of the whole name is another one
            found = lines.setdefault((thread, namespace), made)
        return found

    @contextmanager
    def careful(self) -> Iterator[None]:
        """Guard work on log and table under the log's lock: where it is cut short, the table is made anew at the next use."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, BatonError):
                self.unsure = True
            raise

    def note_ours(self, refs: Sequence[str]) -> None:
        """Record that a program of here has put into threads, before their refs move. Where that cannot be, they look
        foreign."""
        if any(ref not in self.noted for ref in refs):
            from gitbaton.checkpoints.store.provenance import LINES, Ours, of_thread

            with suppress(OSError):
                record = Ours(self.repo)
                record.add(LINES, [line for line in map(of_thread, refs) if not record.has(LINES, line)], sync=self.sync)
                self.noted.update(refs)

    def catch_up(self) -> None:
        """Take in what others appended and dropped. With the log's lock held."""
        if self.broken:
            raise RecordError(self.broken)
        wal, table = self.wal, self.table
        if self.unsure:  # nothing of an older one counts, nor was anything dropped since
            wal.rewind()
            table = Table()
        self.unsure = True  # before the log says that all is read: whoever reads then waits for the table
        records = wal.read()
        if wal.epoch != self.epoch or table is not self.table:
            self.epoch = wal.epoch
            self.shelf.epoch += 1  # before anything leaves memory: readers then look at git anew
            table.forget(wal.oldest)
            many = len(self.lines) > _LINES
            for key, line in list(self.lines.items())[: _LINES // 2] if many else ():  # that were not used for long
                if not line.puts and not line.rows:
                    del self.lines[key]
        try:
            for segment, payload in records:
                record = decode(payload)
                line = self.line(record.thread, record.namespace, table.lines)
                if isinstance(record, Put):
                    table.put(segment, line, record.entry, record.blobs)
                else:
                    table.writes(segment, line, record.id, record.rows, replace=record.replace)
                table.weigh(segment, len(payload))
        except RecordError as error:
            self.broken = error.message  # what follows it is not known, and nothing may be dropped
            raise
        self.table, self.lines, self.unsure = table, table.lines, False

    def met(self, thread: str, namespace: str) -> ThreadLine:
        """Return a line with everything in memory that any process acknowledged before."""
        self._catch_up_if_due()
        found = self.lines.get((thread, namespace)) or self.line(thread, namespace)
        if isinstance(thread, Cut) or isinstance(namespace, Cut):
            raise RecordError(f"ref {in_quotes(found.ref)}: its newest commit does not say whose it is")
        return found

    def latest(self, thread: str, namespace: str) -> ThreadCheckpoint | None:
        """The checkpoint with the greatest id, None where there is none."""
        line = self.met(thread, namespace)
        held = line.held
        head = self.shelf.view(line).head
        if held.order and (head is None or held.order[-1] >= head.id):
            return held.puts[held.order[-1]][1]
        return head

    def entry(self, thread: str, namespace: str, id: str) -> ThreadCheckpoint | None:
        """A checkpoint by its id."""
        line = self.met(thread, namespace)
        found = line.held.puts.get(id)
        return found[1] if found is not None else self.shelf.view(line).find(id)

    def ready(self, thread: str, namespace: str, id: str | None = None) -> ThreadCheckpoint | None:
        """A checkpoint by its id, or the newest, if it is in memory: no lock is waited for, and no object is read. None says
        nothing: ask again by the other methods."""
        line = self.lines.get((thread, namespace))
        if line is None or self.wal.changed or self.unsure:
            return None
        held, view = line.held, self.shelf.fresh(line)
        if view is None:
            return None
        head, top = view.head, held.order[-1] if held.order else None
        if id is None or (head is not None and head.id == id):
            if head is not None and (top is None or head.id > top):
                return head
            id = id or top
        found = held.puts.get(id) if id is not None else None
        return found[1] if found is not None else view.known.get(id or "")

    def walk(self, thread: str, namespace: str, below: str | None = None) -> Iterator[ThreadCheckpoint]:
        """Yield the checkpoints with an id below ``below``, newest first, as they are when the first is asked for."""
        line = self.met(thread, namespace)
        held, rows = line.held, line.rows
        order = held.order[:]
        if below is not None:
            del order[bisect_left(order, below) :]
        view = self.shelf.view(line)
        walk = Walk(rows, view)
        self.walks[walk] = None
        try:
            for entry in _merged(order, held.puts, view, below):
                walk.at, below = entry, entry.id
                yield entry
        except GitError:
            if self.shelf.look(line).tip == view.tip:
                raise
            # Somebody removed what was still to come, and git has collected it: on with what is there now.
            yield from self.walk(thread, namespace, below)
        finally:
            self.walks.pop(walk, None)

    def blob(self, oid: Id) -> Typed:
        """A stored value: its type and its bytes. Raises GitError when it is not here, RecordError when it is no value."""
        found = self.table.blobs.get(oid)
        if found is not None:
            return typed_of(found[1])
        kind, data = self.shelf.packs.read(oid)
        if kind != "blob":
            raise RecordError(f"object {oid.hex()} is not a blob")
        return typed_of(data)

    def rows(self, thread: str, namespace: str, entry: ThreadCheckpoint) -> tuple[Row, ...]:
        """The writes of tasks that belong to a checkpoint, late ones too, sorted by task path, task and index. What was done
        to refs by git alone counts from the next ``latest``, ``entry`` or ``walk`` on."""
        line = self.met(thread, namespace)
        held, batches = line.held, line.rows.get(entry.id, ())
        view = line.view
        if view is None or view.epoch != self.shelf.epoch:
            view = self.shelf.view(line)
        stored = entry if view.known.get(entry.id) is entry else view.find(entry.id)
        if stored is None and entry.id not in held.puts:  # it was removed since: its writes are those that went with it
            stored = entry
            for walk in self.walks.copy():
                if walk.at is entry:
                    batches, view = walk.rows.get(entry.id, ()), walk.view
        late = view.late.of(entry.id) if view.late_tip is not None else ()
        if not batches and not late and (stored is None or not stored.written):
            return ()
        own = view.chain.rows(stored) if stored is not None else ()
        return merged(own, (*late, *((batch, replace) for _, batch, replace in batches)))

    def chains(self, thread: str | None = None) -> list[tuple[str, str]]:
        """The threads and namespaces that have a checkpoint, sorted; those of one thread, where it is given."""
        return sorted(self._tips(thread))

    def newest(self, thread: str | None = None) -> dict[tuple[str, str], str | None]:
        """Return ``chains``, in no order, with the id of the newest checkpoint of each; None where it cannot be read."""
        found: dict[tuple[str, str], str | None] = {}
        for place, (held, tip) in self._tips(thread).items():
            try:
                if tip is not None:
                    commit = bytes.fromhex(tip)
                    head = self.shelf.entries.get(commit) or self.shelf.chain(commit).entry(commit)
                    held = max(held or "", head.id)
                found[place] = held
            except (BatonError, ValueError):
                found[place] = None
        return found

    def remains(self, thread: str) -> bool:
        """Whether writes of a thread are here for checkpoints that are not: it was deleted while a run of it went on, or the
        first is yet to come."""
        self._catch_up_if_due()
        if any(line.thread == thread and line.rows for line in self.table.dirty()):
            return True
        return any(place[0] == thread for place in self.named(self.shelf.refs.listing(prefix_of(thread)[1]), thread))

    def _catch_up_if_due(self) -> None:
        if self.wal.changed or self.unsure:
            with self.wal.lock():
                self.catch_up()

    def _tips(self, thread: str | None) -> dict[tuple[str, str], tuple[str | None, str | None]]:
        """Return the greatest id in memory, and what the ref points at, of all chains, or those of one thread."""
        self._catch_up_if_due()
        found: dict[tuple[str, str], tuple[str | None, str | None]] = {}
        for line in self.table.dirty():
            if order := line.held.order:
                found[line.thread, line.namespace] = order[-1], None
        prefix = THREADS if thread is None else prefix_of(thread)[0]
        for ref, oid in self.shelf.refs.listing(prefix).items():
            for place in self.named([ref], *(() if thread is None else (thread,))):
                found[place] = found[place][0] if place in found else None, oid
        return found if thread is None else {place: tips for place, tips in found.items() if place[0] == thread}

    def named(self, refs: Iterable[str], *known: str) -> Iterator[tuple[str, str]]:
        """Yield the names of those refs that are ours; what a ref does not hold, and is not ``known``, as the chain says it."""
        for ref in refs:
            names = names_of(ref, *known)
            if names is not None:
                yield self._named(names) if cut(ref) and any(isinstance(name, Cut) for name in names) else names

    def _named(self, names: tuple[str, str]) -> tuple[str, str]:
        try:
            return named(names, self.shelf.chain(self.shelf.tip(ref_of(*names))[1]).head())
        except BatonError:
            return names

    def put(
        self,
        thread: str,
        namespace: str,
        id: str,
        parent: str | None,
        texts: tuple[bytes, bytes],
        channels: Mapping[str, Id | Typed],
        rest: Mapping[str, Typed],
        note: Callable[[str | None], object] | None,
    ) -> bool:
        """See ThreadStore."""
        blobs: dict[Id, bytes] = {}
        taken: dict[str, Id] = {}
        ids: dict[str, Id] = {}
        for name, given in channels.items():
            if isinstance(given, bytes):
                ids[name] = taken[name] = given
            else:
                ids[name] = self._new(given, blobs)
        others = {name: self._new(given, blobs) for name, given in rest.items()} if rest else {}
        entry = ThreadCheckpoint(id, parent, texts[0], texts[1], ids, rest=others)
        record = encode_put(thread, namespace, entry, blobs)
        wal = self.wal
        with wal.lock():
            if wal.changed or self.unsure:
                self.catch_up()
            line = self.lines.get((thread, namespace)) or self.line(thread, namespace)
            if taken and not self._holds(line, parent, taken):
                return False
            before = self._before(line, parent) if note is not None else None
            token = self._append(record, lambda segment: self.table.put(segment, line, entry, blobs))
        wal.sync(token)
        if note is not None:
            note(before)
        return True

    def _before(self, line: ThreadLine, parent: str | None) -> str | None:
        """Return the newest checkpoint of a line; ``parent`` where it cannot be told, or it is the newest of those in
        memory."""
        order = line.held.order
        newest = order[-1] if order else None
        if newest is not None and newest == parent:
            return parent
        try:
            head = self.shelf.view(line).head
        except BatonError:
            return parent
        return head.id if head is not None and (newest is None or head.id > newest) else newest

    def _append(self, record: bytes, take_in: Callable[[int], None]) -> int:
        """Append a record and have it in the table; a token for ``sync``. With the log's lock held."""
        wal = self.wal
        try:
            token, segment = wal.append(record), wal.segment
            take_in(segment)
            self.table.weigh(segment, len(record))
            return token
        except BaseException as error:
            if not isinstance(error, BatonError):  # else nothing was appended
                self.unsure = True
            raise

    def _new(self, given: Typed, blobs: dict[Id, bytes]) -> Id:
        data = blob_of(given)
        oid = self.identify("blob", data)
        blobs[oid] = data
        return oid

    def _holds(self, line: ThreadLine, parent: str | None, taken: Mapping[str, Id]) -> bool:
        """Whether a checkpoint is here that holds these very blobs: only then none of them can be collected."""
        if parent is None:
            return False
        found = line.held.puts.get(parent)
        entry = found[1] if found is not None else self.shelf.view(line).find(parent)
        if entry is None:
            return False
        held = entry.channels
        return all(held.get(name) == oid for name, oid in taken.items())

    def put_writes(self, thread: str, namespace: str, id: str, rows: tuple[Row, ...], *, replace: bool) -> None:
        """See ThreadStore."""
        record = encode_writes(thread, namespace, id, rows, replace)
        wal = self.wal
        with wal.lock():
            if wal.changed or self.unsure:
                self.catch_up()
            line = self.lines.get((thread, namespace)) or self.line(thread, namespace)
            token = self._append(record, lambda segment: self.table.writes(segment, line, id, rows, replace=replace))
        wal.sync(token)


class Walk:
    """Position of a walk over the checkpoints of a line, and the writes as they were when it began."""

    __slots__ = ("at", "rows", "view")

    def __init__(self, rows: Mapping[str, list[LogBatch]], view: View) -> None:
        self.at: ThreadCheckpoint | None = None
        self.rows, self.view = rows, view


class _Unopened:
    """Log that is opened by the first use."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def __getattr__(self, name: str) -> object:
        self._core.start()
        return getattr(self._core.wal, name)


def _merged(
    order: list[str], puts: Mapping[str, tuple[int, ThreadCheckpoint]], view: View, below: str | None
) -> Iterator[ThreadCheckpoint]:
    """Yield checkpoints of memory and of git, newest first; where both have one, memory's."""
    for entry in view.chain.walk(below, view.known.get(below or "")):
        while order and order[-1] > entry.id:
            yield puts[order.pop()][1]
        if order and order[-1] == entry.id:
            yield puts[order.pop()][1]
        else:
            yield entry
    while order:
        yield puts[order.pop()][1]
