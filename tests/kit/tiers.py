"""Two tiers: what answers in three minutes, and what is deep. Full sizes run only where GITBATON_TEST_FULL is set."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

FULL = bool(os.environ.get("GITBATON_TEST_FULL"))


def examples(every: int, some: int) -> int:
    """How many examples of a property are tried: ``every`` at full size, else ``some``."""
    return every if FULL else some


def first(values: Iterable[Any], count: int = 1) -> list[Any]:
    """Parameters of which the first ``count`` stand in the default tier, and the others in the deep one."""
    found = list(values)
    return [*found[:count], *map(deep, found[count:])]


def deep(value: Any) -> Any:
    """A parameter of the deep tier; one with an id or marks keeps them."""
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, pytest.mark.deep])
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.deep)
