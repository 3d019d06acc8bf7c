"""Attempts at one step, carried out durably: claimed, recovered, served or run, retried; and the guards that end a loop."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.codec import in_quotes, os_error
from gitbaton.base.errors import BatonError, GitError, RunError, UsageError
from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.git.publish import flush
from gitbaton.git.worktree.capture import private_folder
from gitbaton.git.worktree.filesets import Files
from gitbaton.git.worktree.filetrees import LARGE, FileEntry, FileSet, differences, is_safe, same
from gitbaton.git.worktree.filewatch import Strays, Watch
from gitbaton.git.worktree.globs import matcher
from gitbaton.git.worktree.modes import arrange
from gitbaton.git.worktree.swap import stat_signature
from gitbaton.runs.claims import Claim
from gitbaton.runs.context import (
    CONFLICT,
    GATE,
    GUARD,
    OUTPUTS,
    REFUSED,
    TIMEOUT,
    UNDO_FAILED,
    Checked,
    Context,
    Done,
    Workshop,
    crash_at,
    environment,
    idempotency_key,
    is_ambiguous,
    launch,
    settling,
    shell,
    status,
    verify,
)
from gitbaton.runs.decide import Present, Verdict, borrowed, decide, key_differences, may_be_lost, may_borrow, present, why
from gitbaton.runs.effects import (
    clear,
    forget,
    is_dropped,
    note,
    recover,
    settle_unknown,
    settle_unstarted,
    trust,
    undo_own,
    with_its_own,
)
from gitbaton.runs.graph import as_they_run, graph
from gitbaton.runs.journal.state import RunState, StepState
from gitbaton.runs.journal.values import PLAN, Backoff, Cause, Logged, Output, Plan, Record, Step, Undeclared
from gitbaton.runs.outputs import (
    Collected,
    WriteSet,
    before_first,
    beginning,
    bring_folders,
    collect,
    conflict,
    folders_of,
    in_the_way,
    keep_theirs,
    kept,
    look,
    marks,
    most_of,
    own_folders,
    put,
    serve,
    standing,
    stored,
    writes,
)
from gitbaton.runs.plans import whole, written

if TYPE_CHECKING:
    from typing import Any

    from gitbaton.runs.context import State


SHOWN = 10  # paths that a report names one by one
_OWN = f"its command's own exit status; git baton exits with {REFUSED}"


@value
class Outside:
    """Changes outside a write set. ``tree`` and ``after``: the images from before and from now, where there are any;
    ``strays``: what to put back in the work tree itself; None for a lane, with which it goes. Of a lane also the paths of
    which there is no image from now, and the commit that was made in it and is on no branch."""

    found: tuple[Undeclared, ...] = ()
    tree: Oid | None = None
    strays: Strays | None = None
    after: Oid | None = None
    unkept: tuple[str, ...] = ()
    commit: Oid | None = None


def in_place(ctx: Context, strays: Strays, meanwhile: Sequence[Sequence[str]]) -> Outside:
    """Return what changed in the work tree itself, but for what other steps at work ``meanwhile`` (their globs) may write."""
    theirs = matcher([glob for globs in meanwhile for glob in globs])
    mine = tuple(path for path in strays.found if not theirs(path))
    before, after = ({p: images[p] for p in mine if p in images} for images in (strays.before, strays.after))
    return _outside(ctx, mine, before, after, strays=replace(strays, found=mine))


def in_lane(ctx: Context, shop: Workshop, matches: Callable[[str], bool]) -> Outside:
    """Return what changed in a lane; the images from before are those of the work tree, where it still has them."""
    commit, found = shop.lane.commit(), shop.lane.changed(matches)
    before = _images(ctx, ctx.files, [path for path, (then, _) in found.items() if then is not None])
    # Read before this look.
    before = {p: e for p, e in before.items() if stat_signature(os.path.join(ctx.root, p)) == found[p][0]}
    after = _images(ctx, shop.files, [path for path, (_, there) in found.items() if there])
    unkept = tuple(path for path, (_, there) in found.items() if there and path not in after)
    return _outside(ctx, found, before, after, unkept=unkept, commit=commit)


def _outside(
    ctx: Context, paths: Iterable[str], before: Mapping[str, FileEntry], after: Mapping[str, FileEntry], **more: Any
) -> Outside:
    """Return what changed, with trees of the images."""
    oids = [{path: entry.oid for path, entry in images.items()} for images in (before, after)]
    found = tuple(Undeclared(path=path, before=oids[0].get(path), after=oids[1].get(path)) for path in paths)
    trees = [ctx.tree_of(images) if images else None for images in (before, after)]
    return Outside(found=found, tree=trees[0], after=trees[1], **more)


def _images(ctx: Context, files: Files, paths: Sequence[str]) -> dict[str, FileEntry]:
    """Files as they are now, but for those that are too large or cannot be read."""
    stats = []
    for path in filter(is_safe, paths):
        full = os.path.join(files.root, path)
        try:
            found = os.lstat(full)
        except OSError:
            continue
        small = found.st_size <= min(ctx.baton.settings.max_file_size, LARGE)
        if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and small and os.access(full, os.R_OK)):
            stats.append((path, found))
    return files.take(stats)


def some(names: Sequence[str]) -> list[str]:
    """The first of some names, and how many more there are."""
    return [*names[:SHOWN], *([f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else [])]


def report(ctx: Context, step: str, outside: Outside, *, restore: bool) -> Collection[str]:
    """Say what changed, and put it back where ``restore`` and it was in the work tree itself; the paths that were put back.
    Raises GitError."""
    strays, paths = outside.strays, some([item.path for item in outside.found])
    if strays is None:  # a lane, in which it stays
        if paths:
            ctx.emit("not-brought-back", step, ", ".join(paths))
        for path in outside.unkept[:SHOWN]:
            ctx.emit("warning", step, f"{in_quotes(path)} is not kept: it is larger than baton.maxFileSize, or cannot be read")
        if len(outside.unkept) > SHOWN:
            ctx.emit("warning", step, f"nor are {len(outside.unkept) - SHOWN} more")
        if outside.commit is not None:
            ctx.emit("warning", step, f"made commits in its copy, which are on no branch: {outside.commit}")
        return ()
    for text in paths:
        ctx.emit("undeclared", step, text)
    for path in strays.unkept[:SHOWN]:
        ctx.emit("warning", step, f"not kept: {path}")
    if not restore:
        return ()
    want = {path: strays.before.get(path) for path in strays.found if path not in strays.unkept}
    # Nobody noted which folders were empty before: all that are left stay.
    left = put(ctx.files, strays.after, want, keep=lambda: folders_of(want), modes=strays.modes, most=strays.most)
    back = [path for path in want if path not in left]
    for path in back[:SHOWN]:
        also = " (what stood there is in the journal)" if path in strays.after else ""
        ctx.emit("orphan", step, f"put back: {path}{also}")
    if len(back) > SHOWN:
        ctx.emit("orphan", step, f"put back: {len(back) - SHOWN} more (what stood there is in the journal)")
    for path in (*left, *strays.unkept):
        ctx.emit("warning", step, f"{in_quotes(path)} could not be put back")
    return back


class Attempt:
    """One attempt, with the claim on the step's write set held. ``shop``: the lane in which its command runs; None where that
    is the work tree itself. ``files``: those of either."""

    def __init__(
        self, ctx: Context, claim: Claim, step: Step, now: Present, state: StepState, number: int, cause: Cause | None
    ) -> None:
        self.ctx, self.claim, self.step, self.now, self.state = ctx, claim, step, now, state
        self.number, self.cause = number, cause
        self.idem = idempotency_key(ctx, step.name, now.key)
        self.shop: Workshop | None = None
        self.files = ctx.files
        self.before: WriteSet = look(ctx, step, state)
        self.kept: tuple[str, ...] = ()  # what somebody else wrote there, and is to stay
        self.theirs: Mapping[str, FileEntry] = {}  # the same, with its bytes stored
        self.checked = Checked(exit=0)
        self.moved: tuple[str, ...] = ()  # what it reads that somebody changed meanwhile

    def run(self) -> Done:
        """Carry it out. Its state is ``ok``, ``failed``, ``interrupted``, ``unknown`` or ``conflict``. Raises GitError, and
        RunError 79 where a guard ends a loop."""
        ctx, edited = self.ctx, self.before.edited
        if edited and ctx.take is None:
            return conflict(ctx, self.step, self.now.key, self.before.now, edited)
        if edited:
            keep_theirs(ctx, self.step, self.now.key, self.before.now, edited)
            self._resolve(edited)
        matches = matcher(self.step.writes)
        if self._isolated():
            with ctx.workshop() as shop:
                self.shop, self.files = shop, shop.files
                shop.lane.sync()
                for path in shop.lane.left_out[:SHOWN]:
                    ctx.emit(
                        "warning", self.step.name, f"its copy of the work tree lacks {in_quotes(path)}, which cannot be read"
                    )
                return self._run(lambda: in_lane(ctx, shop, matches))
        before = [*ctx.active, *(held.writes for held in ctx.claims.others())]
        since = len(ctx.claimed_so_far)
        with private_folder(ctx.repo) as folder:
            watch = Watch(ctx.files, matches, folder, max_size=ctx.baton.settings.max_file_size)
            return self._run(lambda: in_place(ctx, watch.changed(), [*before, *ctx.claimed_so_far[since:]]))

    def _resolve(self, edited: tuple[str, ...]) -> None:
        """Keep foreign files until the command is done, if they are not in its way, and after it with ``--take theirs``."""
        now = self.before.now.entries
        first = before_first(self.ctx, self.state.first_pre, {}) if self.state.first_pre else {}
        if self.ctx.take == "theirs":
            self.kept = edited
            self.theirs = stored(self.ctx, {path: now[path] for path in edited if path in now})
            trees = {logged.parts.get("writes") for logged in self.state.ends}
            results = frozenset(path for tree in trees if tree for path in self.ctx.entries(tree))
            edited = tuple(in_the_way(edited, results))
        pre = {p: e for p, e in self.before.pre.items() if p not in edited}
        pre = {**pre, **{p: first[p] for p in edited if p in first}}
        self.before = replace(self.before, pre=pre, edited=())

    def _isolated(self) -> bool:
        step, now, pre = self.step, self.before.now.entries, self.before.pre
        if step.isolate != "auto" or not step.writes:  # without outputs: what it makes is to stay
            return step.isolate == "tree"
        if any(now[path].digest and not same(now[path], pre.get(path)) for path in self.before.now.digests):
            return True  # put away here, what is kept by digest only would be gone after a failure
        return self.number > 1 or len(self.ctx.active) > 1 or bool(self.ctx.claims.others())

    def _run(self, outside: Callable[[], Outside]) -> Done:
        """``outside`` says what changed outside the write set since."""
        ctx, step, lane = self.ctx, self.step, self.shop.lane if self.shop is not None else None
        isolation = lane.how if lane is not None else "none"
        ctx.guard(step.name)
        crash_at("before-begin")
        self.begin = self.begun(isolation)
        crash_at("after-begin")
        if lane is None:
            note(ctx, step.name, self.begin.commit)
        ctx.emit("isolation", step.name, isolation)
        ctx.emit("attempt", step.name, attempt=self.number, key=self.now.key, cause=self.cause)
        blocked = self._clear()
        if blocked:
            return self._blocked(blocked)
        env = environment(ctx, step.name, self.begin.record.idem or self.idem, self.number, lane)
        met = marks(self.files.root, self.before.others)
        self.ended = launch(
            ctx,
            self.claim,
            step,
            step.argv,
            env,
            root=self.files.root,
            point="in-command",
            runs=lane.runs if lane is not None else None,
        )
        crash_at("after-command")
        try:
            return self._close(outside, met)
        except BatonError as error:
            if ctx.step_state(step.name).begun is None:
                raise
            return self._broken(error)

    def begun(self, isolation: str) -> Logged:
        """Record that it begins; with nothing after it, its effect is unknown."""
        begin = beginning(
            self.ctx,
            self.step,
            self.now,
            idem=self.idem,
            attempt=self.number,
            writes=writes(self.ctx, self.step, self.before),
            isolation=isolation,
            cause=self.cause,
        )
        trees = {"reads": begin.reads.tree} if begin.reads else {}
        return self.ctx.append(begin, trees=trees, blobs=definition(self.ctx, self.step))

    def _close(self, outside: Callable[[], Outside], met: Mapping[str, tuple[int, ...]]) -> Done:
        """Judge what a command left, and write its end or failure. ``met``: the foreign files that it found."""
        problem = self._collect(outside, met)
        crash_at("after-collect")
        code, text = self._judge(problem)
        if code == 0 and self.step.verify is not None:
            self.checked = verify(self.ctx, self.claim, self.step, self.now.files, self.after.outputs, self.files.root)
            code, text = self._judge(problem)
        return self._good() if code == 0 else self._bad(code, text)

    def _clear(self) -> tuple[str, ...]:
        """Make the write set what the command is to find; where another process writes there, leave it and return the
        paths."""
        now, pre = self.before.now, self.before.pre
        stale = differences(now.entries, pre)
        point = "in-clearing" if self.shop is None else None
        blocked = put(self.files, now.entries, stale, keep=self._standing, point=point, most=most_of(self.state.first_modes))
        if blocked:
            back = {path: now.entries.get(path) for path in stale if path not in blocked}
            put(self.files, pre, back, modes=now.modes, most=self.before.modes)
        else:
            mine = own_folders(self.state).intersection(now.folders)
            arrange(self.files.root, {}, mine, self._standing() if mine else ())
        return blocked

    def _standing(self) -> frozenset[str]:
        return standing(self.ctx, self.step.name)

    def _blocked(self, paths: tuple[str, ...]) -> Done:
        """Take the begin back: another process writes into the write set, and nothing was done."""
        ctx, record = self.ctx, self.begin.record
        ctx.append(ctx.record("abort", self.step.name, key=record.key, idem=record.idem, text="nothing was done"))
        before = next((e for e in self.state.effects if e.idem == record.idem), None)
        # An earlier attempt may have had it.
        if (record.effect or "none") != "none" and (before is None or before.state == "undone"):
            ctx.append(ctx.record("settle", self.step.name, key=record.key, idem=record.idem, state="undone"))
        forget(ctx, self.step.name)
        found = ctx.files.scan(self.step.writes, store=self.step.store)
        return conflict(ctx, self.step, self.now.key, found, paths)

    def _collect(self, outside: Callable[[], Outside], met: Mapping[str, tuple[int, ...]]) -> str:
        """Take in what the command left, and say what is wrong with where it is. The inputs are looked at where it ran: in
        a lane no other process changes them. ``met``: the foreign files that it found."""
        now = marks(self.files.root, met)
        untouched = frozenset(path for path, mark in met.items() if now.get(path) == mark)
        arguments = (self.ctx, self.step, self.files, self.before, untouched, self.kept)
        problem = ""
        try:
            self.after = collect(*arguments)
        except GitError as error:  # a symbolic link that leads out
            problem = error.message
            self.after = collect(*arguments, inside=False)
        self.outside = outside()
        reads = self.files.scan(self.step.reads) if self.step.reads else None
        wanted = matcher(self.step.reads)  # what links lead to is not looked at again
        then = {path: entry for path, entry in self.now.files.items() if wanted(path)}
        self.stable = reads is None or reads.entries == then
        here = self.ctx.files.scan(self.step.reads) if reads is not None and self.shop is not None else reads
        self.moved = tuple(differences(here.entries, then)) if here is not None else ()
        gone = self.shop is not None and self.shop.lane.gone
        return "it removed the copy of the work tree that it ran in" if gone else problem

    def _judge(self, problem: str) -> tuple[int, str]:
        """The exit status of an attempt and, where it is not 0, why. ``problem``: what is wrong with where its outputs are."""
        step, ended = self.step, self.ended
        if ended.timeout:
            return TIMEOUT, status(ended)
        if ended.exit or ended.interrupted:
            return ended.exit or 128 + (ended.asked or 2), status(ended)
        if problem:
            return OUTPUTS, problem
        if self.after.found.unmatched and not step.allow_empty:
            return OUTPUTS, f"nothing matches its output '{self.after.found.unmatched[0]}'"
        found = self.outside.found
        if found and step.on_undeclared == "fail":
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            return OUTPUTS, f"it changed {in_quotes(found[0].path)}{more}, which it does not declare"
        if self.checked.interrupted:
            return self.checked.exit or 130, "its --verify was interrupted"
        if self.checked.exit:
            return OUTPUTS, f"its outputs do not pass --verify (exit {self.checked.exit})"
        return 0, ""

    def _good(self) -> Done:
        """Bring the outputs into the work tree, and write the end: from then on they are trusted."""
        ctx, step, after = self.ctx, self.step, self.after
        have = self.before.now.entries if self.shop is not None else after.found.entries
        want = differences(have, after.outputs)
        want = {p: self.theirs.get(p, e) for p, e in want.items() if p not in self.before.others or e is not None}
        source = self.files.root if self.shop is not None else None
        if self.shop is not None and want:
            note(ctx, step.name, self.begin.commit, want)
        most = after.modes if self.shop is not None else self.before.modes
        blocked = put(ctx.files, have, want, point="in-bring-back", source=source, keep=self._standing, most=most)
        if self.shop is not None:
            bring_folders(ctx.root, self.before.now, after.found)
        back = report(ctx, step.name, self.outside, restore=step.on_undeclared == "restore")
        away = [in_quotes(path) for path in self.moved if path not in back]
        if away:
            moved = ", ".join(some(away))
            ctx.emit("warning", step.name, f"{moved} changed while it ran; its result may not be of what is there now")
        new = [path for path in after.found.passed if path not in self.before.now.passed]  # no tree can hold them
        if new and self.shop is not None:
            ctx.emit("warning", step.name, f"not brought back: {', '.join(some(new))}")
        flush(ctx.repo, [*after.outputs], ctx.files.root)
        crash_at("before-end")
        outvoted = {p: e for p, e in after.found.entries.items() if self.kept and not same(e, after.outputs.get(p))}
        outvoted = {p: e for p, e in outvoted.items() if p not in self.before.others}
        other = self._other()
        logged = self._append(
            "end", outvoted, after, stable=self.stable, nondeterministic=other, text=self.checked.text or None
        )
        crash_at("after-end")
        forget(ctx, step.name)
        if blocked:
            found = ctx.files.scan(step.writes, store=step.store)
            return conflict(ctx, step, self.now.key, found, blocked)
        seconds = self.ended.duration_ms / 1000
        ctx.emit("ok", step.name, code=0, seconds=seconds, attempt=self.number, key=self.now.key, logged=logged)
        return Done(step=step, state="ok", logged=logged, cause=self.cause)

    def _other(self) -> bool:
        """Whether the same inputs gave something else before."""
        ends = [lg.record for lg in self.state.ends if lg.record.key == self.now.key]
        return any(r.stable is not False and (r.writes.tree if r.writes else None) != self.after.tree for r in ends[-1:])

    def _bad(self, code: int, text: str) -> Done:
        """Write the failure down with what was there, and put the write set back. A command that was interrupted has not
        failed: it is given up."""
        ctx, step, ended = self.ctx, self.step, self.ended
        torn = {p: e for p, e in self.after.found.entries.items() if not same(e, self.before.pre.get(p))}
        report(ctx, step.name, self.outside, restore=step.on_undeclared == "restore")
        interrupted = ended.interrupted or self.checked.interrupted
        words = f"{text}\n{self.checked.text}" if self.checked.text else text
        exit_ = code if ended.interrupted and not ended.timeout else ended.exit
        logged = self._append("abort" if interrupted else "fail", torn, None, text=words, exit=exit_)
        crash_at("after-fail")
        if self.shop is None:
            self._put_back(self.after.found.entries, self.after.found)
            forget(ctx, step.name)
        if torn:
            ctx.emit("orphan", step.name, kept(len(torn), "that it left"), key=self.now.key)
        return self._failed(logged, code, text, interrupted=interrupted)

    def _failed(self, logged: Logged, code: int, text: str, *, interrupted: bool) -> Done:
        seconds = self.ended.duration_ms / 1000
        said = _OWN if is_ambiguous(logged.record, code) else text
        self.ctx.emit("failed", self.step.name, said, code=code, seconds=seconds, attempt=self.number, key=self.now.key)
        state: State = "interrupted" if interrupted else "failed"
        return Done(step=self.step, state=state, code=code, logged=logged, cause=self.cause, text=text)

    def _put_back(self, have: Mapping[str, FileEntry], found: FileSet | None = None) -> None:
        """Make the write set what it was when this began: the last good outputs stand again. ``found``: what the attempt left,
        with its folders."""
        ctx, name = self.ctx, self.step.name
        try:
            now = self.before.now
            want = differences(have, now.entries)
            for path in put(ctx.files, have, want, keep=self._standing, modes=now.modes, most=self.before.modes):
                was = self.before.now.entries.get(path)
                why = "nothing but its digest is kept" if was is not None and was.digest else "somebody writes it"
                ctx.emit("warning", name, f"{in_quotes(path)} could not be put back: {why}")
            if found is not None:
                bring_folders(ctx.root, found, now)
        except GitError as error:
            ctx.emit("warning", name, f"{error.message}: its outputs could not be put back")

    def _broken(self, error: BatonError) -> Done:
        """Fail where what a command left cannot be read or brought in, and put the write set back."""
        ctx, step, ended = self.ctx, self.step, self.ended
        before = self.before.now.entries if self.shop is not None else self.before.pre
        have: Mapping[str, FileEntry] = before
        with suppress(BatonError):
            have = ctx.files.scan(step.writes, store=step.store).entries
        have = with_its_own(ctx, step.name, self.begin.commit, before, have)
        torn = {p: e for p, e in have.items() if not same(e, before.get(p))}
        closed = replace(self._ending("abort" if ended.interrupted else "fail"), text=error.message)
        trees = {"orphan": ctx.tree_of(torn)} if torn else {}
        logged = ctx.append(closed, trees=trees, blobs={"stdout": ended.out, "stderr": ended.err})
        self._put_back(have)
        forget(ctx, step.name)
        return self._failed(logged, ended.exit or OUTPUTS, error.message, interrupted=ended.interrupted)

    def _append(self, kind: str, orphan: Mapping[str, FileEntry], after: Collected | None, **fields: Any) -> Logged:
        """Write the record that closes the attempt. ``orphan``: files that are no output; ``after``: those that are."""
        ctx, outside = self.ctx, self.outside
        outputs = writes(ctx, self.step, self.before, after)
        digests = tuple(sorted({*outputs.digests, *self.after.found.digests}))
        verdict = self.checked.exit if self.step.verify is not None and self.ended.exit == 0 else None
        fields |= {"writes": replace(outputs, digests=digests), "undeclared": outside.found, "verify_exit": verdict}
        trees = {
            "orphan": ctx.tree_of(orphan) if orphan else None,
            "undeclared": outside.tree,
            "undeclared-after": outside.after,
        }
        there = {name: tree for name, tree in trees.items() if tree is not None}
        blobs = {"stdout": self.ended.out, "stderr": self.ended.err}
        return ctx.append(replace(self._ending(kind), **fields), trees=there, blobs=blobs, keep=outside.commit)

    def _ending(self, kind: str) -> Record:
        """The record of its begin, with how its command ended."""
        ended = self.ended
        return replace(
            self.begin.record,
            type=kind,
            seq=-1,
            cause=None,
            exit=ended.exit,
            signal=ended.signal,
            timeout=ended.timeout,
            duration_ms=ended.duration_ms,
            stdout=Output(oid="", bytes=ended.out_bytes, cut=ended.out_bytes > len(ended.out)),
            stderr=Output(oid="", bytes=ended.err_bytes, cut=ended.err_bytes > len(ended.err)),
        )


def definition(ctx: Context, step: Step) -> dict[str, bytes]:
    """The blob beside the begin of a step of the command line that says all of it; none where a secret stands in it."""
    text = written(step) if step.name in ctx.defined else None
    redactor = ctx.journal.redactor
    clean = text is None or redactor is None or redactor.mode == "off" or redactor.text(said := text.decode()) == said
    return {PLAN: text} if text is not None and clean else {}


_BLIND = "it is not done again: its effect stands, may happen only once, and nothing undoes it"
_STANDS = "it is not done again: its effect stands, and may happen only once; 'git baton run compensate {}' undoes it"
_UNKNOWN = "it is not tried again: nobody knows whether its effect happened, and it has no --probe to ask"


def perform(ctx: Context, step: Step, plan: Plan, *, force: Cause | None = None) -> Done:
    """Bring a step to its result: serve it where its key is unchanged, else run it, with its retries.

    ``plan``: all steps that may hang on it, whose effects are undone before its own. ``force``: run it for this cause even
    where nothing changed. Whatever keeps it from a result is in the Done, but for a guard's RunError 79; errors (BatonError)
    are those of the repository. Raises UsageError where a step that it waits for has no result.
    """
    with ctx.hold():
        try:
            with ctx.claimed(step.name, step.writes) as claim:
                return _Performance(ctx, claim, step, plan, force).run()
        except RunError as error:
            if error.exit_code != CONFLICT:
                raise
            text = "; ".join((error.message, *error.hints))
            ctx.emit("conflict", step.name, text, code=CONFLICT)
            return Done(step=step, state="conflict", code=CONFLICT, text=text)


class _Performance:
    """A step with the claim on its write set held, from what is there to its result."""

    def __init__(self, ctx: Context, claim: Claim, step: Step, plan: Plan, force: Cause | None) -> None:
        self.ctx, self.claim, self.step, self.plan, self.force = ctx, claim, step, plan, force
        self.tries = 0
        self.cause: Cause | None = None
        self.number = 0  # of the attempt
        self.useless = False  # a result that cannot be served again

    def run(self) -> Done:
        ctx, step, told = self.ctx, self.step, False
        while True:
            now = present(ctx, step)
            for glob in () if told else now.unmatched:
                ctx.emit("warning", step.name, f"reads {in_quotes(glob)} matches nothing")
            told = True
            if now.missing:
                raise waits(step, now.missing[0], ctx.run)
            state = ctx.step_state(step.name)
            if state.begun is not None:
                self.number = state.begun.record.attempt or 1
                self.cause = Cause(kind="crashed")
                stopped = recover(ctx, self.claim, step, now)
                if stopped is not None:
                    return stopped
                state = ctx.step_state(step.name)
            force = self.force or (Cause(kind="output") if self.useless else None)  # until it ran
            done = self._once(now, decide(step, state, now, force))
            if done is not None:
                return done

    def _once(self, now: Present, verdict: Verdict) -> Done | None:
        """Do what was decided; None where it must be decided anew."""
        ctx, step = self.ctx, self.step
        if verdict.what in ("hit", "run"):
            clear(ctx, step)
        if verdict.what == "hit" and verdict.logged is not None:
            if verdict.effect is not None or (step.effect == "once" and not step.cache):
                ctx.emit("warning", step.name, _STANDS.format(step.name) if step.compensate else _BLIND)
            done = serve(ctx, step, now, verdict.logged)
            self.useless = done is None
            return done
        if verdict.what == "probe" and verdict.effect is not None:
            return settle_unknown(ctx, self.claim, step, now, verdict.effect)
        if verdict.what == "trust" and verdict.effect is not None:
            return trust(ctx, self.claim, step, verdict.effect)
        if verdict.what == "rejected":
            return rejected(ctx, step, now.key)
        if verdict.what == "gate":
            return self._waits(now, step.gate or "", f"git baton run approve {step.name}")
        if step.effect != "none":
            held = self._held(now)
            if held is not None:
                return held
        fresh = self.tries == 0 and self.force is None and not self.useless
        elsewhere = borrowed(ctx, now) if fresh and may_borrow(step, verdict) else None
        if elsewhere is not None:
            done = serve(ctx, step, now, elsewhere)
            if done is not None:
                return done
        return self._run(now, verdict)

    def _waits(self, now: Present, text: str, hint: str) -> Done:
        """Record that the step waits for a person, and tell why."""
        ctx, step = self.ctx, self.step
        state, logged = ctx.step_state(step.name), None
        if state.gate != "waiting" or state.gate_key != now.key or asked_at(state) != text:
            logged = ctx.append(ctx.record("gate", step.name, key=now.key, text=text))
        ctx.emit("gate", step.name, text, code=GATE, key=now.key)
        return Done(step=step, state="gate", code=GATE, logged=logged, text=text, hint=hint)

    def _held(self, now: Present) -> Done | None:
        """Say before an effect is carried out that what it uses is stale. One that may happen only once waits then, unless a
        person has approved just this."""
        ctx, step = self.ctx, self.step
        found = stale(ctx, self.plan, step)
        if found is None:
            return None
        name, why_stale = found
        text, state = f"what it uses is stale: {why_stale}", ctx.step_state(step.name)
        if step.effect != "once":
            if self.tries == 0:
                ctx.emit("warning", step.name, text)
            return None
        if state.gate == "approved" and state.gate_key == now.key and asked_at(state) == text:
            return None
        again = f"--continue {ctx.run}" if ctx.state().plan is not None else f"repair --step {name}"
        hint = f"'git baton run {again}' makes that anew; 'git baton run approve {step.name}' lets it go on all the same"
        return self._waits(now, text, hint)

    def _run(self, now: Present, verdict: Verdict) -> Done | None:
        """Undo what must be undone, and make one attempt; None where another one follows."""
        ctx, step = self.ctx, self.step
        state = ctx.step_state(step.name)
        if may_be_lost(ctx, step, state, now):  # then it is asked for like any begin without an end
            Attempt(ctx, self.claim, step, now, state, self.number + 1, Cause(kind="lost")).begun("none")
            return None
        found = look(ctx, step, state) if verdict.undo and ctx.take is None else None
        if found is not None and found.edited:  # before an effect is undone for nothing
            return conflict(ctx, step, now.key, found.now, found.edited)
        if undo_own(ctx, self.plan, step.name, verdict.undo, self.claim):
            text = f"a compensation failed before step {in_quotes(step.name)}"
            return Done(step=step, state="compensation-failed", code=UNDO_FAILED, text=text)
        state = ctx.step_state(step.name)
        self.cause = self.cause or self.force or why(step, state, now, ctx.entries)
        if self.tries == 0:
            ctx.emit("start", step.name, key=now.key, cause=self.cause)
        self.tries, self.number = self.tries + 1, self.number + 1
        done = Attempt(ctx, self.claim, step, now, state, self.number, self.cause).run()
        if done.state == "failed" and done.logged is not None:
            settle_unstarted(ctx, step, done.logged.record)
        unasked = step.effect == "once" and step.probe is None and ctx.step_state(step.name).unknown is not None
        if unasked and done.state in ("failed", "interrupted"):
            ctx.emit("warning", step.name, _UNKNOWN)
            done = replace(done, hint=settling(step.name))
        if done.state != "failed":
            if done.state == "ok":
                self._checkpoint(done)
            return ours(done)
        timeout = bool(done.logged and done.logged.record.timeout)
        if done.hint or self.tries > step.retries or not tried_again(step, done.code, timeout=timeout):
            return ours(self._failed(now, done))
        delay, next_, of = wait(step.backoff, self.tries, ctx.random), self.number + 1, step.retries + 1
        ctx.emit("retry", step.name, done.text, code=done.code, seconds=delay, attempt=next_, number=self.tries, total=of)
        with ctx.away():
            ctx.sleep(delay)
        return None

    def _failed(self, now: Present, done: Done) -> Done:
        """It failed for good: --catch is told, and the checkpoint."""
        ctx, step = self.ctx, self.step
        if step.catch is not None:
            env = environment(ctx, step.name, idempotency_key(ctx, step.name, now.key), self.number)
            ended = launch(ctx, self.claim, step, shell(step.catch), env)
            ctx.emit("catch", step.name, step.catch, code=ended.exit, key=now.key)
        self._checkpoint(done)
        return done

    def _checkpoint(self, done: Done) -> None:
        """Record a checkpoint of the step's end on its track."""
        ctx, step = self.ctx, self.step
        if step.checkpoint is None:
            return
        left = any(ctx.step_state(s.name).end is None for s in self.plan.steps)
        word = "ok" if done.good else f"failed (exit {done.code})"
        try:
            ctx.baton.snapshot(
                f"{ctx.run}: {step.name} {word}",
                track=step.checkpoint,
                validation="green" if done.good else "failed",
                next_cmd=f"git baton run --continue {ctx.run}" if left or not done.good else "",
                set_current=False,
            )
        except (BatonError, OSError) as error:
            ctx.emit("warning", step.name, f"no checkpoint was recorded: {os_error(error)}")


