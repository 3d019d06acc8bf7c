"""GitHub Copilot CLI: a file of hooks of its own, events of each session as JSON lines, its plan in a database."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitbaton.agents.client import Client, Fields, Hook, Installed, Located, Plugin, Query, switched, trusts
from gitbaton.agents.payload import absolute, names_one, word
from gitbaton.agents.records import (
    answered,
    called,
    dict_of,
    edited,
    ended,
    list_of,
    looked,
    name_of,
    number,
    parsed,
    patched,
    plain,
    ran,
    record_of,
    replied,
    state_of,
    summed,
    text_of,
    time_of,
    where,
    whole_plan,
    words,
)
from gitbaton.agents.signs import Asked, Edited, Ended, Item, Named, Planned, Record, RecordStep, Said, Shown, Sign
from gitbaton.base.model import DoctorFinding

_ANSWER = r"\A(?:The )?[Uu]ser (?:responded|selected|answered)(?: with)?: *"
_OTHERS = ("skill-", "agent-", "system")
_KEY = r"'([^\s']{1,100})'"
_NO = ("rejected", "denied")
_SHELL_ID = r"\n?<shellId: [^\n<>]*>\s*\Z"


class Copilot(Client):
    """GitHub Copilot CLI. Registered in PascalCase, an event comes with Claude Code's fields; the answers are the same."""

    name = "copilot"
    title = "GitHub Copilot CLI"
    programs = ("copilot",)
    shape = "shells"
    project = ".github/hooks/gitbaton.json"
    folder = ".copilot"
    moved = (("COPILOT_HOME", ""),)
    user = "hooks/gitbaton.json"
    hooks = (
        Hook(event="sessionStart", timeout=10),
        Hook(event="userPromptSubmitted", timeout=10),
        Hook(event="preToolUse", timeout=10, matcher="bash"),
        Hook(event="postToolUse", timeout=10),
        Hook(event="preCompact", timeout=30),
        Hook(event="agentStop", timeout=10),
        Hook(event="sessionEnd", timeout=10),
    )
    version = True
    line = ("", "settings.json")
    plugin = Plugin(
        folder="plugin",
        hooks="hooks/copilot.json",
        place="gitbaton/plugin",
        manifest="plugin.json",
        says={"hooks": "hooks/copilot.json"},
        add=(("plugin", "marketplace", "add", "{}"), ("plugin", "install", "gitbaton@gitbaton")),
        drop=(("plugin", "uninstall", "gitbaton@gitbaton"), ("plugin", "marketplace", "remove", "gitbaton")),
        known=("settings.json", "extraKnownMarketplaces", "gitbaton"),
        name="gitbaton@gitbaton",
        gone="copilot plugin uninstall {}",
    )
    trust = "it reads a repository's hooks only in a folder that you have accepted as trusted"
    remarks = ("it also runs the hooks of '.claude/settings.json'; ours stay silent there",)
    events = {
        "sessionStart": ("start", "full"),
        "userPromptSubmitted": ("prompt", "flagged"),
        "preToolUse": ("command", "no"),
        "postToolUse": ("edit", "flagged"),
        "preCompact": ("compact", "no"),
        "agentStop": ("turn", "no"),
        "sessionEnd": ("end", "no"),
        "SessionStart": ("start", "full"),
        "UserPromptSubmit": ("prompt", "flagged"),
        "PreToolUse": ("command", "no"),
        "PostToolUse": ("edit", "flagged"),
        "PreCompact": ("compact", "no"),
        "Stop": ("turn", "no"),
        "SessionEnd": ("end", "no"),
    }
    shells = ("bash", "Bash")
    editors = ("create", "edit", "apply_patch", *Client.editors)  # of its own, and of the hooks of Claude Code
    places = ("COPILOT_PROJECT_DIR",)
    files = ("session-state/{0}/events.jsonl",)
    mark = rb'"(?:(?:user|assistant)\.message|tool\.execution_(?:start|complete)|session\.(?:snapshot_rewind|usage_record))"'
    calls = True

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what a payload says, in camelCase or in snake_case. A subagent's events carry its own id as the session's,
        too."""
        session = word(fields.get("sessionId") or fields.get("session_id"))
        transcript = fields.get("transcriptPath") or fields.get("transcript_path")
        if not transcript:  # only some payloads say where its records are, and a turn that was broken off has none of those
            transcript = next((f"{home}/{path}" for home, path in where(self, session or "", env)), None)
        given = fields.get("toolArgs") or fields.get("tool_input")
        given = parsed(given) if isinstance(given, str) else given  # some versions give a text of JSON
        return {
            "session": session,
            "cwd": fields.get("cwd"),
            "transcript": transcript,
            "prompt": fields.get("prompt"),
            "source": fields.get("source"),
            "child": names_one(fields.get("agentId") or fields.get("agent_id")),
            "command": self.asked(fields.get("toolName") or fields.get("tool_name"), given),
        }

    def answer(self, name: str, text: str) -> object:
        """A field at the top."""
        return {"additionalContext": text}

    def plugins(self, of: Installed) -> Iterator[tuple[str, str, bool]]:
        """Yield those that its settings switch on, or off: it leaves that behind when one is uninstalled."""
        path = f"{of.home}/settings.json"
        known = dict_of(of.settings(path).get("extraKnownMarketplaces"))
        yield from (one for one in switched(of, [path], "enabledPlugins") if one[2] or one[0].partition("@")[2] in known)

    def doubts(self, of: Installed) -> Iterator[DoctorFinding]:
        """A repository's hooks run in a trusted folder only."""
        root = of.project
        if root is None or of.env.get("COPILOT_ALLOW_ALL") == "true":
            return
        named = [of.settings(f"{of.home}/{name}") for name in ("config.json", "settings.json")]
        folders = [
            folder for data in named for key in ("trustedFolders", "trusted_folders") for folder in list_of(data.get(key))
        ]
        yield trusts("copilot", root, yes=any(isinstance(path, str) and of.holds(path, root) for path in folders))

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """A subagent's record is shown, and of what it tells its edits count, and what it named of the plan's table."""
        kind, data, at = str(record.get("type")), dict_of(record.get("data")), time_of(record.get("timestamp"))
        key = str(data.get("toolCallId"))
        if kind in ("user.message", "assistant.message", "system.message"):
            yield Shown(who=kind.partition(".")[0], content=data.get("content"))
            if data.get("reasoningText"):
                yield Shown(who="thought", content="")
        elif kind == "session.compaction_complete":
            yield Shown(who="system", content=data.get("summaryContent"), summary=True)
        elif kind == "tool.execution_start":
            yield Shown(who="tool", name=name_of(data.get("toolName")), key=key, content=data.get("arguments"))
        elif kind == "tool.execution_complete":
            yield Shown(who="tool", key=key, content=data.get("result") or data.get("error"), answer=True)
        beside = any(map(names_one, (record.get("agentId"), data.get("agentId"), data.get("parentToolCallId"))))
        yield from (sign for sign in _told(kind, data, at) if not beside or isinstance(sign, (Edited, Ended)))
        if kind == "tool.execution_start" and data.get("toolName") == "sql":
            keys = re.findall(_KEY, plain(dict_of(data.get("arguments")).get("query")))
            yield Named(at=at, keys=tuple(keys), beside=beside)

    def sift(self, records: Sequence[Record]) -> Sequence[Record]:
        """A rewind may name the events that it takes back; the end of a call does not say what was called."""
        gone = set[str | None]()
        calls: dict[str | None, Record] = {}
        for record in records:
            data = dict_of(record.get("data"))
            if record.get("type") == "session.snapshot_rewind":
                gone.update(map(word, list_of(data.get("eventIds"))))
            elif record.get("type") == "tool.execution_start":
                calls[word(data.get("toolCallId"))] = data
        kept = [record for record in records if word(record.get("id")) not in gone] if gone - {None} else records
        return [_with_call(record, calls) if record.get("type") == "tool.execution_complete" else record for record in kept]

    def step(self, record: Record) -> RecordStep | None:
        """A line, from which an event and all that follows it can be taken back."""
        data = dict_of(record.get("data"))
        if record.get("type") == "session.snapshot_rewind":
            target = word(data.get("upToEventId"))
            return RecordStep(to=target) if target and not data.get("eventIds") else None
        return RecordStep(key=word(record.get("id")) or "", prompt=record.get("type") == "user.message")

    def located(self, record: Record) -> Located:
        """Of what begins or resumes a session, or moves it."""
        context = dict_of(dict_of(record.get("data")).get("context"))
        return Located(folder=absolute(context.get("cwd")) or "", branch=word(context.get("branch")) or "")

    def plan(self, session: str | None, transcript: str | None, env: Mapping[str, str], most: int) -> Query | None:
        """In a database beside the transcript."""
        if transcript is None:
            return None
        path = f"{transcript.rpartition('/')[0]}/session.db"
        return Query(path=path, sql=f"SELECT * FROM todos ORDER BY created_at, rowid LIMIT {most}")

    def planned(self, rows: Sequence[Mapping[str, object]]) -> Planned | None:
        """Rows of ``todos``: id, title, status, updated_at."""
        found = ((word(row.get("id")), plain(row.get("title")), state_of(row.get("status"))) for row in rows)
        items = [Item(key=key, text=text, state=state or "open") for key, text, state in found if key and text]
        return whole_plan(items, (row.get("updated_at") for row in rows))

    def called(self, line: bytes, event: str) -> bool | None:
        """It writes down when it begins to call a hook."""
        record = record_of(line) if b'"hook.start"' in line else None
        if record is None or record.get("type") != "hook.start":
            return None
        return dict_of(record.get("data")).get("hookType") in (event, "agentStop")


