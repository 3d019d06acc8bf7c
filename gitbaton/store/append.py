"""Append to a chain of commits: its lock, a compare-and-swap of its ref, and retries for a bounded time after a lost race.

Tracks, safety checkpoints, runs and conversations grow by this. A caller says how the next commit is built, which lock it
takes, and what a lost race means.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from gitbaton.errors import GitError, RefConflictError
from gitbaton.git.binary import clear_stale_locks
from gitbaton.git.repo import Repo
from gitbaton.model import Oid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")
Guard = AbstractContextManager[None]
RETRY_SECONDS = 8.0
STALE_SECONDS = 10.0  # after which a lock file beside a ref is that of a killed process


def append_to(
    repo: Repo,
    refs: tuple[str, ...],
    once: Callable[[Guard], T],
    *,
    seconds: float,
    lock: Callable[[], Guard] = nullcontext,
    ahead: int = 0,
    pauses: tuple[float, float] = (0.005, 0.5),
    stale: float = STALE_SECONDS,
    lost: tuple[str, ...] = (),
) -> T:
    """Append to the chain at ``refs``; what ``once`` gives. That is one attempt: it looks at the tip, builds the next commit
    upon it and moves the ref by compare-and-swap. While another writer is in the way it is made again, for some seconds.

    ``lock`` is held for each attempt; without one the caller holds its own all along. The first attempts that are ``ahead``
    build without it, and enter the guard that ``once`` is given to move the ref. ``pauses``: seconds between attempts, the
    first and the longest; ``stale``: seconds after which a lock file beside the refs is removed, by the second attempt or a
    later one. Raises RefConflictError, with ``lost`` before what it says and then as hints; and as ``once`` and ``lock``.
    """
    deadline, pause, number = time.monotonic() + seconds, pauses[0], 0
    while True:
        guard = _guard(repo, refs if number else (), lock, stale)
        try:
            if number < ahead:
                return once(guard)
            with guard:
                return once(nullcontext())
        except RefConflictError as error:
            if number >= ahead and time.monotonic() >= deadline:
                if not lost:
                    raise
                raise RefConflictError(f"{lost[0]}: {error.message}", *lost[1:]) from None
        time.sleep(pause)
        pause, number = min(pause * 2, pauses[1]), number + 1


@contextmanager
def _guard(repo: Repo, refs: tuple[str, ...], lock: Callable[[], Guard], stale: float) -> Iterator[None]:
    """The lock of an attempt, under which alone a stale lock file may go."""
    with lock():
        clear_stale_locks(repo.layout.common_dir, refs, stale)
        yield


def landed(move: Callable[[], None], tip: Callable[[], Oid | None], commit: Oid) -> bool:
    """Move the ref of a chain to a commit; whether all went well. After an error a look at the ``tip`` tells whether the commit
    is recorded all the same: then it is False. Raises as ``move`` where it is not."""
    try:
        move()
    except (RefConflictError, GitError):
        if tip() != commit:
            raise
        return False
    return True
