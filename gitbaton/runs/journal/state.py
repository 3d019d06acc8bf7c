"""State of a run, folded from its records by a pure function. What follows from it is decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from gitbaton.base.codec import in_quotes
from gitbaton.base.model import Oid
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.runs.journal.values import PLAN, Logged, Record

if TYPE_CHECKING:
    from typing import Literal

    Gate = Literal["none", "waiting", "approved", "rejected"]
    Happened = Literal["live", "unknown", "undone", "undoing"]


@value
class EffectState:
    """State of one effect, by its idempotency key. ``logged``: the begin, or the end that proves it. ``state``: ``live``,
    ``unknown`` (begun, with no word on whether it happened), ``undoing`` (its compensation has not ended well), ``undone``
    (that, or it is known that it never happened). ``doubt``: an attempt before the newest one may have had it."""

    idem: str
    key: str
    logged: Logged
    state: Happened
    doubt: bool = False


@value
class StepState:
    """State of one step by its records.

    ``end``: the newest result, None after a compensation or a settle that undid it; ``ends``: all of them. ``first_pre``:
    the tree of its outputs before its first begin, ``first_modes`` its permissions and ``first_folders`` the folders that
    were empty then. ``begun``: a begin that nothing has closed. ``failed``: the newest failure, if no result is newer.
    ``settled``: a person's decision, if no begin is newer. ``gate_key``: the key that the gate was reached, or decided,
    with. ``effects``: newest last. ``attempts``: how many begins, ``in_vain`` of those since the newest result or settle;
    ``last``: how the newest began, or ended. ``defined``: the blob in which the newest of them says all of a step of the
    command line. ``compensating``: a compensation that has not ended well. ``records``: all of its records.
    """

    name: str
    end: Logged | None = None
    first_pre: Oid | None = None
    first_folders: tuple[str, ...] = ()
    first_modes: tuple[tuple[str, int], ...] = ()
    begun: Logged | None = None
    failed: Logged | None = None
    settled: Logged | None = None
    gate: Gate = "none"
    gate_key: str | None = None
    effects: tuple[EffectState, ...] = ()
    ends: tuple[Logged, ...] = ()
    attempts: int = 0
    in_vain: int = 0
    compensating: Logged | None = None
    defined: Oid | None = None
    undone: tuple[str, ...] = ()  # the keys of effects that happened and were taken back, one for each time
    last: Logged | None = None
    records: tuple[Logged, ...] = ()

    @property
    def unknown(self) -> EffectState | None:
        """The newest effect whose outcome is unknown."""
        return next((effect for effect in reversed(self.effects) if effect.state == "unknown"), None)

    @property
    def standing(self) -> tuple[EffectState, ...]:
        """The effects that happened and are not undone."""
        return tuple(effect for effect in self.effects if effect.state in ("live", "undoing"))

    @property
    def bare(self) -> EffectState | None:
        """The newest effect, where it happened, may happen only once, and has no result."""
        newest = self.effects[-1] if self.effects else None
        if newest is None or newest.state != "live" or newest.logged.record.effect != "once":
            return None
        return newest if newest.logged.record.type == "begin" else None


@value
class RunState:
    """State of a run by its records. ``steps``: by name, in the order in which they were first met. ``plan``: the newest
    claim of a plan, ``released`` how it was let go since. ``repair``: the one that is not at its end. ``lost``: the newest
    mark of a mend, before which records may be missing. ``last``: its newest record."""

    run: str = ""
    lineage: str = ""
    steps: Mapping[str, StepState] = MappingProxyType({})
    plan: Logged | None = None
    released: Logged | None = None
    repair: Logged | None = None
    lost: Logged | None = None
    last: Logged | None = None

    def step(self, name: str) -> StepState:
        """One step; one without records where it never began."""
        return self.steps.get(name) or StepState(name=name)

    @property
    def over(self) -> bool:
        """Whether the plan came to its end, and no process took it up since."""
        return self.released is not None and self.released.record.state == "complete"

    @property
    def cut(self) -> bool:
        """Whether the newest record is the mark of a mend before which records may be missing."""
        return self.lost is not None and self.lost is self.last

    @property
    def foreign(self) -> bool:
        """Whether the run was fetched, and no local record followed."""
        return self.last is not None and self.last.foreign

    @property
    def finished(self) -> bool:
        """Whether the run has nothing left to do."""
        return not self.why

    @property
    def why(self) -> tuple[str, ...]:
        """The unfinished parts, one sentence each."""
        why = [text for step in self.steps.values() if (text := self.unfinished(step))]
        if self.plan is not None and not self.over:
            why.insert(0, "the plan is stopped" if self.released is not None else "the end of the plan is not recorded")
        if self.repair is not None:
            why.append("a repair is not at its end")
        if self.cut and self.lost is not None:
            why.append(f"its ref was lost, and perhaps records after number {self.lost.record.seq - 1}")
        return tuple(why)

    def unfinished(self, step: StepState) -> str:
        """Why a step of it is unfinished, for people; empty when it is not."""
        undoing = step.compensating is not None and step.compensating.record.type
        rows = (
            (undoing == "comp-fail", "the compensation of {} failed"),
            (undoing, "the compensation of {} has no end"),
            (step.begun, "{} has begun and has no end"),
            (step.unknown, "nobody knows whether the effect of {} happened"),
            (step.bare, "the effect of {} happened, and it has no result"),
            (step.gate == "waiting", "{} waits at its gate"),
        )
        if said := next((text for holds, text in rows if holds), ""):
            return said.format(in_quotes(step.name))
        over = self.released.record.seq if self.released is not None and self.over else -1  # what failed before is over, too
        if step.failed is None or step.settled is not None or (step.defined is None and step.failed.record.seq < over):
            return ""
        record = step.failed.record
        return f"{in_quotes(step.name)} failed with {124 if record.timeout else record.exit or 125}"


NOTHING = RunState()  # of a run that has no record


def fold(records: Iterable[Logged], since: RunState = NOTHING) -> RunState:
    """The state of a run after its records, oldest first; ``since``: the state after those before them."""
    steps, run, lineage = dict(since.steps), since.run, since.lineage
    plan, released, repair, lost, last = since.plan, since.released, since.repair, since.lost, since.last
    own: dict[str, list[Logged]] = {}  # put into its step at the end: anew for each record it takes the square of their number
    for logged in records:
        record, last = logged.record, logged
        run, lineage = record.run, lineage or record.lineage
        if record.type == "claim":
            plan, released = logged, None
        elif record.type == "release":
            released, repair = logged, None
            lost = logged if is_mark(record) else lost
        elif record.type == "repair":
            repair = logged if record.state is None else None
        if record.step is not None and record.type in _HANDLERS:
            step = steps.get(record.step) or StepState(name=record.step)
            steps[record.step] = _HANDLERS[record.type](step, logged)
            own.setdefault(record.step, []).append(logged)
    steps |= {name: replace(steps[name], records=(*steps[name].records, *more)) for name, more in own.items()}
    return RunState(run=run, lineage=lineage, steps=steps, plan=plan, released=released, repair=repair, lost=lost, last=last)


def is_mark(record: Record) -> bool:
    """Whether a record was put on top of a run by a mend that could not know whether more had followed."""
    return record.type == "release" and record.cause is not None and record.cause.kind == "lost"


def _begin(step: StepState, logged: Logged) -> StepState:
    record = logged.record
    pre = record.writes.pre if record.writes is not None else None
    first = record.writes if not step.attempts else None
    step = replace(
        step,
        first_pre=step.first_pre if step.attempts else pre,
        first_folders=first.folders if first is not None else step.first_folders,
        first_modes=first.modes if first is not None else step.first_modes,
        begun=logged,
        defined=logged.parts.get(PLAN),
        last=logged,
        settled=None,
        attempts=step.attempts + 1,
        in_vain=step.in_vain + 1,
        gate="none" if step.gate == "waiting" else step.gate,
    )
    if record.effect in (None, "none") or record.idem is None:
        return step
    known = _effect(step, record.idem)
    # What an earlier attempt did is not taken back by trying again.
    if known is not None and known.state == "live":
        return step
    doubt = known is not None and known.state == "unknown"
    effect = EffectState(idem=record.idem, key=record.key or "", logged=logged, state="unknown", doubt=doubt)
    return _with_effect(step, effect)


def _end(step: StepState, logged: Logged) -> StepState:
    record = logged.record
    step = replace(
        step,
        end=logged,
        last=logged,
        begun=None,
        failed=None,
        settled=None,
        ends=(*step.ends, logged),
        in_vain=0,
        gate="none" if step.gate == "waiting" else step.gate,
    )
    if record.effect in (None, "none") or record.idem is None:
        return step
    return _with_effect(step, EffectState(idem=record.idem, key=record.key or "", logged=logged, state="live"))


def _fail(step: StepState, logged: Logged) -> StepState:
    """Of a command whose effect may happen only once nobody knows, however it failed, nor of one that was killed, itself or
    (above 128) a process below its shell. Of others, one that said it failed had no effect, and one that said it succeeded
    had, whatever its outputs are."""
    record, begun = logged.record, step.begun
    step = replace(step, begun=None, failed=logged, last=logged)
    idem = record.idem or (begun.record.idem if begun is not None else None)
    effect = _effect(step, idem) if idem is not None else None
    killed = record.timeout or record.signal is not None or (record.exit or 0) > 128
    if effect is None or effect.state != "unknown" or killed or "once" in (record.effect, effect.logged.record.effect):
        return step
    if record.exit == 0:
        return _with_effect(step, replace(effect, state="live"))
    return _with_effect(step, effect if effect.doubt else replace(effect, state="undone"))


def _abort(step: StepState, logged: Logged) -> StepState:
    """Give up what was begun; whether its effect happened stays as unknown as it was."""
    return replace(step, begun=None, last=logged if logged.record.exit is not None else step.last)


def _settle(step: StepState, logged: Logged) -> StepState:
    record = logged.record
    idem = record.idem or (step.begun.record.idem if step.begun is not None else None)
    effect = _effect(step, idem) if idem is not None else next(iter(step.effects[-1:]), None)
    undone = record.state == "undone"
    step = replace(step, begun=None, settled=logged, compensating=None, in_vain=0)
    if effect is None:
        return replace(step, end=None) if undone else step
    step = _with_effect(step, replace(effect, state="undone" if undone else "live"))
    if undone and effect.state in ("live", "undoing"):
        step = replace(step, undone=(*step.undone, effect.key))
    return _without_end(step, effect) if undone else step


def _comp_begin(step: StepState, logged: Logged) -> StepState:
    effect = _effect(step, logged.record.compensates)
    step = replace(step, compensating=logged)
    return step if effect is None else _with_effect(step, replace(effect, state="undoing"))


def _comp_end(step: StepState, logged: Logged) -> StepState:
    effect = _effect(step, logged.record.compensates)
    step = replace(step, compensating=None, undone=(*step.undone, logged.record.key or ""))
    if effect is None:
        return step
    return _without_end(_with_effect(step, replace(effect, state="undone")), effect)


def _approve(step: StepState, logged: Logged) -> StepState:
    gate: Gate = "rejected" if logged.record.state == "rejected" else "approved"
    return replace(step, gate=gate, gate_key=logged.record.key or step.gate_key)


def _effect(step: StepState, idem: str | None) -> EffectState | None:
    return next((effect for effect in step.effects if effect.idem == idem), None)


def _with_effect(step: StepState, effect: EffectState) -> StepState:
    """The step with one effect in the place of what was known of it; a new one is the newest."""
    if _effect(step, effect.idem) is None:
        return replace(step, effects=(*step.effects, effect))
    return replace(step, effects=tuple(effect if known.idem == effect.idem else known for known in step.effects))


def _without_end(step: StepState, effect: EffectState) -> StepState:
    """Drop a result whose effect is undone."""
    stands = step.end is not None and step.end.record.idem != effect.idem
    return step if stands else replace(step, end=None)


_HANDLERS: dict[str, Callable[[StepState, Logged], StepState]] = {
    "begin": _begin,
    "end": _end,
    "fail": _fail,
    "abort": _abort,
    "settle": _settle,
    "comp-begin": _comp_begin,
    "comp-end": _comp_end,
    "comp-fail": lambda step, logged: replace(step, compensating=logged),
    "gate": lambda step, logged: replace(step, gate="waiting", gate_key=logged.record.key),
    "approve": _approve,
}
