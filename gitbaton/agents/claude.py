"""Claude Code: settings with groups of hooks, a transcript of JSON lines for each session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gitbaton.agents.client import Client, Hook
from gitbaton.agents.payload import word
from gitbaton.agents.records import (
    changed,
    dict_of,
    edited,
    ended,
    list_of,
    name_of,
    plain,
    ran,
    state_of,
    text_of,
    texts_of,
    time_of,
    whole,
    words,
)
from gitbaton.agents.signs import Asked, Said, Shown, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from gitbaton.agents.client import Fields
    from gitbaton.agents.signs import Record, Sign

_NOTICE = "<task-notification>"
_OURS = (_NOTICE, "<command-", "<local-command-", "<system-reminder>", "<bash-", "<ide_", "[Request interrupted by user")
_UNSAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_EDITORS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_SPOKEN = ("user", "assistant", "system")
_CODE = r"Exit code (\d{1,10})(?:\n|\Z)"
_LAST_CODE = r"exit code (\d{1,10})\)?\s*\Z"
_IDS = r"<(tool-use-id|task-id)>([^<]+)</"
_FOLDER = 200  # characters of a folder's name, before it is cut and gets a hash


class Claude(Client):
    """Claude Code. It would take context at more events, but not at PreCompact and PostCompact: there the error ends up in what
    is said."""

    name = "claude"
    title = "Claude Code"
    programs = ("claude",)
    shape = "groups"
    project = ".claude/settings.json"
    folder = ".claude"
    moved = (("CLAUDE_CONFIG_DIR", ""),)
    user = "settings.json"
    hooks = (
        Hook(event="SessionStart", timeout=10),
        Hook(event="UserPromptSubmit", timeout=10),
        Hook(event="PreCompact", timeout=30),
        Hook(event="PostToolUse", timeout=10, matcher="Edit|Write|NotebookEdit|MultiEdit"),
        Hook(event="Stop", timeout=10),
        Hook(event="SessionEnd", timeout=5),
    )
    twice = False
    upward = False
    trust = "on a terminal it asks once whether this folder may run hooks; the answer it offers is no"
    skills = (".claude/skills", "skills")
    events = {
        "SessionStart": ("start", "full"),
        "UserPromptSubmit": ("prompt", "nudge"),
        "PostToolUse": ("edit", "no"),
        "PostToolBatch": ("edit", "no"),
        "PreCompact": ("compact", "no"),
        "PostCompact": ("compacted", "no"),
        "Stop": ("turn", "no"),
        "StopFailure": ("turn", "no"),
        "SessionEnd": ("end", "no"),
    }
    places = ("CLAUDE_PROJECT_DIR",)
    files = ("projects/*/{0}.jsonl",)
    mark = rb'"parentUuid"|"type"\s*:\s*"(?:user|assistant|queue-operation|queued_command)"'
    resume = "claude --resume {}"

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """What a payload says. Copilot and Cursor run these hooks beside their own: one event, one answer."""
        if env.get("COPILOT_CLI") or env.get("CURSOR_VERSION") or fields.get("cursor_version"):
            return None
        return super().told(fields, env)

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """A subagent's record tells nothing; what the client says in the user's or the agent's name is nobody's word."""
        kind, at = record.get("type"), time_of(record.get("timestamp"))
        if record.get("isSidechain") is True:
            return
        if kind in ("user", "assistant"):
            yield from _shown(record, str(kind))
        if kind == "assistant":
            yield from _answered(record, at)
        elif kind == "user":
            yield from _given(record, at)
        elif kind == "system":
            yield Shown(who="system", content=record.get("content"))
        elif kind == "attachment":
            found = dict_of(record.get("attachment"))
            if str(found.get("type", "")).startswith("hook"):
                yield Shown(who="system", content=found.get("content"))
            elif found.get("type") == "queued_command":
                ours = found.get("isMeta") is True or found.get("commandMode") not in (None, "prompt")
                yield from _asked(at, found.get("prompt"), found.get("origin"), ours=ours)
        elif kind == "queue-operation":
            yield from _asked(at, record.get("content"), None, ours=True)

    def step(self, record: Record) -> Step | None:
        """A tree: each record names the one that it follows, a summary the one before it. Only what was said leads on."""
        key = record.get("uuid")
        if not isinstance(key, str) or record.get("isSidechain") is True:
            return None
        kind, parent, before = record.get("type"), record.get("parentUuid"), record.get("logicalParentUuid")
        after = parent if isinstance(parent, str) and parent else None
        if after is None and isinstance(before, str):
            return Step(key=key, after=before, aside=True)
        said = kind in ("user", "assistant")
        return Step(key=key, after=after or "", prompt=kind == "user" and _is_prompt(record), aside=not said)

    def id_of(self, record: Record) -> object:
        """Of what was said."""
        return record.get("uuid") if record.get("type") in _SPOKEN else None

    def rewritten(self, records: list[Record], session: str, *, foreign: bool) -> list[Record] | None:
        """Every record names its session."""
        if not any(record.get("type") in ("user", "assistant") for record in records):
            return None
        records = _said(records) if foreign else records
        return [{**record, "sessionId": session} if "sessionId" in record else record for record in records]

    def place(self, session: str, directory: str, now: datetime) -> str:
        """In the folder of its directory."""
        return f"projects/{folder_of(directory)}/{session}.jsonl"


CLIENT = Claude()


def _is_prompt(record: Record) -> bool:
    """Whether a user's record begins a turn: it is no result, and not what the client adds to one."""
    content = dict_of(record.get("message")).get("content")
    results = any(dict_of(part).get("type") == "tool_result" for part in list_of(content))
    return not (results or any(record.get(name) is True for name in _UNSAID))


