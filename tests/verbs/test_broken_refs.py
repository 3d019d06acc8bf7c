"""One broken ref of ours stops nothing but itself; the whole table is in the deep tier."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.kit import Sandbox

TRACK, RUN = "refs/baton/tracks/t", "refs/baton/runs/job"
MENDS = "hint: git baton doctor --mend"


@pytest.fixture
def two(repo: Sandbox) -> Sandbox:
    """Two tracks of two checkpoints each."""
    for track in ("t", "u"):
        for number in range(2):
            repo.ok("snapshot", "--track", track, "--step", f"{track} {number}")
    return repo


def length(box: Sandbox, track: str) -> int:
    return int(box.git("rev-list", "--count", "--first-parent", f"refs/baton/tracks/{track}")) - 1


def test_a_fetched_track_that_cannot_be_read_was_not_removed_here(two: Sandbox) -> None:
    blob = two.git("hash-object", "-w", "a.txt")
    two.git("update-ref", "refs/baton/remotes/o/tracks/far", blob)
    for words in ("merge o/far -n", "show o/far", "restore o/far -n", "log o/far"):
        done = two.baton(*words.split())
        told = "fatal: 'o/far' cannot be read: 'refs/baton/remotes/o/tracks/far' is a blob and not a chain of commits"
        assert done.code == 128 and done.err.startswith(told) and done.err.endswith(f"\n{MENDS}\n"), (words, done.err)


@pytest.mark.deep
def test_prune_goes_on_beside_an_empty_ref(two: Sandbox) -> None:
    (two.path / ".git" / TRACK).write_bytes(b"")
    done = two.baton("prune", "--keep-last", "1", "--json")
    assert done.code == 1 and length(two, "u") == 1
    assert done.json["broken"] == [{"ref": TRACK, "reason": "it holds no id"}]
    assert done.err == f"error: '{TRACK}' is left alone: it holds no id\n{MENDS}\n"
    assert two.baton("prune", "--keep-last", "1", "t").code == 1  # it is there, and not absent
    assert two.baton("tracks", "delete", "t", "--yes").err.startswith(f"fatal: nothing is removed: '{TRACK}' cannot be read")


@pytest.mark.deep
def test_nothing_goes_while_nobody_knows_what_a_run_stands_on(two: Sandbox) -> None:
    path = two.path / ".git" / RUN
    path.parent.mkdir()
    path.write_bytes(b"")
    done = two.baton("prune", "--keep-last", "1")
    assert done.code == 1 and (length(two, "t"), length(two, "u")) == (2, 2)
    assert "no checkpoint is removed while nobody knows which ones it needs" in done.err
    refused = two.baton("tracks", "delete", "u", "--yes")
    assert refused.code == 1 and "run 'job' cannot be read" in refused.err and MENDS in refused.err


@pytest.mark.full
def test_a_sync_goes_on_beside_a_torn_track(two: Sandbox, tmp_path: Path) -> None:
    far = tmp_path / "far.git"
    subprocess.run(["git", "init", "-q", "--bare", far], check=True)
    two.git("remote", "add", "far", str(far))
    two.loose(two.git("rev-parse", TRACK)).write_bytes(b"")  # git itself fetches nothing beside it
    done = two.baton("sync", "far", "--yes")
    assert done.code == 1 and f"error: '{TRACK}' is left alone: it points at " in done.err and MENDS in done.err
    assert two.git("--git-dir", str(far), "rev-parse", "refs/baton/tracks/u") == two.git("rev-parse", "refs/baton/tracks/u")


@pytest.mark.full
def test_forget_everywhere_claims_no_proof_beside_what_it_cannot_read(two: Sandbox) -> None:
    two.loose(two.git("rev-parse", f"{TRACK}~1")).unlink()
    done = two.baton("forget", "--everywhere", "u~1", "--yes")
    assert done.code == 1 and length(two, "u") == 1 and f"not looked at: '{TRACK}' cannot be read: " in done.out
    assert "error: nothing is proven" in done.err and "reaches their record" not in done.out


@pytest.mark.full
def test_a_note_that_somebody_wrote_large_stops_nothing(repo: Sandbox) -> None:
    for number in range(3):
        repo.write("a.txt", f"{number}\n")
        repo.ok("snapshot", "--track", "t", "--step", f"step {number}")
    text = "theirs " * 2_000_000
    repo.git("notes", "--ref=checkpoints", "append", "-F", "-", stdin=text.encode())
    repo.ok("prune", "--keep-last", "1")
    assert next(line for line in repo.ok("log", "t").out.splitlines() if "step" in line).endswith("step 2")
    note = repo.git("notes", "--ref=checkpoints", "show")
    assert text.strip() in note and "step 2" in note and "step 0" not in note


def test_a_branch_that_holds_no_id_stops_no_verb(repo: Sandbox) -> None:
    """Where HEAD is on it: it is no unborn one, and what needs no commit of HEAD goes on."""
    repo.git("init", "-q", "--bare", "../b.git")
    repo.git("remote", "add", "origin", "../b.git")
    repo.ok("snapshot", "--track", "t", "one")
    (repo.path / ".git" / "refs" / "heads" / "main").write_text("nonsense\n")
    for words in (
        ("push", "--yes"),
        ("fetch",),
        ("sync", "--yes"),
        ("branch", "new", "t"),
        ("snapshot", "--track", "t", "two"),
    ):
        done = repo.baton(*words)
        assert done.code == 0, (words, done.err)
    assert "HEAD's commit cannot be read" in done.err
    live = repo.baton("resume", "--porcelain", "--live")
    assert "drift=head-missing" in live.out and "'refs/heads/main', where HEAD is, holds no id" in live.out + live.err
