"""Checks of agents' hooks: in place and current, git-baton found, trusted, only once; and Codex's trust, asked and given
through its app server: JSON-RPC over its standard streams, in bounded time."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shlex import quote
from types import TracebackType
from typing import Any

from gitbaton import __version__
from gitbaton.agents.client import Client
from gitbaton.agents.codex import CLIENT as CODEX
from gitbaton.agents.install.agents import chosen, is_here
from gitbaton.agents.install.levels import (
    CLIENTS,
    EVERYWHERE,
    ONLY_USED,
    UNHEEDED,
    Place,
    Row,
    command,
    doubled,
    installed,
    path_of,
    plugged,
    program,
)
from gitbaton.agents.install.plugins import rows
from gitbaton.base.errors import BatonError, GitTimeoutError, UsageError
from gitbaton.base.model import DoctorFinding
from gitbaton.base.system.files import write_all
from gitbaton.base.system.process import Coprocess, begin
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.render import first_few, some
from gitbaton.git.questions import everywhere

SECONDS = 5.0
_ASKED_SECONDS = 20.0
_PATIENCE = 4.0  # seconds in which it is to end when nobody asks it any more
TRUSTED = ("trusted", "managed")
_TEXTS = ("key", "currentHash", "command", "sourcePath")
_FIND = "command -v git-baton && { git-baton --version >/dev/null 2>&1 && echo runs; true; }"


def examine(places: Iterable[Place], cwd: str) -> list[DoctorFinding]:
    """Every check, for a client started in ``cwd``. Only looks."""
    known = {where.level: where for where in places}
    found = rows(known.values())
    there = [row for row in found if row.state != "not installed"]
    env = next(iter(known.values())).env
    result = [_path(env) if there else _remarked(_path(env))]
    if not there:
        named = " ".join(client.name for client in CLIENTS if is_here(client, env)) or CLIENTS[0].name
        mend = f"git baton agent install {named}" + ("" if "project" in known else " --user")
        result.append(DoctorFinding(name="agents", ok=True, text="none is installed", mend=mend, remark=True))
    root = known["project"].root if "project" in known else None
    for row in there:
        if row.level == "plugin":
            result += _plugin(row, found, known["user"], cwd)
            continue
        result += _row(row, known[row.level], root, cwd)
        if row.level == "project" and not row.client.upward:
            result += _start(row, known[row.level], found, cwd)
    result += _reach(there, root)
    if root is None:
        result += _workspace(cwd, env, there)
    twice = doubled(found)
    return [
        *result,
        *(DoctorFinding(name="levels", ok=False, text=text, mend=text.rpartition("keep one: ")[2]) for text in twice),
    ]


def _workspace(here: str, env: Mapping[str, str], installed: list[Row]) -> Iterator[DoctorFinding]:
    """Whether a client that is opened in this folder, which is in no work tree, stands above repositories."""
    below = list[str]()
    with suppress(OSError), os.scandir(here) as entries:
        below += sorted(entry.name for entry in entries if os.path.lexists(os.path.join(entry.path, ".git")))
    if not below:
        return
    own = rows([Place(level="project", root=here, git_dir=None, env=env, manifests=())])
    calling = [row for row in (*installed, *own) if row.state != "not installed"]
    names, verb = some(len(below), first_few(below)), "is a repository" if len(below) == 1 else "are repositories"
    text = f"this folder is in no work tree, and {names} below it {verb}: hooks of a client that is opened here do nothing"
    mend = f"cd {quote(below[0])}" + (f" && {calling[0].client.programs[0]}" if calling else "")
    yield DoctorFinding(name="workspace", ok=not calling, text=text, mend=mend, remark=not calling)


def _remarked(finding: DoctorFinding) -> DoctorFinding:
    """Return a finding on what nothing here runs: a remark where it would be a fault."""
    return finding if finding.ok else replace(finding, ok=True, remark=True)


def _path(env: Mapping[str, str]) -> DoctorFinding:
    """Whether a shell that is no login shell finds our program, and it runs."""
    mend = "put it on the PATH that your clients are started with"
    try:
        said = begin(["sh", "-c", _FIND], env, SECONDS).finish()
    except BatonError as error:
        text = "'sh' did not end in its time and was stopped" if isinstance(error, GitTimeoutError) else error.message
        return DoctorFinding(name="path", ok=False, text=text, mend=mend)
    where, *runs = (os.fsdecode(said.out) if said.code == 0 else "\n").splitlines()
    if not where:
        return DoctorFinding(
            name="path", ok=False, text="a shell does not find git-baton, so every hook stays silent", mend=mend
        )
    text = f"a shell finds git-baton, '{where}'"
    if not runs:
        again = "install gitbaton again, or put one that runs before it on PATH"
        return DoctorFinding(name="path", ok=False, text=f"{text}, which does not run, so every hook stays silent", mend=again)
    if sys.prefix != sys.base_prefix and os.path.dirname(where) == os.path.join(sys.prefix, "bin"):
        text += "; it is in a virtual environment, and found only where that one is on PATH"
    return DoctorFinding(name="path", ok=True, text=text)


def _row(row: Row, where: Place, root: str | None, cwd: str) -> Iterator[DoctorFinding]:
    """One client at one level; ``root``: the work tree's, whatever the level."""
    name = f"{row.client.name} {row.level}"
    if row.state == "unreadable":
        yield DoctorFinding(name=name, ok=False, text=row.reason, mend="mend the file")
        return
    line = f"git baton agent install {row.client.name} --{row.level}" + (" --track NAME" if len(row.tracks) > 1 else "")
    if row.state == "outdated":
        text = f"'{row.file}' is not as this version writes it"
        text += f": it lacks {' and '.join(row.lacks)}" if row.lacks else ""
        yield DoctorFinding(name=name, ok=False, text=text, mend=line)
    else:
        yield DoctorFinding(name=name, ok=True, text=f"in place in '{row.file}'")
    if row.line:
        yield DoctorFinding(name=f"{name} statusline", ok=True, text=f"in place in '{row.line}'")
    here = program(row.client, where.env) is not None
    if not here:
        text = f"'{row.client.programs[0]}' is not on PATH, so nothing calls these hooks from here"
        mend = f"install {row.client.title}, or put it on PATH"
        yield DoctorFinding(name=f"{name} program", ok=True, text=text, mend=mend, remark=True)
    ours = installed(where, row.client, root, row.names)
    found = _codex(row, where, cwd) if row.client.name == "codex" else row.client.doubts(ours)
    for finding in found:
        moot = finding.name == "trust" and not here  # it asks when it is started for the first time
        yield replace(_remarked(finding) if moot else finding, name=f"{name} {finding.name}")


