"""Claude Code as a test drives it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.model import Model, Reply
from tests.clients.workshop import Workshop
from tests.kit import Outcome

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

    def converse(self, *prompts: str, options: Sequence[str] = ()) -> None:
        """One process, one prompt after the other."""
        words = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        with self.workshop.talk(self.program, *words, "--permission-mode", "acceptEdits", *options, env=self.env) as client:
            for prompt in prompts:
                client.say({"type": "user", "message": {"role": "user", "content": prompt}})
                assert client.wait(lambda heard: heard["type"] == "result")["subtype"] == "success"
            assert client.end() == 0

    @contextmanager
    def deciding(self, decide: Callable[[str], str | None], *options: str) -> Iterator[Callable[[str], None]]:
        """One process, as an editor holds it: each call is a prompt. ``decide`` is asked whether a tool may run: it gives the
        words of a no, or None for a yes."""
        words = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
        with self.workshop.talk(self.program, *words, "--permission-prompt-tool", "stdio", *options, env=self.env) as client:

            def ask(prompt: str) -> None:
                client.say({"type": "user", "message": {"role": "user", "content": prompt}})
                while (heard := client.wait(lambda one: one["type"] in ("result", "control_request")))["type"] != "result":
                    client.say(_answer(heard, decide))
                assert heard["subtype"] == "success", heard

            yield ask
            assert client.end() == 0

    def trusts_the_folder(self) -> None:
        """What is left when the questions of a first start on a terminal have been answered with yes."""
        folder = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        answers = {"hasCompletedOnboarding": True, "theme": "dark", "projects": {str(self.workshop.repo.path): folder}}
        answers["customApiKeyResponses"] = {"approved": [self.env["ANTHROPIC_API_KEY"][-20:]], "rejected": []}
        (self.workshop.home / ".claude.json").write_text(json.dumps(answers))

    def writes(self, name: str, used: int = 1_000) -> Reply:
        """The model wants a file written."""
        path = self.workshop.repo.path / name
        return Reply("Writing.", "Write", {"file_path": str(path), "content": f"{name}\n"}, used)


def _answer(asked: Any, decide: Callable[[str], str | None]) -> dict[str, Any]:
    no = decide(asked["request"]["tool_name"])
    said = (
        {"behavior": "allow", "updatedInput": asked["request"]["input"]} if no is None else {"behavior": "deny", "message": no}
    )
    return {
        "type": "control_response",
        "response": {"subtype": "success", "request_id": asked["request_id"], "response": said},
    }
