"""The store of threads: checkpoints and writes, acknowledged when they are on disk, shared by all processes of a repository."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from queue import Empty, SimpleQueue

from gitbaton.base.errors import BatonError
from gitbaton.git import maintenance
from gitbaton.git.repo import Repo, discover
from gitbaton.langgraph.threads import edit
from gitbaton.langgraph.threads.build import needed
from gitbaton.langgraph.threads.codec import Id, Row, ThreadCheckpoint, Typed
from gitbaton.langgraph.threads.core import Core
from gitbaton.langgraph.threads.edit import drain, flush
from gitbaton.langgraph.threads.health import wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from gitbaton.langgraph.threads.build import Made, Side

BYTES = 4 << 20  # of the log, after which it is flushed
BEHIND = 64 << 20  # bytes of the log, after which puts wait for the flush
_LONGEST = 15  # times the idle time after which a log that never rests is flushed all the same
_SLICE = 0.0002  # seconds of work at a time: who waits for the interpreter gets it after 5 ms otherwise
_STALLED = 0.001  # seconds after which it is of no use to wait for one whom the disk keeps waiting
_REST = 0.00002
_PATIENCE = 1.0  # seconds in which another process may flush what is ours, too
_RETRY = 5.0


class ThreadStore(AbstractContextManager["ThreadStore"]):
    """The threads of one repository. Any thread may call any method; each sees what any process acknowledged before it.

    ``sync=False`` leaves it to the kernel when a put is on disk; ``cache`` is in bytes; after ``every`` puts, those of writes
    among them, or 4 MiB, or ``idle`` seconds after the last one, the log is flushed into git in the background. All methods
    raise BatonError once it is closed.
    """

    def __init__(self, repo: Repo, *, sync: bool = True, cache: int = 64 << 20, every: int = 1024, idle: float = 2.0) -> None:
        self._core = Core(repo, sync=sync, cache=cache)
        self._worker = Worker(self._core, every, idle)
        _OPEN[self._core] = self._worker
        core = self._core  # whose methods that only read are ours, too
        self.latest, self.entry, self.ready, self.walk, self.blob = core.latest, core.entry, core.ready, core.walk, core.blob
        self.chains, self.remains, self.newest, self.rows = core.chains, core.remains, core.newest, core.rows
        weakref.finalize(self, _abandoned, self._core).atexit = False

    @classmethod
    def open(
        cls,
        place: Repo | str | os.PathLike[str],
        *,
        sync: bool = True,
        cache: int = 64 << 20,
        every: int = 1024,
        idle: float = 2.0,
    ) -> ThreadStore:
        """The threads of a repository, or of the one that git finds at a path. Raises NotARepositoryError."""
        if isinstance(place, Repo):
            return cls(place, sync=sync, cache=cache, every=every, idle=idle)
        with closing(discover(os.fspath(place), named=True)) as repo:
            return cls(repo, sync=sync, cache=cache, every=every, idle=idle)

    def put(
        self,
        thread: str,
        namespace: str,
        id: str,
        parent: str | None,
        ck: bytes,
        md: bytes,
        channels: Mapping[str, Id | Typed],
        rest: Mapping[str, Typed] | None = None,
        note: Callable[[str | None], object] | None = None,
    ) -> bool:
        """Record a checkpoint; one with the same id is replaced, and its writes stay. True when it is on disk.

        A channel that is given as an id is taken over from the checkpoint ``parent``; False, with nothing written, when that
        one is not here or holds another: give all values and call again. ``note`` is then told which checkpoint was the newest
        when this one came. Raises UsageError for names that git cannot hold.
        """
        self._room(thread)
        done = self._core.put(thread, namespace, id, parent, (ck, md), channels, rest or {}, note)
        if done:
            self._worker.came()
        return done

    def put_writes(self, thread: str, namespace: str, id: str, rows: Sequence[Row], replace: bool) -> None:
        """Record writes of a task to a checkpoint that may come later; they are on disk when this returns. A row takes the
        place of one with the same task and index if ``replace`` says so or its index is below zero, else it is left out."""
        if rows:
            self._room(thread)
            self._core.put_writes(thread, namespace, id, tuple(rows), replace=replace)
            self._worker.came()

    def _room(self, thread: str) -> None:
        """Have a log that is far behind brought into git, before anything is added to it."""
        core = self._core
        if core.table.size > BEHIND and (
            core.table.size - core.carried > BEHIND or any(key[0] == thread for key in core.stuck)
        ):
            for (behind, _), error in drain(core)[1].items():
                if behind == thread:
                    raise error

    def flush(self) -> None:
        """Bring all that was acknowledged into git's refs. Raises GitError when git cannot; nothing is lost then."""
        flush(self._core)

    def maintain(self) -> None:
        """Flush, then have git collect garbage and pack the repository, by the user's own settings. Takes as long as git
        takes."""
        self.flush()
        maintenance.collect(self._core.repo)

    def delete(self, thread: str) -> None:
        """Remove a thread: its checkpoints and writes in all namespaces."""
        edit.delete(self._core, thread)

    def delete_runs(self, run_ids: Sequence[str], metadata: Callable[[ThreadCheckpoint], Any] | None = None) -> None:
        """Remove the checkpoints, with their writes, that have one of these as ``run_id`` in their metadata, in all threads.
        ``metadata`` gives that of a checkpoint with an empty ``md``."""
        edit.delete_runs(self._core, run_ids, metadata)

    def copy(self, source: str, target: str) -> None:
        """Copy all checkpoints and writes of a thread. A target that exists gets those that it lacks; of checkpoints that both
        have, and of their writes, the source's count."""
        edit.copy(self._core, source, target)

    def prune(
        self,
        threads: Sequence[str],
        strategy: str = "keep_latest",
        metadata: Callable[[ThreadCheckpoint], Any] | None = None,
    ) -> None:
        """Remove all of threads (``delete``), or all but the newest checkpoint of each namespace and its writes.

        Where its metadata has ``counters_since_delta_snapshot``, the checkpoints before it stay from which those channels are
        put together. Raises NotFoundError, with nothing changed, when one of these is not here. ``metadata`` as for
        ``delete_runs``.
        """
        edit.prune(self._core, threads, strategy, metadata)

    def count(self, thread: str, namespace: str) -> int:
        """Count the checkpoints. Costs a look at each that git does not have yet."""
        line = self._core.met(thread, namespace)
        puts, view = list(line.puts), self._core.shelf.view(line)
        there = view.head.seq + 1 if view.head is not None else 0
        return there + sum(view.find(id) is None for id in puts)

    def needed(
        self, thread: str, namespace: str, ids: Iterable[str], metadata: Callable[[ThreadCheckpoint], Any] | None = None
    ) -> set[str]:
        """Some checkpoints, and those from which their delta channels are put together. Raises NotFoundError
        when one of these is not here. ``metadata`` as for ``delete_runs``."""
        return {*needed(thread, lambda id: self.entry(thread, namespace, id), ids, metadata)}

    def remove(
        self, wanted: Mapping[tuple[str, str], Iterable[str]], metadata: Callable[[ThreadCheckpoint], Any] | None = None
    ) -> dict[tuple[str, str], set[str]]:
        """Remove checkpoints, by thread and namespace, with their writes, but never the newest, nor those from which delta
        channels of one that stays are put together; the ids of those that went. Raises as ``needed``: then none went."""
        return edit.remove(self._core, wanted, metadata)

    def wrong(self, place: tuple[str, str] | None = None) -> dict[str, str]:
        """The refs of threads that hold no id, each with why; of one namespace those that lead to what cannot be read, too."""
        return wrong(self._core.repo, place)

    def join(self, thread: str, namespace: str, draw: Callable[[Side], Made]) -> None:
        """Replace the chain and the late writes of a namespace by what ``draw`` makes of those that are here: their tips, and
        the objects that it takes. Drawn again where another process moves them meanwhile. Raises what ``draw`` raises, with
        nothing changed, and GitError."""
        edit.join(self._core, (thread, namespace), draw)

    def close(self) -> None:
        """Flush if no other process has the store open, and let go of it. Closing again does nothing. In a signal handler that
        came in the middle of another call of this thread it does nothing either: the interpreter's exit closes the store."""
        close(self._core)

    def __copy__(self) -> ThreadStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_OURS = ("gitbaton.git.", "gitbaton.langgraph")
