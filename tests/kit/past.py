"""Sessions that a client has on record from before: transcripts of each client, with prompts, edits and commits really made."""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from gitbaton.agents.claude import folder_of
from tests.kit.repos import Sandbox

CLIENTS = ("claude", "codex", "gemini", "opencode", "copilot")
SESSION = "aaaa1111-0000-4000-8000-00000000000"


def home() -> Path:
    return Path(os.environ["HOME"])


class Past:
    """A session of a client that worked in a folder ``ago`` seconds ago, written line by line as that client writes."""

    def __init__(
        self, repo: Sandbox, client: str = "claude", *, number: int = 1, place: str | None = None, ago: int = 7200
    ) -> None:
        self.repo, self.client, self.session = repo, client, f"{SESSION}{number}"
        self.place = place or str(repo.path)
        self.now = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=ago)
        self.count, self.last = 0, None if client == "claude" else ""
        self.path = self._path()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._begin()

    def _path(self) -> Path:
        day = f"{self.now:%Y-%m-%dT%H-%M-%S}"
        return (
            home()
            / {
                "claude": f".claude/projects/{folder_of(self.place)}/{self.session}.jsonl",
                "codex": f".codex/sessions/{self.now:%Y/%m/%d}/rollout-{day}-{self.session}.jsonl",
                "gemini": f".gemini/tmp/repo/chats/session-{day[:16]}-{self.session[:8]}.jsonl",
                "copilot": f".copilot/session-state/{self.session}/events.jsonl",
                "opencode": ".local/share/opencode/opencode.db",
            }[self.client]
        )

    def _begin(self) -> None:
        if self.client == "codex":
            meta = {"id": self.session, "cwd": self.place, "source": "cli", "git": {"branch": "main"}}
            self._line({"type": "session_meta", "payload": meta})
        elif self.client == "gemini":
            digest = sha256(os.fsencode(self.place)).hexdigest()
            self._line({"sessionId": self.session, "projectHash": digest, "kind": "main"})
        elif self.client == "copilot":
            data = {"sessionId": self.session, "context": {"cwd": self.place, "branch": "main"}}
            self._line({"type": "session.start", "data": data, "id": "e0"})
        elif self.client == "opencode":
            self._run("CREATE TABLE IF NOT EXISTS session (id, parent_id, directory, time_created)")
            self._run("CREATE TABLE IF NOT EXISTS message (id, session_id, time_created, time_updated, data)")
            self._run("CREATE TABLE IF NOT EXISTS part (id, message_id, session_id, time_created, time_updated, data)")
            self._run("INSERT INTO session VALUES (?, NULL, ?, ?)", self.session, self.place, self._ms())

    def _ms(self) -> int:
        return int(self.now.timestamp() * 1000)

    def _run(self, sql: str, *given: object) -> None:
        with sqlite3.connect(self.path) as database:
            database.execute(sql, given)

    def _line(self, record: dict[str, Any]) -> None:
        self.now += timedelta(seconds=1)
        at = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        with self.path.open("a") as file:
            file.write(json.dumps({"timestamp": at, **record}) + "\n")

    def _part(self, role: str, data: dict[str, Any]) -> None:
        self.count += 1
        self.now += timedelta(seconds=1)
        message = f"m{self.session[-1]}{self.count:04}"
        self._run(
            "INSERT INTO message VALUES (?,?,?,?,?)", message, self.session, self._ms(), self._ms(), json.dumps({"role": role})
        )
        row = f"p{message}", message, self.session, self._ms(), self._ms(), json.dumps(data)
        self._run("INSERT INTO part VALUES (?,?,?,?,?,?)", *row)

    def claude(self, kind: str, content: Any, **more: Any) -> None:
        """One record as Claude Code writes it."""
        self.count += 1
        key = f"{self.session[-1]}-u{self.count}"
        record = {"type": kind, "isSidechain": False, "uuid": key, "parentUuid": self.last, "sessionId": self.session}
        record |= {"cwd": self.place, "gitBranch": "main", "message": {"role": kind, "content": content}, **more}
        self.last = key
        self._line(record)

    def ask(self, text: str) -> None:
        """The user says something."""
        if self.client == "claude":
            self.claude("user", text)
        elif self.client == "codex":
            self._item("user", "input_text", text)
            self._line({"type": "event_msg", "payload": {"type": "user_message", "message": text}})
        elif self.client == "gemini":
            self._message("user", text)
        elif self.client == "copilot":
            self._event("user.message", {"content": text})
        else:
            self._part("user", {"type": "text", "text": text})

    def say(self, text: str) -> None:
        """The agent says something."""
        if self.client == "claude":
            self.claude("assistant", [{"type": "text", "text": text}])
        elif self.client == "codex":
            self._item("assistant", "output_text", text)
            self._line({"type": "event_msg", "payload": {"type": "agent_message", "message": text}})
        elif self.client == "gemini":
            self._message("gemini", text)
        elif self.client == "copilot":
            self._event("assistant.message", {"content": text})
        else:
            self._part("assistant", {"type": "text", "text": text})

    def _item(self, role: str, kind: str, text: str) -> None:
        payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
        self._line({"type": "response_item", "payload": payload})

    def _message(self, kind: str, content: str, **more: Any) -> None:
        self.count += 1
        self._line({"id": f"g{self.count}", "type": kind, "content": content, **more})

    def _event(self, kind: str, data: dict[str, Any]) -> None:
        self.count += 1
        self._line({"type": kind, "data": data, "id": f"e{self.count}"})

    def run(self, command: str, output: str) -> None:
        """A command is run, and prints something."""
        key = f"call{self.count}"
        if self.client == "claude":
            self.claude("assistant", [{"type": "tool_use", "id": key, "name": "Bash", "input": {"command": command}}])
            self.claude(
                "user", [{"type": "tool_result", "tool_use_id": key, "content": output}], toolUseResult={"stdout": output}
            )
        elif self.client == "codex":
            item = {"type": "CommandExecution", "id": key, "command": command, "status": "completed", "exit_code": 0}
            times = {"started_at_ms": self._ms(), "completed_at_ms": self._ms() + 1000}
            item["aggregated_output"] = output
            self._line({"type": "event_msg", "payload": {"type": "item_completed", "item": item, **times}})
        elif self.client == "gemini":
            at = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            answer = {"functionResponse": {"response": {"output": f"Output: {output}\nProcess Group PGID: 1"}}}
            call = {"id": key, "name": "run_shell_command", "args": {"command": command}, "status": "success", "timestamp": at}
            self._message("gemini", "", toolCalls=[{**call, "result": [answer], "resultDisplay": output}])
        elif self.client == "copilot":
            self._event("tool.execution_start", {"toolCallId": key, "toolName": "bash", "arguments": {"command": command}})
            done = {"toolCallId": key, "success": True, "result": {"content": output}, "shellExecution": {"exitCode": 0}}
            self._event("tool.execution_complete", done)
        else:
            times = {"start": self._ms(), "end": self._ms() + 1000}
            state = {
                "status": "completed",
                "input": {"command": command},
                "output": output,
                "metadata": {"exit": 0},
                "time": times,
            }
            self._part("assistant", {"type": "tool", "tool": "bash", "callID": key, "state": state})

    def edit(self, name: str, text: str) -> None:
        """A file is written by the client's own tool."""
        path, key = str(self.repo.write(name, text)), f"call{self.count}"
        if self.client == "claude":
            given = {"file_path": path, "content": text}
            self.claude("assistant", [{"type": "tool_use", "id": key, "name": "Write", "input": given}])
            self.claude("user", [{"type": "tool_result", "tool_use_id": key, "content": "ok"}], toolUseResult={"stdout": ""})
        elif self.client == "codex":
            item = {"type": "FileChange", "id": key, "changes": {path: {"type": "add"}}, "status": "completed"}
            times = {"started_at_ms": self._ms(), "completed_at_ms": self._ms() + 1000}
            self._line({"type": "event_msg", "payload": {"type": "item_completed", "item": item, **times}})
        elif self.client == "gemini":
            at = self.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            args: Any = {"file_path": path, "content": text}
            call = {"id": key, "name": "write_file", "args": args, "status": "success", "timestamp": at}
            self._message("gemini", "", toolCalls=[{**call, "result": [{"functionResponse": {"response": {"output": "ok"}}}]}])
        elif self.client == "copilot":
            asked = {"toolCallId": key, "toolName": "create", "arguments": {"path": path, "file_text": text}}
            self._event("tool.execution_start", asked)
            done: Any = {"toolCallId": key, "success": True, "fileEdits": [{"path": path, "kind": "create"}]}
            self._event("tool.execution_complete", {**done, "result": {"content": "ok"}})
        else:
            times = {"start": self._ms(), "end": self._ms() + 1000}
            state = {"status": "completed", "input": {"filePath": path}, "output": "ok", "metadata": {}, "time": times}
            self._part("assistant", {"type": "tool", "tool": "write", "callID": key, "state": state})

    def commit(self, name: str, text: str, subject: str, *, said: str | None = None) -> str:
        """A file is written and committed; the client sees what git prints, or something else. The commit's id."""
        self.repo.write(name, text)
        self.repo.git("add", name)
        at = f"{int(self.now.timestamp())} +0000"
        env = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        printed = self.repo.run("git", "commit", "-m", subject, env=env).out
        self.run(f"git add {name} && git commit -m '{subject}'", printed if said is None else said)
        return str(self.repo.git("rev-parse", "HEAD").strip())

    def turn(self, prompt: str, name: str, text: str, subject: str, answer: str = "Done.") -> str:
        """A whole turn with one commit; its id."""
        self.ask(prompt)
        oid = self.commit(name, text, subject)
        self.say(answer)
        return oid
