"""Effects of steps outside git: which stand, asked for, settled, compensated; and what a killed attempt left, rolled back."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from gitbaton.base.codec import encode_track, in_quotes
from gitbaton.base.errors import GitError, NoAnswerError, RunError, UsageError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import read_regular
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.git.repo import drop
from gitbaton.git.repo import put as put_file
from gitbaton.git.worktree.filetrees import FileEntry, FileSet, differences, same
from gitbaton.git.worktree.globs import matcher
from gitbaton.git.worktree.modes import arrange, narrow
from gitbaton.runs.claims import Claim
from gitbaton.runs.context import (
    UNDO_FAILED,
    UNKNOWN,
    Context,
    Done,
    crash_at,
    environment,
    launch,
    said,
    settling,
    shell,
    status,
    verify,
)
from gitbaton.runs.decide import Present
from gitbaton.runs.graph import Graph, as_they_run, graph
from gitbaton.runs.journal.codec import idem as key_of_effect
from gitbaton.runs.journal.state import EffectState, RunState, StepState
from gitbaton.runs.journal.values import Logged, Plan, Record, Step, Writes
from gitbaton.runs.outputs import (
    kept,
    look,
    most_of,
    owners,
    put,
    recorded_folders,
    result_of,
    rows_of,
    standing,
    versions,
)
from gitbaton.runs.plans import in_full, step_of, whole

if TYPE_CHECKING:
    Brought = Mapping[str, tuple[str, Oid] | None]


Effect = tuple[str, EffectState]  # of which step
_NOT_IN_FULL = "its line is not recorded in full (a secret): the plan, or --compensate, must give it"


def live(state: RunState, names: Sequence[str]) -> tuple[Effect, ...]:
    """The effects that stand of steps (given in their order), the last first: the order in which they are to be undone."""
    return tuple((name, effect) for name in reversed(names) for effect in reversed(state.step(name).standing))


def _graph(ctx: Context, plan: Plan | None) -> Graph:
    """Return the dependency graph of all steps of the run."""
    state = ctx.state()
    return graph(as_they_run(whole(plan, state).steps), state, ctx.entries)


def undo(ctx: Context, plan: Plan | None, effects: Iterable[Effect], claims: dict[str, Claim] | None = None) -> int:
    """Undo effects one after the other; 0, or 77 as soon as a compensation fails. ``claims``: of steps that are held already.
    An effect without a compensation stays, and a warning says so. Raises UsageError for one that was recorded elsewhere."""
    held = claims or {}
    for name, effect in effects:
        step = (plan.step(name) if plan is not None else None) or step_of(effect.logged.record)
        command = compensation(step, effect)
        if command is None and effect.logged.record.compensate is not None:
            ctx.emit("compensation-failed", name, _NOT_IN_FULL, code=UNDO_FAILED, key=effect.key)
            return UNDO_FAILED
        if command is None:
            ctx.emit("warning", name, f"step {in_quotes(name)} has an effect that nothing undoes: it declares no compensation")
            continue
        if effect.logged.foreign and not ctx.foreign:
            raise UsageError(
                f"the effect of step {in_quotes(name)} was recorded elsewhere",
                "its compensation is run only with --foreign: " + command,
            )
        if name in held:
            code = _one(ctx, held[name], step, effect, command)
        else:
            with ctx.claimed(name, (), tuple(held.values())) as claim:
                # Another process may have done it meanwhile.
                stands = any(e.idem == effect.idem for e in ctx.step_state(name).standing)
                code = _one(ctx, claim, step, effect, command) if stands else 0
        if code:
            return code
    return 0


def undo_own(ctx: Context, plan: Plan | None, name: str, own: Collection[EffectState], claim: Claim) -> int:
    """Undo effects of a step whose claim is held, those of all that hang on it first; 0, or 77. Raises as ``still``."""
    if not own:
        return 0
    with still(ctx, plan, (name,), {name: claim}) as held:
        others = tuple(n for n in _graph(ctx, plan).descendants((name,)) if n != name)
        mine = tuple((name, effect) for effect in own)
        return undo(ctx, plan, live(ctx.state(), others) + mine[::-1], held)


@contextmanager
def still(
    ctx: Context, plan: Plan | None, names: Collection[str], claims: Mapping[str, Claim] | None = None
) -> Iterator[dict[str, Claim]]:
    """Claim all dependents of these steps while effects are compensated; yields all claims that are held. ``claims``: those
    held already. Raises RunError 78 where another process is at one of them and stays for longer than is waited, 76 where
    the effect of one of them is unknown, UsageError for a fetched probe."""
    mine = dict(claims or {})
    at_work = {held.step for held in ctx.claims.others() if held.run == ctx.run}
    state = ctx.state()
    with ExitStack() as stack:
        for name in _graph(ctx, plan).descendants(names):
            step = state.step(name)
            known = step.begun or any(effect.state != "undone" for effect in step.effects)
            if name not in mine and (name in at_work or known):
                mine[name] = stack.enter_context(ctx.claimed(name, (), tuple(mine.values()), patient=False))
        for name, claim in mine.items():
            if name not in (claims or {}):
                _known(ctx, plan, name, claim)
        yield mine


def _known(ctx: Context, plan: Plan | None, name: str, claim: Claim) -> None:
    """Make sure that it is known whether the effects of a step happened: its probe is asked. Raises RunError 76."""
    while (effect := ctx.step_state(name).unknown) is not None:
        step = (plan.step(name) if plan is not None else None) or step_of(effect.logged.record)
        answer = ask(ctx, claim, step, effect)
        if answer is None:
            raise asked(name)
        settled(ctx, step, effect, "done" if answer else "undone", "the probe says so")


def is_dropped(state: StepState, names: Collection[str]) -> bool:
    """Whether a step is none of these, the plan's, any more; one of the command line never was."""
    return state.name not in names and state.defined is None


