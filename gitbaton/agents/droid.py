"""Factory's droid: Claude Code's events, a transcript of JSON lines whose blocks are Anthropic's."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitbaton.agents.claude import outside
from gitbaton.agents.client import Client, Fields, Hook, Installed
from gitbaton.agents.payload import PATCHED, names_one, word
from gitbaton.agents.records import (
    called,
    dict_of,
    edited,
    ended,
    list_of,
    looked,
    name_of,
    plain,
    ran,
    replied,
    searched,
    text_of,
    texts_of,
    time_of,
    whole,
    words,
)
from gitbaton.agents.signs import Asked, Record, RecordStep, Said, Shown, Sign
from gitbaton.base.model import DoctorFinding

_TASK = "# Task Tool Invocation"
_CODE = r"\n*\[Process exited with code (\d{1,10})\]\s*\Z"
_FAILED = r"\AError: Command failed \(exit code: \d{1,10}\)(?:\n|\Z)"
_REPORT = r"\Asession_id: \S+\n(?:Use this report [^\n]*\n)?"
_ITEM = r"(?m)^\s*\d{1,3}[.)]\s*\[(\w+)\]\s*(.+)$"


class Droid(Client):
    """Factory's droid. ``exec`` calls no hook of a prompt or of a compaction, and a turn's end does not say its last words: its
    transcript tells of them all. A subagent is a session of its own."""

    name = "droid"
    title = "Factory Droid"
    programs = ("droid",)
    shape = "groups"
    project = ".factory/settings.json"
    folder = ".factory"
    moved = (("FACTORY_HOME_OVERRIDE", ".factory"),)
    user = "settings.json"
    hooks = (
        Hook(event="SessionStart", timeout=10),
        Hook(event="UserPromptSubmit", timeout=10),
        Hook(event="PreToolUse", timeout=10, matcher="Execute"),
        Hook(event="PreCompact", timeout=30),
        Hook(event="PostToolUse", timeout=10, matcher="Create|Edit|MultiEdit|ApplyPatch|Execute"),
        Hook(event="Stop", timeout=10),
        Hook(event="SessionEnd", timeout=5),
    )
    upward = False
    trust = "on a terminal it asks once whether you trust this folder, and runs nothing of it before; 'droid exec' does not ask"
    events = {
        "SessionStart": ("start", "full"),
        "UserPromptSubmit": ("prompt", "flagged"),
        "PreToolUse": ("command", "no"),
        "PostToolUse": ("edit", "flagged"),
        "PreCompact": ("compact", "no"),
        "Stop": ("turn", "no"),
        "SessionEnd": ("end", "no"),
    }
    shells = ("Execute",)
    editors = ("Create", "Edit", "MultiEdit", "ApplyPatch")
    places = ("FACTORY_PROJECT_DIR",)
    files = ("sessions/*/{0}.jsonl",)
    exports = "CLAUDE_ENV_FILE"
    mark = rb'"type"\s*:\s*"(?:message|compaction_state)"'
    compacts = rb'"type"\s*:\s*"compaction_state"'
    part = rb'"callingSessionId"\s*:\s*"'

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what a payload says; a subagent's session names the one that called it."""
        child = names_one(fields.get("calling_session_id"))
        return {**(super().told(fields, env) or {}), **({"child": True} if child else {})}

    def own_words(self, prompt: str) -> bool:
        """Whether a prompt is the task of a subagent, or says nothing of the user's."""
        return prompt.startswith(_TASK) or not outside(prompt) or super().own_words(prompt)

    def doubts(self, of: Installed) -> Iterator[DoctorFinding]:
        """Every hook can be switched off."""
        files = [*([f"{of.tree}/{self.project}"] if of.tree is not None else []), f"{of.home}/settings.json"]
        path, off = of.switch(files, "hooksDisabled")
        if off is True:
            text = f"'hooksDisabled' in '{of.shown(path)}' switches every hook off"
            yield DoctorFinding(name="hooks", ok=False, text=text, mend="take that setting out")

    def light(self, record: Record) -> Record:
        """A compaction holds a picture of the machine."""
        record.pop("systemInfo", None)
        return record

    def sift(self, records: Sequence[Record]) -> Sequence[Record]:
        """A result does not say what was called."""
        calls: Record = {}
        found = []
        for record in records:
            calls |= {str(block.get("id")): block for block in _blocks(record) if block.get("type") == "tool_use"}
            results = any(block.get("type") == "tool_result" for block in _blocks(record))
            found.append({**record, "calls": calls} if results else record)
        return found

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """Read a record: what hooks said stands in rows of the user's without words."""
        at, message = time_of(record.get("timestamp")), dict_of(record.get("message"))
        who = message.get("role")
        if record.get("type") == "compaction_state":
            yield Shown(who="system", content=record.get("summaryText"), summary=True)
        elif record.get("type") == "message" and who in ("user", "assistant"):
            yield from _shown(record, str(who))
            if who == "assistant":
                yield from replied(at, word(record.get("id")), message.get("modelId"))
                yield from words(Said, at, message.get("content"))
            elif prompt := _prompt(record):
                yield Asked(at=at, text=prompt)
            for block in _blocks(record):
                if block.get("type") == "tool_use":
                    yield from _call(at, word(block.get("id")), block.get("name"), dict_of(block.get("input")))
                elif block.get("type") == "tool_result":
                    yield from _result(at, block, dict_of(dict_of(record.get("calls")).get(str(block.get("tool_use_id")))))

    def step(self, record: Record) -> RecordStep | None:
        """A tree: each message names the one that it follows."""
        key, parent = record.get("id"), record.get("parentId")
        if record.get("type") != "message" or not isinstance(key, str):
            return None
        prompt, told = bool(_prompt(record)), bool(_blocks(record)) and not key.startswith("context-")
        return RecordStep(key=key, after=parent if isinstance(parent, str) else "", prompt=prompt, aside=not told)

    def id_of(self, record: Record) -> object:
        """Of what was said."""
        return record.get("id") if record.get("type") == "message" and _blocks(record) else None


