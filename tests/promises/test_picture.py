"""The README's pictures show what the commands print now."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.kit.guides import README, check
from tests.kit.picture import OVERVIEW, PICKER, SESSION, WIDTH, make
from tests.kit.places import ROOT
from tests.kit.tmux import needs_tmux


def rows_of(picture: Path, made: str) -> list[str]:
    """The lines of a picture that the README shows."""
    rows = ["".join(row.itertext()) for row in ElementTree.fromstring(made).iterfind("{http://www.w3.org/2000/svg}text")]
    assert max(map(len, rows)) <= WIDTH and not re.search(r"\x1b|nothing to|fatal|hint", made)
    assert f"({picture.relative_to(ROOT)})" in README.read_text()
    return rows


@pytest.mark.deep
def test_the_session_is_made_of_what_the_commands_print(tmp_path: Path) -> None:
    made = make(SESSION, tmp_path)
    rows = rows_of(SESSION, made)
    typed = [row for row in rows if row.startswith("$ ")]
    assert typed[1:] == ["$ git baton", "$ git baton resume", "$ pytest tests/parser"]
    assert "next      pytest tests/parser" in rows
    check(SESSION, made)


@pytest.mark.full
def test_the_overview_is_made_of_what_the_commands_print(tmp_path: Path) -> None:
    made = make(OVERVIEW, tmp_path)
    rows = rows_of(OVERVIEW, made)
    assert [row for row in rows if row.startswith("$ ")] == [
        "$ git baton status",
        "$ git baton overlap",
        "$ git baton log --all --graph",
        "$ git baton why num.py:2",
    ]
    assert "  prompt   half() rounds to even" in rows
    check(OVERVIEW, made)


@pytest.mark.full
@needs_tmux
@pytest.mark.skipif(find_spec("textual") is None, reason="the extra 'ui' is not installed")
def test_the_picker_is_drawn_as_a_terminal_shows_it(tmp_path: Path) -> None:
    made = make(PICKER, tmp_path)
    rows = rows_of(PICKER, made)
    assert rows[0].split() == ["parser", "docs"] and "2 plan" in rows[1]
    assert any("take this turn back: 1 remove, 1 write" in row for row in rows) and any(
        "go back to here: " in row for row in rows
    )
    assert any("- remove   table.py" in row for row in rows) and any("~ write    errors.py" in row for row in rows)
    check(PICKER, made)