def _shown(record: Record, who: str) -> Iterator[Shown]:
    who = "system" if any(record.get(name) is True for name in _UNSAID) else who
    content = dict_of(record.get("message")).get("content")
    for part in [content] if isinstance(content, str) else list_of(content):
        block = dict_of(part)
        kind = block.get("type")
        if kind == "tool_use":
            name, key = name_of(block.get("name")), str(block.get("id"))
            yield Shown(who="tool", name=name, key=key, content=block.get("input"))
        elif kind == "tool_result":
            yield Shown(who="tool", key=str(block.get("tool_use_id")), content=block.get("content"), answer=True)
        elif kind not in ("thinking", "redacted_thinking"):
            yield Shown(who=who, content=part)


def _answered(record: Record, at: float | None) -> Iterator[Sign]:
    """What the agent said and called."""
    message = dict_of(record.get("message"))
    if message.get("model") != "<synthetic>" and record.get("isApiErrorMessage") is not True:
        yield from words(Said, at, message.get("content"))
    for block in map(dict_of, list_of(message.get("content"))):
        if block.get("type") == "tool_use":
            yield from _call(at, word(block.get("id")), block.get("name"), dict_of(block.get("input")))


def _given(record: Record, at: float | None) -> Iterator[Sign]:
    """What the agent was given: results, or what the user said."""
    content = dict_of(record.get("message")).get("content")
    results = [block for block in map(dict_of, list_of(content)) if block.get("type") == "tool_result"]
    for block in results:
        yield from _result(at, block, record.get("toolUseResult") if len(results) == 1 else None)
    if not results:
        ours = any(record.get(name) is True for name in _UNSAID)
        yield from _asked(at, content, record.get("origin"), ours=ours)


def _asked(at: float | None, content: object, origin: object, *, ours: bool) -> Iterator[Sign]:
    """A prompt, or the notice of a command's end; ``ours``: whatever else it says, the client says it."""
    said = []
    for text in texts_of(content):
        if text.startswith(_NOTICE):
            head, _, rest = text.partition("<summary>")  # ids after it are the model's words
            ids = dict(re.findall(_IDS, head))
            summary = rest.rpartition("</summary>")[0]
            if summary.startswith("Background command"):
                code = re.search(_LAST_CODE, summary)
                yield from ended(at, word(ids.get("tool-use-id") or ids.get("task-id")), int(code[1]) if code else None)
        elif not text.startswith(_OURS):
            said.append(text)
    if said and not ours and dict_of(origin).get("kind") in (None, "human"):
        yield Asked(at=at, text="\n".join(said))


def _call(at: float | None, key: str | None, name: object, given: Record) -> Iterator[Sign]:
    if name == "Bash":
        yield from ran(at, key, given.get("command"))
    elif name in _EDITORS:
        yield from edited(at, key, given.get("notebook_path" if name == "NotebookEdit" else "file_path"))
    elif name == "TodoWrite":
        yield from whole(at, given.get("todos"), "content")
    elif name == "TaskUpdate":
        yield from changed(at, given.get("taskId"), plain(given.get("subject")), state_of(given.get("status")))


def _result(at: float | None, block: Record, outcome: object) -> Iterator[Sign]:
    key, result, text = word(block.get("tool_use_id")), dict_of(outcome), text_of(block.get("content"))
    task = dict_of(result.get("task"))
    if task.get("subject"):  # a task that is only looked up has a status, too
        yield from changed(at, task.get("id"), plain(task["subject"]), state_of(task.get("status")) or "open")
        return
    if block.get("is_error") is True:
        code = re.match(_CODE, text)
        yield from ended(at, key, int(code[1]) if code else None, text[code.end() :] if code else text)
        return
    if result:
        text = "\n".join(part for name in ("stdout", "stderr") if isinstance(part := result.get(name), str) and part)
    if result.get("backgroundTaskId"):  # what it printed so far is not all
        yield from ended(at, key, None)
    else:
        yield from ended(at, key, None if result.get("interrupted") is True else 0, text)


def _said(records: list[Record]) -> list[Record]:
    """What was said; each message's parent is the one before it that stays."""
    above: dict[object, object] = {}
    kept: list[Record] = []
    for record in records:
        key, parent = record.get("uuid"), record.get("parentUuid")
        if record.get("type") not in _SPOKEN or not isinstance(key, str):
            above[str(key)] = _ancestor(parent, above)
            continue
        kept.append(record)
    told = [{key: found for key, found in record.items() if key != "permissionMode"} for record in kept]
    return [{**record, "parentUuid": _ancestor(record.get("parentUuid"), above)} for record in told]


def _ancestor(key: object, above: dict[object, object]) -> object:
    seen: set[object] = set()
    while isinstance(key, str) and key in above and key not in seen:
        seen.add(key)
        key = above[key]
    return key if isinstance(key, str) and key not in above else None


def folder_of(directory: str) -> str:
    """The name of the folder in which Claude Code keeps the sessions of a directory."""
    units = directory.encode("utf-16-le", "surrogatepass")
    codes = [units[n] | units[n + 1] << 8 for n in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(name) <= _FOLDER:
        return name
    number = 0
    for code in codes:
        number = (number * 31 + code) & 0xFFFFFFFF
    number = 0x100000000 - number if number >= 0x80000000 else number
    digits, text = "0123456789abcdefghijklmnopqrstuvwxyz", ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return f"{name[:_FOLDER]}-{text}"
