"""A thread's chain of commits, built anew with what has come: sorted by id, and no commit changed that need not be."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from gitbaton.threads.chain import Chain, jump_numbers
from gitbaton.threads.codec import Entry, Id, Row, hasher, rows_blob, rows_of
from gitbaton.threads.commits import commit_data, subject_of, tree_data
from gitbaton.threads.late import Batch, Late, Object, merged
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.objects import Kind

__all__ = ["NEAR", "Built", "building", "rebuild"]
NEAR = 32


@value
class Built:
    """A chain as it is to be: ``tip`` and ``late_tip`` are what the refs are to point at (None: nothing is left), ``objects``
    what git does not have yet, each once, but for the blobs of channels, which whoever put the checkpoints has; ``entries``
    the checkpoints that have a new commit, by id."""

    tip: Id | None
    late_tip: Id | None
    objects: list[Object]
    entries: dict[str, Entry]


def rebuild(
    chain: Chain,
    puts: Mapping[str, Entry | None],
    rows: Mapping[str, Sequence[Batch]],
    late: Late,
    *,
    names: bytes | None = None,
) -> Built:
    """As ``building``, all at once."""
    steps = building(chain, puts, rows, late, names=names)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Built = end.value
            return made


def building(
    chain: Chain,
    puts: Mapping[str, Entry | None],
    rows: Mapping[str, Sequence[Batch]],
    late: Late,
    *,
    names: bytes | None = None,
    pause: Callable[[], object] | None = None,
) -> Generator[list[Object], None, Built]:
    """The chain with checkpoints put (None: removed, with the writes it had) and writes of ``rows`` folded in.

    A checkpoint that is put again keeps its writes. Writes for a checkpoint within 32 of the new tip, or that is written anew
    anyhow, become part of it, with its late ones; all others go to ``late``. ``names``: what commits say of
    thread and namespace, see ``names_data`` (None: what each checkpoint said). Gives what is new as it is made, before the
    whole; ``pause`` is called after each checkpoint, for whoever shares the interpreter. Raises RecordError and GitError of the
    chain below; then nothing has happened.
    """
    pause = pause or _go_on
    old, base = _above(chain, puts, [id for id in rows if puts.get(id) is None], pause)
    if not old and not any(puts.values()):
        late_tip, objects = late.changed([id for id in puts if id in late.ids()], rows)
        yield objects
        return Built(tip=chain.tip, late_tip=late_tip, objects=objects, entries={})
    work = _Work(chain, base, late, names)
    kept = {entry.id: entry for entry in old}
    for id in sorted({*kept, *puts}):
        before = kept.get(id)
        entry = puts.get(id, before)
        if entry is not None:
            work.add(entry, before, rows.get(id, ()))
            yield work.fresh
            work.fresh = []
        pause()
    gone = [id for id in (*work.folded, *(id for id, entry in puts.items() if entry is None)) if id in late.ids()]
    late_tip, objects = late.changed(gone, {id: batches for id, batches in rows.items() if id not in work.folded})
    tip = work.last.commit if work.last is not None else None
    yield objects
    return Built(tip=tip, late_tip=late_tip, objects=[*work.objects.values(), *objects], entries=work.entries)


def _go_on() -> None:
    return


def _above(
    chain: Chain, puts: Mapping[str, Entry | None], others: Iterable[str], pause: Callable[[], object]
) -> tuple[list[Entry], Entry | None]:
    """The checkpoints of a chain that are written anew, oldest first, and the one below them."""
    low, wanted = min(puts, default=None), set(others)
    old: list[Entry] = []
    entry = chain.head()
    while entry is not None and low is not None and entry.id >= low:
        old.append(entry)
        entry = chain.below(entry)
        pause()
    count = len({item.id for item in old} | puts.keys()) - sum(item is None for item in puts.values())
    base, start = entry, len(old)
    bottom = min(wanted, default=None)
    while entry is not None and bottom is not None and entry.id >= bottom and count + len(old) - start < NEAR:
        old.append(entry)
        found, entry = entry.id in wanted, chain.below(entry)
        if found:
            base, count, start = entry, count + len(old) - start, len(old)
    del old[start:]
    return old[::-1], base


class _Work:
    """A chain while it grows upwards from ``base``."""

    def __init__(self, chain: Chain, base: Entry | None, late: Late, names: bytes | None) -> None:
        self.chain, self.base, self.late, self.last, self.names = chain, base, late, base, names
        self.objects: dict[Id, Object] = {}
        self.fresh: list[Object] = []
        self.entries: dict[str, Entry] = {}
        self.folded: set[str] = set()
        # what the next old checkpoint must have stood on for its subject to be right; b"" when that is no more
        self._under = base.commit if base is not None else None
        self._numbers: dict[int, Entry] = {}
        self._identify = hasher(chain.algorithm)
        self._late = set(late.ids())

    def add(self, entry: Entry, before: Entry | None, batches: Sequence[Batch]) -> None:
        """The next checkpoint: as it was put or, where it is ``before``, as it was."""
        id, last = entry.id, self.last
        if id in self._late:
            batches = (*self.late.of(id), *batches)
        self.folded.add(id)
        same = before is not None and before.up == self._under
        if entry is before and not batches:
            if same and before.up == (last.commit if last is not None else None):
                self._place(before, before)
                return
            subject = before.subject if same else subject_of(before, last)
            made = Entry(id, entry.parent, entry.ck, entry.md, None, load=entry.load, tree=entry.tree, subject=subject)
            if entry.load is None:
                made.channels, made.rest, made.written = entry.channels, entry.rest, entry.written
        else:
            written = self._written(before, batches)
            made = Entry(id, entry.parent, entry.ck, entry.md, entry.channels, rest=entry.rest, written=written)
            made.subject = before.subject if same and entry is before else subject_of(made, last)
            made.tree = self._object("tree", tree_data(made), before.tree if before is not None else None)
        made.memo, made.names = entry.memo, entry.names if self.names is None else self.names
        if last is not None:
            made.up, made.seq = last.commit, last.seq + 1
            made.jump = tuple([(at.commit or b"", at.id, at.seq) for at in map(self._at, jump_numbers(made.seq))])
        else:
            made.seq = 0
        made.commit = self._object("commit", commit_data(made), before.commit if before is not None else None)
        self._place(made, before if entry is before else None)

    def _place(self, made: Entry, before: Entry | None) -> None:
        if made is not before:
            made = self.chain.keep(made)
            self.entries[made.id] = made
        self.last = self._numbers[made.seq] = made
        self._under = before.commit if before is not None else b""

    def _at(self, seq: int) -> Entry:
        found = self._numbers.get(seq)
        if found is None:
            assert self.base is not None
            found = self._numbers[seq] = self.chain.at(self.base, seq)
        return found

    def _object(self, kind: Kind, data: bytes, known: Id | None) -> Id:
        oid = self._identify(kind, data)
        if oid != known:
            self.objects[oid] = made = (kind, oid, data)
            self.fresh.append(made)
        return oid

    def _written(self, before: Entry | None, batches: Sequence[Batch]) -> dict[str, Id]:
        """The blobs of a checkpoint's writes, with more folded in."""
        written = dict(before.written) if before is not None else {}
        new: dict[str, list[Batch]] = {}
        for rows, replace in batches:
            for row in rows:
                new.setdefault(row[1], []).append(((row,), replace))
        for task, more in new.items():
            known = written.get(task)
            own: tuple[Row, ...] = rows_of(self._blob(known), task) if known is not None else ()
            written[task] = self._object("blob", rows_blob(merged(own, more)), known)
        return written

    def _blob(self, oid: Id) -> bytes:
        found = self.objects.get(oid)
        return found[2] if found is not None else self.chain.read(oid)[1]
