"""A client's payload to an Event, and our text to the answer in that client's shape. Pure: no environment, no files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from gitbaton.agents.payload import absolute, fields_of, names_one, unquoted, valid, without_context, word
from gitbaton.agents.values import Event
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.values import Inject, Moment

    Fields = Mapping[str, object]

_NOTICE = "<task-notification>"  # a prompt that begins so is the client's own: a command in the background has ended


def _named(fields: Fields) -> dict[str, object]:
    """What a payload in Claude Code's form says; a subagent's events carry its parent's session and an ``agent_id``."""
    return {
        "session": fields.get("session_id"),
        "cwd": fields.get("cwd"),
        "transcript": fields.get("transcript_path"),
        "prompt": fields.get("prompt"),
        "said": fields.get("last_assistant_message"),
        "source": fields.get("source"),
        "child": names_one(fields.get("agent_id")),
    }


def _gemini(fields: Fields) -> dict[str, object]:
    """The same, the prompt without what hooks put into it."""
    prompt = fields.get("prompt")
    return {**_named(fields), "prompt": without_context(prompt) if isinstance(prompt, str) else None}


def _opencode(fields: Fields) -> dict[str, object]:
    """What our plugin says."""
    prompt = fields.get("prompt")
    return {
        "session": fields.get("sessionID"),
        "cwd": fields.get("directory"),
        "prompt": unquoted(prompt) if isinstance(prompt, str) else prompt,
        "child": fields.get("child"),
    }


def _copilot(fields: Fields) -> dict[str, object]:
    """What a payload says, in camelCase or in snake_case. A subagent's events carry its own id as the session's, too."""
    return {
        "session": fields.get("sessionId") or fields.get("session_id"),
        "cwd": fields.get("cwd"),
        "transcript": fields.get("transcriptPath") or fields.get("transcript_path"),
        "prompt": fields.get("prompt"),
        "source": fields.get("source"),
        "child": names_one(fields.get("agentId") or fields.get("agent_id")),
    }


def _cursor(fields: Fields) -> dict[str, object]:
    """What a payload says; it names the folders of the workspace, the first is where the agent works."""
    roots = fields.get("workspace_roots")
    return {
        "session": fields.get("conversation_id") or fields.get("session_id"),
        "cwd": roots[0] if isinstance(roots, list) and roots else None,
        "transcript": fields.get("transcript_path"),
        "prompt": fields.get("prompt"),
        "source": fields.get("source"),
    }


def _specific(name: str, text: str) -> object:
    """The answer that Claude Code brought in and Codex and Gemini took over; Codex refuses one field more."""
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}


@value
class _Client:
    """What a client says and reads. ``events``: what its own words for them mean, and what it can take there; what is not here
    is ``other``. ``told``: what a payload's fields say: session, cwd, transcript, prompt, said, source, child; unchecked.
    ``folders``: the variables in which it names the folder it works in, best first. ``shape``: the JSON that it wants to read
    so that a text reaches the model at an event; a text is one as it is."""

    events: Mapping[str, tuple[Moment, Inject]]
    told: Callable[[Fields], dict[str, object]]
    folders: tuple[str, ...] = ()
    shape: Callable[[str, str], object] = _specific


