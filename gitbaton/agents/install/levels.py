"""Levels, the project's and the user's: where each client's files are, the lines in them that call us, and the parts that
install puts into them: hooks merged into settings, a plugin, the skill, a block in AGENTS.md. Only looks."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from gitbaton.agents.client import OURS, Client, Hook, Installed, folder, line_of
from gitbaton.agents.client import client as named
from gitbaton.agents.destructive import FILTER
from gitbaton.agents.install.plan import File, digest, look, read
from gitbaton.agents.settings import BOM, Document, Edit, MalformedError, Node
from gitbaton.base.clients import NAMES
from gitbaton.base.codec import means_else
from gitbaton.base.errors import BatonError
from gitbaton.base.system.files import shipped, state_home
from gitbaton.base.values import replace, value

SILENT = "command -v git-baton >/dev/null 2>&1 || exit 0; "
LEVELS: tuple[Level, ...] = ("project", "user")

CLIENTS = tuple(found for name in NAMES if (found := named(name)) is not None)
KEYS = ("command", "bash", "powershell")
_CALL = rf"{OURS} (?P<agent>[a-z]+) [A-Za-z]+"
_SIFTED = "exec sh -c 'p=$(cat); "
_LONG = 10_000  # characters of a command; of more of them a shell's patterns take longer than Python
_SIFT = (  # a command that may be destructive costs a process of Python, any other one none
    _SIFTED + r"c=$p; case $p in *\"command\"*) c=${p#*\"command\"};; esac; "
    f"[ ${{#c}} -gt {_LONG} ] || case $c in {FILTER}) ;;"
    " *) g=$(git config --get-all baton.guardCommand 2>/dev/null) || exit 0;"
    r' printf "%s\n" "$g" | while read -r w; do w=${w%%[\"\\]*}; [ "$w" ] || continue; case $c in *"$w"*) exit 1;; esac; done'
    " && exit 0;; esac;"
    ' printf %s "$p" | "$0" "$@" 2>/dev/null; exit 0\' '
)
_FORMS = (  # every line that a version of ours has written, whole
    re.compile(rf"(?:{re.escape(SILENT)})?(?:{re.escape(_SIFTED)}[^']*' )?{_CALL}(?: --track (?P<track>'(?:[^']|'\\'')*'))?"),
    re.compile(rf"if \(Get-Command git-baton -ErrorAction SilentlyContinue\) \{{ {_CALL}(?: --track '(?:[^']|'')*')? \}}"),
)
_QUOTES = re.compile("['\u2018-\u201b]")  # each of them ends a single-quoted string in PowerShell
SKILL_MARK = "<!-- gitbaton:skill -->"
PLUGIN_MARK = "// gitbaton:plugin"
BEGIN, END = "<!-- gitbaton:begin -->", "<!-- gitbaton:end -->"
_TRACK = re.compile(r"^const TRACK = (null|\"(?:[^\"\\\n]|\\.)*\")$", re.MULTILINE)
_OPTION = re.compile(r" --track (?:[\w@%+=:,./-]+|'[^'`<\n]+')", re.ASCII)
_SNAPSHOT = re.compile(rf"(?<=git baton snapshot)(?:{_OPTION.pattern})?(?= )", re.ASCII)
HOOKS, VERSION, TYPE = "hooks", "version", "type"
_READ = frozenset((HOOKS, "matcher", TYPE, *KEYS))
LINE, LINE_KEY = "git-baton statusline", "statusLine"
_OUR_LINE = re.compile(rf"{LINE}(?: --long)?(?: --track (?P<track>'(?:[^']|'\\'')*'))?")
SHARED_SKILLS = ".agents/skills"
SKILL = "gitbaton/SKILL.md"
AGENTS_MD = "AGENTS.md"
ONLY_USED = "act only in a repository where gitbaton is used already: it has a checkpoint, or settings of its own call us"
EVERYWHERE = "git config --global baton.everywhere true"
UNHEEDED = "baton.everywhere in a repository's own configuration does not count"
Level = Literal["project", "user", "plugin"]
State = Literal["installed", "outdated", "not installed", "unreadable", "off", "not taken"]


def plugged(everywhere: bool | None) -> str:
    """Say where plugins act, by baton.everywhere."""
    if everywhere is False:
        return f"baton.everywhere is false: a plugin, too, acts only {ONLY_USED.removeprefix('act only ')}"
    return (
        "a plugin acts in every repository in which its client works; 'git config --global baton.everywhere false' keeps it to"
        " those where gitbaton is used already"
    )


def command(agent: str, event: str, track: str | None = None, *, plugin: bool = False) -> str:
    """The line that a shell of a client runs; it names no path, so it stays the same from version to version."""
    of = named(agent)
    sift = _SIFT if of is not None and of.events.get(event, ("other", "no"))[0] == "command" else ""
    return f"{SILENT}{sift}{line_of(agent, event, track, plugin=plugin)}"


def _quoted(track: str | None) -> str:
    return "'" + (track or "").replace("'", "'\\''") + "'"


def powershell(agent: str, event: str, track: str | None = None, *, plugin: bool = False) -> str:
    """The same for PowerShell."""
    tail = " --track '" + _QUOTES.sub(lambda found: found.group() * 2, track) + "'" if track is not None else ""
    tail += " --plugin" if plugin else ""
    return f"if (Get-Command git-baton -ErrorAction SilentlyContinue) {{ {OURS} {agent} {event}{tail} }}"


def entries(client: Client, track: str | None = None, *, plugin: bool = False) -> dict[str, dict[str, Any]]:
    """Return what the client's settings, or a ``plugin`` for it, hold for us: one entry an event, in the client's shape."""
    return {hook.event: _entry(client, hook, track, plugin=plugin) for hook in client.hooks}


def _entry(client: Client, hook: Hook, track: str | None, *, plugin: bool) -> dict[str, Any]:
    line = command(client.name, hook.event, track, plugin=plugin)
    if client.shape == "flat":
        return {"command": line}
    matcher = {"matcher": hook.matcher} if hook.matcher is not None else {}
    if client.shape == "shells":
        other = powershell(client.name, hook.event, track, plugin=plugin)
        return {"type": "command", **matcher, "bash": line, "powershell": other, "timeoutSec": hook.timeout}
    named = {"name": f"gitbaton-{hook.event}"} if client.named else {}
    handler = {**named, "type": "command", "command": line, "timeout": hook.timeout}
    return {**matcher, "hooks": [handler]}


def is_ours(handler: object, client: Client) -> bool:
    """Whether a handler in the client's settings is one that we wrote: each of its command lines is, from end to end."""
    found = lines(handler)
    return bool(found) and all(_written(line, client) for line in found)


