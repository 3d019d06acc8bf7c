"""What a scripted model does in each client, by that client's own tools, and how the client is brought to a compaction."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from tests.clients.client_claude import Claude
from tests.clients.client_codex import SMALL, Codex
from tests.clients.client_copilot import Copilot
from tests.clients.client_droid import FULL as FULL_DROID
from tests.clients.client_droid import Droid
from tests.clients.client_gemini import Gemini
from tests.clients.client_opencode import FULL, REGISTRY, OpenCode
from tests.clients.client_qwen import FULL as FULL_QWEN
from tests.clients.client_qwen import Qwen
from tests.clients.model import Model, Reply, Request
from tests.clients.workshop import Workshop

State = Literal["done", "doing", "open"]
Plan = Sequence[tuple[str, State]]
WORDS = {"done": "completed", "doing": "in_progress", "open": "pending"}
PLANNERS = ("TodoWrite", "TaskCreate", "update_plan", "write_todos", "todowrite", "todo_write", "sql")


class Hands(Protocol):
    """A client, and how its model gets something done."""

    name: str
    client: Any
    workshop: Workshop
    model: Model

    def install(self, *words: str) -> None:
        """Our hooks, for this project where no option says otherwise."""

    def turn(self, prompt: str, on: bool = False) -> None:
        """One prompt: of a new session, or ``on`` in the last one."""

    def compacted(self, prompt: str) -> Request:
        """The last session is compacted and goes on; the first request of the conversation afterwards."""

    def plans(self, plan: Plan) -> list[Reply]:
        """Write the whole plan."""

    def runs(self, command: str) -> list[Reply]:
        """Run a command in the shell."""

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        """Change a file's text from ``old``, all of it, to ``new``."""

    def delegates(self, task: str) -> list[Reply]:
        """Let a subagent do something, and wait for it; nothing where the model cannot."""


def said(hands: Hands, prompt: str, *replies: Reply, on: bool = False) -> list[Request]:
    """A turn in which the model answers so, each answer asked for; the turn's requests, without those of a subagent."""
    count = len(hands.model.turns)
    hands.model.will_say(*replies)
    hands.turn(prompt, on)
    assert not hands.model.left, f"{hands.model.left} answers of {len(replies)} were not asked for"
    return [request for request in hands.model.turns[count:] if prompt in request.text]


def offered(request: Request) -> bool:
    """Whether a request offers a tool for plans, also one that has to be looked up first and is only named in a list."""
    lines = "\n".join([json.dumps(request.body.get("tools") or [], indent=0), request.text]).splitlines()
    return any(
        name in (line, line.strip('", ').removeprefix('name": "'), line.strip("#` ")) for line in lines for name in PLANNERS
    )


class ClaudeHands:
    """Claude Code with a model that is offered its task tools."""

    def __init__(self, client: Claude, planning: bool = True) -> None:
        self.name, self.client, self.workshop, self.model = "claude", client, client.workshop, client.model
        model = "claude-sonnet-4-5" if planning else "claude-opus-5-5"
        self.options: tuple[str, ...] = ("--model", model, "--allowedTools", "Bash,Read,Edit,Write,Agent")

    def install(self, *words: str) -> None:
        self.workshop.install("claude", *words)

    def turn(self, prompt: str, on: bool = False) -> None:
        self.client.ask(prompt, *self.options, *(["--continue"] if on else []))

    def compacted(self, prompt: str) -> Request:
        count = len(self.model.turns)
        self.client.converse("/compact", prompt, options=[*self.options, "--continue"])
        assert self.model.summaries
        return self.model.turns[count]

    def plans(self, plan: Plan) -> list[Reply]:
        """Its tasks are made one by one, and then changed; their numbers count within a session."""
        search = Reply("Looking.", "ToolSearch", {"query": "select:TaskCreate,TaskUpdate", "max_results": 5})
        made = [Reply("Planning.", "TaskCreate", {"subject": text, "description": f"In full: {text}"}) for text, _ in plan]
        states = [(str(n), WORDS[state]) for n, (_, state) in enumerate(plan, 1) if state != "open"]
        return [search, *made, *(Reply("So far.", "TaskUpdate", {"taskId": n, "status": state}) for n, state in states)]

    def runs(self, command: str) -> list[Reply]:
        return [Reply("Running.", "Bash", {"command": command, "description": "run"})]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        path = str(self.workshop.repo.path / name)
        edit = {"file_path": path, "old_string": old, "new_string": new}
        return [Reply("Reading.", "Read", {"file_path": path}), Reply("Changing.", "Edit", edit)]

    def delegates(self, task: str) -> list[Reply]:
        given = {"description": "a part", "prompt": task, "subagent_type": "general-purpose", "run_in_background": False}
        return [Reply("Delegating.", "Agent", given)]