def waits(step: Step, name: str, run: str) -> UsageError:
    """That a step cannot begin before one that it waits for."""
    return UsageError(f"step {in_quotes(step.name)} waits for {in_quotes(name)}, which has no result in run '{run}'")


def asked_at(state: StepState) -> str | None:
    """Return what a step waited for when it last waited for a person."""
    return next((logged.record.text for logged in reversed(state.records) if logged.record.type == "gate"), None)


def stale(ctx: Context, plan: Plan, step: Step) -> tuple[str, str] | None:
    """Return the first of the steps whose outputs a step uses, directly or not, whose inputs have moved since, and how;
    None where all results are current. Dropped steps are left out. Raises GitError."""
    state = ctx.state()
    steps = as_they_run(whole(plan, state).steps)
    known = {other.name: other for other in steps}
    for name in graph(steps, state, ctx.entries).ancestors((step.name,)):
        end = state.step(name).end
        if name == step.name or end is None or (ctx.named is not None and is_dropped(state.step(name), ctx.named)):
            continue
        moved = key_differences(known[name], end.record, present(ctx, known[name]), ctx.entries)
        cause = next((cause for cause in moved if cause.kind in ("input", "dep")), None)
        by = f"step {in_quotes(name)}"
        if cause is not None and cause.kind == "dep":
            return name, f"{by} used other outputs of step {in_quotes(cause.path or '')}"
        if cause is not None:
            return name, f"{in_quotes(cause.path) if cause.path else 'something'} changed since {by} read it"
        if end.record.stable is False:
            reads = matcher(end.record.reads.globs if end.record.reads is not None else ())
            if not any(reads(item.path) for item in end.record.undeclared):  # its own, which stayed in its copy or was put back
                return name, f"the inputs of {by} changed while it ran"
    return None