_OPEN: dict[Core, Worker] = {}
_CLOSING = threading.Lock()


def close(core: Core) -> None:
    """Close the parts of a store, once."""
    if _nested():
        return
    with _CLOSING:
        worker = _OPEN.pop(core, None)
    if worker is None:
        return
    try:
        worker.stop()
        if not core.started:  # a forked child that never used it
            return
        try:
            core.wal.close(lambda: flush(core))
        finally:
            core.shelf.close()
    except BaseException as error:
        if not isinstance(error, BatonError):
            _OPEN[core] = worker  # a signal handler cut it short: the exit, or who closes again, goes on
        raise


def _nested() -> bool:
    """Whether this thread is in the middle of another call of ours, which may hold any lock: a signal handler came in."""
    frame, outside = sys._getframe(), False
    while frame.f_back is not None:
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
        ours = name.startswith(_OURS)
        if ours and outside:
            return True
        outside = outside or not (ours or name == "contextlib")
    return False


def _abandoned(core: Core) -> None:
    """Close an abandoned store in a thread, since this one may hold any lock."""
    if core in _OPEN:
        threading.Thread(target=close, args=(core,)).start()


def _at_exit() -> None:
    for core in list(_OPEN):
        with suppress(BatonError):  # the log keeps what git did not take
            close(core)


