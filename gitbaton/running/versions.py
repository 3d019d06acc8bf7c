"""Versions of a step's files that other runs of this repository made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gitbaton.errors import BatonError
from gitbaton.model import Oid
from gitbaton.running.context import Context
from gitbaton.running.writeset import same, trees_of
from gitbaton.worktree.filesets import Entry


def made_anywhere(ctx: Context, step: str, files: Mapping[str, Entry]) -> frozenset[str]:
    """The paths at which stands a version that a step of this name made in any run of this repository."""
    left, found = dict(files), set()
    for tree in _everywhere(ctx, step) if left else ():
        known = ctx.entries(tree)
        for path in [path for path, entry in left.items() if same(entry, known.get(path))]:
            found.add(path)
            del left[path]
        if not left:
            break
    return frozenset(found)


def _everywhere(ctx: Context, step: str) -> Iterator[Oid]:
    done = set()
    for run in ctx.journal.names():
        try:
            records = ctx.journal.records(run)
        except BatonError:  # a run that cannot be read has made nothing
            continue
        for tree in trees_of([lg for lg in records if lg.record.step == step and not lg.foreign]):
            if tree not in done:
                done.add(tree)
                yield tree
