"""OpenAI Codex: settings with groups of hooks that have to be trusted, a rollout of JSON lines for each session."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from gitbaton.agents.client import Client, Fields, Hook, Installed, Located, NewSession, Plugin, folder, switched
from gitbaton.agents.payload import PATCHED, absolute, word
from gitbaton.agents.records import (
    answered,
    as_text,
    dict_of,
    ended,
    is_model,
    iso,
    list_of,
    name_of,
    nth,
    outlined,
    parsed,
    patched,
    plain,
    ran,
    replied,
    text_of,
    texts_of,
    time_of,
    whole,
    words,
)
from gitbaton.agents.signs import Asked, Message, Record, RecordStep, Said, Shown, Sign

_PLUGIN = "gitbaton@gitbaton"
_TRUST = rf'(?m)(?:^\r?\n)?^\[hooks\.state\."{_PLUGIN}:[^"\\\n]*"\][ \t]*\r?$\n?(?:^\w+ = .*\n?)*'
_NO_TRUST = r"(?m)(?:^\r?\n)?^\[hooks\.state\]\r?$\n?(?=(?:\r?\n)?(?:\[(?!hooks\.state\.)|\Z))"
_TURNS = 1 << 20
_ITEMS = {"UserMessage", "AgentMessage", "CommandExecution", "FileChange", "Reasoning", "Plan"}
_OURS = (  # what the client says in the user's name: each begins it, but for the tags around an image, which are all of it
    r"\s*(?:<(?:environment_context|user_instructions|turn_aborted|skill|user_shell_command|subagent_notification|hook_prompt"
    r"|goal_context|model_switch|collaboration_mode|personality_spec|permissions instructions|apps_instructions"
    r"|INSTRUCTIONS)[\s>]|# AGENTS\.md instructions"
    r"|Warning: (?:apply_patch was requested via|The maximum number of unified exec processes)"
    r"|</?image(?: [^<>\n]*)?>\s*\Z)"
)
_AROUND = (
    r"(?s)\A(?:# Context from my IDE|# Files mentioned by the user|(?=## My request)|This block is)"
    r".*?## My request for Codex:\s*"
)
_PROPOSED = r"(?s)<proposed_plan>\s*(.*?)\s*</proposed_plan>"
_HEAD = r"(?s)(?:Chunk ID|Exit code|Wall time): .{0,400}?\nOutput:\n"
_CODE = r"(?m)^(?:Process exited with code|Exit code:) (\d{1,10})$"
_META = ("id", "session_id", "timestamp", "cwd", "originator", "cli_version", "source", "model_provider")
# In code mode a script calls the tools: only one that does nothing else, with JSON, tells for sure.
_SCRIPT = r"(?s)\s*(?:text\()?\s*await tools\.update_plan\((\{.*\})\)\s*\)?\s*;?\s*"


class Codex(Client):
    """Codex. It sets no folder; those in its environment are another client's."""

    name = "codex"
    title = "Codex"
    programs = ("codex",)
    shape = "groups"
    project = ".codex/hooks.json"
    folder = ".codex"
    moved = (("CODEX_HOME", ""),)
    user = "hooks.json"
    hooks = (
        Hook(event="SessionStart", timeout=10, matcher="startup|resume|clear|compact"),
        Hook(event="UserPromptSubmit", timeout=10),
        Hook(event="PreToolUse", timeout=10, matcher="Bash"),
        Hook(event="PreCompact", timeout=30),
        Hook(event="PostToolUse", timeout=10, matcher="apply_patch|Edit|Write|Bash"),
        Hook(event="Stop", timeout=10),
        Hook(event="SessionEnd", timeout=3),  # it cuts a longer time
    )
    trust = "it reads the hooks of a trusted project only: start codex here and accept, or codex exec --trust"
    untrusted = (
        "it runs no hook before you trust it, nor one that is new or changed, and does not say so: /hooks in codex, or install"
        " with --trust"
    )
    shells = ("Bash", "exec_command", "shell", "shell_command", "local_shell")
    editors = ("apply_patch", "Edit", "Write")
    plugin = Plugin(
        folder="plugin",
        hooks="hooks/codex.json",
        place="gitbaton/plugin",
        manifest=".codex-plugin/plugin.json",
        says={"hooks": "./hooks/codex.json"},
        add=(("plugin", "marketplace", "add", "{}"), ("plugin", "add", _PLUGIN)),
        drop=(("plugin", "remove", _PLUGIN), ("plugin", "marketplace", "remove", "gitbaton")),
        known=("config.toml", "marketplaces", "gitbaton"),
        name=_PLUGIN,
        gone="codex plugin remove {}",
    )
    events = {
        "SessionStart": ("start", "full"),
        "UserPromptSubmit": ("prompt", "nudge"),
        "PreToolUse": ("command", "no"),
        "PostToolUse": ("edit", "no"),
        "PreCompact": ("compact", "no"),
        "PostCompact": ("compacted", "no"),
        "Stop": ("turn", "no"),
        "Interrupt": ("turn", "no"),
        "SessionEnd": ("end", "no"),
    }
    leaves = ("config.toml", "below [hooks.state]; without them it lets nothing run")
    files = ("sessions/[0-9]*/[0-9]*/[0-9]*/rollout-*-{0}.jsonl", "archived_sessions/rollout-*-{0}.jsonl")
    mark = (
        rb'"(?:item_completed|thread_rolled_back|user_message|agent_message|message|token_count|turn_context)"'
        rb'|_call(?:_output)?"'
    )
    resume = "codex resume {}"

    def plugins(self, of: Installed) -> Iterator[tuple[str, str, bool]]:
        """Yield those of its configuration."""
        return switched(of, [f"{of.home}/config.toml"], "plugins")

    def forgetting(self, text: str) -> str:
        """Return its configuration without its trust in them, which it keeps when it removes the plugin; the same text where it
        would say anything else then."""
        after = re.sub(_TRUST, "", text)
        after = re.sub(_NO_TRUST, "", after) if after != text else after
        try:
            return after if _but_ours(after) == _but_ours(text) else text
        except (ValueError, RecursionError):
            return text

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what a payload says, the prompt without what an editor puts around it."""
        prompt = fields.get("prompt")
        return super().told({**fields, "prompt": re.sub(_AROUND, "", prompt) if isinstance(prompt, str) else None}, env)

    def sift(self, records: Sequence[Record]) -> Sequence[Record]:
        """Mark in each record what of it counts, and in an answer which call it belongs to: what was said and done stands there
        twice, as the model saw it, and as items that were completed, or as events before there were such items. What the model
        wrote for a compaction was said to no user."""
        records = [record if "payload" in record else {"type": "response_item", "payload": record} for record in records]
        kinds = {_event(record) for record in records}
        bare, alone = not kinds & _ITEMS, not kinds & {*_ITEMS, "user_message", "agent_message"}
        calls: dict[str | None, Record] = {}
        found: list[Record] = []
        above: int | None = None
        spoken: int | None = None
        model: object = None
        for record in records:
            payload = dict_of(record.get("payload"))
            if record.get("type") == "turn_context":
                model = payload.get("model")
            elif payload.get("type") == "token_count":
                record = {**record, "model": model}
            if record.get("type") == "response_item":
                role, key = payload.get("role"), word(payload.get("call_id"))
                spoken = len(found) if role == "assistant" else spoken
                above = len(found) if role == "user" else above if role is None else None
                if str(payload.get("type")).endswith("_call"):
                    calls[key] = payload
                record = {**record, "alone": alone, "bare": bare, "call": calls.get(key)}
            elif _event(record) in ("UserMessage", "user_message") and above is not None:
                found[above], above = {**found[above], "begins": True}, None
                record = {**record, "begun": True}
            elif record.get("type") == "compacted" and spoken is not None:
                text = plain(text_of(dict_of(found[spoken].get("payload")).get("content")))
                summary = bool(text) and plain(payload.get("message")).endswith(text)
                found[spoken] = {**found[spoken], "summary": True} if summary else found[spoken]
            found.append(record)
        return found

    def step(self, record: Record) -> RecordStep | None:
        """A line, the last turns of which can be taken back."""
        payload = dict_of(record.get("payload"))
        if payload.get("type") == "thread_rolled_back":
            turns = payload.get("num_turns")
            return RecordStep(back=turns) if isinstance(turns, int) and 0 < turns < _TURNS else None
        asked = record.get("alone") is True and payload.get("role") == "user" and _said(payload.get("content")) != []
        event = _event(record) in ("UserMessage", "user_message") and record.get("begun") is not True
        return RecordStep(prompt=asked or event or record.get("begins") is True)

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """Items of a response are what the model saw, items that were completed what was done."""
        payload, at = dict_of(record.get("payload")), time_of(record.get("timestamp"))
        kind = _event(record)
        if record.get("type") == "compacted":
            yield Shown(who="system", content=payload.get("message"), summary=True)
        elif record.get("type") == "response_item":
            if record.get("summary") is True or dict_of(record.get("metadata")).get("compaction_output") is True:
                return
            yield from _shown(payload)
            yield from _response(payload, record, at)
        elif kind == "token_count":
            yield from _used(at, dict_of(payload.get("info")), record.get("model"))
        elif kind == "user_message":
            yield from words(Asked, at, _said(payload.get("message")))
        elif kind == "agent_message":
            yield from words(Said, at, payload.get("message"))
            plan = re.search(_PROPOSED, plain(payload.get("message")))
            yield from outlined(at, plan[1]) if plan else ()
        elif payload.get("type") == "item_completed":
            begun, done = (time_of(payload.get(name)) for name in ("started_at_ms", "completed_at_ms"))
            yield from _item(dict_of(payload.get("item")), begun or at, done or at)

    def model(self, record: Record) -> str:
        """At the begin of a turn, and where it changes in one."""
        found = dict_of(record.get("payload")).get("model") if record.get("type") == "turn_context" else None
        return found if is_model(found) else ""

    def id_of(self, record: Record) -> object:
        """Of an item of a response, or of its call."""
        item = dict_of(record.get("payload")) if record.get("type") == "response_item" else {}
        return item.get("id") or item.get("call_id")

    def located(self, record: Record) -> Located:
        """The first line says whose the session is, and what begins a turn where it works."""
        meta, kind = dict_of(record.get("payload")), record.get("type")
        if kind not in ("session_meta", "turn_context"):
            return Located()
        first = kind == "session_meta"
        return Located(
            session=(word(meta.get("id")) or "") if first else "",
            folder=absolute(meta.get("cwd")) or "",
            branch=word(dict_of(meta.get("git")).get("branch")) or "",
            child=first and isinstance(meta.get("source"), dict),
        )

    def rewritten(self, records: list[Record], session: str, *, foreign: bool) -> list[Record] | None:
        """Its first line describes the session; the ids of threads that it copied from others stay."""
        meta = dict_of(records[0].get("payload")) if records and records[0].get("type") == "session_meta" else {}
        old = meta.get("id")
        records = list(_kept(records)) if foreign else records
        if not isinstance(old, str) or not any(record.get("type") == "response_item" for record in records):
            return None
        return [_renamed(record, old, session) for record in records]

    def written(self, messages: Sequence[Message], new: NewSession) -> Iterator[Record]:
        """The items that the model is sent; beside what was said the event that shows it to the user."""
        start = iso(messages[0].at, new.now)
        meta: Record = {"id": new.id, "session_id": new.id, "timestamp": start, "cwd": new.directory}
        meta |= {"originator": "gitbaton", "cli_version": "0.0.0", "source": "cli"}
        yield {"timestamp": start, "type": "session_meta", "payload": meta}
        for number, message in enumerate(messages):
            for kind, payload in _lines(message, f"call_{number}"):
                yield {"timestamp": iso(message.at, new.now), "type": kind, "payload": payload}

    def place(self, new: NewSession, env: Mapping[str, str]) -> str:
        """In the folder of its day."""
        return f"{folder(self, env)}/sessions/{new.now:%Y/%m/%d}/rollout-{new.now:%Y-%m-%dT%H-%M-%S}-{new.id}.jsonl"


CLIENT = Codex()


def _but_ours(text: str) -> Record:
    """Return what a configuration says beside its trust in our plugin's hooks."""
    import tomllib

    found: Record = tomllib.loads(text)
    hooks = dict_of(found.get("hooks"))
    state = {key: value for key, value in dict_of(hooks.get("state")).items() if not key.startswith(f"{_PLUGIN}:")}
    return {**found, "hooks": {**hooks, "state": state}}