def _in_child() -> None:
    global _CLOSING
    _CLOSING = threading.Lock()
    for core, worker in list(_OPEN.items()):
        core.reset()
        worker.reset()


class Worker:
    """Flushes a store when ``every`` records or some megabytes wait, or nothing came for ``idle`` seconds."""

    def __init__(self, core: Core, every: int, idle: float) -> None:
        self.core, self.every, self.idle = core, every, idle
        self.reset()

    def reset(self) -> None:
        """Start without a thread; a forked child has none."""
        # Not threading.Event: it is written in Python, and what a signal handler raises inside leaves it locked.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._due = self._woken = self._stopping = False
        self._thread: threading.Thread | None = None
        self._own = threading.RLock()

    def came(self) -> None:
        """A record was appended."""
        table = self.core.table
        if not self._due and (table.count >= self.every or table.size >= BYTES):
            self._due = True
            self._bell.put(None)
        if not self._woken:
            self._begin()

    def _begin(self) -> None:
        with self._own:
            thread = self._thread
            if (thread is None or not thread.is_alive()) and not self._stopping:
                self._thread = thread = threading.Thread(target=self._run, name="gitbaton-flush", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # there can be no more threads: the next record asks again
                    pass
                except KeyError as error:  # threading trips over what a signal handler raises while a thread begins
                    raise error.__context__ or error from None
            if thread is not None and thread.is_alive():
                self._woken = True
                self._bell.put(None)

    def _run(self) -> None:
        me = threading.current_thread()
        try:
            while not self._stopping and self._thread is me:
                self._wait(None, lambda: self._woken)
                self._until_due()
                self._due = self._woken = False
                done = self._stopping or self._flush()
                if not done:
                    self._woken = True
                    self._wait(_RETRY, lambda: False)
        finally:
            if self._thread is me:
                self._thread = None  # whatever ended it, the next record begins another
                self._woken = False

    def _wait(self, seconds: float | None, on: Callable[[], bool]) -> bool:
        """Wait until something is so, or the worker is to stop; whether it came to that in time."""
        end = None if seconds is None else time.monotonic() + seconds
        while not on() and not self._stopping:
            try:
                self._bell.get(timeout=None if end is None else max(end - time.monotonic(), 0))
            except Empty:
                return on()
        return True

    def _flush(self) -> bool:
        """Flush; whether that went well. If not, the log keeps all."""
        try:
            flush(self.core, wait=_PATIENCE, give_way=way_giver(self.core))
            return True
        except Exception:  # whatever it is, who puts must not lose the worker; who flushes or closes hears of it
            return False

    def _until_due(self) -> None:
        """Wait until a flush is due: the log is full, or rests, or it is time."""
        end = time.monotonic() + self.idle * _LONGEST
        while not self._stopping:
            seen = self.core.table.count
            if self._wait(self.idle, lambda: self._due) or self.core.table.count == seen or time.monotonic() > end:
                return

    def stop(self) -> None:
        """End the thread, after the flush it may be in."""
        with self._own:
            self._stopping = True
            thread = self._thread
        self._bell.put(None)
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()


def way_giver(core: Core) -> Callable[[], None]:
    """Return a function for long work to call now and then: it yields the interpreter after a slice of time, and when a put is
    about to return from the disk."""
    began = time.perf_counter()

    def give_way() -> None:
        nonlocal began
        now, back = time.perf_counter(), core.wal.back
        if now - began > _SLICE or (back and 0 < now - back < _STALLED):
            time.sleep(_REST)
            began = time.perf_counter()

    return give_way


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
