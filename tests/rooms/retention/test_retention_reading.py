"""What a removal reads: a deletion and a renaming only their own track, and nothing that was read before."""

from __future__ import annotations

import pytest

from gitbaton.care.retention.inventory import copies, look
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.join import links, marks
from tests.kit import Sandbox
from tests.kit.damage import file_of


@pytest.mark.deep
def test_a_record_that_another_track_has_lost_is_in_no_removals_way(repo: Sandbox) -> None:
    for track in ("t", "u"):
        for number in (1, 2, 3):
            repo.ok("snapshot", f"{track} {number}", "--track", track)
    lost = repo.git("rev-parse", "refs/baton/tracks/u~1")
    file_of(repo, lost).unlink()
    assert repo.baton("doctor").code == 1
    assert repo.baton("tracks", "delete", "nothing", "--yes").code == 2
    done = repo.ok("tracks", "rename", "t", "parser")
    assert lost not in done.err and "t 3" in repo.ok("log", "--track", "parser").out
    done = repo.ok("tracks", "delete", "parser", "--yes")
    assert lost not in done.err and repo.baton("log", "--track", "parser").code == 2
    done = repo.baton("forget", "u", "--yes")
    assert lost in done.err and repo.git("rev-parse", "refs/baton/tracks/u"), "its own track's is in its way"


@pytest.mark.deep
def test_what_was_fetched_is_what_reading_each_chain_alone_says(repo: Sandbox) -> None:
    for number in range(4):
        repo.ok("snapshot", f"t {number}", "--track", "t")
        repo.ok("snapshot", f"u {number}", "--track", "u")
    remotes = "refs/baton/remotes"
    repo.git("update-ref", f"{remotes}/same/tracks/t", "refs/baton/tracks/t")
    repo.git("update-ref", f"{remotes}/behind/tracks/t", "refs/baton/tracks/t~2")
    repo.git("update-ref", f"{remotes}/other/tracks/t", "refs/baton/tracks/u")  # another's chain, read as this track
    repo.git("update-ref", f"{remotes}/strange/tracks/w", "refs/baton/tracks/u~1")
    repo.git("update-ref", f"{remotes}/ahead/tracks/u", "refs/baton/tracks/u")
    repo.git("update-ref", "refs/baton/tracks/u", "refs/baton/tracks/u~1")
    with Baton(str(repo.path)) as baton:
        found = list(copies(baton.store, look(baton.store)))
        alone = [baton.store.chain(copy.ref, copy.ref.rpartition("/")[2]) for copy in found]
        many = {copy.remote: len(copy.items) for copy in found}
        assert many == {"same": 4, "behind": 2, "other": 4, "strange": 3, "ahead": 4}
        assert [(copy.items, copy.whole) for copy in found] == [(one.items, not one.problems) for one in alone]


@pytest.mark.deep
def test_checkpoints_that_are_recalled_are_as_they_are_read(repo: Sandbox) -> None:
    for number in range(3):
        repo.ok("snapshot", f"t {number}", "--track", "t", "--label", f"l{number}")
    with Baton(str(repo.path)) as baton:
        store, chain = baton.store, look(baton.store).tracks[0]
        oids = [stored.commit for stored in chain.items]
        read = list(marks(store, oids)), links(store, "t"), store.chain("refs/baton/tracks/t", "x").items
        with store.recalling(chain.items[1:]):
            assert store.recalled(oids[0]) is None and store.recalled(oids[1]) is chain.items[1]
            again = list(marks(store, oids)), links(store, "t"), store.chain("refs/baton/tracks/t", "x").items
        assert again == read and store.recalled(oids[1]) is None
        assert [stored.checkpoint.track for stored in again[2]] == ["x"] * 3, "as another track it is read anew"