def _reach(there: list[Row], root: str | None) -> Iterator[DoctorFinding]:
    """Reach of the hooks that are no project's, those of each client alike."""
    levels = {row.level for row in there if row.state in ("installed", "outdated")}
    on, unheeded = everywhere(root) if levels & {"user", "plugin"} else (None, False)
    if "user" in levels:
        acts = f"such hooks {ONLY_USED}; '{EVERYWHERE}' lets them act in every one" + (f"; {UNHEEDED}" if unheeded else "")
        text = "baton.everywhere is true: such hooks act in every repository" if on else acts
        yield DoctorFinding(name="user reach", ok=on or not unheeded, text=text, mend=EVERYWHERE if unheeded and not on else "")
    if "plugin" in levels:
        yield DoctorFinding(name="plugin reach", ok=True, text=plugged(on))


def _plugin(row: Row, found: list[Row], where: Place, cwd: str) -> Iterator[DoctorFinding]:
    """A plugin that a client has; where its settings call us, too, both are one."""
    name, text = f"{row.client.name} plugin", f"{row.names[0]} is {'off' if row.state == 'off' else 'on'}, in '{row.file}'"
    if row.state == "off":
        mend = f"switch it on in {row.client.title}"
        yield DoctorFinding(name=name, ok=True, text=text, mend=mend, remark=True)
        return
    if row.state == "not taken":
        mend = row.reason.partition(": ")[2]
        yield DoctorFinding(
            name=name, ok=False, text=f"it is written to '{row.file}', and {row.client.title} has not taken it", mend=mend
        )
        return
    if row.state == "outdated":
        mend = f"git baton agent install {row.client.name} --plugin"
        text = f"{row.names[0]} is on, and not as this version writes it"
        yield DoctorFinding(name=name, ok=False, text=text, mend=mend)
        return
    others = [one for one in found if one.client == row.client and one.level != "plugin"]
    beside = [f"'{one.file}'" for one in others if one.state in ("installed", "outdated")]
    text += f"; with the hooks in {' and '.join(beside)} it acts once" if beside else ""
    yield DoctorFinding(name=name, ok=True, text=text)
    if row.client.name == CODEX.name:
        yield from (replace(one, name=f"{name} {one.name}") for one in _codex(row, where, cwd))


