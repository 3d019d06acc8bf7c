"""A day of eight agents in eight work trees: every conflict is told at the first prompt after both are there, and no other."""

from __future__ import annotations

from pathlib import Path

from tests.kit.eightagents import Day
from tests.kit.tiers import examples


def test_a_day_of_eight_agents(tmp_path: Path) -> None:
    known: dict[str, set[tuple[str, str]]] = {}
    told = merged = 0
    for said in Day(tmp_path, tmp_path / "home-of-agents", 39).turns(examples(200, 40)):
        before = known.setdefault(said.who, set())
        assert said.told <= said.judged, said
        assert said.judged <= said.told | before, said
        before |= said.told
        told += len(said.told)
        merged += not said.judged
    assert told > 10 and merged > 5
