"""Qwen Code: Claude Code's events and frame of records, Gemini CLI's parts in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitbaton.agents.claude import inside, outside, running
from gitbaton.agents.client import Client, Fields, Hook, Installed, inner
from gitbaton.agents.gemini import trusted
from gitbaton.agents.payload import word
from gitbaton.agents.records import (
    answered,
    approved,
    called,
    dict_of,
    edited,
    ended,
    list_of,
    looked,
    name_of,
    nth,
    plain,
    ran,
    replied,
    searched,
    texts_of,
    time_of,
    whole,
    words,
)
from gitbaton.agents.signs import Asked, Edited, Ended, Record, RecordStep, Said, Shown, Sign
from gitbaton.base.model import DoctorFinding

_NOTICE = "<task-notification>"
_CONTEXT = "<qwen:"  # begins a part that the client made of what a hook said
_TASK = r"Background (?:shell started\.\s+id|agent launched[^\n]*\n\s*task_id): ?(\S+)"
_CODE = r"(?m)^Exit Code: (\d{1,10})$"
_LARGE = ("fileDiff", "originalContent", "newContent", "text")
_ENDS = ("completed", "failed", "cancelled")


class Qwen(Client):
    """Qwen Code. It calls the hook of a prompt again after each result of a tool, with an empty one."""

    name = "qwen"
    title = "Qwen Code"
    programs = ("qwen",)
    shape = "groups"
    project = ".qwen/settings.json"
    folder = ".qwen"
    moved = (("QWEN_HOME", ""),)
    user = "settings.json"
    hooks = (
        Hook(event="SessionStart", timeout=10),
        Hook(event="UserPromptSubmit", timeout=10),
        Hook(event="PreToolUse", timeout=10, matcher="run_shell_command"),
        Hook(event="PreCompact", timeout=30),
        Hook(event="PostToolUse", timeout=10, matcher="edit|write_file|notebook_edit"),
        Hook(event="SubagentStart", timeout=10),
        Hook(event="SubagentStop", timeout=10),
        Hook(event="Stop", timeout=10),
        Hook(event="SessionEnd", timeout=5),
    )
    comments = True
    stamp = "$version"
    upward = False
    trust = "where folder trust is switched on, it runs a project's hooks only in a trusted folder"
    events = {
        "SessionStart": ("start", "full"),
        "UserPromptSubmit": ("prompt", "nudge"),
        "PreToolUse": ("command", "no"),
        "PostToolUse": ("edit", "no"),
        "PreCompact": ("compact", "no"),
        "PostCompact": ("compacted", "no"),
        "SubagentStart": ("child-start", "no"),
        "SubagentStop": ("child-end", "no"),
        "Stop": ("turn", "no"),
        "StopFailure": ("turn", "no"),
        "SessionEnd": ("end", "no"),
    }
    shells = ("run_shell_command",)
    editors = ("edit", "write_file", "notebook_edit")
    places = ("QWEN_PROJECT_DIR",)
    files = ("projects/*/chats/{0}.jsonl",)
    mark = rb'"parentUuid"'

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what a payload says; of a prompt what the user typed, where it tells that."""
        typed, prompt = plain(fields.get("submitted_prompt")), fields.get("prompt")
        said = typed or (outside(prompt) if isinstance(prompt, str) else None)
        return {**(super().told(fields, env) or {}), "prompt": said, "running": running(fields)}

    def own_words(self, prompt: str) -> bool:
        """Whether a prompt is a notice, or what comes after a tool's result."""
        return not prompt or super().own_words(prompt)

    def doubts(self, of: Installed) -> Iterator[DoctorFinding]:
        """Every hook can be switched off; a project's may run in a trusted folder only."""
        files = [*([f"{of.tree}/{self.project}"] if of.tree is not None else []), f"{of.home}/settings.json"]
        path, off = of.switch(files, "disableAllHooks")
        if off is True:
            text = f"'disableAllHooks' in '{of.shown(path)}' switches every hook off"
            yield DoctorFinding(name="hooks", ok=False, text=text, mend="take that setting out")
        asks = inner(of.settings(files[-1]), "security", "folderTrust", "enabled") is True
        if of.project is not None and asks:
            yield trusted("qwen", of, of.project, of.env.get("QWEN_CODE_TRUSTED_FOLDERS_PATH"))

    def task(self, record: Record) -> str:
        """The first message of its conversation."""
        first = record.get("type") == "user" and record.get("parentUuid") is None
        return "\n".join(texts_of(_parts(record))) if first else ""

    def light(self, record: Record) -> Record:
        """The result of an edit holds the whole file, twice; what the client notes for itself tells nothing."""
        shown = dict_of(dict_of(record.get("toolCallResult")).get("resultDisplay"))
        for name in _LARGE:
            shown.pop(name, None)
        if record.get("type") == "system" and record.get("subtype") != "chat_compression":
            record.pop("systemPayload", None)
        return record

    def sift(self, records: Sequence[Record]) -> Sequence[Record]:
        """A result does not say what was called, nor a notice which call its task was begun by."""
        calls: Record = {}
        tasks: Record = {}
        found = []
        for record in records:
            for part in map(dict_of, _parts(record)):
                call, answer = dict_of(part.get("functionCall")), dict_of(part.get("functionResponse"))
                if call:
                    calls[str(call.get("id"))] = call
                elif begun := re.match(_TASK, _output(answer)):
                    tasks[begun[1]] = answer.get("id")
            told = record.get("type") in ("user", "tool_result")
            found.append({**record, "calls": calls, "tasks": tasks} if told else record)
        return found

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """Of a subagent's record its edits count."""
        kind, at = record.get("type"), time_of(record.get("timestamp"))
        signs = {"assistant": _answered, "user": _given, "tool_result": _returned}.get(str(kind))
        told = signs(record, at) if signs is not None else ()
        if record.get("isSidechain") is True:
            yield from (sign for sign in told if isinstance(sign, (Edited, Ended)))
            return
        yield from _shown(record, str(kind))
        yield from told

    def step(self, record: Record) -> RecordStep | None:
        """A tree: each record names the one that it follows."""
        key, parent, kind = record.get("uuid"), record.get("parentUuid"), record.get("type")
        if not isinstance(key, str) or record.get("isSidechain") is True:
            return None
        prompt = kind == "user" and _prompt(record) != ""
        aside = not (prompt or kind in ("assistant", "tool_result"))
        return RecordStep(key=key, after=parent if isinstance(parent, str) else "", prompt=prompt, aside=aside)

    def id_of(self, record: Record) -> object:
        """Of what was said."""
        return record.get("uuid") if record.get("type") in ("user", "assistant") else None


