"""What one record of a client's transcript tells, or the rows of a client's database: signs.

Each record is read by itself: what belongs together has the same key. A subagent's record tells nothing, and what a client
says in the user's or the agent's name (summaries, reminders, notices) is nobody's word. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from gitbaton.agents.conversation import Record, dict_of, list_of, record_of, text_of
from gitbaton.agents.facts import Asked, Edited, Ended, Item, Planned, Ran, Said
from gitbaton.agents.payload import MAX_PATH, names_one, unquoted, valid, without_context, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.agents.facts import Sign, State

_STATES: dict[str, State] = {
    "pending": "open",
    "blocked": "open",
    "in_progress": "doing",
    "completed": "done",
    "done": "done",
    "cancelled": "dropped",
    "deleted": "dropped",
}
_MS = 1 << 47  # of milliseconds; the year 6429
_CODES = 1 << 32  # of exit statuses
_MARKS = {
    "claude": rb'"type"\s*:\s*"(?:user|assistant|queue-operation|queued_command)"',
    "codex": rb'"item_completed"|update_plan',
    "gemini": rb'"type"\s*:\s*"(?:user|gemini)"',
    "copilot": rb'"(?:user\.message|assistant\.message|tool\.execution_(?:start|complete))"',
    "opencode": b"",
}
_NOTICE = "<task-notification>"
_CLAUDES = (_NOTICE, "<command-", "<local-command-", "<system-reminder>", "<bash-", "<ide_", "[Request interrupted by user")
_UNSAID = ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
_EDITORS = ("Write", "Edit", "MultiEdit", "NotebookEdit")
_CODE = r"Exit code (\d{1,10})(?:\n|\Z)"
_LAST_CODE = r"exit code (\d{1,10})\)?\s*\Z"
_IDS = r"<(tool-use-id|task-id)>([^<]+)</"
_GEMINIS = ("<session_context>", "<state_snapshot>")
_GEMINI_CODE = r"(?m)^Exit Code: (\d{1,10})$"
_SHELL_ID = r"\n?<shellId: [^\n<>]*>\s*\Z"
_NOTHING = ("(empty)", "(no output)")


# In code mode a script calls the tools: only one that does nothing else, with JSON, tells for sure.
_CODE_PLAN = r"(?s)\s*(?:text\()?\s*await tools\.update_plan\((\{.*\})\)\s*\)?\s*;?\s*"


def signs(agent: str, record: Record) -> Iterator[Sign]:
    """What a record tells, in its order; nothing for other clients and records, and for parts that are not as expected.

    One call that edits several files begins and ends under its key once for each. Where a client's record of an end does not
    name the tool, a failed call without an exit status has the status None, an edit too, and calls of other tools end, too.

    ``opencode`` has no transcript; its record is a row of ``part``, with ``data`` parsed, beside that of its ``message``::

        SELECT part.time_created, part.data, json_extract(message.data, '$.role') AS message_role,
               json_extract(message.data, '$.agent') AS message_agent
        FROM part JOIN message ON message.id = part.message_id WHERE part.session_id = ? ORDER BY part.id
    """
    reader = _READERS.get(agent)
    if reader is not None:
        yield from reader(record)


def may_tell(agent: str, line: bytes) -> bool:
    """Whether a line of a transcript is worth parsing; where it is not, ``signs`` would have nothing to say of it."""
    mark = _MARKS.get(agent)
    if mark is None or (agent == "gemini" and line.startswith(b'{"$set"')):
        return False
    return re.search(mark, line) is not None


def todos(agent: str, rows: Iterable[Mapping[str, object]]) -> Planned | None:
    """The plan that a client keeps in a table, as of its newest change; None where there is none.

    Of ``opencode`` the rows of ``todo`` of one session (content, status, position, time_updated); of ``copilot`` those of
    ``todos`` (id, title, status, updated_at).
    """
    table = list(rows)
    if agent == "opencode":
        table.sort(key=lambda row: _number(row.get("position")))
        items = _items(table, "content")
        times = [_time(row.get("time_updated")) for row in table]
    elif agent == "copilot":
        items = [
            Item(key=key, text=text, state=_state(row.get("status")) or "open")
            for row in table
            if (key := word(row.get("id"))) and (text := _plain(row.get("title")))
        ]
        times = [_time(row.get("updated_at")) for row in table]
    else:
        return None
    at = max((time for time in times if time is not None), default=None)
    return Planned(at=at, items=tuple(items), whole=True) if items else None


def _claude(record: Record) -> Iterator[Sign]:
    kind, at = record.get("type"), _time(record.get("timestamp"))
    message = dict_of(record.get("message"))
    if record.get("isSidechain") is True:
        return
    if kind == "assistant":
        if message.get("model") != "<synthetic>" and record.get("isApiErrorMessage") is not True:
            yield from _words(Said, at, message.get("content"))
        for block in map(dict_of, list_of(message.get("content"))):
            if block.get("type") == "tool_use":
                yield from _claude_call(at, word(block.get("id")), block.get("name"), dict_of(block.get("input")))
    elif kind == "user":
        blocks = map(dict_of, list_of(message.get("content")))
        results = [block for block in blocks if block.get("type") == "tool_result"]
        for block in results:
            yield from _claude_result(at, block, record.get("toolUseResult") if len(results) == 1 else None)
        if not results:
            ours = any(record.get(name) is True for name in _UNSAID)
            yield from _claude_asked(at, message.get("content"), record.get("origin"), ours=ours)
    elif kind == "attachment":
        queued = dict_of(record.get("attachment"))
        if queued.get("type") == "queued_command":
            ours = queued.get("isMeta") is True or queued.get("commandMode") not in (None, "prompt")
            yield from _claude_asked(at, queued.get("prompt"), queued.get("origin"), ours=ours)
    elif kind == "queue-operation":
        yield from _claude_asked(at, record.get("content"), None, ours=True)


def _claude_asked(at: float | None, content: object, origin: object, *, ours: bool) -> Iterator[Sign]:
    """A prompt, or the notice of a command's end; ``ours``: whatever else it says, the client says it."""
    said = []
    for text in _texts(content):
        if text.startswith(_NOTICE):
            head, _, rest = text.partition("<summary>")  # ids after it are the model's words
            ids = dict(re.findall(_IDS, head))
            summary = rest.rpartition("</summary>")[0]
            if summary.startswith("Background command"):
                code = re.search(_LAST_CODE, summary)
                yield from _ended(at, word(ids.get("tool-use-id") or ids.get("task-id")), int(code[1]) if code else None)
        elif not text.startswith(_CLAUDES):
            said.append(text)
    if said and not ours and dict_of(origin).get("kind") in (None, "human"):
        yield Asked(at=at, text="\n".join(said))