CLIENT = Copilot()


def _with_call(record: Record, calls: dict[str | None, Record]) -> Record:
    data = dict_of(record.get("data"))
    return {**record, "data": {**data, "asked": calls.get(word(data.get("toolCallId")))}}


def _told(kind: str, data: Record, at: float | None) -> Iterator[Sign]:
    key = word(data.get("toolCallId"))
    if kind == "user.message":
        if not plain(data.get("source")).startswith(_OTHERS) and data.get("isAutopilotContinuation") is not True:
            yield from words(Asked, at, data.get("content"))
    elif kind == "assistant.message":
        yield from words(Said, at, data.get("content"))
    elif kind == "session.usage_record":
        used = dict_of(data.get("usage"))
        of, cached = word(dict_of(used.get("accounting")).get("usageId")), used.get("cacheReadTokens") or 0
        read = used.get("inputTokens")
        if number(read) < number(cached):  # some models' count of what they read has nothing of the cache in it
            read = summed(read, used.get("cacheWriteTokens"), cached)
        yield from replied(at, of, used.get("model"), read, used.get("outputTokens"), cached)
    elif kind == "tool.execution_start":
        given = dict_of(data.get("arguments"))
        if data.get("toolName") == "bash":
            yield from ran(at, key, given.get("command"))
        elif data.get("toolName") in ("create", "edit"):
            yield from edited(at, key, given.get("path"))
        elif data.get("toolName") == "view":
            yield from looked(at, given.get("path"))
        elif data.get("toolName") == "task":
            yield from called(at, key, given.get("description") or given.get("prompt"))
    elif kind == "tool.execution_complete":
        edits = list_of(data.get("fileEdits"))
        for edit in edits:
            yield from patched(at, at, key, dict_of(edit).get("path"), made=data.get("success") is True)
        asked = dict_of(data.get("asked"))
        if asked.get("toolName") == "ask_user" and data.get("success") is True:
            answer = re.sub(_ANSWER, "", text_of(dict_of(data.get("result")).get("content")))
            yield from answered(at, dict_of(asked.get("arguments")).get("question"), answer)
        elif not edits:
            shell, error = dict_of(data.get("shellExecution")), dict_of(data.get("error"))
            result = dict_of(data.get("result")) or error
            printed = text_of(result.get("content") or result.get("message"))
            yield from ended(at, key, shell.get("exitCode"), re.sub(_SHELL_ID, "", printed), refused=error.get("code") in _NO)
