"""A step's write set: what lies there, whose it is, how it gets there; and what a command changed outside it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from gitbaton.git.objects import new_object
from gitbaton.journal.crash import crash_at
from gitbaton.journal.state import StepState
from gitbaton.journal.values import Logged, Record, Step, Undeclared, Writes
from gitbaton.model import Oid
from gitbaton.running.context import Context, Workshop
from gitbaton.values import replace, value
from gitbaton.worktree.fileread import LARGE
from gitbaton.worktree.filesets import Entry, Files, FileSet, swap, write_tree
from gitbaton.worktree.filetrees import LINK, is_safe, marked
from gitbaton.worktree.filewatch import Stray, Strays
from gitbaton.worktree.globs import matcher

MAX_LINK = 1 << 20
SHOWN = 10  # paths that a report names one by one


@value
class WriteSet:
    """What a step's write globs match. ``now``: in the work tree, and again after a failure; ``pre``: what its command is to
    find, as before the step ever ran; ``others``: paths that no version of ours stood at, left alone; ``edited``: paths of ours
    at which stands what somebody else wrote."""

    now: FileSet
    pre: Mapping[str, Entry]
    others: frozenset[str] = frozenset()
    edited: tuple[str, ...] = ()


@value
class Owners:
    """Of files that lie in a write set: the paths at which stands a version of ours, and those at which, or above or below
    which, one ever stood."""

    ours: frozenset[str]
    seen: frozenset[str]


@value
class Collected:
    """What a command left in its write set: the files that are its outputs, their tree, and what it deleted."""

    found: FileSet
    outputs: Mapping[str, Entry]
    tree: Oid
    deleted: tuple[str, ...]


def same(one: Entry | None, other: Entry | None) -> bool:
    """Whether two files are equal: both missing, or of the same mode and content."""
    if one is None or other is None:
        return one is other
    return one.oid == other.oid and one.mode == other.mode


def differences(have: Mapping[str, Entry], want: Mapping[str, Entry]) -> dict[str, Entry | None]:
    """What must be written (or removed: None) to make one set of files the other."""
    return {path: want.get(path) for path in sorted(have.keys() | want.keys()) if not same(have.get(path), want.get(path))}


def tree_of(ctx: Context, entries: Mapping[str, Entry], *like: FileSet) -> Oid:
    """The tree of files; that of ``like`` where it has the same ones, else a new one is written."""
    for item in like:
        if len(item.entries) == len(entries) and not differences(item.entries, entries):
            return item.tree
    tree = write_tree(ctx.objects, entries)
    ctx.know(tree, entries)
    return tree


def owners(ctx: Context, step: str, state: StepState | None, files: Mapping[str, Entry]) -> Owners:
    """Whose these files are, by every version that the journal has of the step's own: outputs, what an attempt left, what was
    there before the first. The newest are looked at first."""
    left, ours = dict(files), set()
    seen: set[str] = set()
    trees = [*trees_of(ctx.of_step(step))]
    if state is not None and state.first_pre is not None:
        trees.append(state.first_pre)
    for number, tree in enumerate(dict.fromkeys(trees)):
        if not left:
            break
        known = ctx.entries(tree)
        seen |= {path for path in left if _above(path, known)} if number else in_the_way(left, known)
        for path in [path for path in left if path in known]:
            seen.add(path)
            if same(left[path], known[path]):
                ours.add(path)
                del left[path]
    return Owners(ours=frozenset(ours), seen=frozenset(seen))


def in_the_way(paths: Iterable[str], known: Collection[str]) -> set[str]:
    """The paths where a file of a set is to have a folder, or that lie below where it is to have a file."""
    folders = folders_of(known)
    return {path for path in paths if path in folders or _above(path, known)}


def _above(path: str, known: Collection[str]) -> bool:
    while path := path.rpartition("/")[0]:
        if path in known:
            return True
    return False


def trees_of(records: Sequence[Logged]) -> Iterator[Oid]:
    """The trees of what a step left, by its records, newest first. An abort without an idempotency key keeps what somebody
    else wrote."""
    for logged in reversed(records):
        theirs = logged.record.type == "abort" and logged.record.idem is None
        yield from (logged.parts[name] for name in ("writes", "orphan") if name in logged.parts and not theirs)


def look(ctx: Context, step: Step, state: StepState | None) -> WriteSet:
    """What lies in a step's write set now, and what its command is to find there. Raises GitError."""
    now = ctx.files.scan(step.writes, store=step.store)
    ctx.know(now.tree, now.entries)
    away = frozenset(ctx.files.outward(now.entries.values()))  # no step made them: they are somebody's own
    if state is None or state.first_pre is None:
        return WriteSet(now=now, pre=now.entries, others=away)
    owned = owners(ctx, step.name, state, now.entries)
    found = sort_out(now, before_first(ctx, state.first_pre, now.entries), owned, matches(step, state))
    pre = {**found.pre, **{path: now.entries[path] for path in away}}
    edited = tuple(path for path in found.edited if path not in away)
    return replace(found, pre=pre, others=found.others | away, edited=edited) if away else found


