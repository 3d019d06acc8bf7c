"""Effects that may happen only once: whatever goes wrong, nobody guesses, and nothing of the user's is removed."""

from __future__ import annotations

import signal

import pytest

from gitbaton.base.errors import NoAnswerError, RunError
from gitbaton.cli.commands.run_show import difference
from gitbaton.cli.commands.stepping import plan_of, step_named
from gitbaton.runs.context import Done
from gitbaton.runs.effects import approve, compensate, settle, to_compensate
from gitbaton.runs.engine import Engine
from gitbaton.runs.journal.upkeep import plan_prune
from gitbaton.runs.journal.values import Cause, Plan, Step
from tests.kit import Sandbox
from tests.kit.steps import Runner, changed, sh

DO = 'echo "do $GIT_BATON_STEP" >> "$X/log"'
UNDO = 'echo "undo $GIT_BATON_STEP" >> "$X/log"'
PUB = sh("pub", f"{DO}; echo NEW > o", writes="o", extra=("1",), effect="once")


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    return Runner(repo)


def settled(run: Runner, done: bool) -> Done:
    """A person decides, with what the command line knows of the step."""
    with run.open() as ctx, ctx.hold():
        return settle(ctx, step_named(ctx, plan_of(ctx), "pub"), done)


def resumed(run: Runner) -> int:
    with run.open() as ctx:
        engine = Engine(ctx.baton, ctx.journal, watch=run.events.append, show=False)
        return engine.resume(run.run).code


@pytest.mark.deep
def test_a_settled_once_takes_what_lies_there_and_removes_nothing(run: Runner) -> None:
    step = changed(PUB, probe="true", isolate="tree")
    run.repo.write("o", "old\n")
    assert run.killed("after-command", step)
    for _ in range(2):
        done = run.go(step)
        assert done.code == 76 and "gone with the copy" in done.text
        assert done.hint.endswith("git baton run settle pub --done"), "the probe said that it happened"
    assert resumed(run) == 76
    assert settled(run, True).state == "ok"
    assert run.told("settled")[-1].text == "what lies there counts as its result: o"
    assert run.go(step).state == "cached" and run.read("o") == "old\n" and resumed(run) == 0
    run.checked()


@pytest.mark.deep
def test_a_once_is_not_settled_where_nothing_lies(run: Runner) -> None:
    step = changed(PUB, probe="true", isolate="tree")
    assert run.killed("after-command", step)
    assert run.go(step).code == 76
    with pytest.raises(RunError) as error:
        settled(run, True)
    assert error.value.exit_code == 76 and "--undone" not in "".join(error.value.hints)
    run.repo.write("o", "NEW\n")
    assert settled(run, True).state == "ok" and run.go(step).state == "cached" and run.read("o") == "NEW\n"
    run.checked()


@pytest.mark.deep
def test_what_was_there_before_the_attempt_is_no_output_of_it(run: Runner) -> None:
    step = changed(PUB, argv=("sh", "-c", f"{DO}; mkdir -p out; echo x > out/x"), writes=("out/**",), compensate=UNDO)
    assert run.go(step).state == "ok"
    run.repo.write("out/theirs", "keep\n")
    second = changed(step, extra=("2",))
    assert run.killed("after-command", second)
    assert settled(run, True).state == "ok"
    assert run.go(second).state == "cached"
    assert run.go(changed(step, extra=("3",))).state == "ok" and run.read("out/theirs") == "keep\n"
    run.checked()


@pytest.mark.deep
@pytest.mark.parametrize("effect", ["once", "idempotent"])
def test_an_interrupted_effect_is_not_hidden(run: Runner, effect: str) -> None:
    step = changed(PUB, effect=effect, argv=("sh", "-c", f"{DO}; kill -TERM $PPID; sleep 60"), compensate=UNDO)
    done = run.go(step)
    assert (done.state, done.code) == ("interrupted", 143)
    with run.open() as ctx, ctx.hold():
        assert not ctx.state().finished
        with pytest.raises(RunError) as error:
            compensate(ctx, ("pub",))
        assert error.value.exit_code == 76 and "settle pub" in error.value.hints[0]
        with pytest.raises(RunError):
            to_compensate(ctx, ("pub",))
    with run.open() as ctx:
        (line,) = Engine(ctx.baton, ctx.journal).look("r1").lines
        assert line.state == "unknown" and line.exit == 143
    if effect == "once":
        assert "settle pub" in done.hint and resumed(run) == 76
        assert settled(run, False).state == "ok"
    else:
        assert run.go(changed(step, extra=("2",))).code == 76, "the old inputs may have had their effect"
    assert run.lines("log") == ["do pub"]
    run.checked()


@pytest.mark.deep
def test_a_command_that_ends_well_when_asked_to_end_was_interrupted_by_that_signal(run: Runner) -> None:
    done = run.go(changed(PUB, argv=("sh", "-c", "trap 'exit 0' HUP; kill -HUP $PPID; sleep 60 & wait")))
    assert (done.state, done.code) == ("interrupted", 128 + signal.SIGHUP) and "exit 0" not in done.text
    assert run.records()[-1].record.exit == 128 + signal.SIGHUP


