"""The guide to LangGraph: its graph that waits, dies, goes on, forks and moves, each command in a process of its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.guides import GUIDES, check, play

GUIDE = GUIDES / "langgraph.md"
FIRST, EXAMPLE = GUIDE.read_text().split("\n## A graph that waits", 1)


@pytest.mark.full
def test_the_first_examples_of_the_guide_do_what_it_shows(repo: Sandbox) -> None:
    check(GUIDE, f"{play(repo, FIRST)}\n## A graph that waits{EXAMPLE}")


@pytest.mark.full
def test_what_has_finished_never_runs_again(repo: Sandbox, tmp_path: Path) -> None:
    check(GUIDE, f"{FIRST}\n## A graph that waits{play(repo, EXAMPLE)}")
    desk, laptop = (Sandbox(tmp_path / "review" / name) for name in ("desk", "laptop"))
    assert ledger(laptop) == ["review jam", "publish jam", "draft iced-tea"]
    counted = Counter(ledger(desk) + ledger(laptop))
    assert counted.pop("draft tea") == 2, "once at first, once by the replay"
    assert len(counted) == 8 and set(counted.values()) == {1}
    for clone in (desk, laptop):
        clone.fsck()
        assert clone.git("status", "--porcelain") == "?? effects.log"


def ledger(clone: Sandbox) -> list[str]:
    return (clone.path / "effects.log").read_text().splitlines()