CLIENT = Droid()


def _blocks(record: Record) -> list[Record]:
    return [dict_of(block) for block in list_of(dict_of(record.get("message")).get("content"))]


def _prompt(record: Record) -> str:
    """Return the user's words in a record; empty where the client says it."""
    message = dict_of(record.get("message"))
    if message.get("role") != "user" or message.get("visibility") == "llm_only" or message.get("hookEventName"):
        return ""
    texts = (outside(text) for text in texts_of(message.get("content")) if not text.startswith(_TASK))
    return "\n".join(filter(None, texts))


def _shown(record: Record, who: str) -> Iterator[Shown]:
    who = who if who == "assistant" or _prompt(record) else "system"
    for block in _blocks(record):
        kind = block.get("type")
        if kind == "tool_use":
            yield Shown(who="tool", name=name_of(block.get("name")), key=str(block.get("id")), content=block.get("input"))
        elif kind == "tool_result":
            yield Shown(who="tool", key=str(block.get("tool_use_id")), content=block.get("content"), answer=True)
        elif kind in ("thinking", "redacted_thinking"):
            yield Shown(who="thought", content="")
        else:
            yield Shown(who=who, content=block)


def _call(at: float | None, key: str | None, name: object, given: Record) -> Iterator[Sign]:
    if name == "Execute":
        yield from ran(at, key, given.get("command"))
    elif name == "ApplyPatch":
        for path in re.findall(PATCHED, plain(given.get("input") or given.get("patch"))):
            yield from edited(at, key, path.strip())
    elif name in Droid.editors:
        yield from edited(at, key, given.get("file_path"))
    elif name == "Task":
        yield from called(at, key, given.get("description") or given.get("prompt"))
    elif name == "Read":
        yield from looked(at, given.get("file_path"))


def _result(at: float | None, block: Record, call: Record) -> Iterator[Sign]:
    key, text, name = word(block.get("tool_use_id")), text_of(block.get("content")), call.get("name")
    given, failed = dict_of(call.get("input")), block.get("is_error") is True
    if code := re.search(_CODE, text):
        yield from ended(at, key, int(code[1]), re.sub(_FAILED, "", text[: code.start()]))
    elif name in ("Grep", "Glob", "LS"):
        yield from searched(at, "" if failed else text)
    elif name == "TodoWrite":
        rows = given.get("todos")
        listed = (
            [{"status": state, "content": item} for state, item in re.findall(_ITEM, rows)] if isinstance(rows, str) else rows
        )
        yield from () if failed else whole(at, listed, "content")
    elif name == "Execute":  # it goes on, or never began
        yield from ended(at, key, None, text, running=given.get("fireAndForget") is True)
    else:
        yield from ended(at, key, int(failed), re.sub(_REPORT, "", text))
