"""The request of a turn: every face tells what the user asked for in that very turn, with a transcript and without one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import CLIENTS, Client, log_of
from tests.kit.state import snap
from tests.kit.talks import Talk

QUIET = ("transcript_path", "transcriptPath")
ONE, TWO, THREE = "write the lexer", "now the parser of it", "and document everything"
EACH = ["claude", *(pytest.param(agent, marks=pytest.mark.deep) for agent in CLIENTS if agent != "claude")]


class Hand:
    """A session without a transcript, whose hooks are called by hand."""

    def __init__(self, repo: Sandbox, agent: str = "claude", session: str = "5e551011") -> None:
        self.repo, self.client = repo, Client(agent, repo.path, session)

    def fire(self, moment: str, **fields: Any) -> None:
        name = self.client.words[moment]
        found = {key: text for key, text in self.client.payload(name).items() if key not in QUIET}
        said = {"last_assistant_message": None, "prompt_response": None}
        found = {key: said.get(key, text) for key, text in found.items()} | fields
        assert self.client.send(name, found).code == 0

    def ask(self, prompt: str, *names: str) -> None:
        """A prompt, and files that are written after it."""
        self.fire("prompt", prompt=prompt)
        for name in names:
            self.repo.write(name, f"{name}\n")

    def stop(self, prompt: str = "") -> None:
        self.fire("turn", **({"prompt": prompt} if self.client.agent == "gemini" else {}))

    def guard(self, command: str) -> None:
        given = {"tool_name": "Bash", "tool_input": {"command": command}, "hook_event_name": "PreToolUse"}
        payload = {"session_id": self.client.session, "cwd": str(self.repo.path), **given}
        assert self.client.send("PreToolUse", payload).code == 0


def commit(repo: Sandbox, subject: str, *options: str) -> None:
    """All that is there, committed now: the seal has a date of its own."""
    repo.git("add", "-A")
    repo.git("commit", "-qm", subject, *options, env={"GIT_AUTHOR_DATE": f"@{int(time.time())} +0000"})


def told(repo: Sandbox, name: str, asked: str, *others: str) -> None:
    """``why``, ``blame``, ``log``, ``show``, ``summary`` and ``revert`` tell the same request of the turn that wrote a file."""
    why = repo.ok("why", f"{name}:1").out
    assert f"  prompt   {asked}\n" in why and not [one for one in others if one in why], why
    document = repo.ok("why", f"{name}:1", "--json").json
    assert document["turn"]["prompt"] == asked
    oid = document["turn"]["checkpoint"] or document["origin"]["checkpoint"]["id"]
    assert f": {asked}\n" in repo.baton("revert", oid, "--dry-run").out
    assert f"- {asked} (" in repo.ok("summary").out
    row = next(row for row in repo.ok("log", "--no-fold").out.splitlines() if row.lstrip().startswith(oid[:4]))
    assert asked in row and not [one for one in others if one in row], row
    assert f": {asked}" in repo.ok("show", oid).out


@pytest.mark.parametrize("agent", EACH)
def test_of_a_turn_after_one_that_was_cut(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "start")
    hand = Hand(repo, agent)
    hand.ask(ONE, "f1")
    hand.ask(TWO, "f2")
    hand.stop(TWO)
    told(repo, "f1", ONE, TWO)
    told(repo, "f2", TWO, ONE)
    rows = repo.ok("log").out
    assert f"turn 2  {TWO}" in rows and f"turn not ended: {ONE}" in rows and log_of(repo) == ""


@pytest.mark.deep
@pytest.mark.parametrize("agent", CLIENTS)
def test_of_turns_that_were_cut_in_a_row_and_of_those_without_files(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "start")
    hand = Hand(repo, agent)
    hand.ask("hello")
    hand.stop("hello")
    hand.ask(ONE, "f1")
    hand.ask("are you there?")
    hand.ask(TWO, "f2")
    hand.ask(THREE, "f3")
    hand.stop(THREE)
    for name, asked in (("f1", ONE), ("f2", TWO), ("f3", THREE)):
        told(repo, name, asked, *{ONE, TWO, THREE} - {asked})
    recorded = agent in ("opencode", "kilo")  # of a database it is not known what it will tell
    assert f"turn {2 if recorded else 5}  {THREE}" in repo.ok("log").out and log_of(repo) == ""
    heard = [one["text"] for one in repo.ok("show", "--json").json["checkpoint"]["observed"]["asked"]]
    assert heard[-4:] == [ONE, "are you there?", TWO, THREE] and len(heard) <= 5
    hand.ask("one more", "f4")
    hand.stop("one more")
    assert f"turn {3 if recorded else 6}  one more" in repo.ok("log").out, "and none is counted twice"


@pytest.mark.deep
@pytest.mark.parametrize("agent", CLIENTS)
def test_of_a_new_session_after_one_that_was_cut(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "start")
    Hand(repo, agent, "one").ask(ONE, "f1")
    other = Hand(repo, agent, "two")
    other.fire("start")
    other.ask(TWO, "f2")
    other.stop(TWO)
    told(repo, "f1", ONE, TWO)
    told(repo, "f2", TWO, ONE)
    assert log_of(repo) == ""


@pytest.mark.deep
def test_of_a_turn_after_one_that_was_cut_where_both_are_on_record_or_the_newest_is_not_yet(
    repo: Sandbox, tmp_path: Path
) -> None:
    snap(repo, "t", "start")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    for asked, name in ((ONE, "f1"), (TWO, "f2"), (THREE, "f3")):
        talk.fire("prompt", prompt=asked)
        if asked != THREE:
            talk.ask(asked)
        talk.edit(name, f"{name}\n")
        if asked != ONE:
            talk.stop()
    for name, asked in (("f1", ONE), ("f2", TWO), ("f3", THREE)):
        told(repo, name, asked, *{ONE, TWO, THREE} - {asked})
    assert f"turn 3  {THREE}" in repo.ok("log").out and log_of(repo) == ""


@pytest.mark.deep
@pytest.mark.parametrize("later", [False, True], ids=["no file after it", "a file after it"])
@pytest.mark.parametrize("first", [False, True], ids=["a turn before", "the first of all"])
def test_of_a_turn_before_a_command_that_destroys(repo: Sandbox, later: bool, first: bool) -> None:
    hand = Hand(repo)
    repo.ok("agent", "install", "claude")
    commit(repo, "settings")
    if not first:
        hand.ask(ONE, "f1")
        hand.stop()
    hand.ask(TWO, "f2", "build/x")
    hand.guard("rm -rf build")
    why = repo.ok("why", "f2:1").out
    assert f"  prompt   {TWO}\n" in why and ONE not in why and "said" not in why, why
    assert f"- {TWO} (2 files)\n" in repo.ok("summary").out
    midst = repo.ok("show", "--json").json["checkpoint"]["id"]
    assert f": {TWO}" in repo.ok("show", midst).out
    assert "would remove f2\n" in repo.ok("revert", midst, "--dry-run").out
    if later:
        repo.write("f3", "f3\n")
    hand.stop()
    told(repo, "f2", TWO, ONE)
    assert f"- {TWO} ({3 if later else 2} files)\n" in repo.ok("summary").out
    assert repo.ok("summary").out.count(TWO) == 1 and log_of(repo) == ""


@pytest.mark.deep
def test_a_command_that_destroys_makes_no_checkpoint_of_words_alone(repo: Sandbox) -> None:
    repo.write("build/x", "x\n")
    snap(repo, "t", "start")
    hand = Hand(repo)
    hand.ask(ONE)
    hand.guard("rm -rf build")
    assert "before 'rm" not in repo.ok("log", "--no-fold").out


@pytest.mark.deep
@pytest.mark.parametrize("agent", CLIENTS)
def test_of_a_commit_that_was_made_in_the_turn(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "start")
    hand = Hand(repo, agent)
    hand.ask(ONE, "f1")
    commit(repo, "feat: f1")
    repo.write("f2", "f2\n")
    hand.stop(ONE)
    told(repo, "f1", ONE)
    why = repo.ok("why", "f1:1").out
    assert f"  turn     1 of t, now, {agent}\n" in why and "git show " in why
    assert f"turn 1  {ONE}" in repo.ok("blame", "f1").out and " commit " in repo.ok("blame", "f1").out


@pytest.mark.deep
def test_a_commit_of_before_a_turn_or_by_hand_after_it_is_none_of_its(repo: Sandbox) -> None:
    snap(repo, "t", "start")
    hand = Hand(repo)
    repo.write("mine", "mine\n")
    repo.write("both", "1\n")
    commit(repo, "mine")
    hand.ask(ONE, "f1")
    hand.stop()
    repo.write("later", "later\n")
    commit(repo, "later")
    hand.ask(TWO, "f2")
    hand.stop()
    for name in ("mine", "later", "both"):
        document = repo.ok("why", f"{name}:1", "--json").json
        assert "turn" not in document and "prompt" not in repo.ok("why", f"{name}:1").out, name


@pytest.mark.deep
def test_a_line_of_a_commit_that_was_amended_is_still_of_its_turn(repo: Sandbox) -> None:
    repo.commit("base", base="base\n")
    snap(repo, "t", "start")
    hand = Hand(repo)
    hand.ask(ONE, "f1")
    commit(repo, "feat: f1")
    hand.stop()
    repo.git("commit", "-q", "--amend", "-m", "feat: the first file")
    why = repo.ok("why", "f1:1").out
    assert "came with commit" in why and f"  prompt   {ONE}\n" in why
