"""What a turn is, and a session: the task outlives "continue please", a subagent ends no turn, who has left is not at work."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitbaton.agents.client import read
from tests.kit import Sandbox
from tests.kit.agents import CLIENTS, Client, autos, checkpoints, injected, log_of, steps
from tests.kit.state import snap
from tests.promises.test_agent_deadline import lock_held

NOTICE = "<task-notification>\n<task-id>b2eekv33h</task-id>\n<status>failed</status> with exit code 7\n</task-notification>"
TASK = "Mend the parser"
LONG = "I like the tone. No section over 120 words, please: nobody reads more than that, and those who do skip the examples."


def work(repo: Sandbox, client: Client, prompt: str | None) -> str:
    """A turn that changes a file; the step of its checkpoint."""
    repo.write("work.txt", f"{len(checkpoints(repo, 't'))}\n")
    if prompt is None:
        client.fire("turn")
    else:
        client.turn(prompt)
    return steps(autos(repo, "t"))[-1]


@pytest.mark.full
@pytest.mark.parametrize("agent", CLIENTS)
def test_the_first_prompt_is_the_task_and_the_last_one_is_told_too(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "S")
    client = Client(agent, repo.path)
    assert work(repo, client, f"{TASK}\nand its tests") == f"turn ended: {TASK}"
    assert work(repo, client, "continue please") == f"turn ended: {TASK}; last prompt: continue please"
    client.fire("compact")
    client.fire("start")
    assert work(repo, client, "go on") == f"turn ended: {TASK}; last prompt: go on"
    assert work(repo, client, TASK) == f"turn ended: {TASK}"
    other = Client(agent, repo.path, session="other")
    assert work(repo, other, "And anew") == "turn ended: And anew", "another session has a task of its own"
    assert log_of(repo) == ""


@pytest.mark.full
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_cleared_session_begins_anew(repo: Sandbox, agent: str) -> None:
    snap(repo, "t", "S")
    client = Client(agent, repo.path)
    work(repo, client, TASK)
    client.fire("start", source="clear")
    assert work(repo, client, "Another task") == "turn ended: Another task"


@pytest.mark.full
def test_the_task_of_a_session_that_an_older_version_knew(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt=TASK)
    (left,) = (repo.path / ".git" / "baton" / "sessions").iterdir()
    older = {k: v for k, v in json.loads(left.read_bytes()).items() if k not in ("task", "ended")}
    left.write_text(json.dumps(older))
    assert work(repo, client, None) == f"turn ended: {TASK}"
    assert work(repo, client, "continue please") == f"turn ended: {TASK}; last prompt: continue please"


@pytest.mark.deep
def test_long_prompts_leave_room_for_each_other(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    assert work(repo, client, "t" * 500) == "turn ended: " + "t" * 297 + "..."
    said = work(repo, client, "l" * 500)
    assert said == "turn ended: " + "t" * 197 + "...; last prompt: " + "l" * 82 + "..." and len(said) == 312


@pytest.mark.full
def test_a_long_prompt_is_cut_where_a_sentence_ends(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    assert work(repo, client, f"{LONG} {LONG} One line each: {'w' * 200}") == f"turn ended: {LONG} {LONG} ..."
    client = Client("claude", repo.path, session="5e551011-0000-4000-8000-00000000000e")
    more = f"{LONG} And Words is a list at the end."
    assert work(repo, client, f"{more} One line each: {'w' * 200}") == f"turn ended: {more} One line each: {'w' * 133}..."
    assert work(repo, client, "ok") == f"turn ended: {more} ...; last prompt: ok"


@pytest.mark.deep
@pytest.mark.parametrize("agent", CLIENTS)
def test_a_notice_of_the_client_is_not_the_users(repo: Sandbox, agent: str) -> None:
    """A background command's end comes as a prompt, also before the first one."""
    snap(repo, "t", "S")
    client = Client(agent, repo.path)
    client.fire("prompt", prompt=NOTICE)
    assert work(repo, client, None) == "turn ended"
    assert work(repo, client, TASK) == f"turn ended: {TASK}"
    client.fire("prompt", prompt="\n " + NOTICE)
    assert work(repo, client, None) == f"turn ended: {TASK}"


@pytest.mark.parametrize("event", ["agentStop", "userPromptSubmitted", "postToolUse", "Stop", "preCompact"])
@pytest.mark.parametrize("name", ["agentId", "agent_id"])
def test_events_of_a_copilot_subagent_are_a_childs(event: str, name: str) -> None:
    told: dict[str, Any] = {"sessionId": "561499a2", "cwd": "/repo", "prompt": "SUBAGENT-TASK", "parentAgentId": "1e64e48e"}
    found = [read("copilot", event, json.dumps({**told, name: id}).encode(), {}) for id in ("561499a2", "")]
    assert [each.child for each in found if each] == [True, False]


