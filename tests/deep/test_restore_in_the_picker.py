"""The contract of restore, kept by the picker: five of its tests once more, done in it key by key.

``test_contract_in_the_picker.py`` and ``test_undo_in_the_picker.py`` do so with all the others.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.pickerdoor import JOURNEYS, contract, picked
from tests.promises import test_restore_bytes, test_restore_cases

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)

__all__ = ["picked"]
globals().update(contract(lambda name: name in JOURNEYS, test_restore_cases, test_restore_bytes))


def test_they_are_done_in_the_picker(repo: Sandbox, picked: Path) -> None:
    repo.ok("snapshot", "one", "--track", "t")
    repo.write("a.txt", "two\n")
    assert "write a.txt" in repo.ok("restore").out
    assert "undone: " in repo.ok("undo").out
    assert repo.ok("redo", "--json").json["op"] == "redo"
    assert picked.read_text().split() == ["restore", "undo", "redo"]
    assert repo.baton("redo").code == 1


def test_each_journey_is_a_test_of_the_contract() -> None:
    assert {name for name in globals() if name in JOURNEYS} == JOURNEYS
