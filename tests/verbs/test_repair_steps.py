"""``git baton run show`` and ``why``: the state of each step against the work tree now, and why it would run again."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.checkpoints.baton import Baton
from gitbaton.runs.current import unfinished
from gitbaton.runs.engine import Engine
from gitbaton.runs.graph import graph, readers
from gitbaton.runs.journal.chain import Journal
from gitbaton.runs.journal.state import NOTHING
from gitbaton.runs.journal.values import Step
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.planned import Planned
from tests.kit.tiers import some


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Planned]:
    """lint and build read src, pub reads what build makes and has an effect."""
    box = Sandbox.init(tmp_path / "repo")
    box.write("src/a", "a1\n")
    box.write("src/b", "b1\n")
    steps: dict[str, Any] = {
        "lint": {"run": "true", "reads": ["src/**"]},
        "build": {"run": "mkdir -p dist; cat src/* > dist/app", "reads": ["src/**"], "writes": ["dist/"], "after": ["lint"]},
        "pub": {"run": "true", "reads": ["dist/app"], "effect": "once", "compensate": "true"},
    }
    with Planned(box, steps) as made:
        yield made


def states(run: Planned) -> dict[str, str]:
    return {name: line.state for name, line in run.look().items()}


@pytest.mark.deep
def test_the_states_of_a_plan_from_never_run_to_stale(run: Planned) -> None:
    run.steps["build"]["run"] = "exit 4"
    assert run.go().code == 4
    assert states(run) == {"lint": "ok", "build": "failed", "pub": "never-run"}
    shown = run.box.here("run", "show").out.splitlines()
    assert re.match(r"build  now .*  x failed with 4$", shown[1]) and re.fullmatch("pub +[.] never run", shown[2])
    assert shown[3] == "run 'r1': not finished: the plan is stopped; 'build' failed with 4"
    run.steps["build"]["run"] = "mkdir -p dist; cat src/* > dist/app"
    assert run.go().code == 0
    row = run.box.here("run", "show", "r1").out.splitlines()
    assert row[2].startswith("pub  ") and row[2].endswith("  + ok, exit 0, effect live") and row[3] == "run 'r1': finished"
    run.box.write("src/c", "new\n")
    assert states(run) == {"lint": "stale", "build": "stale", "pub": "stale"}
    row = run.box.here("run", "show").out.splitlines()
    assert re.match("lint .*  ~ stale: 'src/c' is new, ", row[0])
    assert re.match("pub .*  ~ stale: it depends on what build gives, ", row[2])
    assert run.look()["build"].would.cause.path == "src/c"


def test_the_json_says_the_same(run: Planned) -> None:
    run.go()
    run.box.write("src/a", "a2\n")
    found = run.box.here("run", "show", "--json").json
    assert (found["v"], found["run"], found["finished"], found["why"]) == (1, "r1", True, [])
    row = {item["step"]: item for item in found["steps"]}
    assert row["build"]["state"] == "stale" and row["build"]["next"]["cause"]["path"] == "src/a"
    assert row["pub"]["next"]["on"] == ["build"] and row["pub"]["effect"] == "live" and row["pub"]["exit"] == 0
    assert row["lint"]["next"]["key"] != row["lint"]["key"]


@pytest.mark.deep
def test_why_names_every_path_with_its_old_and_new_object(run: Planned) -> None:
    run.go()
    old = run.box.git("hash-object", "src/a")
    run.box.write("src/a", "a2\n")
    (run.box.path / "src/b").unlink()
    run.box.write("dist/app", "by hand\n")
    found = run.box.here("run", "why", "build", "--json").json
    assert found["would"] == "run"
    rows = {(row["kind"], row["path"]): (row["old"], row["new"]) for row in found["differences"]}
    assert rows["input", "src/a"] == (old, run.box.git("hash-object", "src/a"))
    assert rows["input", "src/b"][1] is None and rows["output", "dist/app"][1] == run.box.git("hash-object", "dist/app")
    text = run.box.here("run", "why", "build").out.splitlines()
    assert text[0] == "build: would run: 'src/a' changed" and text[1].startswith(f"input 'src/a': {old[:10]} -> ")
    assert text[2].endswith(" -> none")
    run.box.write("src/a", "a1\n")
    run.box.write("src/b", "b1\n")
    (run.box.path / "src/b").chmod(0o755)
    modes = {row["path"]: row["old"] for row in run.box.here("run", "why", "lint", "--json").json["differences"]}
    assert modes == {"src/b": "100644 " + run.box.git("hash-object", "src/b")}
    assert run.box.here("run", "why", "q").code == 2


@pytest.mark.deep
def test_a_declaration_that_changed_is_named(run: Planned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODE", "fast")
    run.steps["lint"].update(env=["MODE"], key=["v1"])
    run.go()
    monkeypatch.setenv("MODE", "slow")
    run.steps["lint"].update(key=["v2"], run="exit 0")
    with Baton(run.box.path) as other:
        engine = Engine(other, Journal(other.repo, author=b"A <a@b>", clock=other.clock))
        found = engine.why("r1", "lint", plan=run.plan)
    differences = found[1]
    assert [(cause.kind, cause.path) for cause in differences] == [("argv", None), ("env", "MODE"), ("key", None)]
    assert (differences[2].old, differences[2].new) == ("v1", "v2")
    assert "fast" not in repr(found) and "slow" not in repr(found)


@pytest.mark.deep
def test_an_output_that_is_not_as_recorded_is_said(run: Planned) -> None:
    run.go()
    (run.box.path / "dist/app").unlink()
    assert run.look()["build"].moved == ("dist/app",)
    assert "  ~ ok, but not as recorded: 'dist/app', exit 0\n" in run.box.here("run", "show").out


@pytest.mark.deep
@some("name", ["r1", "r2"], ids=["of this run", "of another run"])
def test_an_output_that_somebody_else_wrote_is_foretold(run: Planned, name: str) -> None:
    run.go()
    run.box.write("dist/app", "by hand\n")
    place = str(run.box.path.parent / "baton.toml")
    shown = run.box.here("run", "--plan", place, "--run", name, "--dry-run", "--only", "build").out.splitlines()
    assert shown[1] == "build: would stop: somebody else wrote its output 'dist/app'; --take ours|theirs decides"
    run.run = name
    assert run.go().code == 78 and (run.box.path / "dist/app").read_text() == "by hand\n"
    line = run.look()["build"]
    assert (line.state, line.moved) == (("ok", ("dist/app",)) if name == "r1" else ("never-run", ("dist/app",)))
    run.box.write("dist/app", "a1\nb1\n")
    assert run.look()["build"].would.would == "cached" and run.go().code == 0


@pytest.mark.deep
def test_running_crashed_and_unknown(run: Planned) -> None:
    line = "touch ../on; until test -e ../go; do sleep 0.01; done; touch x"
    argv = ("run", "--run", "r1", "--step", "x", "--writes", "x", "--", "sh", "-c", line)
    worker = threading.Thread(target=lambda: run.box.baton(*argv))
    worker.start()
    until((run.box.path.parent / "on").exists)
    line = run.look()["x"]
    assert line.state == "running" and line.pid and "  . running, process " in run.box.here("run", "show").out
    (run.box.path.parent / "go").touch()
    worker.join()
    once = ("--effect", "once", "--reads", "src/a")
    for name, more in (("y", ()), ("z", once)):
        argv = ("run", "--run", "r1", "--step", name, *more, "--", "true")
        assert run.box.baton(*argv, env={"GIT_BATON_CRASH_AT": "after-command"}).code == -9
    assert {n: s for n, s in states(run).items() if n != "x"} == {"y": "crashed", "z": "unknown"}


@pytest.mark.deep
def test_a_command_that_outlives_its_process_is_told_apart(run: Planned) -> None:
    pid = run.box.path.parent / "child.pid"
    argv = ("run", "--run", "r1", "--step", "x", "--writes", "x", "--", "sh", "-c", "echo $$ > ../child.pid; exec sleep 60")
    assert run.box.baton(*argv, env={"GIT_BATON_CRASH_AT": "in-command"}).code == -9
    until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    try:
        line = run.look()["x"]
        assert (line.state, line.pid) == ("running", None)
        assert "  . its command runs on without the process that began it on " in run.box.here("run", "show").out
        with Baton(run.box.path) as baton:
            (found,) = unfinished(baton)
        assert found.would == ("end the command of step 'x', which outlived its process", "run step 'x' again")
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.deep
def test_looking_writes_nothing(run: Planned) -> None:
    run.go()
    run.box.write("src/a", "never seen before\n")
    before = run.box.git("count-objects", "-v"), run.box.git("for-each-ref")
    for argv in (("run", "show"), ("run", "why", "build"), ("run", "show", "--json")):
        assert run.box.here(*argv).code == 0
    assert (run.box.git("count-objects", "-v"), run.box.git("for-each-ref")) == before
    assert run.box.here("run", "show", "nowhere").code == 2


@pytest.mark.deep
def test_a_step_that_the_plan_does_not_name_any_more_is_left_alone(run: Planned) -> None:
    run.go()
    run.steps["make"] = run.steps.pop("build")
    run.steps["pub"]["after"] = ["make"]
    assert run.go().code == 0
    assert states(run)["build"] == "dropped" and "  . not in the plan, " in run.box.here("run", "show").out
    run.box.write("src/a", "a2\n")
    made, outcome = run.repair(paths=("src/a",))
    assert outcome.code == 0 and "build" not in made.region and run.ran() == ["lint", "make", "pub"]


@pytest.mark.deep
def test_a_plan_file_that_is_another_now_is_said(run: Planned) -> None:
    run.go()
    run.steps["lint"]["run"] = "exit 0"
    assert run.plan.step("lint") is not None
    shown = run.box.here("run", "show")
    assert shown.code == 0 and "is another plan now; run 'r1' follows the one that it was begun with" in shown.err


def test_edges_of_steps_without_records_are_those_of_their_globs() -> None:
    def step(name: str, reads: tuple[str, ...] = (), writes: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Step:
        return Step(name=name, argv=("true",), reads=reads, writes=writes, after=after)

    steps = (step("a", writes=("x/**",)), step("b", reads=("x/1",), writes=("y",)), step("c", after=("b",)), step("d", ("z",)))
    found = graph(steps, NOTHING, lambda tree: ())
    assert found.below == {"a": {"b": "x/1"}, "b": {"c": "after"}, "c": {}, "d": {}}
    assert found.descendants(["a"]) == ("a", "b", "c") and found.ancestors(["c"]) == ("a", "b", "c")
    assert readers(steps, NOTHING, lambda tree: (), ("x",)) == {"b": "x/1"}