@pytest.mark.full
def test_a_copilot_subagents_end_is_not_the_end_of_the_turn(repo: Sandbox) -> None:
    """As recorded: its events carry its own id as that of the session."""
    snap(repo, "t", "S")
    client = Client("copilot", repo.path, session="1e64e48e")
    sub = {"sessionId": "561499a2", "agentId": "561499a2", "agentType": "general-purpose", "parentAgentId": "1e64e48e"}
    client.fire("prompt", prompt="Do it with a helper")
    before = len(checkpoints(repo, "t"))
    for number, moment in enumerate(("prompt", "edit", "compact", "turn")):
        repo.write("work.txt", f"sub {number}\n")
        assert client.fire(moment, **{"prompt": "SUBAGENT-TASK: look", "stopReason": "end_turn", **sub}) == ""
    assert len(checkpoints(repo, "t")) == before
    client.fire("turn", stopReason="end_turn")
    assert steps(autos(repo, "t")) == ["turn ended: Do it with a helper"]
    assert "nother session" not in client.fire("start", source="resume")
    fresh = Client("copilot", repo.path, session="3fe735fd").fire("start")
    assert fresh.count("nother session") == 1, "the parent's, which has not ended; none of the subagent"


@pytest.mark.full
@pytest.mark.parametrize("agent", CLIENTS)
def test_who_has_ended_properly_is_not_at_work(repo: Sandbox, agent: str) -> None:
    """Also where nothing changed between the last turn and the end, so that no checkpoint says so."""
    snap(repo, "t", "S")
    theirs, mine = Client(agent, repo.path, session="theirs"), Client("claude", repo.path, session="mine")
    theirs.fire("start")
    work(repo, theirs, TASK)
    assert "may still be at work here" in mine.fire("start")
    count = len(checkpoints(repo, "t"))
    theirs.fire("end")
    assert len(checkpoints(repo, "t")) == count
    assert "nother session" not in mine.fire("start")
    theirs.fire("start")  # resumed
    assert "may still be at work here" in mine.fire("start")
    theirs.fire("end")
    theirs.fire("prompt", prompt="continue please")
    assert "may still be at work here" in mine.fire("start")