def tell_dropped(ctx: Context, names: Collection[str]) -> None:
    """Say which effects stand, or may, of steps that are none of these, the plan's, any more; those of the command line never
    were."""
    gone = "the plan does not name the step any more"
    for name, state in ctx.state().steps.items():
        if not is_dropped(state, names):
            continue
        if state.unknown is not None:
            ctx.emit("warning", name, f"nobody knows whether its effect happened, and {gone}; {settling(name)} decides")
        elif state.standing:
            undoes = any(effect.logged.record.compensate for effect in state.standing)
            hint = f"'git baton run compensate {name}' undoes it"
            hint = hint if undoes else f"nothing undoes it ('git baton run settle {name} --undone': it was undone by hand)"
            ctx.emit("warning", name, f"its effect stands, and {gone}; {hint}")


def undo_begun(ctx: Context, plan: Plan) -> int:
    """Go on with compensations that have begun and not ended well: before that nothing runs on. 0, or 77."""
    names = [step.name for step in plan.steps]
    return undo(ctx, plan, [(name, effect) for name, effect in live(ctx.state(), names) if effect.state == "undoing"])


def compensation(step: Step, effect: EffectState) -> str | None:
    """The command that undoes an effect: the one that was recorded with it, or where that failed, or cannot be told any more,
    the one that the step has now."""
    recorded = in_full(effect.logged.record, effect.logged.record.compensate)
    if effect.state == "undoing" or recorded is None:
        return step.compensate or recorded
    return recorded


