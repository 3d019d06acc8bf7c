"""Checkpoints that a remote has of a track that exists here, too: named, shown and listed as foreign before they are joined."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.far import Far, forget, ok, snap, steps


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.mark.full
def test_what_is_only_fetched_can_be_shown_and_restored(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one")
    ok(a, "push", "--yes")
    ok(b, "sync")
    mine = snap(b, "of b")
    a.write("theirs.txt", "of a\n")
    theirs = [snap(a, "two"), snap(a, "three")]
    ok(a, "push", "--yes")
    assert b.here("show", theirs[0]).code == 2
    ok(b, "fetch")
    assert "origin has 2 newer" in b.here("status").err
    for name in (theirs[0], theirs[0][:12]):
        assert "> step=two" in ok(b, "show", "--porcelain", name).out.splitlines()
        assert "is foreign" in ok(b, "diff", mine, name, "--stat").err
    listed = [line for line in ok(b, "log", "--all").out.splitlines() if line.endswith("(foreign: origin)")]
    assert [oid for line in listed for oid in theirs if oid.startswith(line.split()[0])] == theirs[::-1]
    assert len(ok(b, "log", "--all").out.splitlines()) == 4 and len(ok(b, "log", "t").out.splitlines()) == 2
    assert b.here("restore", theirs[0]).code != 0 and not (b.path / "theirs.txt").exists()
    ok(b, "restore", "--foreign", theirs[0])
    assert (b.path / "theirs.txt").read_text() == "of a\n" and steps(b.state()) == ["one", "of b"]
    forget(b, theirs[0])
    assert b.here("show", theirs[0]).code == 2 and "two" not in b.here("log", "--all").out
    ok(b, "sync")
    assert "foreign: origin" not in ok(b, "log", "--all").out