class ClaudeListHands(ClaudeHands):
    """Claude Code as it is set to one tool for a whole list."""

    def __init__(self, client: Claude) -> None:
        super().__init__(client)
        client.env |= {"CLAUDE_CODE_ENABLE_TASKS": "0"}

    def plans(self, plan: Plan) -> list[Reply]:
        todos = [{"content": text, "status": WORDS[state], "activeForm": f"Doing: {text}"} for text, state in plan]
        search = Reply("Looking.", "ToolSearch", {"query": "select:TodoWrite", "max_results": 5})
        return [search, Reply("Planning.", "TodoWrite", {"todos": todos})]


class CodexHands:
    """Codex with its plan tool switched on."""

    def __init__(self, client: Codex, planning: bool = True) -> None:
        self.name, self.client, self.workshop, self.model = "codex", client, client.workshop, client.model
        self.options: tuple[str, ...] = ("-c", "tools.update_plan.enabled=true") if planning else ()

    def install(self, *words: str) -> None:
        self.client.install("--trust", *words)
        paths = f"{Path(self.client.program).parent}:{self.workshop.env['PATH']}"
        (self.workshop.home / ".profile").write_text(f"PATH={paths}\n")  # its commands run in a login shell

    def turn(self, prompt: str, on: bool = False) -> None:
        self.client.ask(prompt, *self.options, resume=on)

    def compacted(self, prompt: str) -> Request:
        self.model.will_say(Reply("Looking.", "exec_command", {"cmd": "true"}, used=240_000))
        self.client.ask(prompt, *self.options, *SMALL, resume=True)
        summary = self.model.summaries[-1]
        return next(request for request in self.model.turns if request.number > summary.number)

    def plans(self, plan: Plan) -> list[Reply]:
        return [Reply("Planning.", "update_plan", {"plan": [{"step": text, "status": WORDS[state]} for text, state in plan]})]

    def runs(self, command: str) -> list[Reply]:
        return [Reply("Running.", "exec_command", {"cmd": command})]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        return [Reply("Changing.", "apply_patch", patch(name, old, new))]

    def delegates(self, task: str) -> list[Reply]:
        """Nothing: this model is offered no subagents."""
        return []


class CodexScriptHands(CodexHands):
    """Codex with a model that calls its tools from scripts."""

    def __init__(self, client: Codex) -> None:
        super().__init__(client)
        self.options += ("-m", "gpt-6.1-sol")

    def plans(self, plan: Plan) -> list[Reply]:
        return [self._script("update_plan", reply.arguments) for reply in super().plans(plan)]

    def runs(self, command: str) -> list[Reply]:
        return [self._script("exec_command", {"cmd": command})]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        return [self._script("apply_patch", patch(name, old, new))]

    def delegates(self, task: str) -> list[Reply]:
        given = {"task_name": "a_part", "message": task, "fork_turns": "none"}
        wait = Reply("Waiting.", "wait_agent", {"timeout_ms": 20_000}, space="collaboration")
        return [Reply("Delegating.", "spawn_agent", given, space="collaboration"), wait]

    def _script(self, tool: str, given: object) -> Reply:
        return Reply("Working.", "exec", f"text(await tools.{tool}({json.dumps(given)}))")


