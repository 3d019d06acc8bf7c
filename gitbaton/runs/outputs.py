"""Outputs of a step: files of its write set, own and foreign, put in place and served from a record."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import umask
from gitbaton.base.values import replace, value
from gitbaton.git.objects import new_object
from gitbaton.git.worktree.filesets import Files, swap, unmatched
from gitbaton.git.worktree.filetrees import LINK, FileEntry, FileSet, differences, is_safe, marked, same
from gitbaton.git.worktree.globs import above
from gitbaton.git.worktree.heldbytes import HeldStore
from gitbaton.git.worktree.modes import ALL, NOTHING, Modes, arrange, narrow
from gitbaton.runs.context import CONFLICT, Context, Done, crash_at, idempotency_key
from gitbaton.runs.decide import Present
from gitbaton.runs.journal.state import StepState
from gitbaton.runs.journal.values import Cause, Logged, Record, Step, Writes

MAX_LINK = 1 << 20


@value
class WriteSet:
    """Files that a step's write globs match. ``now``: in the work tree, and again after a failure; ``pre``: what its
    command is to find, as before the step ever ran; ``others``: paths that no version of ours stood at, left alone;
    ``edited``: paths of ours at which a foreign file stands; ``bare``: the empty folders that it did not make."""

    now: FileSet
    pre: Mapping[str, FileEntry]
    others: frozenset[str] = frozenset()
    edited: tuple[str, ...] = ()
    modes: Modes = NOTHING
    bare: frozenset[str] = frozenset()


@value
class Collected:
    """Files that a command left in its write set: the files that are its outputs, their tree and permissions, and what it
    deleted."""

    found: FileSet
    outputs: Mapping[str, FileEntry]
    tree: Oid
    deleted: tuple[str, ...]
    modes: Modes


def owners(ctx: Context, trees: Iterable[Oid], files: Mapping[str, FileEntry]) -> tuple[set[str], set[str]]:
    """Classify files as produced by a recorded version (``trees``, the newest first) or foreign: return the paths at which
    stands a version of ours, and those at which, or above or below which, one ever stood."""
    left, ours = dict(files), set[str]()
    seen: set[str] = set()
    done: set[Oid] = set()
    for tree in trees if left else ():
        if tree not in done:
            known = ctx.entries(tree)
            seen |= {path for path in left if not known.keys().isdisjoint(above(path))} if done else in_the_way(left, known)
            for path in [path for path in left if path in known]:
                seen.add(path)
                if same(left[path], known[path]):
                    ours.add(path)
                    del left[path]
            done.add(tree)
        if not left:
            break
    return ours, seen


def versions(state: StepState) -> Iterator[Oid]:
    """The trees of every version that the journal has of a step's own: outputs, what an attempt left, what was there before
    the first."""
    yield from trees_of(state.records)
    if state.first_pre is not None:
        yield state.first_pre


def in_the_way(paths: Iterable[str], known: Collection[str]) -> set[str]:
    """The paths where a file of a set is to have a folder, or that lie below where it is to have a file."""
    folders = folders_of(known)
    return {path for path in paths if path in folders or any(folder in known for folder in above(path))}


def trees_of(records: Sequence[Logged]) -> Iterator[Oid]:
    """Yield the trees of what a step left, by its records, newest first. An abort without an idempotency key keeps foreign
    files."""
    for logged in reversed(records):
        theirs = logged.record.type == "abort" and logged.record.idem is None
        yield from (logged.parts[name] for name in ("writes", "orphan") if name in logged.parts and not theirs)


def look(ctx: Context, step: Step, state: StepState) -> WriteSet:
    """Return the write set of a step now, and what its command is to find there. Raises GitError."""
    now = ctx.files.scan(step.writes, store=step.store)
    ctx.know(now.tree, now.entries)
    modes = narrow(ctx.root, (), now.modes)
    away = frozenset(ctx.files.outward(now.entries.values()))  # no step made them: they are somebody's own
    bare = frozenset(now.folders) - own_folders(state)
    if state.first_pre is None:
        return WriteSet(now=now, pre=now.entries, others=away, modes=modes, bare=bare)
    ours, seen = owners(ctx, versions(state), now.entries)
    found = sort_out(now, before_first(ctx, state.first_pre, now.entries), ours, seen, matches(step, state))
    found = replace(found, modes=modes, bare=bare)
    pre = {**found.pre, **{path: now.entries[path] for path in away}}
    edited = tuple(path for path in found.edited if path not in away)
    return replace(found, pre=pre, others=found.others | away, edited=edited) if away else found


def told(ctx: Context, result: Mapping[str, FileEntry], now: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """Return a set of files whose entries say, where they are not so now, whether they are recorded by digest only."""
    other = {path: entry for path, entry in result.items() if not same(entry, now.get(path))}
    held = HeldStore(ctx.baton.repo).has
    return {**result, **{path: entry for path, entry in marked(ctx.objects, other, held).items() if entry is not None}}


def before_first(ctx: Context, tree: Oid, now: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """Return what was there before the first attempt. Where the journal has no more of it than a digest, what lies there
    now is to stay: nothing can give the other back."""
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


def sort_out(
    now: FileSet, first: Mapping[str, FileEntry], ours: Collection[str], seen: Collection[str], whole: bool = True
) -> WriteSet:
    """Tell own files from foreign ones. ``first``: what was there before the step ever ran, which its command finds again;
    ``ours`` and ``seen`` as ``owners`` gives them; ``whole``: ``first`` was seen through the same globs."""
    pre: dict[str, FileEntry] = {}
    others, edited = set(), []
    for path in sorted(now.entries.keys() | (first.keys() if whole else set())):
        entry, was = now.entries.get(path), first.get(path)
        if entry is not None and path not in ours:
            if path in seen:
                edited.append(path)
            else:
                others.add(path)
            pre[path] = entry
        elif was is not None:
            pre[path] = was
    return WriteSet(now=now, pre=pre, others=frozenset(others), edited=tuple(edited))


def marks(root: str, paths: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Return the stat signature of files, to see later whether a command wrote them, if only the same again."""
    found: dict[str, tuple[int, ...]] = {}
    for path in paths:
        with suppress(OSError):
            stat = os.lstat(os.path.join(root, path))
            found[path] = (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
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
    """Return what a command left. Foreign files that it did not touch are none of its outputs, and at the paths ``keep``
    stays what was there. Raises GitError, ``inside`` also for a symbolic link that leads out of the work tree."""
    found = files.scan(step.writes, store=step.store, inside=inside, but=before.now.entries)
    outputs = {path: entry for path, entry in found.entries.items() if path not in untouched}
    outputs |= _at_home(ctx, files, outputs) if files.root != ctx.root else {}
    outputs = with_theirs(outputs, {path: before.now.entries.get(path) for path in keep})
    tree = ctx.tree_of(outputs, found, before.now)
    ctx.know(tree, outputs)
    deleted = tuple(p for p in before.pre if p not in outputs and p not in before.others)
    modes = narrow(files.root, (), found.modes)
    return Collected(found=found, outputs=outputs, tree=tree, deleted=deleted, modes=modes)


def _at_home(ctx: Context, files: Files, outputs: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """The symbolic links that lead by an absolute path into the lane of ``files``, as they lead to the same place in the work
    tree."""
    links = [entry for entry in outputs.values() if entry.mode == LINK]
    here, there = os.fsencode(files.root), os.fsencode(ctx.root)
    found = {}
    for entry, item in zip(links, ctx.objects.read_many([entry.oid for entry in links], MAX_LINK), strict=True):
        data = item.data if item is not None and item.data is not None else b""
        if data == here or data.startswith(here + b"/"):
            blob = new_object(ctx.objects.algorithm, "blob", there + data[len(here) :])
            files.store.write([blob])
            found[entry.path] = replace(entry, oid=blob.oid)
    return found


def with_theirs(ours: Mapping[str, FileEntry], theirs: Mapping[str, FileEntry | None]) -> dict[str, FileEntry]:
    """Return outputs with foreign files, or their absence, in their place: a file of theirs also takes that of a folder."""
    kept = {path: entry for path, entry in theirs.items() if entry is not None}
    gone = in_the_way([path for path in ours if path not in theirs], kept) if kept else set()
    return {path: entry for path, entry in ours.items() if path not in theirs and path not in gone} | kept


def writes(ctx: Context, step: Step, before: WriteSet, after: Collected | None = None) -> Writes:
    """Return the write set as a record has it."""
    sets = (before.now, after.found) if after else (before.now,)
    bare = tuple(f for f in after.found.folders if f not in before.bare) if after else before.now.folders
    folders = before.now.folder_modes
    if after:
        mine = folders_of((*after.outputs, *(f"{folder}/" for folder in bare)))
        folders = {folder: mode for folder, mode in after.found.folder_modes.items() if folder in mine}
    return Writes(
        globs=step.writes,
        pre=before.now.tree,
        tree=after.tree if after else None,
        deleted=after.deleted if after else (),
        digests=tuple(sorted({path for item in sets for path in item.digests})),
        folders=bare,
        modes=rows_of(after.modes if after else before.modes, folders),
    )


def rows_of(modes: Modes, folders: Mapping[str, int] = MappingProxyType({})) -> tuple[tuple[str, int], ...]:
    """Permissions as a record has them. ``folders``: those of folders, listed where they are not what a folder has that is
    made."""
    rest = (("", modes.rest),) if modes.rest != ALL else ()
    usual = ALL & ~umask()
    odd = {f"{folder}/": mode for folder, mode in folders.items() if mode != usual}
    return (*rest, *sorted({**modes.listed, **odd}.items()))


def most_of(rows: Iterable[tuple[str, int]]) -> Modes:
    """Permissions of a record, as far as they may come back."""
    listed = dict(rows)
    return Modes(rest=listed.pop("", ALL), listed=listed)


def standing(ctx: Context, step: str) -> frozenset[str]:
    """The folders that were there before a step first began: they stay when nothing is left in them."""
    state = ctx.step_state(step)
    if state.first_pre is None:
        return frozenset()
    return folders_of((*ctx.entries(state.first_pre), *(f"{folder}/" for folder in state.first_folders)))


def folders_of(paths: Iterable[str]) -> frozenset[str]:
    """Every folder above these paths, but for the top."""
    found: set[str] = set()
    for path in paths:
        while (path := path.rpartition("/")[0]) and path not in found:
            found.add(path)
    return frozenset(found)


def bring_folders(root: str, have: FileSet, want: FileSet) -> None:
    """Make the folders of a set of files what those of another one are, wherever it was looked at, after its files."""
    wanted = folders_of((*want.entries, *(f"{folder}/" for folder in want.folders)))
    other = {f: mode for f, mode in want.folder_modes.items() if f in wanted and have.folder_modes.get(f) != mode}
    arrange(root, other, have.folder_modes.keys() - want.folder_modes.keys())


def recorded_folders(logged: Logged) -> dict[str, int]:
    """The folders of a recorded result that must be made or given other permissions than a folder has that is made: with
    theirs, but what came from elsewhere gets no more than a folder that is made has."""
    writes = logged.record.writes
    if writes is None:
        return {}
    usual = ALL & ~umask()
    told = {path.rstrip("/"): mode for path, mode in writes.modes if path.endswith("/")}
    found = {**dict.fromkeys(writes.folders, usual), **told}
    return {folder: mode & usual if logged.foreign else mode for folder, mode in found.items() if is_safe(folder)}


def own_folders(state: StepState) -> frozenset[str]:
    """The empty folders that a step of this run made."""
    return frozenset(f for end in state.ends if end.record.writes for f in end.record.writes.folders)


def put(
    files: Files,
    have: Mapping[str, FileEntry],
    want: Mapping[str, FileEntry | None],
    *,
    point: str | None = None,
    source: str | None = None,
    keep: Callable[[], Collection[str]] = frozenset,
    modes: Mapping[str, int] = MappingProxyType({}),
    most: Modes = NOTHING,
) -> tuple[str, ...]:
    """Make the files at the paths of ``want`` so, where what is there is still that of ``have``; the paths left alone because
    it is not. ``point``: where a test kills this process after the first file; ``source``: where the files were made; ``keep``:
    folders that stay when they become empty; ``modes``: permissions of files that had others before, ``most``: what others, and
    folders, may have. Raises GitError."""
    if not want:
        return ()
    between = (lambda: crash_at(point)) if point is not None else None
    expect = {path: have.get(path) for path in want}
    stay = keep() if None in want.values() else ()
    return swap(
        files.repo,
        files.root,
        want,
        expect,
        between=between,
        source=source,
        known=files.known,
        keep=stay,
        modes=modes,
        most=most,
    )


def kept(number: int, what: str) -> str:
    """``2 files that it left are kept in the journal``."""
    return f"{number} file{'' if number == 1 else 's'} {what} {'is' if number == 1 else 'are'} kept in the journal"


def beginning(
    ctx: Context,
    step: Step,
    now: Present,
    *,
    idem: str,
    attempt: int,
    writes: Writes,
    isolation: str,
    cause: Cause | None,
) -> Record:
    """The begin of an attempt."""
    return ctx.record(
        "begin",
        step.name,
        attempt=attempt,
        key=now.key,
        idem=idem,
        argv=step.argv,
        cwd=step.cwd,
        reads=now.reads,
        deps=now.deps,
        writes=writes,
        env=now.env,
        extra=step.extra,
        effect=step.effect,
        compensate=step.compensate,
        probe=step.probe,
        verify=step.verify,
        isolation=isolation,
        cause=cause,
    )


@value
class Materials:
    """Changes that make a write set as it is recorded. ``want``: the files to write, or remove; ``edited``: paths at which
    a foreign file stands; ``absent``: files that are recorded by digest and are not there."""

    want: Mapping[str, FileEntry | None]
    edited: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def materials(now: Mapping[str, FileEntry], result: Mapping[str, FileEntry], ours: Collection[str]) -> Materials:
    """Compare the write set with a recorded result: versions of ours (at these paths) are replaced or removed, foreign
    files are left where the result has none."""
    want: dict[str, FileEntry | None] = {}
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


def ours_of(ctx: Context, state: StepState, files: Mapping[str, FileEntry]) -> set[str]:
    """Of files that lie in a step's write set, the paths at which stands a version that we made."""
    first = state.first_pre is None  # then what lies there may be a version of another run's
    ours, _ = owners(ctx, _everywhere(ctx, state.name) if first else versions(state), files)
    return ours - ctx.files.outward(files.values()).keys()


def serve(ctx: Context, step: Step, now: Present, logged: Logged) -> Done | None:
    """Make the write set equal to a recorded result of this key. None where that cannot be: a file of it is kept by digest only
    and is not there. Raises GitError."""
    found = ctx.files.scan(step.writes, store=step.store)
    ctx.know(found.tree, found.entries)
    result = result_of(ctx, logged)
    if (logged.record.effect or "none") == "none":
        undeclared = step.on_undeclared == "fail" and logged.record.undeclared
        if undeclared or (not step.allow_empty and unmatched(step.writes, {*result, *found.entries})):
            return None  # an attempt with this result would be a failure as the step is asked for now
    here, state = logged.record.run == ctx.run, ctx.step_state(step.name)
    other = {path: entry for path, entry in found.entries.items() if not same(entry, result.get(path))}
    todo = materials(found.entries, told(ctx, result, found.entries), ours_of(ctx, state, other))
    if todo.absent:
        return None
    if todo.edited and ctx.take is None:
        return conflict(ctx, step, now.key, found, todo.edited)
    if todo.edited:
        keep_theirs(ctx, step, now.key, found, todo.edited)
    if not here or state.end is None or state.end.commit != logged.commit or (todo.edited and ctx.take == "theirs"):
        logged = _rerecorded(ctx, step, now, found, logged, todo, here)
    if ctx.take == "ours":
        want = {**todo.want, **{p: result.get(p) for p in todo.edited}}
    else:
        block = in_the_way(todo.want, todo.edited)
        want = {p: e for p, e in todo.want.items() if p not in block}
    most = most_of(logged.record.writes.modes if logged.record.writes is not None else ())
    folders = recorded_folders(logged)
    absent = {folder: mode for folder, mode in folders.items() if not os.path.isdir(os.path.join(ctx.root, folder))}
    left = put(ctx.files, found.entries, want, point="in-materialize", keep=lambda: standing(ctx, step.name), most=most)
    stale = own_folders(state).intersection(found.folders) - folders.keys()
    arrange(ctx.root, absent, stale, standing(ctx, step.name) if stale else ())
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


def result_of(ctx: Context, logged: Logged) -> Mapping[str, FileEntry]:
    """The files of a recorded result."""
    writes = logged.record.writes
    return ctx.entries(writes.tree, writes.digests) if writes is not None and writes.tree is not None else {}


def _rerecorded(ctx: Context, step: Step, now: Present, found: FileSet, logged: Logged, todo: Materials, here: bool) -> Logged:
    """Record the result as the newest one of this run, a begin with the inputs of now and an end: of another run, or an
    older one, or with foreign files in it."""
    result, theirs, record = result_of(ctx, logged), bool(todo.edited and ctx.take == "theirs"), logged.record
    here_now = narrow(ctx.root, (), found.modes)
    modes = most_of(record.writes.modes if record.writes else ())
    text = f"served from record {record.seq} of run '{record.run}'"
    if theirs:
        result = with_theirs(result, {path: found.entries[path] for path in todo.edited})
        own = {path: mode for path, mode in modes.listed.items() if path not in todo.edited}
        modes = replace(modes, listed={**own, **{p: here_now.listed[p] for p in todo.edited if p in here_now.listed}})
        text = "what somebody else wrote is taken as its output"
    writes = Writes(globs=step.writes, pre=found.tree, digests=found.digests, folders=found.folders, modes=rows_of(here_now))
    begin = beginning(
        ctx,
        step,
        now,
        idem=record.idem if here and record.idem else idempotency_key(ctx, step.name, now.key),
        attempt=1,
        writes=writes,
        isolation="none",
        cause=None,
    )
    begin = ctx.append(replace(begin, effect=record.effect, compensate=record.compensate if here else begin.compensate)).record
    said = {name: oid for name, oid in logged.parts.items() if name in ("stdout", "stderr")}
    digests = tuple(sorted({*writes.digests, *(record.writes.digests if record.writes else ())}))
    made = record.writes.folders if record.writes else ()
    written = replace(begin.writes or writes, tree=ctx.tree_of(result), digests=digests, folders=made, modes=rows_of(modes))
    end = replace(
        begin,
        type="end",
        writes=written,
        exit=0,
        duration_ms=0,
        stable=True,
        cause=None,
        stdout=record.stdout if "stdout" in said else None,
        stderr=record.stderr if "stderr" in said else None,
        text=text,
        nondeterministic=theirs,
    )
    return ctx.append(end, trees=said)


def conflict(ctx: Context, step: Step, key: str, found: FileSet, paths: Sequence[str]) -> Done:
    """Tell that a foreign file stands where an output does: it is kept in the journal, and both are left as they are."""
    logged = keep_theirs(ctx, step, key, found, paths)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    text = f"{in_quotes(paths[0])}{more} is an output of step {in_quotes(step.name)}, and somebody else wrote it"
    text += "; --take ours|theirs decides"
    ctx.emit("conflict", step.name, text, code=CONFLICT, key=key)
    return Done(step=step, state="conflict", code=CONFLICT, logged=logged, text=text)


def stored(ctx: Context, entries: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    """Files with their bytes in the store, also where they were recorded by digest, but for those that are too large."""
    found = []
    for path in (path for path, entry in entries.items() if entry.digest):
        with suppress(OSError):
            found.append((path, os.lstat(os.path.join(ctx.root, path))))
    return {**entries, **ctx.files.take(found)}


def keep_theirs(ctx: Context, step: Step, key: str, found: FileSet, paths: Sequence[str]) -> Logged | None:
    """Store foreign files as the orphan of an abort, unless the newest one holds it; None where nothing is there."""
    theirs = stored(ctx, {path: found.entries[path] for path in paths if path in found.entries})
    tree = ctx.tree_of(theirs)
    last = next(reversed(ctx.step_state(step.name).records), None)
    if last is not None and last.record.type == "abort" and last.parts.get("orphan") == tree:
        return last
    text = "somebody else wrote " + ", ".join(in_quotes(path) for path in sorted(paths)[:10])
    return ctx.append(ctx.record("abort", step.name, key=key, text=text), trees={"orphan": tree})


def _everywhere(ctx: Context, step: str) -> Iterator[Oid]:
    """The trees of what a step of this name left in any run of this repository."""
    for run in ctx.journal.names():
        with suppress(BatonError):  # a run that cannot be read has made nothing
            yield from trees_of([lg for lg in ctx.journal.records(run) if lg.record.step == step and not lg.foreign])
