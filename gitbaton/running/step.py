"""One step, carried out durably: claimed, recovered, served or run, and retried; and the guards that end a loop."""

from __future__ import annotations

from collections.abc import Callable

from gitbaton.codec import in_quotes
from gitbaton.errors import BatonError, RunError, UsageError
from gitbaton.journal.state import RunState, StepState
from gitbaton.journal.values import Backoff, Cause, Plan, Record, Step
from gitbaton.running.attempt import Attempt
from gitbaton.running.claims import Claim
from gitbaton.running.context import (
    CONFLICT,
    GATE,
    GUARD,
    REFUSED,
    UNDO_FAILED,
    Context,
    Done,
    environment,
    idempotency_key,
    is_ambiguous,
    launch,
    settling,
    shell,
)
from gitbaton.running.decide import Present, Verdict, borrowed, decide, differences, may_be_lost, may_borrow, present, why
from gitbaton.running.effects import is_dropped, undo_own
from gitbaton.running.graph import as_they_run, graph
from gitbaton.running.outputs import conflict, look, serve
from gitbaton.running.recorded import whole
from gitbaton.running.recovery import clear, recover, settle_unknown, settle_unstarted, trust
from gitbaton.values import replace
from gitbaton.worktree.globs import matcher

__all__ = ["Done", "perform"]

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
        if verdict.what in ("gate", "rejected"):
            return self._gate(now, verdict)
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

    def _gate(self, now: Present, verdict: Verdict) -> Done:
        ctx, step = self.ctx, self.step
        if verdict.what == "rejected":
            return rejected(ctx, step, now.key)
        return self._waits(now, step.gate or "", f"git baton run approve {step.name}")

    def _waits(self, now: Present, text: str, hint: str) -> Done:
        """It waits for a person, who is told why."""
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
        if done.state in ("failed", "interrupted") and self._blind():
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

    def _blind(self) -> bool:
        """Whether nobody can tell if the effect that must not happen twice happened; then it is said."""
        step, state = self.step, self.ctx.step_state(self.step.name)
        if step.effect != "once" or step.probe is not None or state.unknown is None:
            return False
        self.ctx.emit("warning", step.name, _UNKNOWN)
        return True

    def _failed(self, now: Present, done: Done) -> Done:
        """It failed for good: --catch is told, and the checkpoint."""
        ctx, step = self.ctx, self.step
        if step.catch is not None:
            env = environment(ctx, step.name, idempotency_key(ctx, step.name, now.key), self.number)
            ended = launch(ctx, self.claim, step, shell(step.catch), env, timeout=step.timeout)
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
            ctx.emit("warning", step.name, f"no checkpoint was recorded: {error}")


def waits(step: Step, name: str, run: str) -> UsageError:
    """That a step cannot begin before one that it waits for."""
    return UsageError(f"step {in_quotes(step.name)} waits for {in_quotes(name)}, which has no result in run '{run}'")


def asked_at(state: StepState) -> str | None:
    """What a step waited for when it last waited for a person."""
    return next((logged.record.text for logged in reversed(state.records) if logged.record.type == "gate"), None)


def stale(ctx: Context, plan: Plan, step: Step) -> tuple[str, str] | None:
    """The first of the steps whose outputs a step uses, directly or not, that would be done again because its inputs moved, and
    how; None where all results are of what lies there now. One that the plan does not name any more is never done again. Raises
    GitError."""
    state = ctx.state()
    steps = as_they_run(whole(plan, state).steps)
    known = {other.name: other for other in steps}
    for name in graph(steps, state, ctx.entries).ancestors((step.name,)):
        end = state.step(name).end
        if name == step.name or end is None or (ctx.named is not None and is_dropped(state.step(name), ctx.named)):
            continue
        moved = differences(known[name], end.record, present(ctx, known[name]), ctx.entries)
        cause = next((cause for cause in moved if cause.kind in ("input", "dep")), None)
        by = f"step {in_quotes(name)}"
        if cause is not None and cause.kind == "dep":
            return name, f"{by} used other outputs of step {in_quotes(cause.path or '')}"
        if cause is not None:
            return name, f"{in_quotes(cause.path) if cause.path else 'something'} changed since {by} read it"
        if end.record.stable is False and not _own_doing(end.record):
            return name, f"the inputs of {by} changed while it ran"
    return None


def _own_doing(record: Record) -> bool:
    """Whether a step changed, itself, what it reads, and that stayed in its copy or was put back."""
    reads = matcher(record.reads.globs if record.reads is not None else ())
    return any(reads(item.path) for item in record.undeclared)


def rejected(ctx: Context, step: Step, key: str) -> Done:
    """A step whose gate was closed for these inputs."""
    text = f"the gate of step {in_quotes(step.name)} is closed: it was rejected"
    ctx.emit("gate", step.name, text, code=REFUSED, key=key)
    hint = f"'git baton run approve {step.name}' opens it again"
    return Done(step=step, state="rejected", code=REFUSED, text=text, hint=hint)


def ours(done: Done) -> Done:
    """What became of a step with an exit status that is not taken for one of ours."""
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