def _one(ctx: Context, claim: Claim, step: Step, effect: EffectState, command: str) -> int:
    """One compensation, from its begin to its end."""
    idem = key_of_effect(ctx.lineage, step.name, f"undo {effect.idem}")  # the same however often it is tried
    records = [logged.record for logged in ctx.step_state(step.name).records]
    number = sum(1 for r in records if r.type == "comp-begin" and r.compensates == effect.idem) + 1
    fields = {"key": effect.key, "idem": idem, "compensates": effect.idem, "compensate": command, "attempt": number}
    ctx.emit("compensate", step.name, command, key=effect.key, attempt=number)
    ctx.append(ctx.record("comp-begin", step.name, **fields))
    crash_at("after-comp-begin")
    if not os.path.isdir(os.path.join(ctx.root, step.cwd)):
        text = f"{in_quotes(step.cwd)}, where step {in_quotes(step.name)} ran, is not there"
        text += ": its effect is undone from the top of the work tree"
        ctx.emit("warning", step.name, text)
        step = replace(step, cwd=".")
    env = environment(ctx, step.name, idem, number, GIT_BATON_COMPENSATES=effect.idem)
    ended = launch(ctx, claim, step, shell(command), env, point="in-compensation")
    crash_at("before-comp-end")
    fields |= {"exit": ended.exit, "signal": ended.signal, "timeout": ended.timeout, "duration_ms": ended.duration_ms}
    if ended.exit == 0 and not ended.timeout:
        ctx.append(ctx.record("comp-end", step.name, **fields))
        ctx.emit("compensated", step.name, key=effect.key, seconds=ended.duration_ms / 1000)
        return 0
    ctx.append(ctx.record("comp-fail", step.name, **fields, text=said(ended) or None))
    ctx.emit("compensation-failed", step.name, status(ended), code=ended.exit, key=effect.key)
    return UNDO_FAILED


def compensate(ctx: Context, names: Sequence[str], plan: Plan | None = None) -> int:
    """Undo the effects of steps by name, those of all that hang on them first; 0, 77 when a compensation fails, or 1 when one
    of theirs stays because it has none. Raises NoAnswerError where none of them has an effect that stands, and as ``still``."""
    nothing = NoAnswerError(f"no effect of {', '.join(repr(name) for name in names)} stands")
    if not live(ctx.state(), names) and all(ctx.step_state(name).unknown is None for name in names):
        raise nothing
    with still(ctx, plan, names) as held:
        if not live(ctx.state(), names):  # as a probe said
            raise nothing
        effects = live(ctx.state(), _graph(ctx, plan).descendants(names))
        return undo(ctx, plan, effects, held) or int(bool(live(ctx.state(), names)))


def to_compensate(ctx: Context, names: Sequence[str], plan: Plan | None = None) -> tuple[Effect, ...]:
    """The effects that compensating steps by name would undo, in that order. Raises RunError 76 for one that is unknown."""
    every = _graph(ctx, plan).descendants(names)
    _answered(ctx, every)
    return live(ctx.state(), every)


def _answered(ctx: Context, names: Sequence[str]) -> None:
    """Refuse to undo effects that are unknown. Raises RunError 76."""
    for name in names:
        if ctx.step_state(name).unknown is not None:
            raise asked(name)


def approve(ctx: Context, step: Step, reject: bool = False, plan: Plan | None = None) -> int:
    """Open the gate at which a step waits, or that was closed, or close it: then the effects of all that leads to it are
    undone. 0, or 77 when a compensation fails. Raises NoAnswerError where it does not wait, RunError 76 where an effect
    that leads to it is unknown."""
    state = ctx.step_state(step.name)
    if state.gate == "none" or (state.gate == "approved" and not reject):
        raise NoAnswerError(f"step {in_quotes(step.name)} does not wait at a gate")
    if state.gate != "rejected" or not reject:
        word = "rejected" if reject else "approved"
        ctx.append(ctx.record("approve", step.name, key=state.gate_key, state=word))
        ctx.emit("settled", step.name, word, key=state.gate_key)
    if not reject:
        return 0
    plan = plan or Plan(steps=(step,))
    names = _graph(ctx, plan).ancestors((step.name,))
    code = undo(ctx, plan, live(ctx.state(), names))
    if not code:
        _answered(ctx, names)
    return code