CLIENT = Qwen()


def _parts(record: Record) -> list[object]:
    return list_of(dict_of(record.get("message")).get("parts"))


def _output(answer: Record) -> str:
    """Return what the model was told that a call gave."""
    given = dict_of(answer.get("response"))
    return plain(given.get("output")) or plain(given.get("error"))


def _prompt(record: Record) -> str:
    """Return the user's words in a record; empty where the client says it, or another program in the user's name."""
    own = record.get("subtype") in (None, "mid_turn_user_message") and record.get("provenance") in (None, "real_user")
    texts = (outside(text) for text in texts_of(_parts(record)) if not text.startswith((_CONTEXT, _NOTICE)))
    return "\n".join(filter(None, texts)) if own else ""


def _shown(record: Record, kind: str) -> Iterator[Shown]:
    if record.get("subtype") == "chat_compression":
        history = [_parts({"message": one}) for one in list_of(dict_of(record.get("systemPayload")).get("compressedHistory"))]
        yield Shown(who="system", content=[text for parts in history[:1] for text in texts_of(parts)], summary=True)
    who = {"assistant": "assistant", "user": "user" if _prompt(record) else "system"}.get(kind, "")
    for part in map(dict_of, _parts(record)):
        call, answer = dict_of(part.get("functionCall")), dict_of(part.get("functionResponse"))
        if call:
            yield Shown(who="tool", name=name_of(call.get("name")), key=str(call.get("id")), content=call.get("args"))
        elif answer:
            yield Shown(who="tool", key=str(answer.get("id")), content=_output(answer), answer=True)
        elif part.get("thought"):
            yield Shown(who="thought", content="")
        elif who:
            yield Shown(who="system" if plain(part.get("text")).startswith(_CONTEXT) else who, content=part)


