"""Parallel work: a map of many things in two processes, and work beside other work, where there are two processors."""

from __future__ import annotations

import fcntl
import marshal
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gitbaton.base.system.files import write_all
from gitbaton.base.values import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO, Any, TypeVar

    T = TypeVar("T")
    R = TypeVar("R")
MANY = 2000
"""Things from which on a second process pays."""
_GROUP, _MOST = 32, 1000  # things that are taken at a time, and how many groups there are: their numbers go into any pipe
_AHEAD = 1 << 20  # bytes that the copy may be ahead
_NUMBER = 4  # bytes of the number of a group


def mapped(
    work: Callable[[T], R],
    items: Sequence[T],
    least: int = MANY,
    *,
    before: Callable[[Sequence[T]], None] = lambda _: None,
    forked: Callable[[], None] = lambda: None,
) -> Iterator[R]:
    """Yield what ``work`` gives for each thing, in their order; of many, a copy of this process does those that it comes to
    first. What the copy does not give, for whatever reason, is done here.

    ``work`` changes nothing but what it remembers, and gives what ``marshal`` takes. ``before`` is called with some things
    that come next, and ``forked`` first of all in the copy.
    """

    def of_group(group: Sequence[T]) -> Iterator[R]:
        before(group)
        return map(work, group)

    if len(items) < least or not _may_copy():
        for at in range(0, len(items), _GROUP):
            yield from of_group(items[at : at + _GROUP])
        return
    size = max(_GROUP, -(-len(items) // _MOST))
    groups = [items[at : at + size] for at in range(0, len(items), size)]
    del items
    tickets, line = os.pipe()
    os.write(line, b"".join(number.to_bytes(_NUMBER, "big") for number in range(len(groups))))
    os.close(line)
    results, told = os.pipe()
    with suppress(OSError):
        fcntl.fcntl(told, fcntl.F_SETPIPE_SZ, _AHEAD)
    pid = _copied(lambda: _do(of_group, groups, tickets, told), forked, tickets, told)
    os.close(told)
    try:
        with os.fdopen(results, "rb") as theirs:
            done = 0
            while done < len(groups):
                mine = int.from_bytes(os.read(tickets, _NUMBER) or len(groups).to_bytes(_NUMBER, "big"), "big")
                own = list(of_group(groups[mine])) if mine < len(groups) else []  # meanwhile it does those before
                for number in range(done, mine):
                    found = _read(theirs)
                    yield from of_group(groups[number]) if found is None else found
                    groups[number] = ()
                yield from own
                if own:
                    groups[mine] = ()
                done = mine + 1
    finally:
        os.close(tickets)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@contextmanager
def beside(work: Callable[[], object], *, forked: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Run work beside the block, in a copy of this process that is waited for at its end; where none may be made, it is not
    done. ``forked`` as for ``mapped``."""
    pid = _copied(work, forked) if _may_copy() else None
    try:
        yield
    except BaseException:
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        if pid is not None:
            os.waitpid(pid, 0)


def _copied(work: Callable[[], object], forked: Callable[[], None], *kept: int) -> int | None:
    """Run a function in a copy of this process that has no open files but the standard ones and those ``kept``; return its id,
    None where no process can be made."""
    try:
        pid = os.fork()
    except OSError:
        return None
    if pid == 0:
        try:
            for ending in (signal.SIGINT, signal.SIGTERM):
                signal.signal(ending, signal.SIG_DFL)
            forked()
            first = 3  # else who waits for the end of a pipe here waits for the copy, too
            for end in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
                os.closerange(first, end)
                first = end + 1
            work()
        finally:
            os._exit(0)
    return pid


def _may_copy() -> bool:
    """Whether a copy pays, and may be made: where there are two processors, if that can be asked, and not beside threads, for
    it would wait for ever for what another one had locked."""
    threads = sys.modules.get("threading")
    alone = threads is None or threads.active_count() == 1
    return alone and hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1


def _do(work: Callable[[Sequence[T]], Iterator[R]], groups: Sequence[Sequence[T]], tickets: int, told: int) -> None:
    while ticket := os.read(tickets, _NUMBER):
        data = marshal.dumps([*work(groups[int.from_bytes(ticket, "big")])])
        write_all(told, len(data).to_bytes(_NUMBER, "big") + data)


def _read(theirs: IO[bytes]) -> Any:
    """Return what the copy did of its next group; None where it is gone."""
    size = int.from_bytes(theirs.read(_NUMBER), "big")
    data = theirs.read(size)
    return marshal.loads(data) if size and len(data) == size else None
