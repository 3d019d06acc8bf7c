"""Gemini CLI as a test drives it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.model import Model, Reply
from tests.clients.workshop import Workshop
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

    def compresses(self, at: float) -> None:
        """Only when so much of the window is full."""
        path = self.workshop.home / ".gemini" / "settings.json"
        path.write_text(json.dumps({**SETTINGS, "model": {"compressionThreshold": at}}))

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
