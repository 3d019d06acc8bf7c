"""Serving a recorded result: its write set is restored, and what others wrote there is kept."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.errors import BatonError
from gitbaton.journal.state import StepState
from gitbaton.journal.values import Logged, Step, Writes
from gitbaton.model import Oid
from gitbaton.running.context import Context
from gitbaton.running.decide import Present
from gitbaton.running.launching import idempotency_key
from gitbaton.running.recorded import beginning, taken_over
from gitbaton.running.results import CONFLICT, Done
from gitbaton.running.writeset import (
    differences,
    digests_of,
    in_the_way,
    owners,
    put,
    same,
    standing,
    told,
    tree_of,
    trees_of,
    with_theirs,
)
from gitbaton.values import replace, value
from gitbaton.worktree.filesets import Entry, FileSet, unmatched


@value
class Materials:
    """What must be done so that a write set is as recorded. ``want``: the files to write, or remove; ``edited``: paths at which
    stands what somebody else wrote; ``absent``: files that are recorded by digest and are not there."""

    want: Mapping[str, Entry | None]
    edited: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def materials(now: Mapping[str, Entry], result: Mapping[str, Entry], ours: Collection[str]) -> Materials:
    """What differs between the write set and a recorded result: versions of ours (at these paths) are replaced or removed,
    files that nobody knows are left where the result has none."""
    want: dict[str, Entry | None] = {}
    edited, absent = [], []
    block = in_the_way([path for path in now if path not in result and path not in ours], result)
    for path, entry in differences(now, result).items():
        there = now.get(path)
        if entry is not None and entry.digest:
            absent.append(path)
        elif there is None or path in ours:
            want[path] = entry
        elif entry is not None or path in block:
            edited.append(path)
    return Materials(want=want, edited=tuple(edited), absent=tuple(absent))


def ours_of(ctx: Context, step: str, state: StepState | None, files: Mapping[str, Entry]) -> frozenset[str]:
    """Of files that lie in a step's write set, the paths at which stands a version that we made."""
    first = state is None or state.first_pre is None  # then what lies there may be a version of another run's
    ours = made_anywhere(ctx, step, files) if first else owners(ctx, step, state, files).ours
    return ours - ctx.files.outward(files.values()).keys()


def serve(ctx: Context, step: Step, now: Present, state: StepState | None, logged: Logged) -> Done | None:
    """Make the write set equal to a recorded result of this key. None where that cannot be: a file of it is kept by digest only
    and is not there. Raises GitError."""
    found = ctx.files.scan(step.writes, store=step.store)
    ctx.know(found.tree, found.entries)
    result = result_of(ctx, logged)
    if (logged.record.effect or "none") == "none":
        undeclared = step.on_undeclared == "fail" and logged.record.undeclared
        if undeclared or (not step.allow_empty and unmatched(step.writes, {*result, *found.entries})):
            return None  # an attempt with this result would be a failure as the step is asked for now
    here = logged.record.run == ctx.run
    other = {path: entry for path, entry in found.entries.items() if not same(entry, result.get(path))}
    todo = materials(found.entries, told(ctx, result, found.entries), ours_of(ctx, step.name, state, other))
    if todo.absent:
        return None
    if todo.edited and ctx.take is None:
        return conflict(ctx, step, now.key, found, todo.edited)
    if todo.edited:
        keep_theirs(ctx, step, now.key, found, todo.edited)
    pre = ctx.step_state(step.name)
    if not here or pre is None or pre.end is None or pre.end.commit != logged.commit or (todo.edited and ctx.take == "theirs"):
        logged = _rerecorded(ctx, step, now, found, logged, todo, here)
    if ctx.take == "ours":
        want = {**todo.want, **{p: result.get(p) for p in todo.edited}}
    else:
        block = in_the_way(todo.want, todo.edited)
        want = {p: e for p, e in todo.want.items() if p not in block}
    left = put(ctx.files, found.entries, want, point="in-materialize", keep=lambda: standing(ctx, step.name))
    if left:
        return conflict(ctx, step, now.key, found, left)
    ctx.emit("cached", step.name, f"cached {now.key[:7]}", code=0, key=now.key, logged=logged)
    _say_what_is_missing(ctx, step, logged)
    return Done(step=step, state="cached", logged=logged)


