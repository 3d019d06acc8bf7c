"""LATEST in every work tree and directory that it was written to: what was removed must not stay there."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gitbaton import mirror
from gitbaton.baton import Baton
from gitbaton.errors import BatonError, UsageError
from gitbaton.git import questions


def places(baton: Baton, root: str) -> Iterator[mirror.Place]:
    """Where LATEST may lie in the work tree at ``root``: as this Baton has it, and wherever info/exclude names it."""
    where = baton.latest
    found = [mirror.at(where, root)] if where is not None else []
    for inside in mirror.listed(baton.repo):
        found.append(mirror.Place(directory=os.path.normpath(os.path.join(root, inside)), inside=inside, root=root))
    yield from dict.fromkeys(found)


def refresh(baton: Baton) -> list[str]:
    """Bring all LATEST files of ours in line with the tracks; where there are none, none are made. What could not be written,
    and why, comes back."""
    said: list[str] = []
    for prefix, _, root in questions.worktrees(baton.repo):
        try:
            said += _refresh(baton, root) if root else []
        except (BatonError, OSError) as error:
            said.append(f"the LATEST files of '{prefix.rstrip('/')}' are not written: {error}")
    return said


def _refresh(baton: Baton, root: str) -> list[str]:
    said: list[str] = []
    with Baton(root, door="binary", clock=baton.clock) as there:
        for where in dict.fromkeys([*([there.latest] if there.latest else []), *places(baton, root)]):
            if not mirror.has_files(where):
                continue
            try:
                mirror.place(there.repo, where.inside or where.directory)
            except UsageError:  # what stands there is not ours
                continue
            if mirror.foreign(where) or questions.tracked(there.repo, where.paths()):
                continue
            with Baton(repo=there.repo, checkpoint_dir=where.inside or where.directory, clock=baton.clock) as one:
                said += one.refresh(only_existing=True)
    return said