def _shown(item: Record) -> Iterator[Shown]:
    kind, key = str(item.get("type")), word(item.get("call_id")) or ""
    if kind == "message":
        role = str(item.get("role"))
        yield Shown(who=role if role in ("user", "assistant") else "system", content=item.get("content"))
    elif kind == "reasoning":
        yield Shown(who="thought", content="")
    elif kind.endswith("_call_output"):
        yield Shown(who="tool", key=key, content=item.get("output"), answer=True)
    elif kind.endswith("_call"):
        given = item.get("arguments") or item.get("input") or item.get("action")
        yield Shown(who="tool", name=name_of(item.get("name") or kind.removesuffix("_call")), key=key, content=given)


def _lines(message: Message, key: str) -> Iterator[tuple[str, Record]]:
    """The lines of a message: the kind of each, and what it holds."""
    text = as_text(message)
    if message.who == "summary":
        yield "compacted", {"message": text, "replacement_history": [_item_of("user", text)]}
    elif message.who == "command":
        given = json.dumps({"cmd": message.text}, ensure_ascii=False)
        yield "response_item", {"type": "function_call", "name": "exec_command", "arguments": given, "call_id": key}
        yield "response_item", {"type": "function_call_output", "call_id": key, "output": message.answer}
    elif message.who == "user":
        yield "response_item", _item_of("user", text)
        yield "event_msg", {"type": "user_message", "message": text, "kind": "plain"}
    else:
        yield "response_item", _item_of("assistant", text)
        yield "event_msg", {"type": "agent_message", "message": text}