def _claude_call(at: float | None, key: str | None, name: object, given: Record) -> Iterator[Sign]:
    if name == "Bash":
        yield from _ran(at, key, given.get("command"))
    elif name in _EDITORS:
        yield from _edited(at, key, given.get("notebook_path" if name == "NotebookEdit" else "file_path"))
    elif name == "TodoWrite":
        yield from _whole(at, given.get("todos"), "content")
    elif name == "TaskUpdate":
        yield from _changed(at, given.get("taskId"), _plain(given.get("subject")), _state(given.get("status")))


def _claude_result(at: float | None, block: Record, outcome: object) -> Iterator[Sign]:
    key, result, text = word(block.get("tool_use_id")), dict_of(outcome), text_of(block.get("content"))
    task = dict_of(result.get("task"))
    if task.get("subject"):  # a task that is only looked up has a status, too
        yield from _changed(at, task.get("id"), _plain(task["subject"]), _state(task.get("status")) or "open")
        return
    if block.get("is_error") is True:
        code = re.match(_CODE, text)
        yield from _ended(at, key, int(code[1]) if code else None, text[code.end() :] if code else text)
        return
    if result:
        text = "\n".join(part for name in ("stdout", "stderr") if isinstance(part := result.get(name), str) and part)
    if result.get("backgroundTaskId"):  # what it printed so far is not all
        yield from _ended(at, key, None)
    else:
        yield from _ended(at, key, None if result.get("interrupted") is True else 0, text)