def mentions(handler: object) -> list[str]:
    """Return the command lines of a handler that name our hook, ours or not."""
    return [line for line in lines(handler) if OURS in line]


def lines(handler: object) -> list[str]:
    """The command lines of a handler."""
    texts = (handler.get(key) for key in KEYS) if isinstance(handler, dict) else ()
    return [text for text in texts if isinstance(text, str)]


def track_of(line: str) -> str | None:
    """The track that a line of ours for a shell names."""
    found = _FORMS[0].fullmatch(line)
    text = found.group("track") if found else None
    return text[1:-1].replace("'\\''", "'") if text is not None else None


def _written(line: str, client: Client) -> bool:
    return any((found := form.fullmatch(line)) and found.group("agent") == client.name for form in _FORMS)


@value
class Merged:
    """New text. ``edits`` lead back from it; ``made`` names the containers that were not there before."""

    text: str
    edits: tuple[Edit, ...] = ()
    made: tuple[str, ...] = ()


@value
class FoundEntries:
    """Entries of ours in a file: how many, at which ``events``, for which tracks they were made, and what they are called, if
    anything.

    ``foreign``: command lines that name our hook, too, and that are not ours. ``line``: whether one of them is a status line.
    """

    count: int
    tracks: tuple[str | None, ...]
    names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    line: bool = False


def _root(document: Document) -> Node:
    root = document.root
    if root is None or root.kind != "object":
        raise MalformedError("it is not an object")
    _unique(root, {HOOKS, VERSION})
    return root


def _hooks(document: Document) -> Node | None:
    _root(document)
    hooks = document.at(HOOKS)
    if hooks is None:
        return None
    if hooks.kind != "object":
        raise MalformedError("'hooks' is not an object")
    _unique(hooks, {member.key for member in hooks.members})
    for event in hooks.members:
        for item in event.node.members if event.node.kind == "array" else ():
            _unique(item.node, _READ)
            for group in [member.node for member in item.node.members if member.key == HOOKS]:
                for handler in group.members:
                    _unique(handler.node, _READ)
    return hooks


