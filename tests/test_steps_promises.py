"""What is promised of effects where a process dies, a person decides, or the journal goes: nothing twice, nothing untrue."""

from __future__ import annotations

import pytest

from gitbaton.journal.values import Cause
from gitbaton.running.effects import compensate
from gitbaton.running.recovery import settle
from tests.support import Sandbox
from tests.support.steps import Runner, changed, sh

SAY = 'echo "do $GIT_BATON_STEP $GIT_BATON_IDEMPOTENCY_KEY" >> "$X/log"'
UNDO = 'echo "undo $GIT_BATON_STEP $GIT_BATON_COMPENSATES" >> "$X/log"'
A = sh("a", SAY, reads="src/a", effect="idempotent", compensate=UNDO)
B = sh("b", SAY, reads="src/b", after="a", effect="idempotent", compensate=UNDO)


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    for name in "abc":
        repo.write(f"src/{name}", f"{name} one\n")
    return Runner(repo)


def keys(run: Runner) -> list[str]:
    """The idempotency keys that the commands saw, in order."""
    return [line.split()[2] for line in run.lines("log") if line.startswith("do")]


def effects(run: Runner, step: str) -> list[str]:
    return [effect.state for effect in run.state(step).effects]


def test_nobody_knows_what_a_process_below_the_shell_did_that_was_killed(run: Runner) -> None:
    killed = changed(A, argv=("sh", "-c", f"sh -c '{SAY}; test -e \"$X/calm\" || kill -9 $$'; exit $?"))
    assert run.go(killed).code == 137 and effects(run, "a") == ["unknown"]
    run.repo.write("src/a", "a two\n")
    done = run.go(killed)
    assert (done.state, done.code, len(keys(run))) == ("unknown", 76, 1), "the old inputs may have had their effect"
    run.repo.write("src/a", "a one\n")
    (run.outside / "calm").touch()
    assert run.go(killed).state == "ok" and len(keys(run)) == 2 and len(set(keys(run))) == 1
    run.checked()


def test_an_effect_that_stands_is_not_written_off_by_an_attempt_that_never_began(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gitbaton.running import attempt

    step = changed(A, argv=("sh", "-c", f"{SAY}; test ! -e \"$X/make\" || echo 1 > out"), writes=("out",), retries=1)
    put, calls = attempt.put, []

    def blocked(*arguments: object, **options: object) -> tuple[str, ...]:
        calls.append(arguments)
        return ("out",) if len(calls) == 3 else put(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(attempt, "put", blocked)  # the second attempt finds that somebody writes there
    assert run.go(step).state == "conflict"
    assert effects(run, "a") == ["live"] and "settle" not in run.types("a")
    monkeypatch.undo()
    (run.outside / "make").touch()
    run.repo.write("src/a", "a two\n")
    assert run.go(step).state == "ok"
    assert [line.split()[0] for line in run.lines("log")] == ["do", "undo", "do"]
    run.checked()


def test_what_was_undone_by_hand_is_done_again_under_a_new_key(run: Runner) -> None:
    broken = changed(A, compensate="false")
    run.go(broken)
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ("a",)) == 77
    with run.open() as ctx:
        settle(ctx, broken, done=False)
    assert run.go(broken).state == "ok" and len(set(keys(run))) == 2
    with run.open() as ctx:
        settle(ctx, broken, done=False)
    assert run.go(broken).state == "ok" and len(set(keys(run))) == 3
    run.checked()


def test_what_never_happened_keeps_its_key(run: Runner) -> None:
    once = changed(A, effect="once")
    assert run.killed("in-command", once)
    with run.open() as ctx:
        settle(ctx, once, done=False)
    assert run.go(once).state == "ok"
    assert {lg.record.idem for lg in run.records() if lg.record.type in ("begin", "end")} == set(keys(run))
    run.checked()


@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_an_effect_declared_afterwards_has_happened(run: Runner, effect: str) -> None:
    plain = changed(A, effect="none", compensate=None)
    run.go(plain)
    assert run.go(changed(A, effect=effect)).state == "cached" and len(keys(run)) == 1
    assert run.go(changed(A, effect=effect), force=Cause(kind="named")).state == "ok" and len(keys(run)) == 2
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ("a",)) == 0
    done = run.go(changed(A, effect=effect))
    assert done.state == "ok" and len(keys(run)) == 3, "what was undone is done again, whatever was before it"
    assert done.cause is not None and done.cause.kind == "compensated"
    run.checked()


@pytest.mark.parametrize("verify", [None, "test -s out"])
def test_outputs_of_a_lane_that_is_gone_are_not_those_that_lie_here(run: Runner, verify: str | None) -> None:
    step = sh("a", f"{SAY}; cp src/a out", reads="src/a", writes="out", effect="once", probe="true", verify=verify, isolate="tree")
    assert run.go(step).state == "ok"
    run.repo.write("src/a", "a two\n")
    assert run.killed("after-command", step)
    for _ in range(2):
        done = run.go(step)
        assert (done.state, done.code) == ("unknown", 76) and run.read("out") == "a one\n"
    assert [lg.record.type for lg in run.records()].count("end") == 1 and len(keys(run)) == 2
    run.checked()
