"""The worker: a thread that flushes in the background, and gives way to whoever puts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from gitbaton.threads.core import Core
from gitbaton.threads.flush import flush

BYTES = 4 << 20  # of the log, after which it is flushed
BEHIND = 64 << 20  # bytes of the log, after which puts wait for the flush
_LONGEST = 15  # times the idle time after which a log that never rests is flushed all the same
_SLICE = 0.0002  # seconds of work at a time: who waits for the interpreter gets it after 5 ms otherwise
_STALLED = 0.001  # seconds after which it is of no use to wait for one whom the disk keeps waiting
_REST = 0.00002
_PATIENCE = 1.0  # seconds in which another process may flush what is ours, too
_RETRY = 5.0
_BUSY = 2.0  # seconds: where a log is full sooner, packs are made in a process beside this one
_EARLY = 4  # a part of a log that is filled as fast is enough


class Worker:
    """Flushes a store when ``every`` records or some megabytes wait, or nothing came for ``idle`` seconds."""

    def __init__(self, core: Core, every: int, idle: float) -> None:
        self.core, self.every, self.idle = core, every, idle
        self._some = max(1, every // _EARLY)
        self.reset()

    def reset(self) -> None:
        """Be one whose thread has not begun; in a forked child there is none."""
        # Not threading.Event: it is written in Python, and what a signal handler raises inside leaves it locked.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._due = self._woken = self._stopping = False
        self._came = 0  # records of ours since the last flush
        self._thread: threading.Thread | None = None
        self._fast = False
        self._own = threading.RLock()

    def came(self) -> None:
        """A record was appended."""
        table = self.core.table
        self._came += 1
        if not self._due and (table.count >= self.every or table.size >= BYTES):
            self._due = True
            self._bell.put(None)
        elif self._came == self._some:
            self._bell.put(None)
        if not self._woken:
            self._begin()

    def _begin(self) -> None:
        with self._own:
            thread = self._thread
            if (thread is None or not thread.is_alive()) and not self._stopping:
                self._thread = thread = threading.Thread(target=self._run, name="gitbaton-flush", daemon=True)
                with suppress(RuntimeError):  # there can be no more threads: the next record asks again
                    thread.start()
            if thread is not None and thread.is_alive():
                self._woken = True
                self._bell.put(None)

    def _run(self) -> None:
        me = threading.current_thread()
        try:
            while not self._stopping and self._thread is me:
                if not self._wait(_BUSY if self._fast else None, lambda: self._woken):
                    self._pace(fast=False)
                    continue
                self._until_due()
                self._due = self._woken = False
                done = self._stopping or self._flush()
                self._came = 0  # what came meanwhile says nothing of how fast puts come
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

    def _pace(self, *, fast: bool) -> None:
        """``fast``: puts come so fast that this thread would hold them up."""
        self._fast = fast and not self._stopping
        self.core.shelf.packs.hurry(self._fast)

    def _until_due(self) -> None:
        """Wait until a flush is due, and see how fast it came to that."""
        begun = time.monotonic()
        end = begun + self.idle * _LONGEST
        some = self._await(lambda: self._due or self._came >= self._some, end)
        fast = some and time.monotonic() - begun < _BUSY / _EARLY
        if fast:
            self._pace(fast=True)
        if some and self._await(lambda: self._due, end):
            fast = time.monotonic() - begun < _BUSY
        self._pace(fast=fast)

    def _await(self, on: Callable[[], bool], end: float) -> bool:
        """Wait until something is so, or the log rests, or it is time; whether it is so."""
        while not self._stopping:
            seen = self.core.table.count
            if self._wait(self.idle, on):
                break
            if self.core.table.count == seen or time.monotonic() > end:
                return False
        return on()

    def stop(self) -> None:
        """End the thread, after the flush it may be in."""
        with self._own:
            self._stopping = True
            thread = self._thread
        self._bell.put(None)
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()


def way_giver(core: Core) -> Callable[[], None]:
    """What a long work calls now and then. It lets others have the interpreter after a slice of time, and when one who puts is
    about to come back from the disk."""
    began = time.perf_counter()

    def give_way() -> None:
        nonlocal began
        now, back = time.perf_counter(), core.wal.back
        if now - began > _SLICE or (back and 0 < now - back < _STALLED):
            time.sleep(_REST)
            began = time.perf_counter()

    return give_way
