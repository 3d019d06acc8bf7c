"""The order of steps, the ones that may run side by side, and what ends a loop."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import RunError
from gitbaton.runs.attempt import Guards
from gitbaton.runs.graph import Schedule, carry_out, collide
from gitbaton.runs.journal.state import RunState, StepState
from gitbaton.runs.journal.values import Plan, Step
from tests.kit.commands import until


def step(name: str, *after: str, reads: tuple[str, ...] = (), writes: tuple[str, ...] = ()) -> Step:
    return Step(name=name, argv=("true",), after=after, reads=reads, writes=writes)


def schedule(*steps: Step) -> Schedule:
    return Schedule(steps, {s.name: s.after for s in steps})


class Work:
    """Steps that only note when they began and ended."""

    def __init__(self, codes: dict[str, int] | None = None, needs: tuple[str, str] = ("", "")) -> None:
        """``needs``: a step, and another one that begins before the first one ends."""
        self.codes, self.needs = codes or {}, needs
        self.events: list[tuple[str, str]] = []

    def __call__(self, one: Step) -> int:
        self.events.append(("begin", one.name))
        if one.name == self.needs[0]:
            until(lambda: self.needs[1] in self.begun())
        self.events.append(("end", one.name))
        return self.codes.get(one.name, 0)

    def begun(self) -> list[str]:
        return [name for what, name in self.events if what == "begin"]


DIAMOND = (step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c"))


def test_one_after_the_other_in_their_order_without_a_thread() -> None:
    seen: list[str] = []

    def work(one: Step) -> int:
        seen.append(threading.current_thread().name)
        return 0

    assert carry_out(schedule(*DIAMOND), work) == 0
    assert seen == [threading.current_thread().name] * 4


def test_nothing_begins_after_a_failure_and_what_runs_ends() -> None:
    plan = schedule(step("slow"), step("bad"), step("next"), step("more", "slow"))

    def work(one: Step) -> int:
        if one.name == "slow":
            until(lambda: "bad" in plan.codes)
            return 0
        return 3

    assert carry_out(plan, work, jobs=2) == 3
    assert plan.codes == {"bad": 3, "slow": 0} and plan.left == ("next", "more")


def test_a_gate_keeps_only_what_hangs_on_it_and_a_failure_says_more() -> None:
    plan = schedule(*DIAMOND, step("e"))
    assert carry_out(plan, Work({"b": 75})) == 75
    assert list(plan.codes) == ["a", "b", "c", "e"] and plan.left == ("d",)
    plan = schedule(*DIAMOND, step("e"))
    assert carry_out(plan, Work({"b": 75, "c": 2})) == 2
    assert plan.left == ("d", "e")


def test_a_nested_failure_in_a_diamond_with_four_at_once() -> None:
    inner = (step("b1", "b"), step("b2", "b"), step("b3", "b1", "b2"))
    plan = schedule(step("a"), step("b", "a"), step("c", "a"), *inner, step("d", "b3", "c"))
    work = Work({"b2": 7})
    assert carry_out(plan, work, jobs=4) == 7
    assert "b3" not in work.begun() and "d" not in work.begun()
    assert {"a", "b", "b1", "b2"} <= set(work.begun())
    assert sorted(name for what, name in work.events if what == "end") == sorted(work.begun())


def test_an_error_of_a_thread_is_raised_when_the_others_have_ended() -> None:
    begun, ended, raised = list[str](), list[str](), threading.Event()

    def work(one: Step) -> int:
        begun.append(one.name)
        if one.name == "b":
            raised.set()
            raise RunError("'b' is lost", code=78)
        raised.wait()
        ended.append(one.name)
        return 0

    with pytest.raises(RunError, match="'b' is lost"):
        carry_out(schedule(step("a"), step("b"), step("c"), step("d")), work, jobs=3)
    assert "a" in ended and {*begun} == {*ended, "b"}


def test_what_one_writes_the_other_may_not_touch_meanwhile() -> None:
    plan = schedule(step("gen", writes=("src/gen/**",)), step("lint", reads=("src/**",)), step("docs", reads=("docs/**",)))
    work = Work(needs=("gen", "docs"))
    assert carry_out(plan, work, jobs=3) == 0
    assert work.events.index(("end", "gen")) < work.events.index(("begin", "lint"))
    assert collide(step("x", writes=("a/*",)), step("y", writes=("a/b",)))
    assert not collide(step("x", reads=("a",)), step("y", reads=("a",)))


@st.composite
def plans(draw: st.DrawFn) -> tuple[Step, ...]:
    """Random DAGs in topological order."""
    found: list[Step] = []
    for n in range(draw(st.integers(1, 8))):
        above = [one.name for one in found]
        found.append(step(f"s{n}", *(draw(st.lists(st.sampled_from(above), unique=True, max_size=3)) if above else [])))
    return tuple(found)


@pytest.mark.deep
@settings(max_examples=40, deadline=None)
@given(plans(), st.dictionaries(st.sampled_from([f"s{n}" for n in range(8)]), st.sampled_from([1, 75]), max_size=2), st.data())
def test_any_order_of_endings_keeps_every_need(steps: tuple[Step, ...], codes: dict[str, int], data: st.DataObject) -> None:
    plan = schedule(*steps)
    running: list[Step] = []
    while True:
        while (one := plan.begin()) is not None:
            assert all(plan.codes.get(name) == 0 for name in one.after)
            running.append(one)
        if not running:
            break
        ended = running.pop(data.draw(st.integers(0, len(running) - 1)))
        plan.end(ended, codes.get(ended.name, 0))
    assert {*plan.codes, *plan.left} == {s.name for s in steps}
    if not codes.keys() & plan.codes.keys():
        assert plan.code == 0 and not plan.left


def guards(max_runs: int = 50, max_wall: float = 7200.0, times: list[float] | None = None, **before: int) -> Guards:
    clock = iter(times or [0.0] * 1000)
    plan = Plan(steps=(), max_runs=max_runs, max_wall=max_wall)
    state = RunState(steps={name: StepState(name=name, in_vain=number) for name, number in before.items()})
    return Guards(plan, state, lambda: next(clock))


def test_r37_loop_guards_max_runs_and_max_wall() -> None:
    two = guards(max_runs=2)
    two.before("build")
    two.before("build")
    two.before("other")
    with pytest.raises(RunError, match=r"'build' .* 'max-runs': it was started 2 times without a result") as caught:
        two.before("build")
    assert caught.value.exit_code == 79 and caught.value.hints
    fresh = guards(max_runs=2, build=1)
    fresh.before("build")
    with pytest.raises(RunError, match="max-runs"):
        guards(max_runs=2, build=2).before("build")
    with pytest.raises(RunError, match=r"'build' .* 'max-wall': 61 s"):
        guards(max_wall=60.0, times=[1.0, 62.0]).before("build")