def _item_of(role: str, text: str) -> Record:
    part = {"type": "input_text" if role == "user" else "output_text", "text": text}
    return {"type": "message", "role": role, "content": [part]}


def _event(record: Record) -> str | None:
    """Return the kind of an event: for an item that was completed, the item's type."""
    payload = dict_of(record.get("payload"))
    kind = payload.get("type") if record.get("type") == "event_msg" else None
    return word(dict_of(payload.get("item")).get("type") if kind == "item_completed" else kind)


def _said(content: object) -> list[str]:
    """Return the user's words; nothing of what the client says in the user's name, or around their words."""
    return [re.sub(_AROUND, "", text) for text in texts_of(content) if not re.match(_OURS, text)]


def _response(item: Record, record: Record, at: float | None) -> Iterator[Sign]:
    """Of what the model saw: plans, answers to its questions, and what nothing else in the rollout tells."""
    kind, key, name = str(item.get("type")), word(item.get("call_id")), item.get("name")
    if kind == "message" and record.get("alone") is True:
        if item.get("role") == "user":
            yield from words(Asked, at, _said(item.get("content")))
        elif item.get("role") == "assistant":
            yield from words(Said, at, item.get("content"))
    elif kind.endswith("_call"):
        if name == "update_plan":
            yield from whole(at, parsed(item.get("arguments")).get("plan"), "step")
        elif kind == "custom_tool_call" and name == "exec":
            script = item.get("input")
            only = re.fullmatch(_SCRIPT, script) if isinstance(script, str) else None
            yield from whole(at, parsed(only[1]).get("plan"), "step") if only else ()
        elif record.get("bare") is True:
            given = dict_of(item.get("action")) or parsed(item.get("arguments"))
            yield from ran(at, key, _command(given.get("cmd") or given.get("command")), given.get("workdir") or ".")
    elif kind.endswith("_call_output"):
        call = dict_of(record.get("call"))
        if call.get("name") == "request_user_input":
            yield from _answers(at, parsed(call.get("arguments")), parsed(item.get("output")))
        elif record.get("bare") is True:
            yield from _output(at, key, call, item.get("output"))


