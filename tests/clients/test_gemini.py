"""Gemini CLI: the baton is in the request after start, compression and cold start."""

from __future__ import annotations

from tests.clients.client_gemini import Gemini
from tests.clients.judge import BEFORE, MOVED, REMINDER, assert_checkpoints, assert_quiet, assert_told
from tests.clients.model import Reply


def test_the_baton_is_there_after_start_compression_and_cold_start(gemini: Gemini) -> None:
    shop, model = gemini.workshop, gemini.model
    shop.install("gemini")
    model.will_say(gemini.writes("hello.txt"), Reply("Done."))
    gemini.ask("Create hello.txt")
    assert len(model.turns) == 2 and not model.summaries
    for title in ({}, {"title": REMINDER}):
        assert_told(model.turns[0], MOVED, **title)
    shop.drift()
    model.will_say(gemini.writes("two.txt"), Reply("Going on."))
    gemini.ask("And two.txt", "--resume", "latest")
    assert model.summaries[0].number < model.turns[2].number
    for request in model.turns[2:4]:
        assert_told(request, MOVED)
        assert_told(request, MOVED, title=REMINDER)
    shop.drift()
    model.will_say(gemini.writes("three.txt"), Reply("Done anew."))
    gemini.ask("And anew")
    assert_told(model.turns[-2], MOVED)
    prompts = ("Create hello.txt", "Create hello.txt; last prompt: And two.txt", "And anew")
    found = [c["step"] for c in reversed(shop.checkpoints())][1:]
    assert [s for s in found if s != "before a request to the model (auto)"] == [
        s for p in prompts for s in (BEFORE, f"turn ended: {p}")
    ]
    assert_checkpoints(shop, *found)
    assert_quiet(shop, model)


def test_installed_for_the_user_it_works_from_a_subdirectory(gemini: Gemini) -> None:
    shop = gemini.workshop
    shop.install("gemini", "--user")
    gemini.ask("Create hello.txt", cwd=shop.repo.path / "src")
    assert_told(gemini.model.turns[0], MOVED)
    assert shop.checkpoints()[0]["kind"] == "auto"
    assert_quiet(shop, gemini.model)
