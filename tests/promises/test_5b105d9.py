"""Repositories that 5b105d9 wrote: every verb says of them what it said then, but for the words that were changed on purpose.

Who changes such words adds a row to CHANGED, and nothing else: a row says which verbs, what they said, and what they say now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.yesterday import READS, WRITES, Changed, answers, ask, lines, payload, said, today, unpack, words

CHANGED: tuple[Changed, ...] = ()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with something of everything; who asks it changes nothing that another one sees."""
    return unpack(tmp_path_factory.mktemp("yesterday"), "whole")


@pytest.mark.parametrize("line", lines(READS))
def test_what_5b105d9_wrote_reads_as_it_did(whole: Path, line: str) -> None:
    done = Sandbox(whole).baton(*words(line), stdin=payload(line, whole))
    assert said(done, whole, fresh=False) == today(answers()["reads"][line], line, CHANGED)


@pytest.mark.parametrize("state", [pytest.param(s, marks=pytest.mark.deep) if s == "whole" else s for s in WRITES])
def test_what_5b105d9_wrote_goes_on_as_it_did(tmp_path: Path, state: str) -> None:
    """Also from the middle of a restore and of a join, and with the log of a saver that was killed."""
    place = unpack(tmp_path, state)

    def run(words: Sequence[str], stdin: bytes) -> Outcome:
        return Sandbox(place).baton(*words, stdin=stdin)

    then = answers()[state]
    now = ask(run, place, WRITES[state], fresh=True)
    assert now == {line: today(answer, line.partition(" #")[0], CHANGED) for line, answer in then.items()}
    Sandbox(place).fsck()


def test_every_change_of_words_is_one() -> None:
    """No row of the table is left over: each changes what some verb said."""
    asked = [(line.partition(" #")[0], answer) for then in answers().values() for line, answer in then.items()]
    for change in CHANGED:
        meant = [answer for line, answer in asked if re.fullmatch(change.verbs, line)]
        assert any(today(answer, line, (change,)) != answer for line, answer in asked), change
        assert meant, change
