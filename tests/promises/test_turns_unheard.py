"""A turn whose prompt no hook heard: only what its session's tools are known to have edited is its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, log_of
from tests.kit.past import CLIENTS, Past
from tests.kit.state import assert_same, snap, state_of
from tests.kit.talks import Talk

UNHEARD = "no hook heard the prompt of"
EDITS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "claude": lambda path: {"tool_name": "Write", "tool_input": {"file_path": path, "content": "A\n"}},
    "codex": lambda path: {
        "tool_name": "apply_patch",
        "tool_input": {"command": f"*** Begin Patch\n*** Add File: {path}\n+A\n"},
    },
    "gemini": lambda path: {"tool_name": "write_file", "tool_input": {"file_path": path, "content": "A\n"}},
    "copilot": lambda path: {"toolName": "create", "toolArgs": {"path": path, "file_text": "A\n"}},
    "cursor": lambda path: {"file_path": path, "edits": []},
    "droid": lambda path: {"tool_name": "Create", "tool_input": {"file_path": path, "content": "A\n"}},
    "qwen": lambda path: {"tool_name": "write_file", "tool_input": {"file_path": path, "content": "A\n"}},
}


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    """A session in a track of a user's, of whose prompts no hook will hear."""
    repo.commit("first", **{"a.txt": "one\n", "mine.txt": "one\n"})
    snap(repo, "t", "start")
    return Talk(repo, tmp_path / "talk.jsonl")


def mixed(talk: Talk) -> None:
    """The user edits, then the agent does, in other files, with its tool and with its shell."""
    talk.repo.write("mine.txt", "mine\n")
    talk.ask("change a")
    talk.edit("a.txt", "A\n")
    talk.edit("new.txt", "A\n")
    talk.repo.write("built.txt", "built\n")
    talk.run("make", "ok")
    talk.say("Done.")
    talk.fire("turn", last_assistant_message="Done.")


def test_what_the_user_edited_before_it_is_not_taken_back(talk: Talk) -> None:
    mixed(talk)
    repo = talk.repo
    before = state_of(repo)
    done = repo.ok("revert")
    assert done.out.splitlines()[:2] == ["write a.txt", "remove new.txt"] and "mine.txt" not in done.out
    assert "no tool of it is known to have written 'built.txt', 'mine.txt', which changed since" in done.err
    assert (repo.path / "mine.txt").read_text() == "mine\n" and (repo.path / "built.txt").exists()
    assert (repo.path / "a.txt").read_text() == "one\n" and not (repo.path / "new.txt").exists()
    repo.ok("undo")
    assert_same(before, state_of(repo), "undo")
    assert log_of(repo) == ""


def test_what_the_user_edited_is_told_as_nobodys_turn(talk: Talk) -> None:
    mixed(talk)
    repo = talk.repo
    mine = repo.ok("why", "mine.txt:1").out
    assert "change a" not in mine and UNHEARD in mine
    assert "prompt" in repo.ok("why", "a.txt:1").out and "change a" in repo.ok("why", "a.txt:1").out
    assert "change a" not in repo.ok("blame", "mine.txt").out and "change a" in repo.ok("blame", "a.txt").out
    assert "no hook heard its prompt" in repo.ok("show").out


def test_the_same_file_says_that_it_is_not_known_whose_it_was(talk: Talk) -> None:
    repo = talk.repo
    repo.write("a.txt", "mine\n")
    talk.ask("change a")
    talk.edit("a.txt", "mine\nA\n")
    talk.fire("turn", last_assistant_message=None)
    done = repo.ok("revert", "--dry-run")
    assert UNHEARD in done.err and "what you changed in 'a.txt' since" in done.err


def test_edits_before_the_prompt_are_of_an_earlier_turn(talk: Talk) -> None:
    repo = talk.repo
    talk.ask("first")
    talk.edit("a.txt", "A\n")
    talk.say("Done.")
    snap(repo, "t", "mine")
    talk.ask("second")
    talk.edit("new.txt", "A\n")
    talk.fire("turn", last_assistant_message=None)
    done = repo.ok("revert")
    assert (repo.path / "a.txt").read_text() == "A\n" and not (repo.path / "new.txt").exists(), done.out


