"""Codex's trust in hooks: asked and given through its app server, for our own hooks only."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gitbaton import __version__
from gitbaton.agents.clients import Client, command
from gitbaton.errors import BatonError
from gitbaton.git.appserver import Peer
from gitbaton.values import value

SECONDS = 20.0
TRUSTED = ("trusted", "managed")


@value
class Trust:
    """One of our hooks as Codex lists it."""

    key: str
    hash: str
    status: str


def asked(program: str, env: Mapping[str, str], cwd: str, path: str, wanted: Collection[str]) -> list[Trust]:
    """Our hooks in the file ``path`` as Codex, started in ``cwd``, sees them. Raises BatonError when it does not say."""
    with _server(program, env) as peer:
        return _ours(peer, cwd, path, wanted)


def give(program: str, env: Mapping[str, str], cwd: str, path: str, wanted: Collection[str]) -> int:
    """Let Codex trust our hooks in the file ``path``; how many it trusts anew. Raises BatonError when it does not.

    ``wanted`` are whole command lines: a line that only resembles ours is not trusted.
    """
    with _server(program, env) as peer:
        known = _ours(peer, cwd, path, wanted)
        if len(known) < len(wanted):
            raise BatonError(
                f"codex lists {len(known)} of our {len(wanted)} hooks in '{path}', so nothing was trusted",
                "it reads a project's hooks only when the project is trusted: start codex here once and accept",
            )
        open_ones = {item.key: {"trusted_hash": item.hash} for item in known if item.status not in TRUSTED}
        if open_ones:
            edit = {"keyPath": "hooks.state", "value": open_ones, "mergeStrategy": "upsert"}
            peer.request("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})
            left = [item for item in _ours(peer, cwd, path, wanted) if item.status not in TRUSTED]
            if left:
                raise BatonError(f"codex was told to trust our hooks and still does not trust {len(left)} of them")
        return len(open_ones)


def wanted(client: Client, track: str | None) -> frozenset[str]:
    """Our command lines for a client, as install writes them."""
    return frozenset(command(client.name, hook.event, track) for hook in client.hooks)


def _server(program: str, env: Mapping[str, str]) -> Peer:
    peer = Peer([program, "app-server"], env, SECONDS)
    try:
        info = {"name": "gitbaton", "title": "gitbaton", "version": __version__}
        peer.request("initialize", {"clientInfo": info, "capabilities": None})
        peer.notify("initialized")
    except BaseException:
        peer.__exit__(None, None, None)
        raise
    return peer


def _ours(peer: Peer, cwd: str, path: str, wanted: Collection[str]) -> list[Trust]:
    real = os.path.realpath(path)
    return [
        Trust(key=hook["key"], hash=hook["currentHash"], status=str(hook.get("trustStatus")))
        for hook in _hooks(peer.request("hooks/list", {"cwds": [cwd]}))
        if hook.get("command") in wanted and os.path.realpath(str(hook.get("sourcePath"))) == real
    ]


def _hooks(answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The hooks of an answer that are of the known form."""
    entries = answer.get("data")
    for entry in entries if isinstance(entries, list) else []:
        hooks = entry.get("hooks") if isinstance(entry, dict) else None
        for hook in hooks if isinstance(hooks, list) else []:
            if isinstance(hook, dict) and isinstance(hook.get("key"), str) and isinstance(hook.get("currentHash"), str):
                yield hook
