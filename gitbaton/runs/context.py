"""Context of a process at work on a run: what it has open, the commands that it launches, and what it tells."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from functools import partial

from gitbaton.base.errors import GitError, NotFoundError, UsageError
from gitbaton.base.model import Oid
from gitbaton.base.system import children, groups
from gitbaton.base.system.children import CommandResult, UserCommand
from gitbaton.base.system.groups import ChildProcess
from gitbaton.base.values import TYPE_CHECKING, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.git import foreground
from gitbaton.git.worktree.crashmarker import Marker
from gitbaton.git.worktree.filesets import TEMPORARY, Files, swap
from gitbaton.git.worktree.filetrees import FileEntry, FileSet, differences, read_tree
from gitbaton.runs.claims import PATIENCE, Claim, Claims
from gitbaton.runs.journal.chain import Journal
from gitbaton.runs.journal.codec import idem as key_of_effect
from gitbaton.runs.journal.state import NOTHING, RunState, StepState, fold
from gitbaton.runs.journal.values import Cause, Logged, Record, Step

if TYPE_CHECKING:
    from typing import Any, Literal

    from gitbaton.git.worktree.isolated import Lane

    State = Literal["ok", "cached", "failed", "gate", "unknown", "conflict", "compensation-failed", "rejected", "interrupted"]
    Kind = Literal[
        "start",
        "cached",
        "attempt",
        "ok",
        "failed",
        "retry",
        "gate",
        "unknown",
        "recovered",
        "orphan",
        "undeclared",
        "not-brought-back",
        "compensate",
        "compensated",
        "compensation-failed",
        "settled",
        "catch",
        "wait",
        "conflict",
        "isolation",
        "progress",
        "plan",
        "finished",
        "warning",
    ]
    Take = Literal["ours", "theirs"]
else:
    Take = str


CRASH = "GIT_BATON_CRASH_AT"
POINTS = (
    *("before-begin", "after-begin", "in-clearing", "in-command", "after-command", "after-collect", "in-bring-back"),
    *("before-end", "after-end", "after-fail", "in-materialize", "in-repair"),
    *("after-comp-begin", "in-compensation", "before-comp-end"),
)


def crash_at(point: str) -> None:
    """Nothing, unless the environment variable GIT_BATON_CRASH_AT names this point: then this process is killed with SIGKILL,
    as by a power cut of its own, and nothing that it holds is tidied up. ``point`` is one of POINTS, or empty: none."""
    if point and os.environ.get(CRASH) == point:
        import signal

        os.kill(os.getpid(), signal.SIGKILL)


GATE, UNKNOWN, UNDO_FAILED, CONFLICT, GUARD, TIMEOUT, OUTPUTS = 75, 76, 77, 78, 79, 124, 125
REFUSED = 1


def settling(name: str) -> str:
    """The two commands that decide whether the effect of a step happened."""
    return f"'git baton run settle {name} --done' or 'git baton run settle {name} --undone'"


@value
class Done:
    """Result of a step: ``code`` is the exit status that the command line ends with (0 for ``ok`` and ``cached``, else the
    command's own, 75 to 78, 124, 125, or 1 for a rejected gate and where the command's own is one of these); ``logged`` the
    record that says so; ``cause`` why it ran; ``hint`` what a person can do about it."""

    step: Step
    state: State
    code: int = 0
    logged: Logged | None = None
    cause: Cause | None = None
    text: str = ""
    hint: str = ""

    @property
    def good(self) -> bool:
        """Whether the step has its result, so that its dependents may go on."""
        return self.state in ("ok", "cached")


KINDS: tuple[Kind, ...] = (
    *("start", "cached", "attempt", "ok", "failed", "retry", "gate", "unknown", "recovered", "orphan", "undeclared"),
    *("not-brought-back", "compensate", "compensated", "compensation-failed", "settled", "catch", "wait", "conflict"),
    *("isolation", "progress", "plan", "finished", "warning"),
)


@value
class Event:
    """One thing that happened to ``step`` (empty: to the whole run). ``text`` is for people; ``code`` an exit status;
    ``seconds`` a duration, or with ``retry`` the time until the next attempt; ``key`` the step's; ``number`` of ``total`` its
    place in a plan, with ``retry`` how many of the attempts there can be were made; ``logged`` the record of a ``cached`` or
    ``ok`` step, whose output results.output gives."""

    kind: Kind
    step: str = ""
    text: str = ""
    code: int | None = None
    seconds: float | None = None
    attempt: int | None = None
    key: str | None = None
    number: int | None = None
    total: int | None = None
    cause: Cause | None = None
    logged: Logged | None = None


@value
class Outcome:
    """Result of a run: the exit status, what became of each step in the order in which they ended, and the steps that did
    not begin."""

    code: int
    states: tuple[Done, ...] = ()
    run: str = ""
    left: tuple[str, ...] = ()


class Workshop:
    """A lane with the stat cache of its files."""

    def __init__(self, ctx: Context) -> None:
        from gitbaton.git.worktree.isolated import Lane

        self.lane = Lane(ctx.baton.repo)
        self.files = Files(ctx.baton.repo, self.lane.path, cached=False)

    def close(self) -> None:
        """Remove the lane."""
        self.files.close()
        self.lane.close()


class Context(AbstractContextManager["Context"]):
    """One process at work on one run.

    ``watch`` is given every Event; it is called with the lock held, by whichever thread it happens in. ``clock``: now, in UTC;
    ``sleep``: waits so many seconds; ``random``: a number from 0 to below 1. ``wait``: for how many seconds a write set that
    another holds is waited for (None: not at all); ``patience``: then another process at the same step, or run. ``take``: what
    stands where an output was edited by hand: ours (what the step makes) or theirs. ``foreign``: commands of fetched records
    may run. ``show``: the output of a command passes through live. ``output`` gets the stream (1 or 2) and its bytes before
    they do, without the lock and from any thread. ``guard`` is called with a step's name, and the lock held, before each
    attempt is recorded; it ends a loop with a RunError 79.

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
        wait: float | None = None,
        patience: float = PATIENCE,
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
        self.wait, self.patience, self.take, self.foreign, self.show, self.output = wait, patience, take, foreign, show, output
        self.repo, self.objects = baton.repo, baton.repo.objects
        self.files = Files(baton.repo, root)
        self.host, self.boot, self.pid = socket.gethostname(), groups.boot(), os.getpid()
        self.lock = threading.RLock()
        self.guard: Callable[[str], None] = lambda step: None
        self.named: Collection[str] | None = None  # the steps of the plan that is carried out
        self.defined: set[str] = set()  # the steps of the command line, whose begins say all of them
        self.active: list[tuple[str, ...]] = []  # the write sets that this process holds
        self.claimed_so_far: list[tuple[str, ...]] = []  # and held since it began
        self._drawn = ""  # the lineage of a run that has no record yet
        self._depth = 0
        self._idle: list[Workshop] = []
        self._shops: set[Workshop] = set()  # those too that other threads have when an interrupt ends this one
        self._trees: dict[tuple[Oid, tuple[str, ...]], Mapping[str, FileEntry]] = {}
        self._told: tuple[tuple[Logged, ...], RunState] = ((), NOTHING)  # what ``state`` was made from, and it

    @property
    def lineage(self) -> str:
        """The lineage, from which the idempotency keys of this run are made: its first record has it."""
        known = self.state().lineage
        if not known:
            self._drawn = known = self._drawn or self.journal.new_lineage(self.run)
        return known

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
        """Return the state of the run now; only records that are new are folded."""
        records, (seen, state) = self.logged(), self._told
        if seen and (len(seen) > len(records) or records[len(seen) - 1] is not seen[-1]):
            seen, state = (), NOTHING  # not what was read before and more: those of a fetched run become our own
        if len(records) > len(seen):
            state = fold(records[len(seen) :], state)
        self._told = (records, state)
        return state

    def step_state(self, name: str) -> StepState:
        """Return the state of one step now."""
        return self.state().step(name)

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
            started=self.clock(),
            host=self.host,
            pid=self.pid,
            boot=self.boot,
            step=step,
            worktree=self.root,
            **fields,
        )

    def emit(self, kind: Kind, step: str = "", text: str = "", **more: Any) -> None:
        """Tell the watcher what happened; ``more``: other fields of Event."""
        self.watch(Event(kind=kind, step=step, text=text, **more))

    def entries(self, tree: Oid, digests: tuple[str, ...] = ()) -> Mapping[str, FileEntry]:
        """The files of a stored tree, by path, those of ``digests`` as recorded by digest only; read once."""
        place = (tree, digests)
        if place not in self._trees:
            self._trees[place] = read_tree(self.objects, tree, digests)
        return self._trees[place]

    def know(self, tree: Oid, entries: Mapping[str, FileEntry]) -> None:
        """Remember what a tree holds, so that it is not read again."""
        self._trees.setdefault((tree, tuple(path for path, entry in entries.items() if entry.digest)), entries)

    def tree_of(self, entries: Mapping[str, FileEntry], *like: FileSet) -> Oid:
        """The tree of files; that of ``like`` where it has the same ones, else a new one is written."""
        for item in like:
            if len(item.entries) == len(entries) and not differences(item.entries, entries):
                return item.tree
        tree = self.files.tree(entries)
        self.know(tree, entries)
        return tree

    @contextmanager
    def claimed(
        self, step: str, writes: tuple[str, ...], holding: Sequence[Claim] = (), *, patient: bool = True
    ) -> Iterator[Claim]:
        """Hold the write set of a step; others of this process go on while it is waited for. ``holding``: the claims that are
        kept meanwhile; ``patient``: another process that is at the step is waited for, though nothing was said of that. Raises
        RunError 78."""
        said = lambda who: self.emit("wait", step, f"{who} is at this step")  # noqa: E731
        how: dict[str, Any] = {"wait": self.wait, "patience": self.patience, "holding": holding, "patient": patient}
        with self.away():
            claim = self.claims.take(self.run, step, writes, same=said, **how)
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
        shop = self._idle.pop() if self._idle else Workshop(self)
        self._shops.add(shop)
        try:
            yield shop
        finally:
            if shop.lane.gone:
                self._shops.discard(shop)
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
        self._idle.clear()
        while self._shops:
            self._shut(self._shops.pop())
        self.files.close()

    def __exit__(self, *_: object) -> None:
        self.close()


