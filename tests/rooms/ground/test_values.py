"""Value classes: as frozen dataclasses, but cheap."""

from __future__ import annotations

import copy
import pickle

import pytest

from gitbaton.base.model import Checkpoint, Flag, Head
from gitbaton.base.values import replace


def test_equal_by_content_and_hashable() -> None:
    assert Head(branch="a", oid=None) == Head(oid=None, branch="a") != Head(branch="b", oid=None)
    other: object = Flag(path="a", bits="b")
    assert Head(branch="a", oid="b") != other
    assert len({Head(branch="a", oid=None), Head(branch="a", oid=None), Head(branch=None, oid=None)}) == 2
    assert repr(Flag(path="p", bits="s")) == "Flag(path='p', bits='s')"


def test_frozen_and_slotted() -> None:
    head = Head(branch="a", oid=None)
    for name in ("branch", "other"):
        with pytest.raises(AttributeError):
            setattr(head, name, "x")
    with pytest.raises(AttributeError):
        del head.branch
    assert not hasattr(head, "__dict__")


def test_fields_are_checked() -> None:
    with pytest.raises(TypeError):
        Head(branch="a")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Head(branch="a", oid=None, more=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Head("a", None)  # type: ignore[call-arg]


def test_defaults_replace_copy_and_pickle() -> None:
    from tests.kit.repos import SOME_TIME

    one = Checkpoint(track="t", step="s", created=SOME_TIME)
    assert (one.validation, one.extra) == ("pending", ())
    two = replace(one, step="other")
    assert (two.step, one.step, two.track) == ("other", "s", "t")
    assert copy.deepcopy(one) == copy.copy(one) == pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError):
        replace(one, nothing=1)
