"""Context of a process that carries out a run's steps: repository, journal, claims of other processes, files, events, clock."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from gitbaton.baton import Baton
from gitbaton.errors import GitError, NotFoundError, UsageError
from gitbaton.journal.chain import Journal
from gitbaton.journal.state import RunState, StepState, fold
from gitbaton.journal.values import Cause, Logged, Record
from gitbaton.model import Oid
from gitbaton.running.claims import Claim, Claims
from gitbaton.running.results import Event, Kind
from gitbaton.system import groups
from gitbaton.worktree.filesets import Files
from gitbaton.worktree.filetrees import Entry, FileSet, differences, read_tree, write_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Take = Literal["ours", "theirs"]
else:
    Take = str


class Workshop:
    """A lane with the stat cache of its files."""

    def __init__(self, ctx: Context) -> None:
        from gitbaton.worktree.isolated import Lane

        self.lane = Lane(ctx.baton.repo)
        self.files = Files(ctx.baton.repo, self.lane.path, cached=False)

    def close(self) -> None:
        """Remove the lane."""
        self.files.close()
        self.lane.close()


class Context:
    """One process at work on one run.

    ``watch`` is given every Event; it is called with the lock held, by whichever thread it happens in. ``clock``: now, in UTC;
    ``sleep``: waits so many seconds; ``random``: a number from 0 to below 1. ``wait``: for how many seconds a write set that
    another run holds is waited for. ``take``: what stands where an output was edited by hand: ours (what the step makes) or
    theirs. ``foreign``: commands of fetched records may run. ``show``: the output of a command passes through live. ``output``
    gets the stream (1 or 2) and its bytes before they do, without the lock and from any thread. ``guard`` is called with a
    step's name, and the lock held, before each attempt is recorded; it ends a loop with a RunError 79.

    ``lock`` is held around everything but waiting: ``with ctx.away():`` lets others go on meanwhile. ``close`` when done.
    Raises UsageError in a repository without a work tree.
    """

    def __init__(
        self,
        baton: Baton,
        journal: Journal,
        claims: Claims,
        run: str,
        *,
        watch: Callable[[Event], None],
        clock: Callable[[], datetime],
        sleep: Callable[[float], None],
        random: Callable[[], float],
        wait: float = 0.0,
        take: Take | None = None,
        foreign: bool = False,
        show: bool = True,
        output: Callable[[int, bytes], None] | None = None,
    ) -> None:
        root = baton.repo.layout.root
        if root is None:
            raise UsageError(f"'{baton.repo.layout.git_dir}' has no work tree in which a step could run")
        self.baton, self.journal, self.claims, self.run, self.root = baton, journal, claims, run, root
        self.watch, self.clock, self.sleep, self.random = watch, clock, sleep, random
        self.wait, self.take, self.foreign, self.show, self.output = wait, take, foreign, show, output
        self.repo, self.objects = baton.repo, baton.repo.objects
        self.files = Files(baton.repo, root)
        self.host, self.boot, self.pid = socket.gethostname(), groups.boot(), os.getpid()
        self.lock = threading.RLock()
        self.guard: Callable[[str], None] = lambda step: None
        self.defined: set[str] = set()  # the steps of the command line, whose begins say all of them
        self.active: list[tuple[str, ...]] = []  # the write sets that this process holds
        self.claimed_so_far: list[tuple[str, ...]] = []  # and held since it began
        self._lineage: str | None = None
        self._drawn = ""  # the lineage of a run that has no record yet
        self._depth = 0
        self._idle: list[Workshop] = []
        self._shops: list[Workshop] = []
        self._trees: dict[tuple[Oid, tuple[str, ...]], Mapping[str, Entry]] = {}
        self._state: tuple[Oid | None, RunState] | None = None
        self._by_step: tuple[tuple[Logged, ...], dict[str, list[Logged]]] = ((), {})
        self._steps: dict[str, tuple[tuple[int, Oid], StepState | None]] = {}

    @property
    def lineage(self) -> str:
        """What the idempotency keys of this run are made from: its first record says it."""
        if self._lineage is None:
            records = self.logged()
            if not records:
                self._drawn = self._drawn or self.journal.new_lineage(self.run)
                return self._drawn
            self._lineage = records[0].record.lineage
        return self._lineage

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the lock; a thread that holds it may take it again."""
        with self.lock:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    @contextmanager
    def away(self) -> Iterator[None]:
        """Inside ``hold``: let others have the lock until the block ends, however often this thread took it."""
        depth, self._depth = self._depth, 0
        for _ in range(depth):
            self.lock.release()
        try:
            yield
        finally:
            for _ in range(depth):
                self.lock.acquire()
            self._depth = depth

    def logged(self) -> tuple[Logged, ...]:
        """The records of the run now, oldest first; none where the run is yet to begin. Raises RecordError."""
        try:
            return self.journal.records(self.run)
        except NotFoundError:
            return ()

    def state(self) -> RunState:
        """What the journal says of the run now."""
        records = self.logged()
        tip = records[-1].commit if records else None
        if self._state is None or self._state[0] != tip:
            self._state = (tip, fold(records))
        return self._state[1]

    def of_step(self, name: str) -> list[Logged]:
        """The records of one step, oldest first."""
        records, (seen, found) = self.logged(), self._by_step
        if seen and (len(seen) > len(records) or records[len(seen) - 1] is not seen[-1]):
            seen, found = (), {}  # not what was read before and more: those of a fetched run become our own
        for logged in records[len(seen) :]:
            if logged.record.step is not None:
                found.setdefault(logged.record.step, []).append(logged)
        self._by_step = (records, found)
        return found.get(name, [])

    def step_state(self, name: str) -> StepState | None:
        """What the journal says of one step now; None where it never began."""
        records = self.of_step(name)
        mark = (len(records), records[-1].commit if records else "")
        known = self._steps.get(name)
        if known is None or known[0] != mark:
            known = self._steps[name] = (mark, fold(records).steps.get(name))
        return known[1]

    def append(
        self,
        record: Record,
        *,
        trees: Mapping[str, Oid] | None = None,
        blobs: Mapping[str, bytes] | None = None,
        keep: Oid | None = None,
    ) -> Logged:
        """Put a record at the end of the run's journal; it is durable when this returns."""
        return self.journal.append(self.run, record, trees=trees or {}, blobs=blobs or {}, keep=keep)

    def record(self, type_: str, step: str | None = None, **fields: Any) -> Record:
        """A record of this process, with the fields that every record has."""
        return Record(
            type=type_,  # type: ignore[arg-type]
            run=self.run,
            lineage=self.lineage,
            started=fields.pop("started", None) or self.clock(),
            host=self.host,
            pid=self.pid,
            boot=self.boot,
            step=step,
            worktree=self.root,
            **fields,
        )

    def emit(
        self,
        kind: Kind,
        step: str = "",
        text: str = "",
        *,
        code: int | None = None,
        seconds: float | None = None,
        attempt: int | None = None,
        key: str | None = None,
        number: int | None = None,
        total: int | None = None,
        cause: Cause | None = None,
        logged: Logged | None = None,
    ) -> None:
        """Tell the watcher what happened."""
        self.watch(
            Event(
                kind=kind,
                step=step,
                text=text,
                code=code,
                seconds=seconds,
                attempt=attempt,
                key=key,
                number=number,
                total=total,
                cause=cause,
                logged=logged,
            )
        )

    def entries(self, tree: Oid, digests: tuple[str, ...] = ()) -> Mapping[str, Entry]:
        """The files of a stored tree, by path, those of ``digests`` as recorded by digest only; read once."""
        place = (tree, digests)
        if place not in self._trees:
            self._trees[place] = read_tree(self.objects, tree, digests)
        return self._trees[place]

    def know(self, tree: Oid, entries: Mapping[str, Entry]) -> None:
        """Remember what a tree holds, so that it is not read again."""
        self._trees.setdefault((tree, tuple(path for path, entry in entries.items() if entry.digest)), entries)

    def tree_of(self, entries: Mapping[str, Entry], *like: FileSet) -> Oid:
        """The tree of files; that of ``like`` where it has the same ones, else a new one is written."""
        for item in like:
            if len(item.entries) == len(entries) and not differences(item.entries, entries):
                return item.tree
        tree = write_tree(self.repo, entries)
        self.know(tree, entries)
        return tree

    @contextmanager
    def claimed(
        self, step: str, writes: tuple[str, ...], holding: Sequence[Claim] = (), *, patient: bool = True
    ) -> Iterator[Claim]:
        """Hold the write set of a step; others of this process go on while it is waited for. ``holding``: the claims that are
        kept meanwhile; ``patient``: another process that is at the step is waited for without limit. Raises RunError 78."""
        said = lambda: self.emit("wait", step, "another process is at this step")  # noqa: E731
        with self.away():
            claim = self.claims.take(self.run, step, writes, wait=self.wait, same=said, holding=holding, patient=patient)
        self.active.append(writes)
        self.claimed_so_far.append(writes)
        try:
            yield claim
        finally:
            self.active.remove(writes)
            claim.release()

    @contextmanager
    def workshop(self) -> Iterator[Workshop]:
        """A lane that no other thread uses meanwhile; it is kept for the next step, unless a command has removed it."""
        if not self._idle:
            made = Workshop(self)
            self._shops.append(made)
            self._idle.append(made)
        shop = self._idle.pop()
        try:
            yield shop
        finally:
            if shop.lane.gone:
                self._shops.remove(shop)
                self._shut(shop)
            else:
                self._idle.append(shop)

    def _shut(self, shop: Workshop) -> None:
        try:
            shop.close()
        except GitError as error:
            self.emit("warning", text=error.message)

    def close(self) -> None:
        """Remove the lanes and let go of what is open; the baton and the journal stay open."""
        for shop in self._shops:
            self._shut(shop)
        self._shops, self._idle = [], []
        self.files.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