_CLIENTS = {
    "claude": _Client(
        # It would take context at more events, but not at PreCompact and PostCompact: there the error ends up in what is said.
        events={
            "SessionStart": ("start", "full"),
            "UserPromptSubmit": ("prompt", "nudge"),
            "PostToolUse": ("edit", "no"),
            "PostToolBatch": ("edit", "no"),
            "PreCompact": ("compact", "no"),
            "PostCompact": ("compacted", "no"),
            "Stop": ("turn", "no"),
            "StopFailure": ("turn", "no"),
            "SessionEnd": ("end", "no"),
        },
        told=_named,
        folders=("CLAUDE_PROJECT_DIR",),
    ),
    "codex": _Client(  # it sets no folder; those in its environment are another client's
        events={
            "SessionStart": ("start", "full"),
            "UserPromptSubmit": ("prompt", "nudge"),
            "PostToolUse": ("edit", "no"),
            "PreCompact": ("compact", "no"),
            "PostCompact": ("compacted", "no"),
            "Stop": ("turn", "no"),
            "Interrupt": ("turn", "no"),
            "SessionEnd": ("end", "no"),
        },
        told=_named,
    ),
    "gemini": _Client(
        events={
            "SessionStart": ("start", "full"),
            "BeforeAgent": ("prompt", "short"),
            "PreCompress": ("request", "no"),  # before every request, compressed or not
            "AfterTool": ("edit", "no"),
            "AfterAgent": ("turn", "no"),
            "SessionEnd": ("end", "no"),
        },
        told=_gemini,
        folders=("GEMINI_CWD", "GEMINI_PROJECT_DIR"),
    ),
    "opencode": _Client(
        events={
            "context": ("start", "full"),
            "compacting": ("compact", "full"),
            "prompt": ("prompt", "no"),
            "edited": ("edit", "no"),
            "idle": ("turn", "no"),
            "compacted": ("compacted", "no"),
            "ended": ("end", "no"),
        },
        told=_opencode,
        shape=lambda name, text: text,  # the plugin puts it where it belongs
    ),
    "copilot": _Client(  # registered in PascalCase, an event comes with the fields of Claude Code's; the answers are the same
        events={
            "sessionStart": ("start", "full"),
            "userPromptSubmitted": ("prompt", "flagged"),
            "postToolUse": ("edit", "flagged"),
            "preCompact": ("compact", "no"),
            "agentStop": ("turn", "no"),
            "sessionEnd": ("end", "no"),
            "SessionStart": ("start", "full"),
            "UserPromptSubmit": ("prompt", "flagged"),
            "PostToolUse": ("edit", "flagged"),
            "PreCompact": ("compact", "no"),
            "Stop": ("turn", "no"),
            "SessionEnd": ("end", "no"),
        },
        told=_copilot,
        folders=("COPILOT_PROJECT_DIR",),
        shape=lambda name, text: {"additionalContext": text},
    ),
    "cursor": _Client(  # from documents only: it could not be run
        events={
            "sessionStart": ("start", "full"),
            "beforeSubmitPrompt": ("prompt", "no"),
            "afterFileEdit": ("edit", "no"),
            "postToolUse": ("edit", "flagged"),
            "preCompact": ("compact", "no"),
            "stop": ("turn", "no"),
            "sessionEnd": ("end", "no"),
        },
        told=_cursor,
        folders=("CURSOR_PROJECT_DIR",),
        shape=lambda name, text: {"additional_context": text},
    ),
}


def read(agent: str, event: str, data: bytes, env: Mapping[str, str]) -> Event | None:
    """The event that a hook was called for; None where it has to be silent. Raises nothing, whatever the bytes are.

    Silent: for an agent that is not one of ours, and for Claude Code's hook when another client runs it. Of a payload that
    cannot be read nothing counts; the event's word and ``env`` still do.
    """
    client = _CLIENTS.get(agent)
    if client is None:
        return None
    fields = fields_of(data)
    if agent == "claude" and (env.get("COPILOT_CLI") or env.get("CURSOR_VERSION") or fields.get("cursor_version")):
        return None  # Copilot and Cursor run Claude Code's hooks beside their own: one event, one answer
    moment, inject = client.events.get(event, ("other", "no"))
    told = client.told(fields)
    prompt, said = told.get("prompt"), told.get("said")
    if moment == "prompt" and isinstance(prompt, str) and prompt.lstrip().startswith(_NOTICE):
        moment, inject = "other", "no"
    session, transcript = word(told.get("session")), told.get("transcript")
    if agent == "copilot" and not transcript:
        # Only some payloads say where its records are, and a turn that was broken off has none of those.
        from gitbaton.agents.conversation import places

        transcript = next((f"{home}/{path}" for home, path in places(agent, session or "", env)), None)
    folders = (told.get("cwd"), *(env.get(name) for name in client.folders))
    return Event(
        agent=agent,
        name=event,
        moment=moment,
        inject=inject,
        session=session,
        cwd=next((place for place in map(absolute, folders) if place), None),
        transcript=absolute(transcript),
        prompt=valid(prompt) if isinstance(prompt, str) else None,
        said=valid(said) if moment == "turn" and isinstance(said, str) and said.strip() else None,
        source=word(told.get("source")) if moment == "start" else None,
        child=told.get("child") is True,
    )


def answer(event: Event, text: str) -> bytes:
    """What to print so that ``text`` reaches the model; nothing where the client takes no context or there is no text."""
    client = _CLIENTS.get(event.agent)
    if client is None or not text or client.events.get(event.name, ("other", "no"))[1] == "no":
        return b""
    shape = client.shape(event.name, valid(text))
    return (shape if isinstance(shape, str) else json.dumps(shape, separators=(",", ":"))).encode()
