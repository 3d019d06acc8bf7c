"""Codex: the baton is in the request after start, compaction and cold start; its trust is what installing with --trust left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.judge import MOVED, assert_checkpoints, assert_once, assert_quiet, assert_told, told
from tests.clients.model import Model, Reply, serving
from tests.clients.speech_responses import Responses
from tests.clients.workshop import Dialogue, Workshop, find
from tests.support import Outcome

CONFIG = """model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[projects."{project}"]
trust_level = "trusted"
"""
PATCH = "*** Begin Patch\n*** Add File: {name}\n+{name}\n*** End Patch\n"
FREE = "--dangerously-bypass-approvals-and-sandbox"  # of the client's own sandbox, in a temporary folder
BYPASS = "--dangerously-bypass-hook-trust"
SMALL = ("-c", "model_auto_compact_token_limit=50000")


class Codex:
    """Codex in a workshop, with a scripted model, in a project that it trusts."""

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = {"SCRIPTED_KEY": "none"}
        config = workshop.home / ".codex" / "config.toml"
        config.parent.mkdir()
        config.write_text(CONFIG.format(url=model.url, project=workshop.repo.path))

    def install(self, *words: str) -> None:
        """``agent install codex``, with codex on PATH."""
        path = f"{Path(self.program).parent}:{self.workshop.env['PATH']}"
        self.workshop.install("codex", *words, env={**self.env, "PATH": path})

    def ask(self, prompt: str, *options: str, resume: bool = False) -> Outcome:
        """One process, one prompt."""
        verb = ("exec", "resume", "--last") if resume else ("exec",)
        done = self.workshop.run(self.program, *verb, FREE, *options, prompt, env=self.env)
        assert done.code == 0, done
        return done

    @contextmanager
    def server(self) -> Iterator[Thread]:
        """A conversation with the app server, as an editor holds it."""
        with self.workshop.talk(self.program, "app-server", env=self.env) as dialogue:
            yield Thread(dialogue, self.workshop.repo.path)
            assert dialogue.end() == 0


class Thread:
    """A thread of Codex's app server."""

    def __init__(self, dialogue: Dialogue, folder: Path) -> None:
        self.dialogue, self.count = dialogue, 0
        self._call("initialize", {"clientInfo": {"name": "test", "version": "1"}})
        dialogue.say({"method": "initialized"})
        options = {"cwd": str(folder), "approvalPolicy": "never", "sandbox": "danger-full-access"}
        self.id = self._call("thread/start", options)["thread"]["id"]

    def _call(self, method: str, params: Any) -> Any:
        self.count += 1
        number = self.count
        self.dialogue.say({"id": number, "method": method, "params": params})
        return self.dialogue.wait(lambda heard: heard.get("id") == number)["result"]

    def ask(self, prompt: str) -> None:
        """One turn."""
        self._call("turn/start", {"threadId": self.id, "input": [{"type": "text", "text": prompt}]})
        self.dialogue.wait(lambda heard: heard.get("method") == "turn/completed")

    def compact(self) -> None:
        """What ``/compact`` does."""
        self._call("thread/compact/start", {"threadId": self.id})
        self.dialogue.wait(lambda heard: heard.get("method") == "turn/completed")


@pytest.fixture
def codex(workshop: Workshop, tmp_path: Path) -> Iterator[Codex]:
    program = find("codex")
    if program is None:
        pytest.skip("no codex on PATH or in GITBATON_TEST_CLIENTS")
    with serving(Responses(), tmp_path / "requests") as model:
        yield Codex(program, workshop, model)


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
    assert_told(after, "drift: none", "2 commits")
    assert_once(after)
    shop.drift()
    codex.ask("And anew")
    assert_told(model.turns[-1], MOVED)
    assert_once(model.turns[-1])
    steps = ("turn ended: Create hello.txt", "before compaction (auto)", "turn ended: And anew")
    assert_checkpoints(shop, *steps)
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
    assert_told(after, MOVED.replace("1", "2") if auto == "off" else MOVED)
    assert_once(after)
    assert_checkpoints(shop, *([] if auto == "off" else ["turn ended: one", "turn ended: two"]))
    assert_quiet(shop, model)


def test_without_trust_codex_runs_no_hook_of_ours(codex: Codex) -> None:
    codex.install()
    codex.ask("one")
    assert not codex.workshop.hooks() and not told(codex.model.turns[0])
    codex.ask("two", BYPASS)
    assert_told(codex.model.turns[1], MOVED)