def ask(ctx: Context, claim: Claim, step: Step, effect: EffectState) -> bool | None:
    """Ask the probe: True (exit 0) it happened, False (1) it did not, None (all else, or no probe) unknown. Raises
    UsageError for a fetched one without --foreign."""
    record = effect.logged.record
    probe = in_full(record, record.probe) or step.probe
    if probe is None:
        return None
    if effect.logged.foreign and not ctx.foreign:
        raise UsageError(
            f"the probe of step {in_quotes(step.name)} was recorded elsewhere", "it is run only with --foreign: " + probe
        )
    env = environment(ctx, step.name, effect.idem, record.attempt or 1)
    ended = launch(ctx, claim, step, shell(probe), env, show=False)
    return {0: True, 1: False}.get(ended.exit) if not ended.timeout else None


def settled(ctx: Context, step: Step, effect: EffectState, word: str, text: str) -> Logged:
    """Record whether an effect happened, ``done`` or ``undone``, and on whose word."""
    logged = ctx.append(ctx.record("settle", step.name, key=effect.key, idem=effect.idem, state=word, text=text))
    ctx.emit("settled", step.name, word, key=effect.key)
    return logged


def asked(name: str) -> RunError:
    """The question that only a person can answer."""
    return RunError(
        f"nobody knows whether the effect of step {in_quotes(name)} happened",
        f"look, and decide: {settling(name)}",
        code=UNKNOWN,
    )


SHOWN = 10  # files that a line names
_LARGEST = 1 << 30


def recover(ctx: Context, claim: Claim, step: Step, now: Present) -> Done | None:
    """Recover an orphaned begin, with the claim on the step held; None if the step may be decided. Raises GitError, and
    UsageError where a fetched probe would have to run."""
    state = ctx.step_state(step.name)
    if state.begun is None:
        return None
    record = state.begun.record
    effect = next((e for e in state.effects if e.idem == record.idem), None)
    repeatable = record.effect == "idempotent" and record.key == now.key
    if effect is None or effect.state != "unknown" or repeatable:
        roll_back(ctx, step, state, state.begun)
        return None
    return settle_unknown(ctx, claim, step, now, effect)


def settle_unknown(ctx: Context, claim: Claim, step: Step, now: Present, effect: EffectState) -> Done | None:
    """Ask the probe whether an effect happened, and write the answer down. A Done where it stays unknown, or where it
    happened for the inputs of now: its outputs count only if they hold."""
    answer = ask(ctx, claim, step, effect)
    if answer is None:
        text = f"nobody knows whether the effect of step {in_quotes(step.name)} happened"
        ctx.emit("unknown", step.name, text, code=UNKNOWN, key=effect.key)
        done = Done(step=step, state="unknown", code=UNKNOWN, logged=effect.logged, text=text)
        return replace(done, hint=settling(step.name))
    state = ctx.step_state(step.name)
    if not (answer and effect.key == now.key) and state.begun is not None:
        roll_back(ctx, step, state, state.begun)
    settled(ctx, step, effect, "done" if answer else "undone", "the probe says so")
    return trust(ctx, claim, step, effect) if answer and effect.key == now.key else None


def trust(ctx: Context, claim: Claim, step: Step, effect: EffectState, *, person: bool = False) -> Done:
    """An effect happened and has no result: its outputs are what lies there, if every glob matches and --verify passes. Without
    a --verify they may be torn, and only a ``person`` can say that they are whole."""
    logged, problem = result_of_now(ctx, claim, step, effect, person=person)
    if logged is not None:
        tree = logged.parts.get("writes")
        paths = sorted(ctx.entries(tree)) if tree is not None else []
        if paths:
            more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
            ctx.emit("settled", step.name, f"what lies there counts as its result: {', '.join(paths[:SHOWN])}{more}")
        ctx.emit("ok", step.name, "its effect had happened", code=0, key=effect.key, logged=logged)
        return Done(step=step, state="ok", logged=logged)
    text = f"the effect of step {in_quotes(step.name)} happened, but {problem}"
    ctx.emit("unknown", step.name, text, code=UNKNOWN, key=effect.key)
    return Done(step=step, state="unknown", code=UNKNOWN, logged=effect.logged, text=text, hint=_by_hand(step))


def _by_hand(step: Step) -> str:
    return f"put its outputs in place, and then: git baton run settle {step.name} --done"


