"""Qwen Code as a test drives it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.clients.model import Answer, Model, Reply
from tests.clients.speech_chat import Chat
from tests.clients.workshop import Workshop
from tests.kit import Outcome

FULL = 195_000  # tokens: the window has 200,000
SETTINGS = {
    "general": {"enableAutoUpdate": False},
    "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False, "enableAutoSkill": False},
    "privacy": {"usageStatisticsEnabled": False},
    "security": {"auth": {"selectedType": "openai"}},
}


class Summing(Chat):
    """Its summary counts as one of all that was said: else the client finds that it saved nothing."""

    def __init__(self) -> None:
        super().__init__("reason in your <analysis> block")

    def say(self, path: str, body: Any, reply: Reply, number: int) -> Answer:
        """As the protocol puts it."""
        summary = self.kind(path, body) == "summary"
        return super().say(path, body, replace(reply, used=FULL) if summary else reply, number)


class Qwen:
    """Qwen Code in a workshop, with a scripted model of its own provider."""

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{model.url}/v1", "OPENAI_MODEL": "scripted"}
        self.planning(True)

    def planning(self, on: bool) -> None:
        """Whether it offers its tool for plans, which it does not by itself."""
        settings = self.workshop.home / ".qwen" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(json.dumps({**SETTINGS, "tools": {"todoWrite": {"enabled": on}}}))

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Outcome:
        """One process, one prompt."""
        done = self.workshop.run(self.program, "--yolo", *options, "-p", prompt, env=self.env, cwd=cwd)
        assert done.code == 0, done
        return done

    def writes(self, name: str, used: int = 1_000) -> Reply:
        """The model wants a file written."""
        path = self.workshop.repo.path / name
        return Reply("Writing.", "write_file", {"file_path": str(path), "content": f"{name}\n"}, used)