def _answers(at: float | None, asked: Record, given: Record) -> Iterator[Sign]:
    """The user's answers to the agent's questions."""
    answers = dict_of(given.get("answers"))
    for number, question in enumerate(map(dict_of, list_of(asked.get("questions")))):
        found = dict_of(answers.get(str(question.get("id")))).get("answers")
        yield from answered(nth(at, number), question.get("question"), ", ".join(texts_of(found)))


def _output(at: float | None, key: str | None, call: Record, output: object) -> Iterator[Sign]:
    """The end of a call as the model saw it: JSON with an exit status, or rows above what was printed."""
    text = text_of(output)
    found = parsed(text)
    status: object = dict_of(found.get("metadata")).get("exit_code")
    if found:
        text = text_of(found.get("output"))
    elif head := re.match(_HEAD, text):
        code = re.search(_CODE, head[0])
        status, text = int(code[1]) if code else None, text[head.end() :]
    patch = call.get("input")
    if call.get("name") == "apply_patch" and isinstance(patch, str):
        for path in re.findall(PATCHED, patch):
            yield from patched(at, at, key, path.strip(), made=status == 0)
    else:
        yield from ended(at, key, status, text)


def _item(item: Record, begun: float | None, done: float | None) -> Iterator[Sign]:
    kind, key = item.get("type"), word(item.get("id"))
    if kind == "UserMessage":
        yield from words(Asked, begun, _said(item.get("content")))
    elif kind == "AgentMessage":
        yield from words(Said, done, item.get("content"))
    elif kind == "Plan":
        yield from outlined(done, plain(item.get("text")))
    elif kind == "CommandExecution":
        over = item.get("status") in ("completed", "failed")
        yield from ran(begun, key, _command(item.get("command")), _folder(item.get("cwd")))
        code, refused = item.get("exit_code") if over else None, item.get("status") == "declined"
        yield from ended(done, key, code, item.get("aggregated_output"), refused=refused)
    elif kind == "FileChange":
        for path, change in dict_of(item.get("changes")).items():
            for changed in (path, dict_of(change).get("move_path")):
                yield from patched(begun, done, key, changed, made=item.get("status") == "completed")