SHORT_TEXT = 4000  # characters of a command's words that a record's text keeps
_MINIMAL = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SHELL")


def environment(ctx: Context, step: str, idem: str, attempt: int, lane: Lane | None = None, **more: str) -> dict[str, str]:
    """Return what a command of a step sees, perhaps in a lane: the caller's environment, and which run, step and attempt it
    is."""
    env = lane.environment() if lane is not None else foreground.environment(ctx.repo, "top")
    return {
        **{name: text for name, text in env.items() if name != CRASH},
        "GIT_BATON_RUN": ctx.run,
        "GIT_BATON_STEP": step,
        "GIT_BATON_ATTEMPT": str(attempt),
        "GIT_BATON_IDEMPOTENCY_KEY": idem,
        **more,
    }


def idempotency_key(ctx: Context, step: str, key: str) -> str:
    """The idempotency key of a step's effect: the same for all attempts. It is a new one when an effect of the very same key
    was compensated, or undone by hand, because a service that remembers the old one would not do it again."""
    return key_of_effect(ctx.lineage, step, key, ctx.step_state(step).undone.count(key))


def launch(
    ctx: Context,
    claim: Claim,
    step: Step,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    root: str | None = None,
    show: bool = True,
    point: str = "",
    runs: Callable[[ChildProcess], None] | None = None,
) -> CommandResult:
    """Run a command below ``root`` (default: the work tree) in the step's folder, and wait for it without the lock. ``point``:
    where a test kills this process once the command has been let go; ``runs`` is told of it as the claim is. Raises GitError
    when it cannot be started."""
    cwd = os.path.normpath(os.path.join(root or ctx.root, step.cwd))
    command = UserCommand(argv=tuple(argv), cwd=cwd, env=env, timeout=step.timeout, grace=step.grace, show=show and ctx.show)

    def started(child: ChildProcess) -> None:
        if runs is not None:
            runs(child)
        claim.child(child)

    def tick(seconds: float) -> None:
        with ctx.hold():
            ctx.emit("progress", step.name, seconds=seconds)

    output = ctx.output if command.show else None
    with ctx.away():
        ended = children.run(
            command, started=started, tick=tick, output=output, locks=(claim.lock_fd,), begun=partial(crash_at, point)
        )
    for fault in ended.faults:
        ctx.emit("warning", step.name, fault)
    return ended


