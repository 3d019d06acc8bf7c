"""What is promised of effects where a process dies, a person decides, or the journal goes: nothing twice, nothing untrue."""

from __future__ import annotations

import os

import pytest

from gitbaton.base.errors import GitError, RunError
from gitbaton.base.secrets import Redactor
from gitbaton.runs.attempt import perform
from gitbaton.runs.effects import compensate, settle
from gitbaton.runs.engine import RepairRequest
from gitbaton.runs.journal import upkeep
from gitbaton.runs.journal.values import Cause, Plan
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.moments import Args, at
from tests.kit.steps import Runner, changed, sh

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


@pytest.mark.deep
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


@pytest.mark.deep
def test_an_effect_that_stands_is_not_written_off_by_an_attempt_that_never_began(run: Runner) -> None:
    step = changed(A, argv=("sh", "-c", f'{SAY}; test ! -e "$X/make" || echo 1 > out'), writes=("out",), retries=1)
    (run.outside / "make").touch()
    assert run.go(step).state == "ok"
    (run.outside / "make").unlink()
    run.repo.write("src/a", "a two\n")
    cleared: list[Args] = []

    def write(args: Args) -> None:
        cleared.append(args)
        if len(cleared) == 2:  # the second attempt finds that somebody writes there
            run.repo.write("out", "somebody's\n")

    with at("os.rename", lambda args: args[0] == "out", write):
        assert run.go(step).state == "conflict"
    assert effects(run, "a")[-1] == "live" and "settle" not in run.types("a") and run.read("out") == "somebody's\n"
    (run.repo.path / "out").unlink()
    (run.outside / "make").touch()
    run.repo.write("src/a", "a three\n")
    assert run.go(step).state == "ok"
    assert [line.split()[0] for line in run.lines("log")] == ["do", "undo", "do", "undo", "do"]
    run.checked()


@pytest.mark.deep
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


@pytest.mark.deep
def test_what_never_happened_keeps_its_key(run: Runner) -> None:
    once = changed(A, effect="once")
    assert run.killed("in-command", once)
    with run.open() as ctx:
        settle(ctx, once, done=False)
    assert run.go(once).state == "ok"
    assert {lg.record.idem for lg in run.records() if lg.record.type in ("begin", "end")} == set(keys(run))
    run.checked()


@pytest.mark.deep
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


@pytest.mark.deep
@pytest.mark.parametrize("verify", [None, "test -s out"])
def test_outputs_of_a_lane_that_is_gone_are_not_those_that_lie_here(run: Runner, verify: str | None) -> None:
    step = sh(
        "a", f"{SAY}; cp src/a out", reads="src/a", writes="out", effect="once", probe="true", verify=verify, isolate="tree"
    )
    assert run.go(step).state == "ok"
    run.repo.write("src/a", "a two\n")
    assert run.killed("after-command", step)
    for _ in range(2):
        done = run.go(step)
        assert (done.state, done.code) == ("unknown", 76) and run.read("out") == "a one\n"
    assert [lg.record.type for lg in run.records()].count("end") == 1 and len(keys(run)) == 2
    run.checked()


TOKEN = "ghp_" + "Zk3Qw8LmX2vB7nT5rYc1HdJ9sFgA4eUpKi6o"
SECRET = changed(A, compensate=f"echo {TOKEN} > /dev/null; {UNDO}")


@pytest.mark.deep
def test_a_compensation_that_a_secret_was_taken_out_of_never_runs(run: Runner) -> None:
    run.redactor = Redactor()
    run.go(SECRET)
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ("a",)) == 77
    (failed,) = run.told("compensation-failed")
    assert failed.text.startswith("its line is not recorded in full (a secret)")
    assert effects(run, "a") == ["live"] and len(run.lines("log")) == 1
    run.repo.write("src/a", "a two\n")
    assert run.go(SECRET).state == "ok", "the step as it is now gives it in full"
    assert [line.split()[0] for line in run.lines("log")] == ["do", "undo", "do"]
    run.checked()


@pytest.mark.deep
def test_a_compensation_that_was_killed_goes_on_only_in_full(run: Runner) -> None:
    run.redactor = Redactor()
    run.go(SECRET)
    with run.engine() as engine:
        assert run.killed("after-comp-begin", changed(SECRET, extra=("2",)))
        assert engine.resume("r1").code == 77 and len(run.lines("log")) == 1
        assert engine.run_step(changed(SECRET, extra=("2",)), "r1").code == 0
    assert [line.split()[0] for line in run.lines("log")] == ["do", "undo", "do"]
    run.checked()


@pytest.mark.deep
def test_nothing_runs_on_before_a_compensation_has_ended(run: Runner) -> None:
    broken = changed(A, compensate=f'test -e "$X/mended" && {UNDO}')
    run.go(broken, B)
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ("a",)) == 77
    run.repo.write("src/b", "b two\n")
    before = len(keys(run))
    with run.engine() as engine:
        outcome = engine.run_step(sh("c", SAY, reads="src/c"), "r1")
        assert (outcome.code, outcome.states, outcome.left) == (77, (), ("c",))
        assert engine.repair(RepairRequest(steps=("b",)), "r1")[1].code == 77 and len(keys(run)) == before
        (run.outside / "mended").touch()
        assert engine.run_step(sh("c", SAY, reads="src/c"), "r1").code == 0 and len(keys(run)) == before + 1
    assert effects(run, "a") == ["undone"]
    run.checked()


