"""What is private here is asked about once in each clone, also where the remote has the track from somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.far import Far, ok, snap, steps


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.mark.full
def test_another_clone_asks_before_its_own_private_files_go(far: Far) -> None:
    a, b = far.first, far.clone()
    a.write("of a.txt", "a")
    snap(a, "of a")
    snap(a, "other", "u")
    ok(a, "push", "--yes")
    ok(b, "sync")  # nothing of its own
    snap(b, "public")
    ok(b, "sync")  # its base is published, and the file of a is known there
    b.commit("unpublished", c_txt="c\n")
    b.write("private.txt", "p")
    snap(b, "private")
    before = far.there().refs
    done = b.here("push", "origin", "t")
    assert done.code == 1 and "1 unpublished commit, 1 untracked file, " in done.err and far.there().refs == before
    (b.path / "private.txt").unlink()
    b.git("reset", "-q", "--hard", "HEAD~1")
    snap(b, "public again", "u")
    done = b.here("sync")
    assert done.code == 1 and "not pushed: 't'" in done.err, done.err
    assert steps(far.there()) == ["of a", "public"] and steps(far.there(), "u") == ["other", "public again"]
    ok(b, "push", "--yes", "origin", "t")
    b.write("private too.txt", "p")
    snap(b, "agreed")
    ok(b, "push", "origin", "t")
    assert steps(far.there()) == ["of a", "public", "private", "agreed"]
    b.git("remote", "set-url", "origin", str(far.remote.path) + "/.")  # the same, under another address: agreed for none
    b.write("private three.txt", "p")
    snap(b, "elsewhere")
    assert b.here("push", "origin", "t").code == 1
    a.write("second of a.txt", "a")
    ok(a, "sync", "origin", "t")
    snap(a, "and a")
    ok(a, "push", "origin", "t")  # it agreed long ago


@pytest.mark.deep
def test_where_both_have_gone_on_only_what_is_new_there_counts(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one")
    ok(a, "push", "--yes")
    ok(b, "sync")
    snap(b, "mine, first")
    a.write("of a.txt", "a")
    snap(a, "theirs")
    ok(a, "push")
    ok(b, "sync")  # a rewriting that holds what a has published
    assert steps(far.there()) == ["one", "mine, first", "theirs"]