def _answered(record: Record, at: float | None) -> Iterator[Sign]:
    """Yield the signs of what the agent said and called."""
    used = dict_of(record.get("usageMetadata"))
    read, total = used.get("promptTokenCount"), used.get("totalTokenCount")
    wrote = total - read if isinstance(total, int) and isinstance(read, int) else None  # thoughts count, too
    cached = used.get("cachedContentTokenCount") or 0
    yield from replied(at, word(record.get("uuid")), record.get("model"), read, wrote, cached)
    yield from words(Said, at, _parts(record))
    for part in map(dict_of, _parts(record)):
        call = dict_of(part.get("functionCall"))
        name, key, given = call.get("name"), word(call.get("id")), dict_of(call.get("args"))
        if name == "run_shell_command":
            yield from ran(at, key, given.get("command"), given.get("directory") or record.get("cwd"))
        elif name in Qwen.editors:
            yield from edited(at, key, given.get("notebook_path") or given.get("file_path"))
        elif name == "agent":
            yield from called(at, key, given.get("description") or given.get("prompt"))
        elif name == "read_file":
            yield from looked(at, given.get("file_path"))


def _given(record: Record, at: float | None) -> Iterator[Sign]:
    """Yield the signs of what the user said, and of the ends of what went on in the background."""
    for text in texts_of(_parts(record)):
        if text.startswith(_NOTICE):
            head, _, rest = text.partition("<summary>")
            ids = dict(inside("tool-use-id|task-id|status", head))
            told = dict(inside("exit-code|result|output-tail", rest))
            task, code = ids.get("task-id", ""), told.get("exit-code", "")
            status = int(code) if code.isascii() and code.isdigit() else int(ids.get("status") != "completed")
            if ids.get("status") in _ENDS:
                key = word(ids.get("tool-use-id") or dict_of(record.get("tasks")).get(task) or task)
                yield from ended(at, key, status, (told.get("output-tail") or told.get("result", "")).strip())
    if said := _prompt(record):
        yield Asked(at=at, text=said)


def _returned(record: Record, at: float | None) -> Iterator[Sign]:
    """Yield the signs of what calls gave."""
    result = dict_of(record.get("toolCallResult"))
    for part in map(dict_of, _parts(record)):
        answer = dict_of(part.get("functionResponse"))
        key = word(answer.get("id"))
        given = dict_of(dict_of(dict_of(record.get("calls")).get(key or "")).get("args"))
        yield from _result(at, key, answer, given, result if result.get("callId") == key else {})


def _result(at: float | None, key: str | None, answer: Record, given: Record, result: Record) -> Iterator[Sign]:
    name, text, shown = answer.get("name"), _output(answer), dict_of(result.get("resultDisplay"))
    status, refused = result.get("status"), result.get("executionStatus") == "not_started"
    done = status == "success" or (status is None and "error" not in dict_of(answer.get("response")))
    if re.match(_TASK, text):  # what it printed so far is not all
        yield from ended(at, key, None, running=True)
    elif name == "run_shell_command":
        codes = re.findall(_CODE, text)
        code = shown.get("exitCode") if shown else int(codes[-1]) if codes else None
        yield from ended(at, key, code, shown.get("output") if shown else text, refused=refused)
    elif name in (*Qwen.editors, "agent"):
        yield from ended(at, key, 0 if done else 1, text, refused=refused)
    elif name in ("grep_search", "glob"):
        yield from searched(at, text)
    elif shown.get("type") == "ask_user_question_answers":
        for number, one in enumerate(map(dict_of, list_of(shown.get("answers")))):
            yield from answered(nth(at, number), one.get("question"), plain(one.get("answer")))
    elif name == "exit_plan_mode" and done and shown.get("rejected") is not True and text.startswith("User approved"):
        yield from approved(at, plain(shown.get("plan")))
    elif name == "todo_write" and done:
        yield from whole(at, shown.get("todos") or given.get("todos"), "content")
