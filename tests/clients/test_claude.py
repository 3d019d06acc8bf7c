"""Claude Code: the baton is in the request after start, compaction and cold start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.judge import MOVED, assert_checkpoints, assert_once, assert_quiet, assert_told, told
from tests.clients.model import Model, Reply, serving
from tests.clients.speech_anthropic import Messages
from tests.clients.workshop import Workshop, find
from tests.support import Outcome

FULL = 985_000  # tokens: the window is a million


class Claude:
    """Claude Code in a workshop, with a scripted model."""

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-none"}
        self.env |= dict.fromkeys(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"), "1")
        self.env |= dict.fromkeys(("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"), "1")

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Outcome:
        """One process, one prompt."""
        words = ("-p", prompt, "--permission-mode", "acceptEdits", *options)
        done = self.workshop.run(self.program, *words, env=self.env, cwd=cwd)
        assert done.code == 0, done
        return done

    def converse(self, *prompts: str) -> None:
        """One process, one prompt after the other."""
        words = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        with self.workshop.talk(self.program, *words, "--permission-mode", "acceptEdits", env=self.env) as client:
            for prompt in prompts:
                client.say({"type": "user", "message": {"role": "user", "content": prompt}})
                assert client.wait(lambda heard: heard["type"] == "result")["subtype"] == "success"
            assert client.end() == 0

    def writes(self, name: str, used: int = 1_000) -> Reply:
        """The model wants a file written."""
        path = self.workshop.repo.path / name
        return Reply("Writing.", "Write", {"file_path": str(path), "content": f"{name}\n"}, used)


@pytest.fixture
def claude(workshop: Workshop, tmp_path: Path) -> Iterator[Claude]:
    program = find("claude")
    if program is None:
        pytest.skip("no claude on PATH or in GITBATON_TEST_CLIENTS")
    with serving(Messages(), tmp_path / "requests") as model:
        yield Claude(program, workshop, model)


def test_the_baton_is_there_after_start_compaction_and_cold_start(claude: Claude) -> None:
    shop, model = claude.workshop, claude.model
    shop.install("claude")
    model.will_say(claude.writes("hello.txt"), Reply("Done."), Reply("Going on."))
    claude.converse("Create hello.txt", "/compact keep the parser", "go on")
    first, second, after = model.turns
    assert_told(first, MOVED, "validation: green")
    assert_told(second, MOVED)
    assert len(model.summaries) == 1
    assert_told(after, "drift: none", "1 commit")
    assert_once(after)
    steps = ["turn ended: Create hello.txt"]
    assert_checkpoints(shop, *steps)
    shop.drift()
    claude.ask("What next?", "--continue")
    assert_told(model.turns[-1], MOVED)
    shop.drift()
    claude.ask("And anew")
    assert_told(model.turns[-1], MOVED)
    assert_once(model.turns[-1])
    assert_checkpoints(shop, *steps, "turn ended: What next?", "turn ended: And anew")
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
    assert_told(after, *([MOVED] if auto == "off" else ["drift: none", "1 commit"]))
    assert_once(after)
    assert_checkpoints(shop, *([] if auto == "off" else ["before compaction (auto)"]))
    assert_quiet(shop, model)


def test_installed_for_the_user_it_works_from_a_subdirectory(claude: Claude) -> None:
    shop = claude.workshop
    shop.install("claude", "--user")
    claude.ask("Create hello.txt", cwd=shop.repo.path / "src")
    assert_told(claude.model.turns[0], MOVED)
    assert_checkpoints(shop, "turn ended: Create hello.txt")
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
