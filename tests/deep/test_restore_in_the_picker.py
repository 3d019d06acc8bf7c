"""The contract of restore, kept by the picker: its tests once more, with every restore, undo and redo that the picker can be
asked for done in it, key by key."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.pickerdoor import contract, picked
from tests.promises import test_restore_cases

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)

__all__ = ["picked"]
pytestmark = pytest.mark.deep
globals().update(contract(test_restore_cases))


def test_they_are_done_in_the_picker(repo: Sandbox, picked: Path) -> None:
    repo.ok("snapshot", "one", "--track", "t")
    repo.write("a.txt", "two\n")
    assert "write a.txt" in repo.ok("restore").out
    assert "undone: " in repo.ok("undo").out
    assert repo.ok("redo", "--json").json["op"] == "redo"
    assert picked.read_text().split() == ["restore", "undo", "redo"]
    assert repo.baton("redo").code == 1
