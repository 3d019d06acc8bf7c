"""OpenCode: a plugin of ours instead of settings, its conversations and plans in a database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitbaton.agents.client import Client, Fields, Installed, NewSession, Plugin, Query
from gitbaton.agents.payload import word
from gitbaton.agents.records import (
    answered,
    called,
    dict_of,
    edited,
    ended,
    is_model,
    items_of,
    list_of,
    looked,
    name_of,
    nth,
    number,
    patched,
    plain,
    ran,
    record_of,
    replied,
    spoken,
    summed,
    texts_of,
    time_of,
    whole,
    whole_plan,
    words,
)
from gitbaton.agents.signs import Asked, Message, Planned, Record, Said, Shown, Sign
from gitbaton.base.codec import cut, first_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_TITLE = 60  # characters
_QUOTED = r'(?s)"((?:[^"\\]|\\.)*)"'


class OpenCode(Client):
    """OpenCode. The plugin says what happens, and puts an answer where it belongs."""

    name = "opencode"
    title = "OpenCode"
    programs: tuple[str, ...] = ("opencode",)
    shape = "plugin"
    project = ".opencode/plugins/gitbaton.js"
    folder = ".config/opencode"
    moved = (("XDG_CONFIG_HOME", "opencode"),)
    user = "plugins/gitbaton.js"
    plugin: Plugin | None = Plugin(folder="opencode", hooks="plugins/gitbaton-plugin.js", place="", name="gitbaton-plugin.js")
    remarks = ("it may put package.json, node_modules and a .gitignore beside the folder 'plugins'; its own doing",)
    events = {
        "context": ("start", "full"),
        "compacting": ("compact", "full"),
        "prompt": ("prompt", "no"),
        "edited": ("edit", "no"),
        "command": ("command", "no"),
        "idle": ("turn", "no"),
        "compacted": ("compacted", "no"),
        "ended": ("end", "no"),
    }
    mark = b""
    shells = ("bash",)
    resume = "opencode import {1} && opencode --session {0}"

    def plugins(self, of: Installed) -> Iterator[tuple[str, str, bool]]:
        """Yield the one in its folder, and those that its settings name."""
        own = f"{of.home}/plugins/gitbaton-plugin.js"
        if of.lies(own):
            yield "gitbaton-plugin.js", own, True
        for path in (f"{of.home}/opencode.json", f"{of.home}/opencode.jsonc"):
            named = list_of(of.settings(path).get("plugin"))
            yield from ((name, path, True) for name in named if isinstance(name, str) and "gitbaton" in name)

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what our plugin says."""
        prompt = fields.get("prompt")
        return {
            "session": fields.get("sessionID"),
            "cwd": fields.get("directory"),
            "prompt": _unquoted(prompt) if isinstance(prompt, str) else prompt,
            "child": fields.get("child"),
            "command": fields.get("command"),
        }

    def answer(self, name: str, text: str) -> object:
        """The text as it is."""
        return text

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """A record is a row of ``part``, with ``data`` parsed, beside the ``role`` and the ``agent`` of its message."""
        data, at = dict_of(record.get("data")), time_of(record.get("time_created"))
        who, kind = record.get("message_role"), data.get("type")
        yield from _shown(data, str(kind), str(who), summary=record.get("message_agent") == "compaction")
        if kind == "text" and not any(data.get(name) is True for name in ("synthetic", "ignored")):
            if who == "user":
                yield from words(Asked, at, [_unquoted(text) for text in texts_of(data.get("text"))])
            elif who == "assistant" and record.get("message_agent") != "compaction":
                yield from words(Said, at, data.get("text"))
        elif kind == "step-finish":
            yield from _used(at, record, dict_of(data.get("tokens")))
        elif kind == "tool":
            yield from _call(at, word(data.get("callID")), data.get("tool"), dict_of(data.get("state")))

    def database(self, env: Mapping[str, str]) -> str:
        """The file of its database."""
        home = env.get("XDG_DATA_HOME") or f"{env.get('HOME', '/')}/.local/share"
        return f"{home}/{self.name}/{self.name}.db"

    def model(self, record: Record) -> str:
        """Beside each part of an answer."""
        found = record.get("model") if record.get("message_role") == "assistant" else None
        return found if is_model(found) else ""

    def rows(self, session: str, since: int, env: Mapping[str, str], most: int) -> Query | None:
        """Parts of messages, each beside its message."""
        sql = (
            "SELECT part.id AS id, part.time_updated AS time_updated, part.time_created AS time_created, part.data AS data,"
            " message.data AS message FROM part JOIN message ON part.message_id = message.id"
            f" WHERE part.session_id = ? AND part.time_updated > ? ORDER BY part.time_created DESC, part.id DESC LIMIT {most}"
        )
        return Query(path=self.database(env), sql=sql, values=(session, since))

    def sessions(self, env: Mapping[str, str]) -> Query | None:
        """Sessions without a parent."""
        sql = "SELECT id, directory AS folder FROM session WHERE parent_id IS NULL ORDER BY time_created, id"
        return Query(path=self.database(env), sql=sql)

    def left(self, session: str, until: int, env: Mapping[str, str]) -> Query | None:
        """Messages are deleted when they are taken back."""
        sql = "SELECT COUNT(*) AS number FROM message WHERE session_id = ? AND time_created <= ?"
        return Query(path=self.database(env), sql=sql, values=(session, until))

    def record(self, row: Mapping[str, Any]) -> tuple[Record | None, object]:
        """The columns of a part and of its message."""
        part, message = (record_of(str(row[name]).encode("utf-8", "replace")) for name in ("data", "message"))
        if part is None or message is None:
            return None, row["time_updated"]
        said = {"message_role": message.get("role"), "message_agent": message.get("agent")}
        said["model"] = "/".join(filter(None, (plain(message.get(name)) for name in ("providerID", "modelID"))))
        return {**said, "id": row["id"], "time_created": row["time_created"], "data": part}, row["time_updated"]

    def plan(self, session: str | None, transcript: str | None, env: Mapping[str, str], most: int) -> Query | None:
        """In the same database."""
        if session is None:
            return None
        sql = f"SELECT * FROM todo WHERE session_id = ? ORDER BY position LIMIT {most}"
        return Query(path=self.database(env), sql=sql, values=(session,))

    def planned(self, rows: Sequence[Mapping[str, object]]) -> Planned | None:
        """Rows of ``todo``: content, status, position, time_updated."""
        table = sorted(rows, key=lambda row: number(row.get("position")))
        return whole_plan(items_of(table, "content"), (row.get("time_updated") for row in table))

    def session_of(self, uuid: str) -> str:
        """It begins with the kind."""
        return f"ses_{uuid.replace('-', '')[:26]}"

    def models(self, env: Mapping[str, str]) -> Query | None:
        """Of the newest message of the user's, in any session."""
        sql = (
            "SELECT json_extract(data, '$.model.providerID') AS provider, json_extract(data, '$.model.modelID') AS model"
            " FROM message WHERE json_extract(data, '$.role') = 'user' AND provider <> 'unknown'"
            " ORDER BY time_created DESC LIMIT 1"
        )
        return Query(path=self.database(env), sql=sql)

    def written(self, messages: Sequence[Message], new: NewSession) -> Iterator[Record]:
        """One record, of the form that it exports and imports."""
        of, now = {"providerID": new.model[0], "modelID": new.model[1]}, int(new.now.timestamp() * 1000)
        rows: list[Record] = []
        asked = ""
        for found in spoken(messages):
            at = int(found.at * 1000) or now
            if found.who != "assistant":  # of a compaction it is the client that asks
                summed = found.who == "summary"
                parts: list[Record] = (
                    [{"type": "compaction", "auto": True}] if summed else [_text(text) for text in found.texts]
                )
                asked = _key(new, len(rows))
                rows.append(_row(new, asked, {"role": "user", "agent": "build", "model": of, "time": {"created": at}}, parts))
            if found.who != "user":
                parts = [_text("\n\n".join(found.texts))] if found.texts else []
                parts += [_called(found.command, f"call_{len(rows)}", at)] if found.command else []
                mode = "compaction" if found.who == "summary" else "build"
                info: Record = {"role": "assistant", "parentID": asked, "mode": mode, "agent": mode, **of, "cost": 0}
                info |= {"path": {"cwd": new.directory, "root": new.directory}, "time": {"created": at, "completed": at}}
                info |= {"tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}}
                info |= {"finish": "tool-calls" if found.command else "stop"} | ({"summary": True} if mode != "build" else {})
                rows.append(_row(new, _key(new, len(rows)), info, parts))
        title = cut(first_line(next((one.text for one in messages if one.who == "user"), "")), _TITLE)
        told: Record = {"id": new.id, "slug": new.id, "projectID": "global", "directory": new.directory, "title": title}
        begun = int(messages[0].at * 1000) or now
        yield {"info": {**told, "version": "0.0.0", "time": {"created": begun, "updated": now}}, "messages": rows}

    def place(self, new: NewSession, env: Mapping[str, str]) -> str:
        """Beside its database."""
        return f"{self.database(env).rpartition('/')[0]}/gitbaton/{new.id}.json"


CLIENT = OpenCode()


def _key(new: NewSession, number: int) -> str:
    """The id of a message: those that the client makes follow it."""
    return f"msg_{number:06}{new.id[-20:]}"


def _row(new: NewSession, key: str, info: Record, parts: list[Record]) -> Record:
    ids: Record = {"sessionID": new.id, "messageID": key}
    numbered = [{"id": f"prt_{key[4:]}{number:02}", **ids, **part} for number, part in enumerate(parts)]
    return {"info": {"id": key, "sessionID": new.id, **info}, "parts": numbered}


def _text(text: str) -> Record:
    return {"type": "text", "text": text}


def _called(command: Message, key: str, at: int) -> Record:
    title = cut(first_line(command.text), _TITLE)
    state: Record = {"status": "completed", "input": {"command": command.text, "description": title}, "output": command.answer}
    return {
        "type": "tool",
        "tool": "bash",
        "callID": key,
        "state": {**state, "title": title, "metadata": {}, "time": {"start": at, "end": at}},
    }


def _unquoted(prompt: str) -> str:
    """Return the user's words without the quotes that ``opencode run`` puts around a word of its command line that holds
    blanks."""
    found = re.fullmatch(_QUOTED, prompt.strip())
    return found[1].replace('\\"', '"') if found and " " in found[1] else prompt


def _used(at: float | None, record: Record, tokens: Record) -> Iterator[Sign]:
    """The tokens of a request; versions that tell no total have the reasoning in the output already."""
    cache = dict_of(tokens.get("cache"))
    read = summed(tokens.get("input"), cache.get("write"), cache.get("read"))
    wrote = summed(tokens.get("output"), tokens.get("reasoning") if "total" in tokens else 0)
    yield from replied(at, word(record.get("id")), record.get("model"), read, wrote, cache.get("read") or 0)


def _shown(data: Record, kind: str, who: str, *, summary: bool) -> Iterator[Shown]:
    if kind == "text":
        hidden = summary or any(data.get(name) is True for name in ("synthetic", "ignored"))
        yield Shown(who="system" if hidden else who, content=data.get("text"), summary=summary and who == "assistant")
    elif kind == "reasoning":
        yield Shown(who="thought", content="")
    elif kind == "file":
        yield Shown(who=who, content={"type": "image" if str(data.get("mime")).startswith("image/") else "file"})
    elif kind == "tool":
        state, key = dict_of(data.get("state")), str(data.get("callID"))
        yield Shown(who="tool", name=name_of(data.get("tool")), key=key, content=state.get("input"))
        if state.get("status") in ("completed", "error"):
            yield Shown(who="tool", key=key, content=state.get("output") or state.get("error"), answer=True)


def _call(at: float | None, key: str | None, name: object, state: Record) -> Iterator[Sign]:
    given, more, times = (dict_of(state.get(part)) for part in ("input", "metadata", "time"))
    begun, status = time_of(times.get("start")) or at, state.get("status")
    done = time_of(times.get("end")) or begun
    over = status in ("completed", "error")
    if name == "bash":
        yield from ran(begun, key, given.get("command"), given.get("workdir") or ".")
        if over:
            yield from ended(
                done, key, more.get("exit") if status == "completed" else None, state.get("output") or state.get("error")
            )
    elif name in ("write", "edit"):
        yield from edited(begun, key, given.get("filePath"))
        if over:
            yield from ended(done, key, 0 if status == "completed" else 1)
    elif name == "apply_patch" and over:
        for file in map(dict_of, list_of(more.get("files"))):
            for changed in (file.get("filePath"), file.get("movePath")):
                yield from patched(begun, done, key, changed, made=status == "completed")
    elif name == "read":
        yield from looked(begun, given.get("filePath"))
    elif name == "task":
        yield from called(begun, key, given.get("description") or given.get("prompt"))
        if over:
            yield from ended(done, key, 0 if status == "completed" else 1, state.get("output"))
    elif name == "question" and status == "completed":
        asked = zip(list_of(given.get("questions")), list_of(more.get("answers")), strict=False)
        for number, (question, answers) in enumerate(asked):
            yield from answered(nth(done, number), dict_of(question).get("question"), ", ".join(texts_of(answers)))
    elif name == "todowrite" and status == "completed":
        yield from whole(done, given.get("todos"), "content")
