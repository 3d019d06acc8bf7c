"""The model and the tokens of turns, as clients tell them: in checkpoints, and summed by turn, day and track."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.values import replace
from gitbaton.care.tools.summarizing import part, summary
from tests.kit import Sandbox
from tests.kit.agents import Client, checkpoints
from tests.kit.talks import Talk


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "begin")
    return Talk(repo, tmp_path / "talk.jsonl")


def agents(repo: Sandbox) -> list[dict[str, Any]]:
    """The agents of the turns' checkpoints, oldest first."""
    return [c["agent"] for c in checkpoints(repo, "t") if c["step"].startswith("turn ")]


def test_a_turn_has_its_model_and_its_tokens(talk: Talk) -> None:
    repo = talk.repo
    talk.ask("first")
    talk.fire("prompt", prompt="first")
    talk.answer("m1", 1000, 1, 500)
    talk.edit("x.py", "two\n")
    talk.answer("m1", 1000, 900, 500)  # the same answer, as it has grown
    talk.answer("side", 7000, 7000, isSidechain=True)
    talk.answer("m2", 20_000, 100, 210_000)
    talk.stop()
    talk.ask("second")
    talk.fire("prompt", prompt="second")
    talk.answer("m3", 30, 3, model="claude-sonnet-5")
    talk.stop()
    first, second = agents(repo)
    assert (first["model"], first["usage"]) == ("claude-opus-4-5", {"input": 21_000, "output": 1000, "cached": 210_500})
    assert (second["model"], second["usage"]) == ("claude-sonnet-5", {"input": 30, "output": 3, "cached": 0})
    shown = repo.ok("show", "@~1").out
    assert re.search(r"(?m)^model +claude-opus-4-5, 21k tokens in, 1.0k out, 210k cached$", shown), shown
    lines = repo.ok("show", "@~1", "--porcelain").out.splitlines()
    assert {"model=claude-opus-4-5", "tokens.input=21000", "tokens.output=1000", "tokens.cached=210500"} <= set(lines)
    said = "21k tokens in, 1.0k out, 210k cached, 2 turns (claude-sonnet-5, claude-opus-4-5)"
    assert f"today: {said}" in repo.ok("status").out.splitlines()
    today = repo.ok("status", "--json").json["today"]
    assert today == {"turns": 2, "untold": 0, "input": 21_030, "output": 1003, "cached": 210_500}
    rows = repo.ok("summary").out.splitlines()
    day = f"{datetime.now().astimezone():%Y-%m-%d}"
    quoted = said.replace("claude-sonnet-5, claude-opus-4-5", "`claude-sonnet-5`, `claude-opus-4-5`")
    assert f"- {day}: {quoted}" in rows and not any(row.startswith("- in all") for row in rows)


def test_what_is_not_known_of_a_turn_is_said(talk: Talk) -> None:
    repo = talk.repo
    for number, tokens in enumerate((10, None, 20)):
        talk.ask(f"prompt {number}")
        talk.fire("prompt", prompt=f"prompt {number}")
        if tokens is None:
            talk.edit("x.py", "two\n")
        else:
            talk.answer(f"m{number}", tokens, 1)
        talk.stop()
    assert [("usage" in found, "model" in found) for found in agents(repo)] == [(True, True), (False, False), (True, True)]
    said = "30 tokens in, 2 out, 0 cached, 2 turns, not known of 1 more (claude-opus-4-5)"
    assert f"today: {said}" in repo.ok("status").out.splitlines()
    repo.ok("snapshot", "words")
    assert f": {said.replace('claude-opus-4-5', '`claude-opus-4-5`')}" in repo.ok("summary").out


def test_a_turn_that_was_cut_off_has_no_tokens_of_the_one_before_or_after(talk: Talk) -> None:
    repo = talk.repo
    talk.ask("first")
    talk.fire("prompt", prompt="first")
    talk.answer("m1", 10, 1)
    talk.stop()
    talk.ask("second")
    talk.fire("prompt", prompt="second")
    talk.answer("m2", 20, 2)
    repo.write("x.py", "two\n")
    talk.ask("third")  # no end of the second was heard
    talk.fire("prompt", prompt="third")
    talk.answer("m3", 30, 3)
    talk.stop()
    used = [found.get("usage", {}).get("input") for found in agents(repo)]
    assert used == [10, None, 30]


def test_days_are_summed_apart(talk: Talk) -> None:
    for name in ("m1", "m2"):
        talk.ask(name)
        talk.fire("prompt", prompt=name)
        talk.answer(name, 600, 1)
        talk.stop()
    with talk.repo.open() as baton:
        given = part(baton, "t", None)
        *_, first, last = given.items
        then = first.checkpoint.created - timedelta(days=2)
        older = replace(first, checkpoint=replace(first.checkpoint, created=then))
        rows = summary(baton, replace(given, items=(*given.items[:-2], older, last)), {})
    own = "600 tokens in, 1 out, 0 cached, 1 turn (`claude-opus-4-5`)"
    days = [f"{at.astimezone():%Y-%m-%d}" for at in (then, last.checkpoint.created)]
    at = rows.index("## Models and tokens")
    assert rows[at + 2 : at + 4] == [f"- {day}: {own}" for day in days]
    assert rows[at + 4] == "- in all: 1.2k tokens in, 2 out, 0 cached, 2 turns (`claude-opus-4-5`)"


@pytest.mark.parametrize("agent", ["codex", "gemini", "copilot"])
def test_without_records_nothing_is_known(repo: Sandbox, agent: str) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "begin")
    client = Client(agent, repo.path)
    client.fire("prompt", prompt="one")
    repo.write("x.py", "two\n")
    client.fire("turn")
    (found,) = agents(repo)
    assert set(found) == {"name", "session", "transcript"}
    assert "today:" not in repo.ok("status").out and "Models" not in repo.ok("summary").out


@pytest.mark.deep
def test_today_is_of_every_track_of_ours_and_each_turn_counts_once(talk: Talk) -> None:
    talk.ask("one")
    talk.fire("prompt", prompt="one")
    talk.answer("m1", 600, 1)
    talk.stop()
    said = next(row for row in talk.repo.ok("status").out.splitlines() if row.startswith("today: "))
    talk.repo.ok("snapshot", "--track", "plain", "by hand")
    assert said in talk.repo.ok("status").out.splitlines()


@pytest.mark.deep
def test_doctor_says_that_no_hook_writes_the_trailers_that_are_wanted(repo: Sandbox) -> None:
    repo.ok("snapshot", "begun")
    repo.git("config", "baton.trailers", "true")
    assert "the hook that writes trailers is not installed" in repo.baton("doctor").out
    repo.ok("install")
    assert "trailers" not in repo.baton("doctor").out


@pytest.mark.deep
def test_names_of_others_lead_to_the_agent_that_is_meant(repo: Sandbox) -> None:
    for typed, near in (("factory", "droid"), ("qwen-code", "qwen"), ("kilocode", "kilo"), ("x", "")):
        said = repo.baton("agent", "install", typed).err
        assert ("is meant" in said, f"perhaps '{near}' is meant" in said) == (bool(near), bool(near)), typed
