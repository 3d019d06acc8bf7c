"""Codex: the baton is in the request after start, compaction and cold start; its trust is what installing with --trust left."""

from __future__ import annotations

import pytest

from tests.clients.client_codex import BYPASS, FREE, PATCH, SMALL, Codex
from tests.clients.judge import BEFORE, MOVED, assert_checkpoints, assert_once, assert_quiet, assert_told, skill, told
from tests.clients.model import Reply
from tests.kit import Sandbox


def test_the_baton_is_there_after_start_compaction_and_cold_start(codex: Codex) -> None:
    shop, model = codex.workshop, codex.model
    codex.install("--trust")
    model.will_say(Reply("Writing.", "apply_patch", PATCH.format(name="hello.txt")), Reply("Done."))
    codex.ask("Create hello.txt")
    assert_told(model.turns[0], MOVED, "validation: green")
    shop.drift()
    model.will_say(Reply("Writing.", "exec_command", {"cmd": "echo two > two.txt"}, used=240_000), Reply("Going on."))
    codex.ask("And two.txt", *SMALL, resume=True)
    _, _, resumed, after = model.turns
    assert_told(resumed, MOVED)
    assert resumed.number < model.summaries[0].number < after.number
    assert_told(after, "2 commits since")
    assert_once(after)
    shop.drift()
    codex.ask("And anew")
    assert_told(model.turns[-1], MOVED)
    assert_once(model.turns[-1])
    first, last = "turn ended: Create hello.txt", "turn ended: And anew"
    second = f"{first}; last prompt: And two.txt"
    assert_checkpoints(shop, BEFORE, first, BEFORE, "before compaction (auto)", second, BEFORE, last)
    assert [run.payload["source"] for run in shop.hooks("SessionStart")] == ["startup", "resume", "compact", "startup"]
    assert_quiet(shop, model)


@pytest.mark.parametrize("auto", ["off", "turn"])
def test_the_baton_is_there_after_a_compaction_that_the_user_asks_for(codex: Codex, auto: str) -> None:
    shop, model = codex.workshop, codex.model
    codex.install("--trust")
    shop.repo.git("config", "baton.auto", auto)
    with codex.server() as thread:
        thread.ask("one")
        thread.compact()
        shop.drift()
        thread.ask("two")
    first, after = model.turns
    assert first.number < model.summaries[0].number < after.number
    assert_told(first, MOVED)
    assert_told(after, MOVED if auto == "off" else "since")
    assert_once(after)
    assert_checkpoints(
        shop, *([] if auto == "off" else [BEFORE, "turn ended: one", BEFORE, "turn ended: one; last prompt: two"])
    )
    assert_quiet(shop, model)


def test_without_trust_codex_runs_no_hook_of_ours(codex: Codex) -> None:
    codex.install()
    codex.ask("one")
    assert not codex.workshop.hooks() and not told(codex.model.turns[0])
    codex.ask("two", BYPASS)
    assert_told(codex.model.turns[1], MOVED)


def test_killed_in_mid_turn_the_next_one_knows_what_was_edited(codex: Codex) -> None:
    shop, model = codex.workshop, codex.model
    codex.install("--trust")
    shop.repo.git("config", "baton.auto", "edit")
    model.will_say(Reply("Writing.", "apply_patch", PATCH.format(name="hello.txt")), Reply(never=True))
    with shop.talk(codex.program, "exec", FREE, "Create hello.txt", env=codex.env) as client:
        client.hang_up()
        model.await_turns(2)
    assert_checkpoints(shop, BEFORE, "after an edit")
    shop.drift()
    codex.ask("What now?", resume=True)
    assert_told(model.turns[-1], MOVED, "cut in the midst of a turn", ": Create hello.txt", "edited hello.txt")
    assert_quiet(shop, model)


def test_it_works_from_a_subdirectory_and_offers_the_skill_and_the_instructions(codex: Codex) -> None:
    shop = codex.workshop
    codex.install("--trust", "--agents-md")
    codex.ask("hello", cwd=shop.repo.path / "src")
    first = codex.model.turns[0]
    assert_told(first, MOVED)
    assert skill(shop, ".agents/skills") in first.text
    assert (shop.repo.path / "AGENTS.md").read_text().strip() in first.text
    assert_quiet(shop, codex.model)


def test_a_second_work_tree_has_a_track_of_its_own(codex: Codex) -> None:
    shop, model = codex.workshop, codex.model
    codex.install("--user", "--trust")
    second = Sandbox(shop.folder / "second")
    shop.repo.git("worktree", "add", "-q", "-b", "feature", str(second.path))
    before = shop.repo.git("rev-parse", "refs/baton/tracks/work")
    model.will_say(Reply("Writing.", "apply_patch", PATCH.format(name="hello.txt")), Reply("Done."))
    codex.ask("Create hello.txt", cwd=second.path)
    assert not told(model.turns[0])
    assert shop.repo.git("rev-parse", "refs/baton/tracks/work") == before
    made = second.ok("log", "feature", "--json").json["checkpoints"]
    assert [(c["kind"], c["step"]) for c in made] == [("auto", "turn ended: Create hello.txt")]
    assert_quiet(shop, model)
