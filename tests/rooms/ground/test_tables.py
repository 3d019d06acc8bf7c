"""``each``: every row of a table is tried, and each one that fails is named."""

from __future__ import annotations

import pytest

from tests.kit.tables import each


def test_every_row_is_tried_and_each_that_fails_is_named() -> None:
    tried = []

    @each("text, number", [("one", 1), ("two", 2), ("x", 3), ("y", 4)])
    def table(text: str, number: int) -> None:
        tried.append(number)
        assert number != 2
        with pytest.raises(ValueError):
            int(text) if number > 2 and text == "x" else str(text).index("?")
        if text == "y":
            raise KeyError(text)

    with pytest.raises(BaseExceptionGroup) as found:
        table()
    assert tried == [1, 2, 3, 4]
    assert [type(error).__name__ for error in found.value.exceptions] == ["AssertionError", "KeyError"]
    assert all("with {" in error.__notes__[0] for error in found.value.exceptions)


def test_a_row_that_does_not_raise_is_one_of_them() -> None:
    tried = []

    @each("text", ["1", "x", "2"])
    def table(text: str) -> None:
        tried.append(text)
        with pytest.raises(ValueError):
            int(text)

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows"):
        table()
    assert tried == ["1", "x", "2"]