def is_ambiguous(record: Record, code: int) -> bool:
    """Whether an attempt failed with an exit status of its command's own that means something else when it is ours."""
    ours = (GATE, UNKNOWN, UNDO_FAILED, CONFLICT, GUARD, TIMEOUT, OUTPUTS)
    return code in ours and record.exit == code and not record.timeout


def shell(line: str) -> tuple[str, ...]:
    """The words of a shell line."""
    return ("sh", "-c", line)


def said(ended: CommandResult) -> str:
    """The end of what a command said, for a record's text."""
    text = (ended.out + ended.err).decode("utf-8", "replace").strip()
    return text if len(text) <= SHORT_TEXT else "..." + text[-SHORT_TEXT:]


def status(ended: CommandResult) -> str:
    """Return in words how a command ended."""
    if ended.timeout:
        return "its time was over"
    if ended.asked and ended.exit == 0:
        return "it was asked to end"
    return f"it was ended by {ended.signal}" if ended.signal else f"exit {ended.exit}"


@value
class Checked:
    """The verdict on a step's outputs: the exit status of its --verify (0: they are good), and the end of what it said."""

    exit: int
    text: str = ""
    interrupted: bool = False


def verify(
    ctx: Context, claim: Claim, step: Step, reads: Mapping[str, FileEntry], outputs: Mapping[str, FileEntry], root: str
) -> Checked:
    """Run a step's --verify on copies of the files that it reads and of its outputs (those that are not in the store are copied
    from ``root``). It sees nothing else of the work tree, of the step's environment or of what the step said. Raises
    GitError."""
    if step.verify is None:
        return Checked(exit=0)
    marker = Marker(ctx.repo)
    try:
        away = ctx.files.outward(reads.values())  # neither these links nor what they lead to
        there = {path: entry for path, entry in reads.items() if path not in away and not TEMPORARY.match(path)}
        swap(ctx.repo, marker.path, {**there, **outputs}, {}, source=root)
        os.makedirs(os.path.join(marker.path, step.cwd), exist_ok=True)  # even where it has no file
        # It must not know what the step knew.
        env = {name: text for name, text in os.environ.items() if name in _MINIMAL or name.startswith("LC_")}
        ended = launch(ctx, claim, step, shell(step.verify), env, root=marker.path, show=False, runs=marker.runs)
    finally:
        marker.remove()
    return Checked(exit=TIMEOUT if ended.timeout else ended.exit, text=said(ended), interrupted=ended.interrupted)
