"""What push, fetch and sync say when something is wrong: one line that says it whole, and what can be done."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gitbaton.git.bounded import failure
from tests.kit.far import CHAINS, Far, lines_of, ok, snap
from tests.kit.servers import free_port


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def test_what_ends_in_a_colon_is_said_to_its_end(far: Far) -> None:
    (said,) = lines_of(far.first.here("fetch", f"git://127.0.0.1:{free_port()}/x"))
    assert "cannot be reached" in said and "refused" in said
    rows = "error: Repository lacks these prerequisite commits:\nerror: " + "a" * 40 + " \nerror: " + "b" * 40 + " two\n"
    assert failure("x", rows).message == f"'x' is a bundle that stands on 2 commits that are not here: {'a' * 40}"


def test_a_program_of_git_that_died_is_a_reason_only_where_a_signal_ended_it() -> None:
    rows = "fatal: early EOF\nerror: index-pack died{}\n"
    assert failure("x", rows.format("")).message == "'x' cannot be reached: early EOF"
    assert failure("x", rows.format(" of signal 9")).message == "the exchange with 'x' failed: index-pack died of signal 9"


@pytest.mark.deep
def test_bundles_that_are_none(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one")
    snap(a, "two")
    place = a.path.parent
    a.git("bundle", "create", "-q", str(place / "part.bundle"), f"{CHAINS}t~1..{CHAINS}t")
    a.git("bundle", "create", "-q", str(place / "whole.bundle"), CHAINS + "t")
    a.git("bundle", "create", "-q", str(place / "main.bundle"), "main")
    whole = (place / "whole.bundle").read_bytes()
    (place / "cut.bundle").write_bytes(whole[:-60])
    done = b.here("fetch", str(place / "cut.bundle"))
    assert done.code == 1 and "the bundle '" in done.err and "is not whole" in done.err
    done = b.here("fetch", str(place / "none.bundle"))
    assert done.code == 129 and done.err.startswith("fatal: there is no bundle '")
    done = b.here("fetch", str(place / "part.bundle"))
    assert done.code == 1 and "stands on a commit that is not here: " in lines_of(done)[0]
    assert ok(b, "fetch", str(place / "main.bundle")).out == f"'{place}/main.bundle' has no tracks\n"


def test_what_is_missing_here_is_no_matter_of_the_remote(far: Far) -> None:
    a = far.first
    snap(a, "one")
    snap(a, "two")
    lost = a.git("rev-parse", CHAINS + "t~1")
    path = a.loose(lost)
    path.unlink()
    shutil.rmtree(a.path / ".git/refs/checkpoints", ignore_errors=True)
    done = a.here("push", "--yes")
    assert done.code == 1 and "git baton doctor --mend" in done.err and "git baton sync" not in done.err


@pytest.mark.deep
def test_each_refusal_has_its_hint_and_is_said_once(far: Far) -> None:
    a, b = far.first, far.clone()
    snap(a, "one", "Track")
    snap(b, "one", "track")
    ok(a, "push", "--yes")
    done = b.here("push", "--yes")
    assert done.code == 1 and "hint: go on under another name: git baton snapshot --track NAME STEP" in lines_of(done)
    a.git("config", "baton.push", "false")
    done = a.here("sync")
    assert done.code == 1 and "error: not pushed: baton.push is false" in lines_of(done)


def test_what_is_gone_at_the_remote_stays_here_until_it_is_asked_to_go(tmp_path: Path) -> None:
    far = Far(tmp_path)
    for track in ("kept", "gone"):
        snap(far.first, "one", track)
    ok(far.first, "push", "--yes")
    b = far.clone()
    ok(b, "fetch")
    far.remote.git("update-ref", "-d", f"{CHAINS}gone")
    ok(b, "fetch")
    fetched = "refs/baton/remotes/origin/tracks/"
    assert b.git("for-each-ref", "--format=%(refname)", fetched).split() == [f"{fetched}gone", f"{fetched}kept"]
    ok(b, "fetch", "--prune")
    assert b.git("for-each-ref", "--format=%(refname)", fetched).split() == [f"{fetched}kept"]