def _unique(node: Node, keys: Collection[str]) -> None:
    seen = [member.key for member in node.members if member.key in keys]
    if len(seen) != len(set(seen)):
        twice = next(key for key in seen if seen.count(key) > 1)
        raise MalformedError(f"the key '{twice}' stands twice")


def _handlers(item: Any) -> list[Any]:
    """The handlers of an item: those of a group, or the item itself."""
    group = item.get(HOOKS) if isinstance(item, dict) else None
    return group if isinstance(group, list) else [item]


def _ours(document: Document, client: Client, event: str) -> list[tuple[tuple[str | int, ...], Any]]:
    """Return the entries of ours in an event, and where each stands."""
    node = document.at(HOOKS, event)
    found: list[tuple[tuple[str | int, ...], Any]] = []
    for at, item in enumerate(document.plain(node) if node is not None and node.kind == "array" else ()):
        inner = isinstance(item, dict) and isinstance(item.get(HOOKS), list)
        for place, handler in enumerate(_handlers(item)):
            if is_ours(handler, client):
                found.append(((HOOKS, event, at, HOOKS, place) if inner else (HOOKS, event, at), handler))
    return found


def _one(document: Document, client: Client, event: str, wanted: dict[str, Any]) -> None:
    """Let the event hold our entry once: in the place of one of ours, with its lines alone renewed, or at the end."""
    entry = _handlers(wanted)[0]
    written = {key: entry[key] for key in (TYPE, *KEYS) if key in entry}  # the rest may be set otherwise by the user
    depth = 5 if HOOKS in wanted else 3
    there = [one for one in _ours(document, client, event) if len(one[0]) == depth]
    if not there:
        _drop(document, client, event)
        document.append((HOOKS, event), wanted)
        return
    keep, handler = next((one for one in there if written.items() <= one[1].items()), there[0])
    for key, text in written.items():
        if key not in handler:
            document.put(keep, key, text)
        elif handler[key] != text:
            document.replace((*keep, key), text)
    _drop(document, client, event, keep)


def _drop(document: Document, client: Client, event: str, keep: tuple[str | int, ...] | None = None) -> bool:
    """Take our entries out of an event, but for ``keep``, and the groups that held nothing else; whether there were any."""
    gone = [path for path, _ in _ours(document, client, event) if path != keep]
    for path in reversed(gone):
        group = document.at(*path[:-1])
        alone = len(path) > 3 and group is not None and len(group.members) == 1
        document.remove(path[:3] if alone else path)
    return bool(gone)


def _merged(document: Document, made: list[str]) -> Merged:
    return Merged(text=document.text, edits=tuple(document.edits), made=tuple(made))


NONE = FoundEntries(count=0, tracks=())


def is_shipped(name: str, text: str) -> bool:
    """Whether a version of ours has shipped this text under a name, whatever its line ends and the track that it names."""
    plain = text.replace("\r\n", "\n")
    forms = (plain, naming(plain, None))
    listed = [f"{digest(form.encode('utf-8', 'surrogateescape'))} {name}" for form in forms]
    return not {*listed}.isdisjoint(shipped("agents", "shipped").splitlines()) or shipped("agents", name) in forms


def naming(text: str, track: str | None) -> str:
    """Return a text of ours that names a track, or none: the plugin in a constant, a text for agents in each snapshot, where
    the name can stand in Markdown."""
    if _TRACK.search(text):
        return _TRACK.sub(lambda _: f"const TRACK = {json.dumps(track)}", text, count=1)
    option = f" --track {shlex.quote(track)}" if track is not None and not means_else(track) else ""
    option = option if _OPTION.fullmatch(option) else ""
    return _SNAPSHOT.sub(lambda _: option, text)


