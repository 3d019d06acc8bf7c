"""More than 50 lines are summed up; -v lists them, conflicts are always listed, and what is for programs stays whole."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gitbaton.cli.common import MOST, summed
from tests.kit import Sandbox
from tests.kit.tables import each

WORDS = {"write": ("wrote {}", "file"), "remove": ("removed {}", "file"), "conflict": ("left {}", "conflict")}


@pytest.fixture
def many(repo: Sandbox) -> Sandbox:
    """Sixty files at a checkpoint of the track t, of which since one is gone and the others are edited."""
    for number in range(60):
        repo.write(f"f{number:02}", "one\n")
    repo.ok("snapshot", "--track", "t", "first")
    for number in range(1, 60):
        repo.write(f"f{number:02}", "two\n")
    (repo.path / "f00").unlink()
    repo.write("own", "mine\n")
    return repo


@pytest.mark.deep
def test_a_restore_of_many_files_says_how_many(many: Sandbox) -> None:
    plan = many.ok("restore", "-n").out.splitlines()
    listed = re.fullmatch(r"would write 59 files, create 1 file, keep 1 other file \('(git baton .*)' lists them\)", plan[-1])
    assert listed and plan[:-1] == ["would create f00", "would keep own (not in that checkpoint)"]
    whole = many.ok(*listed.group(1).split()[2:]).out.splitlines()
    assert len(whole) == 61 and "would write f59" in whole
    done = many.ok("restore").out.splitlines()
    assert done[:2] == ["create f00", "keep own (not in that checkpoint)"] and done[3].startswith("done: ")
    assert done[2] == "wrote 59 files, created 1 file, kept 1 other file ('git baton undo -n -v' lists them)"
    assert len(many.ok("undo", "-n", "-v").out.splitlines()) == 60
    assert "wrote 59 files, removed 1 file ('git baton redo -n -v' lists them)" in many.ok("undo").out
    assert len(many.ok("redo", "-v").out.splitlines()) == 61


@pytest.mark.deep
def test_json_lists_every_path(many: Sandbox) -> None:
    assert len(json.loads(many.ok("restore", "-n", "--json").out)["paths"]) == 61
    assert len(json.loads(many.ok("restore", "--json").out)["paths"]) == 61


@pytest.mark.deep
def test_conflicts_are_listed_beside_many_files(many: Sandbox) -> None:
    many.ok("restore", "--exact")
    many.write("f01", "theirs\n")
    many.ok("snapshot", "--track", "other", "theirs", "--no-set-current")
    for number in range(2, 60):
        many.write(f"f{number:02}", "three\n")
    done = many.baton("restore", "t")
    assert done.code == 1
    assert [row.split()[1] for row in done.out.splitlines() if row.startswith("conflict ")] == ["f01"]
    assert "wrote 58 files, left 1 conflict (" in done.out


@pytest.mark.deep
def test_of_many_conflicts_fifty_are_listed_and_a_command_for_the_rest(many: Sandbox) -> None:
    many.ok("snapshot", "--track", "other", "theirs", "--no-set-current")
    rows = many.baton("restore", "t").out.splitlines()
    assert len([row for row in rows if row.startswith("conflict ")]) == MOST
    more = re.fullmatch(r"and (\d+) more \('(git baton restore .*)' lists them\)", rows[MOST])
    assert more and re.match(r"kept 1 other file, left \d+ conflicts \(", rows[MOST + 1])
    listed = many.baton(*more.group(2).split()[2:]).out.splitlines()
    assert len([row for row in listed if row.startswith("would ")]) == MOST + int(more.group(1))


@pytest.mark.deep
def test_sixty_tracks_are_fetched_and_pushed_in_brief(repo: Sandbox, tmp_path: Path) -> None:
    there = str(tmp_path / "there")
    repo.git("init", "-q", "--bare", there)
    repo.ok("snapshot", "--track", "t00", "step")
    tip = {ref: repo.git("rev-parse", ref) for ref in ("refs/baton/tracks/t00",)}
    commit = tip["refs/baton/tracks/t00"]
    for number in range(1, 60):
        name = f"t{number:02}"
        text = repo.git("cat-file", "commit", commit).replace('"track": "t00"', f'"track": "{name}"')
        made = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=(text + "\n").encode())
        repo.git("update-ref", f"refs/baton/tracks/{name}", made)
    first = repo.ok("push", there, "--yes", "--no-scan").out
    assert "push 60 tracks, " in first and "(--verbose lists them)" in first
    assert len(repo.ok("fetch", there, "-v").out.splitlines()) == 60
    assert repo.ok("fetch", there).out == "60 same (--verbose lists them)\n"


@pytest.mark.full
def test_a_long_plan_of_a_prune_is_summed_up(repo: Sandbox) -> None:
    for _ in range(MOST + 3):
        repo.ok("snapshot", "--track", "t", "--no-files", "step")
    brief = repo.ok("prune", "-n", "--keep-last", "1").out.splitlines()
    assert brief[0] == f"track 't': {MOST + 2} checkpoints to remove, 1 to keep"
    assert brief[1].startswith("keep ") and brief[2].startswith(f"keep 1 checkpoint, remove {MOST + 2} checkpoints (")
    assert len(repo.ok("prune", "-n", "--keep-last", "1", "-v").out.splitlines()) == MOST + 5


@pytest.mark.deep
def test_what_a_snapshot_left_out_is_listed_on_demand(repo: Sandbox) -> None:
    repo.git("config", "baton.exclude", "*.tmp")
    for number in range(12):
        repo.write(f"{number:02}.tmp", "x\n")
    assert len(repo.ok("snapshot", "--track", "t", "step").err.splitlines()) == 11
    assert len(repo.ok("snapshot", "--track", "t", "step", "-v").err.splitlines()) == 12


@each(
    "counts, verbose, lines, last",
    [
        ({"write": 50}, False, 50, "write 49"),
        ({"write": 51}, False, 1, "wrote 51 files (cmd lists them)"),
        ({"write": 51}, True, 51, "write 50"),
        ({"write": 3000, "remove": 3}, False, 4, "wrote 3,000 files, removed 3 files (cmd lists them)"),
        ({"conflict": 60, "write": 4}, False, 52, "wrote 4 files, left 60 conflicts (cmd lists them)"),
        ({"odd": 60}, False, 51, "and 10 more (names lists them)"),
        ({}, False, 0, ""),
    ],
)
def test_what_is_summed(counts: dict[str, int], verbose: bool, lines: int, last: str) -> None:
    rows = [(kind, f"{kind} {number}") for kind, count in counts.items() for number in range(count)]
    found = list(summed(rows, WORDS, verbose=verbose, lists="cmd", named=("conflict",), names="names"))
    assert (len(found), found[-1] if found else "") == (lines, last)
