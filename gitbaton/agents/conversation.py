"""Transcripts as messages, to show or to give a new session; what else they tell is read by records.py."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from gitbaton.values import value

Record = dict[str, object]

MAX_LINE = 8 << 20  # of a longer line nothing is shown, and no id is looked for in it
RESUMABLE = ("claude", "codex")
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_HOMES = {
    "claude": ("CLAUDE_CONFIG_DIR", "/.claude"),
    "codex": ("CODEX_HOME", "/.codex"),
    "gemini": ("GEMINI_CLI_HOME", ""),
    "copilot": ("COPILOT_HOME", "/.copilot"),
}
_PATTERNS = {
    "claude": ("projects/*/{0}.jsonl",),
    "codex": ("sessions/[0-9]*/[0-9]*/[0-9]*/rollout-*-{0}.jsonl", "archived_sessions/rollout-*-{0}.jsonl"),
    "gemini": (".gemini/tmp/*/chats/session-*-{1}.jsonl",),
    "copilot": ("session-state/{0}/events.jsonl",),
}
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")
_SPOKEN = ("user", "assistant", "system")
_CLAUDE_FOLDER = 200  # characters of a folder's name, before Claude Code cuts it and adds a hash
_CODEX_META = ("id", "session_id", "timestamp", "cwd", "originator", "cli_version", "source", "model_provider")


@value
class Message:
    """One thing said. ``who``: ``user``, ``assistant``, ``system``, or ``tool`` with its ``name``."""

    who: str
    text: str
    name: str = ""


@value
class Renamed:
    """A transcript as that of another session; ``left_out``: how many of its lines could not be taken along."""

    data: bytes
    left_out: int


def record_of(line: bytes, limit: int | None = MAX_LINE) -> Record | None:
    """The JSON object of one line of a transcript; None for anything else."""
    if (limit is not None and len(line) > limit) or not line.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(line.decode("utf-8", "replace"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no JSON")


def message_id(agent: str, line: bytes) -> str | None:
    """The id of the message that a line of a client's transcript holds; None where it holds none."""
    record = record_of(line)
    if record is None:
        return None
    if agent == "codex":
        item = dict_of(record.get("payload")) if record.get("type") == "response_item" else {}
        found = item.get("id") or item.get("call_id")
    elif agent == "claude":
        found = record.get("uuid") if record.get("type") in _SPOKEN else None
    else:
        found = record.get("id")
    return found if isinstance(found, str) and _ID.match(found) else None


def messages(agent: str, raw: bytes) -> list[Message]:
    """What was said in a transcript, in its order; nothing for a client whose format is not known."""
    reader = _READERS.get(agent)
    records = (record for line in raw.split(b"\n") if (record := record_of(line)) is not None)
    return [m for m in reader(records) if m.text.strip()] if reader else []


def open_call(agent: str, raw: bytes) -> str | None:
    """The name of a tool that was called last and has not answered; None where every call has its answer."""
    calls: dict[str, str] = {}
    for line in raw.split(b"\n"):
        record = record_of(line)
        for kind, key, name in _calls(agent, record) if record else ():
            if kind == "call":
                calls[key] = name
            else:
                calls.pop(key, None)
    return next(reversed(calls.values()), None)


def renamed(agent: str, raw: bytes, session: str, *, foreign: bool) -> Renamed | None:
    """A transcript as that of a session of another id; None where the client could not resume it.

    Lines that are no JSON object, or none that can be written again (a number beyond all, nested too deep), are left out. Of a
    stranger's only what was said stays: both clients would take the system prompt that a transcript holds for their own.
    """
    lines = [line for line in raw.split(b"\n") if line.strip()]
    found = [record for line in lines if (record := record_of(line, None)) is not None and _written(record) is not None]
    records = {"claude": _said_claude, "codex": _said_codex}[agent](found) if foreign else found
    done = {"claude": _as_claude, "codex": _as_codex}[agent](records, session)
    if done is None:
        return None
    written = [text for record in done if (text := _written(record)) is not None]
    return Renamed(data=b"".join(written), left_out=len(lines) - len(found) + len(done) - len(written))


def _written(record: Record) -> bytes | None:
    """A record as a line; None where no JSON can hold it."""
    try:
        return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except (ValueError, RecursionError):
        return None


def home_of(agent: str, env: Mapping[str, str]) -> str | None:
    """The folder in which a client keeps what is its own, as its environment says; None where that is not known."""
    key, default = _HOMES.get(agent, ("", ""))
    if not key or not env.get("HOME", "").startswith("/"):
        return None
    return env[key] if env.get(key, "").startswith("/") else f"{env['HOME']}{default}"


