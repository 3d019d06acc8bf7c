"""Factory's droid: the baton is in the request after start, in a session that goes on, after a compaction and a cold start."""

from __future__ import annotations

from tests.clients.client_droid import FULL, Droid
from tests.clients.judge import MOVED, assert_checkpoints, assert_once, assert_quiet, assert_told
from tests.clients.model import Reply


def test_the_baton_is_there_after_start_and_cold_start_and_where_a_session_goes_on(droid: Droid) -> None:
    shop, model = droid.workshop, droid.model
    shop.install("droid")
    model.will_say(droid.writes("hello.txt"), Reply("Done."))
    droid.ask("Create hello.txt")
    assert_told(model.turns[0], MOVED, "validation: green")
    assert_once(model.turns[0])
    shop.drift()
    model.will_say(droid.writes("two.txt"), Reply("Going on."))
    droid.ask("And two.txt", "--fork", droid.session)
    assert_told(model.turns[2], MOVED)
    shop.drift()
    droid.ask("And anew")
    assert_told(model.turns[-1], MOVED)
    steps = [c["step"] for c in reversed(shop.checkpoints())][1:]
    assert [step for step in steps if step.startswith("turn ended")] == [
        "turn ended: Create hello.txt",
        "turn ended: Create hello.txt; last prompt: And two.txt",
        "turn ended: And anew",
    ]
    assert_checkpoints(shop, *steps)
    assert_quiet(shop, model)


def test_last_words_and_prompts_are_those_of_its_transcript(droid: Droid) -> None:
    shop, model = droid.workshop, droid.model
    shop.install("droid")
    run = Reply("Running.", "Execute", {"command": "exit 3", "riskLevel": "low", "riskLevelReason": "x", "summary": "run"})
    model.will_say(droid.writes("hello.txt"), run, Reply("It is half done."))
    droid.ask("Create hello.txt")
    told = shop.repo.ok("resume", "--json").json["told"]
    assert told["said"]["text"] == told["worked"]["text"] == "It is half done."
    assert [one["text"] for one in told["asked"]] == ["Create hello.txt"]
    assert [(ran["command"], ran["status"]) for ran in told["commands"]] == [("exit 3", 3)]
    assert_quiet(shop, model)


def test_a_subagent_takes_no_checkpoint_and_is_told_nothing(droid: Droid) -> None:
    shop, model = droid.workshop, droid.model
    shop.install("droid")
    task = {"subagent_type": "worker", "description": "a part", "prompt": "Look around", "await": True}
    model.will_say(Reply("Delegating.", "Task", task), Reply("Done."))
    model.child_will_say("Do it well", droid.writes("child.txt"), Reply("I am the child."))
    droid.ask("Do it well")
    steps = [c["step"] for c in shop.checkpoints()]
    assert not any("Task Tool" in step for step in steps) and steps[0] == "turn ended: Do it well", steps
    assert {run.payload["session_id"] for run in shop.hooks("Stop")} > {droid.session}
    assert {c["agent"]["session"] for c in shop.checkpoints() if c["agent"]} == {droid.session}
    assert_quiet(shop, model)


def test_hooks_of_the_project_and_of_the_user_act_once(droid: Droid) -> None:
    shop, model = droid.workshop, droid.model
    shop.install("droid")
    shop.install("droid", "--user")
    model.will_say(droid.writes("hello.txt"), Reply("Done."))
    droid.ask("Create hello.txt")
    assert_told(model.turns[0], MOVED)
    assert_once(model.turns[0])
    assert [c["step"] for c in shop.checkpoints()].count("turn ended: Create hello.txt") == 1
    assert_quiet(shop, model)


def test_the_baton_is_there_after_a_compaction(droid: Droid) -> None:
    shop, model = droid.workshop, droid.model
    shop.install("droid")
    model.will_say(Reply("All right."), droid.writes("two.txt", used=FULL), droid.writes("three.txt"), Reply("Going on."))
    droid.converse(["one", "two", "three"])
    summary = next(request for request in model.requests if request.kind == "side" and "summarize" in request.text)
    after = [request for request in model.turns if request.number > summary.number]
    assert_told(after[-1])
    assert_quiet(shop, model)
