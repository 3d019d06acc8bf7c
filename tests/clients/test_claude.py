"""Claude Code: the baton is in the request after start, compaction and cold start."""

from __future__ import annotations

import json

import pytest

from tests.clients.client_claude import FULL, Claude
from tests.clients.judge import BEFORE, MOVED, assert_checkpoints, assert_once, assert_quiet, assert_told, told
from tests.clients.model import Reply


def test_the_baton_is_there_after_start_compaction_and_cold_start(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    model.will_say(claude.writes("hello.txt"), Reply("Done."), Reply("Going on."))
    claude.converse("Create hello.txt", "/compact keep the parser", "go on")
    first, second, after = model.turns
    assert_told(first, MOVED, "validation: green")
    assert_told(second, MOVED)
    assert len(model.summaries) == 1
    assert_told(after, "1 commit since")
    assert MOVED not in told(after), "the checkpoint of before the compaction is of now"
    assert_once(after)
    task = "turn ended: Create hello.txt"
    steps = [BEFORE, task, f"{task}; last prompt: go on"]
    assert_checkpoints(shop, *steps)
    shop.drift()
    claude.ask("What next?", "--continue")
    assert_told(model.turns[-1], MOVED)
    shop.drift()
    claude.ask("And anew")
    assert_told(model.turns[-1], MOVED)
    assert_once(model.turns[-1])
    assert_checkpoints(shop, *steps, BEFORE, f"{task}; last prompt: What next?", BEFORE, "turn ended: And anew")
    assert [run.payload["source"] for run in shop.hooks("SessionStart")] == ["startup", "compact", "resume", "startup"]
    assert_quiet(shop, model)


@pytest.mark.parametrize("auto", ["off", "turn"])
def test_the_baton_is_there_after_an_automatic_compaction_in_mid_turn(claude: Claude, auto: str) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    shop.repo.git("config", "baton.auto", auto)
    model.will_say(claude.writes("hello.txt", used=FULL), Reply("Going on."))
    claude.ask("Create hello.txt")
    before, after = model.turns
    assert (before.number, model.summaries[0].number, after.number) == (1, 2, 3)
    assert_told(before, MOVED)
    assert_told(after, *([MOVED] if auto == "off" else ["1 commit since"]))
    assert_once(after)
    assert_checkpoints(shop, *([] if auto == "off" else [BEFORE, "before compaction (auto)", "turn ended: Create hello.txt"]))
    assert_quiet(shop, model)


def test_installed_for_the_user_it_works_from_a_subdirectory(claude: Claude) -> None:
    shop = claude.workshop
    shop.install("claude", "--user")
    claude.ask("Create hello.txt", cwd=shop.repo.path / "src")
    assert_told(claude.model.turns[0], MOVED)
    assert_checkpoints(shop, BEFORE, "turn ended: Create hello.txt")
    assert_quiet(shop, claude.model)


def test_installed_twice_it_speaks_once(claude: Claude) -> None:
    shop = claude.workshop
    shop.install("claude", "--user")
    shop.install("claude", "--project")
    claude.ask("Create hello.txt")
    assert_once(claude.model.turns[0])
    assert len(shop.hooks("SessionStart")) == 1


def test_other_hooks_go_on_and_ours_are_gone_after_uninstall(claude: Claude) -> None:
    shop = claude.workshop
    theirs = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo their own words"}]}]}}
    shop.repo.write(".claude/settings.json", json.dumps(theirs, indent=3))
    shop.install("claude")
    claude.ask("one")
    shop.run(str(shop.bin / "git-baton"), "agent", "uninstall", "claude")
    count = len(shop.hooks())
    claude.ask("two")
    both, one = claude.model.turns
    assert "their own words" in both.text and told(both)
    assert "their own words" in one.text and not told(one)
    assert len(shop.hooks()) == count
    assert json.loads((shop.repo.path / ".claude/settings.json").read_text()) == theirs