def _codex(record: Record) -> Iterator[Sign]:
    payload, at = dict_of(record.get("payload")), _time(record.get("timestamp"))
    if record.get("type") == "response_item":
        if payload.get("type") == "function_call" and payload.get("name") == "update_plan":
            yield from _whole(at, _parsed(payload.get("arguments")).get("plan"), "step")
        elif payload.get("type") == "custom_tool_call" and payload.get("name") == "exec":
            script = payload.get("input")
            only = re.fullmatch(_CODE_PLAN, script) if isinstance(script, str) else None
            yield from _whole(at, _parsed(only[1]).get("plan"), "step") if only else ()
    elif record.get("type") == "event_msg" and payload.get("type") == "item_completed":
        begun, done = (_time(payload.get(name)) for name in ("started_at_ms", "completed_at_ms"))
        yield from _codex_item(dict_of(payload.get("item")), begun or at, done or at)


def _codex_item(item: Record, begun: float | None, done: float | None) -> Iterator[Sign]:
    kind, key = item.get("type"), word(item.get("id"))
    ended = item.get("status") in ("completed", "failed")
    if kind == "UserMessage":
        yield from _words(Asked, begun, item.get("content"))
    elif kind == "AgentMessage":
        yield from _words(Said, done, item.get("content"))
    elif kind == "CommandExecution":
        yield from _ran(begun, key, _codex_command(item.get("command")))
        yield from _ended(done, key, item.get("exit_code") if ended else None, item.get("aggregated_output"))
    elif kind == "FileChange":
        for path, change in dict_of(item.get("changes")).items():
            for changed in (path, dict_of(change).get("move_path")):
                yield from _patched(begun, done, key, changed, made=item.get("status") == "completed")


def _codex_command(found: object) -> object:
    words = [text for text in list_of(found) if isinstance(text, str)]
    if not words or len(words) != len(list_of(found)):
        return found
    if len(words) == 3 and words[1] in ("-c", "-lc"):
        return words[2]
    import shlex

    return shlex.join(words)


def _gemini(record: Record) -> Iterator[Sign]:
    """Of a message that is written again, as it grows or as part of the history, nothing that was not told before."""
    if "$set" in record:
        return
    at, content = _time(record.get("timestamp")), record.get("content")
    if record.get("type") == "user":
        if not any("functionResponse" in dict_of(part) for part in list_of(content)):
            texts = _texts(record.get("displayContent") or content)
            yield from _words(Asked, at, [without_context(text) for text in texts if not text.startswith(_GEMINIS)])
    elif record.get("type") == "gemini":
        yield from _words(Said, at, content)
        for call in map(dict_of, list_of(record.get("toolCalls"))):
            yield from _gemini_call(at, call)


def _gemini_call(at: float | None, call: Record) -> Iterator[Sign]:
    name, key, given = call.get("name"), word(call.get("id")), dict_of(call.get("args"))
    status, done = call.get("status"), _time(call.get("timestamp"))
    ended = status in ("success", "error", "cancelled")
    if name == "run_shell_command":
        yield from _ran(at, key, given.get("command"))
        if ended:
            code, printed = _gemini_shell(call)
            yield from _ended(done, key, code if status == "success" else None, printed)
    elif name in ("write_file", "replace"):
        yield from _edited(at, key, given.get("file_path"))
        if ended:
            yield from _ended(done, key, 0 if status == "success" else 1)
    elif name == "write_todos" and status == "success":
        yield from _whole(done, given.get("todos"), "description")


