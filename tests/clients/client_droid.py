"""Factory's droid as a test drives it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.clients.model import Model, Reply
from tests.clients.workshop import Workshop

WINDOW = 100_000
FULL = 195_000


class Droid:
    """The droid in a workshop, with a scripted model of its own provider."""

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = {"FACTORY_AIRGAP_ENABLED": "true", "FACTORY_API_KEY": "fk-none"}
        own = {"model": "scripted", "displayName": "scripted", "baseUrl": model.url, "apiKey": "none", "provider": "anthropic"}
        settings = workshop.home / ".factory" / "settings.json"
        settings.parent.mkdir()
        whole = {"compactionTokenLimit": WINDOW, "customModels": [{**own, "maxOutputTokens": 8000}]}
        settings.write_text(json.dumps(whole, indent=2))
        self.options: tuple[str, ...] = ("--model", "custom:scripted", "--auto", "high")
        self.session = ""

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Any:
        """One process, one prompt; offline it goes on with a session only as a fork of that."""
        words = ("exec", *self.options, "-o", "json", *options, prompt)
        done = self.workshop.run(self.program, *words, env=self.env, cwd=cwd)
        assert done.code == 0, done
        found = json.loads(done.out)
        self.session = found["session_id"]
        return found

    def converse(self, prompts: Sequence[str]) -> None:
        """One process, one prompt after the other."""
        words = ("exec", *self.options, "--input-format", "stream-json", "-o", "stream-json")
        lines = "".join(json.dumps({"role": "user", "content": prompt}) + "\n" for prompt in prompts)
        done = self.workshop.run(self.program, *words, env=self.env, stdin=lines)
        assert done.code == 0, done

    def writes(self, name: str, used: int = 1_000) -> Reply:
        """The model wants a file written."""
        path = self.workshop.repo.path / name
        return Reply("Writing.", "Create", {"file_path": str(path), "content": f"{name}\n"}, used)
