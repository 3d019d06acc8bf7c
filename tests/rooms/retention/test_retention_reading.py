"""What a removal reads: a deletion only its own track, a forget the chains that hold the checkpoint or its words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gitbaton.base.errors import NotFoundError
from gitbaton.care.retention import inventory
from gitbaton.care.retention.forgetting import plan
from gitbaton.care.retention.pruning import deletion
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import Store
from gitbaton.git.objects import Object
from tests.kit import Sandbox


@pytest.mark.deep
def test_only_the_chains_that_are_asked_for_are_read(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    read, whole = list[str](), inventory._chain

    def reading(store: Store, ref: str, tip: str, commits: Sequence[tuple[str, Object | None]]) -> inventory.CheckpointChain:
        read.append(ref)
        return whole(store, ref, tip, commits)

    monkeypatch.setattr(inventory, "_chain", reading)
    with Baton(repo.path) as baton:
        made = {track: baton.snapshot(f"{track} 0", track=track).stored.id for track in ("t", "u", "v")}
        repo.git("update-ref", "refs/baton/remotes/origin/tracks/w", repo.git("rev-parse", "refs/baton/tracks/t"))
        with pytest.raises(NotFoundError):
            deletion(baton, "nothing")
        assert read == []
        assert [s.id for s in deletion(baton, "t").items] == [made["t"]] and read == ["refs/baton/tracks/t"]
        read.clear()
        found = plan(baton, [made["t"]], everywhere=False)
        assert read == ["refs/baton/tracks/t"]
        assert (found.ids, found.remotes, found.stay) == ((made["t"],), ("origin",), {"t": ()})
        read.clear()
        plan(baton, [made["t"]], everywhere=True)
        assert read == [f"refs/baton/tracks/{track}" for track in "tuv"]
