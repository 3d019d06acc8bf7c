"""Nothing here runs a client unless ``--clients`` is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.workshop import Workshop


@pytest.fixture
def workshop(tmp_path: Path, pytestconfig: pytest.Config) -> Workshop:
    """A place for a client to work in; the test is skipped, and the skip is shown, without ``--clients``."""
    if not pytestconfig.getoption("--clients"):
        pytest.skip("drives a real client: give --clients")
    return Workshop(tmp_path / "w")
