"""Killed at every point: going on gives what a clean run gives, and every effect as it was promised."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gitbaton.journal.values import Step
from gitbaton.running.recovery import settle
from tests.kit import Sandbox
from tests.kit.steps import Runner, changed, listing, sh
from tests.kit.tiers import FULL

ROWS = {
    "before-begin": "r10",
    "after-begin": "r11",
    "in-command": "r12",
    "after-command": "r13",
    "after-collect": "r13",
    "in-bring-back": "r13",
    "before-end": "r13",
    "after-end": "r14",
}
ONCE = 'echo "do $GIT_BATON_IDEMPOTENCY_KEY" >> "$X/log"'
KEYED = f'grep -qs "$GIT_BATON_IDEMPOTENCY_KEY" "$X/log" || {ONCE}'
PROBE = 'touch "$X/log"; grep -q "$GIT_BATON_IDEMPOTENCY_KEY" "$X/log"'
WHOLE = 'test "$(cat out/second/b)" = b'


def chain(isolate: str, effect: str, probe: str | None = None, pause: str = "") -> tuple[Step, Step, Step]:
    """Three steps, each on what the one before made; the second has the effect, and writes two files not at once."""
    do = {"none": "true", "idempotent": KEYED, "once": ONCE}[effect]
    first = sh("first", "mkdir -p out; cat src/a.txt > out/first", reads="src/**", writes="out/first", isolate=isolate)
    line = f"mkdir -p out/second; echo torn > out/second/a; {do}; {pause} cat out/first > out/second/a; echo b > out/second/b"
    second = sh("second", line, reads="out/first", writes="out/second/**", after="first", isolate=isolate)
    second = changed(second, effect=effect, probe=probe)
    last = sh("last", "cat out/second/* > out/last", reads="out/second/**", writes="out/last", after="second", isolate=isolate)
    return first, second, last


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    return prepared(repo)


def prepared(repo: Sandbox) -> Runner:
    repo.write("src/a.txt", "one\n")
    repo.write("out/second/theirs", "was there before\n")
    repo.write("wip.txt", "somebody's\n")
    return Runner(repo)


WANTED = {
    "a.txt": b"one\n",
    "src/a.txt": b"one\n",
    "wip.txt": b"somebody's\n",
    "out/first": b"one\n",
    "out/second/a": b"one\n",
    "out/second/b": b"b\n",
    "out/second/theirs": b"was there before\n",
    "out/last": b"one\nb\nwas there before\n",
}


def finished(run: Runner, steps: tuple[Step, ...], effects: int) -> None:
    """All is as after a clean run."""
    done = run.go(*steps)
    assert done.good, done
    assert listing(run.repo.path) == WANTED
    assert len(run.lines("log")) == effects
    assert [run.go(step).state for step in steps] == ["cached"] * 3
    run.checked()


@pytest.mark.parametrize("isolate", ["none", "tree"])
@pytest.mark.parametrize("point", ROWS)
def test_r10_to_r14_killed_at_a_point_with_an_idempotent_effect(run: Runner, point: str, isolate: str) -> None:
    first, second, last = chain(isolate, "idempotent")
    run.go(first)
    died = run.killed(point, second)
    assert died == (point != "in-bring-back" or isolate == "tree")
    finished(run, (first, second, last), 1)
    keys = {lg.record.idem for lg in run.records() if lg.record.step == "second" and lg.record.idem}
    assert len(keys) == 1 and run.types("second").count("begin") == (
        1 if point in ("before-begin", "after-end") or not died else 2
    )


@pytest.mark.parametrize("point", ["in-command", "after-collect"])
def test_r12_r13_what_was_torn_is_kept_and_put_back(run: Runner, point: str) -> None:
    first, second, last = chain("none", "none", pause="sleep 30;" if point == "in-command" else "")
    run.go(first)
    if point == "in-command":
        kill_when(run, second, lambda: run.there("out/second/a") and run.read("out/second/a") == "torn\n")
    else:
        assert run.killed(point, second)
    began = time.monotonic()
    _, second, _ = chain("none", "none")
    with run.open() as ctx:
        assert ctx.step_state("second").begun is not None
    finished(run, (first, second, last), 0)
    assert time.monotonic() - began < 10  # what outlived its parent was ended, not waited for
    aborted = next(lg for lg in run.records() if lg.record.type == "abort")
    assert "out/second/a" in run.files(aborted.parts["orphan"])


def kill_when(run: Runner, step: Step, seen: Callable[[], bool]) -> None:
    """Carry out a step in a process that is killed as soon as something is seen."""
    pid = os.fork()
    if pid == 0:
        try:
            run.go(step)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 20
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("point", ["after-begin", "after-command", "before-end"])
def test_r11_r13_once_without_a_probe_ends_in_a_question(run: Runner, point: str) -> None:
    first, second, last = chain("none", "once")
    run.go(first)
    assert run.killed(point, second)
    for _ in range(2):
        done = run.go(first, second, last)
        assert (done.state, done.code, done.step.name) == ("unknown", 76, "second")
    happened = len(run.lines("log"))
    assert happened == (0 if point == "after-begin" else 1)
    with run.open() as ctx:
        settle(ctx, second, bool(happened))
    finished(run, (first, second, last), 1)


@pytest.mark.parametrize("isolate", ["none", "tree"])
@pytest.mark.parametrize("point", ["after-begin", "after-command", "before-end"])
def test_r11_r13_once_with_a_probe_is_asked(run: Runner, point: str, isolate: str) -> None:
    first, second, last = chain(isolate, "once", PROBE)
    second = changed(second, verify=WHOLE)
    run.go(first)
    assert run.killed(point, second)
    if isolate == "tree" and point != "after-begin":  # the outputs went with the lane, or nobody knows that they did not
        asked_and_told(run, (first, second, last))
    finished(run, (first, second, last), 1)


def test_r12_a_once_that_happened_and_may_be_torn_is_for_a_person_to_judge(run: Runner) -> None:
    steps = chain("none", "once", PROBE, pause="sleep 30;")
    run.go(steps[0])
    kill_when(run, steps[1], lambda: bool(run.lines("log")))
    asked_and_told(run, steps)
    assert len(run.lines("log")) == 1 and run.types("second") == ["begin", "settle", "settle", "begin", "end"]
    finished(run, steps, 1)


def test_r13_a_person_who_denies_what_the_probe_said_leaves_nothing_torn(run: Runner) -> None:
    steps = chain("tree", "once", PROBE)
    steps = (steps[0], changed(steps[1], verify=WHOLE.replace("/b", "/a").replace("= b", "= one")), steps[2])
    run.go(steps[0])
    (run.repo.path / "out/second").mkdir(exist_ok=True)
    assert run.killed("in-bring-back", steps[1])
    (run.repo.path / "out/second/a").unlink()
    run.repo.write("out/second/b", "b\n")
    assert run.go(*steps).code == 76
    (run.outside / "log").unlink()  # undone by hand
    with run.open() as ctx:
        settle(ctx, steps[1], False)
    assert not run.there("out/second/b") and run.there("out/second/theirs")
    finished(run, steps, 1)


def asked_and_told(run: Runner, steps: tuple[Step, ...]) -> None:
    """It is not known whether the outputs are whole; a person makes them so and says it."""
    done = run.go(*steps)
    assert (done.state, done.code) == ("unknown", 76) and len(run.lines("log")) == 1
    run.repo.write("out/second/a", "one\n")
    run.repo.write("out/second/b", "b\n")
    with run.open() as ctx:
        assert settle(ctx, steps[1], True).state == "ok"


def test_r16_killed_while_a_result_is_put_in_place(run: Runner) -> None:
    steps = chain("none", "none")
    run.go(*steps)
    for name in ("a", "b"):
        (run.repo.path / "out/second" / name).unlink()
    assert run.killed("in-materialize", *steps)
    assert run.there("out/second/a") != run.there("out/second/b")
    finished(run, steps, 0)


KILLS = 3  # in one repository, one after the other


@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_r18_killed_at_any_time(tmp_path: Path, isolate: str, request: pytest.FixtureRequest) -> None:
    instants = 200 if FULL else 25
    hits = []
    for seed in range(-(-instants // (2 * KILLS))):
        chance = random.Random(f"{isolate} {seed}")
        repo = Sandbox.init(tmp_path / str(seed) / "repo")
        repo.commit("first", a_txt="one\n")
        run = prepared(repo)
        steps = chain(isolate, "idempotent")
        for _ in range(KILLS):
            hits.append(kill_after(run, steps, chance.uniform(0.0, 0.12)))
        finished(run, steps, 1)
    assert 5 * sum(hits) > len(hits), "kills hit processes that were at work"


def kill_after(run: Runner, steps: tuple[Step, ...], seconds: float) -> bool:
    """Carry out steps in a process that is killed after a time; whether it was still at work then."""
    pid = os.fork()
    if pid == 0:
        try:
            run.go(*steps)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
