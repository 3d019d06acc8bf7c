"""What everything costs: git's own figures are the judge."""

from __future__ import annotations

import random

import pytest

from gitbaton.cli.common import amount
from tests.kit import Sandbox


def blob(repo: Sandbox, name: str, size: int, seed: int) -> None:
    repo.write(name, random.Random(seed).randbytes(size))


def disk_usage(repo: Sandbox, *revisions: str) -> int:
    return int(repo.git("rev-list", "--objects", "--disk-usage", *revisions))


def parts(repo: Sandbox) -> dict[str, tuple[int, int]]:
    rows = repo.ok("du", "--json").json["parts"]
    return {row["name"] or row["kind"]: (row["own"], row["shared"]) for row in rows}


@pytest.mark.deep
def test_own_bytes_are_those_that_nothing_else_reaches(repo: Sandbox) -> None:
    blob(repo, "mine.bin", 30_000, 1)
    repo.ok("snapshot", "--track", "a track", "--step", "one")
    tracks, user = "refs/baton/tracks/a%20track", ("--not", "--branches")
    repo.git("gc", "-q", "--prune=now")
    found = parts(repo)
    assert list(found) == ["a track", "notes"]
    assert found["a track"] == (disk_usage(repo, tracks, "refs/checkpoints/a%20track", *user), 0)
    assert found["notes"] == (disk_usage(repo, "refs/notes/checkpoints", *user), 0)
    blob(repo, "more.bin", 20_000, 2)
    repo.ok("snapshot", "--track", "b", "--step", "two")
    found = parts(repo)
    assert found["a track"][1] == found["b"][1] > 30_000  # they share the first file, and the root
    assert found["a track"][0] < 5_000 and 20_000 < found["b"][0] < 25_000
    repo.git("add", "mine.bin")
    repo.git("commit", "-q", "-m", "public")
    found = parts(repo)
    assert found["a track"][1] < 1_000 and found["b"][0] < 25_000  # what the user's branch holds costs nothing


@pytest.mark.deep
def test_every_kind_has_its_row_and_a_track_that_was_fetched_shares_its_own(repo: Sandbox) -> None:
    blob(repo, "mine.bin", 10_000, 1)
    repo.ok("snapshot", "--track", "t", "--step", "one")
    repo.write("mine.bin", "small\n")
    repo.ok("snapshot", "--track", "t", "--step", "two")
    repo.ok("restore", "t~1")
    head = repo.git("rev-parse", "refs/baton/tracks/t")
    repo.git("update-ref", "refs/baton/remotes/origin/tracks/t", head)
    record = repo.git("commit-tree", "-p", head, "-m", "record", repo.git("mktree", stdin=b""))
    for ref in ("runs/r-1", "threads/=x/_", "transcripts/claude/s"):
        repo.git("update-ref", f"refs/baton/{ref}", record)
    rows = repo.ok("du", "--json").json
    kinds = ["track", "safety", "transcripts", "runs", "threads", "notes", "fetched"]
    assert [row["kind"] for row in rows["parts"]] == kinds and rows["parts"][-1]["name"] == "origin"
    costs = {row["kind"]: row for row in rows["parts"]}
    assert costs["track"]["shared"] == costs["fetched"]["shared"] + 0 and costs["fetched"]["own"] == 0
    assert costs["safety"]["own"] > 0 and rows["own"] == sum(row["own"] for row in rows["parts"])


@pytest.mark.deep
def test_the_table_is_aligned_and_of_nothing_is_nothing(repo: Sandbox) -> None:
    assert repo.ok("du").out.splitlines()[1:] == ["0 bytes  in all, without what is shared"]
    blob(repo, "mine.bin", 300_000, 1)
    repo.ok("snapshot", "--track", "wide \u30c8\u30e9\u30c3\u30af", "--step", "one")
    repo.ok("snapshot", "--track", "t", "--step", "one")
    rows = repo.ok("du").out.splitlines()
    assert rows[0].split() == ["OWN", "SHARED"] and "track wide \u30c8\u30e9\u30c3\u30af" in "\n".join(rows)
    assert len({row.index("  track") for row in rows if "  track" in row}) == 1
    repo.git("update-ref", "refs/baton/tracks/broken", repo.head())
    assert repo.baton("du").code == 0


def test_amounts() -> None:
    given = {0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KiB", 10_100_000: "9.6 MiB", 1 << 40: "1.0 TiB"}
    assert {count: amount(count) for count in given} == given and amount(1 << 60) == "1048576.0 TiB"
