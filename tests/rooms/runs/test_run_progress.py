"""How far a plan has come, in one line that fits the terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitbaton.cli.columns import width
from gitbaton.cli.commands.reporting import LEAST, Progress, pause, ticking
from gitbaton.cli.waiting import spent


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0.0 s"), (8.123, "8.1 s"), (59.94, "59.9 s"), (59.96, "1 min 0 s"), (125, "2 min 5 s"), (3725, "1 h 2 min")],
)
def test_how_long_it_took(seconds: float, words: str) -> None:
    assert spent(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0:00"), (12.9, "0:12"), (61, "1:01"), (3723, "1:02:03"), (-1, "0:00"), (36_000, "10:00:00")]
)
def test_how_long_it_has_taken(seconds: float, words: str) -> None:
    assert ticking(seconds) == words


@pytest.mark.parametrize(("seconds", "words"), [(2, "2 s"), (0.25, "0.25 s"), (0.01, "0.01 s"), (60, "1 min 0 s")])
def test_how_long_is_waited(seconds: float, words: str) -> None:
    assert pause(seconds) == words


def test_the_line_of_a_plan() -> None:
    progress = Progress(12)
    assert progress.line(0, 80) == ""
    for step in ("lint", "types"):
        progress.end(step, cached=True)
    progress.begin("build", 100)
    assert progress.line(112.5, 80) == "[3/12] build 0:12, 2 cached"
    progress.begin("build", 110)  # a further attempt
    assert progress.line(112.5, 80) == "[3/12] build 0:12, 2 cached"
    progress.begin("docs", 110)
    assert progress.line(112.5, 80) == "[4/12] build 0:12, docs 0:02, 2 cached"
    assert progress.line(112.5, 36) == "[4/12] build 0:12, docs 0:02"
    assert progress.line(112.5, 29) == "[4/12] build 0:12, docs 0:02"
    assert progress.line(112.5, 28) == "[4/12] bui\u2026 0:12 and 1 more"
    progress.end("build")
    progress.end("build")
    assert (progress.done, progress.cached) == (3, 2)


def test_a_step_alone_counts_nothing() -> None:
    progress = Progress(1)
    progress.begin("build", 0)
    assert progress.line(3, 80) == "build 0:03"


def test_a_step_that_is_done_again_is_at_work_again() -> None:
    progress = Progress(3)
    progress.end("a")
    progress.begin("a", 0)
    assert (progress.done, progress.line(1, 80)) == (0, "[1/3] a 0:01")


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)


@pytest.mark.deep
@given(st.lists(names, min_size=1, max_size=6, unique=True), st.integers(0, 5), st.integers(0, 200), st.integers(1, 200_000))
def test_the_line_fits_and_drives_no_terminal(steps: list[str], cached: int, columns: int, seconds: int) -> None:
    progress = Progress(len(steps) + cached)
    for number in range(cached):
        progress.end(f"done {number}", cached=True)
    for step in steps:
        progress.begin(step, 0)
    line = progress.line(seconds, columns)
    assert width(line) < max(columns, 1)
    assert line.isprintable() or not any(ord(c) < 32 or ord(c) == 127 for c in line)
    assert bool(line) == (columns >= LEAST)
