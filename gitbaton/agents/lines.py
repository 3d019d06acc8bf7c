"""The lines of clients' settings that call us: made, and known again. No I/O."""

from __future__ import annotations

import re
from typing import Any, Literal

from gitbaton.agents.client import OURS, Client, Hook, client
from gitbaton.agents.destructive import FILTER
from gitbaton.agents.values import NAMES

Level = Literal["project", "user"]

SILENT = "command -v git-baton >/dev/null 2>&1 || exit 0; "
LEVELS: tuple[Level, ...] = ("project", "user")

CLIENTS = tuple(found for name in NAMES if (found := client(name)) is not None)
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


def command(agent: str, event: str, track: str | None = None) -> str:
    """The line that a shell of a client runs; it names no path, so it stays the same from version to version."""
    tail = " --track '" + track.replace("'", "'\\''") + "'" if track is not None else ""
    of = client(agent)
    sift = _SIFT if of is not None and of.events.get(event, ("other", "no"))[0] == "command" else ""
    return f"{SILENT}{sift}{OURS} {agent} {event}{tail}"


def powershell(agent: str, event: str, track: str | None = None) -> str:
    """The same for PowerShell."""
    tail = " --track '" + _QUOTES.sub(lambda found: found.group() * 2, track) + "'" if track is not None else ""
    return f"if (Get-Command git-baton -ErrorAction SilentlyContinue) {{ {OURS} {agent} {event}{tail} }}"


def entries(client: Client, track: str | None = None) -> dict[str, dict[str, Any]]:
    """What the client's settings hold for us: one entry an event, in the client's shape."""
    return {hook.event: _entry(client, hook, track) for hook in client.hooks}


def _entry(client: Client, hook: Hook, track: str | None) -> dict[str, Any]:
    line = command(client.name, hook.event, track)
    if client.shape == "flat":
        return {"command": line}
    if client.shape == "shells":
        other = powershell(client.name, hook.event, track)
        matcher = {"matcher": hook.matcher} if hook.matcher is not None else {}
        return {"type": "command", **matcher, "bash": line, "powershell": other, "timeoutSec": hook.timeout}
    named = {"name": f"gitbaton-{hook.event}"} if client.named else {}
    handler = {**named, "type": "command", "command": line, "timeout": hook.timeout}
    matcher = {"matcher": hook.matcher} if hook.matcher is not None else {}
    return {**matcher, "hooks": [handler]}


def is_ours(handler: object, client: Client) -> bool:
    """Whether a handler in the client's settings is one that we wrote: each of its command lines is, from end to end."""
    found = lines(handler)
    return bool(found) and all(_written(line, client) for line in found)


def mentions(handler: object) -> list[str]:
    """The command lines of a handler that name our hook, whoever wrote them."""
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
