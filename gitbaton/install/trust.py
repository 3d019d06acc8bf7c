"""Codex's trust in hooks: asked and given through its app server, for our own hooks only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gitbaton import __version__
from gitbaton.agents.clients import CLIENTS, Client, command
from gitbaton.errors import BatonError, UsageError
from gitbaton.install.agentplaces import Place, path_of
from gitbaton.install.agentrows import program
from gitbaton.install.agents import chosen
from gitbaton.install.appserver import Peer
from gitbaton.values import value

SECONDS = 20.0
CODEX = next(client for client in CLIENTS if client.name == "codex")
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


def give(of: Question) -> int:
    """Let Codex trust our hooks; how many it trusts anew. Raises BatonError when it does not.

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
        return len(open_ones)


def offered(of: Question) -> str:
    """What ``given`` would do, for a dry run."""
    return f"would let codex trust our {len(of.wanted)} hooks, through its app server"


def given(of: Question) -> str:
    """Let Codex trust our hooks; what was done, in a line. Raises BatonError as ``give`` does."""
    count = give(of)
    return f"codex trusts our {len(of.wanted)} hooks, {count} of them anew" if count else "codex trusts our hooks already"


def wanted(client: Client, track: str | None) -> frozenset[str]:
    """Our command lines for a client, as install writes them."""
    return frozenset(command(client.name, hook.event, track) for hook in client.hooks)


def _server(of: Question) -> Peer:
    peer = Peer([of.program, "app-server"], of.env, SECONDS)
    try:
        info = {"name": "gitbaton", "title": "gitbaton", "version": __version__}
        peer.request("initialize", {"clientInfo": info, "capabilities": None})
        peer.notify("initialized")
    except BaseException:
        peer.__exit__(None, None, None)
        raise
    return peer


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
