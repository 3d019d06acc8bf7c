"""Clients: names, settings, events and conversations of each, which is a module of its own; a payload of its hooks to an Event,
and our text to its answer."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from gitbaton.agents.payload import absolute, edited_in, fields_of, names_one, valid, word
from gitbaton.agents.signs import Answered, Asked, Message, Planned, Record, RecordStep, Shown, Sign
from gitbaton.base.clients import NAMES, HookEvent, Inject, Moment
from gitbaton.base.model import DoctorFinding
from gitbaton.base.values import TYPE_CHECKING, value

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any, Literal, Protocol

    Shape = Literal["groups", "flat", "shells", "plugin"]
else:
    Protocol = object

Fields = Mapping[str, object]
OURS = "git-baton hook"
"""Begins each line of ours in a client's settings."""


@value
class Hook:
    """One event of a client that we hook; the timeout is in the client's own unit, 0 where none is written."""

    event: str
    timeout: int = 0
    matcher: str | None = None


@value
class Plugin:
    """Our plugin for a client, below a folder of the package's ``data``. ``manifest``: its file that says what it is, and which
    ``says`` more; ``hooks``: the one with its hooks. ``place``: where the folder goes below the client's own so that it is
    loaded. One that is taken from a marketplace alone is beside one there: ``add`` and ``drop`` are the words to its program
    by which it takes it and gives it up, {} the marketplace; ``known``: a file in the client's folder, and where in it that one
    stands. ``name``: what the client calls one that install gave it, and ``gone`` what its user types to be rid of one that
    install did not give, {} its name."""

    folder: str
    hooks: str
    place: str
    manifest: str = ""
    says: Mapping[str, str] | None = None
    add: tuple[tuple[str, ...], ...] = ()
    drop: tuple[tuple[str, ...], ...] = ()
    known: tuple[str, ...] = ()
    name: str = "gitbaton"
    gone: str = ""


@value
class Query:
    """Rows of a client's database that are to be read: its ``path``, a question in SQL, and the values in it."""

    path: str
    sql: str
    values: tuple[object, ...] = ()


@value
class NewSession:
    """Session that is to be written: its ``id``, the ``directory`` that it is resumed in, the time, and the provider and the
    name of the model that its client used last, where it has to name one."""

    id: str
    directory: str
    now: datetime
    model: tuple[str, str] = ("unknown", "unknown")


@value
class Installed:
    """Our hooks as they are installed: in the project of the work tree ``project``, or for the user (None). ``tree``: the work
    tree, ``home``: the client's folder, ``names``: what our hooks are called. ``settings`` reads a file of JSON, ``shown`` is
    how the user sees its path; ``holds``: whether a folder is a work tree, or stands above it; ``lies``: whether a file is
    there."""

    project: str | None
    tree: str | None
    home: str
    env: Mapping[str, str]
    names: tuple[str, ...]
    settings: Callable[[str], Mapping[str, Any]]
    shown: Callable[[str], str]
    holds: Callable[[str, str], bool]
    lies: Callable[[str], bool]

    def switch(self, files: Sequence[str], *keys: str) -> tuple[str, bool | None]:
        """Return the first of some files that sets a switch, and its value; None where none does."""
        for path in files:
            if isinstance(on := inner(self.settings(path), *keys), bool):
                return path, on
        return "", None


@value
class Located:
    """Place of a session as a record of its transcript has it: the session's id, the folder that it works in, or a digest of
    that folder's path, and the branch there; ``child``: it is no session of the user's, but a subagent's. Empty where it does
    not say."""

    session: str = ""
    folder: str = ""
    digest: str = ""
    branch: str = ""
    child: bool = False


