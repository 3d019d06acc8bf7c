"""What everything costs: git's own figures are the judge."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gitbaton.care.retention.inventory import costs
from gitbaton.cli.common import amount
from tests.kit import Sandbox
from tests.kit.moments import Args, at
from tests.kit.threads import git_called


def blob(repo: Sandbox, name: str, size: int, seed: int) -> None:
    repo.write(name, random.Random(seed).randbytes(size))


def listed(repo: Sandbox, *revisions: str) -> set[str]:
    return set(repo.git("rev-list", "--objects", "--no-object-names", *revisions).split())


def on_disk(repo: Sandbox, oids: set[str]) -> int:
    return sum(map(int, repo.git("cat-file", "--batch-check=%(objectsize:disk)", stdin="\n".join(oids).encode()).split()))


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


@pytest.mark.deep
@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_what_several_reach_is_shared_whatever_their_refs_lead_to(tmp_path: Path, form: str) -> None:
    repo = Sandbox.init(tmp_path / "repo", f"--object-format={form}")
    old = repo.commit("first", a_txt="one\n")
    repo.commit("second", a_txt="two\n")
    for place, name in enumerate(("one", "two", "three")):
        repo.write(f"deep/below/{name}.txt", f"{name}\n" * 400)
        repo.write(f"deep/{place % 2}.txt", "the same\n" * 50)
        repo.ok("snapshot", "--track", name, "--step", name)
    tree = repo.git("rev-parse", "refs/baton/tracks/two^{tree}")
    repo.git("tag", "-a", "-m", "a tag", "tagged", "refs/baton/tracks/two")
    repo.git("tag", "-a", "-m", "a tag of a tag", "again", "tagged")
    own = repo.git("commit-tree", "-m", "of nobody else", tree)
    repo.git("tag", "-a", "-m", "another", "alone", own)
    fetched = {"a": repo.git("rev-parse", "again"), "b": repo.git("rev-parse", "alone"), "c": tree}
    fetched["d"] = repo.git("rev-parse", "refs/baton/tracks/one:deep/below/one.txt")
    fetched["e"] = old
    repo.git("tag", "-d", "tagged", "again", "alone")
    for remote, oid in fetched.items():
        repo.git("update-ref", f"refs/baton/remotes/{remote}/something", oid)
    refs = {name: [f"refs/baton/tracks/{name}", f"refs/checkpoints/{name}"] for name in ("one", "two", "three")}
    refs |= {"notes": ["refs/notes/checkpoints"]} | {name: [f"refs/baton/remotes/{name}/something"] for name in fetched}
    theirs = listed(repo, "--branches")
    reached = {name: listed(repo, *names) - theirs for name, names in refs.items()}
    others = {name: set[str]().union(*(oids for other, oids in reached.items() if other != name)) for name in reached}
    assert parts(repo) == {
        name: (on_disk(repo, oids - others[name]), on_disk(repo, oids & others[name])) for name, oids in reached.items()
    }


@pytest.mark.deep
def test_what_was_committed_before_another_track_began_costs_nothing(repo: Sandbox) -> None:
    blob(repo, "mine.bin", 30_000, 1)
    repo.ok("snapshot", "--track", "earlier", "--step", "one")
    repo.git("add", "mine.bin")
    repo.git("commit", "-q", "-m", "public")
    repo.write("other.txt", "other\n")
    repo.ok("snapshot", "--track", "later", "--step", "two")
    assert sum(parts(repo)["earlier"]) < 1_500


@pytest.mark.deep
def test_many_tracks_are_weighed_by_as_many_processes_as_two(repo: Sandbox) -> None:
    counts = list[int]()
    for names in ("ab", "cdefg"):
        for name in names:
            blob(repo, f"{name}.bin", 100, 1)
            repo.ok("snapshot", "--track", name, "--step", name)
        began = list[Args]()
        with repo.open(door="binary") as opened, at("os.posix_spawn", git_called("rev-list"), began.append):
            assert {"a", "b", *names} <= {cost.name for cost in costs(opened)}
        counts.append(len(began))
    assert counts[0] == counts[1] > 0


def test_amounts() -> None:
    given = {0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KiB", 10_100_000: "9.6 MiB", 1 << 40: "1.0 TiB"}
    assert {count: amount(count) for count in given} == given and amount(1 << 60) == "1048576.0 TiB"
