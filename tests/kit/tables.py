"""A pure table as one test: every row is tried, and the rows that fail are named together."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

_PARAM = type(pytest.param())


def each(names: str, rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As ``pytest.mark.parametrize``, for rows that need no fixture of their own: one test for all of them.

    Rows are tuples for several names, plain values for one, or ``pytest.param``. What fails is raised as one group.
    """
    keys = [name.strip() for name in names.split(",")]
    table = [_values(row, len(keys)) for row in rows]
    assert table, f"no rows for '{names}'"

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def every(*args: Any, **kwargs: Any) -> None:
            failures = []
            for row in table:
                given = dict(zip(keys, row, strict=True))
                try:
                    function(*args, **kwargs, **given)
                except (Exception, pytest.fail.Exception) as error:  # pytest.raises fails with no Exception
                    error.add_note(f"with {given!r:.500}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(table)} rows", failures)

        taken = inspect.signature(function)
        left = [p for name, p in taken.parameters.items() if name not in keys]
        every.__signature__ = taken.replace(parameters=left)  # type: ignore[attr-defined]
        return every

    return decorate


def _values(row: Any, count: int) -> tuple[Any, ...]:
    if isinstance(row, _PARAM):
        assert not row.marks, "a row has no marks"
        return tuple(row.values)
    return tuple(row) if count > 1 else (row,)
