"""Remotes and clones that mean harm, or whose clocks are wrong: nobody else stands still for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.far import Far, forget, ok, snap, steps


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.mark.parametrize("rewriting", [True, False])
def test_one_wrong_clock_keeps_nobody_from_pushing(far: Far, rewriting: bool) -> None:
    a, wrong, c = far.first, far.clone("wrong", skew=10_000), far.clone("third")
    first = snap(a, "first")
    ok(a, "push", "--yes")
    ok(wrong, "sync")
    late = snap(wrong, "far ahead")
    ok(wrong, "push")
    if not rewriting:
        hook = far.remote.path / "hooks/update"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ncase $2 in 0*) exit 0;; esac; git merge-base --is-ancestor $2 $3 || { exit 1; }\n")
        hook.chmod(0o755)
    snap(a, "second")
    done = ok(a, "sync")
    assert f"checkpoint {late} of 't' is from the future" in done.err and "faster" not in done.err
    assert steps(a.state()) == ["first", "second"]
    assert {"first", "second", "far ahead"} == set(steps(far.there())) and steps(far.there())[-1] == "far ahead"
    ok(c, "sync")
    assert steps(c.state()) == ["first", "second"]
    if rewriting:
        forget(c, first)
        ok(c, "sync")
        assert steps(far.there()) == ["second", "far ahead"]
    ok(wrong, "sync")
    assert steps(wrong.state())[-2:] == ["second", "far ahead"]
    assert "nothing to push" in ok(a, "sync").out
    far.remote.git("fsck", "--strict")
