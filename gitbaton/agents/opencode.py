"""OpenCode: a plugin of ours instead of settings, its conversations and plans in a database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitbaton.agents.client import Client, Fields, Installed, Plugin, Query
from gitbaton.agents.payload import word
from gitbaton.agents.records import (
    answered,
    called,
    dict_of,
    edited,
    ended,
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
    summed,
    texts_of,
    time_of,
    whole,
    whole_plan,
    words,
)
from gitbaton.agents.signs import Asked, Planned, Record, Said, Shown, Sign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_QUOTED = r'(?s)"((?:[^"\\]|\\.)*)"'


class OpenCode(Client):
    """OpenCode. The plugin says what happens, and puts an answer where it belongs."""

    name = "opencode"
    title = "OpenCode"
    programs = ("opencode",)
    shape = "plugin"
    project = ".opencode/plugins/gitbaton.js"
    folder = ".config/opencode"
    moved = (("XDG_CONFIG_HOME", "opencode"),)
    user = "plugins/gitbaton.js"
    plugin = Plugin(folder="opencode", hooks="plugins/gitbaton-plugin.js", place="")
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
        if kind == "text" and not any(data.get(name) is True for name in ("synthetic", "ignored")):
            yield Shown(who=name_of(who), content=data.get("text"))
            if who == "user":
                yield from words(Asked, at, [_unquoted(text) for text in texts_of(data.get("text"))])
            elif who == "assistant" and record.get("message_agent") != "compaction":
                yield from words(Said, at, data.get("text"))
        elif kind == "step-finish":
            yield from _used(at, record, dict_of(data.get("tokens")))
        elif kind == "tool":
            state, key = dict_of(data.get("state")), str(data.get("callID"))
            yield Shown(who="tool", name=name_of(data.get("tool")), key=key, content=state.get("input"))
            if state.get("status") in ("completed", "error"):
                yield Shown(who="tool", key=key, content=state.get("output") or state.get("error"), answer=True)
            yield from _call(at, word(data.get("callID")), data.get("tool"), dict_of(data.get("state")))

    def rows(self, session: str, since: int, env: Mapping[str, str], most: int) -> Query | None:
        """Parts of messages, each beside its message."""
        sql = (
            "SELECT part.id AS id, part.time_updated AS time_updated, part.time_created AS time_created, part.data AS data,"
            " message.data AS message FROM part JOIN message ON part.message_id = message.id"
            f" WHERE part.session_id = ? AND part.time_updated > ? ORDER BY part.time_created DESC, part.id DESC LIMIT {most}"
        )
        return Query(path=_database(env), sql=sql, values=(session, since))

    def sessions(self, env: Mapping[str, str]) -> Query | None:
        """Sessions without a parent."""
        sql = "SELECT id, directory AS folder FROM session WHERE parent_id IS NULL ORDER BY time_created, id"
        return Query(path=_database(env), sql=sql)

    def left(self, session: str, until: int, env: Mapping[str, str]) -> Query | None:
        """Messages are deleted when they are taken back."""
        sql = "SELECT COUNT(*) AS number FROM message WHERE session_id = ? AND time_created <= ?"
        return Query(path=_database(env), sql=sql, values=(session, until))

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
        return Query(path=_database(env), sql=sql, values=(session,))

    def planned(self, rows: Sequence[Mapping[str, object]]) -> Planned | None:
        """Rows of ``todo``: content, status, position, time_updated."""
        table = sorted(rows, key=lambda row: number(row.get("position")))
        return whole_plan(items_of(table, "content"), (row.get("time_updated") for row in table))


CLIENT = OpenCode()


def _database(env: Mapping[str, str]) -> str:
    home = env.get("XDG_DATA_HOME") or f"{env.get('HOME', '/')}/.local/share"
    return f"{home}/opencode/opencode.db"


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


def _call(at: float | None, key: str | None, name: object, state: Record) -> Iterator[Sign]:
    given, more, times = (dict_of(state.get(part)) for part in ("input", "metadata", "time"))
    begun, status = time_of(times.get("start")) or at, state.get("status")
    done = time_of(times.get("end")) or begun
    over = status in ("completed", "error")
    if name == "bash":
        yield from ran(begun, key, given.get("command"))
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
