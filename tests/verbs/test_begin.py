"""A repository without a checkpoint: that there is none is an answer, with how to begin; broken tracks are no such answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.tiers import some

NONE = "No checkpoints here yet.\n"
ASK = "'git baton agent doctor' says whether they run"
TAKE, INSTALL = 'git baton snapshot "what is done" --next-cmd "what is next"', "git baton agent install claude"
ASKED = ((), ("resume",), ("resume", "--live"), ("status",), ("tracks",), ("log",), ("log", "--all"), ("log", "--graph"))


def test_that_there_is_none_is_an_answer_with_how_to_begin(repo: Sandbox) -> None:
    said = {repo.here(*words).out for words in ASKED}
    assert len(said) == 1 and said.pop() == f"{NONE}{TAKE}  take one\n{INSTALL:<59}  let the agent do it\n"
    assert {(repo.here(*words).code, repo.here(*words).err) for words in ASKED} == {(0, "")}


@some("words", [("resume", "--live"), ("log",), ("status",), ("tracks",)])
def test_a_program_finds_none_in_the_document(repo: Sandbox, words: tuple[str, ...]) -> None:
    found = repo.here(*words, "--json")
    assert found.code == 0 and not found.json.get("checkpoint", found.json.get("checkpoints", found.json.get("tracks")))
    lines = repo.here(*words, "--porcelain")
    assert lines.code == 0 and all(row.startswith("# ") for row in lines.out.splitlines()) and lines.err == ""


def test_who_asks_for_one_is_told_that_it_is_not_there(repo: Sandbox) -> None:
    """``verify`` above all: 0 would say that HEAD is at home."""
    for words in (
        ("verify",),
        ("verify", "-q"),
        ("verify", "--signatures"),
        ("show",),
        ("diff",),
        ("resume", "@"),
        ("resume", "--track", "t"),
        ("log", "t"),
    ):
        done = repo.here(*words)
        assert done.code == 2 and done.out == "" and ("-q" in words or "there is no " in done.err), words


@pytest.mark.deep
def test_an_install_that_is_there_is_not_advised(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.ok("agent", "install", "codex", "--user")
    assert (
        repo.ok("status").out
        == f"{NONE}{TAKE}  take one\nthe hooks of Codex are installed, to act here once there is one: {ASK}\n"
    )
    repo.git("config", "--global", "baton.everywhere", "true")
    assert repo.ok("tracks").out.endswith(f"the hooks of Codex are installed, to act here at the end of a turn: {ASK}\n")
    repo.git("config", "--global", "--unset", "baton.everywhere")
    repo.ok("agent", "install", "claude")
    monkeypatch.setenv("COLUMNS", "60")
    said = " ".join(" ".join(repo.ok().out.splitlines()).split())
    assert said.endswith(f"the hooks of Claude Code, Codex are installed, to act here at the end of a turn: {ASK}")


def test_a_remote_that_may_have_some_is_asked_first(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("remote", "add", "origin", str(tmp_path))
    assert repo.ok("resume").out.splitlines()[1].startswith("git baton fetch ")


def test_a_run_that_is_not_finished_is_named(repo: Sandbox) -> None:
    assert repo.baton("run", "--run", "nightly", "--step", "build", "--", "false").code == 1
    assert repo.ok("resume").out.endswith("\nrun 'nightly' is not finished: git baton run --continue nightly\n")
    assert repo.ok("resume", "--porcelain").out.startswith("run=nightly: ")
    assert [run["run"] for run in repo.ok("resume", "--json").json["runs"]] == ["nightly"]


@some("words", [("resume",), ("log",), ("status",), ()])
def test_where_all_that_is_there_is_broken_nobody_is_told_to_begin(repo: Sandbox, words: tuple[str, ...]) -> None:
    repo.git("update-ref", "refs/baton/tracks/t", "HEAD")  # no checkpoint
    done = repo.here(*words)
    assert NONE not in done.out and "git baton doctor --mend" in done.err + done.out
    assert words == () or done.code not in (0, 1)


@some("words", [("resume",), ("log",), ("verify",), ("show", "@"), ("drill",), ()])
def test_what_cannot_be_read_is_not_taken_for_none(repo: Sandbox, words: tuple[str, ...]) -> None:
    place = repo.path / ".git/refs/baton/tracks/t"
    place.parent.mkdir(parents=True)
    place.write_text("torn\n")
    done = repo.here(*words)
    assert (done.code, done.out) == (128, "") and done.err.endswith(
        "fatal: no track of this repository can be read\nhint: git baton doctor --mend\n"
    )