@pytest.mark.deep
def test_a_once_that_failed_is_asked_for_before_another_attempt(run: Runner) -> None:
    step = changed(PUB, argv=("sh", "-c", f'{DO}; test $(wc -l < "$X/log") = 2 && echo o > o'), retries=2)
    done = run.go(step)
    assert (done.state, done.code) == ("failed", 1) and run.lines("log") == ["do pub"] and not run.slept
    assert run.told("warning") and "settle" in done.hint
    assert run.go(step).code == 76 and run.lines("log") == ["do pub"] and resumed(run) == 76
    no = changed(step, name="no", argv=("sh", "-c", "exit 7"), probe="false", retries=2, writes=())
    assert run.go(no).code == 7 and len(run.slept) == 2, "it did not happen"
    yes = changed(no, name="yes", probe="true")
    assert run.go(yes).state == "ok" and len(run.slept) == 3, "it happened, and it has no outputs"
    late = changed(step, name="late", probe="true", argv=("sh", "-c", DO), writes=("never",))
    assert run.go(late).code == 76 and run.lines("log").count("do late") == 1
    run.checked()


@pytest.mark.deep
def test_a_once_that_could_not_be_started_had_no_effect(run: Runner) -> None:
    step = changed(PUB, argv=("no-such-program",), writes=())
    assert [run.go(step).code for _ in range(2)] == [127, 127]
    (run.repo.path / "plain").write_text("no program\n")
    assert [run.go(changed(step, argv=("./plain",))).code for _ in range(2)] == [126, 126]
    within = changed(step, argv=("sh", "-c", f"{DO}; no-such-program"))
    assert [run.go(within).code for _ in range(2)] == [127, 76] and run.lines("log") == ["do pub"]
    run.checked()


def test_a_once_that_stands_says_why_it_is_not_done_again(run: Runner) -> None:
    assert run.go(PUB).state == "ok" and run.go(PUB).state == "cached" and not run.told("warning")
    assert run.go(changed(PUB, cache=False)).state == "cached"
    (warning,) = run.told("warning")
    assert "may happen only once" in warning.text


A = sh("a", f"{DO}; cp src out", reads="src", writes="out", effect="idempotent", compensate=UNDO)
B = sh("b", f"{DO}; cp out end", reads="out", writes="end", after="a", gate="ship it?")


def carried(run: Runner, *steps: Step) -> tuple[int, dict[str, str]]:
    with run.open() as ctx:
        engine = Engine(ctx.baton, ctx.journal, watch=run.events.append, show=False)
        outcome = engine.run_plan(Plan(steps=steps, text=b"x"), run.run)
        return outcome.code, {done.step.name: done.state for done in outcome.states}


def foretold(run: Runner, *steps: Step) -> dict[str, str]:
    with run.open() as ctx:
        return {f.step.name: f.would for f in Engine(ctx.baton, ctx.journal).dry_run(Plan(steps=steps), run.run)}


@pytest.mark.deep
def test_a_rejected_gate_ends_the_plan_before_an_effect_is_done_again(run: Runner) -> None:
    run.repo.write("src", "one\n")
    assert carried(run, A, B)[0] == 75
    with run.open() as ctx, ctx.hold():
        assert approve(ctx, B, reject=True, plan=Plan(steps=(A, B))) == 0
    assert run.lines("log") == ["do a", "undo a"]
    assert foretold(run, A, B) == {"a": "waits", "b": "rejected"}
    for _ in range(2):
        assert carried(run, A, B) == (1, {"b": "rejected"})
    assert run.lines("log") == ["do a", "undo a"]
    with run.open() as ctx, ctx.hold():
        assert approve(ctx, B) == 0
        with pytest.raises(NoAnswerError):
            approve(ctx, B)
    assert carried(run, A, B)[0] == 0 and run.lines("log")[2:] == ["do a", "do b"]
    run.checked()


@pytest.mark.deep
def test_a_rejected_gate_is_asked_again_for_other_inputs(run: Runner) -> None:
    run.repo.write("src", "one\n")
    assert carried(run, A, B)[0] == 75
    with run.open() as ctx, ctx.hold():
        approve(ctx, B, reject=True, plan=Plan(steps=(A, B)))
    run.repo.write("src", "two\n")
    assert foretold(run, A, B)["a"] == "run"
    assert carried(run, A, B)[0] == 75 and run.lines("log") == ["do a", "undo a", "do a"]
    run.checked()


@pytest.mark.deep
def test_a_run_that_is_dropped_says_how_many_effects_stand(run: Runner) -> None:
    assert run.go(PUB).state == "ok" and run.go(changed(PUB, name="other", writes=("p",), argv=("touch", "p"))).state == "ok"
    with run.open() as ctx:
        (drop,) = plan_prune(ctx.journal, ["r1"], now=run.clock()).drops
        assert drop.effects == 2
    other = Runner(run.repo, "r2", clock=run.clock)
    assert other.go(changed(PUB, name="third", writes=("q",), argv=("touch", "q"))).state == "ok"
    said = run.repo.ok("journal", "prune", "--dry-run", "r1", "r2").out
    assert "2 effects of its steps stand, was" in said and "1 effect of its steps stands, was" in said


def test_a_failure_is_named_by_its_exit_status() -> None:
    assert difference(Cause(kind="failed", old="125"), 7) == "failed with 125"