def _start(row: Row, where: Place, found: list[Row], cwd: str) -> Iterator[DoctorFinding]:
    """A client that looks for its file in the directory it is started in."""
    other = any(r.client == row.client and r.level == "user" and r.state == "installed" for r in found)
    root = os.path.realpath(where.root or "")
    if other or not os.path.realpath(cwd).startswith(os.path.join(root, "")):
        return
    text = f"started in this subdirectory, {row.client.title} does not see '{row.file}'"
    mend = f"start it in '{root}', or: git baton agent install {row.client.name} --user"
    yield DoctorFinding(name=f"{row.client.name} start", ok=False, text=text, mend=mend)


def _codex(row: Row, where: Place, cwd: str) -> Iterator[DoctorFinding]:
    found = program(row.client, where.env)
    if found is None:
        return  # said already
    plugin = row.level == "plugin"
    wanted = trust_lines(row.client, row.tracks[0] if row.tracks else None, plugin=plugin)
    of = Question(program=found, env=where.env, cwd=where.root or cwd, path="" if plugin else row.path, wanted=wanted)
    try:
        listed = trusts(of)
    except BatonError as error:
        yield DoctorFinding(name="trust", ok=False, text=f"cannot be asked: {error.message}", mend="codex app-server")
        return
    open_ones = [hook for hook in listed if hook.get("trustStatus") not in TRUSTED]
    line = f"git baton agent install codex --{row.level} --trust"
    if len(listed) < len(wanted) and where.root is not None:
        text = f"codex lists {len(listed)} of our {len(wanted)} hooks: it does not trust this project"
        yield DoctorFinding(name="trust", ok=False, text=text, mend=f"start codex in '{where.root}' and accept; then: {line}")
    elif open_ones or len(listed) < len(wanted):
        text = f"codex trusts {len(listed) - len(open_ones)} of our {len(wanted)} hooks, and runs no other"
        yield DoctorFinding(name="trust", ok=False, text=text, mend=line)
    else:
        yield DoctorFinding(name="trust", ok=True, text=f"codex trusts our {len(wanted)} hooks")


@value
class Question:
    """Of which hooks Codex is asked: whole command lines in one file, those of a plugin where it is not named, as Codex started
    in ``cwd`` sees them."""

    program: str
    env: Mapping[str, str]
    cwd: str
    path: str
    wanted: frozenset[str]


def trust_question(where: Place, clients: Sequence[Client], track: str | None, cwd: str, *, plugin: bool = False) -> Question:
    """The question for an install with --trust. Raises UsageError without codex, BatonError where its program is missing."""
    client = next((client for client in clients if client.name == CODEX.name), None)
    if client is None:
        raise UsageError("--trust is for codex")
    found = program(client, where.env)
    if found is None:
        raise BatonError("--trust needs codex, and it is not on PATH", "install without --trust, and use /hooks in codex")
    lines = trust_lines(client, None if plugin else chosen(where, client, track), plugin=plugin)
    path = "" if plugin else path_of(where, client)
    return Question(program=found, env=where.env, cwd=where.root or cwd, path=path, wanted=lines)


def trusts(of: Question) -> list[dict[str, Any]]:
    """Our hooks as Codex sees them. Raises BatonError when it does not say."""
    with _server(of) as peer:
        return _ours(peer, of)


