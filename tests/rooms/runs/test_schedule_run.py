"""Runs from beginning to end: plans with several steps at once, single steps, what was left unfinished, and what is refused."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.errors import RecordError, RunError, UsageError
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.runs.context import Event
from gitbaton.runs.current import unfinished
from gitbaton.runs.effects import live, undo
from gitbaton.runs.engine import Engine, looking
from gitbaton.runs.journal.state import fold
from gitbaton.runs.plans import rebuilt, step_of
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.planned import Planned
from tests.kit.steps import Runner


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Planned]:
    """A run without a plan yet, in a repository with two sources."""
    box = Sandbox.init(tmp_path / "repo")
    box.write("src/a", "a1\n")
    box.write("src/b", "b1\n")
    with Planned(box) as made:
        yield made


def copy(source: str, target: str, **fields: Any) -> dict[str, Any]:
    return {"run": f"mkdir -p out; cat {source} > {target}", "reads": [source], "writes": [target], **fields}


MEET = "touch ../{0}.here; for i in $(seq 6000); do test -e ../{1}.here && break; sleep 0.01; done; test -e ../{1}.here"


@pytest.mark.deep
def test_r41_overlapping_writes_are_refused_and_disjoint_steps_run_side_by_side(run: Planned) -> None:
    run.steps = {"a": copy("src/a", "out/x"), "b": copy("src/b", "out/*")}
    with pytest.raises(UsageError, match=r"step 'b': writes 'out/\*', and step 'a' writes 'out/x', which meet"):
        run.go(jobs=2)
    assert not run.journal.names()
    for name, other in (("a", "b"), ("b", "a")):
        run.steps[name] = {
            "run": MEET.format(name, other) + f"; echo {name} > {name}",
            "writes": [name],
            "reads": [f"src/{name}"],
        }
    assert run.go(jobs=2).code == 0
    assert (run.box.path / "a").read_text() == "a\n" and (run.box.path / "b").read_text() == "b\n"


@pytest.mark.deep
def test_a_nested_failure_in_a_diamond_with_four_at_once(run: Planned) -> None:
    """b1 fails while c runs: c ends and is kept, d and what is inside b never begin."""
    run.steps = {
        "a": copy("src/a", "out/a"),
        "b": copy("out/a", "out/b"),
        "b1": {"run": MEET.format("b1", "c") + "; exit 4", "reads": ["out/b"], "after": ["b"]},
        "b2": copy("out/b", "out/b2", after=["b1"]),
        "c": {"run": f"{MEET.format('c', 'b1')}; sleep 0.1; cat out/a > out/c", "reads": ["out/a"], "writes": ["out/c"]},
        "d": copy("out/c", "out/d", after=["b2"]),
    }
    outcome = run.go(jobs=4)
    assert outcome.code == 4 and outcome.left == ("b2", "d")
    assert {done.step.name: done.state for done in outcome.states} == {"a": "ok", "b": "ok", "b1": "failed", "c": "ok"}
    run.steps["b1"]["run"] = "true"
    assert run.go(jobs=4).code == 0 and sorted(run.ran()) == ["b1", "b2", "d"]
    assert run.journal.records("r1")[-1].record.state == "complete"


@pytest.mark.deep
def test_what_is_interrupted_with_several_at_once_is_given_up_everywhere(run: Planned) -> None:
    for name in ("a", "b"):
        run.steps[name] = {"run": f"touch ../{name}.on; sleep 60", "writes": [name]}
    run.plan.step("a")
    place = os.fspath(run.box.path.parent / "baton.toml")
    argv = [sys.executable, "-m", "gitbaton", "run", "--plan", place, "--run", "r1", "--jobs", "2"]
    process = subprocess.Popen(argv, cwd=run.box.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name in ("a", "b"):
        while not (run.box.path.parent / f"{name}.on").exists():
            assert process.poll() is None
            time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait() != 0
    assert sorted(lg.record.step or "" for lg in run.records("abort")) == ["a", "b"]
    assert run.records("release")[-1].record.state == "stopped" and not run.look()["a"].pid


@pytest.mark.deep
def test_only_some_steps_and_what_they_need(run: Planned) -> None:
    run.steps = {"a": copy("src/a", "out/a"), "b": copy("out/a", "out/b"), "c": copy("src/b", "out/c")}
    assert run.go(only=["b"]).code == 0 and run.ran() == ["a", "b"]
    assert run.journal.records("r1")[-1].record.state == "stopped"
    assert run.go().code == 0 and run.ran() == ["c"]
    with pytest.raises(UsageError, match="the plan has no step 'q'"):
        run.go(only=["q"])


@pytest.mark.deep
def test_a_plan_that_is_done_is_gone_over_without_a_record(run: Planned) -> None:
    run.steps = {"a": copy("src/a", "out/a")}
    run.go()
    count = len(run.records())
    assert run.go().code == 0 and len(run.records()) == count
    run.steps["a"]["retries"] = 2
    assert run.go().code == 0
    assert [lg.record.type for lg in run.records()[count:]] == ["claim", "release"]  # the text is another
    run.box.write("src/a", "a2\n")
    assert run.go().code == 0 and run.ran() == ["a"]
    assert [lg.record.type for lg in run.records()[count + 2 :]] == ["claim", "begin", "end", "release"]


@pytest.mark.deep
def test_a_dry_run_says_why_and_writes_nothing(run: Planned) -> None:
    run.steps = {"a": copy("src/a", "out/a"), "b": copy("out/a", "out/b"), "c": copy("src/b", "out/c", gate="look")}
    place = os.fspath(run.box.path.parent / "baton.toml")
    run.plan.step("a")
    before = run.box.git("count-objects", "-v"), run.box.git("for-each-ref"), sorted(os.listdir(run.box.path / ".git"))
    shown = run.box.here("run", "--plan", place, "--run", "r1", "--dry-run")
    assert shown.code == 0 and "a: would run: it has no result\n" in shown.out and "c: would wait at its gate\n" in shown.out
    after = run.box.git("count-objects", "-v"), run.box.git("for-each-ref"), sorted(os.listdir(run.box.path / ".git"))
    assert after[:2] == before[:2] and set(after[2]) - set(before[2]) <= {"baton"}
    assert run.go().code == 75
    run.box.write("src/a", "a2\n")
    rows = run.box.here("run", "--plan", place, "--run", "r1", "--dry-run", "--json").json["steps"]
    assert [(row["step"], row["would"]) for row in rows] == [("a", "run"), ("b", "depends"), ("c", "gate")]
    assert rows[0]["cause"]["path"] == "src/a" and rows[1]["on"] == ["a"]


@pytest.mark.deep
def test_the_second_process_waits_for_its_turn(run: Planned) -> None:
    line = "touch ../on; until test -e ../go; do sleep 0.01; done; echo x >> ../count; cp src/a out"
    run.steps = {"a": {"run": line, "reads": ["src/a"], "writes": ["out"]}}
    place, told = run.box.path.parent, list[str]()

    def watch(event: Event) -> None:
        told.append(event.kind)
        if event.kind == "wait":
            (place / "go").touch()

    first = threading.Thread(target=run.go)
    plan = run.plan
    first.start()
    until((place / "on").exists)
    with Planned(run.box, run.steps) as other:
        assert Engine(other.baton, other.journal, watch=watch, show=False).run_plan(plan, "r1").code == 0
    assert [kind for kind in told if kind in ("wait", "cached")] == ["wait", "cached"]
    first.join()
    assert (place / "count").read_text() == "x\n"


def test_a_step_cannot_work_on_the_plan_of_its_own_run(run: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    run.steps = {"a": copy("src/a", "out/a")}
    monkeypatch.setenv("GIT_BATON_RUN", "r1")
    monkeypatch.setenv("GIT_BATON_STEP", "outer")
    with pytest.raises(UsageError, match="step 'outer' of run 'r1' cannot work on the plan of its own run"):
        run.go()
    run.run = "r2"
    assert run.go().code == 0


@pytest.mark.deep
def test_a_single_step_needs_results_of_what_it_waits_for(run: Planned) -> None:
    with pytest.raises(UsageError, match="step 'b' waits for 'a', which has no result in run 'r1'"):
        run.single("b", "true", after=("a",))
    assert not run.journal.names()
    assert run.single("a", "cat src/a > a", reads=("src/a",), writes=("a",)).code == 0
    assert run.single("b", "cat a > b", after=("a",), reads=("a",), writes=("b",)).code == 0
    assert run.single("b", "cat a > b", after=("a",), reads=("a",), writes=("b",)).states[0].state == "cached"
    run.box.write("src/a", "a2\n")
    assert run.single("a", "cat src/a > a", reads=("src/a",), writes=("a",)).code == 0
    assert run.single("b", "cat a > b", after=("a",), reads=("a",), writes=("b",)).states[0].state == "ok"


@pytest.mark.deep
def test_going_on_recovers_single_steps_and_says_before_what_it_would_do(run: Planned) -> None:
    with Baton(run.box.path) as baton:
        assert unfinished(baton) == ()
    argv = ("run", "--run", "r1", "--step", "a", "--reads", "src/a", "--writes", "a", "--", "sh", "-c", "cat src/a > a")
    killed = run.box.baton(*argv, env={"GIT_BATON_CRASH_AT": "after-command"})
    assert killed.code == -9
    with Baton(run.box.path) as baton:
        found = unfinished(baton)
    assert [(one.run, one.would) for one in found] == [("r1", ("run step 'a' again",))]
    assert found[0].why == ("'a' has begun and has no end",)
    assert run.resume().code == 0 and run.ran() == ["a"] and (run.box.path / "a").read_text() == "a1\n"
    with Baton(run.box.path) as baton:
        assert unfinished(baton) == ()


@pytest.mark.deep
def test_going_on_with_a_plan_takes_the_text_of_the_journal(run: Planned) -> None:
    run.steps = {"a": copy("src/a", "out/a"), "b": {"run": "test -e ../go", "reads": ["out/a"]}}
    assert run.go().code == 1
    (run.box.path.parent / "go").touch()
    (run.box.path.parent / "baton.toml").write_text("broken")
    with Baton(run.box.path) as baton:
        found = unfinished(baton)
    assert found[0].why == ("the plan is stopped", "'b' failed with 1")
    assert found[0].would[0].startswith("go on with the plan '")
    assert run.resume().code == 0 and run.ran() == ["b"]
    assert run.resume().code == 0 and run.ran() == []
    with Baton(run.box.path) as baton:
        assert unfinished(baton) == ()
    with pytest.raises(UsageError, match="there is no run 'r9'"):
        run.engine().resume("r9")


@pytest.mark.deep
def test_a_plan_with_a_secret_is_taken_from_its_file_if_that_is_the_same(run: Planned) -> None:
    token = "ghp_" + "a1B2" * 9
    run.journal.redactor = run.baton.redactor
    run.steps = {"a": {"run": f"test -e ../go || exit 5 # {token}", "reads": ["src/a"]}}
    assert run.go().code == 5 and token not in run.box.git("log", "-p", "refs/baton/runs/r1")
    (run.box.path.parent / "go").touch()
    assert run.resume().code == 0 and run.ran() == ["a"]
    run.steps["a"]["run"] += " "
    assert run.go().code == 0
    (run.box.path.parent / "go").unlink()
    run.box.write("src/a", "a3\n")
    assert run.go().code == 5
    (run.box.path.parent / "baton.toml").write_text("[step.a]\nrun = 'true'\n")
    with pytest.raises(UsageError, match="does not keep the text of its plan"):
        run.resume()
    shown = run.box.here("steps")
    assert "does not keep the text of its plan" in shown.err and re.match("a .*  x failed with 5", shown.out)


def test_a_step_whose_words_are_not_all_recorded_is_not_rebuilt(run: Planned) -> None:
    run.single("a", "cat src/a > a", reads=("src/a",), writes=("a",), extra=("k",), env=("LANG",), effect="none")
    records = run.journal.records("r1")
    begin = records[0].record
    writes = begin.writes
    assert writes is not None
    step = step_of(begin)
    assert (step.name, step.argv, step.reads, step.writes, step.extra) == ("a", begin.argv, ("src/a",), ("a",), ("k",))
    known = fold(records).steps["a"]
    assert rebuilt(known) == step
    for bad in ({"cwd": "../x"}, {"cwd": ".GIT"}, {"writes": replace(writes, globs=("../x",))}):
        with pytest.raises(RecordError):
            step_of(replace(begin, **bad))
    cut = replace(records[0], record=replace(begin, redacted=True))
    with pytest.raises(RunError, match="step 'a' cannot be taken up") as caught:
        rebuilt(replace(known, begun=cut))
    assert caught.value.exit_code == 76


@pytest.mark.deep
def test_an_interrupted_compensation_is_finished_first(run: Planned) -> None:
    effect = {"effect": "idempotent", "compensate": "test -e ../undo && echo undone >> ../effects"}
    run.steps = {"a": copy("src/a", "out/a", **effect), "b": copy("src/b", "out/b")}
    assert run.go().code == 0
    run.box.write("src/a", "a2\n")
    assert run.go().code == 77 and run.ran() == []
    with Baton(run.box.path) as baton:
        assert unfinished(baton)[0].would[0] == "go on undoing the effect of step 'a'"
    assert run.resume().code == 77 and run.ran() == []
    (run.box.path.parent / "undo").touch()
    assert run.resume().code == 0 and run.undone() == ["a"] and run.ran() == ["a"]
    assert (run.box.path.parent / "effects").read_text() == "undone\n"


@pytest.mark.deep
def test_an_effect_that_another_process_undid_meanwhile_is_not_undone_again(run: Planned) -> None:
    effect = {"effect": "idempotent", "compensate": "echo undone >> ../effects"}
    run.steps = {"a": copy("src/a", "out/a", **effect)}
    run.go()
    with looking(Baton(run.box.path), "r1") as ctx:
        seen = live(ctx.state(), ("a",))
    run.box.write("src/a", "a2\n")
    run.go()
    assert run.undone() == ["a"] and len(seen) == 1
    with Runner(run.box).open("r1") as ctx, ctx.hold():
        assert undo(ctx, run.plan, seen) == 0
    assert (run.box.path.parent / "effects").read_text() == "undone\n"
