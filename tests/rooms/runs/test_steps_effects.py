"""What a step does outside git: undone before it is redone, asked about when nobody knows, and never done twice unasked."""

from __future__ import annotations

import os

import pytest

from gitbaton.base.errors import NoAnswerError, RunError, UsageError
from gitbaton.base.values import replace
from gitbaton.runs.effects import approve, compensate, settle
from gitbaton.runs.journal.values import Cause, Step
from tests.kit import Sandbox
from tests.kit.steps import Runner, changed, sh
from tests.kit.tiers import some

SAY = "do $GIT_BATON_STEP $GIT_BATON_IDEMPOTENCY_KEY"
DO = f'grep -qsx "{SAY}" "$X/log" || echo "{SAY}" >> "$X/log"'
UNDO = 'echo "undo $GIT_BATON_STEP $GIT_BATON_COMPENSATES" >> "$X/log"'


def effect(name: str, kind: str = "idempotent", *, after: tuple[str, ...] = (), **fields: object) -> Step:
    """A step that reads its source and what those before it wrote, and has an effect."""
    cat = " ".join([f"src/{name}", *(f"out/{a}" for a in after)])
    reads = (f"src/{name}", *(f"out/{a}" for a in after))
    line = f"{DO}; mkdir -p out; cat {cat} > out/{name}"
    return sh(name, line, reads=reads, writes=f"out/{name}", after=after, effect=kind, **{"compensate": UNDO, **fields})


A, B, C = effect("a"), effect("b", after=("a",)), effect("c", after=("b",))


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    for name in "abc":
        repo.write(f"src/{name}", f"{name} one\n")
    return Runner(repo)


def log(run: Runner) -> list[tuple[str, str]]:
    """What happened outside: verb and step."""
    return [(line.split()[0], line.split()[1]) for line in run.lines("log")]


def standing(run: Runner) -> dict[str, int]:
    """How many effects of each step stand outside."""
    found: dict[str, set[str]] = {}
    for verb, step, key in (line.split() for line in run.lines("log")):
        (found.setdefault(step, set()).add if verb == "do" else found.setdefault(step, set()).discard)(key)
    return {step: len(keys) for step, keys in found.items()}


@pytest.mark.deep
def test_r30_effects_are_undone_in_reverse_order(run: Runner) -> None:
    run.go(A, B, C)
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ("a",)) == 0
    assert log(run) == [("do", "a"), ("do", "b"), ("do", "c"), ("undo", "c"), ("undo", "b"), ("undo", "a")]
    assert run.go(A, B, C).state == "ok" and standing(run) == {"a": 1, "b": 1, "c": 1}
    assert len({line for line in run.lines("log") if line.startswith("do")}) == 6  # a service would remember the old keys
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ("c",)) == 0
        with pytest.raises(NoAnswerError):
            compensate(ctx, ("c",))
    run.checked()


def test_an_effect_that_nothing_undoes_stays_and_is_said(run: Runner) -> None:
    run.go(changed(A, compensate=None))
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ("a",)) == 1
    (warning,) = run.told("warning")
    assert "declares no compensation" in warning.text and log(run) == [("do", "a")]


def test_an_effect_is_undone_at_the_top_where_the_folder_of_its_step_is_gone(run: Runner) -> None:
    run.repo.write("sub/f", "x\n")
    step = sh("a", "true", reads="a.txt", cwd="sub", effect="idempotent", compensate='pwd > "$X/where"')
    assert run.go(step).good
    (run.repo.path / "sub/f").unlink()
    (run.repo.path / "sub").rmdir()
    with run.open() as ctx, ctx.hold():
        assert compensate(ctx, ["a"]) == 0
    assert run.lines("where") == [os.path.realpath(run.repo.path)]
    assert "'sub', where step 'a' ran, is not there" in run.told("warning")[0].text