class Client(Protocol):
    """A client. What is given a value here is so for most of them.

    Its settings. ``programs``: the names of its programs. ``shape``: how its settings hold a hook. ``groups``: an event has
    groups with a matcher and handlers; ``flat``: an event has handlers; ``shells``: the same with a command line for each
    shell; ``plugin``: a script instead of settings. ``project``: the file below the work tree's root. ``folder``: its folder
    below the home folder, ``moved`` the variables that say where it is instead (a tail is joined to the value); ``user``: the
    file in it. ``comments``: whether the format of its settings allows them. ``stamp``: a key that
    it adds to them by itself. ``twice``: it calls both of two
    equal hooks, of the project and of the user. ``upward``: it finds the project's file from a subdirectory.
    ``leaves``: a file in its folder that goes on naming our hooks
    when they are taken out, and where in it. ``instead``: a file of its own that it reads in the place of AGENTS.md where both
    are, or with ``wants``, the setting by which it reads that, always. ``trust`` and ``remarks``: lines for the user at project
    level, and at any; ``untrusted``: one where no trust was given with the install. ``skills``: where its own skills are, below
    the root and below the client's folder; the shared place otherwise. ``plugin``: ours for it, if there is one.

    Its events. ``events``: what its own words for them mean, and what it can take there; what is not here is ``other``.
    ``shells``: its tools that run a command line; ``editors``: those that edit files.
    ``places``: the variables in which it names the folder it works in, best first. ``exports``: the field of a session's start
    that names a file, below its folder, whose lines ``export NAME="VALUE"`` it sets for its commands.

    Its conversations. ``files``: patterns of the file of a session below ``folder``, {0} its id and {1} the first eight
    characters of that; ``rooted``: a file beside the folder of such a file that holds the path of the folder it works in.
    ``mark``: an expression without which a line of it tells nothing. ``part``: one that the first line of a subagent's own
    holds. ``compacts``: one of a line that says that the window was compacted, where no hook is called for that. ``calls``:
    whether it writes down that it calls a hook. ``resume``: the command that resumes a session {0}, written in the file {1};
    empty where it can resume none that is written for it.
    """

    name: str
    title: str
    programs: tuple[str, ...]
    shape: Shape
    project: str
    folder: str
    user: str
    events: Mapping[str, tuple[Moment, Inject]]
    hooks: tuple[Hook, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    comments: bool = False
    named: bool = False
    version: bool = False
    stamp: str = ""
    twice: bool = True
    upward: bool = True
    leaves: tuple[str, str] | None = None
    instead: str = ""
    wants: str = ""
    trust: str = ""
    untrusted: str = ""
    remarks: tuple[str, ...] = ()
    skills: tuple[str, str] | None = None
    line: tuple[str, str] = ("", "")
    lines: tuple[str, ...] = ()
    shells: tuple[str, ...] = ("Bash",)
    editors: tuple[str, ...] = ("Write", "Edit", "MultiEdit", "NotebookEdit")
    places: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    plugin: Plugin | None = None
    rooted: str = ""
    mark: bytes | None = None
    part: bytes = b""
    compacts: bytes = b""
    calls: bool = False
    exports: str = ""
    resume: str = ""

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what a payload's fields say, unchecked: session, cwd, transcript, prompt, said, source, child, who, command.
        None where the hook is to be silent. This is Claude Code's form; a subagent's events carry its parent's session and an
        ``agent_id``."""
        return {
            "session": fields.get("session_id"),
            "cwd": fields.get("cwd"),
            "transcript": fields.get("agent_transcript_path") or fields.get("transcript_path"),
            "prompt": fields.get("prompt"),
            "who": fields.get("agent_type"),
            "said": fields.get("last_assistant_message"),
            "source": fields.get("source"),
            "child": names_one(fields.get("agent_id")),
            "command": self.asked(fields.get("tool_name"), fields.get("tool_input")),
        }

    def asked(self, tool: object, given: object) -> object:
        """The command line that a tool is about to run, of what it is given; None of one that runs none."""
        command = (inner(given, "command") or inner(given, "cmd")) if tool in self.shells else None
        if isinstance(command, list) and all(isinstance(word, str) for word in command):
            from shlex import join

            return join(command)
        return command

    def doubts(self, of: Installed) -> Iterator[DoctorFinding]:
        """Yield what the client's settings say of whether it runs our hooks."""
        return iter(())

    def plugins(self, of: Installed) -> Iterator[tuple[str, str, bool]]:
        """Yield our plugins that the client has: what it calls each, the file that says so, and whether it is on."""
        return iter(())

    def gone(self, of: Installed, name: str, path: str) -> str:
        """Return what its user types to be rid of the plugin of a name that a file says it has; empty where no command does."""
        return self.plugin.gone.format(name) if self.plugin is not None else ""

    def forgetting(self, text: str) -> str:
        """Return the text of the file that ``leaves`` names without what it says of a plugin's hooks that install gave it."""
        return text

    def own_words(self, prompt: str) -> bool:
        """Whether a prompt is the client's own: a notice."""
        return prompt.lstrip().startswith("<task-notification>")

    def heard(self, at: float | None, prompt: str) -> Iterator[Sign]:
        """Yield the signs of a prompt that its hook heard, as the record of it would."""
        yield Asked(at=at, text=prompt)

    def answer(self, name: str, text: str) -> object:
        """Return what the client reads so that a text reaches the model at an event: JSON, or a text as it is. This form Claude
        Code brought in, and Codex and Gemini took it over; Codex refuses one field more."""
        return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}

    def read(self, record: Record) -> Iterator[Shown | Sign]:
        """Yield what a record of its transcript shows, and the signs of what was done, in its order; nothing for parts that are
        not as expected. One call that edits several files begins and ends under its key once for each."""
        return iter(())

    def model(self, record: Record) -> str:
        """Return the model that a record names; empty where it names none."""
        return next((sign.model for sign in self.read(record) if isinstance(sign, Answered) and sign.model), "")

    def task(self, record: Record) -> str:
        """Return the task that a record of a subagent's own conversation gives; empty where it gives none."""
        return ""

    def light(self, record: Record) -> Record:
        """A record without what is large in it and tells nothing: many are held at once."""
        return record

    def sift(self, records: Sequence[Record]) -> Sequence[Record]:
        """Records that follow each other as they are to be read, where one alone does not tell how."""
        return records

    def step(self, record: Record) -> RecordStep | None:
        """Return the place of a record in its conversation; None for one that stands beside it."""
        return RecordStep()

    def id_of(self, record: Record) -> object:
        """The id of the message in a record, if there is one."""
        return record.get("id")

    def located(self, record: Record) -> Located:
        """Return what a record says of where its session works."""
        return Located(folder=absolute(record.get("cwd")) or "", branch=word(record.get("gitBranch")) or "")

    def sessions(self, env: Mapping[str, str]) -> Query | None:
        """The question for the ``id`` and the ``folder`` of the user's sessions, where it keeps them in a database."""
        return None

    def rewritten(self, records: list[Record], session: str, *, foreign: bool) -> list[Record] | None:
        """The records as those of another session; None where it could not resume them. Of a stranger's only what was said
        stays: a client would take the system prompt that a transcript holds for its own."""
        return None

    def session_of(self, uuid: str) -> str:
        """Return the id of a new session."""
        return uuid

    def written(self, messages: Sequence[Message], new: NewSession) -> Iterator[Record]:
        """Yield the lines of a new session's file that hold messages of any client's."""
        return iter(())

    def place(self, new: NewSession, env: Mapping[str, str]) -> str:
        """Return the path of a new session's file."""
        return ""

    def models(self, env: Mapping[str, str]) -> Query | None:
        """The question for the ``provider`` and the ``model`` that were used last, where a new session has to name them."""
        return None

    def rows(self, session: str, since: int, env: Mapping[str, str], most: int) -> Query | None:
        """The question for what was said in a session since a time, the newest first, where it keeps that in a database."""
        return None

    def left(self, session: str, until: int, env: Mapping[str, str]) -> Query | None:
        """The question how many messages there are up to a time: fewer than there were, where some were taken back."""
        return None

    def record(self, row: Mapping[str, Any]) -> tuple[Record | None, object]:
        """A row of that as a record, and its time."""
        return None, None

    def plan(self, session: str | None, transcript: str | None, env: Mapping[str, str], most: int) -> Query | None:
        """The question for the plan of a session, where it keeps that in a table."""
        return None

    def planned(self, rows: Sequence[Mapping[str, object]]) -> Planned | None:
        """The plan in the rows of that table, as of its newest change; None where there is none."""
        return None

    def called(self, line: bytes, event: str) -> bool | None:
        """Whether a line of its transcript is that of the hook's call for an event; None for a line that is no call."""
        return None


