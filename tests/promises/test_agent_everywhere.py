"""Hooks in a user's own settings act where gitbaton is used, and with baton.everywhere in every repository; all say so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos, tracks, untouched


def turn(repo: Sandbox, text: str) -> None:
    repo.write("work.txt", text)
    Client("claude", repo.path, home=Path(os.environ["HOME"])).turn(f"do {text}")


@pytest.mark.deep
@pytest.mark.parametrize("value", ["true", "false", None])
def test_only_baton_everywhere_lets_a_hook_begin(repo: Sandbox, value: str | None) -> None:
    if value is not None:
        repo.git("config", "--global", "baton.everywhere", value)
    repo.write("work.txt", "one")
    state = untouched(repo)
    turn(repo, "one")
    assert (tracks(repo) == ["main"]) == (value == "true")
    if value == "true":
        assert len(autos(repo, "main")) == 1
    else:
        assert not (repo.path / ".git/baton").exists() and untouched(repo) == state


def test_outside_a_repository_it_stays_silent(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("config", "--global", "baton.everywhere", "true")
    (tmp_path / "plain").mkdir()
    assert Client("claude", tmp_path / "plain").fire("start") == ""
    assert os.listdir(tmp_path / "plain") == []


@pytest.mark.full
def test_install_and_doctor_say_where_they_act(repo: Sandbox) -> None:
    only = "act only in a repository where gitbaton is used already"
    done = repo.ok("agent", "install", "claude", "--user")
    assert only in done.err and "'git config --global baton.everywhere true'" in done.err
    rows = {row["name"]: row for row in repo.baton("agent", "doctor", "--json").json["findings"]}
    found = rows["user reach"]
    assert found["ok"] and only in found["text"] and "'git config --global baton.everywhere true'" in found["text"]
    repo.run("sh", "-c", done.err.partition("; '")[2].partition("'")[0])
    rows = {row["name"]: row for row in repo.baton("agent", "doctor", "--json").json["findings"]}
    assert rows["user reach"]["text"] == "baton.everywhere is true: such hooks act in every repository"
    turn(repo, "one")
    assert tracks(repo) == ["main"]
