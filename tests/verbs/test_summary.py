"""``git baton summary``: a track as Markdown for a pull request."""

from __future__ import annotations

import os
from pathlib import Path

from tests.kit import Sandbox
from tests.kit.talks import Talk
from tests.promises.test_secrets_stored import KEY


def test_a_track_as_markdown(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", **{"half.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "begin")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("make half() round to even, as @ada wrote in #12")
    talk.plan(**{"round": "completed", "write the changelog": "pending"})
    talk.edit("half.py", "two\nthree\n")
    talk.run("pytest -q", "12 passed in 0.10s\n")
    talk.stop()
    talk.ask("and what do you think of it?")
    talk.stop()
    words = ("--note", f"see {repo.path}/half.py", "--decision", "banker's <rounding>", "--validation", "green")
    repo.ok("snapshot", "half() rounds", *words, "--next-cmd", f"cat {os.environ['HOME']}/x_y")
    rows = repo.ok("summary", "t").out.splitlines()
    assert rows == [
        "## What was done",
        "",
        "- **begin**",
        "- make half() round to even, as @<!-- -->ada wrote in #<!-- -->12 (1 file)",
        "- **half() rounds**: see half.py (green)",
        "",
        "## Decisions",
        "",
        "- banker's \\<rounding\\>",
        "",
        "## Tests",
        "",
        "- pytest -q: passed (12 passed)",
        "",
        "## Files",
        "",
        "- half.py (+2 -1)",
        "",
        "## Open",
        "",
        "- [ ] write the changelog",
        "- next: cat \\~/x\\_y",
    ]
    assert repo.ok("summary", "t~2..t").out.splitlines()[2:3] == ["- **half() rounds**: see half.py (green)"]


def test_files_of_an_unborn_branch_were_not_there_before(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "unborn")
    box.write("a.py", "one\ntwo\n")
    box.ok("snapshot", "--track", "t", "begin")
    assert "- a.py (+2 -0)" in box.ok("summary", "t").out.splitlines()


def test_a_summary_holds_no_secret(repo: Sandbox) -> None:
    repo.git("config", "baton.redact", "off")
    repo.ok("snapshot", f"key works: {KEY}")
    repo.git("config", "baton.redact", "on")
    assert KEY not in repo.ok("summary").out


def test_stored_text_is_no_markup(repo: Sandbox) -> None:
    said = ("# big", "1. one", "- two", "&lt;b&gt;", "fixes GH-12", "closes https://github.com/o/r/issues/7")
    repo.ok("snapshot", "s", *(word for text in said for word in ("--decision", text)))
    rows = [row for row in repo.ok("summary").out.splitlines() if row.startswith("- ")]
    assert rows[1:] == [
        "- \\# big",
        "- 1\\. one",
        "- \\- two",
        "- \\&lt;b\\&gt;",
        "- fixes GH-<!-- -->12",
        "- closes https://github.com/o/r/issues/<!-- -->7",
    ]


def test_what_names_nothing_is_refused(repo: Sandbox) -> None:
    repo.ok("snapshot", "one")
    assert (repo.baton("summary", "main..main").code, repo.baton("summary", "main..main").out) == (2, "")
    assert "there is no checkpoint 'x'" in repo.baton("summary", "x..main").err
