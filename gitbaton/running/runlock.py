"""Run lock: take up a run, choose the plan that it follows, note both in its journal, and let it go."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from gitbaton.codec import encode_track
from gitbaton.errors import BatonError, GitError, NotFoundError, RecordError, UnreadableRunError, UsageError
from gitbaton.git.objects import parse_commit
from gitbaton.git.repo import lock_file
from gitbaton.journal.chain import Journal, remembered
from gitbaton.journal.values import Logged, Plan
from gitbaton.render import in_shell
from gitbaton.running import plans
from gitbaton.running.context import Context
from gitbaton.running.planfile import PLAN, load
from gitbaton.running.results import Done, Event
from gitbaton.system.files import acquire
from gitbaton.values import replace, value

MAX_PLAN = 4 << 20
SHOWN = 5  # steps that an error names
IDLE = ("plan", "cached", "wait", "progress", "finished", "warning")  # events by which nothing is done yet


@value
class Outcome:
    """What a run came to: the exit status, what became of each step in the order in which they ended, and the steps that did
    not begin."""

    code: int
    states: tuple[Done, ...] = ()
    run: str = ""
    left: tuple[str, ...] = ()


@contextmanager
def turn(ctx: Context) -> Iterator[None]:
    """Wait until no other process works on a plan of this run, and keep others waiting meanwhile; the context's lock is held
    inside. The kernel ends the turn of a process that dies. Raises UsageError in a step of the very run, which would wait for
    itself."""
    if os.environ.get("GIT_BATON_RUN") == ctx.run and "GIT_BATON_STEP" in os.environ:
        step = os.environ["GIT_BATON_STEP"]
        raise UsageError(f"step '{step}' of run '{ctx.run}' cannot work on the plan of its own run", "name another with --run")
    path = os.path.join(ctx.repo.shared_dir, "lock", "run-" + encode_track(ctx.run))
    try:
        fd = lock_file(ctx.repo, path)
    except OSError as error:
        raise GitError(f"'{path}' cannot be opened: {error.strerror}") from None
    try:
        if not acquire(fd):
            with ctx.hold():
                ctx.emit("wait", text=f"another process works on run '{ctx.run}'")
            acquire(fd, None)
        with ctx.hold():
            yield
    finally:
        os.close(fd)


def free(journal: Journal, run: str, path: str) -> str:
    """The name of a run, if it is of the plan at this path, or is yet to begin. Raises UsageError where it is in use for
    something else."""
    if journal.tip(run) is None:
        return run
    records = [logged.record for logged in journal.records(run)]
    plan = next((record.plan for record in reversed(records) if record.type == "claim"), None)
    steps = list(dict.fromkeys(record.step for record in records if record.step is not None))
    names = ", ".join(f"'{name}'" for name in steps[:SHOWN]) + (" ..." if len(steps) > SHOWN else "")
    used = f"plan '{plan}'" if plan is not None else f"single steps {names}" if steps else None
    if used is None or plan == path:
        return run
    raise UsageError(f"run '{run}' is in use: it is of {used}", "name another with --run")


def for_plan(journal: Journal, path: str, top: str) -> str | None:
    """The run that goes on with the plan at this path, in this work tree: the one that it used last, else the newest; None
    where there is none. Raises UnreadableRunError where one that cannot be read may be it: the plan is not begun afresh."""
    tips = journal.refs()
    last = remembered(journal.repo)
    commits = zip(tips, journal.repo.objects.read_many(list(tips.values())), strict=True)
    ages = {run: _time(found.data) if found is not None else 0 for run, found in commits}
    unread: UnreadableRunError | None = None
    for run in sorted(ages, key=lambda name: (name == last, ages[name]), reverse=True):
        try:
            records = journal.records(run)
        except UnreadableRunError as error:
            unread = unread or error
            if run == last:
                break
            continue
        except NotFoundError:  # somebody has just dropped it
            continue
        claim = next((logged.record for logged in reversed(records) if logged.record.type == "claim"), None)
        if claim is not None and claim.plan == path and (run == last or claim.worktree == top):
            return run
    if unread is not None:
        unread.hints += ("name another run with --run",)
        raise unread
    return None


def _time(commit: bytes | None) -> int:
    """When a commit was written, in seconds; 0 for what is none."""
    try:
        words = parse_commit(commit or b"").author.split()
    except RecordError:
        return 0
    return int(words[-2]) if len(words) > 1 and words[-2].isdigit() else 0


class Hold:
    """That a plan is followed, in the journal; ``complete`` says how it is let go."""

    def __init__(self, ctx: Context, plan: Plan) -> None:
        self._ctx, self._plan, self._key = ctx, plan, digest(plan)
        self.complete = False
        state = ctx.state()
        same = state.plan is not None and state.plan.record.key == self._key
        self._taken = same and state.released is None
        # A run that is at its end is taken up when something happens, so that going over it again leaves no record.
        if not (same and state.over):
            self.take()

    def take(self) -> None:
        """Record that the plan is followed, unless that is recorded. A plan without a text cannot be."""
        if not self._taken and self._plan.text is not None:
            record = self._ctx.record("claim", key=self._key, plan=self._plan.path)
            self._ctx.append(record, blobs={PLAN: self._plan.text})
            self._taken = True

    def release(self) -> None:
        """Record that the plan is at its end, or that nobody goes on with it now."""
        if self._taken:
            left = "; ".join(step.unfinished for step in self._ctx.state().steps.values() if step.unfinished)
            state = "complete" if self.complete else "stopped"
            self._ctx.append(self._ctx.record("release", state=state, text=left or None))
            self._taken = False


@contextmanager
def following(ctx: Context, plan: Plan | None) -> Iterator[Hold]:
    """Follow a plan (None: only what is unfinished is looked after) until the block ends."""
    hold, watch = Hold(ctx, plan or Plan(steps=())), ctx.watch

    def seen(event: Event) -> None:
        if event.kind not in IDLE:
            hold.take()
        watch(event)

    ctx.watch = seen
    try:
        yield hold
    except BaseException:
        with suppress(BatonError):  # what went wrong is said, not that it cannot be noted
            hold.release()
        raise
    hold.release()


def opened(ctx: Context, claim: Logged) -> Plan:
    """The plan that a run follows, as the journal keeps it; where a secret was taken out of its text, the file that it was
    read from, if it is still the same. Raises UsageError."""
    record = claim.record
    oid, name = claim.parts.get(PLAN), record.plan or PLAN
    found = ctx.objects.read(oid, MAX_PLAN) if oid else None
    text = found.data if found is not None else None
    path = record.plan if not claim.foreign else None  # what somebody else's record names is not opened
    if text is None or (record.key is not None and hashlib.sha256(text).hexdigest() != record.key):
        text = _file(ctx, path, record.key)
    if text is None:
        raise UsageError(
            f"run '{ctx.run}' does not keep the text of its plan '{name}', and the file is not there as it was",
            "name the plan: git baton run --plan FILE",
        )
    if path is not None and _file(ctx, path, record.key) is None and os.path.exists(_place(ctx, path)):
        said = f"'{name}' is another plan now; run '{ctx.run}' follows the one that it was begun with"
        ctx.emit("warning", text=f"{said} ('git baton run --plan {in_shell(path)} --run {ctx.run}' takes up the new one)")
    return replace(plans.read(text, ctx.root, name=name), path=record.plan)


def digest(plan: Plan) -> str | None:
    """The digest of a plan's text, by which a claim names it; None of a plan without one."""
    return hashlib.sha256(plan.text).hexdigest() if plan.text is not None else None


def _place(ctx: Context, path: str) -> str:
    return os.path.join(ctx.root, path)


def _file(ctx: Context, path: str | None, key: str | None) -> bytes | None:
    """What a plan's file holds, if that is what it held when it was taken up."""
    if path is None or key is None:
        return None
    try:
        text = load(_place(ctx, path))
    except (OSError, ValueError):
        return None
    return text if hashlib.sha256(text).hexdigest() == key else None
