"""LATEST of all work trees, and in every directory that it was once written to, after a checkpoint was removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.far import Far, forget, ok, snap
from tests.kit.repos import Sandbox

LATEST = "runtime/checkpoints/LATEST.md"


@pytest.mark.deep
def test_forget_reaches_every_latest(repo: Sandbox) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", "../side")
    repo.git("worktree", "add", "-q", "-b", "plain", "../plain")
    side, plain = Sandbox(repo.path.parent / "side"), Sandbox(repo.path.parent / "plain")
    repo.ok("snapshot", "--track", "t", "--step", "SECRET-STEP")
    repo.ok("snapshot", "--track", "t", "--step", "SECRET-STEP", "--checkpoint-dir", "an odd[dir]")
    side.ok("snapshot", "--track", "t", "--step", "SECRET-STEP", "--checkpoint-dir", "else where")
    side.ok("resume", "--track", "t")
    theirs = repo.write("else where/LATEST.md", "the user's own words: SECRET-STEP\n")
    repo.git("config", "baton.checkpointDir", "third")
    repo.ok("resume", "--track", "t")
    latest = [*repo.path.glob("*/**/LATEST.*"), *side.path.glob("*/**/LATEST.*")]
    assert len(latest) == 6 + 1 + 4 and all(b"SECRET-STEP" in path.read_bytes() for path in latest)
    repo.ok("snapshot", "--track", "u", "--step", "other")
    ids = [row["id"] for row in repo.ok("log", "t", "--json").json["checkpoints"]]
    done = repo.baton("forget", "--yes", *ids, "--everywhere")
    assert done.code == 0, done.out
    for path in latest:
        assert (b"SECRET" in path.read_bytes()) == (path == theirs), path
    assert not list(plain.path.glob("**/LATEST.*"))  # none are made


@pytest.mark.deep
def test_other_work_trees_follow_forget_and_sync(tmp_path: Path) -> None:
    far = Far(tmp_path)
    a, b = far.first, far.clone()
    ids = [snap(a, "gone in the end"), snap(a, "gone at once")]
    ok(a, "push", "--yes")
    ok(b, "sync")
    b.git("worktree", "add", "-q", "-b", "side", "../side")
    side = Sandbox(tmp_path / "side")
    side.ok("tracks", "use", "t")
    side.ok("resume")
    shown = side.path / LATEST
    assert "gone at once" in shown.read_text()
    ok(b, "forget", "--yes", ids[1])
    assert "gone at once" not in shown.read_text() and "gone in the end" in shown.read_text()
    snap(a, "other", "u")
    forget(a, *ids)
    ok(a, "push", "--yes")
    ok(b, "sync")
    assert "gone" not in shown.read_text() and "other" in shown.read_text()


def test_resume_mends_latest_also_where_the_track_is_gone(tmp_path: Path) -> None:
    a = Far(tmp_path).first
    oid = snap(a, "removed")
    forget(a, oid)  # as another process does it
    shown = a.path / LATEST
    assert "removed" in shown.read_text() and "No checkpoints here yet." in a.here("resume").out
    assert "removed" not in shown.read_text()
