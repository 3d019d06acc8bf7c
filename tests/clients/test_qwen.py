"""Qwen Code: the baton is in the request after start, resume, compaction and cold start, and one turn is one turn."""

from __future__ import annotations

from tests.clients.client_qwen import FULL, Qwen
from tests.clients.judge import BEFORE, MOVED, SINCE, assert_checkpoints, assert_once, assert_quiet, assert_told
from tests.clients.model import Reply


def test_the_baton_is_there_after_start_compaction_and_cold_start(qwen: Qwen) -> None:
    shop, model = qwen.workshop, qwen.model
    shop.install("qwen")
    model.will_say(qwen.writes("hello.txt"), Reply("Done."))
    qwen.ask("Create hello.txt")
    for request in model.turns:
        assert_told(request, MOVED, "validation: green")
    shop.drift()
    model.will_say(qwen.writes("two.txt", used=FULL), Reply("Going on."))
    qwen.ask("And two.txt", "--continue")
    resumed, after = model.turns[2], model.turns[-1]
    assert resumed.number < model.summaries[0].number < after.number
    assert_told(resumed, MOVED)
    assert_told(after, MOVED)
    assert_once(after)
    shop.drift()
    qwen.ask("And anew")
    assert_told(model.turns[-1], MOVED)
    prompts = [run.payload["prompt"] for run in shop.hooks("UserPromptSubmit")]
    assert prompts == ["Create hello.txt", "", "And two.txt", "", "And anew"]
    steps = [c["step"] for c in reversed(shop.checkpoints())][1:]
    assert [step for step in steps if step != "before compaction (auto)"] == [
        step
        for prompt in ("Create hello.txt", "Create hello.txt; last prompt: And two.txt", "And anew")
        for step in (BEFORE, f"turn ended: {prompt}")
    ]
    assert_checkpoints(shop, *steps)
    assert_quiet(shop, model)


def test_a_command_of_its_own_in_between_is_no_turn(qwen: Qwen) -> None:
    shop = qwen.workshop
    shop.install("qwen")
    qwen.ask("Look around")
    before = shop.checkpoints()
    qwen.ask("/about", "--continue")
    assert shop.checkpoints() == before
    qwen.ask("/compress", "--continue")
    qwen.ask("Go on with it", "--continue")
    assert_told(qwen.model.turns[-1], SINCE)
    assert_quiet(shop, qwen.model)


def test_hooks_of_the_project_and_of_the_user_act_once(qwen: Qwen) -> None:
    shop, model = qwen.workshop, qwen.model
    shop.install("qwen")
    shop.install("qwen", "--user")
    model.will_say(qwen.writes("hello.txt"), Reply("Done."))
    qwen.ask("Create hello.txt")
    assert_told(model.turns[0], MOVED)
    assert_once(model.turns[0])
    assert [c["step"] for c in reversed(shop.checkpoints())][1:] == [BEFORE, "turn ended: Create hello.txt"]
    assert_quiet(shop, model)