def inner(data: object, *keys: str) -> object:
    """Return a value inside JSON objects within each other; None where there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, Mapping) else None
    return data


def trusts(name: str, root: str, *, yes: bool) -> DoctorFinding:
    """Whether a client trusts the folder of a work tree."""
    if yes:
        return DoctorFinding(name="trust", ok=True, text=f"{name} trusts this folder")
    text = f"{name} does not trust this folder yet, and runs no hook of it"
    return DoctorFinding(name="trust", ok=False, text=text, mend=f"start {name} in '{root}' and accept")


def switched(of: Installed, paths: Sequence[str], key: str) -> Iterator[tuple[str, str, bool]]:
    """Yield our plugins that some files of settings switch on or off below a key, each as the last of them says."""
    found = {}
    for path in paths:
        names = inner(of.settings(path), key)
        for name, on in names.items() if isinstance(names, dict) else ():
            on = on.get("enabled", True) if isinstance(on, dict) else on
            if name.partition("@")[0] == "gitbaton" and isinstance(on, bool):
                found[name] = path, on
    yield from ((name, path, on) for name, (path, on) in found.items())


def line_of(agent: str, event: str, track: str | None = None, *, plugin: bool = False) -> str:
    """The call of our hook as it stands in a shell's line, of a ``plugin`` or of settings."""
    tail = " --track '" + track.replace("'", "'\\''") + "'" if track is not None else ""
    return f"{OURS} {agent} {event}{tail}{' --plugin' if plugin else ''}"