def told(ctx: Context, result: Mapping[str, Entry], now: Mapping[str, Entry]) -> dict[str, Entry]:
    """A set of files whose entries say, where they are not so now, whether they are recorded by digest only."""
    other = {path: entry for path, entry in result.items() if not same(entry, now.get(path))}
    return {**result, **{path: entry for path, entry in marked(ctx.objects, other).items() if entry is not None}}


def before_first(ctx: Context, tree: Oid, now: Mapping[str, Entry]) -> dict[str, Entry]:
    """What was there before the first attempt. Where the journal has no more of it than a digest, what lies there now is to
    stay: nothing can give the other back."""
    first = told(ctx, ctx.entries(tree), now)
    lost = {path for path, entry in first.items() if entry.digest and not same(entry, now.get(path))}
    return {
        path: now.get(path, entry) if path in lost else entry
        for path, entry in first.items()
        if path not in lost or path in now
    }


def matches(step: Step, state: StepState) -> bool:
    """Whether the step's first beginning was with the write globs of now."""
    first = state.ends[0] if state.ends else state.failed or state.begun
    return first is None or first.record.writes is None or first.record.writes.globs == step.writes


def sort_out(now: FileSet, first: Mapping[str, Entry], owned: Owners, whole: bool = True) -> WriteSet:
    """Tell whose each file is. ``first``: what was there before the step ever ran, which its command finds again; ``whole``:
    ``first`` was seen through the same globs."""
    pre: dict[str, Entry] = {}
    others, edited = set(), []
    for path in sorted(now.entries.keys() | (first.keys() if whole else set())):
        entry, was = now.entries.get(path), first.get(path)
        if entry is not None and path not in owned.ours:
            if path in owned.seen:
                edited.append(path)
            else:
                others.add(path)
            pre[path] = entry
        elif was is not None:
            pre[path] = was
    return WriteSet(now=now, pre=pre, others=frozenset(others), edited=tuple(edited))


