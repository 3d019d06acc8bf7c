"""What a remote has and nobody can use is said once, and nothing is tried again because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.far import CHAINS, META, Far, ok, snap, steps


@pytest.mark.deep
def test_a_track_that_cannot_be_joined_is_not_tried_again(tmp_path: Path) -> None:
    far = Far(tmp_path)
    a, b = far.first, far.clone()
    snap(a, "one")
    snap(a, "other", "u")
    ok(a, "push", "--yes")
    ok(b, "sync")
    snap(a, "two")
    ok(a, "push")
    snap(b, "mine")
    snap(b, "mine, too", "u")
    tip = b.state().refs[CHAINS + "t"]
    raw = b.run("git", "cat-file", "commit", tip).out.replace('"validation": "pending"', '"validation": "purple"')
    bad = b.run("git", "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.encode()).out.strip()
    b.git("update-ref", CHAINS + "t", bad)
    done = b.here("sync", "--json")
    assert done.code == 1 and done.json["rounds"] == 1 and done.json["failure"] == ""
    assert [row["track"] for row in done.json["joined"]["tracks"] if row["problem"]] == ["t"]
    assert [move["count"] for move in done.json["pushed"][0]["moves"] if move["action"] == "refused"] == [1]
    assert steps(far.there(), "u") == ["other", "mine, too"] and steps(far.there()) == ["one", "two"]


@pytest.mark.deep
def test_fetch_says_that_tombstones_cannot_be_read(tmp_path: Path) -> None:
    far = Far(tmp_path)
    snap(far.first, "one")
    ok(far.first, "push", "--yes")
    assert ok(far.first, "fetch", "--json").json["problem"] == ""
    far.remote.git("update-ref", META, "refs/heads/main")
    done = far.first.here("fetch")
    assert done.code == 1 and f"error: the remote's '{META}' cannot be used" in done.err
    assert META in far.first.here("fetch", "--json").json["problem"]
