"""Single steps that failed: the run is unfinished, and `--continue` runs them again as they were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import UsageError
from gitbaton.runs import plans
from gitbaton.runs.current import unfinished
from gitbaton.runs.journal.state import fold
from gitbaton.runs.journal.values import EFFECTS, ISOLATES, KEEPS, ON_UNDECLARED, Backoff, Step
from gitbaton.runs.plans import written
from tests.kit import Sandbox
from tests.kit.planned import Planned

WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TEXT = st.none() | WORDS.filter(str.strip)
SECONDS = st.integers(1, 10**10).map(lambda n: n / 1000)
BACKOFF = st.builds(
    lambda first, factor, more, jitter: Backoff(first=first, factor=factor, most=round(first + more, 9), jitter=jitter),
    *(SECONDS, st.integers(1000, 5000).map(lambda n: n / 1000), SECONDS, st.booleans()),
)
STEPS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "x.y/z-1_", "9"]),
        "argv": st.lists(WORDS, max_size=3).map(lambda rest: ("cmd", *rest)),
        "cwd": st.sampled_from([".", "a/b", "e\u00e9"]),
        "after": st.sampled_from([(), ("lint", "x.y")]),
        "reads": st.sampled_from([(), ("src/**", 'q"uo te', "\\[x\\]")]),
        "writes": st.sampled_from([(), ("out/*", "dist/")]),
        "env": st.sampled_from([(), ("HOME", "V")]),
        "extra": st.lists(WORDS, max_size=2).map(tuple),
        "effect": st.sampled_from(EFFECTS),
        "verify": TEXT,
        "catch": TEXT,
        "gate": TEXT,
        "checkpoint": TEXT,
        "retries": st.integers(0, 1000),
        "backoff": BACKOFF,
        "retry_on": st.sampled_from([(), ("1", "75", "timeout")]),
        "timeout": st.none() | SECONDS,
        "grace": SECONDS | st.just(0.0),
        "isolate": st.sampled_from(ISOLATES),
        "on_undeclared": st.sampled_from(ON_UNDECLARED),
        "store": st.sampled_from(KEEPS),
        "cache": st.booleans(),
        "allow_empty": st.booleans(),
    }
)


@pytest.mark.full
@given(STEPS, TEXT, TEXT)
@settings(max_examples=150, deadline=None)
def test_a_step_is_written_as_a_plan_file_that_gives_it_back(fields: dict[str, object], probe: str, undo: str) -> None:
    more = {"probe": probe, "compensate": undo} if fields["effect"] != "none" else {}
    try:
        step = plans.checked(Step(**{**fields, **more}))  # type: ignore[arg-type]
    except UsageError:
        return  # times that only together are too long
    text = written(step)
    assert text is not None and plans.read(text, "/", alone=True).steps == (step,)


def test_what_no_plan_file_can_hold_is_not_written() -> None:
    assert written(Step(name="a", argv=("cmd", "\udcff"))) is None
    assert written(Step(name="a", argv=("cmd", "x" * (1 << 20)))) is None


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Planned]:
    box = Sandbox.init(tmp_path / "repo")
    box.write("a", "a\n")
    with Planned(box) as made:
        yield made


def whys(run: Planned) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(one.why, one.would) for one in unfinished(run.baton)]


@pytest.mark.deep
def test_a_failed_single_step_is_unfinished_and_goes_on_as_it_was_asked_for(run: Planned) -> None:
    line = "echo x >> ../tries; test $(wc -l < ../tries) = 4"
    assert run.single("t", line, extra=("1",), retries=1, catch="echo caught >> ../caught", isolate="none").code == 1
    assert whys(run) == [(("'t' failed with 1",), ("run step 't' again",))]
    assert run.resume().code == 0 and run.ran() == ["t", "t"] and len(run.slept) == 2
    assert (run.box.path.parent / "caught").read_text() == "caught\n"
    assert not unfinished(run.baton)
    assert run.resume().states == ()


@pytest.mark.deep
def test_each_failed_step_is_run_once_and_the_first_exit_status_is_that_of_all(run: Planned) -> None:
    for name, code in (("a", 3), ("b", 4), ("c", 0)):
        run.single(name, f"exit {code}")
    assert run.resume().code == 3 and run.ran() == ["a", "b"]
    assert fold(run.records()).why == ("'a' failed with 3", "'b' failed with 4")
    assert run.single("a", "true").code == 0
    assert run.resume().code == 4 and run.ran() == ["b"]


def test_a_step_without_its_definition_goes_on_as_its_record_tells(run: Planned) -> None:
    assert run.single("t", "exit 2 #\udcff", retries=1).code == 2
    assert "plan.toml" not in run.records("begin")[-1].parts
    assert run.resume().code == 2 and run.ran() == ["t"]


@pytest.mark.deep
def test_what_a_repair_could_not_do_is_unfinished_too(run: Planned) -> None:
    run.steps = {"s": {"run": "test ! -e ../bad && cp a o", "reads": ["a"], "writes": ["o"]}}
    assert run.go().code == 0 and not unfinished(run.baton)
    (run.box.path.parent / "bad").touch()
    assert run.repair("s")[1].code == 1
    assert whys(run) == [(("'s' failed with 1",), ("run step 's' again",))]
    assert run.resume().code == 1 and run.ran() == ["s"]
    (run.box.path.parent / "bad").unlink()
    assert run.resume().code == 0 and run.ran() == ["s"] and not unfinished(run.baton)


def test_a_failure_that_the_plan_no_longer_names_does_not_keep_it_open(run: Planned) -> None:
    run.steps = {"s": {"run": "false"}}
    assert run.go().code == 1
    run.steps = {"z": {"run": "true"}}
    assert run.go().code == 0 and not unfinished(run.baton)