def _gemini_shell(call: Record) -> tuple[int | None, str]:
    """The exit status of a command, and what it printed."""
    responses = (dict_of(dict_of(part).get("functionResponse")) for part in list_of(call.get("result")))
    texts = [text for found in responses if isinstance(text := dict_of(found.get("response")).get("output"), str)]
    text, shown = "".join(texts), call.get("resultDisplay")
    end = text.rfind("\nProcess Group PGID:")
    if end < 0:  # in the background, or cut
        return None, shown if isinstance(shown, str) else ""
    head, _, rest = text[:end].partition("Output: ")
    body = rest or head
    size = len(shown) if isinstance(shown, str) and body.startswith(shown) else 0  # a program can print such a line itself
    codes = list(re.compile(_GEMINI_CODE).finditer(body, size))
    printed = body[: size or (codes[-1].start() if codes else None)].rstrip("\n")
    if codes:
        return int(codes[-1][1]), printed
    return None if "\nSignal: " in body[size:] else 0, printed


def _copilot(record: Record) -> Iterator[Sign]:
    kind, data, at = record.get("type"), dict_of(record.get("data")), _time(record.get("timestamp"))
    if any(map(names_one, (record.get("agentId"), data.get("agentId"), data.get("parentToolCallId")))):
        return
    key = word(data.get("toolCallId"))
    if kind == "user.message":
        skill = isinstance(source := data.get("source"), str) and source.startswith("skill-")
        if not skill and data.get("isAutopilotContinuation") is not True:
            yield from _words(Asked, at, data.get("content"))
    elif kind == "assistant.message":
        yield from _words(Said, at, data.get("content"))
    elif kind == "tool.execution_start":
        given = dict_of(data.get("arguments"))
        if data.get("toolName") == "bash":
            yield from _ran(at, key, given.get("command"))
        elif data.get("toolName") in ("create", "edit"):
            yield from _edited(at, key, given.get("path"))
    elif kind == "tool.execution_complete":
        edits = list_of(data.get("fileEdits"))
        for edit in edits:
            yield from _patched(at, at, key, dict_of(edit).get("path"), made=data.get("success") is True)
        if not edits:
            shell, result = dict_of(data.get("shellExecution")), dict_of(data.get("result") or data.get("error"))
            printed = text_of(result.get("content") or result.get("message"))
            yield from _ended(at, key, shell.get("exitCode"), re.sub(_SHELL_ID, "", printed))


def _opencode(record: Record) -> Iterator[Sign]:
    data, at = dict_of(record.get("data")), _time(record.get("time_created"))
    who, kind = record.get("message_role"), data.get("type")
    if kind == "text" and not any(data.get(name) is True for name in ("synthetic", "ignored")):
        if who == "user":
            yield from _words(Asked, at, [unquoted(text) for text in _texts(data.get("text"))])
        elif who == "assistant" and record.get("message_agent") != "compaction":
            yield from _words(Said, at, data.get("text"))
    elif kind == "tool":
        yield from _opencode_call(at, word(data.get("callID")), data.get("tool"), dict_of(data.get("state")))


def _opencode_call(at: float | None, key: str | None, name: object, state: Record) -> Iterator[Sign]:
    given, more, times = (dict_of(state.get(part)) for part in ("input", "metadata", "time"))
    begun, status = _time(times.get("start")) or at, state.get("status")
    done = _time(times.get("end")) or begun
    ended = status in ("completed", "error")
    if name == "bash":
        yield from _ran(begun, key, given.get("command"))
        if ended:
            yield from _ended(done, key, more.get("exit") if status == "completed" else None, state.get("output"))
    elif name in ("write", "edit"):
        yield from _edited(begun, key, given.get("filePath"))
        if ended:
            yield from _ended(done, key, 0 if status == "completed" else 1)
    elif name == "apply_patch" and ended:
        for file in map(dict_of, list_of(more.get("files"))):
            for changed in (file.get("filePath"), file.get("movePath")):
                yield from _patched(begun, done, key, changed, made=status == "completed")
    elif name == "todowrite" and status == "completed":
        yield from _whole(done, given.get("todos"), "content")


