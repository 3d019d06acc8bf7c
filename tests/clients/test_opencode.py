"""OpenCode: the baton is in the request after start, compaction and cold start, put there by our plugin."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.judge import MOVED, assert_checkpoints, assert_quiet, assert_told
from tests.clients.model import Model, Reply, serving
from tests.clients.speech_chat import Chat
from tests.clients.workshop import Workshop, client
from tests.kit import Outcome

FULL = 99_000
REGISTRY = "/npm"  # where the client looks for a package beside our plugin; there is none


def config(url: str) -> dict[str, Any]:
    model = {"name": "Scripted", "limit": {"context": 100_000, "output": 8_000}, "tool_call": True}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Scripted", "models": {"model": model}}
    provider["options"] = {"baseURL": f"{url}/v1", "apiKey": "none"}
    whole: dict[str, Any] = {"autoupdate": False, "share": "disabled", "permission": "allow"}
    whole |= {"model": "scripted/model", "small_model": "scripted/model", "provider": {"scripted": provider}}
    return whole


class OpenCode:
    """OpenCode in a workshop, with a scripted model of its own provider."""

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = dict.fromkeys(("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH"), "1")
        self.env |= {"OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "npm_config_registry": model.url + REGISTRY}
        settings = workshop.home / ".config" / "opencode" / "opencode.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(config(model.url)))

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Outcome:
        """One process, one prompt."""
        done = self.workshop.run(self.program, "run", *options, prompt, env=self.env, cwd=cwd)
        assert done.code == 0, done
        return done

    @contextmanager
    def server(self) -> Iterator[Session]:
        """A session of its server, as its other faces hold it."""
        with self.workshop.talk(self.program, "serve", "--port", "0", env=self.env) as dialogue:
            line = dialogue.wait_line(lambda text: "listening on http" in text)
            yield Session(line.split()[-1])

    def writes(self, name: str, used: int = 1_000) -> Reply:
        """The model wants a file written."""
        path = self.workshop.repo.path / name
        return Reply("Writing.", "write", {"filePath": str(path), "content": f"{name}\n"}, used)


class Session:
    """A session of OpenCode's server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.id = self._post("", {})["id"]

    def _post(self, path: str, body: Any) -> Any:
        address, kind = f"{self.url}/session{path}", {"Content-Type": "application/json"}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(address, json.dumps(body).encode(), kind), timeout=120) as answer:
            return json.loads(answer.read())

    def ask(self, prompt: str) -> None:
        """One turn."""
        self._post(f"/{self.id}/message", {"parts": [{"type": "text", "text": prompt}]})

    def compact(self) -> None:
        """What ``/compact`` does."""
        assert self._post(f"/{self.id}/summarize", {"providerID": "scripted", "modelID": "model"}) is True


@pytest.fixture
def opencode(workshop: Workshop, tmp_path: Path) -> Iterator[OpenCode]:
    with serving(Chat("anchored summary"), tmp_path / "requests") as model:
        yield OpenCode(client("opencode"), workshop, model)


def assert_at_peace(opencode: OpenCode) -> None:
    model = opencode.model
    model.strays = [stray for stray in model.strays if REGISTRY not in stray]
    assert_quiet(opencode.workshop, model)


def test_the_baton_is_there_after_start_compaction_and_cold_start(opencode: OpenCode) -> None:
    shop, model = opencode.workshop, opencode.model
    shop.install("opencode")
    model.will_say(opencode.writes("hello.txt"), Reply("Done."))
    opencode.ask("Create hello.txt")
    assert_told(model.turns[0], MOVED, "validation: green")
    shop.drift()
    model.will_say(opencode.writes("two.txt", used=FULL), Reply("Going on."))
    opencode.ask("And two.txt", "--continue")
    resumed, after = model.turns[2], model.turns[-1]
    assert resumed.number < model.summaries[0].number < after.number
    assert_told(resumed, MOVED)
    assert_told(model.summaries[0])
    assert_told(after, "drift: head-ahead:2", "2 commits")
    shop.drift()
    opencode.ask("And anew", cwd=shop.repo.path / "src")
    assert_told(model.turns[-1], MOVED)
    found = [c["step"] for c in reversed(shop.checkpoints())][1:]
    expected = ['turn ended: "Create hello.txt"', "before compaction (auto)", 'turn ended: "And anew"']  # its own quotes
    assert [found[0], found[1], found[-1]] == expected
    assert_checkpoints(shop, *found)
    assert_at_peace(opencode)


def test_the_baton_is_there_after_a_compaction_that_the_user_asks_for(opencode: OpenCode) -> None:
    shop, model = opencode.workshop, opencode.model
    shop.install("opencode")
    with opencode.server() as session:
        session.ask("one")
        session.compact()
        shop.drift()
        session.ask("two")
    first, *_, after = model.turns
    assert first.number < model.summaries[0].number < after.number
    assert_told(first, MOVED)
    assert_told(after, MOVED)
    assert_at_peace(opencode)