def _say_what_is_missing(ctx: Context, step: Step, logged: Logged) -> None:
    """Say so where the output that is shown again is not all that there was."""
    record = logged.record
    for name, said, noun in (("stdout", record.stdout, "output"), ("stderr", record.stderr, "error output")):
        found = ctx.objects.info(logged.parts[name]) if said is not None and name in logged.parts else None
        if said is None or found is None:
            continue
        if said.cut:
            ctx.emit("warning", step.name, f"its {noun} was {said.bytes} bytes long; only the last {found.size} are kept")
        elif found.size != said.bytes:
            ctx.emit("warning", step.name, f"secrets were taken out of its {noun}")


def result_of(ctx: Context, logged: Logged) -> Mapping[str, Entry]:
    """The files of a recorded result."""
    writes = logged.record.writes
    return ctx.entries(writes.tree, digests_of(logged.record)) if writes is not None and writes.tree is not None else {}


def _rerecorded(ctx: Context, step: Step, now: Present, found: FileSet, logged: Logged, todo: Materials, here: bool) -> Logged:
    """The result as the newest one of this run: of another run, or an older one, or with what somebody else wrote in it."""
    result = result_of(ctx, logged)
    text = f"served from record {logged.record.seq} of run '{logged.record.run}'"
    if todo.edited and ctx.take == "theirs":
        result = with_theirs(result, {path: found.entries[path] for path in todo.edited})
        text = "what somebody else wrote is taken as its output"
    tree = tree_of(ctx, result)
    record = logged.record
    writes = replace(record.writes, tree=tree) if record.writes else Writes(globs=(), pre=tree, tree=tree)
    begin = beginning(
        ctx,
        step,
        now,
        idem=record.idem if here and record.idem else idempotency_key(ctx, step.name, now.key),
        attempt=1,
        writes=Writes(globs=step.writes, pre=found.tree, digests=found.digests, folders=found.folders),
        isolation="none",
        cause=None,
    )
    begin = replace(begin, effect=record.effect, compensate=record.compensate if here else begin.compensate)
    changed = replace(logged, record=replace(record, writes=writes))
    return taken_over(ctx, changed, begin, text, nondeterministic=bool(todo.edited and ctx.take == "theirs"))


def conflict(ctx: Context, step: Step, key: str, found: FileSet, paths: Sequence[str]) -> Done:
    """Somebody else wrote where an output stands: theirs is kept in the journal, both are left as they are."""
    logged = keep_theirs(ctx, step, key, found, paths)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    text = f"'{paths[0]}'{more} is an output of step '{step.name}', and somebody else wrote it; --take ours|theirs decides"
    ctx.emit("conflict", step.name, text, code=CONFLICT, key=key)
    return Done(step=step, state="conflict", code=CONFLICT, logged=logged, text=text)


def stored(ctx: Context, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Files with their bytes in the store, also where they were recorded by digest, but for those that are too large."""
    found = []
    for path in (path for path, entry in entries.items() if entry.digest):
        with suppress(OSError):
            found.append((path, os.lstat(os.path.join(ctx.root, path))))
    return {**entries, **ctx.files.take(found)}


def keep_theirs(ctx: Context, step: Step, key: str, found: FileSet, paths: Sequence[str]) -> Logged | None:
    """Store what somebody else wrote as the orphan of an abort, unless the newest one holds it; None where nothing is there."""
    theirs = stored(ctx, {path: found.entries[path] for path in paths if path in found.entries})
    tree = tree_of(ctx, theirs)
    last = next(reversed(ctx.of_step(step.name)), None)
    if last is not None and last.record.type == "abort" and last.parts.get("orphan") == tree:
        return last
    text = "somebody else wrote " + ", ".join(f"'{path}'" for path in sorted(paths)[:10])
    return ctx.append(ctx.record("abort", step.name, key=key, text=text), trees={"orphan": tree})


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
