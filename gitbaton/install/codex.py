"""Codex's trust in our hooks: asked and given through its app server, JSON-RPC over its standard streams, in bounded time."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from gitbaton import __version__
from gitbaton.agents.client import Client
from gitbaton.agents.codex import CLIENT as CODEX
from gitbaton.agents.lines import command
from gitbaton.errors import BatonError, UsageError
from gitbaton.install.agents import chosen
from gitbaton.install.levels import Place, path_of, program
from gitbaton.system.files import write_all
from gitbaton.system.process import Coprocess
from gitbaton.values import value

SECONDS = 20.0
_PATIENCE = 4.0  # seconds in which it is to end when nobody asks it any more
TRUSTED = ("trusted", "managed")
_TEXTS = ("key", "currentHash", "command", "sourcePath")


@value
class Trust:
    """One of our hooks as Codex lists it."""

    key: str
    hash: str
    status: str


@value
class Question:
    """Of which hooks Codex is asked: whole command lines in one file, as Codex started in ``cwd`` sees them."""

    program: str
    env: Mapping[str, str]
    cwd: str
    path: str
    wanted: frozenset[str]


def question(where: Place, clients: Sequence[Client], track: str | None, cwd: str) -> Question:
    """The question for an install with --trust. Raises UsageError without codex, BatonError where its program is missing."""
    client = next((client for client in clients if client.name == CODEX.name), None)
    if client is None:
        raise UsageError("--trust is for codex")
    found = program(client, where.env)
    if found is None:
        raise BatonError("--trust needs codex, and it is not on PATH", "install without --trust, and use /hooks in codex")
    lines = wanted(client, chosen(where, client, track))
    return Question(program=found, env=where.env, cwd=where.root or cwd, path=path_of(where, client), wanted=lines)


def asked(of: Question) -> list[Trust]:
    """Our hooks as Codex sees them. Raises BatonError when it does not say."""
    with _server(of) as peer:
        return _ours(peer, of)


def offered(of: Question) -> str:
    """What ``given`` would do, for a dry run."""
    return f"would let codex trust our {len(of.wanted)} hooks, through its app server"


def given(of: Question) -> str:
    """Let Codex trust our hooks; what was done, in a line. Raises BatonError when it does not.

    A line that only resembles ours is not trusted.
    """
    with _server(of) as peer:
        known = _ours(peer, of)
        if len(known) < len(of.wanted):
            raise BatonError(
                f"codex lists {len(known)} of our {len(of.wanted)} hooks in '{of.path}', so nothing was trusted",
                "it reads a project's hooks only when the project is trusted: start codex here once and accept",
            )
        open_ones = {item.key: {"trusted_hash": item.hash} for item in known if item.status not in TRUSTED}
        if open_ones:
            edit = {"keyPath": "hooks.state", "value": open_ones, "mergeStrategy": "upsert"}
            peer.request("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})
            left = [item for item in _ours(peer, of) if item.status not in TRUSTED]
            if left:
                raise BatonError(f"codex was told to trust our hooks and still does not trust {len(left)} of them")
    if not open_ones:
        return "codex trusts our hooks already"
    return f"codex trusts our {len(of.wanted)} hooks, {len(open_ones)} of them anew"


def wanted(client: Client, track: str | None) -> frozenset[str]:
    """Our command lines for a client, as install writes them."""
    return frozenset(command(client.name, hook.event, track) for hook in client.hooks)


@contextmanager
def _server(of: Question) -> Iterator[Peer]:
    with Peer([of.program, "app-server"], of.env, SECONDS) as peer:
        info = {"name": "gitbaton", "title": "gitbaton", "version": __version__}
        peer.request("initialize", {"clientInfo": info, "capabilities": None})
        peer.send({"method": "initialized"})
        yield peer


def _ours(peer: Peer, of: Question) -> list[Trust]:
    real = os.path.realpath(of.path)
    return [
        Trust(key=hook["key"], hash=hook["currentHash"], status=str(hook.get("trustStatus")))
        for hook in _hooks(peer.request("hooks/list", {"cwds": [of.cwd]}))
        if hook["command"] in of.wanted and _real(hook["sourcePath"]) == real
    ]


def _real(path: str) -> str | None:
    """Where a path of an answer leads; None for a text that is none."""
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
