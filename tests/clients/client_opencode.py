"""OpenCode as a test drives it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.model import Model, Reply
from tests.clients.workshop import Workshop
from tests.kit import Outcome

FULL = 99_000
REGISTRY = "/npm"  # where the client looks for a package beside our plugin; there is none


def config(url: str) -> dict[str, Any]:
    model = {"name": "Scripted", "limit": {"context": 100_000, "output": 8_000}, "tool_call": True}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "Scripted", "models": {"model": model}}
    provider["options"] = {"baseURL": f"{url}/v1", "apiKey": "none"}
    whole: dict[str, Any] = {"autoupdate": False, "share": "disabled", "permission": "allow"}
    whole |= {"model": "scripted/model", "small_model": "scripted/model", "provider": {"scripted": provider}}
    whole["enabled_providers"] = ["scripted"]  # others are asked for their models
    return whole


class OpenCode:
    """OpenCode in a workshop, with a scripted model of its own provider."""

    name = "opencode"

    def __init__(self, program: str, workshop: Workshop, model: Model) -> None:
        self.program, self.workshop, self.model = program, workshop, model
        self.env = {f"{self.name.upper()}_DISABLE_{what}": "1" for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")}
        self.env |= {"npm_config_registry": model.url + REGISTRY}
        settings = workshop.home / ".config" / self.name / f"{self.name}.json"
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