def rejected(ctx: Context, step: Step, key: str) -> Done:
    """Tell that the gate of a step was rejected for these inputs."""
    text = f"the gate of step {in_quotes(step.name)} is closed: it was rejected"
    ctx.emit("gate", step.name, text, code=REFUSED, key=key)
    hint = f"'git baton run approve {step.name}' opens it again"
    return Done(step=step, state="rejected", code=REFUSED, text=text, hint=hint)


def ours(done: Done) -> Done:
    """Return what became of a step, with an exit status that cannot be taken for one of ours."""
    own = done.code and done.logged is not None and is_ambiguous(done.logged.record, done.code)
    return replace(done, code=REFUSED) if own else done


def tried_again(step: Step, code: int, *, timeout: bool) -> bool:
    """Whether a failure is one after which the step is tried again."""
    return not step.retry_on or (("timeout" if timeout else str(code)) in step.retry_on) or str(code) in step.retry_on


def wait(backoff: Backoff, tries: int, random: Callable[[], float]) -> float:
    """Seconds before the attempt that follows so many; with jitter, between half of that and all of it."""
    try:
        seconds = min(backoff.first * backoff.factor ** (tries - 1), backoff.most)
    except OverflowError:
        seconds = backoff.most
    return seconds * (0.5 + random() / 2) if backoff.jitter else seconds


class Guards:
    """The guards of a plan, or of a repair, in a run of which the journal says ``state``; ``clock`` gives seconds that only go
    forward. Every refusal is a RunError 79 that names the step and the guard."""

    def __init__(self, plan: Plan, state: RunState, clock: Callable[[], float]) -> None:
        self._max_runs, self._max_wall, self._clock = plan.max_runs, plan.max_wall, clock
        self._began = clock()
        self._runs = {name: step.in_vain for name, step in state.steps.items()}

    def before(self, step: str) -> None:
        """A step is about to be started. Raises RunError."""
        self._runs[step] = runs = self._runs.get(step, 0) + 1
        if runs > self._max_runs:
            times = "once" if self._max_runs == 1 else f"{self._max_runs} times"
            raise _ended(step, "max-runs", f"it was started {times} without a result", "a larger --max-runs lets it go on")
        passed = self._clock() - self._began
        if passed >= self._max_wall:
            raise _ended(step, "max-wall", f"{passed:.0f} s have passed", "a larger --max-wall lets it go on")


def _ended(step: str, guard: str, why: str, *hints: str) -> RunError:
    return RunError(f"step {in_quotes(step)} is stopped by the guard '{guard}': {why}", *hints, code=GUARD)
