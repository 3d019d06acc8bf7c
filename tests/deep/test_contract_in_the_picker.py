"""The whole contract of restore, kept by the picker: what ``test_restore_in_the_picker.py`` leaves of it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.kit.pickerdoor import JOURNEYS, contract, picked
from tests.promises import test_restore_bytes, test_restore_cases, test_restore_corners

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)

__all__ = ["picked"]
pytestmark = pytest.mark.full
globals().update(contract(lambda name: name not in JOURNEYS, test_restore_cases, test_restore_bytes, test_restore_corners))
