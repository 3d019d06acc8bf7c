"""The list of mistakes that tests are measured with does not rot: each can still be made, in one place, and is valid Python."""

from __future__ import annotations

from tests.deep.mutants import MUTANTS
from tests.kit.places import PACKAGE


def test_each_mistake_can_be_made_in_one_place_and_is_valid_python() -> None:
    wrong = []
    for number, mutant in enumerate(MUTANTS, 1):
        source = (PACKAGE / mutant.file).read_text()
        if len(mutant.places(source)) != 1:
            wrong.append(f"{number} {mutant.file}: stands {len(mutant.places(source))} times: {mutant.old}")
            continue
        compile(mutant.made(source), mutant.file, "exec")
    assert not wrong


def test_there_are_forty_in_many_rooms() -> None:
    assert len(MUTANTS) == 44
    assert len({mutant.file for mutant in MUTANTS}) >= 25
    assert len({mutant.room for mutant in MUTANTS}) >= 15
    assert all(mutant.what and mutant.old and mutant.new and mutant.old != mutant.new for mutant in MUTANTS)