def give_trust(of: Question) -> str:
    """Let Codex trust our hooks; what was done, in a line. Raises BatonError when it does not.

    A line that only resembles ours is not trusted.
    """
    with _server(of) as peer:
        known = _ours(peer, of)
        if len(known) < len(of.wanted):
            raise BatonError(
                f"codex lists {len(known)} of our {len(of.wanted)} hooks in '{of.path or of.cwd}', so nothing was trusted",
                "it reads a project's hooks only when the project is trusted: start codex here once and accept",
            )
        open_ones = {
            hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in known if hook.get("trustStatus") not in TRUSTED
        }
        if open_ones:
            edit = {"keyPath": "hooks.state", "value": open_ones, "mergeStrategy": "upsert"}
            peer.request("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})
            left = [hook for hook in _ours(peer, of) if hook.get("trustStatus") not in TRUSTED]
            if left:
                raise BatonError(f"codex was told to trust our hooks and still does not trust {len(left)} of them")
    if not open_ones:
        return "codex trusts our hooks already"
    return f"codex trusts our {len(of.wanted)} hooks, {len(open_ones)} of them anew"


def trust_lines(client: Client, track: str | None, *, plugin: bool = False) -> frozenset[str]:
    """Our command lines for a client, as install writes them."""
    return frozenset(command(client.name, hook.event, track, plugin=plugin) for hook in client.hooks)


@contextmanager
def _server(of: Question) -> Iterator[Peer]:
    with Peer([of.program, "app-server"], of.env, _ASKED_SECONDS) as peer:
        info = {"name": "gitbaton", "title": "gitbaton", "version": __version__}
        peer.request("initialize", {"clientInfo": info, "capabilities": None})
        peer.send({"method": "initialized"})
        yield peer


def _ours(peer: Peer, of: Question) -> list[dict[str, Any]]:
    real = os.path.realpath(of.path)
    return [
        hook
        for hook in _hooks(peer.request("hooks/list", {"cwds": [of.cwd]}))
        if hook["command"] in of.wanted and (_real(hook["sourcePath"]) == real if of.path else hook.get("source") == "plugin")
    ]


def _real(path: str) -> str | None:
    """Return the path that a path of an answer leads to; None for a text that is none."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL, or half a character
        return None


def _hooks(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The hooks of an answer that are of the known form."""
    entries = answer.get("data")
    for entry in entries if isinstance(entries, list) else []:
        hooks = entry.get("hooks") if isinstance(entry, dict) else None
        for hook in hooks if isinstance(hooks, list) else []:
            if isinstance(hook, dict) and all(isinstance(hook.get(name), str) for name in _TEXTS):
                yield hook


class Peer(Coprocess):
    """A program that answers requests (JSON-RPC, one message a line); it is ended when the ``with`` block is left.

    Raises BatonError when it cannot be started, ends, answers with an error or does not answer before the time is over.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], seconds: float) -> None:
        super().__init__(os.path.basename(argv[0]), argv, env, seconds)
        self._number, self._deadline = 0, time.monotonic() + seconds

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for fd in (self.writer, self.reader, self.err):
            os.close(fd)
        until = time.monotonic() + _PATIENCE
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
            time.sleep(0.01)

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request; what else the program says meanwhile is passed over."""
        self._number += 1
        self.send({"id": self._number, "method": method, "params": params})
        while True:
            try:
                message = json.loads(self.line(self._deadline))
            except (ValueError, RecursionError):
                continue
            if not isinstance(message, dict) or message.get("id") != self._number or "method" in message:
                continue
            result = message.get("result")
            if isinstance(result, dict):
                return result
            error = message.get("error")
            said = error.get("message") if isinstance(error, dict) else None
            raise BatonError(f"'{self.name}' refused {method}: {' '.join(str(said or 'it gave no reason').split())[:200]}")

    def send(self, message: dict[str, Any]) -> None:
        """Say something; a message without a number has no answer."""
        try:
            write_all(self.writer, json.dumps(message).encode() + b"\n")
        except BrokenPipeError:
            raise BatonError(f"'{self.name}' ended before it was asked") from None