def test_what_a_command_alone_changed_is_claimed_by_nobody(talk: Talk) -> None:
    talk.ask("build")
    talk.repo.write("built.txt", "built\n")
    talk.run("make", "ok")
    talk.fire("turn", last_assistant_message=None)
    before = state_of(talk.repo)
    named = talk.repo.baton("revert", "@")
    assert (
        "nothing has to change" in named.out
        and "no tool of it is known to have written 'built.txt', which changed since" in named.err
    )
    assert_same(before, state_of(talk.repo), "revert")


@pytest.mark.deep
@pytest.mark.parametrize("agent", sorted(EDITS))
def test_hooks_of_every_client_after_its_edits_are_enough(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "start")
    client = Client(agent, repo.path)
    quiet = {name: None for name in ("transcript_path", "transcriptPath") if name in client.payload(client.words["turn"])}
    repo.write("mine.txt", "mine\n")
    made = repo.write("made.txt", "A\n")
    client.fire("edit", **EDITS[agent](str(made)))
    client.fire("turn", **quiet)
    done = repo.ok("revert")
    assert done.out.splitlines()[0] == "remove made.txt" and (repo.path / "mine.txt").read_text() == "mine\n"
    assert not made.exists() and log_of(repo) == ""


@pytest.mark.deep
@pytest.mark.parametrize("agent", CLIENTS)
def test_records_of_every_client_are_enough(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "start")
    repo.write("mine.txt", "mine\n")
    past = Past(repo, agent, ago=60)
    past.ask("make it")
    past.edit("made.txt", "A\n")
    past.run("make", "ok")
    past.say("Done.")
    client = Client(agent, repo.path, session=past.session, home=Path.home())
    client.fire("turn", transcript_path=str(past.path), transcriptPath=str(past.path))
    done = repo.ok("revert")
    assert done.out.splitlines()[0] == "remove made.txt" and "'mine.txt', which changed since" in done.err
    assert (repo.path / "mine.txt").exists() and not (repo.path / "made.txt").exists() and log_of(repo) == ""


def after_a_heard_turn(talk: Talk) -> Sandbox:
    """The repository after a turn whose prompt was heard, and in which a file was edited."""
    talk.ask("change a")
    talk.fire("prompt", prompt="change a")
    talk.edit("a.txt", "A\n")
    talk.say("Done.")
    talk.fire("turn", last_assistant_message="Done.")
    return talk.repo


@pytest.mark.deep
def test_where_the_newest_turn_owns_nothing_no_older_one_is_taken_back(talk: Talk) -> None:
    repo = after_a_heard_turn(talk)
    talk.ask("build")
    repo.write("built.txt", "built\n")
    talk.run("make", "ok")
    talk.say("Built.")
    talk.fire("turn", last_assistant_message="Built.")
    before = state_of(repo)
    assert "'built.txt', which changed since" in repo.ok("revert").err
    assert_same(before, state_of(repo), "revert")


@pytest.mark.deep
def test_a_second_end_of_one_prompt_owns_what_tools_edited_since_the_first(talk: Talk) -> None:
    repo = after_a_heard_turn(talk)
    repo.write("mine.txt", "mine\n")
    talk.edit("new.txt", "A\n")  # the client goes on by itself
    talk.say("Now.")
    talk.fire("turn", last_assistant_message="Now.")
    assert repo.ok("revert").out.splitlines()[0] == "remove new.txt"
    assert (repo.path / "a.txt").read_text() == "A\n" and (repo.path / "mine.txt").read_text() == "mine\n"
    repo.ok("undo")
    repo.ok("revert", "@~1")
    assert (repo.path / "a.txt").read_text() == "one\n" and (repo.path / "new.txt").exists()
