"""A begin without an end: its files are put back, and what it did outside is asked for before anything is done again."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.errors import NoAnswerError, RunError, UsageError
from gitbaton.git.filesets import Entry
from gitbaton.journal.state import EffectState, StepState
from gitbaton.journal.values import Logged, Record, Step, Writes
from gitbaton.running.claims import Claim
from gitbaton.running.context import Context
from gitbaton.running.decide import Present
from gitbaton.running.effects import unknown
from gitbaton.running.launching import environment, launch, shell
from gitbaton.running.recorded import in_full
from gitbaton.running.recording import again
from gitbaton.running.results import UNKNOWN, Done
from gitbaton.running.verifying import verify
from gitbaton.running.writeset import differences, kept, owners, put, standing, tree_of
from gitbaton.values import replace


def recover(ctx: Context, claim: Claim, step: Step, now: Present) -> Done | None:
    """Take care of a begin whose process is gone; the claim on the step is held. None: the step can be decided on. Raises
    GitError, and UsageError where a fetched probe would have to run."""
    state = ctx.step_state(step.name)
    if state is None or state.begun is None:
        return None
    record = state.begun.record
    effect = next((e for e in state.effects if e.idem == record.idem), None)
    repeatable = record.effect == "idempotent" and record.key == now.key
    if effect is None or effect.state != "unknown" or repeatable:
        roll_back(ctx, step, state, record)
        return None
    return settle_unknown(ctx, claim, step, now, effect)


def settle_unknown(ctx: Context, claim: Claim, step: Step, now: Present, effect: EffectState) -> Done | None:
    """Ask the probe whether an effect happened, and write the answer down. A Done where nobody can say, or where it happened
    for the inputs of now: its outputs count only if they hold."""
    answer = ask(ctx, claim, step, effect)
    if answer is None:
        text = f"nobody knows whether the effect of step '{step.name}' happened"
        ctx.emit("unknown", step.name, text, code=UNKNOWN, key=effect.key)
        return Done(step=step, state="unknown", code=UNKNOWN, logged=effect.logged, text=text)
    state = ctx.step_state(step.name)
    if not (answer and effect.key == now.key) and state is not None and state.begun is not None:
        roll_back(ctx, step, state, state.begun.record)
    settled(ctx, step, effect, "done" if answer else "undone", "the probe says so")
    return trust(ctx, claim, step, effect) if answer and effect.key == now.key else None


def settled(ctx: Context, step: Step, effect: EffectState, word: str, text: str) -> Logged:
    """Write down what became of an effect: ``done`` or ``undone``, and who says so."""
    logged = ctx.append(ctx.record("settle", step.name, key=effect.key, idem=effect.idem, state=word, text=text))
    ctx.emit("settled", step.name, word, key=effect.key)
    return logged


def ask(ctx: Context, claim: Claim, step: Step, effect: EffectState) -> bool | None:
    """What the probe says: 0 it happened, 1 it did not, all else (and no probe) nobody knows. Raises UsageError for a fetched
    one without --foreign."""
    record = effect.logged.record
    probe = in_full(record, record.probe) or step.probe
    if probe is None:
        return None
    if effect.logged.foreign and not ctx.foreign:
        raise UsageError(f"the probe of step '{step.name}' was recorded elsewhere", "it is run only with --foreign: " + probe)
    env = environment(ctx, step.name, effect.idem, record.attempt or 1)
    ended = launch(ctx, claim, step, shell(probe), env, timeout=step.timeout, show=False)
    return {0: True, 1: False}.get(ended.exit) if not ended.timeout else None


def trust(ctx: Context, claim: Claim, step: Step, effect: EffectState, *, person: bool = False) -> Done:
    """An effect happened and has no result: its outputs are what lies there, if every glob matches and --verify passes. Without
    a --verify they may be torn, and only a ``person`` can say that they are whole."""
    logged, problem = result_of_now(ctx, claim, step, effect, person=person)
    if logged is not None:
        ctx.emit("ok", step.name, "its effect had happened", code=0, key=effect.key, logged=logged)
        return Done(step=step, state="ok", logged=logged)
    text = f"the effect of step '{step.name}' happened, but {problem}"
    ctx.emit("unknown", step.name, text, code=UNKNOWN, key=effect.key)
    return Done(step=step, state="unknown", code=UNKNOWN, logged=effect.logged, text=text)


def result_of_now(ctx: Context, claim: Claim, step: Step, effect: EffectState, *, person: bool) -> tuple[Logged | None, str]:
    """Write down what lies in the write set as the result of an effect's inputs; or None, and what is wrong with it."""
    record = effect.logged.record
    if step.writes and step.verify is None and not person:
        return None, "its outputs may be torn, and no --verify says that they are whole"
    if step.writes and not person and record.type == "begin" and record.isolation not in (None, "none"):
        return None, "its outputs were in a tree of its own, and need not be what lies here"
    found = ctx.files.scan(step.writes, store=step.store, inside=True)
    if found.unmatched and not step.allow_empty:
        return None, f"nothing matches its output '{found.unmatched[0]}'"
    reads = ctx.entries(record.reads.tree) if record.reads else {}
    checked = verify(ctx, claim, step, reads, found.entries, ctx.root)
    if checked.exit:
        return None, f"its outputs do not pass --verify (exit {checked.exit})"
    writes = Writes(globs=step.writes, pre=found.tree, digests=found.digests)
    begin = ctx.append(again(ctx, _plain(record), type="begin", writes=writes, verify_exit=None))
    done = replace(writes, tree=found.tree)
    text = "its effect had happened; these are the outputs that were there"
    end = replace(begin.record, type="end", seq=-1, writes=done, exit=0, stable=True, text=text)
    return ctx.append(end), ""


