"""Copilot CLI as a test drives it."""

from __future__ import annotations

from pathlib import Path

from tests.clients.model import Model, Reply
from tests.clients.workshop import Workshop
from tests.kit import Outcome

WINDOW = 100_000
FULL = 97_000


class Copilot:
    """Copilot CLI in a workshop, with a scripted model of its own provider."""

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = {"COPILOT_PROVIDER_BASE_URL": f"{model.url}/v1", "COPILOT_MODEL": "scripted"}
        self.env |= {"COPILOT_PROVIDER_MAX_PROMPT_TOKENS": str(WINDOW), "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS": "8000"}
        self.env |= {"COPILOT_OFFLINE": "true", "COPILOT_ALLOW_ALL": "true", "COPILOT_AUTO_UPDATE": "false"}

    def ask(self, prompt: str, *options: str, cwd: Path | None = None) -> Outcome:
        """One process, one prompt."""
        done = self.workshop.run(self.program, *options, "-p", prompt, env=self.env, cwd=cwd)
        assert done.code == 0, done
        return done

    def writes(self, name: str, used: int = 1_000) -> Reply:
        """The model wants a file written."""
        path = self.workshop.repo.path / name
        return Reply("Writing.", "create", {"path": str(path), "file_text": f"{name}\n"}, used)