def _folder(found: object) -> object:
    """Return a folder: newer versions write it as a URL."""
    if not (isinstance(found, str) and found.startswith("file://")):
        return found
    from urllib.parse import unquote

    return unquote(found.removeprefix("file://"), errors="surrogateescape")


def _used(at: float | None, info: Record, model: object) -> Iterator[Sign]:
    """The tokens of the last request; that is told again with the same total, as it is or as nothing."""
    total, last = (dict_of(info.get(name)) for name in ("total_token_usage", "last_token_usage"))
    key = "/".join(str(total.get(name)) for name in ("total_tokens", "input_tokens", "output_tokens")) if total else None
    yield from replied(
        at, key, model, last.get("input_tokens"), last.get("output_tokens"), last.get("cached_input_tokens") or 0
    )


def _command(found: object) -> object:
    words = [text for text in list_of(found) if isinstance(text, str)]
    if not words or len(words) != len(list_of(found)):
        return found
    if len(words) == 3 and words[1] in ("-c", "-lc"):
        return words[2]
    import shlex

    return shlex.join(words)


def _kept(records: list[Record]) -> Iterator[Record]:
    """Keep what was said; neither settings of a turn nor instructions in the client's or a developer's name."""
    for record in records:
        payload, kind = dict_of(record.get("payload")), record.get("type")
        if kind == "session_meta":
            yield {**record, "payload": {key: payload[key] for key in _META if key in payload}}
        elif kind == "compacted" or (kind == "response_item" and payload.get("role") not in ("developer", "system")):
            yield record


def _renamed(record: Record, old: str, session: str) -> Record:
    payload = dict_of(record.get("payload"))
    keys = ("session_id", "thread_id", *(("id",) if record.get("type") == "session_meta" else ()))
    changed = {key: session for key in keys if payload.get(key) == old}
    return {**record, "payload": {**payload, **changed}} if changed else record
