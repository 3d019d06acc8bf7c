"""Clones of one remote do anything in any order, with clocks that are wrong, killed at random; in the end all agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.fleet import VERBS, Fleet, Op, template
from tests.kit.tiers import model, sized

SKEWS = (0.0, 0.0, -300.0, -2.0, 3.0, 7.5, 25.0, 180.0)

kills = st.one_of(st.just(0), st.just(0), st.integers(1, 60))
operations = st.tuples(st.sampled_from(VERBS), st.integers(0, 4), st.integers(0, 11), kills)


def play(place: Path, source: Path, skews: list[float], ops: list[Op], *, twins: bool = False, refuses: bool = False) -> Fleet:
    """Carry out all, then let everybody sync twice: then they agree, and nothing but what was dropped is missing."""
    fleet = Fleet(place, source, skews, twins=twins, refuses=refuses)
    for op in ops:
        fleet.run(op)
    fleet.settle()
    fleet.check()
    return fleet


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fleet") / "template"


@pytest.fixture
def made(source: Path) -> Path:
    return source if source.exists() else template(source)


@sized(1, 2, 300)
def test_all_clones_agree(count: int, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_BATON_TRACE", "1")

    @model(count)
    @given(
        skews=st.lists(st.sampled_from(SKEWS), min_size=2, max_size=5),
        ops=st.lists(operations, min_size=12, max_size=30),
        twins=st.sampled_from([False, False, True]),
        refuses=st.sampled_from([False, False, True]),
    )
    def run(skews: list[float], ops: list[Op], twins: bool, refuses: bool) -> None:
        fleet = play(tmp_path / "run", made, skews, ops, twins=twins, refuses=refuses)
        chains = [clone.state().chains for clone in fleet.clones]
        assert twins or all(found == chains[0] for found in chains)

    run()