def result_of_now(ctx: Context, claim: Claim, step: Step, effect: EffectState, *, person: bool) -> tuple[Logged | None, str]:
    """Write down what lies in the write set as the result of an effect's inputs; or None, and what is wrong with it."""
    record = effect.logged.record
    found = ctx.files.scan(step.writes, store=step.store, inside=True)
    doubt = "" if person or not step.writes else _doubt(ctx, step, record, found)
    if doubt:
        return None, doubt
    if found.unmatched and not step.allow_empty:
        return None, f"nothing matches its output '{found.unmatched[0]}'"
    reads = ctx.entries(record.reads.tree) if record.reads else {}
    outputs = found.entries if record.type == "end" else _outputs(ctx, step, record, found)
    checked = verify(ctx, claim, step, reads, outputs, ctx.root)
    if checked.exit:
        return None, f"its outputs do not pass --verify (exit {checked.exit})"
    modes = rows_of(narrow(ctx.root, (), found.modes))
    writes = Writes(globs=step.writes, pre=found.tree, digests=found.digests, modes=modes)
    mine = ctx.record("begin", step.name)
    now = {name: getattr(mine, name) for name in ("run", "lineage", "started", "host", "pid", "boot", "worktree", "seq")}
    nothing = dict.fromkeys(("exit", "signal", "duration_ms", "stdout", "stderr", "stable", "text", "cause"))
    plain = replace(record, **now, **nothing, timeout=False, undeclared=(), undeclared_more=0, verify_exit=None)
    begin = ctx.append(replace(plain, type="begin", writes=writes))
    done = replace(writes, tree=ctx.tree_of(outputs, found))
    text = "its effect had happened; these are the outputs that were there"
    end = replace(begin.record, type="end", seq=-1, writes=done, exit=0, stable=True, text=text)
    logged = ctx.append(end)
    forget(ctx, step.name)
    return logged, ""


def _doubt(ctx: Context, step: Step, record: Record, found: FileSet) -> str:
    """Why what lies in a write set need not be what an attempt made, where no person says so; empty where --verify can tell."""
    if record.type == "end":
        return "its outputs are not here as they were recorded"
    if record.isolation not in (None, "none"):
        return "its outputs are gone with the copy that it ran in"
    pre = ctx.entries(record.writes.pre, record.writes.digests) if record.writes is not None else {}
    if not differences(found.entries, pre):
        return "its outputs are not here"
    return "its outputs may be torn, and no --verify says that they are whole" if step.verify is None else ""


def _outputs(ctx: Context, step: Step, record: Record, found: FileSet) -> Mapping[str, FileEntry]:
    """Return the files of the write set, without foreign files that predate the attempt unless a glob needs them."""
    pre = ctx.entries(record.writes.pre, record.writes.digests) if record.writes is not None else {}
    others = look(ctx, step, ctx.step_state(step.name)).others
    kept = {p: e for p, e in found.entries.items() if p not in others or not same(e, pre.get(p))}
    whole = step.allow_empty or all(any(map(matcher([glob]), kept)) for glob in step.writes)
    return kept if whole else found.entries


def settle_unstarted(ctx: Context, step: Step, failed: Record) -> None:
    """A command that could not even be started had no effect."""
    effect = next((e for e in ctx.step_state(step.name).effects if e.idem == failed.idem), None)
    if effect is None or effect.state != "unknown" or effect.doubt or failed.exit not in (126, 127):
        return
    folder, program = os.path.normpath(os.path.join(ctx.root, step.cwd)), step.argv[0]
    folders = [""] if "/" in program else os.environ.get("PATH", os.defpath).split(os.pathsep)
    places = [os.path.join(folder, name, program) for name in folders]
    if not any(os.path.isfile(place) and os.access(place, os.X_OK) for place in places):
        settled(ctx, step, effect, "undone", "its command could not be started")


