"""The file that a process appends records to, and how threads wait together for the disk."""

from __future__ import annotations

import contextlib
import os
import threading
from time import perf_counter

from gitbaton.errors import GitError
from gitbaton.threads import walfile
from gitbaton.threads.walfile import Share, failed, fdatasync, unshared

_NEARLY = 0.8  # of the time that the disk takes at its best


class Tail:
    """The active segment as one process has it open: ``number`` is -1 and ``room`` 0 before there is one. ``appended`` counts
    our records, ``synced`` those that are on disk. ``back`` is when, by ``time.perf_counter``, the disk is nearly done with
    what is waited for, 0 when nobody waits. ``broken`` says why nothing can be appended any more: what a disk refused to take
    once it may later pretend to have."""

    __slots__ = (
        *("_guard", "_looked", "_maker", "_retired", "_usual", "appended", "back", "broken", "fd", "number", "room", "share"),
        *("strict", "synced"),
    )

    def __init__(self, strict: bool, share: Share = unshared) -> None:
        self.strict, self.share = strict, share
        self.fd = self.number = -1
        self.room = self.appended = self.synced = 0
        self.broken = ""
        self.back, self._usual = 0.0, 0.0
        self._guard = threading.RLock()  # a signal handler may put, too
        self._retired: list[int] = []
        self._looked = False
        self._maker: threading.Thread | None = None

    def use(self, fd: int, number: int) -> None:
        """Append to another segment from now on. What was before it is on disk: who sealed it saw to that."""
        room, before = os.fstat(fd).st_size, self.fd
        self.synced = self.appended
        # Before the other one is retired: it must not be closed while it is in use, whatever cuts in.
        self.fd, self.number, self.room, self._looked = fd, number, room, False
        if before >= 0:
            self._retired.append(before)
        if not self.strict:
            self._close_retired()

    def _close_retired(self) -> None:
        while self._retired:
            close_all([self._retired.pop()])

    def sync(self, token: int) -> None:
        """Return when so many of our records are on disk: one wait serves all who wait. Raises GitError."""
        with self._guard:
            if token <= self.synced:
                return
            if self.broken or self.fd < 0:
                raise GitError(
                    self.broken or "a record of the log of threads was appended before a fork: its own process syncs it"
                )
            upto, fd, began = self.appended, self.fd, perf_counter()
            self.back = began + _NEARLY * self._usual
            try:
                fdatasync(fd)
                spent = perf_counter() - began
                # At its best: of a disk that others use, some waits are a hundred times as long, and say nothing.
                self._usual = min(spent, 1.05 * self._usual) if self._usual else spent
            except OSError as error:
                self.broken = failed(error, "brought to disk").message
                raise GitError(self.broken) from None
            finally:
                self.back = 0.0
            if fd == self.fd:  # else another thread went on in the next segment, and this one is on disk
                self.synced = max(self.synced, upto)
            self._close_retired()

    def prepare(self, folder: str, oldest: int, *, strict: bool) -> None:
        """Make a file for the next segment ready in the background, unless there is one. Under the log's lock. Never raises:
        whoever needs the file makes it if this could not."""
        self._looked = True
        if self._maker is not None and self._maker.is_alive():
            return
        with contextlib.suppress(OSError, RuntimeError):  # no thread begins when the interpreter is about to end
            if not any(room >= self.room for room, _ in walfile.spare(folder, oldest)):
                maker = threading.Thread(target=_make, args=(folder, self.likely, strict, self.share), daemon=True)
                maker.start()
                self._maker = maker

    @property
    def due(self) -> bool:
        """Whether it is time to prepare the next segment."""
        return not self._looked

    @property
    def likely(self) -> int:
        """The bytes that the next segment should have: more where one was filled."""
        return min(max(4 * self.room, walfile.SMALL), walfile.LARGE)

    def rest(self) -> None:
        """Wait for what is done in the background."""
        if self._maker is not None:
            self._maker.join()

    def let_go(self) -> None:
        """Close the files, by numbers that are forgotten first: a child that is forked in between must not close others."""
        fds, self.fd, self.number, self.room = [*self._retired, self.fd], -1, -1, 0
        self._retired = []
        close_all(fds)


def close_all(fds: list[int]) -> None:
    """Close descriptors; those below zero are none."""
    for fd in fds:
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)


def _make(folder: str, size: int, sync: bool, share: Share) -> None:
    """Make a spare file; if it cannot be, who needs one says why."""
    with contextlib.suppress(OSError):
        name = f"{'free' if sync else 'loose'}-{os.urandom(6).hex()}"
        walfile.make(folder, os.path.join(folder, name), size, sync=sync, share=share, named=sync)