def _plain(record: Record) -> Record:
    """An earlier begin or end, without how it ended."""
    nothing = {"exit": None, "signal": None, "timeout": False, "duration_ms": None, "stdout": None, "stderr": None}
    return replace(record, **nothing, stable=None, undeclared=(), undeclared_more=0, text=None, cause=None)


def roll_back(ctx: Context, step: Step, state: StepState, record: Record) -> None:
    """Put the write set of an attempt that has no end back to what it began with; what is torn is kept in the abort."""
    here = record.worktree == ctx.root and record.host == ctx.host and record.writes is not None
    torn, have, want = _torn(ctx, step, state, record) if here and record.writes is not None else ({}, {}, {})
    trees = {"orphan": tree_of(ctx, torn)} if torn else {}
    text = "its process ended before it did"
    ctx.append(ctx.record("abort", step.name, key=record.key, idem=record.idem, text=text), trees=trees)
    if torn:
        ctx.emit("orphan", step.name, kept(len(torn), "without a result"), key=record.key)
    for path in put(ctx.files, have, want, keep=lambda: standing(ctx, step.name)):
        ctx.emit("warning", step.name, f"'{path}' could not be put back, or somebody writes it")
    ctx.emit("recovered", step.name, text, key=record.key, attempt=record.attempt)


def clear_settled(ctx: Context, step: Step) -> None:
    """Roll back an attempt that only a settle closed and that is no result: what it left is nobody else's work."""
    state = ctx.step_state(step.name)
    for record in (logged.record for logged in reversed(ctx.of_step(step.name))):
        if record.type in ("end", "fail") or (record.type == "abort" and record.idem is not None):
            return  # an abort without a key keeps what somebody else wrote
        if record.type == "begin" and state is not None and state.begun is None:
            roll_back(ctx, step, state, record)
            return


def _torn(
    ctx: Context, step: Step, state: StepState, record: Record
) -> tuple[dict[str, Entry], Mapping[str, Entry], dict[str, Entry | None]]:
    """The files of an unfinished attempt that no record knows, what is there, and what must change."""
    assert record.writes is not None
    globs = record.writes.globs
    have = ctx.files.scan(globs, store=step.store).entries
    want = differences(have, ctx.entries(record.writes.pre, record.writes.digests))
    there = {path: have[path] for path in want if path in have}
    known = len(owners(ctx, step.name, state, there).ours) == len(there)
    return {} if known else there, have, want


def settle(ctx: Context, step: Step, done: bool) -> Done:
    """A person decides an unknown outcome: the effect happened, then what lies in the write set is the step's result; or it did
    not, then the step may run again. Also says that an effect which stands was undone by hand. Raises NoAnswerError where the
    outcome is known, RunError 76 where it is done and the outputs are not there."""
    with ctx.hold(), ctx.claimed(step.name, step.writes) as claim:
        state = ctx.step_state(step.name)
        effect = unknown(ctx.state(), step.name) or _standing(state, done)
        if state is None or effect is None:
            raise NoAnswerError(f"step '{step.name}' has no outcome that is unknown")
        if not done:
            if effect.logged.record.type == "begin":  # no end proves it
                _put_back(ctx, step, state, effect.logged.record)
            logged = settled(ctx, step, effect, "undone", "a person says so")
            return Done(step=step, state="ok", logged=logged)
        return _done(ctx, claim, step, effect)


def _standing(state: StepState | None, done: bool) -> EffectState | None:
    """The effect of which a decision can still be made: one that stands, or, when it happened, one that has no result."""
    effects = state.effects if state is not None else ()
    for effect in reversed(effects):
        result = state.end is not None and state.end.record.idem == effect.idem if state is not None else False
        if effect.state in ("live", "undoing") and not (done and result):
            return effect
    return None


def _put_back(ctx: Context, step: Step, state: StepState, begun: Record) -> None:
    """Roll an attempt back that did not happen: one that is open, or of which the probe said that it did."""
    if state.begun is not None:
        roll_back(ctx, step, state, state.begun.record)
    elif begun.worktree == ctx.root and begun.host == ctx.host and _torn(ctx, step, state, begun)[0]:
        roll_back(ctx, step, state, begun)


def _done(ctx: Context, claim: Claim, step: Step, effect: EffectState) -> Done:
    found = ctx.files.scan(step.writes, store=step.store, inside=True)
    if found.unmatched and not step.allow_empty:
        hint = f"make them, or say that it did not happen: git baton settle {step.name} --undone"
        raise RunError(f"nothing matches '{found.unmatched[0]}', an output of step '{step.name}'", hint, code=UNKNOWN)
    settled(ctx, step, effect, "done", "a person says so")
    return trust(ctx, claim, step, effect, person=True)
