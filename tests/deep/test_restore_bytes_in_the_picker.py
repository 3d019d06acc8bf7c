"""Bytes, modes, links, names and corners of restore, kept by the picker: their tests once more, done in it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.kit.pickerdoor import contract, picked
from tests.promises import test_restore_bytes, test_restore_corners

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)

__all__ = ["picked"]
pytestmark = pytest.mark.deep
globals().update(contract(test_restore_bytes, test_restore_corners))
