"""Gemini CLI: the baton is in the request after start, compression and cold start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.judge import MOVED, REMINDER, assert_checkpoints, assert_quiet, assert_told
from tests.clients.model import Model, Reply, serving
from tests.clients.speech_gemini import Generate
from tests.clients.workshop import Workshop, client
from tests.kit import Outcome

SETTINGS = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "model": {"compressionThreshold": 0.0001},
}


class Gemini:
    """Gemini CLI in a workshop, with a scripted model; it compresses whenever there is something to compress."""

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": model.url}
        self.env |= {"GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_TELEMETRY_ENABLED": "false"}
        settings = workshop.home / ".gemini" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps(SETTINGS))

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Outcome:
        """One process, one prompt."""
        words = ("--approval-mode", "yolo", "-m", "gemini-2.5-pro", *options, "-p", prompt)
        done = self.workshop.run(self.program, *words, env=self.env, cwd=cwd)
        assert done.code == 0, done
        return done

    def writes(self, name: str) -> Reply:
        """The model wants a file written; it claims that the window is nearly full."""
        path = self.workshop.repo.path / name
        return Reply("Writing.", "write_file", {"file_path": str(path), "content": f"{name}\n"}, used=1_040_000)


@pytest.fixture
def gemini(workshop: Workshop, tmp_path: Path) -> Iterator[Gemini]:
    with serving(Generate(), tmp_path / "requests") as model:
        yield Gemini(client("gemini"), workshop, model)


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
    assert [s for s in found if s != "before a request to the model (auto)"] == [f"turn ended: {p}" for p in prompts]
    assert_checkpoints(shop, *found)
    assert_quiet(shop, model)


def test_installed_for_the_user_it_works_from_a_subdirectory(gemini: Gemini) -> None:
    shop = gemini.workshop
    shop.install("gemini", "--user")
    gemini.ask("Create hello.txt", cwd=shop.repo.path / "src")
    assert_told(gemini.model.turns[0], MOVED)
    assert shop.checkpoints()[0]["kind"] == "auto"
    assert_quiet(shop, gemini.model)
