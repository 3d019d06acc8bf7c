"""``status``: each track is held against the work tree it lives in, and says which one that is."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitbaton.cli.columns import width
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.state import snap


@pytest.fixture
def two(repo: Sandbox) -> tuple[Sandbox, Sandbox]:
    """Two linked work trees beside the main one, an agent at home in each."""
    agents = []
    for name in ("lexer", "parser"):
        repo.git("worktree", "add", "-q", "-b", name, f"../{name}")
        agent = Sandbox(repo.path.parent / name)
        agent.commit(name, **{f"{name}_txt": "x\n"})
        snap(agent, name)
        agents.append(agent)
    return agents[0], agents[1]


def drifts(repo: Sandbox) -> dict[str, tuple[str, str]]:
    """The drift and the place of each track."""
    rows = [row.split("\t") for row in repo.ok("status", "--porcelain").out.splitlines()[2:]]
    assert repo.ok("status").err == ""
    document = repo.ok("status", "--json").json["tracks"]
    assert [t["place"] for t in document] == [row[7] for row in rows]
    assert [",".join(t["live"]["drift"]) or "none" for t in document] == [row[5] for row in rows]
    return {row[1]: (row[5], row[7]) for row in rows}


@pytest.mark.full
def test_each_is_at_home_where_it_lives(repo: Sandbox, two: tuple[Sandbox, Sandbox]) -> None:
    lexer, parser = two
    snap(repo, "main")
    at_home = {name: ("none", str(box.path)) for name, box in (("lexer", lexer), ("parser", parser), ("main", repo))}
    for place in (repo, lexer, parser):
        assert drifts(place) == at_home
    shown = [row.split() for row in repo.ok("status").out.splitlines()]
    places = [row[row[0] == "*" :][:2] for row in shown[1:4]]
    assert places == [["main", "."], ["parser", "../parser"], ["lexer", "../lexer"]]


@pytest.mark.deep
def test_what_moves_there_is_seen_from_here(repo: Sandbox, two: tuple[Sandbox, Sandbox]) -> None:
    lexer, parser = two
    lexer.write("new.txt", "x\n")
    parser.git("checkout", "-q", "--detach")
    found = drifts(repo)
    assert found["lexer"] == ("files-changed:1", str(lexer.path)) and found["parser"][0] == "branch-switched"
    assert "new.txt" in lexer.ok("verify", "--track", "lexer").out
    assert "branch-switched,head-ahead" not in repo.baton("verify", "--track", "lexer").out
    assert repo.baton("verify", "--track", "lexer").code == 1, "the other verbs judge the work tree that they run in"


@pytest.mark.deep
def test_its_own_rules_count_there(repo: Sandbox, two: tuple[Sandbox, Sandbox]) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    lexer = two[0]
    lexer.git("config", "--worktree", "baton.exclude", "*.log")
    lexer.write("x.log", "x\n")
    assert drifts(repo)["lexer"] == ("none", str(lexer.path))


@pytest.mark.deep
def test_its_files_are_where_its_own_settings_say(repo: Sandbox, two: tuple[Sandbox, Sandbox], tmp_path: Path) -> None:
    repo.git("config", "extensions.worktreeConfig", "true")
    lexer, parser = two
    shutil.copytree(lexer.path, tmp_path / "elsewhere")
    (tmp_path / "elsewhere/.git").unlink()
    lexer.git("config", "--worktree", "core.worktree", str(tmp_path / "elsewhere"))
    parser.git("config", "--worktree", "core.bare", "true")
    for box in two:
        box.write("new.txt", "x\n")
    rows = [row.split("\t") for row in repo.ok("status", "--porcelain").out.splitlines()[2:]]
    assert {row[1]: (row[5], row[7]) for row in rows} == {
        "lexer": ("none", str(tmp_path / "elsewhere")),
        "parser": ("none", ""),
    }


@pytest.mark.deep
def test_what_is_included_there_counts_there(repo: Sandbox, two: tuple[Sandbox, Sandbox], tmp_path: Path) -> None:
    lexer = two[0]
    (tmp_path / "more").write_text("[baton]\n\texclude = *.log\n")
    repo.git("config", f"includeIf.gitdir:{repo.path}/.git/worktrees/lexer.path", str(tmp_path / "more"))
    for box in two:
        box.write("x.log", "x\n")
    found = drifts(repo)
    assert found["lexer"] == ("none", str(lexer.path)) and found["parser"] == ("files-changed:1", str(two[1].path))


@pytest.mark.deep
def test_where_no_screen_is_the_newest_fifty_are_listed(repo: Sandbox) -> None:
    snap(repo, "main")
    tip = repo.git("rev-parse", "refs/baton/tracks/main").strip()
    repo.git(
        "update-ref", "--stdin", stdin=b"".join(b"create refs/baton/tracks/t%d %s\n" % (n, tip.encode()) for n in range(60))
    )
    rows = repo.ok("status").out.splitlines()
    assert (
        rows[1].startswith("* main ") and len(rows) == 52 and rows[-1].startswith("61 tracks, 60 foreign, 11 not shown (--all)")
    )
    every = repo.ok("status", "--all").out.splitlines()
    assert len(every) == 63 and every[:51] == rows[:51] and every[-1].startswith("61 tracks, 60 foreign.  main: = home")
    stable = [row for row in repo.ok("status", "--porcelain").out.splitlines() if row[0] != "#"]
    assert len(repo.ok("status", "--json").json["tracks"]) == len(stable) == 61
    few = repo.ok("status", env={"LINES": "10"}).out.splitlines()
    assert few[:8] == rows[:8] and len(few) == 9 and few[-1].startswith("61 tracks, 60 foreign, 54 not shown (--all)")


@pytest.mark.deep
@pytest.mark.parametrize("name", ["HEAD", "commondir"])
@pytest.mark.parametrize("text", [None, "junk\n"])
def test_a_work_tree_that_git_takes_for_none_is_judged_here(
    repo: Sandbox, two: tuple[Sandbox, Sandbox], name: str, text: str | None
) -> None:
    file = repo.path / ".git/worktrees/lexer" / name
    file.unlink()
    if text is not None:
        file.write_text(text)
    assert drifts(repo) == {
        "parser": ("none", str(two[1].path)),
        "lexer": ("branch-switched,head-behind:1,files-changed:1", str(repo.path)),
    }


@pytest.mark.deep
@pytest.mark.parametrize("torn", ["pipe", "NUL", "no gitdir", "NUL in commondir", "HEAD is a folder"])
def test_a_work_tree_that_leads_nowhere_is_judged_here(repo: Sandbox, two: tuple[Sandbox, Sandbox], torn: str) -> None:
    file = two[0].path / ".git"
    if " " in torn and torn != "no gitdir":
        file = repo.path / ".git/worktrees/lexer" / ("commondir" if torn.endswith("commondir") else "HEAD")
    text = file.read_bytes()
    file.unlink()
    if torn == "pipe":
        os.mkfifo(file)
    elif torn == "HEAD is a folder":
        file.mkdir()
    else:
        file.write_bytes(text.removeprefix(b"gitdir: ") if torn == "no gitdir" else text[:8] + bytes(64))
    assert drifts(repo)["lexer"] == ("branch-switched,head-behind:1,files-changed:1", str(repo.path))


@pytest.mark.deep
def test_a_track_that_is_dated_in_the_future_stands_last(repo: Sandbox) -> None:
    for name, year in (("ahead", 2099), ("old", 2020), ("new", 2021)):
        with repo.open(clock=lambda year=year: datetime(year, 1, 1, tzinfo=UTC)) as baton:
            baton.snapshot("s", track=name)
    repo.ok("tracks", "use", "old")
    assert [row.split()[row[0] == "*"] for row in repo.ok("status").out.splitlines()[1:4]] == ["old", "new", "ahead"]
    assert [row.split()[row[0] == "*"] for row in repo.ok("status", env={"LINES": "5"}).out.splitlines()[1:3]] == ["old", "new"]
    assert [one["checkpoint"]["track"] for one in repo.ok("status", "--json").json["tracks"]] == ["new", "old", "ahead"]


@pytest.mark.deep
def test_a_work_tree_that_is_gone_is_judged_here(repo: Sandbox, two: tuple[Sandbox, Sandbox]) -> None:
    parser = two[1]
    repo.git("worktree", "remove", "--force", "../lexer")
    assert drifts(repo)["lexer"] == ("branch-switched,head-behind:1,files-changed:1", str(repo.path))
    shutil.rmtree(parser.path)
    Sandbox.init(parser.path).commit("another repository")
    assert drifts(repo)["parser"] == ("branch-switched,head-behind:1,files-changed:1", str(repo.path))


@pytest.mark.deep
def test_a_work_tree_that_moved_is_found(repo: Sandbox, two: tuple[Sandbox, Sandbox]) -> None:
    repo.git("worktree", "move", "../lexer", "../moved")
    assert drifts(repo)["lexer"] == ("none", str(repo.path.parent / "moved"))


@pytest.mark.deep
def test_without_files_it_is_this_place(repo: Sandbox, two: tuple[Sandbox, Sandbox]) -> None:
    snap(two[0], "lexer", "s", "--no-files")
    assert drifts(repo)["lexer"] == ("branch-switched,head-behind:1", str(repo.path))


def test_a_bare_repository_has_no_place(bare: Sandbox) -> None:
    snap(bare)
    rows = bare.ok("status", "--porcelain").out.splitlines()
    assert rows[-1].endswith("\ts\t\t") and bare.ok("status", "--json").json["tracks"][0]["place"] is None


def test_a_script_reads_what_happened_since_the_words(repo: Sandbox) -> None:
    snap(repo, "own", "own words")
    snap(repo, "t", "lexer done")
    repo.write("a.txt", "two\n")
    repo.git("checkout", "-q", "-b", "feature")
    repo.commit("the lexer")
    Client("claude", repo.path).turn("go on")
    for words, ends in (((), ("\n", "\t")), (("-z",), ("\0", "\0"))):
        out = repo.ok("status", "--porcelain", *words).out
        names = out.split(ends[0])[1].removeprefix("# ").split(" ")
        assert names[-1] == "since", "new columns stand at the end"
        fields = out.split(ends[0], 2)[2].replace("\n", "\t").split("\t" if not words else "\0")
        rows = [dict(zip(names, fields[at : at + len(names)], strict=True)) for at in range(0, len(fields) - 1, len(names))]
        found = {row["track"]: row["since"] for row in rows}
        assert found == {"t": "1 turn, 1 file, 1 commit, branch main -> feature", "own": ""}
    row = next(row for row in repo.ok("resume", "--porcelain").out.splitlines() if row.startswith("since="))
    assert row.endswith(": 1 turn, 1 file, 1 commit, branch main -> feature")


@pytest.mark.deep
def test_the_drift_of_a_foreign_track_is_one_truth(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("init", "-q", "--bare", str(tmp_path / "far.git"))
    repo.git("remote", "add", "origin", str(tmp_path / "far.git"))
    repo.git("push", "-q", "origin", "main")
    snap(repo, "p")
    repo.ok("push", "--yes", "origin")
    repo.git("clone", "-q", str(tmp_path / "far.git"), str(tmp_path / "second"))
    second = Sandbox(tmp_path / "second")
    second.ok("fetch", "origin")
    second.ok("tracks", "use", "p")
    for drift, shown in (("none", "= home"), ("files-changed:1", "! 1 file changed")):
        heading, row, last = second.ok("status").out.splitlines()[:3]
        at = heading.index("DRIFT")
        assert row[at:].startswith(shown.removesuffix(" changed")) and last.endswith(f"p: {shown}"), second.ok("status").out
        fields = second.ok("status", "--porcelain").out.splitlines()[-1].split("\t")
        assert fields[5] == drift and f"drift={drift}\n" in second.ok("resume", "--porcelain", "--live").out
        second.write("a.txt", "two\n")


def test_wide_characters_are_aligned(repo: Sandbox) -> None:
    snap(repo, "\u30c8\u30e9\u30c3\u30af")
    snap(repo, "narrow")
    rows = repo.ok("status").out.splitlines()
    assert len(rows) == 4 and len({width(row.rpartition("  ")[0]) for row in rows[:3]}) == 1
