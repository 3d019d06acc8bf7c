"""Three tiers: what answers at once, what is deep, and what is too dear for CI (``full``).

Full sizes run only where GITBATON_TEST_FULL is set, and then every tier does.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

FULL = bool(os.environ.get("GITBATON_TEST_FULL"))


def examples(every: int, some: int) -> int:
    """How many examples of a property are tried: ``every`` at full size, else ``some``."""
    return every if FULL else some


def sized(few: int, slice_: int, every: int) -> pytest.MarkDecorator:
    """How much of a model is tried, as the argument ``count``: a few examples or none, deep a slice of them, at full size every
    one."""
    counts = [pytest.param(few, id="few")] if few else []
    counts += [deep(pytest.param(every if FULL else slice_, id="deep"))]
    return pytest.mark.parametrize("count", counts)


def model(count: int, **options: Any) -> settings:
    """The settings of a model that runs real processes: the same examples each time, but at full size."""
    phases = (Phase.generate, Phase.shrink) if FULL else (Phase.generate,)
    checks = list(HealthCheck)
    more = {"derandomize": not FULL, "phases": phases, "report_multiple_bugs": False, **options}
    return settings(max_examples=count, deadline=None, database=None, suppress_health_check=checks, **more)


def first(values: Iterable[Any], keep: int = 1, share: int | Collection[Any] | None = None) -> list[Any]:
    """Values of which the default tier takes the first ``keep`` and the deep one the others, or with ``share`` some of these:
    so many, evenly spread, or those that are named. The full tier takes all."""
    found = list(values)
    chosen = set(range(keep, len(found)))
    if isinstance(share, int):
        chosen = {keep + (len(found) - keep) * n // share for n in range(share)}
    elif share is not None:
        chosen = {n for n, value in enumerate(found) if value in share}
    return [value if n < keep else deep(value) if n in chosen else full(value) for n, value in enumerate(found)]


def some(
    names: str | tuple[str, ...],
    values: Iterable[Any],
    keep: int = 1,
    share: int | Collection[Any] | None = None,
    **options: Any,
) -> pytest.MarkDecorator:
    """``parametrize`` with such a share for each tier."""
    found = list(values)
    if isinstance(names, tuple) or "," in names:
        found = [value if isinstance(value, type(pytest.param())) else pytest.param(*value) for value in found]
    return pytest.mark.parametrize(names, first(found, keep, share), **options)


def deep(value: Any) -> Any:
    """A parameter of the deep tier; one with an id or marks keeps them."""
    return _marked(value, pytest.mark.deep)


def full(value: Any) -> Any:
    """A parameter of the full tier."""
    return _marked(value, pytest.mark.full)


def _marked(value: Any, mark: pytest.MarkDecorator) -> Any:
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=[*value.marks, mark])
    return pytest.param(value, marks=mark)