_READERS: dict[str, Callable[[Record], Iterator[Sign]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
    "copilot": _copilot,
    "opencode": _opencode,
}


def _words(kind: type[Asked] | type[Said], at: float | None, content: object) -> Iterator[Sign]:
    texts = _texts(content)
    if texts:
        yield kind(at=at, text="\n".join(texts))


def _ran(at: float | None, key: str | None, command: object) -> Iterator[Sign]:
    if key and (text := _plain(command)):
        yield Ran(at=at, key=key, command=text)


def _edited(at: float | None, key: str | None, path: object) -> Iterator[Sign]:
    if key and isinstance(path, str) and 0 < len(path) < MAX_PATH and "\0" not in path and valid(path) == path:
        yield Edited(at=at, key=key, path=path)


def _patched(begun: float | None, done: float | None, key: str | None, path: object, *, made: bool) -> Iterator[Sign]:
    """One file of an edit that has ended."""
    for edit in _edited(begun, key, path):
        yield edit
        yield from _ended(done, key, 0 if made else 1)


def _ended(at: float | None, key: str | None, status: object, output: object = "") -> Iterator[Sign]:
    """The status as far as it can be one: a number below zero is a client's word for none."""
    if key:
        text = valid(output) if isinstance(output, str) and output.strip() not in _NOTHING else ""
        code = status if isinstance(status, int) and not isinstance(status, bool) and 0 <= status < _CODES else None
        yield Ended(at=at, key=key, status=code, output=text)


def _whole(at: float | None, rows: object, field: str) -> Iterator[Sign]:
    items = _items([dict_of(row) for row in list_of(rows)], field)
    if items or rows == []:  # a list of nothing but junk has not been cleared
        yield Planned(at=at, items=tuple(items), whole=True)


def _changed(at: float | None, key: object, text: str, state: State | None) -> Iterator[Sign]:
    if (name := word(key)) and (text or state):
        yield Planned(at=at, items=(Item(key=name, text=text, state=state),), whole=False)


def _items(rows: Iterable[Mapping[str, object]], field: str) -> list[Item]:
    """The items of a list that names none: their keys are their places, from 1."""
    found = enumerate(((_plain(row.get(field)), _state(row.get("status"))) for row in rows), 1)
    return [Item(key=str(place), text=text, state=state or "open") for place, (text, state) in found if text]


def _state(status: object) -> State | None:
    return _STATES.get(status) if isinstance(status, str) else None


def _texts(content: object) -> list[str]:
    """The texts of a message, each without blanks around it; no thoughts, no parts of other kinds."""
    parts = [content] if isinstance(content, str) else list_of(content)
    found = (part if isinstance(part, str) or dict_of(part).get("thought") else dict_of(part).get("text") for part in parts)
    return [text for part in found if (text := _plain(part))]


def _plain(found: object) -> str:
    """A text without blanks around it; an empty one for anything else."""
    return valid(found.strip()) if isinstance(found, str) else ""


def _parsed(found: object) -> Record:
    """The object of a JSON text."""
    return (record_of(valid(found).encode()) if isinstance(found, str) else None) or {}


def _number(found: object) -> float:
    return found if isinstance(found, (int, float)) else 0


def _time(found: object) -> float | None:
    """Seconds since 1970; of a text of ISO 8601, in UTC where it names no zone, or a number of milliseconds."""
    if isinstance(found, str):
        try:
            when = datetime.fromisoformat(found)
        except ValueError:
            return None
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
        return seconds if seconds >= 0 else None
    if isinstance(found, (int, float)) and not isinstance(found, bool) and 0 <= found < _MS:
        return found / 1000
    return None
