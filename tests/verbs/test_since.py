"""One meaning of "since": drift is against the newest checkpoint, whoever took it; what happened since the words has a row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.state import snap
from tests.kit.talks import Talk
from tests.promises.test_hooks import install, spoken

STRICT = ("--strict",)


def code(repo: Sandbox, *options: str) -> int:
    """The exit status of ``verify``."""
    return repo.baton("verify", "--quiet", *options).code


def since(repo: Sandbox) -> str:
    """The row of ``resume``, with and without a look at the work tree."""
    rows = [
        row
        for words in ((), ("--live",))
        for row in repo.ok("resume", "--porcelain", *words).out.splitlines()
        if row.startswith("since=")
    ]
    assert len(set(rows)) == 1, rows
    return rows[0].removeprefix("since=")


def changes(repo: Sandbox, *options: str) -> object:
    """What a restore would do."""
    return [one for one in repo.ok("restore", "--dry-run", "--json", *options).json["paths"] if one["action"] != "keep"]


def test_a_turn_is_no_drift_and_has_a_row(repo: Sandbox) -> None:
    snap(repo, "t", "lexer done", "--validation", "green")
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    repo.git("checkout", "-q", "-b", "feature")
    repo.commit("the lexer")
    repo.write("b.txt", "b\n")
    client.turn("go on")
    assert since(repo) == '"lexer done": 1 turn, 2 files, 1 commit, branch main -> feature'
    shown = repo.ok("status").out
    assert " = home " in shown and "! " not in shown
    assert shown.endswith('\nsince "lexer done": 1 turn, 2 files, 1 commit, branch main -> feature\n'), shown
    assert "\ndrift=none\n" in repo.ok("resume", "--porcelain", "--live").out and "stale" in shown
    assert "since the words: 1 turn, 2 files, 1 commit, branch main -> feature" in repo.ok().out
    assert repo.ok("diff", "--stat").out == "" and not changes(repo)
    assert [code(repo, *options) for options in ((), STRICT, ("--words",), ("--words", *STRICT))] == [0, 0, 1, 1]
    assert repo.ok("verify").out == ""
    assert repo.baton("verify", "--words").out.startswith("branch-switched: the checkpoint was on branch 'main'")


def test_words_that_nothing_followed_have_no_row(repo: Sandbox) -> None:
    snap(repo, "t", "lexer done")
    repo.commit("more", a_txt="two\n")
    assert "since" not in repo.ok("resume", "--porcelain", "--live").out and "\nsince" not in repo.ok("status").out
    assert code(repo) == code(repo, "--words") == 1
    assert repo.baton("verify").out == repo.baton("verify", "--words").out


def back(repo: Sandbox) -> None:
    repo.commit("theirs", a_txt="two\n")
    Client("claude", repo.path).turn("pulled")
    repo.git("reset", "-q", "--hard", "HEAD~1")


def moved(repo: Sandbox) -> None:
    repo.commit("theirs", a_txt="two\n")
    Client("claude", repo.path).turn("pulled")


def edited(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    Client("claude", repo.path).turn("edit")


def edited_after(repo: Sandbox) -> None:
    edited(repo)
    repo.write("a.txt", "three\n")


def moved_after(repo: Sandbox) -> None:
    moved(repo)
    repo.commit("more", b_txt="b\n")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        (moved, (0, 0, 1, 1)),
        (moved_after, (1, 1, 1, 1)),
        (back, (1, 1, 0, 0)),
        (edited, (0, 0, 0, 1)),
        (edited_after, (0, 1, 0, 1)),
    ],
)
def test_exit_statuses(repo: Sandbox, how: Callable[[Sandbox], None], wanted: tuple[int, ...]) -> None:
    """The table of the protocol: ``verify``, ``--strict``, and both with ``--words``."""
    snap(repo, "t", "words")
    how(repo)
    ways = ((), STRICT, ("--words",), ("--words", *STRICT))
    assert tuple(code(repo, *options) for options in ways) == wanted


@pytest.mark.deep
def test_what_went_back_is_said(repo: Sandbox) -> None:
    for number in range(3):
        repo.commit(f"c{number}", **{f"f{number}_txt": "x\n"})
    snap(repo, "t", "words")
    repo.git("reset", "-q", "--hard", "HEAD~2")
    client = Client("claude", repo.path)
    client.turn("take it back")
    assert since(repo) == '"words": 1 turn, 2 files, 2 commits behind' and code(repo) == 0
    repo.commit("another", f1_txt="y\n")
    client.turn("another way")
    assert since(repo) == '"words": 2 turns, 2 files, diverged 1/2'
    repo.git("checkout", "-q", "--detach")
    client.turn("look")
    assert since(repo) == '"words": 3 turns, 2 files, diverged 1/2, branch main -> detached HEAD'


@pytest.mark.deep
def test_an_amended_commit_is_no_commit_that_went(repo: Sandbox) -> None:
    repo.ok("install")
    repo.commit("first", a_txt="two\n")
    snap(repo, "t", "words")
    repo.git("commit", "-q", "--amend", "-m", "said better")
    Client("claude", repo.path).turn("amend")
    assert since(repo) == '"words": 1 turn, 1 commit' and code(repo) == code(repo, "--words") == 0


@pytest.mark.deep
def test_a_turn_is_called_the_same_everywhere(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("more", b_txt="b\n")
    repo.ok("snapshot", "--track", "t", "the old words")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("now the error messages")
    talk.edit("a.txt", "two\n")
    talk.stop()
    name = "turn 1  now the error messages"
    assert (
        f"\ntitle={name}\n" in repo.ok("resume", "--porcelain").out
        and f"\ntitle={name}\n" in repo.ok("show", "--porcelain").out
    )
    for verb in ("log", "status", "tracks"):
        assert name in repo.ok(verb).out, verb
    assert name in repo.ok().out
    install(repo)
    assert name in spoken(repo, "checkout", "-q", "HEAD~1")[0]


@pytest.mark.deep
def test_a_second_machine_is_told_what_restore_finds(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("init", "-q", "--bare", str(tmp_path / "far.git"))
    repo.git("remote", "add", "origin", str(tmp_path / "far.git"))
    snap(repo, "t", "words", "--validation", "green")
    client = Client("claude", repo.path)
    for number in range(2):
        repo.commit(f"c{number}", a_txt=f"{number}\n")
        client.turn(f"commit {number}")
    repo.git("push", "-q", "origin", "main")
    repo.ok("push", "--yes", "origin")
    repo.git("clone", "-q", str(tmp_path / "far.git"), str(tmp_path / "second"))
    second = Sandbox(tmp_path / "second")
    second.ok("fetch", "origin")
    said = second.ok("resume", "--porcelain", "--track", "t", "--live").out
    assert "\n> drift=none\n" in said and '\n> since="words": 2 turns, 1 file, 2 commits\n' in said
    assert not changes(second, "--foreign", "t")
    assert second.baton("verify", "--track", "t", "--quiet").code == 0
    assert second.baton("verify", "--track", "t", "--quiet", "--words").code == 1
