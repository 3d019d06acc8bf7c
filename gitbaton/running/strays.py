"""Stray writes: what a command changed outside its step's write set; told, kept, and put back where asked."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence

from gitbaton.journal.values import Undeclared
from gitbaton.model import Oid
from gitbaton.running.context import Context, Workshop
from gitbaton.running.outputs import folders_of, put
from gitbaton.values import replace, value
from gitbaton.worktree.filesets import Files
from gitbaton.worktree.filetrees import LARGE, Entry, FileSet, is_safe
from gitbaton.worktree.filewatch import Stray, Strays
from gitbaton.worktree.globs import matcher

SHOWN = 10  # paths that a report names one by one


@value
class Outside:
    """What changed outside a write set. ``tree`` and ``after``: the images from before and from now, where there are any;
    ``strays``: what to put back in the work tree itself; None for a lane, with which it goes. Of a lane also the paths of which
    there is no image from now, the commit that was made in it and is on no branch, and whether it was removed as a whole."""

    found: tuple[Undeclared, ...] = ()
    tree: Oid | None = None
    strays: Strays | None = None
    after: Oid | None = None
    unkept: tuple[str, ...] = ()
    commit: Oid | None = None
    gone: bool = False


def in_place(ctx: Context, strays: Strays, meanwhile: Sequence[str]) -> Outside:
    """What changed in the work tree itself, whoever did it, but for what other steps that were at work ``meanwhile`` (globs)
    may write."""
    theirs = matcher(meanwhile)
    mine = tuple(s for s in strays.found if not theirs(s.path))
    found = tuple(Undeclared(path=s.path, before=s.before, after=s.after) for s in mine)
    before = {s.path: strays.before[s.path] for s in mine if s.path in strays.before}
    tree = strays.before_tree if len(before) == len(strays.before) else ctx.tree_of(before)
    after = {s.path: strays.after[s.path] for s in mine if s.path in strays.after}
    now = strays.after_tree if len(after) == len(strays.after) else ctx.tree_of(after)
    return Outside(found=found, tree=tree if before else None, strays=replace(strays, found=mine), after=now if after else None)


def in_lane(ctx: Context, shop: Workshop, matches: Callable[[str], bool]) -> Outside:
    """What changed in a lane; the images from before are those of the work tree, where it still has them."""
    commit, gone = shop.lane.commit(), shop.lane.gone
    strays = shop.lane.changed(matches)
    if not strays:
        return Outside(commit=commit, gone=gone)
    before = _images(ctx, ctx.files, [s for s in strays if s.before is not None])
    before = {s.path: before[s.path] for s in strays if s.path in before and before[s.path].oid == s.before}
    after = _images(ctx, shop.files, [s for s in strays if s.after is not None])
    return Outside(
        found=tuple(Undeclared(path=s.path, before=_oid(before, s.path), after=_oid(after, s.path)) for s in strays),
        tree=ctx.tree_of(before) if before else None,
        after=ctx.tree_of(after) if after else None,
        unkept=tuple(s.path for s in strays if s.after is not None and s.path not in after),
        commit=commit,
        gone=gone,
    )


def _images(ctx: Context, files: Files, strays: Sequence[Stray]) -> dict[str, Entry]:
    """Files as they are now, but for those that are too large or cannot be read."""
    stats = []
    for path in (stray.path for stray in strays if is_safe(stray.path)):
        full = os.path.join(files.root, path)
        try:
            found = os.lstat(full)
        except OSError:
            continue
        small = found.st_size <= min(ctx.baton.settings.max_file_size, LARGE)
        if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and small and os.access(full, os.R_OK)):
            stats.append((path, found))
    return files.take(stats)


def _oid(images: Mapping[str, Entry], path: str) -> Oid | None:
    return images[path].oid if path in images else None


def report(ctx: Context, step: str, outside: Outside, *, restore: bool) -> None:
    """Say what changed, and put it back where ``restore`` and it was in the work tree itself. Raises GitError."""
    strays = outside.strays
    if strays is None:
        _report_apart(ctx, step, outside)
        return
    for item in outside.found[:SHOWN]:
        ctx.emit("undeclared", step, item.path)
    if len(outside.found) > SHOWN:
        ctx.emit("undeclared", step, f"and {len(outside.found) - SHOWN} more")
    for path in strays.unkept[:SHOWN]:
        ctx.emit("warning", step, f"not kept: {path}")
    if not restore:
        return
    want = {s.path: strays.before.get(s.path) for s in strays.found if s.path not in strays.unkept}
    # Nobody noted which folders were empty before: all that are left stay.
    left = put(ctx.files, strays.after, want, keep=lambda: folders_of(want), modes=strays.modes)
    back = [path for path in want if path not in left]
    for path in back[:SHOWN]:
        also = " (what stood there is in the journal)" if path in strays.after else ""
        ctx.emit("orphan", step, f"put back: {path}{also}")
    if len(back) > SHOWN:
        ctx.emit("orphan", step, f"put back: {len(back) - SHOWN} more (what stood there is in the journal)")
    for path in (*left, *strays.unkept):
        ctx.emit("warning", step, f"'{path}' could not be put back")


def unmade(ctx: Context, step: str, before: FileSet, after: FileSet) -> None:
    """Say what of the outputs in a lane cannot be brought back, because no tree can hold it."""
    odd = sorted({*after.passed, *(f"{folder}/" for folder in after.folders)})
    known = {*before.passed, *(f"{folder}/" for folder in before.folders)}
    new = [path for path in odd if path not in known]
    if new:
        more = [f"and {len(new) - SHOWN} more"] if len(new) > SHOWN else []
        ctx.emit("warning", step, f"not brought back: {', '.join([*new[:SHOWN], *more])}")


def _report_apart(ctx: Context, step: str, outside: Outside) -> None:
    """Say what was done in a lane and stays there."""
    paths = [item.path for item in outside.found]
    if paths:
        more = [f"and {len(paths) - SHOWN} more"] if len(paths) > SHOWN else []
        ctx.emit("not-brought-back", step, ", ".join([*paths[:SHOWN], *more]))
    for path in outside.unkept[:SHOWN]:
        ctx.emit("warning", step, f"'{path}' is not kept: it is larger than baton.maxFileSize, or cannot be read")
    if len(outside.unkept) > SHOWN:
        ctx.emit("warning", step, f"nor are {len(outside.unkept) - SHOWN} more")
    if outside.commit is not None:
        ctx.emit("warning", step, f"made commits in its copy, which are on no branch: {outside.commit}")