def marks(root: str, paths: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """What the file system says of files, to see later whether a command wrote them, if only the same again."""
    found: dict[str, tuple[int, ...]] = {}
    for path in paths:
        try:
            stat = os.lstat(os.path.join(root, path))
            found[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        except OSError:
            continue
    return found


def collect(
    ctx: Context,
    step: Step,
    files: Files,
    before: WriteSet,
    untouched: Collection[str] = (),
    keep: Iterable[str] = (),
    *,
    inside: bool = True,
) -> Collected:
    """What a command left. The files of somebody else's that it did not touch are none of its outputs, and at the paths
    ``keep`` stays what was there. Raises GitError, ``inside`` also for a symbolic link that leads out of the work tree."""
    found = files.scan(step.writes, store=step.store, inside=inside, but=before.now.entries)
    outputs = {path: entry for path, entry in found.entries.items() if path not in untouched}
    outputs |= _at_home(ctx, files.root, outputs) if files.root != ctx.root else {}
    outputs = with_theirs(outputs, {path: before.now.entries.get(path) for path in keep})
    tree = tree_of(ctx, outputs, found, before.now)
    ctx.know(tree, outputs)
    deleted = tuple(p for p in before.pre if p not in outputs and p not in before.others)
    return Collected(found=found, outputs=outputs, tree=tree, deleted=deleted)


def _at_home(ctx: Context, root: str, outputs: Mapping[str, Entry]) -> dict[str, Entry]:
    """The symbolic links that lead by an absolute path into the lane at ``root``, as they lead to the same place in the work
    tree."""
    links = [entry for entry in outputs.values() if entry.mode == LINK]
    here, there = os.fsencode(root), os.fsencode(ctx.root)
    found = {}
    for entry, item in zip(links, ctx.objects.read_many([entry.oid for entry in links], MAX_LINK), strict=True):
        data = item.data if item is not None and item.data is not None else b""
        if data == here or data.startswith(here + b"/"):
            blob = new_object(ctx.objects.algorithm, "blob", there + data[len(here) :])
            ctx.objects.write([blob])
            found[entry.path] = replace(entry, oid=blob.oid)
    return found


def with_theirs(ours: Mapping[str, Entry], theirs: Mapping[str, Entry | None]) -> dict[str, Entry]:
    """Outputs with what somebody else wrote, or removed, in their place: a file of theirs also takes that of a folder."""
    kept = {path: entry for path, entry in theirs.items() if entry is not None}
    gone = in_the_way([path for path in ours if path not in theirs], kept) if kept else set()
    return {path: entry for path, entry in ours.items() if path not in theirs and path not in gone} | kept


def writes(ctx: Context, step: Step, before: WriteSet, after: Collected | None = None) -> Writes:
    """What a record says of a write set."""
    sets = (before.now, after.found) if after else (before.now,)
    return Writes(
        globs=step.writes,
        pre=before.now.tree,
        tree=after.tree if after else None,
        deleted=after.deleted if after else (),
        digests=tuple(sorted({path for item in sets for path in item.digests})),
        folders=() if after else before.now.folders,
    )


def standing(ctx: Context, step: str) -> frozenset[str]:
    """The folders that were there before a step first began: they stay when nothing is left in them."""
    state = ctx.step_state(step)
    if state is None or state.first_pre is None:
        return frozenset()
    return folders_of((*ctx.entries(state.first_pre), *(f"{folder}/" for folder in state.first_folders)))


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Every folder above these paths, but for the top."""
    found: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return frozenset(found)


def put(
    files: Files,
    have: Mapping[str, Entry],
    want: Mapping[str, Entry | None],
    *,
    point: str | None = None,
    source: str | None = None,
    keep: Callable[[], Collection[str]] = frozenset,
    modes: Mapping[str, int] = MappingProxyType({}),
) -> tuple[str, ...]:
    """Make the files at the paths of ``want`` so, where what is there is still that of ``have``; the paths left alone because
    it is not. ``point``: where a test kills this process after the first file; ``source``: where the files were made; ``keep``:
    folders that stay when they become empty; ``modes``: permissions of files that had others before. Raises GitError."""
    if not want:
        return ()
    between = (lambda: crash_at(point)) if point is not None else None
    expect = {path: have.get(path) for path in want}
    stay = keep() if None in want.values() else ()
    return swap(files.repo, files.root, want, expect, between=between, source=source, files=files, keep=stay, modes=modes)


def kept(number: int, what: str) -> str:
    """``2 files that it left are kept in the journal``."""
    return f"{number} file{'' if number == 1 else 's'} {what} {'is' if number == 1 else 'are'} kept in the journal"


def digests_of(record: Record) -> tuple[str, ...]:
    """The paths that a record keeps by digest only."""
    return record.writes.digests if record.writes else ()


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
    tree = strays.before_tree if len(before) == len(strays.before) else tree_of(ctx, before)
    after = {s.path: strays.after[s.path] for s in mine if s.path in strays.after}
    now = strays.after_tree if len(after) == len(strays.after) else tree_of(ctx, after)
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
        tree=tree_of(ctx, before) if before else None,
        after=tree_of(ctx, after) if after else None,
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