@pytest.mark.full
def test_the_same_with_checkpoints_switched_off(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    theirs, mine = Client("claude", repo.path, session="theirs"), Client("claude", repo.path, session="mine")
    work(repo, theirs, TASK)
    repo.git("config", "baton.auto", "off")
    theirs.fire("end")
    assert "nother session" not in mine.fire("start")


@pytest.mark.full
def test_a_session_of_another_work_tree_has_ended_too(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    place = repo.path.parent / "linked"
    repo.git("worktree", "add", "-q", "-b", "side", str(place))
    theirs, mine = Client("claude", place, session="theirs"), Client("claude", repo.path, session="mine")
    Sandbox(place).write("work.txt", "x\n")
    theirs.turn(TASK)
    repo.ok("tracks", "use", "side")
    assert "may still be at work here" in mine.fire("start")
    theirs.fire("end")
    assert "nother session" not in mine.fire("start")


@pytest.mark.full
def test_a_session_that_moved_to_another_work_tree_has_ended_where_it_was_last(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    place = repo.path.parent / "linked"
    repo.git("worktree", "add", "-q", "-b", "side", str(place))
    theirs, mine = Client("claude", repo.path, session="theirs"), Client("claude", repo.path, session="mine")
    work(repo, theirs, TASK)
    assert "may still be at work here" in mine.fire("start")
    Client("claude", place, session="theirs").fire("end")
    assert "nother session" not in mine.fire("start")
    theirs.fire("start")
    assert "may still be at work here" in mine.fire("start")


def said(repo: Sandbox, *words: str) -> str:
    """What a verb prints."""
    done = repo.baton(*words)
    assert done.code == 0, done.err
    return done.out


@pytest.mark.deep
def test_what_was_typed_between_two_turns_is_no_turns(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="first")
    repo.write("a.txt", "by the first\n")
    client.fire("turn")
    repo.write("a.txt", "by the first\nby hand\n")
    client.fire("prompt", prompt="second")
    repo.write("a.txt", "by the first\nby hand\nby the second\n")
    client.fire("turn")
    client.fire("prompt", prompt="third, after nothing")
    assert steps(autos(repo, "t")) == ["turn ended: first", "before a prompt (auto)", "turn ended: first; last prompt: second"]
    assert repo.git("show", "refs/baton/tracks/t~1:a.txt") == "by the first\nby hand"
    assert "changed before a prompt, in no turn" in said(repo, "why", "a.txt:2")
    assert "second" not in said(repo, "why", "a.txt:2")


@pytest.mark.deep
def test_an_interrupted_turn_keeps_its_own_edits(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="first")
    repo.write("a.txt", "by the first\n")
    client.fire("prompt", prompt="second")  # no end was heard of
    repo.write("a.txt", "by the first\nby the second\n")
    client.fire("turn")
    assert steps(autos(repo, "t")) == ["turn not ended: first", "turn ended: first; last prompt: second"]
    assert repo.git("show", "refs/baton/tracks/t~1:a.txt") == "by the first"


@pytest.mark.deep
def test_the_state_before_the_first_turn_can_be_had_again(repo: Sandbox) -> None:
    (repo.path / ".git" / "baton").mkdir(parents=True, exist_ok=True)
    repo.write("mine.txt", "not committed\n")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="first")
    repo.write("mine.txt", "spoilt\n")
    client.fire("turn")
    said(repo, "restore", "@~1")
    assert (repo.path / "mine.txt").read_text() == "not committed\n"


@pytest.mark.full
def test_turns_of_a_session_without_records_are_told_apart_by_their_own_prompts(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    for prompt in ("first", "second", "third"):
        work(repo, client, prompt)
    listed = said(repo, "log", "t")
    assert "turn ended: third" in listed and "turn ended: second" in listed and "last prompt" not in listed


@pytest.mark.full
def test_why_says_that_the_checkpoint_of_a_line_may_have_gone(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    for prompt in ("first", "second"):
        client.fire("prompt", prompt=prompt)
        repo.write("a.txt", f"by the {prompt}\n" if prompt == "first" else "by the first\nby the second\n")
        client.fire("turn")
    assert "perhaps" not in said(repo, "why", "a.txt:1")
    said(repo, "prune", "--keep-last", "1", "t")
    assert "perhaps  of an earlier one: those before it were removed" in said(repo, "why", "a.txt:1")


@pytest.mark.deep
def test_a_prompt_that_is_late_takes_nothing_of_the_turn(repo: Sandbox) -> None:
    """The agent is at work by the time that somebody else's lock is free again."""
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    repo.write("hand.txt", "by hand\n")
    with lock_held(repo):
        done = client.send("UserPromptSubmit", client.payload("UserPromptSubmit", prompt="first"))
    assert injected("claude", "UserPromptSubmit", done) == ""
    repo.write("agent.txt", "by the agent\n")
    client.fire("turn")
    assert steps(autos(repo, "t")) == ["turn ended: first"]


@pytest.mark.deep
def test_what_a_prompt_finds_of_another_sessions_turn_is_that_turns(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    one, other = Client("claude", repo.path), Client("codex", repo.path, session="5e551011-0000-4000-8000-00000000000f")
    one.fire("prompt", prompt="first")
    repo.write("a.txt", "by the first\n")
    other.fire("prompt", prompt="second")
    one.fire("turn")
    assert steps(autos(repo, "t")) == ["turn not ended: first", "turn ended: first"]
    assert {taken["agent"]["name"] for taken in autos(repo, "t")} == {"claude"}
    assert "first" in said(repo, "why", "a.txt:1") and "second" not in said(repo, "why", "a.txt:1")


@pytest.mark.deep
def test_the_turn_of_a_killed_session_is_not_the_next_ones(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    killed, after = Client("claude", repo.path), Client("claude", repo.path, session="5e551011-0000-4000-8000-00000000000f")
    killed.fire("prompt", prompt="first")
    repo.write("a.txt", "by the first\n")
    after.fire("start")
    after.fire("prompt", prompt="second")
    repo.write("a.txt", "by the first\nby the second\n")
    after.fire("turn")
    assert steps(autos(repo, "t")) == ["turn not ended: first", "turn ended: second"]
    assert "  prompt   first\n" in said(repo, "why", "a.txt:1") and "second" in said(repo, "why", "a.txt:2")


@pytest.mark.deep
@pytest.mark.parametrize("source", ["compact", "resume"])
def test_a_session_that_goes_on_in_the_midst_of_a_turn_is_still_in_it(repo: Sandbox, source: str) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="first")
    client.fire("start", source=source)
    repo.write("a.txt", "by the first\n")
    client.fire("prompt", prompt="second")
    assert steps(autos(repo, "t")) == ["turn not ended: first"]


@pytest.mark.deep
def test_a_session_whose_name_begins_like_anothers_is_another(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    killed, after = Client("claude", repo.path, session="s10"), Client("claude", repo.path, session="s1")
    killed.fire("prompt", prompt="first")
    repo.write("a.txt", "by the first\n")
    after.fire("prompt", prompt="second")
    assert steps(autos(repo, "t")) == ["turn not ended: first"]


@pytest.mark.deep
def test_words_that_somebody_wrote_are_no_turns(repo: Sandbox) -> None:
    repo.write("a.txt", "mine\n")
    for step in ("turn not ended: forged", "before a prompt (auto)"):
        repo.write("a.txt", f"{step}\n")
        snap(repo, "t", step)
        told = said(repo, "why", "a.txt:1")
        assert f"  step     {step}\n" in told and "perhaps" not in told and "by hand" not in told