def client(name: str) -> Client | None:
    """The client of a name; only its own module is loaded."""
    if name not in NAMES:
        return None
    found: Client = __import__(f"gitbaton.agents.{name}", fromlist=["CLIENT"]).CLIENT
    return found


def folder(of: Client, env: Mapping[str, str]) -> str:
    """The client's folder in the user's home, which ``env`` names, or else the account."""
    for name, tail in of.moved:
        if env.get(name):
            return f"{env[name].rstrip('/')}/{tail}" if tail else env[name]
    return f"{env['HOME'] if 'HOME' in env else os.path.expanduser('~')}/{of.folder}"


def read(agent: str, event: str, data: bytes, env: Mapping[str, str]) -> HookEvent | None:
    """The event that a hook was called for; None where it has to be silent. Raises nothing, whatever the bytes are.

    Silent: for an agent that is not one of ours, and for Claude Code's hook when another client runs it. Of a payload that
    cannot be read nothing counts; the event's word and ``env`` still do.
    """
    of = client(agent)
    fields = fields_of(data) if of is not None else {}
    told = of.told(fields, env) if of is not None else None
    if of is None or told is None:
        return None
    moment, inject = of.events.get(event, ("other", "no"))
    prompt, said = told.get("prompt"), told.get("said")
    if moment == "prompt" and isinstance(prompt, str) and of.own_words(prompt):
        moment, inject = "other", "no"
    command = told.get("command")
    if moment == "command" and not (isinstance(command, str) and command.strip()):  # of another tool
        moment = "other"
    folders = (told.get("cwd"), *(env.get(name) for name in of.places))
    cwd = next((place for place in map(absolute, folders) if place), None)
    edited = edited_in(fields, of.editors) if moment == "edit" else ()
    return HookEvent(
        agent=agent,
        name=event,
        moment=moment,
        inject=inject,
        session=word(told.get("session")),
        cwd=cwd,
        transcript=absolute(told.get("transcript")),
        prompt=valid(prompt) if isinstance(prompt, str) else None,
        said=valid(said) if moment == "turn" and isinstance(said, str) and said.strip() else None,
        running=running if isinstance(running := told.get("running"), tuple) and moment == "turn" else None,
        source=word(told.get("source")) if moment == "start" else None,
        child=told.get("child") is True,
        who=word(told.get("who")) if moment in ("child-start", "child-end") else None,
        command=valid(command) if moment == "command" and isinstance(command, str) else None,
        edited=tuple(os.path.join(cwd or "", path) for path in edited),
    )


def answer(event: HookEvent, text: str) -> bytes:
    """Return the bytes to print so that ``text`` reaches the model; none where the client takes no context or there is no
    text."""
    of = client(event.agent)
    if of is None or not text or of.events.get(event.name, ("other", "no"))[1] == "no":
        return b""
    shape = of.answer(event.name, valid(text))
    return (shape if isinstance(shape, str) else json.dumps(shape, separators=(",", ":"))).encode()
