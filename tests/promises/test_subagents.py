"""Subagents in work trees of their own: captured at their start and end, on tracks below the parent's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos, checkpoints, log_of, ours, steps, tracks, untouched
from tests.kit.state import snap

TASK = "Write the docs of the parser\nand no more"


def delegated(client: Client, event: str, place: Path, number: int, **fields: Any) -> None:
    """What Claude Code says of a subagent; it says nothing back."""
    records = client.home / f"agent-{number}.jsonl"
    told = {"type": "user", "isSidechain": True, "rowSource": "recorded", "message": {"role": "user", "content": TASK}}
    records.write_text(json.dumps({"type": "summary"}) + "\n" + json.dumps({**told, "uuid": "u", "parentUuid": None}) + "\n")
    more = {"agent_transcript_path": str(records), "last_assistant_message": "Done."} if event == "SubagentStop" else {}
    payload = client.payload(event, cwd=str(place), agent_id=f"a{number}", agent_type="general-purpose", **more, **fields)
    sent = client.send(event, payload, cwd=place)
    assert (sent.code, sent.out, sent.err) == (0, "", ""), sent


def work_tree(repo: Sandbox, number: int) -> Sandbox:
    """A work tree as the client makes it for a subagent."""
    place = repo.path / f".claude/worktrees/agent-a{number}"
    repo.git("worktree", "add", "-q", "-b", f"worktree-agent-a{number}", str(place))
    return Sandbox(place)


def test_what_a_reaper_deletes_comes_back_with_who_did_it(repo: Sandbox) -> None:
    snap(repo, "parser", "S")
    client = Client("claude", repo.path)
    client.asked("mend it")
    state = untouched(repo)
    own = checkpoints(repo, "parser")
    places = [work_tree(repo, number) for number in (1, 2, 3)]
    for number, place in enumerate(places, 1):
        delegated(client, "SubagentStart", place.path, number)
    assert tracks(repo) == ["parser"], "nothing is there yet that its parent's commit does not hold"
    for number, place in enumerate(places, 1):
        place.write("docs.md", f"docs {number}\n")
        if number == 3:
            place.git("add", "docs.md")
            place.git("commit", "-qm", "docs")
        delegated(client, "SubagentStop", place.path, number)
    assert tracks(repo) == ["parser", *(f"parser%2Fagent-{number}" for number in (1, 2, 3))]
    assert checkpoints(repo, "parser") == own and untouched(repo)[1] == state[1], "the parent's are as they were"
    for number, place in enumerate(places, 1):
        (only,) = autos(repo, f"parser%2Fagent-{number}")
        assert only["step"] == "subagent ended: Write the docs of the parser"
        assert only["agent"]["name"] == "claude" and only["agent"]["session"] == client.session
        repo.git("worktree", "remove", "--force", str(place.path))
        repo.git("branch", "-qD", f"worktree-agent-a{number}")
        repo.ok("worktree", f"../back-{number}", f"parser/agent-{number}")
        assert (repo.path.parent / f"back-{number}/docs.md").read_text() == f"docs {number}\n"
    client.fire("turn")
    assert steps(autos(repo, "parser"))[-1:] in ([], ["turn ended: mend it"]) and log_of(repo) == ""


@pytest.mark.deep
def test_a_subagent_goes_on_with_its_track_and_one_beside_takes_the_next(repo: Sandbox) -> None:
    snap(repo, "parser", "S")
    client = Client("claude", repo.path)
    one, two = work_tree(repo, 1), work_tree(repo, 2)
    one.write("a.txt", "dirty at its start\n")
    delegated(client, "SubagentStart", one.path, 1)
    assert steps(autos(repo, "parser%2Fagent-1")) == ["subagent started: general-purpose"]
    two.write("b.txt", "two\n")
    delegated(client, "SubagentStop", two.path, 2)
    one.write("a.txt", "more\n")
    delegated(client, "SubagentStop", one.path, 1)
    delegated(client, "SubagentStop", one.path, 1)
    assert steps(autos(repo, "parser%2Fagent-1"))[1:] == ["subagent ended: Write the docs of the parser"]
    assert len(autos(repo, "parser%2Fagent-2")) == 1


def test_one_in_its_parents_work_tree_is_the_parents_turn(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "parser", "S")
    client = Client("claude", repo.path)
    repo.write("src/a.py", "by the subagent\n")
    refs = ours(repo)
    for event in ("SubagentStart", "SubagentStop"):
        delegated(client, event, repo.path / "src", 1)
    other = Sandbox.begun(tmp_path / "other")
    snap(other, "t", "S")
    other.write("x.txt", "x")
    delegated(client, "SubagentStop", other.path, 1)
    repo.git("config", "baton.auto", "compact")
    beside = work_tree(repo, 1)
    beside.write("x.txt", "x")
    delegated(client, "SubagentStop", beside.path, 1)
    assert ours(repo) == refs and tracks(other) == ["t"] and len(checkpoints(other, "t")) == 1
