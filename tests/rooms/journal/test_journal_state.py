"""What records come to: which result stands, what is open, what became of each effect, and whether a run is finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.values import replace
from gitbaton.runs.journal.state import EffectState, RunState, StepState, fold
from gitbaton.runs.journal.values import TYPES, Logged, Record, Writes
from tests.kit.journals import record
from tests.kit.tables import each

PRE, OUT, TORN = "1" * 40, "2" * 40, "3" * 40
KEY, OTHER = "a" * 64, "b" * 64


def log(*records: Record, foreign: bool = False) -> list[Logged]:
    """Records in their places, with the trees that they name beside them."""
    found = []
    for number, r in enumerate(records):
        parts = {"writes": r.writes.tree} if r.writes is not None and r.writes.tree is not None else {}
        parts |= {"orphan": TORN} if r.type in ("fail", "abort") else {}
        found.append(Logged(record=replace(r, seq=number), commit=f"{number:040}", parts=parts, foreign=foreign))
    return found


def begin(key: str = KEY, step: str = "s", **fields: Any) -> Record:
    return record("begin", step, key=key, idem=f"idem-{key[0]}", writes=Writes(globs=("o",), pre=PRE), **fields)


def after(kind: str, begun: Record, **fields: Any) -> Record:
    writes = Writes(globs=("o",), pre=PRE, tree=OUT) if kind == "end" else begun.writes
    return replace(begun, **{"type": kind, "writes": writes, **fields})


def effects(state: RunState, step: str = "s") -> dict[str, str]:
    return {effect.key[0]: effect.state for effect in state.steps[step].effects}


def one(records: Sequence[Record], step: str = "s") -> StepState:
    return fold(log(*records)).steps[step]


def test_nothing_is_finished_and_so_is_a_step_that_ended() -> None:
    assert fold([]) == RunState() and fold([]).finished
    state = fold(log(begin(), after("end", begin(), exit=0)))
    step = state.steps["s"]
    assert state.finished and not state.why and step.end is not None and step.begun is None
    assert (step.first_pre, len(step.ends), step.attempts) == (PRE, 1, 1)


def test_a_begin_without_an_end_is_open() -> None:
    state = fold(log(begin(), after("end", begin()), begin(OTHER)))
    step = state.steps["s"]
    assert not state.finished and state.why == ("'s' has begun and has no end",)
    assert step.begun is not None and step.begun.record.key == OTHER
    assert step.end is not None and step.end.record.key == KEY, "the older result stands until there is another"


def test_failures_and_aborts_close_it() -> None:
    for kind in ("fail", "abort"):
        state = fold(log(begin(), after(kind, begin(), exit=1)))
        step = state.steps["s"]
        assert state.why == (("'s' failed with 1",) if kind == "fail" else ())
        assert step.begun is None and step.end is None
        assert (step.failed is not None) == (kind == "fail")
    done = one([begin(), after("fail", begin(), exit=1), begin(), after("end", begin(), exit=0)])
    assert done.failed is None and done.attempts == 2


def test_what_was_there_first_stays_known() -> None:
    second = replace(begin(OTHER), writes=Writes(globs=("o",), pre=OUT))
    assert one([begin(), after("end", begin()), second]).first_pre == PRE


def test_an_effect_is_unknown_then_live() -> None:
    b = begin(effect="once")
    assert effects(fold(log(b))) == {"a": "unknown"}
    assert effects(fold(log(b, after("end", b, exit=0)))) == {"a": "live"}
    assert effects(fold(log(b, after("abort", b)))) == {"a": "unknown"}, "an abort says nothing of it"
    assert one([begin()]).effects == (), "without an effect there is none"


def test_of_a_once_that_failed_nobody_knows() -> None:
    b = begin(effect="once")
    for fields in ({"exit": 1}, {"exit": 0}, {"exit": 127}, {"exit": 124, "timeout": True}):
        state = fold(log(b, after("fail", b, **fields)))
        assert effects(state) == {"a": "unknown"} and not state.finished
        assert state.why == ("nobody knows whether the effect of 's' happened",)
    settled = record("settle", "s", idem="idem-a", state="undone")
    assert fold(log(b, after("fail", b, exit=127), settled)).finished


@each("kind", ["once", "idempotent"])
def test_an_interrupted_effect_leaves_its_run_unfinished(kind: str) -> None:
    b = begin(effect=kind)
    stopped = after("abort", b, exit=143)
    state = fold(log(b, stopped))
    assert state.why == ("nobody knows whether the effect of 's' happened",) and state.steps["s"].begun is None
    last = state.steps["s"].last
    assert last is not None and last.record.exit == 143, "how it was asked for is not forgotten"
    done = fold(log(b, stopped, record("settle", "s", idem="idem-a", state="done")))
    assert done.finished == (kind == "idempotent"), "a `once` that happened has no result yet"
    assert fold(log(b, stopped, b, after("end", b, exit=0))).finished


def test_a_command_that_says_that_it_failed_had_no_effect() -> None:
    b = begin(effect="idempotent")
    assert effects(fold(log(b, after("fail", b, exit=1)))) == {"a": "undone"}
    assert effects(fold(log(b, after("fail", b, exit=0)))) == {"a": "live"}, "it did its work; its outputs were wrong"
    assert effects(fold(log(b, after("fail", b, exit=124, timeout=True)))) == {"a": "unknown"}
    assert effects(fold(log(b, after("fail", b, exit=137, signal="KILL")))) == {"a": "unknown"}


def test_an_attempt_in_doubt_is_not_cleared_by_a_later_failure() -> None:
    b = begin(effect="idempotent")
    assert effects(fold(log(b, b, after("fail", b, exit=1)))) == {"a": "unknown"}, "the first was killed"
    killed = after("fail", b, exit=124, timeout=True)
    assert effects(fold(log(b, killed, b, after("fail", b, exit=1)))) == {"a": "unknown"}
    assert effects(fold(log(b, killed, b, after("end", b, exit=0)))) == {"a": "live"}
    failed = after("fail", b, exit=1)
    assert effects(fold(log(b, failed, b, failed))) == {"a": "undone"}
    live = [b, after("end", b, exit=0)]
    assert effects(fold(log(*live, b, failed))) == {"a": "live"}, "what an earlier attempt did stays done"


def comp(kind: str, **fields: Any) -> Record:
    return record(kind, "s", compensates="idem-a", **fields)


def test_a_compensation_undoes_the_result_and_is_open_until_it_ends() -> None:
    b = begin(effect="idempotent")
    done = [b, after("end", b, exit=0)]
    began = fold(log(*done, comp("comp-begin")))
    assert effects(began) == {"a": "undoing"} and began.why == ("the compensation of 's' has no end",)
    failed = fold(log(*done, comp("comp-begin"), comp("comp-fail", exit=1)))
    assert effects(failed) == {"a": "undoing"} and failed.why == ("the compensation of 's' failed",)
    state = fold(log(*done, comp("comp-begin"), comp("comp-fail"), comp("comp-begin"), comp("comp-end")))
    assert effects(state) == {"a": "undone"} and state.finished
    assert state.steps["s"].end is None and len(state.steps["s"].ends) == 1
    again = begin(OTHER, effect="idempotent")
    newer = fold(log(*done, again, after("end", again), comp("comp-begin"), comp("comp-end")))
    assert effects(newer) == {"a": "undone", "b": "live"}
    assert newer.steps["s"].end is not None, "the newer result is not what was undone"
    assert [effect.key[0] for effect in newer.steps["s"].effects] == ["a", "b"], "newest last"


def test_a_person_settles_what_nobody_knows() -> None:
    b = begin(effect="once")
    settled = record("settle", "s", idem="idem-a", state="done")
    step = one([b, settled])
    assert [e.state for e in step.effects] == ["live"] and step.begun is None and step.end is None
    assert step.settled is not None
    undone = one([b, replace(settled, state="undone")])
    assert [e.state for e in undone.effects] == ["undone"] and undone.begun is None
    assert one([b, replace(settled, idem=None)]).effects[0].state == "live", "the newest, where none is named"
    assert one([b, settled, after("end", b)]).settled is None
    state = fold(log(b, after("end", b), comp("comp-begin"), comp("comp-fail"), replace(settled, state="undone")))
    stuck = state.steps["s"]
    assert state.finished and stuck.end is None and stuck.effects[0].state == "undone"


def test_a_gate_waits_until_somebody_answers() -> None:
    gate = record("gate", "s", key=KEY)
    state = fold(log(gate))
    assert state.why == ("'s' waits at its gate",) and state.steps["s"].gate == "waiting"
    approved = one([gate, record("approve", "s", state="approved")])
    assert (approved.gate, approved.gate_key) == ("approved", KEY)
    assert one([gate, record("approve", "s", state="rejected", key=KEY)]).gate == "rejected"
    again = one([gate, record("approve", "s", state="approved"), replace(gate, key=OTHER)])
    assert (again.gate, again.gate_key) == ("waiting", OTHER), "it is asked anew for other inputs"


def test_a_plan_is_unfinished_until_it_is_released_as_complete() -> None:
    claim = record("claim", None, plan="baton.toml")
    release = record("release", None, state="complete")
    assert fold(log(claim)).why == ("the end of the plan is not recorded",)
    assert fold(log(claim, replace(release, state="stopped"))).why == ("the plan is stopped",)
    done = fold(log(claim, release))
    assert done.finished and done.plan is not None and done.released is not None
    assert not fold(log(claim, release, claim)).finished
    repair = record("repair", None, region=("s",))
    assert fold(log(claim, repair)).repair is not None and fold(log(claim, repair, release)).repair is None
    began = fold(log(claim, release, repair))
    assert began.why == ("a repair is not at its end",) and not began.finished and began.over
    for word in ("complete", "stopped"):
        ended = fold(log(claim, release, repair, replace(repair, state=word)))
        assert ended.finished and ended.repair is None


def test_a_run_is_foreign_while_its_newest_record_is() -> None:
    assert fold(log(begin(), foreign=True)).foreign
    assert not fold([*log(begin(), foreign=True), *log(begin())]).foreign


def some(kind: str, step: str, key: str, fields: dict[str, Any]) -> Record:
    writes, idem = Writes(globs=(), pre=PRE, tree=OUT), f"idem-{key[0]}"
    return record(kind, step, key=key, idem=idem, writes=writes, compensates=idem, **fields)


RECORDS = st.builds(
    some,
    st.sampled_from(TYPES),
    st.sampled_from(["s", "t"]),
    st.sampled_from([KEY, OTHER]),
    st.fixed_dictionaries(
        {
            "effect": st.sampled_from([None, "none", "idempotent", "once"]),
            "exit": st.sampled_from([None, 0, 1]),
            "timeout": st.booleans(),
            "state": st.sampled_from([None, "done", "undone", "approved", "rejected", "complete", "stopped"]),
        }
    ),
)


@pytest.mark.deep
@settings(max_examples=150, deadline=None)
@given(st.lists(RECORDS, max_size=25))
def test_any_records_come_to_a_state_that_agrees_with_itself(records: list[Record]) -> None:
    rows = log(*records)
    state = fold(rows)
    assert state == fold(rows) and state.finished == (not state.why)
    half = len(rows) // 2
    assert state == fold(rows[half:], fold(rows[:half])), "what came before is not gone through again"
    for name, step in state.steps.items():
        own = [r for r in records if r.step == name]
        assert step.end is None or step.end in step.ends
        assert step.attempts == sum(1 for r in own if r.type == "begin")
        assert len({effect.idem for effect in step.effects}) == len(step.effects)
        ended = {r.idem for r in own if r.type == "end" and r.effect not in (None, "none")}
        said = {r.idem for r in own if r.type in ("settle", "fail")} | {r.idem for r in own if r.type == "begin"}
        live = [effect for effect in step.effects if effect.state == "live"]
        assert all(isinstance(effect, EffectState) and effect.idem in ended | said for effect in live)
        opened = [r for r in own if r.type in ("begin", "end", "fail", "abort", "settle")][-1:]
        assert (step.begun is not None) == (bool(opened) and opened[0].type == "begin")