class Part:
    """Something of ours in a file. ``whole``: the file is ours altogether; ``track``: the one it names."""

    whole = False
    errors = "strict"
    track: str | None = None

    def known(self, text: str) -> bool:
        """Whether our part of the text is as a version of ours wrote it."""
        return True

    def kept(self, shown: str) -> str:
        """Begin a sentence on our part of a file."""
        return f"'{shown}' was"

    def put(self, text: str) -> Merged:
        """The text with our part in it, once. Raises MalformedError."""
        raise MalformedError("nothing can be put there")

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The text without our part."""
        return Merged(text=text)

    def find(self, text: str) -> FoundEntries:
        """Return what of ours the text holds."""
        return NONE

    def is_bare(self, text: str, made: Collection[str]) -> bool:
        """Whether the text holds nothing that a user wrote."""
        return not text.strip()

    def fresh(self, text: str) -> bool:
        """Whether the text is just what install writes where no file was."""
        return self.put("").text == text


class Hooks(Part):
    """Our entries in a client's settings."""

    def __init__(self, client: Client, track: str | None) -> None:
        self.client, self.track = client, track

    def put(self, text: str) -> Merged:
        """The settings with our entries in them, each once; the same text when they are all there. Raises MalformedError."""
        wanted, made = entries(self.client, self.track), []
        document = Document(text, comments=self.client.comments)
        if document.root is None:
            document.begin({})
        root = _root(document)
        if self.client.version and not root.members:
            document.put((), VERSION, 1)
            made += [VERSION]
        hooks = _hooks(document)
        if hooks is None:
            document.put((), HOOKS, {event: [item] for event, item in wanted.items()})
            return _merged(document, [*made, HOOKS, *wanted])
        for event, item in wanted.items():
            node = document.at(HOOKS, event)
            if node is None:
                document.put((HOOKS,), event, [item])
                made.append(event)
            elif node.kind != "array":
                raise MalformedError(f"'hooks.{event}' is not a list")
            else:
                _one(document, self.client, event, item)
        for event in [member.key for member in hooks.members if member.key not in wanted]:
            _drop(document, self.client, event)
        return _merged(document, made)

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The settings without our entries, and without the containers of ``made`` that are empty now; None: of any."""
        document = Document(text, comments=self.client.comments)
        if document.root is None or (hooks := _hooks(document)) is None:
            return Merged(text=text)
        for event in [member.key for member in hooks.members]:
            dropped = _drop(document, self.client, event)
            node = document.at(HOOKS, event)
            if dropped and node is not None and not node.members and (made is None or event in made):
                document.remove((HOOKS, event))
        left = document.at(HOOKS)
        if document.edits and left is not None and not left.members and (made is None or HOOKS in made):
            document.remove((HOOKS,))
        rest = document.at()
        if made is not None and VERSION in made and rest is not None and [m.key for m in rest.members] == [VERSION]:
            document.remove((VERSION,))
        return _merged(document, [])

    def find(self, text: str) -> FoundEntries:
        """Our entries, for whatever track. Raises MalformedError."""
        document = Document(text, comments=self.client.comments)
        hooks = _hooks(document) if document.root is not None else None
        if hooks is None:
            return NONE
        handlers = [
            handler
            for event in hooks.members
            if event.node.kind == "array"
            for item in document.plain(event.node)
            for handler in _handlers(item)
        ]
        ours = [handler for handler in handlers if is_ours(handler, self.client)]
        foreign = [line for handler in handlers if not is_ours(handler, self.client) for line in mentions(handler)]
        return FoundEntries(
            count=len(ours),
            tracks=tuple(dict.fromkeys(track_of(lines(handler)[0]) for handler in ours)),
            names=tuple(handler["name"] for handler in ours if isinstance(handler.get("name"), str)),
            foreign=tuple(dict.fromkeys(foreign)),
            events=tuple(event.key for event in hooks.members if _ours(document, self.client, event.key)),
        )

    def is_bare(self, text: str, made: Collection[str]) -> bool:
        """Whether the settings hold nothing, not even a comment, but what install or the client put there itself."""
        document = Document(text, comments=self.client.comments)
        left = document.plain(document.root) if document.root is not None else {}
        left = {key: value for key, value in left.items() if key != self.client.stamp} if isinstance(left, dict) else left
        return not document.notes and (left == {} or (VERSION in made and left == {VERSION: 1}))

    def fresh(self, text: str) -> bool:
        """Whether the settings were written whole, for whatever track."""
        tracks = self.find(text).tracks
        return len(tracks) == 1 and Hooks(self.client, tracks[0]).put("").text == text


class LineSetting(Part):
    """Our status line in a client's settings. Only where it is ``wanted`` and none is set it is put there."""

    def __init__(self, track: str | None, *, wanted: bool = False) -> None:
        self.track, self.wanted = track, wanted

    def put(self, text: str) -> Merged:
        """The settings with our status line, or with the user's own. Raises MalformedError."""
        document = Document(text, comments=True)
        if document.root is None and self.wanted:
            document.begin({})
        line, there = f"{LINE} --track {_quoted(self.track)}" if self.track is not None else LINE, self.find(document.text)
        if there.line and there.tracks != (self.track,):
            document.replace((LINE_KEY, "command"), line)
        elif self.wanted and document.at(LINE_KEY) is None:
            _root(document)
            document.put((), LINE_KEY, {TYPE: "command", "command": line})
        return _merged(document, [])

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The settings without our status line."""
        document = Document(text, comments=True)
        if self.find(text).line:
            document.remove((LINE_KEY,))
        return _merged(document, [])

    def find(self, text: str) -> FoundEntries:
        """Return whether the status line is ours, and for which track. Raises MalformedError."""
        document = Document(text, comments=True)
        root = document.at()
        if root is None or root.kind != "object" or [member.key for member in root.members].count(LINE_KEY) != 1:
            return NONE  # one that stands twice is the user's, whichever a client takes
        found = _OUR_LINE.fullmatch(line_in(document.plain(root)) or "")
        track = found["track"][1:-1].replace("'\\''", "'") if found and found["track"] else None
        return FoundEntries(count=1, tracks=(track,), line=True) if found else NONE

    def is_bare(self, text: str, made: Collection[str]) -> bool:
        """Whether the settings hold nothing, not even a comment."""
        document = Document(text, comments=True)
        return not document.notes and (document.root is None or document.plain(document.root) == {})

    def fresh(self, text: str) -> bool:
        """Whether the settings were written whole, for whatever track."""
        return any(LineSetting(track, wanted=True).put("").text == text for track in self.find(text).tracks)


class HooksAndLine(Part):
    """Our entries and our status line in the same settings."""

    def __init__(self, hooks: Hooks, line: LineSetting) -> None:
        self.hooks, self.line, self.track = hooks, line, hooks.track

    def put(self, text: str) -> Merged:
        """The settings with both. Raises MalformedError."""
        first = self.hooks.put(text)
        return self._with(first, self.line.put(first.text))

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The settings without either."""
        first = self.hooks.take(text, made)
        return self._with(first, self.line.take(first.text, made))

    def _with(self, first: Merged, more: Merged) -> Merged:
        return Merged(text=more.text, edits=(*first.edits, *more.edits), made=first.made)

    def find(self, text: str) -> FoundEntries:
        """Return both. Raises MalformedError."""
        found, more = self.hooks.find(text), self.line.find(text)
        tracks = tuple(dict.fromkeys((*found.tracks, *more.tracks)))
        return replace(found, count=found.count + more.count, tracks=tracks, line=more.line)

    def is_bare(self, text: str, made: Collection[str]) -> bool:
        """Whether the settings hold nothing else."""
        return self.hooks.is_bare(text, made)

    def fresh(self, text: str) -> bool:
        """Whether the settings were written whole, with a status line or without."""
        wanted = (HooksAndLine(Hooks(self.hooks.client, t), LineSetting(t, wanted=True)) for t in self.find(text).tracks)
        return self.hooks.fresh(text) or any(both.put("").text == text for both in wanted)