@pytest.mark.deep
def test_what_was_fetched_is_not_run_unasked(run: Runner) -> None:
    """Compensations and probes of records that came from elsewhere."""
    run.go(A)
    assert run.killed("after-begin", effect("b", "once", probe="exit 1"))
    there = run.repo
    run.repo = Sandbox.init(there.path.parent / "clone")
    run.repo.git("pull", "-q", "../repo", "main")
    run.repo.git("fetch", "-q", "../repo", "refs/baton/runs/*:refs/baton/remotes/origin/runs/*")
    for name in "abc":
        run.repo.write(f"src/{name}", f"{name} two\n")
    with run.open() as ctx:
        ctx.journal.adopt("r1")
    for step in (A, effect("b", "once", probe="exit 1")):
        with pytest.raises(UsageError, match="recorded elsewhere"):
            run.go(step)
    assert log(run) == [("do", "a")]
    assert run.go(A, foreign=True).state == "ok" and log(run)[1:] == [("undo", "a"), ("do", "a")]
    run.checked()


@pytest.mark.deep
def test_what_cannot_begin_goes_on_with_no_compensation(run: Runner) -> None:
    run.go(changed(A, compensate="false"))
    with run.open() as ctx:
        assert compensate(ctx, ("a",)) == 77
    before = run.types()
    with run.engine() as engine, pytest.raises(UsageError, match="step 'b' waits for 'gone', which has no result in run 'r1'"):
        engine.run_step(changed(B, after=("gone",)), run.run)
    assert run.types() == before


@pytest.mark.deep
def test_r31_a_compensation_that_fails_stops_everything_and_is_gone_on_with(run: Runner) -> None:
    broken = changed(B, compensate=f'test -e "$X/repaired" && {UNDO}')
    run.go(A, broken, C)
    run.repo.write("src/a", "a two\n")
    for _ in range(2):
        done = run.go(A, broken, C)
        assert (done.state, done.code, done.step.name) == ("compensation-failed", 77, "a")
        assert log(run)[3:] == [("undo", "c")]
    (run.outside / "repaired").write_text("")
    assert run.go(A, broken, C).state == "ok"
    assert log(run)[3:] == [("undo", "c"), ("undo", "b"), ("undo", "a"), ("do", "a"), ("do", "b"), ("do", "c")]
    run.checked()


@pytest.mark.full
@some("point", ["after-comp-begin", "in-compensation", "before-comp-end"])
def test_r15_r32_a_compensation_that_was_killed_is_done_again_under_its_own_key(run: Runner, point: str) -> None:
    once = f'echo "$GIT_BATON_IDEMPOTENCY_KEY" >> "$X/own"; {UNDO}'
    first = changed(A, compensate=once)
    run.go(first, B)
    run.repo.write("src/a", "a two\n")
    assert run.killed(point, first, B)
    assert run.go(first, B).state == "ok"
    assert len(set(run.lines("own"))) == 1
    assert standing(run) == {"a": 1, "b": 1}
    assert run.types("a")[-2:] == ["begin", "end"] and run.types("a").count("comp-end") == 1
    run.checked()


def test_r33_the_effect_of_an_edited_step_is_undone_before_it_is_redone(run: Runner) -> None:
    run.go(A, B, C)
    run.repo.write("src/b", "b two\n")
    assert run.go(A, B, C).state == "ok"
    assert log(run)[3:] == [("undo", "c"), ("undo", "b"), ("do", "b"), ("do", "c")]
    run.repo.write("src/b", "b one\n")
    assert run.go(A, B, C).state == "ok" and standing(run) == {"a": 1, "b": 1, "c": 1}
    assert run.go(B, force=Cause(kind="named")).state == "ok" and standing(run) == {"a": 1, "b": 1, "c": 0}
    assert run.go(A, B, C).state == "ok" and standing(run) == {"a": 1, "b": 1, "c": 1}
    run.checked()


@pytest.mark.deep
def test_a_step_without_an_effect_undoes_nothing_where_its_outputs_stay(run: Runner) -> None:
    first = sh("a", "mkdir -p out; head -1 src/a > out/a", reads="src/a", writes="out/a")
    run.go(first, B, C)
    run.repo.write("src/a", "a one\na comment\n")
    assert run.go(first, B, C).state == "cached"
    assert log(run) == [("do", "b"), ("do", "c")]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["once", "idempotent"])
def test_r34_an_unknown_outcome_is_not_undone(run: Runner, kind: str) -> None:
    step = effect("a", kind)
    assert run.killed("after-command", step)
    run.repo.write("src/a", "a two\n")
    done = run.go(step)
    assert (done.state, done.code) == ("unknown", 76)
    assert log(run) == [("do", "a")] and "comp-begin" not in run.types()
    with run.open() as ctx:
        assert settle(ctx, step, True).state in ("ok", "unknown")
    assert run.go(step).state == "ok"
    assert log(run) == [("do", "a"), ("undo", "a"), ("do", "a")] and standing(run) == {"a": 1}
    run.checked()


