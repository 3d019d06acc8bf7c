"""A step of any length and of any characters is one line in every list, for a terminal or not, and whole for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.cli.columns import LONGEST, width
from tests.kit import Sandbox

HOSTILE = {
    "words": "step " + "word " * 998 + "END",
    "wide": "\u8a9e" * 5000,
    "combining": "e\u0301" * 2500,
    "control": "tab\there\x07 bell \x1b[31mred\x1b[0m \u202e" + "x" * 5000,
    "lines": "first line\r\nsecond line\n" + "y" * 5000,
}
BESIDE = 60  # columns of ids, times, tracks and of a sentence around the step
VERBS = (
    "",
    "log",
    "log --all",
    "log --graph",
    "log --kind safety",
    "status",
    "tracks",
    "blame a.txt",
    "restore -n t~2",
    "restore --force t~3",
    "undo -n",
    "undo",
    "redo -n",
    "redo",
    "bisect --good t~4 --bad t -- grep -q nothing a.txt",
    "bisect --good t~4 --bad t -- true",
    "prune -n --keep-last 1",
    "forget t~1 -n",
    "tracks delete u -n",
    "pin t~2",
    "unpin t~2",
    "worktree ../there t~1",
    "branch topic t~1",
    "push ../far -n",
    "push ../far --yes",
    "fetch ../far",
    "du",
    "doctor",
    "agent list",
    "rewind",
)


@pytest.mark.full
def test_every_list_cuts_a_step(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.chdir(repo.path)
    Sandbox.init(tmp_path / "far")
    for number, step in enumerate(HOSTILE.values()):
        repo.write("a.txt", "".join(f"line {n}\n" for n in range(number + 1)))
        repo.ok("snapshot", "--track", "t", step, "--next-cmd", "true")
    repo.ok("snapshot", "--track", "u", HOSTILE["words"], "--label", "first light")
    for verb in VERBS:
        done = repo.here(*verb.split())
        for row in (*done.out.splitlines(), *done.err.splitlines()):
            assert width(row) <= LONGEST + BESIDE and row.isprintable(), f"git baton {verb}: {row[:400]!r}"
    for words in (("snapshot", "--track", "v"), ("snapshot", "-n", "--track", "v")):
        assert max(map(width, repo.ok(*words, HOSTILE["wide"]).out.splitlines())) <= LONGEST + BESIDE
    assert HOSTILE["words"] in repo.ok("log", "u", "--json").out and HOSTILE["words"] in repo.ok("log", "u", "--porcelain").out
    assert max(map(len, repo.ok("summary", "u").out.splitlines())) < 600


@pytest.mark.full
@pytest.mark.parametrize("columns", [60, 120])
def test_no_list_wraps_on_a_terminal(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for step in HOSTILE.values():
        repo.ok("snapshot", "--track", "t", step)
    for verb in (
        "",
        "log",
        "log --graph",
        "status",
        "tracks",
        "pin t~1",
        "branch topic t~4",
        "bisect --good t~4 --bad t -- true",
    ):
        done = repo.here(*verb.split())
        assert all(width(row) <= columns for row in done.out.splitlines()), (verb, done.out)
    assert repo.ok("pin", "t").out