def line_in(settings: object) -> str | None:
    """Return the command of a status line in a client's settings; None where none is set."""
    if not isinstance(settings, dict) or LINE_KEY not in settings:
        return None
    line = settings[LINE_KEY]
    return str(line.get("command")) if isinstance(line, dict) else json.dumps(line)


class Whole(Part):
    """A file of our own, known by a mark, with the track that it names."""

    whole = True
    errors = "surrogateescape"

    def __init__(self, name: str, mark: str, track: str | None = None) -> None:
        self.name, self.mark, self.track = name, mark, track

    def put(self, text: str) -> Merged:
        """The file; git may have given its lines other ends."""
        written = naming(shipped("agents", self.name), self.track)
        return Merged(text=text if text.replace("\r\n", "\n") == written else written)

    def find(self, text: str) -> FoundEntries:
        """Return whether the file is ours, and the track that it names."""
        if self.mark not in text.splitlines():
            return NONE
        named = _TRACK.search(text.replace("\r\n", "\n"))
        try:
            track = json.loads(named.group(1)) if named else self.track
        except ValueError:
            track = None
        return FoundEntries(count=1, tracks=(track,))

    def known(self, text: str) -> bool:
        """Whether the file is as some version wrote it, for whatever track."""
        return is_shipped(self.name, text)


