"""Words that everybody tries: a step without an option, no track at all, one argument and --track everywhere, git's orders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gitbaton.base.errors import UsageError
from gitbaton.cli.main import arguments
from tests.kit import Sandbox


@pytest.fixture
def two(repo: Sandbox) -> Sandbox:
    """Three checkpoints of track 'parser' and one of 'docs', which is current."""
    with repo.open() as baton:
        for number in range(3):
            repo.write("a.txt", f"parser {number}\n")
            baton.snapshot(f"parser {number}", track="parser")
        repo.write("a.txt", "docs\n")
        baton.snapshot("docs done", track="docs")
    return repo


def test_the_step_is_a_word(repo: Sandbox) -> None:
    for words in (["lexer done"], ["-m", "lexer done"], ["--step", "lexer done"]):
        done = repo.ok("snapshot", *words, "--validation", "green")
        assert done.out.split(" ", 2)[2] == "lexer done\n", words
    for words in (["one", "-m", "two"], ["-m", "one", "--step", "two"]):
        assert "the step is given twice, as 'one' and as 'two'" in repo.baton("snapshot", *words).err
    done = repo.baton("snapshot", "lexer", "done")
    assert done.code == 129 and done.err.endswith(
        "hint: several words are one step in quotes: git baton snapshot 'lexer done'\n"
    )


@pytest.mark.deep
def test_a_track_that_nobody_names(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("switch", "-q", "-c", "topic/lexer")
    assert repo.ok("snapshot", "one").out.startswith("topic/lexer "), "the branch names it"
    repo.git("switch", "-q", "main")
    assert repo.ok("snapshot", "two").out.startswith("topic/lexer "), "it is current"
    repo.git("worktree", "add", "-q", "-b", "topic/docs", str(tmp_path / "beside"))
    beside = Sandbox(tmp_path / "beside")
    assert beside.ok("snapshot", "three").out.startswith("topic/docs "), "the other one is another work tree's"
    repo.git("config", "baton.track", "configured")
    assert beside.ok("snapshot", "four").out.startswith("configured ")
    assert beside.ok("snapshot", "five", env={"GIT_BATON_TRACK": "told"}).out.startswith("told ")
    with repo.open() as baton:
        repo.git("config", "--unset", "baton.track")
    with repo.open() as baton:
        assert baton.snapshot("of the API").stored.checkpoint.track == "topic/lexer"


def test_as_a_hook_names_it(repo: Sandbox) -> None:
    """A hook and a hand that name no track write the same one."""
    repo.git("switch", "-q", "-c", "a'b,c@d")
    with repo.open() as baton:
        chosen = baton.chosen()
    assert repo.ok("snapshot", "one").out.startswith(f"{chosen} ")
    repo.git("switch", "-q", "--detach")
    repo.git("symbolic-ref", "-d", "BATON_HEAD")
    assert repo.ok("snapshot", "two").out.startswith(f"{chosen} "), "the only one"


def test_a_name_that_a_hook_derives_is_made_right(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, made in (("FETCH_HEAD", "track FETCH_HEAD"), ("@x", "x")):
        repo.git("switch", "-q", "-c", given)
        with repo.open() as baton:
            assert baton.chosen(automatic=True) == made
    for given, made in (
        ("-x", "x"),
        ("HEAD", "track HEAD"),
        ("@", "detached"),
        ("a..b~1", "a.b1"),
        ("a" * 40, "track " + "a" * 40),
    ):
        monkeypatch.setenv("GIT_BATON_TRACK", given)
        with repo.open() as baton:
            assert baton.chosen(automatic=True) == made
            with pytest.raises(UsageError, match="a new track cannot be called"):
                baton.snapshot("by hand")


@pytest.mark.deep
def test_one_argument_everywhere(two: Sandbox, tmp_path: Path) -> None:
    def step(*words: str) -> str:
        return next(row for row in two.ok(*words, "--porcelain").out.splitlines() if row.startswith("step="))

    for verb in ("resume", "show"):
        assert step(verb) == "step=docs done"
        assert step(verb, "parser") == step(verb, "--track", "parser") == "step=parser 2"
        assert step(verb, "parser~1") == step(verb, "@~1", "--track", "parser") == "step=parser 1"
        assert step(verb, "@{2}", "--track", "parser") == "step=parser 0"
    for words in (["parser"], ["--track", "parser"], ["parser~1"], []):
        assert two.baton("verify", *words).code == 0, words
    two.git("commit", "-q", "--allow-empty", "-m", "on")
    assert two.baton("verify", "parser~1").out.startswith("head-ahead:1: ")
    assert [two.ok("diff", *words).out.count("+docs") for words in (["parser"], ["--track", "parser"])] == [1, 1]
    assert two.ok("diff", "--track", "parser", "@~2", "@", "--", "a.txt").out.count("-parser 0") == 1
    for words in (["parser"], ["--track", "parser"], ["--track", "parser", "--", "a.txt"], ["--track", "parser", "@"]):
        assert "a.txt" in two.baton("restore", "--dry-run", *words).out, words
    two.ok("branch", "rescue", "--track", "parser")
    assert two.git("show", "rescue:a.txt") == "parser 2"
    two.ok("branch", "docs-as-they-were")
    assert two.git("show", "docs-as-they-were:a.txt") == "docs"
    two.ok("worktree", str(tmp_path / "parser"), "--track", "parser")
    assert (tmp_path / "parser/a.txt").read_text() == "parser 2\n"
    assert "knows of no conversation" in two.baton("transcript", "show", "--track", "parser").err
    assert two.ok("scan", "--track", "parser", "--json").json["checkpoints"] == 3


@pytest.mark.full
def test_the_log_from_a_checkpoint_on(two: Sandbox) -> None:
    def steps(*words: str) -> list[str]:
        return [c["step"] for c in two.ok("log", "--json", *words).json["checkpoints"]]

    parser = ["parser 2", "parser 1", "parser 0"]
    assert steps() == ["docs done"] and steps("parser") == steps("--track", "parser") == parser
    assert steps("parser~1") == steps("@~1", "--track", "parser") == parser[1:]
    oid = two.ok("show", "parser~1", "--json").json["checkpoint"]["id"]
    assert steps(oid[:10]) == parser[1:] and steps(oid[:10], "-1") == parser[1:2]
    for words in (["-1"], ["-2"], ["-n1"], ["-n", "1"], ["--track", "parser", "-1"], ["-1", "parser"]):
        assert len(steps(*words, *([] if "parser" in words else ["parser"]))) == (2 if words == ["-2"] else 1), words
    assert two.baton("log", "-n", "-1").code == 129 and two.baton("log", "-0", "parser").code == 0
    assert arguments(["snapshot", "-1"]) == ([], ["snapshot", "-1"])
    assert arguments(["log", "--", "-1"]) == ([], ["log", "--", "-1"])


@pytest.mark.deep
def test_a_track_is_a_track_where_a_verb_means_one(two: Sandbox) -> None:
    """A label that another checkpoint has is no obstacle to who resumes the track."""
    two.ok("snapshot", "x", "--label", "parser")
    for verb in ("resume", "verify", "log"):
        assert two.baton(verb, "parser").code == 0
    assert two.baton("show", "parser").code == 128


@pytest.mark.deep
def test_a_checkpoint_and_a_track_exclude_each_other(two: Sandbox) -> None:
    for verb in ("resume", "verify", "log", "show", "diff", "restore", "branch x", "worktree x"):
        done = two.baton(*verb.split(), "docs", "--track", "parser")
        assert (done.code, done.out) == (129, "") and "the checkpoint 'docs' and --track exclude each other" in done.err, done
    assert two.baton("resume", "--track", "docs~1").code == 2
    assert two.baton("log", "--all", "--track", "docs").code == 129


@pytest.mark.full
def test_without_a_current_track_the_only_one(repo: Sandbox) -> None:
    repo.ok("snapshot", "one", "--no-set-current")
    for words in (["show"], ["diff"], ["restore", "--dry-run"], ["resume"], ["verify"], ["log"], ["branch", "b"]):
        assert repo.baton(*words).code == 0, words
    repo.ok("snapshot", "two", "--track", "other", "--no-set-current")
    for words in (["show"], ["diff"], ["restore"], ["resume"], ["verify"], ["log"], ["branch", "c"]):
        done = repo.baton(*words)
        assert done.code == 128 and "no track is current in this work tree; name one with --track" in done.err, words


@pytest.mark.deep
def test_worktree_in_both_orders(two: Sandbox, tmp_path: Path) -> None:
    then, beside, both = (str(tmp_path / name) for name in ("then", "beside", "both"))
    two.ok("worktree", then, "parser~1")
    two.ok("worktree", "parser~2", beside)
    assert Path(then, "a.txt").read_text() == "parser 1\n" and Path(beside, "a.txt").read_text() == "parser 0\n"
    os.mkdir(both)
    assert two.run("git", "baton", "--repo-root", str(two.path), "worktree", "docs", "parser", cwd=Path(both)).code == 0
    assert (Path(both) / "docs/a.txt").read_text() == "parser 2\n", "where both name one, the order is git's"
    before = two.git("worktree", "list")
    done = two.baton("worktree", "nowhere", str(tmp_path / "x"))
    assert done.code == 2 and f"neither '{tmp_path / 'x'}' nor 'nowhere' names a checkpoint" in done.err
    done = two.baton("worktree", "parser")
    assert done.code == 129 and done.err.endswith("hint: name the directory first: git baton worktree PATH parser\n")
    assert two.git("worktree", "list") == before


@pytest.mark.deep
def test_only_a_track_goes_to_a_remote(two: Sandbox, tmp_path: Path) -> None:
    two.git("init", "-q", "--bare", str(tmp_path / "hub.git"))
    two.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    done = two.baton("push", "parser")
    assert done.code == 129 and done.err.endswith("hint: to push only that: git baton push --track parser\n")
    two.ok("push", "--yes", "--track", "parser")
    assert two.git("ls-remote", "origin", "refs/baton/tracks/*").endswith("refs/baton/tracks/parser")
    two.ok("sync", "--yes", "--track", "docs")
    assert two.git("ls-remote", "origin", "refs/baton/tracks/*").count("refs/baton/tracks/") == 2
    assert "docs" not in two.ok("fetch", "--track", "parser").out


@pytest.mark.deep
def test_an_older_checkpoint_is_no_reason_to_speak_of_a_remote(two: Sandbox, tmp_path: Path) -> None:
    two.git("init", "-q", "--bare", str(tmp_path / "hub.git"))
    two.git("remote", "add", "origin", str(tmp_path / "hub.git"))
    two.ok("push", "--yes", "--track", "parser")
    for words in (("resume", "parser"), ("resume", "parser~1")):
        assert "newer" not in two.ok(*words).err
