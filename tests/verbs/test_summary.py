"""``git baton summary``: a track as Markdown for a pull request."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitbaton.care.tools.summarizing import markdown, unlocated
from gitbaton.checkpoints.baton import Request
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


@pytest.mark.deep
def test_a_summary_holds_no_secret(repo: Sandbox) -> None:
    repo.git("config", "baton.redact", "off")
    repo.ok("snapshot", f"key works: {KEY}")
    repo.git("config", "baton.redact", "on")
    assert KEY not in repo.ok("summary").out


@pytest.mark.deep
def test_a_summary_names_no_folder_of_this_machine(repo: Sandbox, tmp_path: Path) -> None:
    home, here, docs = os.environ["HOME"], str(repo.path), tmp_path / "my docs"
    repo.git("worktree", "add", "-q", "--detach", str(docs))
    scratch, fetched = "/opt/scratch of me", "/Users/ann/w/proj"
    windows = here.replace("/", "\\")
    told = {
        f"in {here} alone": "in . alone",
        f"in '{here}', {here}: {here}/.": "in '.', .: .",
        f"cd {here}/ && ls {here}/src/*": "cd ./ && ls src/*",
        f"file://{here}/a.txt and vscode://file{here}/a.txt:3": "a.txt and a.txt:3",
        f"vscode-remote://wsl+Ubuntu{here}/a.txt": "a.txt",
        f"\\\\wsl$\\Ubuntu{windows}\\src\\a.txt": "src\\a.txt",
        f"{home} {home}. ({home}/x) -I{home}/inc --x={home}": "~ ~. (~/x) -I~/inc --x=~",
        f"{docs}/a.txt, file://{str(docs).replace(' ', '%20')}": "../my docs/a.txt, ../my docs",
        f"{docs}".replace(" ", "\\ ") + "/b.txt": "../my docs/b.txt",
        f"{scratch}/x": "$TMPDIR/x",
        # names that only begin or end like them, and other machines'
        f"{here}-2 {here}2/x {home}.old": f"{here}-2 {here}2/x {home}.old",
        f"https://example.com{home}/x": f"https://example.com{home}/x",
        f"/mnt{home}/x {home[1:]}": f"/mnt{home}/x {home[1:]}",
    }
    repo.ok("snapshot", "--track", "t", "s", *(word for said in told for word in ("--decision", said)))
    rows = repo.ok("summary", "t", env={"TMPDIR": scratch}).out.split("## Decisions\n\n")[1].splitlines()
    assert [row.removeprefix("- ") for row in rows] == [markdown(said) for said in told.values()]
    known = unlocated({fetched: ".", "/Users/ann": "~", "/mnt/c/Users/bo": "~"})
    assert known(f"{fetched}/a $HOME/w/proj/b ~/w/proj /Users/ann/x") == "a b . ~/x"
    assert known("C:\\Users\\bo\\x /mnt/c/Users/bo c:/Users/bob") == "~\\x ~ c:/Users/bob"


@pytest.mark.deep
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
        "- closes https:<!-- -->//github.com/o/r/issues/<!-- -->7",
    ]


@pytest.mark.deep
def test_what_names_nothing_is_refused(repo: Sandbox) -> None:
    repo.ok("snapshot", "one")
    assert (repo.baton("summary", "main..main").code, repo.baton("summary", "main..main").out) == (2, "")
    assert "there is no checkpoint 'x'" in repo.baton("summary", "x..main").err


@pytest.mark.full
def test_what_was_restored_away_is_not_done(repo: Sandbox) -> None:
    def done(*words: str) -> list[str]:
        rows = repo.ok("summary", "t", *words).out.splitlines()
        return [row.removeprefix("- ") for row in rows if row.startswith("- **")] + [row for row in rows if "a.txt" in row]

    for n in ("1", "2", "3"):
        repo.write("a.txt", f"{n}\n" * int(n))
        repo.ok("snapshot", "--track", "t", f"step {n}")
    repo.ok("restore", "t~2")
    assert done() == ["**step 1**", "- a.txt (+1 -1)"]
    repo.write("b.txt", "b\n")
    repo.ok("snapshot", "step 4")
    assert done() == ["**step 1**", "**step 4**", "- a.txt (+1 -1)"] and done("--since", "1 hour ago") == done()
    repo.ok("restore", "t~1")  # which brings back what was restored away
    repo.ok("snapshot", "step 5")
    assert done()[:-1] == ["**step 1**", "**step 2**", "**step 3**", "**step 4**", "**step 5**"]
    repo.ok("undo")
    assert done()[:2] == ["**step 1**", "**step 4**"]
    repo.ok("redo")
    assert "**step 3**" in done()


@pytest.mark.deep
def test_commits_are_named_and_since_says_from_when(repo: Sandbox) -> None:
    with repo.open(clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as baton:
        baton.apply(baton.plan(Request(track="t", step="long ago")))
    repo.commit("half() rounds, as @ada wrote", half_py="two\n")
    first = repo.head()[:7]
    repo.ok("snapshot", "half() rounds")
    repo.commit("changelog", changes_md="x\n")
    rows = repo.ok("summary", "t").out.splitlines()
    at = rows.index("## Commits")
    assert rows[at + 2 : at + 4] == [f"- {first} half() rounds, as @<!-- -->ada wrote", f"- {repo.head()[:7]} changelog"]
    assert "- **long ago**" in rows
    later = repo.ok("summary", "t", "--since", "2026-01-02").out.splitlines()
    assert "- **long ago**" not in later and "- **half() rounds**" in later and later[at - 1 : at + 4] == rows[at : at + 5]
    done = repo.baton("summary", "t", "--since", "2099-01-01")
    assert done.code == 2 and done.err == "fatal: track 't' has no checkpoint since then\n"
    repo.git("switch", "-q", "-c", "else")
    repo.commit("not of it", else_txt="x\n")
    assert "not of it" not in repo.ok("summary", "t").out


@pytest.mark.deep
def test_a_turn_that_was_taken_back_again_is_not_told(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "begin")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    for name in ("one", "two"):
        talk.ask(f"make {name}")
        talk.edit(f"{name}.py", f"{name}\n")
        talk.stop()
    told = []
    for verb in ("revert", "undo", "redo"):
        repo.ok(verb)
        told.append("make two" in repo.ok("summary", "t").out)
        assert "make one" in repo.ok("summary", "t").out
    assert told == [False, True, False]


def test_a_first_turn_that_commits_is_told_with_its_commit(repo: Sandbox, tmp_path: Path) -> None:
    """It is counted against HEAD when it began: in log, show, page and summary, after a snapshot in its midst, too."""
    (repo.path / ".git" / "baton").mkdir()
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("make m")
    talk.fire("prompt", prompt="make m")
    talk.edit("m.py", "m\n")
    made = repo.commit("m is made")
    talk.stop()
    (row,) = repo.ok("log", "--json").json["checkpoints"]
    assert row["files"]["changed"] == 1
    assert "1 file " in repo.ok("log").out
    assert "m.py" in repo.ok("show").out.partition("files")[2] and "+m\n" in repo.ok("show", "-p").out
    assert "make m" in repo.ok("log", "--", "m.py").out and "make m" in repo.ok("log", "-S", "m").out
    assert "make m" not in repo.ok("log", "--", "a.txt").out
    page = tmp_path / "page.html"
    repo.ok("page", "-o", str(page))
    assert "<li>m.py" in page.read_text()
    told = repo.ok("summary").out
    assert "- make m (1 file)\n" in told and f"- {made[:7]} m is made\n" in told and "- m.py (+1 -0)\n" in told


def test_a_first_turn_that_commits_before_a_snapshot_is_told(tmp_path: Path) -> None:
    """On an unborn branch: all that is there is the turn's, and its commits are the summary's."""
    repo = Sandbox.init(tmp_path / "new")
    (repo.path / ".git" / "baton").mkdir()
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("make m")
    talk.fire("prompt", prompt="make m")
    talk.edit("m.py", "m\n")
    repo.commit("m is made")
    repo.ok("snapshot", "m done")
    talk.stop()
    told = repo.ok("summary").out
    assert "- **m done**\n- make m (1 file)\n" in told and " m is made\n" in told and "- m.py (+1 -0)\n" in told
