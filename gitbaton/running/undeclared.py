"""What a command changed outside its write set: found, kept as it was before, put back where that is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from gitbaton.git.filesets import Entry
from gitbaton.git.filewatch import Stray, Strays
from gitbaton.git.globs import matcher
from gitbaton.journal.values import Undeclared
from gitbaton.model import Oid
from gitbaton.running.context import Context, Workshop
from gitbaton.running.writeset import folders_of, put, tree_of
from gitbaton.values import replace, value

SHOWN = 10


@value
class Outside:
    """What changed outside a write set. ``tree``: the images from before, where there are any; ``strays``: what to put back in
    the work tree itself; None for a lane, with which it goes."""

    found: tuple[Undeclared, ...] = ()
    tree: Oid | None = None
    strays: Strays | None = None


def in_place(ctx: Context, strays: Strays, meanwhile: Sequence[str]) -> Outside:
    """What changed in the work tree itself, whoever did it, but for what other steps that were at work ``meanwhile`` (globs)
    may write."""
    theirs = matcher(meanwhile)
    mine = tuple(s for s in strays.found if not theirs(s.path))
    found = tuple(Undeclared(path=s.path, before=s.before, after=s.after) for s in mine)
    before = {s.path: strays.before[s.path] for s in mine if s.path in strays.before}
    tree = strays.before_tree if len(before) == len(strays.before) else tree_of(ctx, before)
    return Outside(found=found, tree=tree if before else None, strays=replace(strays, found=mine))


def in_lane(ctx: Context, shop: Workshop, matches: Callable[[str], bool]) -> Outside:
    """What changed in a lane; the images from before are those of the work tree, where it still has them."""
    strays = shop.lane.changed(matches)
    if not strays:
        return Outside()
    before = _images(ctx, [s for s in strays if s.before is not None])
    images = {s.path: before[s.path] for s in strays if s.path in before and before[s.path].oid == s.before}
    found = [Undeclared(path=s.path, before=s.before if s.path in images else None, after=s.after) for s in strays]
    return Outside(found=tuple(found), tree=tree_of(ctx, images) if images else None)


def _images(ctx: Context, strays: Sequence[Stray]) -> Mapping[str, Entry]:
    stats = []
    for stray in strays:
        try:
            stats.append((stray.path, os.lstat(os.path.join(ctx.root, stray.path))))
        except OSError:
            continue
    return ctx.files.take(stats)


def report(ctx: Context, step: str, outside: Outside, *, restore: bool) -> None:
    """Say what changed, and put it back where ``restore`` and it was in the work tree itself. Raises GitError."""
    for item in outside.found[:SHOWN]:
        ctx.emit("undeclared", step, item.path)
    if len(outside.found) > SHOWN:
        ctx.emit("undeclared", step, f"and {len(outside.found) - SHOWN} more")
    strays = outside.strays
    if strays is None or not restore:
        return
    want = {s.path: strays.before.get(s.path) for s in strays.found if s.path not in strays.unkept}
    # Nobody noted which folders were empty before: all that are left stay.
    for path in (*put(ctx.files, strays.after, want, keep=lambda: folders_of(want)), *strays.unkept):
        ctx.emit("warning", step, f"'{path}' could not be put back")