class Block(Part):
    """Our marked block in AGENTS.md."""

    errors = "surrogateescape"

    def __init__(self, track: str | None) -> None:
        self.track = track

    def put(self, text: str) -> Merged:
        """The text with the block, in its place or at the end."""
        newline = "\r\n" if "\r\n" in text else "\n"
        block = newline.join([BEGIN, *naming(shipped("agents", "AGENTS.md"), self.track).splitlines(), END])
        place = _block(text)
        if place is not None:
            start, end = place
            if text[start:end] == block:
                return Merged(text=text)
            edit = Edit(start=start, length=len(block), old=text[start:end])
            return Merged(text=text[:start] + block + text[end:], edits=(edit,))
        lead = "" if not text.removeprefix(BOM) else newline if text.endswith("\n") else newline * 2
        new = lead + block + newline
        return Merged(text=text + new, edits=(Edit(start=len(text), length=len(new), old=""),))

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The text without the block, and without the empty line before it."""
        place = _block(text)
        if place is None:
            return Merged(text=text)
        start, end = place
        end += len(text[end:]) - len(text[end:].removeprefix("\r").removeprefix("\n"))
        for newline in ("\r\n", "\n"):
            if text[:start].endswith(newline * 2):
                start -= len(newline)
                break
        return Merged(text=text[:start] + text[end:], edits=(Edit(start=start, length=0, old=text[start:end]),))

    def find(self, text: str) -> FoundEntries:
        """Return whether the text has a block."""
        return FoundEntries(count=1, tracks=(self.track,)) if _block(text) is not None else NONE

    def known(self, text: str) -> bool:
        """Whether the lines between the marks are as some version wrote them."""
        start, end = _block(text) or (0, 0)
        inner = text[start:end].replace("\r\n", "\n").removeprefix(BEGIN + "\n").removesuffix(END)
        return is_shipped("AGENTS.md", inner)

    def fresh(self, text: str) -> bool:
        """Whether the file holds the block alone, for whatever track."""
        return self.put("").text == naming(text, self.track)

    def kept(self, shown: str) -> str:
        """The block, and not the whole file."""
        return f"the block in '{shown}' was"


def _block(text: str) -> tuple[int, int] | None:
    """Return the beginning and the end of the block; None when there is none. Raises MalformedError for marks that do not
    pair."""
    begins, ends = text.count(BEGIN), text.count(END)
    if not begins and not ends:
        return None
    start, end = text.find(BEGIN), text.find(END)
    if begins != 1 or ends != 1 or end < start:
        raise MalformedError(f"the marks '{BEGIN}' and '{END}' do not stand there once each, in this order")
    return start, end + len(END)


@value
class Place:
    """A place to install to: a level, the work tree's root at project level, the user's environment.

    ``manifests``: its own, then those of other levels, which may know the same files.
    """

    level: Level
    root: str | None
    git_dir: str | None
    env: Mapping[str, str]
    manifests: tuple[str, ...]


@value
class Target:
    """A file and what of ours goes into it; ``about`` says it to the user."""

    file: File
    part: Part
    about: str


@value
class Row:
    """A client at a level: its file, what of ours is in it, and why it cannot be read if so.

    ``names``: what our entries are called, where the client's hooks have names; ``foreign``: lines of the user's that call us;
    ``lacks``: the events of which the hooks are missing; ``line``: the file with our status line, empty where none is ours.
    """

    client: Client
    level: Level
    file: str
    path: str
    state: State
    tracks: tuple[str | None, ...] = ()
    names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    reason: str = ""
    lacks: tuple[str, ...] = ()
    line: str = ""


def place(level: Level, env: Mapping[str, str], root: str | None, git_dir: str | None, shared: str | None) -> Place:
    """A level of the work tree ``root`` (``shared``: its repository's own folder of ours), or of the user.

    Raises BatonError without a work tree, and for the user's level without a home folder.
    """
    home = env["HOME"] if "HOME" in env else os.path.expanduser("~")
    if level == "user" and not os.path.isabs(home):
        raise BatonError(f"HOME is '{home}' and not the path of a home folder, so there is no user level")
    env = {**env, "HOME": home if os.path.isabs(home) else "/"}
    own = os.path.join(state_home(env) or "/", "gitbaton", "agents")
    project = os.path.join(shared, "agents") if shared is not None else None
    if level == "user":
        return Place(level=level, root=None, git_dir=None, env=env, manifests=(own, project) if project else (own,))
    if root is None or project is None:
        raise BatonError("this repository has no work tree, so there is no project level", "install with --user")
    return Place(level=level, root=root, git_dir=git_dir, env=env, manifests=(project, own))


def places(
    env: Mapping[str, str],
    root: str | None,
    git_dir: str | None,
    shared: str | None,
    *,
    user: bool = True,
    project: bool = True,
) -> list[Place]:
    """The levels asked for, the project's first; of both, those that there are. Raises BatonError when there is none."""
    found, errors = [], []
    for level in LEVELS:
        if user if level == "user" else project:
            try:
                found.append(place(level, env, root, git_dir, shared))
            except BatonError as error:
                errors.append(error)
    if not found:
        raise errors[-1]
    return found


def path_of(where: Place, client: Client) -> str:
    """The file of a client at a level."""
    if where.root is not None:
        return os.path.join(where.root, client.project)
    return os.path.abspath(os.path.join(folder(client, where.env), client.user))


def shown(where: Place, path: str) -> str:
    """A path as the user is told it: from the work tree's root, or from the home folder."""
    if where.root is not None and os.path.join(path, "").startswith(os.path.join(where.root, "")):
        return os.path.relpath(path, where.root)
    home = os.path.join(where.env["HOME"], "")
    return "~/" + path.removeprefix(home) if path.startswith(home) else path


def _target(where: Place, path: str, part: Part, about: str) -> Target:
    return Target(file=look(path, shown(where, path), inside=where.root, git_dir=where.git_dir), part=part, about=about)


def hooks_target(where: Place, client: Client, track: str | None, *, line: bool = False) -> Target:
    """The file with a client's hooks; ``line``: with a status line. Raises BatonError for one that is not read."""
    path = path_of(where, client)
    if client.shape == "plugin":
        return _target(where, path, Whole("gitbaton.js", PLUGIN_MARK, track), f"the plugin of {client.title}")
    part, about = Hooks(client, track), f"the hooks of {client.title}"
    if line_path(where, client) == path:
        return _target(where, path, HooksAndLine(part, LineSetting(track, wanted=line)), about + " and its status line" * line)
    return _target(where, path, part, about)


def line_path(where: Place, client: Client) -> str:
    """The settings in which a client's status line is set at a level; empty where it has none there."""
    above = where.root or os.path.abspath(folder(client, where.env))
    name = client.line[where.root is None]
    return os.path.join(above, name) if name else ""


def line_target(where: Place, client: Client, track: str | None, *, line: bool = False) -> Target | None:
    """A file of settings that holds a client's status line and not its hooks; None where there is no such file. Raises
    BatonError for one that is not read."""
    path = line_path(where, client)
    if not path or path == path_of(where, client):
        return None
    return _target(where, path, LineSetting(track, wanted=line), f"the status line of {client.title}")


def lines_set(where: Place, client: Client) -> list[tuple[str, str]]:
    """The files that set a client's status line, as far as one at this level would take its place or be hidden by it: each as
    it is shown, with the command."""
    own, user = line_path(where, client), os.path.join(os.path.abspath(folder(client, where.env)), client.line[1])
    paths = [own, *(os.path.join(where.root or os.sep, name) for name in client.lines), user]
    found = [(shown(where, path), line_in(settings_of(path))) for path in dict.fromkeys(paths)]
    return [(path, line) for path, line in found if line is not None]


def skill_paths(where: Place, clients: Iterable[Client], *, shared: bool) -> list[str]:
    """The skill's files: the shared one, and those of clients that look elsewhere."""
    paths = [os.path.join(where.root or where.env["HOME"], SHARED_SKILLS, SKILL)] if shared else []
    for client in clients:
        if client.skills is not None:
            own = where.root or os.path.abspath(folder(client, where.env))
            paths.append(os.path.join(own, client.skills[0 if where.root is not None else 1], SKILL))
    return paths


def skill_target(where: Place, path: str, track: str | None = None) -> Target:
    """One of the skill's files. Raises BatonError for one that is not read."""
    return _target(where, path, Whole("SKILL.md", SKILL_MARK, track), "the skill")


def block_target(where: Place, track: str | None = None) -> Target:
    """AGENTS.md, at project level. Raises BatonError for one that is not read."""
    return _target(where, os.path.join(where.root or "", AGENTS_MD), Block(track), "the block for agents")


def text_of(target: Target) -> str:
    """The text of a target's file. Raises BatonError for bytes that are not text."""
    try:
        return (target.file.data or b"").decode("utf-8", target.part.errors)
    except UnicodeDecodeError:
        raise BatonError(f"'{target.file.shown}' is not UTF-8, and is left as it is") from None


def found_in(target: Target) -> FoundEntries:
    """Return what of ours a target's file holds. Raises BatonError for a file that cannot be understood."""
    try:
        return target.part.find(text_of(target))
    except (MalformedError, RecursionError) as error:
        raise refused(target, error) from None


def refused(target: Target, error: Exception) -> BatonError:
    """Return the error of a file that cannot be understood."""
    why = str(error) if isinstance(error, MalformedError) else "it is nested too deep"
    return BatonError(f"'{target.file.shown}' is not what it should be, and is left as it is: {why}")


def row(where: Place, client: Client) -> Row:
    """Return the state of a client at a level. Raises nothing."""
    path = path_of(where, client)
    state: State = "not installed"
    found, reason = NONE, ""
    try:
        target = hooks_target(where, client, None)
    except BatonError as error:  # nothing of it is read
        closed = os.path.isfile(path) and not os.access(path, os.R_OK)
        state, reason = "unreadable" if closed else "not installed", error.message
    else:
        try:
            found = found_in(target)
        except BatonError as error:
            ours = OURS.encode() in (target.file.data or b"")
            state, reason = "unreadable" if ours else "not installed", error.message
        if found.count > found.line:
            state = "installed" if _is_current(where, client, target, found.tracks) else "outdated"
    return Row(
        client=client,
        level=where.level,
        file=shown(where, path),
        path=path,
        state=state,
        tracks=found.tracks,
        names=found.names,
        foreign=found.foreign,
        reason=reason,
        lacks=tuple(hook.event for hook in client.hooks if hook.event not in found.events) if found.count else (),
        line=shown(where, own_line(where, client)),
    )


def own_line(where: Place, client: Client) -> str:
    """The settings that hold our status line of a client at a level; empty where none do."""
    path = line_path(where, client)
    return path if path and _OUR_LINE.fullmatch(line_in(settings_of(path)) or "") else ""


def _is_current(where: Place, client: Client, target: Target, tracks: tuple[str | None, ...]) -> bool:
    if len(tracks) != 1:
        return False
    text = text_of(target)
    try:
        return hooks_target(where, client, tracks[0]).part.put(text).text == text
    except (BatonError, MalformedError):
        return False


def settings_of(path: str) -> dict[str, Any]:
    """The settings of a client in a file of JSON or TOML; nothing where they cannot be read."""
    data: Any = None
    try:
        text = (read(path) or b"").decode("utf-8")
        if path.endswith(".toml"):
            import tomllib

            data = tomllib.loads(text)
        else:
            document = Document(text, comments=True)
            data = document.plain(document.root) if document.root is not None else {}
    except (ValueError, MalformedError, RecursionError):
        pass
    return data if isinstance(data, dict) else {}


def covers(path: str, root: str) -> bool:
    """Whether a folder is, or stands above, another one."""
    real = os.path.realpath(path)
    return os.path.realpath(root) == real or os.path.realpath(root).startswith(os.path.join(real, ""))


def installed(where: Place, client: Client, root: str | None, names: tuple[str, ...] = ()) -> Installed:
    """A client's hooks at a level as its own module looks at them; ``root``: the work tree, ``names``: what they are called."""
    return Installed(
        project=where.root,
        tree=root,
        home=os.path.abspath(folder(client, where.env)),
        env=where.env,
        names=names,
        settings=settings_of,
        shown=lambda path: shown(where, path),
        holds=covers,
        lies=os.path.isfile,
    )


def doubled(rows: Iterable[Row]) -> list[str]:
    """For each client that is installed at both levels for different tracks, a line that says so."""
    both: dict[str, list[Row]] = {}
    for found in rows:
        if found.level != "plugin" and found.state in ("installed", "outdated"):
            both.setdefault(found.client.name, []).append(found)
    said = []
    for name, found_rows in both.items():
        files = {os.path.realpath(found.path) for found in found_rows}  # one, where the home folder is a work tree
        if len(files) > 1 and len({found.tracks for found in found_rows}) > 1:
            keep = f"keep one: git baton agent uninstall {name} --user"
            title = found_rows[0].client.title
            said.append(f"{title} is installed at both levels for different tracks, and either acts; {keep}")
    return said


def program(client: Client, env: Mapping[str, str]) -> str | None:
    """Return the path of a program of the client on PATH."""
    return next(filter(None, (shutil.which(name, path=env.get("PATH")) for name in client.programs)), None)