def roll_back(ctx: Context, step: Step, state: StepState, begun: Logged) -> None:
    """Put the write set of an attempt that has no end back to what it began with; what is torn is kept in the abort. Only what
    the attempt did in this very work tree: files elsewhere are left for when that work tree comes to the step."""
    record, (torn, have, want) = begun.record, _torn(ctx, step, state, begun)
    trees = {"orphan": ctx.tree_of(torn)} if torn else {}
    text = "its process ended before it did"
    ctx.append(ctx.record("abort", step.name, key=record.key, idem=record.idem, text=text), trees=trees)
    if torn:
        ctx.emit("orphan", step.name, kept(len(torn), "without a result"), key=record.key)
    most = most_of(record.writes.modes if record.writes is not None else ())
    for path in put(ctx.files, have, want, keep=lambda: standing(ctx, step.name), most=most):
        ctx.emit("warning", step.name, f"{in_quotes(path)} could not be put back, or somebody writes it")
    mine = noted(ctx, step.name)
    if mine is not None and mine.begin == begun.commit:
        if record.writes is not None:
            before = recorded_folders(begun)
            bare = {folder: mode for folder, mode in before.items() if folder in record.writes.folders}
            new = ctx.files.walk(record.writes.globs)[1] - before.keys()
            arrange(ctx.root, bare, new, standing(ctx, step.name))
        forget(ctx, step.name)
    ctx.emit("recovered", step.name, text, key=record.key, attempt=record.attempt)


def clear(ctx: Context, step: Step) -> None:
    """Roll back what an attempt left in this work tree that was closed without it: by a settle that gave it no result, or
    from another work tree."""
    mine, state = noted(ctx, step.name), ctx.step_state(step.name)
    if mine is None:
        return
    begun = next((logged for logged in state.records if logged.commit == mine.begin), None)
    closed = begun is None or _result(state.records[state.records.index(begun) + 1 :]) == "end"
    if begun is not None and not closed and _torn(ctx, step, state, begun)[2]:
        roll_back(ctx, step, state, begun)
    forget(ctx, step.name)


def _result(after: Sequence[Logged]) -> str:
    """The type of the record by which an attempt ended, or the next began; an abort without a key keeps foreign files."""
    types = (lg.record.type for lg in after if lg.record.type != "abort" or lg.record.idem is not None)
    return next((found for found in types if found in ("begin", "end", "fail", "abort")), "")


def _torn(
    ctx: Context, step: Step, state: StepState, begun: Logged
) -> tuple[dict[str, FileEntry], Mapping[str, FileEntry], dict[str, FileEntry | None]]:
    """The files of an unfinished attempt that no record knows, what is there, and what must change."""
    writes, mine = begun.record.writes, noted(ctx, step.name)
    if writes is None or mine is None or mine.begin != begun.commit:
        return {}, {}, {}
    have = ctx.files.scan(writes.globs, store=step.store).entries
    want = mine.its_own(have, differences(have, ctx.entries(writes.pre, writes.digests)))
    there = {path: have[path] for path in want if path in have}
    known = len(owners(ctx, versions(state), there)[0]) == len(there)
    return {} if known else there, have, want


def settle(ctx: Context, step: Step, done: bool) -> Done:
    """A person decides an unknown outcome: the effect happened, then what lies in the write set is the step's result; or it did
    not, then the step may run again. Also says that an effect which stands was undone by hand. Raises NoAnswerError where the
    outcome is known, RunError 76 where it is done and the outputs are not there."""
    with ctx.hold(), ctx.claimed(step.name, step.writes) as claim:
        state = ctx.step_state(step.name)
        effect = state.unknown or _standing(ctx, step, state, done)
        if effect is None:
            raise NoAnswerError(f"step {in_quotes(step.name)} has no outcome that is unknown")
        if done:
            found = ctx.files.scan(step.writes, store=step.store, inside=True)
            if found.unmatched and not step.allow_empty:
                text = f"nothing matches {in_quotes(found.unmatched[0])}, an output of step {in_quotes(step.name)}"
                raise RunError(text, _by_hand(step), code=UNKNOWN)
            settled(ctx, step, effect, "done", "a person says so")
            return trust(ctx, claim, step, effect, person=True)
        begun = state.begun or effect.logged  # one that is open, or of which the probe said that it happened
        if effect.logged.record.type == "begin" and (state.begun is not None or _torn(ctx, step, state, begun)[0]):
            roll_back(ctx, step, state, begun)  # no end proves it
        return Done(step=step, state="ok", logged=settled(ctx, step, effect, "undone", "a person says so"))


