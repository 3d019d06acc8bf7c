"""A transcript as Claude Code writes one, record by record: what the agent was asked, said, ran, edited and planned."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.kit.agents import Client
from tests.kit.repos import Sandbox


class Talk:
    """A session of a client in a repository and its transcript, written as things happen."""

    def __init__(self, repo: Sandbox, path: Path, session: str = "5e551011-0000-4000-8000-000000000001") -> None:
        self.repo, self.path, self.client = repo, path, Client("claude", repo.path, session=session)
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.now = self.clock()
        self.ids = itertools.count(1)
        self.last: str | None = None
        self.cwd: Path | None = None  # where the client's shell is; in the repository where that is None

    def record(self, kind: str, content: Any, **more: Any) -> None:
        """One line of the transcript."""
        self.now = max(self.now + timedelta(milliseconds=1), self.clock())
        at = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        record: dict[str, Any] = {
            "type": kind,
            "isSidechain": False,
            "uuid": f"u{next(self.ids)}",
            "parentUuid": self.last,
            "timestamp": at,
            "cwd": str(self.cwd or self.repo.path),
        }
        record |= more
        self.last = self.last if record["isSidechain"] else str(record["uuid"])
        with self.path.open("a") as file:
            message = {"role": kind, "content": content, **record.pop("message", {})}
            file.write(json.dumps({**record, "message": message}) + "\n")

    def ask(self, text: str) -> str | None:
        """The user says something; the record before it, which ``back`` can lead to."""
        before = self.last
        self.record("user", [{"type": "text", "text": text}])
        return before

    def back(self, to: str | None) -> None:
        """The user takes back what came after a record."""
        self.last = to

    def compacted(self) -> None:
        """The conversation is compacted: its summary follows what was said before."""
        before = self.last
        self.last = None
        self.record("system", "Conversation compacted", subtype="compact_boundary", logicalParentUuid=before)
        self.record("user", "This session is being continued.", isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def attach(self, text: str) -> None:
        """The user says something while the agent is at work."""
        self.record("attachment", None, attachment={"type": "queued_command", "prompt": text, "commandMode": "prompt"})

    def say(self, text: str) -> None:
        """The agent says something."""
        self.record("assistant", [{"type": "text", "text": text}])

    def answer(self, key: str, read: int, wrote: int, cached: int = 0, model: str = "claude-opus-4-5", **more: Any) -> None:
        """A part of an answer to a request, with the tokens that the client knows of by then."""
        used = {"input_tokens": read, "output_tokens": wrote, "cache_read_input_tokens": cached}
        told = {"id": key, "model": model, "usage": {**used, "cache_creation_input_tokens": 0}}
        self.record("assistant", [{"type": "text", "text": f"part {next(self.ids)}"}], message=told, **more)

    def call(self, name: str, given: dict[str, Any], output: str = "", status: int = 0, **more: Any) -> None:
        """A tool is called, and ends."""
        key = f"toolu_{next(self.ids)}"
        self.record("assistant", [{"type": "tool_use", "id": key, "name": name, "input": given}], **more)
        text = output if not status else f"Exit code {status}\n{output}"
        result = {"type": "tool_result", "tool_use_id": key, "content": text, "is_error": bool(status)}
        self.record("user", [result], toolUseResult=f"Error: {text}" if status else {"stdout": output}, **more)

    def run(self, command: str, output: str = "", status: int = 0) -> None:
        """A command is run."""
        self.call("Bash", {"command": command}, output, status)

    def edit(self, name: str, text: str) -> None:
        """A file is written, and the client's own tool says so."""
        self.repo.write(name, text)
        self.call("Write", {"file_path": str(self.repo.path / name), "content": text})

    def plan(self, **items: str) -> None:
        """The agent writes its plan: what, and how far it is, in the client's words."""
        self.call("TodoWrite", {"todos": [{"content": text, "status": state} for text, state in items.items()]})

    def fire(self, event: str, **fields: Any) -> str:
        """A hook of the client, by our word for the event; the text that reaches the model."""
        return self.client.fire(event, transcript_path=str(self.path), **fields)

    def stop(self) -> dict[str, Any]:
        """The turn ends; what the newest checkpoint of the only track holds."""
        self.fire("turn", last_assistant_message=None)
        found: dict[str, Any] = json.loads(self.repo.ok("resume", "--json").out)
        return found
