"""The coding agents' clients as values: where their settings are, which of their events we hook, what trust they ask for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from gitbaton.values import value

Level = Literal["project", "user"]
Shape = Literal["groups", "flat", "shells", "plugin"]

OURS = "git-baton hook"
SILENT = "command -v git-baton >/dev/null 2>&1 || exit 0; "
LEVELS: tuple[Level, ...] = ("project", "user")


@value
class Hook:
    """One event of a client that we hook; the timeout is in the client's own unit, 0 where none is written."""

    event: str
    timeout: int = 0
    matcher: str | None = None


@value
class Client:
    """A client: the names of its programs, its files, its hooks, and what its user should know.

    ``shape``: how its settings hold a hook. ``groups``: an event has groups with a matcher and handlers; ``flat``: an event
    has handlers; ``shells``: the same with a command line for each shell; ``plugin``: a script instead of settings.
    ``project``: the file below the work tree's root. ``folder``: its folder below the home folder, ``moved`` the variables
    that say where it is instead (a tail is joined to the value); ``user``: the file in it. ``comments``: whether the format
    of its settings allows them. ``twice``: hooks at both levels run twice. ``upward``: it finds the project's file from a
    subdirectory. ``trust`` and ``remarks``: lines for the user at project level, and at any; ``untrusted``: one where no
    trust was given with the install. ``skills``: where its own skills are, below the root and below the client's folder;
    the shared place otherwise.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    shape: Shape
    project: str
    folder: str
    user: str
    hooks: tuple[Hook, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    comments: bool = False
    named: bool = False
    version: bool = False
    twice: bool = True
    upward: bool = True
    trust: str = ""
    untrusted: str = ""
    remarks: tuple[str, ...] = ()
    skills: tuple[str, str] | None = None


CLIENTS: tuple[Client, ...] = (
    Client(
        name="claude",
        title="Claude Code",
        programs=("claude",),
        shape="groups",
        project=".claude/settings.json",
        folder=".claude",
        moved=(("CLAUDE_CONFIG_DIR", ""),),
        user="settings.json",
        hooks=(
            Hook(event="SessionStart", timeout=10),
            Hook(event="UserPromptSubmit", timeout=10),
            Hook(event="PreCompact", timeout=30),
            Hook(event="PostToolUse", timeout=10, matcher="Edit|Write|NotebookEdit|MultiEdit"),
            Hook(event="Stop", timeout=10),
            Hook(event="SessionEnd", timeout=5),
        ),
        twice=False,
        upward=False,
        trust="on a terminal it asks once whether this folder may run hooks; the answer it offers is no",
        skills=(".claude/skills", "skills"),
    ),
    Client(
        name="codex",
        title="Codex",
        programs=("codex",),
        shape="groups",
        project=".codex/hooks.json",
        folder=".codex",
        moved=(("CODEX_HOME", ""),),
        user="hooks.json",
        hooks=(
            Hook(event="SessionStart", timeout=10, matcher="startup|resume|clear|compact"),
            Hook(event="UserPromptSubmit", timeout=10),
            Hook(event="PreCompact", timeout=30),
            Hook(event="PostToolUse", timeout=10, matcher="apply_patch|Edit|Write|Bash"),
            Hook(event="Stop", timeout=10),
            Hook(event="SessionEnd", timeout=3),  # it cuts a longer time
        ),
        trust="it reads the hooks of a trusted project only: start codex here and accept, or codex exec --trust",
        untrusted="it runs no hook before you trust it, and does not say so: /hooks in codex, or install with --trust",
    ),
    Client(
        name="gemini",
        title="Gemini CLI",
        programs=("gemini",),
        shape="groups",
        project=".gemini/settings.json",
        folder=".gemini",
        moved=(("GEMINI_CLI_HOME", ".gemini"),),
        user="settings.json",
        hooks=(
            Hook(event="SessionStart", timeout=10000),
            Hook(event="BeforeAgent", timeout=10000),
            Hook(event="AfterTool", timeout=10000, matcher="write_file|replace"),
            Hook(event="PreCompress", timeout=10000),
            Hook(event="AfterAgent", timeout=10000),
            Hook(event="SessionEnd", timeout=10000),
        ),
        comments=True,
        named=True,
        upward=False,
        trust="it runs a project's hooks only in a trusted folder, and warns once when it meets them",
    ),
    Client(
        name="opencode",
        title="OpenCode",
        programs=("opencode",),
        shape="plugin",
        project=".opencode/plugins/gitbaton.js",
        folder=".config/opencode",
        moved=(("XDG_CONFIG_HOME", "opencode"),),
        user="plugins/gitbaton.js",
        remarks=("it may put package.json, node_modules and a .gitignore beside the folder 'plugins'; its own doing",),
    ),
    Client(
        name="copilot",
        title="GitHub Copilot CLI",
        programs=("copilot",),
        shape="shells",
        project=".github/hooks/gitbaton.json",
        folder=".copilot",
        moved=(("COPILOT_HOME", ""),),
        user="hooks/gitbaton.json",
        hooks=(
            Hook(event="sessionStart", timeout=10),
            Hook(event="userPromptSubmitted", timeout=10),
            Hook(event="postToolUse", timeout=10),
            Hook(event="preCompact", timeout=30),
            Hook(event="agentStop", timeout=10),
            Hook(event="sessionEnd", timeout=10),
        ),
        version=True,
        trust="it reads a repository's hooks only in a folder that you have accepted as trusted",
        remarks=("it also runs the hooks of '.claude/settings.json'; ours stay silent there",),
    ),
    Client(
        name="cursor",
        title="Cursor",
        programs=("cursor", "cursor-agent"),
        shape="flat",
        project=".cursor/hooks.json",
        folder=".cursor",
        user="hooks.json",
        hooks=tuple(
            Hook(event=event)
            for event in (
                "sessionStart",
                "beforeSubmitPrompt",
                "afterFileEdit",
                "postToolUse",
                "preCompact",
                "stop",
                "sessionEnd",
            )
        ),
        version=True,
        trust="it reads a project's hooks only in a workspace that you trust",
        remarks=("experimental: written after its documentation, never run against the program",),
    ),
)

KEYS = ("command", "bash", "powershell")
_CALL = rf"{OURS} (?P<agent>[a-z]+) [A-Za-z]+"
_FORMS = (  # every line that a version of ours has written, whole
    re.compile(rf"(?:{re.escape(SILENT)})?{_CALL}(?: --track (?P<track>'(?:[^']|'\\'')*'))?"),
    re.compile(rf"if \(Get-Command git-baton -ErrorAction SilentlyContinue\) \{{ {_CALL}(?: --track '(?:[^']|'')*')? \}}"),
)
_QUOTES = re.compile("['\u2018-\u201b]")  # each of them ends a single-quoted string in PowerShell


def command(agent: str, event: str, track: str | None = None) -> str:
    """The line that a shell of a client runs; it names no path, so it stays the same from version to version."""
    tail = " --track '" + track.replace("'", "'\\''") + "'" if track is not None else ""
    return f"{SILENT}{OURS} {agent} {event}{tail}"


def powershell(agent: str, event: str, track: str | None = None) -> str:
    """The same for PowerShell."""
    tail = " --track '" + _QUOTES.sub(lambda found: found.group() * 2, track) + "'" if track is not None else ""
    return f"if (Get-Command git-baton -ErrorAction SilentlyContinue) {{ {OURS} {agent} {event}{tail} }}"


def entries(client: Client, track: str | None = None) -> dict[str, dict[str, Any]]:
    """What the client's settings hold for us: one entry an event, in the client's shape."""
    return {hook.event: _entry(client, hook, track) for hook in client.hooks}


def _entry(client: Client, hook: Hook, track: str | None) -> dict[str, Any]:
    line = command(client.name, hook.event, track)
    if client.shape == "flat":
        return {"command": line}
    if client.shape == "shells":
        other = powershell(client.name, hook.event, track)
        return {"type": "command", "bash": line, "powershell": other, "timeoutSec": hook.timeout}
    named = {"name": f"gitbaton-{hook.event}"} if client.named else {}
    handler = {**named, "type": "command", "command": line, "timeout": hook.timeout}
    matcher = {"matcher": hook.matcher} if hook.matcher is not None else {}
    return {**matcher, "hooks": [handler]}


def is_ours(handler: object, client: Client) -> bool:
    """Whether a handler in the client's settings is one that we wrote: each of its command lines is, from end to end."""
    found = lines(handler)
    return bool(found) and all(_written(line, client) for line in found)


def mentions(handler: object) -> list[str]:
    """The command lines of a handler that name our hook, whoever wrote them."""
    return [line for line in lines(handler) if OURS in line]


def lines(handler: object) -> list[str]:
    """The command lines of a handler."""
    texts = (handler.get(key) for key in KEYS) if isinstance(handler, dict) else ()
    return [text for text in texts if isinstance(text, str)]


def track_of(line: str) -> str | None:
    """The track that a line of ours for a shell names."""
    found = _FORMS[0].fullmatch(line)
    text = found.group("track") if found else None
    return text[1:-1].replace("'\\''", "'") if text is not None else None


def _written(line: str, client: Client) -> bool:
    return any((found := form.fullmatch(line)) and found.group("agent") == client.name for form in _FORMS)


def folder(client: Client, env: Mapping[str, str]) -> str:
    """The client's folder in the user's home, which ``env`` names."""
    for name, tail in client.moved:
        if env.get(name):
            return f"{env[name].rstrip('/')}/{tail}" if tail else env[name]
    return f"{env['HOME']}/{client.folder}"