class GeminiHands:
    """Gemini CLI with a model that is offered its list."""

    def __init__(self, client: Gemini, planning: bool = True) -> None:
        self.name, self.client, self.workshop, self.model = "gemini", client, client.workshop, client.model
        self.options = ("-m", "gemini-2.5-pro" if planning else "gemini-3-pro-preview")

    def install(self, *words: str) -> None:
        self.workshop.install("gemini", *words)

    def turn(self, prompt: str, on: bool = False) -> None:
        self.client.ask(prompt, *self.options, *(["--resume", "latest"] if on else []))

    def compacted(self, prompt: str) -> Request:
        count = len(self.model.summaries)
        self.turn(prompt, on=True)
        summary = self.model.summaries[count]
        return next(request for request in self.model.turns if request.number > summary.number)

    def plans(self, plan: Plan) -> list[Reply]:
        todos = [{"description": text, "status": WORDS[state]} for text, state in plan]
        return [Reply("Planning.", "write_todos", {"todos": todos})]

    def runs(self, command: str) -> list[Reply]:
        return [Reply("Running.", "run_shell_command", {"command": command, "description": "run"})]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        path = str(self.workshop.repo.path / name)
        given = {"file_path": path, "instruction": "change it", "old_string": old, "new_string": new}
        return [Reply("Changing.", "replace", given)]

    def delegates(self, task: str) -> list[Reply]:
        return [Reply("Delegating.", "invoke_agent", {"agent_name": "generalist", "prompt": task})]


class OpenCodeHands:
    """OpenCode."""

    def __init__(self, client: OpenCode, planning: bool = True) -> None:
        self.name, self.client, self.workshop, self.model = client.name, client, client.workshop, client.model
        if not planning:
            settings = client.workshop.home / ".config" / self.name / f"{self.name}.json"
            settings.write_text(
                json.dumps({**json.loads(settings.read_text()), "permission": {"*": "allow", "todowrite": "deny"}})
            )

    def install(self, *words: str) -> None:
        self.workshop.install(self.name, *words)

    def turn(self, prompt: str, on: bool = False) -> None:
        self.client.ask(prompt, *(["--continue"] if on else []))
        self.model.strays = [stray for stray in self.model.strays if REGISTRY not in stray]

    def compacted(self, prompt: str) -> Request:
        self.model.will_say(Reply("Looking.", "bash", {"command": "true", "description": "look"}, used=FULL))
        self.turn(prompt, on=True)
        summary = self.model.summaries[-1]
        return next(request for request in self.model.turns if request.number > summary.number)

    def plans(self, plan: Plan) -> list[Reply]:
        todos = [{"content": text, "status": WORDS[state], "priority": "medium"} for text, state in plan]
        return [Reply("Planning.", "todowrite", {"todos": todos})]

    def runs(self, command: str) -> list[Reply]:
        return [Reply("Running.", "bash", {"command": command, "description": "run"})]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        path = str(self.workshop.repo.path / name)
        edit = {"filePath": path, "oldString": old, "newString": new}
        return [Reply("Reading.", "read", {"filePath": path}), Reply("Changing.", "edit", edit)]

    def delegates(self, task: str) -> list[Reply]:
        return [Reply("Delegating.", "task", {"description": "a part", "prompt": task, "subagent_type": "general"})]


class CopilotHands:
    """Copilot CLI, which keeps its list in a database."""

    def __init__(self, client: Copilot, planning: bool = True) -> None:
        self.name, self.client, self.workshop, self.model = "copilot", client, client.workshop, client.model
        self.options = () if planning else ("--excluded-tools=sql",)

    def install(self, *words: str) -> None:
        self.workshop.install("copilot", *words)

    def turn(self, prompt: str, on: bool = False) -> None:
        self.client.ask(prompt, *self.options, *(["--continue"] if on else []))

    def compacted(self, prompt: str) -> Request:
        self.client.ask("/compact", *self.options, "--continue")
        assert self.model.summaries
        count = len(self.model.turns)
        self.turn(prompt, on=True)
        return self.model.turns[count]

    def plans(self, plan: Plan) -> list[Reply]:
        words = {"done": "done", "doing": "in_progress", "open": "pending"}
        rows = ", ".join(f"('item-{n}', '{text}', 'all of it', '{words[state]}')" for n, (text, state) in enumerate(plan))
        query = f"INSERT INTO todos (id, title, description, status) VALUES {rows}"
        return [Reply("Planning.", "sql", {"description": "Insert todos", "query": query})]

    def runs(self, command: str) -> list[Reply]:
        return [Reply("Running.", "bash", {"command": command, "description": "run"})]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        path = str(self.workshop.repo.path / name)
        return [Reply("Changing.", "edit", {"path": path, "old_str": old, "new_str": new})]

    def delegates(self, task: str) -> list[Reply]:
        given = {"description": "a part", "prompt": task, "agent_type": "general-purpose", "name": "part", "mode": "sync"}
        return [Reply("Delegating.", "task", given)]