@pytest.mark.deep
def test_an_outcome_that_a_person_denies_is_done_again(run: Runner) -> None:
    step = effect("a", "once")
    assert run.killed("after-begin", step)
    assert run.go(step).code == 76 and log(run) == []
    with run.open() as ctx:
        assert settle(ctx, step, False).state == "ok"
        with pytest.raises(NoAnswerError):
            settle(ctx, step, False)
    assert run.go(step).state == "ok" and log(run) == [("do", "a")]
    run.checked()


@pytest.mark.deep
def test_a_person_cannot_confirm_what_is_not_there(run: Runner) -> None:
    step = effect("a", "once")
    assert run.killed("after-begin", step)
    with run.open() as ctx, pytest.raises(RunError) as error:
        settle(ctx, step, True)
    assert error.value.exit_code == 76 and "out/a" in error.value.message
    run.repo.write("out/a", "made by hand\n")
    with run.open() as ctx:
        assert settle(ctx, step, True).state == "ok"
    assert run.go(step).state == "cached" and run.read("out/a") == "made by hand\n"
    run.checked()


def test_a_once_that_happened_is_not_done_again_whatever_is_declared(run: Runner) -> None:
    step = sh("pub", 'echo "do pub x" >> "$X/log"', effect="once")
    assert [run.go(step).state for _ in range(2)] == ["ok", "cached"]
    assert log(run) == [("do", "pub")]


@pytest.mark.deep
def test_a_once_whose_outputs_are_gone_is_a_question(run: Runner) -> None:
    step = effect("a", "once", compensate=None, store="none")
    assert [run.go(step).state for _ in range(2)] == ["ok", "cached"]
    (run.repo.path / "out/a").unlink()
    assert run.go(step).code == 76 and log(run) == [("do", "a")]
    with_undo = changed(step, name="b", reads=("src/b",), writes=("out/b",), compensate=UNDO)
    with_undo = changed(with_undo, argv=(*effect("b").argv[:2], f"{DO}; mkdir -p out; echo b > out/b"))
    assert run.go(with_undo).state == "ok"
    (run.repo.path / "out/b").unlink()
    assert run.go(with_undo).state == "ok" and log(run)[1:] == [("do", "b"), ("undo", "b"), ("do", "b")]
    run.checked()


def test_a_once_whose_outputs_fail_is_a_question_and_not_tried_again(run: Runner) -> None:
    step = replace(effect("a", "once", retries=1), writes=("out/a", "out/never"))
    done = run.go(step)
    assert (done.state, done.code) == ("failed", 125) and "'git baton run settle a --undone'" in done.hint
    (warning,) = run.told("warning")
    assert "nobody knows" in warning.text
    assert run.go(step).code == 76 and log(run) == [("do", "a")]
    run.checked()


@pytest.mark.deep
def test_r39_a_gate_waits_is_opened_and_asks_again_when_inputs_change(run: Runner) -> None:
    gated = changed(B, gate="ship it?")
    run.go(A)
    for _ in range(2):
        done = run.go(gated)
        assert (done.state, done.code, done.text) == ("gate", 75, "ship it?")
    assert run.types("b") == ["gate"] and log(run) == [("do", "a")]
    with run.open() as ctx, ctx.hold():
        assert approve(ctx, gated) == 0
        with pytest.raises(NoAnswerError):
            approve(ctx, gated)
    assert run.go(gated).state == "ok" and run.go(gated).state == "cached"
    run.repo.write("src/b", "b two\n")
    assert run.go(gated).code == 75
    run.checked()


@pytest.mark.deep
def test_r39_a_gate_that_is_rejected_undoes_what_led_to_it(run: Runner) -> None:
    gated = changed(C, gate="ship it?")
    run.go(A, B)
    assert run.go(gated).code == 75
    with run.open() as ctx, ctx.hold():
        assert approve(ctx, gated, True) == 0
    assert log(run)[2:] == [("undo", "b"), ("undo", "a")]
    with pytest.raises(UsageError):  # what it waits for does not stand any more
        run.go(gated)
    run.checked()
