"""Pairs of changes, git's own merge the judge: ``git baton merge`` of work that nobody has committed gives the files that
``git merge`` gives of commits of it; what git stops at is named and stays, or has git's very markers; undo brings all back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.pairs import PAIRS, SUB, Sides
from tests.kit.state import Entry, assert_same, differences, files_of, state_of
from tests.kit.tiers import sized

Files = Mapping[str, Entry]


def plain(files: Files) -> dict[str, Entry]:
    """Files without what is inside the nested repositories, and under the names that git gives neither side."""
    return {path: entry for path, entry in files.items() if not path.startswith((f"{SUB}/", "vendor/new/")) and "~" not in path}


def as_git(entry: Entry | None) -> Entry | None:
    """A file with the labels of its markers taken off."""
    if entry is None or entry[0] != "file":
        return entry
    return entry[0], entry[1], re.sub(rb"(?m)^(<{7}|>{7}) .*$", rb"\1", entry[2])


@sized(0, 40, len(PAIRS))
def test_files_are_what_git_makes_of_commits(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.kit.state.SHORT", 1 << 20)  # whole bytes
    sides = Sides(tmp_path)
    ours, theirs = Sandbox(tmp_path / "ours"), Sandbox(tmp_path / "theirs")
    for box in (ours, theirs):
        sides.box.git("worktree", "add", "-q", "--detach", str(box.path))
    stopped = 0
    for pair in PAIRS[:: max(1, len(PAIRS) // count)]:
        commits = sides.commit(pair.ours), sides.commit(pair.theirs)
        conflicts = sides.judged(*commits)
        sides.box.try_git("merge", "-q", "--no-edit", "--no-commit", commits[1])
        wanted = plain(files_of(sides.box.path))
        sides.box.git("reset", "-q", "--hard")
        pair.theirs(sides.back(theirs))
        theirs.ok("snapshot", "work", "--track", "api")
        pair.ours(sides.back(ours))
        before = state_of(ours)
        here = plain(before.files)
        for words in ((), ("--merge",)):
            done = ours.baton("merge", "api", "--json", *words)
            what = f"{pair.name} {words}: {done.out}{done.err}"
            assert done.code == int(conflicts is not None), what
            told = {one["path"]: one["action"] for one in done.json["paths"] if one["action"] in ("conflict", "refuse", "keep")}
            told.pop("lib", None)  # of a folder that splits git says so, and does the rest
            marked = {one["path"] for one in done.json["paths"] if one["reason"] == "with conflict markers"}
            after, names = plain(files_of(ours.path)), {re.sub(r"~.*", "", path) for path in conflicts or ()} - marked
            assert pair.name == "a folder splits" or bool(told or marked) == (conflicts is not None), what
            for path in {*wanted, *after}:
                left = path in names or path in told or any(path.startswith(f"{name}/") for name in (*names, *told))
                end = here.get(path) if left else as_git(wanted.get(path))
                assert as_git(after.get(path)) == end, f"{what}\n{path}\n" + differences({path: end}, {path: after.get(path)})
            now = state_of(ours)
            assert (now.index, now.refs) == (before.index, before.refs), what
            if done.json["safety"]:
                assert ours.baton("undo").code == 0, what
            assert_same(before, state_of(ours), f"undo of {what}")
        stopped += conflicts is not None
    assert 0 < stopped < count
