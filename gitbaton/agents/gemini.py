"""Gemini CLI: settings with groups of hooks that have names, a chat of JSON lines for each session."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gitbaton.agents.client import Client, Fields, Hook, Installed, Located, NewSession, Plugin, folder, inner, trusts
from gitbaton.agents.payload import word
from gitbaton.agents.records import (
    answered,
    dict_of,
    edited,
    ended,
    id_at,
    iso,
    list_of,
    looked,
    name_of,
    nth,
    parsed,
    ran,
    replied,
    spoken,
    summed,
    text_of,
    texts_of,
    time_of,
    whole,
    words,
)
from gitbaton.agents.signs import Asked, Message, Record, RecordStep, Said, Shown, Sign
from gitbaton.base.model import DoctorFinding

_CONTEXT = r"(?s)\s*(?:<hook_context>.*?</hook_context>\s*)+"
_NO_WORDS = "[no response text]"
_OURS = ("<session_context>", "<state_snapshot>")
_CODE = r"(?m)^Exit Code: (\d{1,10})$"


class Gemini(Client):
    """Gemini CLI. It asks before every request to the model whether it is to compress, compressed or not."""

    name = "gemini"
    title = "Gemini CLI"
    programs = ("gemini",)
    shape = "groups"
    project = ".gemini/settings.json"
    folder = ".gemini"
    moved = (("GEMINI_CLI_HOME", ".gemini"),)
    user = "settings.json"
    twice = False
    plugin = Plugin(
        folder="extension",
        hooks="hooks/hooks.json",
        place="extensions/gitbaton",
        manifest="gemini-extension.json",
        gone="gemini extensions uninstall {}",
    )
    hooks = (
        Hook(event="SessionStart", timeout=10000),
        Hook(event="BeforeAgent", timeout=10000),
        Hook(event="BeforeTool", timeout=10000, matcher="run_shell_command"),
        Hook(event="AfterTool", timeout=10000, matcher="write_file|replace"),
        Hook(event="PreCompress", timeout=10000),
        Hook(event="AfterAgent", timeout=10000),
        Hook(event="SessionEnd", timeout=10000),
    )
    comments = True
    named = True
    upward = False
    instead = "GEMINI.md"
    wants = '{"context": {"fileName": ["AGENTS.md", "GEMINI.md"]}}'
    trust = "it runs a project's hooks only in a trusted folder, and warns once when it meets them"
    events = {
        "SessionStart": ("start", "full"),
        "BeforeAgent": ("prompt", "short"),
        "PreCompress": ("request", "no"),
        "BeforeTool": ("command", "no"),
        "AfterTool": ("edit", "no"),
        "AfterAgent": ("turn", "no"),
        "SessionEnd": ("end", "no"),
    }
    shells = ("run_shell_command",)
    editors = ("write_file", "replace")
    places = ("GEMINI_CWD", "GEMINI_PROJECT_DIR")
    files = ("tmp/*/chats/session-*-{1}.jsonl",)
    rooted = ".project_root"
    resume = "gemini --session-file {1}"
    mark = rb'\A(?:(?!\{"\$set").*"type"\s*:\s*"(?:user|gemini)"|.*"\$rewindTo")'

    def plugins(self, of: Installed) -> Iterator[tuple[str, str, bool]]:
        """Yield the extension in its folder; it is off where it is for every one."""
        own = f"{of.home}/extensions/gitbaton/gemini-extension.json"
        rules = list_of(inner(of.settings(f"{of.home}/extensions/extension-enablement.json"), "gitbaton", "overrides"))
        if of.settings(own):
            yield "gitbaton", own, not any(rule in ("!/*", f"!{of.env['HOME']}/*") for rule in rules)

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what a payload says, the prompt without what hooks put into it; its last words are all that was said in the
        turn."""
        prompt, said = fields.get("prompt"), fields.get("prompt_response")
        given = {"prompt": _alone(prompt) if isinstance(prompt, str) else None}
        return super().told({**fields, **given, "last_assistant_message": None if said == _NO_WORDS else said}, env)

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """Of a message that is written again as part of the history, nothing that was not told before."""
        kind, at, content = record.get("type"), time_of(record.get("timestamp")), record.get("content")
        yield from (Shown(who="thought", content="") for _ in list_of(record.get("thoughts")))
        if "id" in record:
            yield Shown(who={"user": "user", "gemini": "assistant"}.get(str(kind), "system"), content=content)
        if kind == "user" and "$set" not in record:
            if not any("functionResponse" in dict_of(part) for part in list_of(content)):
                texts = texts_of(record.get("displayContent") or content)
                yield from words(Asked, at, [_alone(text) for text in texts if not text.startswith(_OURS)])
        elif kind == "gemini" and "$set" not in record:
            used = dict_of(record.get("tokens"))
            read, wrote = summed(used.get("input"), used.get("tool")), summed(used.get("output"), used.get("thoughts"))
            yield from replied(at, word(record.get("id")), record.get("model"), read, wrote, used.get("cached") or 0)
            yield from words(Said, at, content)
        for call in map(dict_of, list_of(record.get("toolCalls"))):
            name = name_of(call.get("name"))
            yield Shown(who="tool", name=name, content=call.get("args"))
            display = call.get("resultDisplay")  # of an edit the files
            yield Shown(who="tool", name=name, content=display if text_of(display) else _output(call), answer=True)
            if kind == "gemini" and "$set" not in record:
                yield from _call(at, call)

    def doubts(self, of: Installed) -> Iterator[DoctorFinding]:
        """Hooks can be switched off, all or by name; a project's run in a trusted folder only."""
        files = [*([f"{of.tree}/{self.project}"] if of.tree is not None else []), f"{of.home}/settings.json"]
        path, on = of.switch(files, "hooksConfig", "enabled")
        if on is False:
            text = f"'hooksConfig.enabled' is false in '{of.shown(path)}', so no hook runs"
            yield DoctorFinding(name="hooks", ok=False, text=text, mend="take that setting out")
        named = (list_of(inner(of.settings(path), "hooksConfig", "disabled")) for path in files)
        off = [name for names in named for name in names if isinstance(name, str) and name in of.names]
        if off:
            text = f"'hooksConfig.disabled' names {', '.join(dict.fromkeys(off))}"
            yield DoctorFinding(name="hooks", ok=False, text=text, mend="gemini, then /hooks enable")
        unasked = inner(of.settings(files[-1]), "security", "folderTrust", "enabled") is False
        if of.project is None or unasked or of.env.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
            return
        yield trusted("gemini", of, of.project, of.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH"))

    def sift(self, records: Sequence[Record]) -> Sequence[Record]:
        """The history is written again as it was compressed: of that what was not there before."""
        found: list[Record] = []
        known = {word(record.get("id")) for record in records}
        for record in records:
            found.append(record)
            again = map(dict_of, list_of(dict_of(record.get("$set")).get("messages")))
            found += ({**item, "$set": True} for item in again if word(item.get("id")) not in known)
        return found

    def located(self, record: Record) -> Located:
        """The first line says whose the session is; only its folder says where it works."""
        child = record.get("kind") not in (None, "main") and "sessionId" in record
        digest = word(record.get("projectHash")) or ""
        return Located(session=word(record.get("sessionId")) or "", digest=digest, child=child)

    def step(self, record: Record) -> RecordStep | None:
        """A line, from which a message and all that follows it can be taken back."""
        target, key = record.get("$rewindTo"), word(record.get("id"))
        if isinstance(target, str):
            return RecordStep(to=target)
        return RecordStep(key=key, prompt=record.get("type") == "user") if key else None

    def written(self, messages: Sequence[Message], new: NewSession) -> Iterator[Record]:
        """A compaction takes the place of all above it; a command stands in the message before it, as the model's API wants."""
        start = iso(messages[0].at, new.now)
        yield {"sessionId": new.id, "projectHash": "none", "startTime": start, "lastUpdated": iso(0, new.now), "kind": "main"}
        for number, found in enumerate(spoken(messages)):
            at, key = iso(found.at, new.now), id_at(new.id, number)
            side = "gemini" if found.who == "assistant" else "user"
            record: Record = {"id": key, "timestamp": at, "type": side, "content": [{"text": text} for text in found.texts]}
            if found.who == "summary":
                yield {"$set": {"messages": [record]}}
                continue
            if found.command is not None:
                called = f"run_shell_command_{number}"
                given: Record = {"id": called, "name": "run_shell_command"}
                result: Record = {"functionResponse": {**given, "response": {"output": found.command.answer}}}
                more: Record = {"args": {"command": found.command.text}, "result": [result], "status": "success"}
                record["toolCalls"] = [{**given, **more, "timestamp": at, "resultDisplay": found.command.answer}]
            yield record

    def place(self, new: NewSession, env: Mapping[str, str]) -> str:
        """Beside the folders of its projects, whose names it alone makes."""
        return f"{folder(self, env)}/tmp/gitbaton/session-{new.id}.jsonl"


CLIENT = Gemini()


def trusted(name: str, of: Installed, root: str, rules_file: str | None) -> DoctorFinding:
    """Whether a client trusts a folder, by rules of which the longest that covers it counts."""
    rules = of.settings(rules_file or f"{of.home}/trustedFolders.json")
    covered = {path: path.rpartition("/")[0] if level == "TRUST_PARENT" else path for path, level in rules.items()}
    longest = max((path for path in rules if of.holds(covered[path], root)), key=len, default=None)
    return trusts(name, root, yes=longest is not None and rules[longest] in ("TRUST_FOLDER", "TRUST_PARENT"))


def _alone(prompt: str) -> str:
    """Return the user's words: a prompt without the blocks of hooks' context that were put before it."""
    blocks = re.match(_CONTEXT, prompt)  # one further back is the user's own; a block holds no other, the client escapes ``<``
    return prompt[blocks.end() :] if blocks else prompt


def _call(at: float | None, call: Record) -> Iterator[Sign]:
    name, key, given = call.get("name"), word(call.get("id")), dict_of(call.get("args"))
    status, done = call.get("status"), time_of(call.get("timestamp"))
    over = status in ("success", "error", "cancelled")
    if name == "run_shell_command":
        yield from ran(at, key, given.get("command"), given.get("dir_path") or given.get("directory") or ".")
        if over:
            code, printed = _shell(call)
            running = code is None and status == "success" and given.get("is_background") is True
            yield from ended(done, key, code if status == "success" else None, printed, running=running)
    elif name in Gemini.editors:
        yield from edited(at, key, given.get("file_path"))
        if over:
            yield from ended(done, key, 0 if status == "success" else 1)
    elif name == "read_file":
        yield from looked(at, given.get("file_path") or given.get("absolute_path"))
    elif name == "ask_user" and status == "success":
        answers = dict_of(parsed(_output(call)).get("answers"))
        for number, question in enumerate(map(dict_of, list_of(given.get("questions")))):
            answer = answers.get(str(number))
            yield from answered(nth(done, number), question.get("question"), answer if isinstance(answer, str) else "")
    elif name == "write_todos" and status == "success":
        yield from whole(done, given.get("todos"), "description")


def _output(call: Record) -> str:
    """Return what the model was told that a call gave."""
    parts = (dict_of(dict_of(part).get("functionResponse")) for part in list_of(call.get("result")))
    found = (dict_of(part.get("response")) for part in parts)
    return "".join(text for one in found if isinstance(text := one.get("output") or one.get("error"), str))


def _shell(call: Record) -> tuple[int | None, str]:
    """The exit status of a command, and what it printed."""
    text, shown = _output(call), call.get("resultDisplay")
    end = text.rfind("\nProcess Group PGID:")
    if end < 0:  # in the background, or cut
        return None, shown if isinstance(shown, str) else text
    head, _, rest = text[:end].partition("Output: ")
    body = rest or head
    size = len(shown) if isinstance(shown, str) and body.startswith(shown) else 0  # a program can print such a line itself
    codes = list(re.compile(_CODE).finditer(body, size))
    printed = body[: size or (codes[-1].start() if codes else None)].rstrip("\n")
    if codes:
        return int(codes[-1][1]), printed
    return None if "\nSignal: " in body[size:] else 0, printed