@pytest.mark.deep
def test_what_hangs_on_an_effect_is_waited_for_before_that_is_undone(run: Runner) -> None:
    slow = changed(B, argv=("sh", "-c", f'touch "$X/at"; while test ! -e "$X/go"; do sleep 0.01; done; {SAY}'))
    run.go(A)
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(run.go(slow).code)
        finally:
            os._exit(9)
    try:
        run.steps["b"] = slow
        until((run.outside / "at").exists)
        with run.open() as ctx, ctx.hold(), pytest.raises(RunError, match="step 'b' of run 'r1'") as caught:
            compensate(ctx, ("a",))
        assert caught.value.exit_code == 78 and effects(run, "a") == ["live"]
        run.repo.write("src/a", "a two\n")
        done = run.go(A)
        assert (done.state, done.code) == ("conflict", 78) and effects(run, "a") == ["live"]
        (run.outside / "go").touch()
        with run.open(wait=20.0) as ctx, ctx.hold():
            assert compensate(ctx, ("a",)) == 0
    finally:
        (run.outside / "go").touch()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [line.split()[:2] for line in run.lines("log")] == [["do", "a"], ["do", "b"], ["undo", "b"], ["undo", "a"]]
    run.checked()


@pytest.mark.deep
@pytest.mark.parametrize(("probe", "undone"), [(None, []), ("exit 0", ["b", "a"]), ("exit 1", ["a"])])
def test_nothing_is_undone_below_what_nobody_knows(run: Runner, probe: str | None, undone: list[str]) -> None:
    run.go(A)
    once = changed(B, effect="once", probe=probe)
    assert run.killed("after-command", once)
    if probe is None:
        with run.open() as ctx, ctx.hold(), pytest.raises(RunError, match="effect of step 'b'") as caught:
            compensate(ctx, ("a",))
        assert caught.value.exit_code == 76
        run.repo.write("src/a", "a two\n")
        with pytest.raises(RunError, match="effect of step 'b'") as caught:
            run.go(A)
        assert caught.value.exit_code == 76 and effects(run, "a") == ["live"]
    else:
        with run.open() as ctx, ctx.hold():
            assert compensate(ctx, ("a",)) == 0
    assert [line.split()[1] for line in run.lines("log") if line.startswith("undo")] == undone
    run.checked()


def test_a_run_that_vanishes_is_not_begun_anew_by_who_works_on_it(run: Runner) -> None:
    gone = sh("b", "git update-ref -d refs/baton/runs/r1; echo b > out", reads="src/b", writes="out", after="a")
    with run.engine() as engine, pytest.raises(GitError, match="'refs/baton/runs/r1' was removed") as caught:
        engine.run_plan(Plan(steps=(A, gone, sh("c", SAY, reads="src/c", after="b"))), "r1")
    assert caught.value.exit_code == 128 and len(keys(run)) == 1
    assert run.repo.git("for-each-ref", "refs/baton/runs") == ""
    assert run.go(A).state == "ok" and len(set(keys(run))) == 2, "who comes later begins another run, with other keys"
    run.checked()


def test_a_name_that_is_used_again_means_other_effects(run: Runner) -> None:
    run.go(A)
    with run.open() as ctx:
        upkeep.apply_prune(ctx.journal, upkeep.plan_prune(ctx.journal, ["r1"], now=ctx.clock()))
        perform(ctx, A, Plan(steps=(A,)))
    first, second = keys(run)
    assert first != second
    with run.open() as ctx:
        lineage = ctx.state().lineage
        assert lineage == ctx.lineage and lineage.startswith("r1-") and len(lineage) == len("r1-") + 8
        made = ctx.journal.new_name(ctx.clock())
    with run.open("x" * 100) as ctx:
        assert len(ctx.lineage) == 100 and ctx.lineage == ctx.lineage != ctx.run
        assert ctx.journal.new_lineage(made) != made, "it was made elsewhere, and may have been used"
        made = ctx.journal.new_name(ctx.clock())
        assert ctx.journal.new_lineage(made) == made
    run.checked()


@pytest.mark.deep
def test_who_begins_a_run_at_the_same_time_has_the_same_lineage(run: Runner) -> None:
    with run.open() as one, run.open() as two:
        assert one.lineage != two.lineage
        for ctx, step in ((one, A), (two, changed(B, after=()))):
            with ctx.hold():
                assert perform(ctx, step, Plan(steps=(step,))).state == "ok"
        assert one.lineage == two.lineage
    records = [lg.record for lg in run.records()]
    assert len({r.lineage for r in records}) == 1 and {r.idem for r in records} == set(keys(run))
    run.checked()
