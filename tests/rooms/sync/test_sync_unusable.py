"""What a remote has and nobody can use is said once, and nothing is tried again because of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.far import CHAINS, META, Far, ok, snap, steps


def written(clone: Sandbox, commit: str, old: str, new: str) -> str:
    """The commit once more, with other words in it."""
    raw = clone.run("git", "cat-file", "commit", commit).out
    assert old in raw
    return clone.run("git", "hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.replace(old, new).encode()).out.strip()


@pytest.mark.deep
@pytest.mark.parametrize(("newest", "count"), [(False, 1), (True, 0)])
def test_a_track_that_cannot_be_joined_is_not_tried_again(tmp_path: Path, newest: bool, count: int) -> None:
    """Nor where its newest is no checkpoint: then nothing is compared, and the commit is named."""
    far = Far(tmp_path)
    a, b = far.first, far.clone()
    snap(a, "one")
    snap(a, "other", "u")
    ok(a, "push", "--yes")
    ok(b, "sync")
    snap(a, "two")
    ok(a, "push")
    snap(b, "mine")
    snap(b, "mine, later")
    snap(b, "mine, too", "u")
    tip, below = (b.git("rev-parse", CHAINS + name) for name in ("t", "t~1"))
    bad = written(b, tip if newest else below, '"validation": "pending"', '"validation": "purple"')
    b.git("update-ref", CHAINS + "t", bad if newest else written(b, tip, below, bad))
    done = b.here("sync", "--json")
    assert done.code == 1 and done.json["rounds"] == 1 and done.json["failure"] == ""
    assert [row["track"] for row in done.json["joined"]["tracks"] if row["problem"]] == ["t"]
    refused = [move for move in done.json["pushed"][0]["moves"] if move["action"] == "refused"]
    assert [move["count"] for move in refused] == [count] and (f"commit {bad}: " in refused[0]["reason"]) == newest
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
