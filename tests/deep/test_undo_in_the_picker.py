"""The contract of undo and redo, kept by the picker: its tests once more, done in it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.kit.pickerdoor import contract, picked
from tests.promises import test_restore_undo

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)

__all__ = ["picked"]
pytestmark = pytest.mark.full
globals().update(contract(lambda _: True, test_restore_undo))
