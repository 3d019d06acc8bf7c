"""Values of ours for what a coding agent's client tells a hook. No I/O, no git."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.base.model import Agent
from gitbaton.base.values import TYPE_CHECKING, value

if TYPE_CHECKING:
    from typing import Literal

    Moment = Literal[
        "start",
        "prompt",
        "request",
        "edit",
        "compact",
        "compacted",
        "turn",
        "end",
        "command",
        "child-start",
        "child-end",
        "other",
    ]
    Inject = Literal["no", "full", "short", "flagged", "nudge"]
else:
    Moment = Inject = str


@value
class KnownClient:
    """A client as far as others than its module know it. ``session``: the variable that is set for what it starts, by itself or
    at our word, with the id that its hooks get, and ``mark`` another one that it sets there and that no fork of it sets; empty
    where there is none. ``runs``: an expression for the files of a work tree that it runs, or takes commands from, when it is
    opened there. ``database``: it keeps what was said in one."""

    session: str = ""
    mark: str = ""
    runs: str = ""
    database: bool = False


KNOWN = {
    "claude": KnownClient(
        session="CLAUDE_CODE_SESSION_ID",
        runs=r"\.claude/(?:hooks/.*|skills/[^/]+/(?:\.claude-plugin|hooks)/.*|settings(?:\.local)?\.json)|\.mcp\.json",
    ),
    "codex": KnownClient(session="CODEX_SESSION_ID", runs=r"\.codex/.*"),
    "gemini": KnownClient(mark="GEMINI_CLI", runs=r"\.gemini/.*"),
    "opencode": KnownClient(
        session="GIT_BATON_OPENCODE_SESSION", mark="OPENCODE_PID", runs=r"\.opencode/.*|opencode\.jsonc?", database=True
    ),
    "copilot": KnownClient(session="COPILOT_AGENT_SESSION_ID", runs=r"\.github/hooks/.*"),
    "cursor": KnownClient(runs=r"\.cursor/.*"),
    "kilo": KnownClient(session="GIT_BATON_KILO_SESSION", mark="KILO", runs=r"\.kilo(?:code)?/.*|kilo\.jsonc?", database=True),
    "qwen": KnownClient(session="QWEN_CODE_SESSION_ID", runs=r"\.qwen/.*"),
    "droid": KnownClient(session="GIT_BATON_DROID_SESSION", runs=r"\.factory/.*"),
}
"""The clients that we know, in the order of their birth here: each has a module of its name. (Gemini CLI sets a variable for
hooks alone.)"""
NAMES = tuple(KNOWN)
DATABASES = tuple(name for name, of in KNOWN.items() if of.database)


@value
class HookEvent:
    """One event of a client, as its payload tells it; what the payload lacks is None.

    ``agent``: one of NAMES. ``name``: the client's own word for the event, as the command line gives it.
    ``moment``: what it means. ``start``: a session begins, is resumed, cleared, or goes on after a compaction;
    ``prompt``: the user has said something; ``request``: a request to the model is about to be made; ``edit``: a tool
    has run that may have changed files; ``compact``: the window is about to be compacted; ``compacted``: it has been;
    ``turn``: the agent has ended its turn; ``end``: the session ends; ``command``: a tool is about to run a shell's command
    line, ``command``; ``child-start`` and ``child-end``: a subagent starts and ends; ``other``: nothing that we act on.
    ``inject``: what the client can take here. ``full``: the whole text; ``short``: a few lines, because it comes with
    every prompt; ``flagged``: the whole text, if the session was compacted since; ``nudge``: one line, once, if
    the words are old; ``no``: nothing.
    ``cwd``: absolute, where the agent works. ``source``: why a session starts, in the client's words.
    ``transcript``: the path of the file with the conversation. ``said``: the last words of a turn.
    ``running``: the commands and tasks that go on in the background as the client lists them at the end of a turn, each as
    its sign has it; None where it does not tell. ``child``: the event belongs to a subagent, of the kind ``who``, and where it
    ends ``transcript`` is its own. ``edited``: the paths that a tool has edited, as the client names them, relative
    ones joined to ``cwd``.
    """

    agent: str
    name: str
    moment: Moment
    inject: Inject = "no"
    session: str | None = None
    cwd: str | None = None
    transcript: str | None = None
    prompt: str | None = None
    said: str | None = None
    source: str | None = None
    running: tuple[str, ...] | None = None
    child: bool = False
    command: str | None = None
    who: str | None = None
    edited: tuple[str, ...] = ()


def agents_of(env: Mapping[str, str]) -> list[Agent]:
    """Return the agents in whose commands a process with this environment runs: one may have started another. Those that name
    no session come last."""
    found = []
    for name, of in KNOWN.items():
        session = env.get(of.session, "") if of.session else ""
        if session.isascii() and session.isprintable() and 0 < len(session) <= 128:
            found.append(Agent(name=name, session=session))
    named = {agent.name for agent in found}
    return found + [Agent(name=name) for name, of in KNOWN.items() if name not in named and of.mark and env.get(of.mark)]


def agent_of(env: Mapping[str, str]) -> Agent | None:
    """Return the agent that started a process with this environment; None where no client names its session."""
    return next((agent for agent in agents_of(env) if agent.session), None)
