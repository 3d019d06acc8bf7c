"""Where things lie: the checkout, the package and the data of the tests."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gitbaton"
DATA = ROOT / "tests" / "data"
