"""The README's picture shows what the commands print now."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from tests.kit.guides import check
from tests.kit.picture import PICTURE, WIDTH, make


def test_the_picture_is_made_of_what_the_commands_print(tmp_path: Path) -> None:
    made = make(tmp_path)
    rows = ["".join(row.itertext()) for row in ElementTree.fromstring(made).iterfind("{http://www.w3.org/2000/svg}text")]
    typed = [row for row in rows if row.startswith("$ ")]
    assert typed[1:] == ["$ git baton", "$ git baton resume", "$ pytest tests/parser"]
    assert "next_cmd=pytest tests/parser" in rows
    assert max(map(len, rows)) <= WIDTH and not re.search(r"\x1b|nothing to|fatal|hint", made)
    check(PICTURE, made)
