"""Repair: what a mistake reaches is done again and nothing else, effects are undone first, and what does not help ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.errors import NoAnswerError, NotFoundError, RunError, UsageError
from gitbaton.runs.journal.upkeep import verify
from tests.kit import Sandbox
from tests.kit.planned import Planned


def cat(name: str, *inputs: str, **fields: Any) -> dict[str, Any]:
    """A step that puts files together into ``out/NAME``."""
    line = f"mkdir -p out; cat {' '.join(inputs)} > out/{name}"
    return {"run": line, "reads": list(inputs), "writes": [f"out/{name}"], **fields}


def noted(name: str, *inputs: str, **fields: Any) -> dict[str, Any]:
    """As ``cat``, with an effect that a file outside the repository shows: one line a deed, the key it was done under."""
    step = cat(name, *inputs, effect="idempotent", compensate=f"echo undo {name} $GIT_BATON_COMPENSATES >> ../effects")
    step["run"] += f"; echo do {name} $GIT_BATON_IDEMPOTENCY_KEY >> ../effects"
    return {**step, **fields}


def effects(run: Planned) -> list[str]:
    """What the outside saw: ``do NAME`` and ``undo NAME``, in order."""
    place = run.box.path.parent / "effects"
    return [row.rpartition(" ")[0] for row in place.read_text().splitlines()] if place.exists() else []


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Planned]:
    """A diamond with a tail and a step beside it: a -> b, c -> d -> e, and z."""
    box = Sandbox.init(tmp_path / "repo")
    for name in ("a", "b", "c", "d", "z"):
        box.write(f"src/{name}", f"{name}1\n# note\n")
    steps: dict[str, Any] = {
        "a": cat("a", "src/a"),
        "b": cat("b", "out/a", "src/b", after=["a"]),
        "c": cat("c", "out/a", "src/c"),
        "d": cat("d", "out/b", "out/c", "src/d", after=["b"]),
        "e": cat("e", "out/d"),
        "z": cat("z", "src/z"),
    }
    with Planned(box, steps) as made:
        yield made


def out(run: Planned, name: str) -> str:
    return (run.box.path / "out" / name).read_text()


@pytest.mark.deep
def test_r21_diamond_exactly_the_descendants_of_the_edited_source_run(run: Planned) -> None:
    assert run.go().code == 0 and sorted(run.ran()) == ["a", "b", "c", "d", "e", "z"]
    run.box.write("src/b", "b2\n")
    assert run.go().code == 0 and run.ran() == ["b", "d", "e"]
    assert out(run, "e") == "a1\n# note\nb2\na1\n# note\nc1\n# note\nd1\n# note\n"
    causes = {event.step: event.cause for event in run.events if event.kind == "start"}
    assert causes["b"] is not None and (causes["b"].kind, causes["b"].path) == ("input", "src/b")
    assert run.go().code == 0 and run.ran() == []


@pytest.mark.deep
def test_r22_early_cut_off_spares_what_gets_the_same_inputs(run: Planned) -> None:
    run.steps["b"] = cat("b", "out/a", "src/b", after=["a"])
    run.steps["b"]["run"] = "cat out/a src/b | grep -v '^#' > out/b"
    run.steps["e"] = noted("e", "out/d")
    assert run.go().code == 0
    run.box.write("src/b", "b1\n# another note\n")
    assert run.go().code == 0 and run.ran() == ["b"]
    assert effects(run) == ["do e"]


@pytest.mark.deep
def test_r23_seeds_by_name_by_path_and_since_a_checkpoint(run: Planned) -> None:
    run.go()
    made, outcome = run.repair("d")
    assert outcome.code == 0 and made.region == ("d", "e") and run.ran() == ["d"]
    made, outcome = run.repair(paths=("src/c",))
    assert made.region == ("c", "d", "e") and run.ran() == ["c"] and made.seeds[0][1].kind == "path"
    run.box.write("src/c", "c2\n")
    made, outcome = run.repair(paths=("src/c",))
    assert outcome.code == 0 and run.ran() == ["c", "d", "e"] and out(run, "e").count("c2") == 1
    run.repair(paths=("src",))
    assert sorted(run.ran()) == ["a", "b", "c", "d", "z"]
    with pytest.raises(NoAnswerError, match="no step of run 'r1' reads 'docs/x'"):
        run.repair(paths=("docs/x",))
    with pytest.raises(NotFoundError, match="has no step 'q'"):
        run.repair("q")


@pytest.mark.deep
def test_r23_seeds_by_failure_and_by_what_changed(run: Planned) -> None:
    run.steps["c"]["run"] = "test -e ../mended && mkdir -p out && cat out/a src/c > out/c"
    assert run.go().code == 1 and run.journal.records("r1")[-1].record.state == "stopped"
    (run.box.path.parent / "mended").touch()
    made, outcome = run.repair()
    assert [name for name, _ in made.seeds] == ["c", "d", "e", "z"] and dict(made.seeds)["c"].kind == "failed"
    assert outcome.code == 0 and run.ran() == ["c", "d", "e", "z"]
    made, outcome = run.repair()
    assert (made.seeds, made.region, outcome.code) == ((), (), 0) and not run.ran()


@pytest.mark.deep
def test_the_cli_repairs_what_changed_since_a_checkpoint(run: Planned) -> None:
    run.go()
    run.box.ok("snapshot", "--track", "t", "--step", "built")
    run.box.write("src/c", "c9\n")
    shown = run.box.here("run", "repair", "--since", "t", "--dry-run")
    assert "begins at c: 'src/c' changed since\n" in shown.out and "e: would run if d gives something else" in shown.out
    assert "may change out/c\n" in shown.out and "b:" not in shown.out
    done = run.box.here("run", "repair", "--since", "t", "r1")
    assert done.code == 0 and "c9" in out(run, "e")
    assert run.box.here("run", "repair", "r1").code == 129


@pytest.mark.deep
def test_a_dry_run_says_what_would_happen_and_writes_nothing(run: Planned) -> None:
    run.steps["e"] = noted("e", "out/d")
    run.go()
    run.box.write("src/a", "a2\n")
    before = run.box.git("count-objects", "-v"), run.box.git("for-each-ref"), effects(run)
    shown = run.box.here("run", "repair", "--path", "src/a", "-n", "--json").json
    assert [(row["step"], row["would"]) for row in shown["region"]] == [
        ("a", "run"),
        *((name, "depends") for name in ("b", "c", "d", "e")),
    ]
    assert shown["seeds"] == [{"step": "a", "kind": "path", "path": "src/a"}]
    assert "e: would run: it is named; undone before: e" in run.box.here("run", "repair", "--step", "e", "-n").out
    assert (run.box.git("count-objects", "-v"), run.box.git("for-each-ref"), effects(run)) == before


@pytest.mark.deep
def test_effects_of_the_region_are_undone_before_a_named_effect_is_done_again(run: Planned) -> None:
    run.steps["b"] = noted("b", "out/a", "src/b", after=["a"])
    run.steps["d"] = noted("d", "out/b", "out/c", after=["b"])
    run.steps["e"] = noted("e", "out/d")
    run.steps["z"] = noted("z", "src/z")
    assert run.go().code == 0
    assert effects(run) == ["do b", "do z", "do d", "do e"] or sorted(effects(run)) == ["do b", "do d", "do e", "do z"]
    done = len(effects(run))
    _made, outcome = run.repair("b")
    assert outcome.code == 0 and run.undone() == ["e", "d", "b"] and run.ran() == ["b", "d", "e"]
    assert effects(run)[done:] == ["undo e", "undo d", "undo b", "do b", "do d", "do e"]
    keys = [row.split()[2] for row in (run.box.path.parent / "effects").read_text().splitlines() if row.startswith("do b")]
    assert len(set(keys)) == 2  # a service that remembers the first key would not do it again


def test_the_option_that_widened_a_repair_says_what_to_type(run: Planned) -> None:
    told = run.box.here("run", "repair", "--step", "d", "--radius", "1")
    assert told.code == 129 and told.err.splitlines()[:2] == [
        "fatal: unknown option '--radius'",
        "hint: a repair is not widened any more: name the steps above with --step, which may repeat",
    ]


@pytest.mark.deep
def test_what_the_region_cannot_do_without_is_done_too(run: Planned) -> None:
    run.steps["b"]["run"] = "test -e ../mended && cat out/a src/b > out/b"
    assert run.go().code == 1
    (run.box.path.parent / "mended").touch()
    run.box.write("src/z", "z2\n")
    made, outcome = run.repair("d")
    assert outcome.code == 0 and "z" not in made.region
    assert run.ran() == ["b", "c", "d", "e"]


@pytest.mark.deep
def test_an_edited_output_stops_the_repair_and_take_decides(run: Planned) -> None:
    run.go()
    run.box.write("out/d", "mine\n")
    _made, outcome = run.repair("d")
    assert outcome.code == 78 and out(run, "d") == "mine\n" and run.look()["d"].moved == ("out/d",)
    kept = [lg.parts["orphan"] for lg in run.records("abort") if "orphan" in lg.parts]
    assert run.box.git("cat-file", "-p", f"{kept[-1]}:out/d") == "mine"
    _made, outcome = run.repair("d", take="ours")
    assert outcome.code == 0 and out(run, "d").startswith("a1\n")


@pytest.mark.deep
def test_an_edited_output_is_found_before_an_effect_is_undone(run: Planned) -> None:
    run.steps["d"] = noted("d", "out/b", "out/c", after=["b"])
    run.go()
    run.box.write("out/d", "mine\n")
    _made, outcome = run.repair("d")
    assert outcome.code == 78 and effects(run) == ["do d"] and out(run, "d") == "mine\n"
    assert run.resume(take="ours").code == 0 and effects(run) == ["do d", "undo d", "do d"]
    assert run.ran() == ["d"] and out(run, "d").startswith("a1")


@pytest.mark.deep
def test_a_step_that_fails_again_ends_the_repair(run: Planned) -> None:
    run.go()
    good = (run.box.path / "out/d").read_text()
    run.steps["d"].update(run="echo always the same >&2; exit 3", retries=1)
    assert run.go().code == 3
    _made, outcome = run.repair("d")
    assert outcome.code == 3 and run.ran() == ["d", "d"] and run.look()["d"].state == "failed"
    begun, last = (logged.record for logged in run.records("repair"))
    assert (begun.region, begun.state) == (("d", "e"), None)
    assert (last.state, last.text) == ("stopped", "step 'd' failed with 3")
    assert (run.box.path / "out/d").read_text() == good


@pytest.mark.deep
def test_steps_that_read_each_others_outputs_run_once_each(run: Planned) -> None:
    run.box.write("x", "0\n")
    run.box.write("y", "0\n")
    run.single("p", "test $(cat y) = 0 && echo 1 > x || echo 0 > x", reads=("y",), writes=("x",))
    run.single("q", "cat x > y", reads=("x",), writes=("y",))
    assert run.repair("p")[1].code == 0 and run.ran() == ["p", "q"]


def test_a_step_that_a_repaired_one_comes_to_feed_is_repaired_too(run: Planned) -> None:
    run.box.write("made/b", "by hand\n")
    run.single("b", "cat made/* > all", reads=("made/*",), writes=("all",))
    run.single("a", "test ! -e grown || echo by a > made/b; echo 1 > made/a", writes=("made/*",), isolate="none")
    run.single("b", "cat made/* > all", reads=("made/*",), writes=("all",))
    run.box.write("grown", "")
    assert run.repair("a")[1].code == 0 and run.ran() == ["a", "b"]
    assert (run.box.path / "all").read_text() == "1\nby a\n"


def test_r37_loop_guard_max_runs_ends_a_plan(run: Planned) -> None:
    run.top = {"max-runs": 3}
    run.steps["a"].update(run="exit 9", retries=9, backoff="1s")
    with pytest.raises(RunError, match=r"step 'a' is stopped by the guard 'max-runs': it was started 3 times") as caught:
        run.go()
    assert caught.value.exit_code == 79 and run.ran() == ["a"] * 3
    with pytest.raises(RunError, match="max-runs"):
        run.go()
    assert run.ran() == [] and run.look()["a"].state == "failed" and run.journal.records("r1")[-1].record.state == "stopped"
    run.top = {"max-runs": 4}
    with pytest.raises(RunError, match="started 4 times"):
        run.go()
    assert run.ran() == ["a"]


@pytest.mark.deep
def test_r17_a_killed_repair_goes_on_with_its_region(run: Planned) -> None:
    run.go()
    killed = run.box.baton("run", "repair", "--step", "c", "r1", env={"GIT_BATON_CRASH_AT": "in-repair"})
    assert killed.code == -9 and run.records()[-1].record.type == "repair"
    assert run.resume().code == 0 and run.ran() == ["c"]
    assert run.records()[-1].record.state == "complete"
    assert run.resume().code == 0 and run.ran() == []
    assert verify(run.journal, "r1").problems == ()


@pytest.mark.full
def test_a_repair_killed_in_the_middle_does_not_force_what_is_done(run: Planned) -> None:
    run.steps["c"] = noted("c", "out/a", "src/c")
    run.go()
    killed = run.box.baton("run", "repair", "--path", "src", "r1", env={"GIT_BATON_CRASH_AT": "before-end"})
    assert killed.code == -9
    begun = [lg.record.step for lg in run.records("begin")]
    assert begun[-1] == "a"
    assert run.go().code == 0 and run.ran() == ["a", "b", "c", "d", "z"]
    assert [name for name in effects(run) if name == "do c"] == ["do c", "do c"]  # at least once, with one key
    assert run.records("release")[-1].record.state == "complete"


@pytest.mark.deep
def test_a_repair_waits_at_a_gate_and_goes_on(run: Planned) -> None:
    run.steps["d"]["gate"] = "look at it"
    assert run.go().code == 75
    run.box.ok("run", "approve", "d")
    assert run.resume().code == 0 and run.ran() == ["d", "e"]
    run.box.write("src/b", "b5\n")
    _made, outcome = run.repair(paths=("src/b",))
    assert outcome.code == 75 and run.ran() == ["b"] and run.look()["e"].would.would == "waits"
    run.box.ok("run", "approve", "d")
    assert run.resume().code == 0 and run.ran() == ["d", "e"] and "b5" in out(run, "e")


@pytest.mark.deep
def test_a_repair_needs_a_run_and_something_to_repair(run: Planned) -> None:
    with pytest.raises(UsageError, match="there is no run 'r1'"):
        run.repair("a")
    assert run.box.here("run", "repair", "--step", "a").code == 2
    run.go()
    assert run.box.here("run", "repair", "--step", "a", "--radius", "-1").code == 129
    assert run.box.here("run", "repair", "--step", "a", "--take", "mine").code == 129


@pytest.mark.full
def test_what_a_killed_once_step_left_is_its_own(run: Planned) -> None:
    """Its effect happened, its outputs may be torn: somebody has it undone, and then it is done again without a conflict."""
    once = {"effect": "once", "probe": "test -s ../effects", "compensate": "echo undo z >> ../effects"}
    run.steps["z"] = {**cat("z", "src/z"), **once, "isolate": "none"}
    run.steps["z"]["run"] += "; echo do z >> ../effects"
    assert run.go().code == 0
    run.box.write("src/z", "z2\n")
    place = str(run.box.path.parent / "baton.toml")
    killed = run.box.baton("run", "--plan", place, "--run", "r1", env={"GIT_BATON_CRASH_AT": "after-command"})
    assert killed.code == -9 and out(run, "z") == "z2\n"
    assert run.go().code == 76 and out(run, "z") == "z2\n"
    run.box.ok("run", "compensate", "z", "--run", "r1")
    assert run.go().code == 0 and run.ran() == ["z"] and out(run, "z") == "z2\n"
    assert effects_of(run) == ["do z", "undo z", "do z", "undo z", "do z"]


def effects_of(run: Planned) -> list[str]:
    return (run.box.path.parent / "effects").read_text().splitlines()