def _standing(ctx: Context, step: Step, state: StepState, done: bool) -> EffectState | None:
    """The effect of which a decision can still be made: one that stands, or, when it happened, one without a result that can be
    served."""
    end = state.end
    for effect in reversed(state.effects):
        result = end is not None and end.record.idem == effect.idem and end.record.stable is not False
        if effect.state in ("live", "undoing") and not (done and result and end is not None and _there(ctx, step, end)):
            return effect
    return None


def _there(ctx: Context, step: Step, end: Logged) -> bool:
    """Whether the outputs recorded by digest only are as they were recorded."""
    result = {path: entry for path, entry in result_of(ctx, end).items() if entry.digest}
    have = ctx.files.scan(step.writes, store=step.store).entries if result else {}
    return all(same(have.get(path), entry) for path, entry in result.items())


@value
class Underway:
    """An attempt, by the commit of its begin. ``brings``: the mode and blob of each file that it brings into the work tree
    (None: that it removes); None of one that works in the work tree itself."""

    begin: Oid
    brings: Brought | None = None

    def its_own(self, have: Mapping[str, FileEntry], want: Mapping[str, FileEntry | None]) -> dict[str, FileEntry | None]:
        """Of what must change for the write set to be as before, that which the attempt did."""
        if self.brings is None:
            return dict(want)
        own = {}
        for path, entry in want.items():
            there, brought = have.get(path), self.brings.get(path, ())
            if brought != () and (brought is None if there is None else brought == (there.mode, there.oid)):
                own[path] = entry
        return own


def note(ctx: Context, step: str, begin: Oid, brings: Mapping[str, FileEntry | None] | None = None) -> None:
    """Say, before anything is done to the files of this work tree, which attempt does it. Raises GitError."""
    import json

    files = None if brings is None else {p: None if e is None else [e.mode, e.oid] for p, e in brings.items()}
    path = _path(ctx, step)
    try:
        put_file(ctx.repo, path, json.dumps({"v": 1, "begin": begin, "brings": files}).encode("ascii"))
    except OSError as error:
        raise GitError(f"{in_quotes(path)} cannot be written: {error.strerror}") from None


def noted(ctx: Context, step: str) -> Underway | None:
    """The attempt at a step of this run that has not put its files in order here; None where there is none."""
    import json

    try:
        found = json.loads(read_regular(_path(ctx, step), _LARGEST))
        files = found["brings"]
        brings = None if files is None else {p: None if e is None else (str(e[0]), str(e[1])) for p, e in files.items()}
        return Underway(begin=str(found["begin"]), brings=brings)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


def forget(ctx: Context, step: str) -> None:
    """Say that the files of the step are in order here."""
    with suppress(OSError):  # there is none; or it names a begin that has its end
        drop(ctx.repo, _path(ctx, step))


def with_its_own(
    ctx: Context, step: str, begin: Oid, before: Mapping[str, FileEntry], have: Mapping[str, FileEntry]
) -> dict[str, FileEntry]:
    """The files of before with what an attempt did to them, of all that has become different since."""
    mine = noted(ctx, step)
    other = {p: before.get(p) for p in before.keys() | have.keys() if not same(before.get(p), have.get(p))}
    own = mine.its_own(have, other) if mine is not None and mine.begin == begin else {}
    return {path: entry for path, entry in {**before, **{p: have.get(p) for p in own}}.items() if entry is not None}


def _path(ctx: Context, step: str) -> str:
    name = hashlib.sha256(step.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.join(ctx.repo.own_dir, "attempts", encode_track(ctx.run), name)
