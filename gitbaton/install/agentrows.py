"""How coding agents stand: which clients are on this machine, and what of ours is in their files. Only looks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Literal

from gitbaton.agents.clients import CLIENTS, LEVELS, OURS, Client, Level, folder
from gitbaton.agents.settings import MalformedError
from gitbaton.errors import BatonError
from gitbaton.install.agentparts import NONE
from gitbaton.install.agentplaces import Place, Target, found_in, hooks_target, path_of, shown, text_of
from gitbaton.values import value

State = Literal["installed", "outdated", "not installed", "unreadable"]


@value
class Row:
    """A client at a level: its file, what of ours is in it, and why it cannot be read if so.

    ``names``: what our entries are called, where the client's hooks have names; ``foreign``: lines of the user's that call us.
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


def row(where: Place, client: Client) -> Row:
    """How a client stands at a level. Only looks, and raises nothing."""
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
        if found.count:
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
    )


def _is_current(where: Place, client: Client, target: Target, tracks: tuple[str | None, ...]) -> bool:
    if len(tracks) != 1:
        return False
    text = text_of(target)
    try:
        return hooks_target(where, client, tracks[0]).part.put(text).text == text
    except (BatonError, MalformedError):
        return False


def rows(places: Iterable[Place]) -> list[Row]:
    """Every client at every level given, in the order of the clients."""
    known = sorted(places, key=lambda where: LEVELS.index(where.level))
    return [row(where, client) for client in CLIENTS for where in known]


def installed(where: Place) -> list[Client]:
    """The clients that have something of ours at a level."""
    return [client for client in CLIENTS if row(where, client).state != "not installed"]


def doubled(rows: Iterable[Row]) -> list[str]:
    """For each client that is installed at both levels and runs its hooks twice there, a line that says so."""
    both: dict[str, list[Row]] = {}
    for found in rows:
        if found.state in ("installed", "outdated"):
            both.setdefault(found.client.name, []).append(found)
    said = []
    for name, found_rows in both.items():
        client, tracks = found_rows[0].client, {found.tracks for found in found_rows}
        files = {os.path.realpath(found.path) for found in found_rows}  # one, where the home folder is a work tree
        if len(files) > 1 and (client.twice or len(tracks) > 1):
            keep = f"keep one: git baton agent uninstall {name} --user"
            said.append(f"{client.title} is installed at both levels and runs each hook twice; {keep}")
    return said


def program(client: Client, env: Mapping[str, str]) -> str | None:
    """Where a program of the client is on PATH."""
    found = (shutil.which(name, path=env.get("PATH")) for name in client.programs)
    return next((path for path in found if path), None)


def on_machine(env: Mapping[str, str]) -> list[Client]:
    """The clients of which a program is on PATH, or a folder in the user's home."""
    return [client for client in CLIENTS if program(client, env) or os.path.isdir(folder(client, env))]
