"""Codex as a test drives it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.model import Model
from tests.clients.workshop import Dialogue, Workshop
from tests.kit import Outcome

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

    def ask(self, prompt: str, *options: str, resume: bool = False, session: str = "", cwd: Path | None = None) -> Outcome:
        """One process, one prompt; in the last session, or in one that is named."""
        verb = ("exec", "resume", session or "--last") if resume or session else ("exec",)
        done = self.workshop.run(self.program, *verb, FREE, *options, prompt, env=self.env, cwd=cwd)
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
