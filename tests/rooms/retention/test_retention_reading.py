"""What a removal reads: a deletion and a renaming only their own track."""

from __future__ import annotations

import pytest

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
