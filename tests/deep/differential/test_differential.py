"""The package of the commit in ``tests/data/old/COMMIT`` and this one do the same: output, exit status, refs, files, index.

The deep tier plays one seed of each kind, the full tier twenty; ``DIFFERENTIAL_SEEDS=0:500`` names others. Where a difference
is meant, the commit that makes it moves COMMIT on to itself and says so; ids of objects are compared as they are, so that one
changed byte of a checkpoint is seen.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.deep.differential.scripts import plan_script, random_script
from tests.deep.differential.sides import Side, sides
from tests.deep.differential.world import Step, differences, played, template
from tests.kit.tiers import full
from tests.kit.yesterday import READS, WRITES, lines, payload, unpack, words

FIRST, _, LAST = os.environ.get("DIFFERENTIAL_SEEDS", "0:20").partition(":")
SEEDS, PARTS = range(int(FIRST), int(LAST)), 4
SHARES = [
    pytest.param(SEEDS[:1], id="first"),
    *(full(pytest.param(SEEDS[1 + n :: PARTS], id=f"share {n}")) for n in range(PARTS)),
]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Side, Side]:
    return sides(tmp_path_factory.mktemp("sides"))


def compared(both: tuple[Side, Side], folder: Path, steps: Sequence[Step]) -> list[str]:
    """What the sides did not do alike, twice: a hook that a busy machine held up for two seconds leaves its work to later."""
    told: list[str] = []
    for _ in range(2):
        old, new = (played(folder / "world", folder / "begun", side, steps) for side in both)
        assert len(old) == sum(step.edit is None for step in steps)
        told = differences(old, new)
        if not told:
            break
    return told


@pytest.mark.parametrize("seeds", SHARES)
def test_random_scripts(both: tuple[Side, Side], tmp_path: Path, seeds: Sequence[int]) -> None:
    template(tmp_path / "begun")
    wrong = []
    for seed in seeds:
        script = random_script(seed)
        if told := compared(both, tmp_path, script):
            wrong.append("\n".join([f"seed {seed}:", *told]))
    assert not wrong, "\n\n".join(wrong)


def test_a_plan_from_its_first_run_to_its_last(both: tuple[Side, Side], tmp_path: Path) -> None:
    """The same steps run, with the same keys, and the journals hold the same."""
    template(tmp_path / "begun")
    told = compared(both, tmp_path, plan_script())
    assert not told, "\n".join(told)


@pytest.mark.parametrize("seeds", SHARES)
def test_the_same_puts_give_the_same_refs(both: tuple[Side, Side], tmp_path: Path, seeds: Sequence[int]) -> None:
    """Whatever is put into threads, edited there and exchanged, in repository and clone: both sides have the same commits."""
    pytest.importorskip("langgraph")
    template(tmp_path / "begun")
    steps: list[Step] = []
    for seed in seeds:
        for sitting in range(3):
            steps += [Step(words=("saver", str(seed), str(sitting)), place="peer" if sitting == 1 else "repo")]
            steps += [Step(words=("sync", "-y", "--threads", "origin"), place=place) for place in ("repo", "peer")]
            steps += [Step(words=("threads", "--json")), Step(words=("doctor",), place="peer")]
    told = compared(both, tmp_path, steps)
    assert not told, "\n".join(told)


@pytest.mark.parametrize("state", [full(state) if state in ("whole", "reads") else state for state in (*WRITES, "reads")])
def test_repositories_of_5b105d9(both: tuple[Side, Side], tmp_path: Path, state: str) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()
    unpack(begun, "whole" if state == "reads" else state)
    for file in (begun / "repo" / ".git").rglob("*"):
        if file.is_file() and file.stat().st_size < 9999 and str(begun).encode() in file.read_bytes():
            file.write_bytes(file.read_bytes().replace(str(begun).encode(), str(tmp_path / "world").encode()))
    text = READS if state == "reads" else WRITES[state]
    place = tmp_path / "world" / "repo"
    steps = [
        Step(words=tuple(words(re.sub("^forget before", "forget --yes before", line))), stdin=payload(line, place).decode())
        for line in lines(text)
        if line != "hook claude UserPromptSubmit"  # a checkpoint is taken there since
    ]
    told = compared(both, tmp_path, steps)
    assert not told, "\n".join(told)