class QwenHands:
    """Qwen Code with its list switched on."""

    def __init__(self, client: Qwen, planning: bool = True) -> None:
        self.name, self.client, self.workshop, self.model = "qwen", client, client.workshop, client.model
        client.planning(planning)

    def install(self, *words: str) -> None:
        self.workshop.install("qwen", *words)
        settings = self.workshop.repo.path / ".qwen" / "settings.json"
        if settings.exists():  # it adds that at its first start, after which no test's result would be of these files
            settings.write_text(json.dumps({**json.loads(settings.read_text()), "$version": 4}, indent=2) + "\n")

    def turn(self, prompt: str, on: bool = False) -> None:
        self.client.ask(prompt, *(["--continue"] if on else []))

    def compacted(self, prompt: str) -> Request:
        self.model.will_say(Reply("Looking.", "run_shell_command", {"command": "true", "is_background": False}, used=FULL_QWEN))
        self.turn(prompt, on=True)
        summary = self.model.summaries[-1]
        return next(request for request in self.model.turns if request.number > summary.number)

    def plans(self, plan: Plan) -> list[Reply]:
        todos = [{"id": str(n), "content": text, "status": WORDS[state]} for n, (text, state) in enumerate(plan, 1)]
        return [Reply("Planning.", "todo_write", {"todos": todos})]

    def runs(self, command: str) -> list[Reply]:
        return [Reply("Running.", "run_shell_command", {"command": command, "is_background": False, "description": "run"})]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        path = str(self.workshop.repo.path / name)
        edit = {"file_path": path, "old_string": old, "new_string": new}
        return [Reply("Reading.", "read_file", {"file_path": path}), Reply("Changing.", "edit", edit)]

    def delegates(self, task: str) -> list[Reply]:
        given = {"description": "a part", "prompt": task, "subagent_type": "general-purpose", "run_in_background": False}
        return [Reply("Delegating.", "agent", given)]


class DroidHands:
    """Factory's droid, whose models of one's own are offered no list."""

    def __init__(self, client: Droid, planning: bool = False) -> None:
        assert not planning
        self.name, self.client, self.workshop, self.model = "droid", client, client.workshop, client.model

    def install(self, *words: str) -> None:
        self.workshop.install("droid", *words)

    def turn(self, prompt: str, on: bool = False) -> None:
        self.client.ask(prompt, *(["--fork", self.client.session] if on else []))

    def compacted(self, prompt: str) -> Request:
        """It calls no hook when it compacts: the model is told after its next call."""
        full, after = self.runs("true"), self.runs("true")
        self.model.will_say(*(Reply(one.text, one.tool, one.arguments, used=FULL_DROID) for one in full), *after)
        self.turn(prompt, on=True)
        return self.model.turns[-1]

    def plans(self, plan: Plan) -> list[Reply]:
        return []

    def runs(self, command: str) -> list[Reply]:
        given = {"command": command, "summary": "run", "riskLevel": "low", "riskLevelReason": "a test"}
        return [Reply("Running.", "Execute", given)]

    def changes(self, name: str, old: str, new: str) -> list[Reply]:
        path = str(self.workshop.repo.path / name)
        edit = {"file_path": path, "old_str": old, "new_str": new}
        return [Reply("Reading.", "Read", {"file_path": path}), Reply("Changing.", "Edit", edit)]

    def delegates(self, task: str) -> list[Reply]:
        given = {"description": "a part", "prompt": task, "subagent_type": "worker", "await": True}
        return [Reply("Delegating.", "Task", given)]


def patch(name: str, old: str, new: str) -> str:
    """A file's text, all of it, and what is to stand in its place, as Codex reads it."""
    rows = [*(f"-{row}" for row in old.splitlines()), *(f"+{row}" for row in new.splitlines())]
    return "\n".join(["*** Begin Patch", f"*** Update File: {name}", "@@", *rows, "*** End Patch", ""])
