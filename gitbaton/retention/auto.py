"""Automatic prune, once its process runs: whether it pays, its lock and its log. The rule is rules.keep_auto."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from gitbaton.baton import Baton
from gitbaton.codec import plain, timestamp
from gitbaton.errors import MENDS, BatonError, GitError
from gitbaton.git.repo import Repo, add, lock_file
from gitbaton.retention.pruning import prune
from gitbaton.retention.rules import AUTO_LAST, Wish
from gitbaton.system.files import acquire


def run(place: str) -> None:
    """Prune the repository whose git directory is ``place``, and no other one around it, unless another process is at it or
    there is nothing to gain. Never raises; what went wrong, and what was removed, is in ``<common dir>/baton/log``."""
    try:
        with Baton(place, door="binary") as baton:
            if os.path.realpath(baton.repo.layout.git_dir) != os.path.realpath(place):
                return
            with alone(baton.repo) as free:
                if said := work(baton) if free and slack(baton) else "":
                    line = f"{timestamp(datetime.now(UTC))} {plain(said)}\n".encode("utf-8", "replace")
                    add(baton.repo, os.path.join(baton.repo.shared_dir, "log"), line)
    except (BatonError, OSError):
        return


def slack(baton: Baton) -> bool:
    """Whether any track is so long that something could go; one whose newest commit cannot be read has nothing to give."""
    for oid in baton.store.chains()[0].values():
        with suppress(GitError):
            if len(baton.repo.objects.first_parents(oid, AUTO_LAST + 2)) > AUTO_LAST + 1:
                return True
    return False


def work(baton: Baton) -> str:
    """Prune, and say in one line what came of it and what was left alone; nothing where nothing went."""
    try:
        made = prune(baton, Wish(auto=True))
    except (BatonError, OSError) as error:
        return f"automatic prune: {error}"
    parts = [f"{len(part.remove)} of '{plain(part.track)}'" for part in made.tracks if part.remove]
    left = [f"'{plain(ref)}' is left alone: {why}" for ref, why in made.broken.items()]
    said = [f"removed {', '.join(parts)}"] if parts else []
    return f"automatic prune: {'; '.join([*said, *left, MENDS] if left else said)}" if said or left else ""


@contextmanager
def alone(repo: Repo) -> Iterator[bool]:
    """Whether this is the only process that prunes so; nobody is waited for."""
    fd = lock_file(repo, os.path.join(repo.shared_dir, "pruning"))
    try:
        yield acquire(fd)
    finally:
        os.close(fd)