def places(agent: str, session: str, env: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where a client keeps the transcript of a session: a folder, and a glob pattern of file names below it."""
    home = home_of(agent, env)
    if home is None or not _SESSION.match(session):
        return []
    return [(home, pattern.format(session, session[:8])) for pattern in _PATTERNS[agent]]


def _as_claude(records: list[Record], session: str) -> list[Record] | None:
    if not any(record.get("type") in ("user", "assistant") for record in records):
        return None
    return [{**record, "sessionId": session} if "sessionId" in record else record for record in records]


def _as_codex(records: list[Record], session: str) -> list[Record] | None:
    """Its first line describes the session; the ids of threads that it copied from others stay."""
    meta = dict_of(records[0].get("payload")) if records and records[0].get("type") == "session_meta" else {}
    old = meta.get("id")
    if not isinstance(old, str) or not any(record.get("type") == "response_item" for record in records):
        return None
    return [_renamed_payload(record, old, session) for record in records]


def _said_claude(records: list[Record]) -> list[Record]:
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


def _said_codex(records: list[Record]) -> list[Record]:
    """What was said; neither settings of a turn nor instructions in the client's or a developer's name."""
    kept: list[Record] = []
    for record in records:
        payload, kind = dict_of(record.get("payload")), record.get("type")
        if kind == "session_meta":
            kept.append({**record, "payload": {key: payload[key] for key in _CODEX_META if key in payload}})
        elif kind == "compacted" or (kind == "response_item" and payload.get("role") not in ("developer", "system")):
            kept.append(record)
    return kept


def _renamed_payload(record: Record, old: str, session: str) -> Record:
    payload = dict_of(record.get("payload"))
    keys = ("session_id", "thread_id", *(("id",) if record.get("type") == "session_meta" else ()))
    changed = {key: session for key in keys if payload.get(key) == old}
    return {**record, "payload": {**payload, **changed}} if changed else record


def claude_folder(directory: str) -> str:
    """The name of the folder in which Claude Code keeps the sessions of a directory."""
    units = directory.encode("utf-16-le", "surrogatepass")
    codes = [units[n] | units[n + 1] << 8 for n in range(0, len(units), 2)]
    name = "".join(chr(code) if code < 128 and chr(code).isalnum() else "-" for code in codes)
    if len(name) <= _CLAUDE_FOLDER:
        return name
    number = 0
    for code in codes:
        number = (number * 31 + code) & 0xFFFFFFFF
    number = 0x100000000 - number if number >= 0x80000000 else number
    digits, text = "0123456789abcdefghijklmnopqrstuvwxyz", ""
    while number or not text:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
    return f"{name[:_CLAUDE_FOLDER]}-{text}"


def dict_of(found: object) -> Record:
    """A JSON object; an empty one for anything else."""
    return found if isinstance(found, dict) else {}


def list_of(found: object) -> list[object]:
    """A JSON array; an empty one for anything else."""
    return found if isinstance(found, list) else []


def text_of(found: object, depth: int = 4) -> str:
    """The text of a content field: a string, a part, or a list of parts; of other parts their kind."""
    if isinstance(found, str) or depth == 0:
        return found if isinstance(found, str) else "..."
    if isinstance(found, list):
        return "\n".join(text for item in found if (text := text_of(item, depth - 1)))
    part = dict_of(found)
    for key in ("text", "content", "output"):
        if isinstance(part.get(key), (str, list)):
            return text_of(part[key], depth - 1)
    return f"[{part['type']}]" if isinstance(part.get("type"), str) else ""


def _arguments(found: object) -> str:
    """What a tool was called with; ``{"command": ...}`` as the command itself."""
    if isinstance(found, str):
        return found
    given = dict_of(found)
    only = given.get("command")
    return only if isinstance(only, str) else json.dumps(given, ensure_ascii=False)


def _name(found: object) -> str:
    return found if isinstance(found, str) and found else "?"


def _claude(records: Iterable[Record]) -> Iterator[Message]:
    names: dict[str, str] = {}
    for record in records:
        kind, content = record.get("type"), dict_of(record.get("message")).get("content")
        if record.get("isSidechain") is True:
            continue
        if kind == "system":
            yield Message(who="system", text=text_of(record.get("content")))
        elif kind == "attachment":
            found = dict_of(record.get("attachment"))
            if str(found.get("type", "")).startswith("hook"):
                yield Message(who="system", text=text_of(found.get("content")))
        elif kind in ("user", "assistant"):
            who = "system" if record.get("isMeta") is True else str(kind)
            for part in [content] if isinstance(content, str) else list_of(content):
                yield from _claude_part(who, part, names)


def _claude_part(who: str, part: object, names: dict[str, str]) -> Iterator[Message]:
    block = dict_of(part)
    kind = block.get("type")
    if kind == "tool_use":
        names[str(block.get("id"))] = _name(block.get("name"))
        yield Message(who="tool", name=_name(block.get("name")), text=_arguments(block.get("input")))
    elif kind == "tool_result":
        name = names.get(str(block.get("tool_use_id")), "?")
        yield Message(who="tool", name=name, text=text_of(block.get("content")))
    elif kind not in ("thinking", "redacted_thinking"):
        yield Message(who=who, text=text_of(part))


def _codex(records: Iterable[Record]) -> Iterator[Message]:
    names: dict[str, str] = {}
    for record in records:
        item = dict_of(record.get("payload"))
        if record.get("type") == "compacted":
            yield Message(who="system", text=text_of(item.get("message")))
        elif record.get("type") == "response_item":
            yield from _codex_item(item, names)


def _codex_item(item: Record, names: dict[str, str]) -> Iterator[Message]:
    kind, key = str(item.get("type")), str(item.get("call_id"))
    if kind == "message":
        role = str(item.get("role"))
        yield Message(who=role if role in _SPOKEN else "system", text=text_of(item.get("content")))
    elif kind.endswith("_call_output"):
        yield Message(who="tool", name=names.get(key, "?"), text=text_of(item.get("output")))
    elif kind.endswith("_call"):
        names[key] = _name(item.get("name") or kind.removesuffix("_call"))
        given = item.get("arguments") or item.get("input") or item.get("action")
        yield Message(who="tool", name=names[key], text=_arguments(given))


def _gemini(records: Iterable[Record]) -> Iterator[Message]:
    """A message is written again whenever it grows: the last one of an id counts."""
    kept: dict[str, Record] = {}
    for record in records:
        target, key = record.get("$rewindTo"), record.get("id")
        if isinstance(target, str):
            ids = list(kept)
            for gone in ids[ids.index(target) if target in kept else 0 :]:
                del kept[gone]
        elif isinstance(key, str):
            kept[key] = record
        for item in list_of(dict_of(record.get("$set")).get("messages")):
            again = dict_of(item)
            if isinstance(again.get("id"), str):
                kept.setdefault(str(again["id"]), again)
    for record in kept.values():
        kind = record.get("type")
        who = {"user": "user", "gemini": "assistant"}.get(str(kind), "system")
        yield Message(who=who, text=text_of(record.get("content")))
        for call in map(dict_of, list_of(record.get("toolCalls"))):
            name = _name(call.get("name"))
            yield Message(who="tool", name=name, text=_arguments(call.get("args")))
            yield Message(who="tool", name=name, text=text_of(call.get("resultDisplay")))


def _copilot(records: Iterable[Record]) -> Iterator[Message]:
    names: dict[str, str] = {}
    for record in records:
        kind, data = str(record.get("type")), dict_of(record.get("data"))
        key = str(data.get("toolCallId"))
        if kind in ("user.message", "assistant.message", "system.message"):
            yield Message(who=kind.partition(".")[0], text=text_of(data.get("content")))
        elif kind == "session.compaction_complete":
            yield Message(who="system", text=text_of(data.get("summaryContent")))
        elif kind == "tool.execution_start":
            names[key] = _name(data.get("toolName"))
            yield Message(who="tool", name=names[key], text=_arguments(data.get("arguments")))
        elif kind == "tool.execution_complete":
            yield Message(who="tool", name=names.get(key, "?"), text=text_of(data.get("result") or data.get("error")))


_READERS: dict[str, Callable[[Iterable[Record]], Iterator[Message]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "copilot": _copilot,
}


def _calls(agent: str, record: Record) -> Iterator[tuple[str, str, str]]:
    """The tool calls and answers of one line: ``call`` or ``answer``, the call's id, the tool's name."""
    if agent == "codex":
        item = dict_of(record.get("payload")) if record.get("type") == "response_item" else {}
        kind, key = str(item.get("type")), item.get("call_id")
        if isinstance(key, str) and kind.endswith("_call_output"):
            yield "answer", key, ""
        elif isinstance(key, str) and kind.endswith("_call"):
            yield "call", key, _name(item.get("name") or kind.removesuffix("_call"))
        return
    for block in map(dict_of, list_of(dict_of(record.get("message")).get("content"))):
        if block.get("type") == "tool_use":
            yield "call", str(block.get("id")), _name(block.get("name"))
        elif block.get("type") == "tool_result":
            yield "answer", str(block.get("tool_use_id")), ""
