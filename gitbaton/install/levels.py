"""Levels, the project's and the user's: where each client's files are, and what of ours is in them. Only looks."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import Literal

from gitbaton.agents.clients import CLIENTS, LEVELS, OURS, Client, Level, folder
from gitbaton.agents.settings import MalformedError
from gitbaton.errors import BatonError
from gitbaton.install.agentparts import NONE, PLUGIN_MARK, SKILL_MARK, Block, Found, Hooks, Part, Whole
from gitbaton.install.plan import File, look
from gitbaton.values import value

SHARED_SKILLS = ".agents/skills"
SKILL = "gitbaton/SKILL.md"
ONLY_USED = "act only in a repository where gitbaton is used already: it has a checkpoint, or settings of its own call us"
EVERYWHERE = "'git config --global baton.everywhere true'"
State = Literal["installed", "outdated", "not installed", "unreadable"]


@value
class Place:
    """Where to install: a level, the work tree's root at project level, the user's environment.

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


def place(level: Level, env: Mapping[str, str], root: str | None, git_dir: str | None, shared: str | None) -> Place:
    """A level of the work tree ``root`` (``shared``: its repository's own folder of ours), or of the user.

    Raises BatonError without a work tree, and for the user's level without a home folder.
    """
    home = env["HOME"] if "HOME" in env else os.path.expanduser("~")
    if level == "user" and not os.path.isabs(home):
        raise BatonError(f"HOME is '{home}' and not the path of a home folder, so there is no user level")
    env = {**env, "HOME": home if os.path.isabs(home) else "/"}
    state = os.path.abspath(env.get("XDG_STATE_HOME") or os.path.join(env["HOME"], ".local", "state"))
    own, project = os.path.join(state, "gitbaton", "agents"), os.path.join(shared, "agents") if shared is not None else None
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


def hooks_target(where: Place, client: Client, track: str | None) -> Target:
    """The file with a client's hooks. Raises BatonError for one that is not read."""
    path = path_of(where, client)
    if client.shape == "plugin":
        return _target(where, path, Whole("gitbaton.js", PLUGIN_MARK, track), f"the plugin of {client.title}")
    return _target(where, path, Hooks(client, track), f"the hooks of {client.title}")


def skill_paths(where: Place, clients: Iterable[Client], *, shared: bool) -> list[str]:
    """The skill's files: the shared one, and those of clients that look elsewhere."""
    paths = [os.path.join(where.root or where.env["HOME"], SHARED_SKILLS, SKILL)] if shared else []
    for client in clients:
        if client.skills is not None:
            own = where.root or os.path.abspath(folder(client, where.env))
            paths.append(os.path.join(own, client.skills[0 if where.root is not None else 1], SKILL))
    return paths


def skill_target(where: Place, path: str) -> Target:
    """One of the skill's files. Raises BatonError for one that is not read."""
    return _target(where, path, Whole("SKILL.md", SKILL_MARK), "the skill")


def block_target(where: Place) -> Target:
    """AGENTS.md, at project level. Raises BatonError for one that is not read."""
    return _target(where, os.path.join(where.root or "", "AGENTS.md"), Block(), "the block for agents")


def text_of(target: Target) -> str:
    """The text of a target's file. Raises BatonError for bytes that are not text."""
    try:
        return (target.file.data or b"").decode("utf-8", target.part.errors)
    except UnicodeDecodeError:
        raise BatonError(f"'{target.file.shown}' is not UTF-8, and is left as it is") from None


def found_in(target: Target) -> Found:
    """What of ours a target's file holds. Raises BatonError for a file that cannot be understood."""
    try:
        return target.part.find(text_of(target))
    except (MalformedError, RecursionError) as error:
        raise refused(target, error) from None


def refused(target: Target, error: Exception) -> BatonError:
    """What the user is told of a file that cannot be understood."""
    why = str(error) if isinstance(error, MalformedError) else "it is nested too deep"
    return BatonError(f"'{target.file.shown}' is not what it should be, and is left as it is: {why}")


def row(where: Place, client: Client) -> Row:
    """How a client stands at a level. Raises nothing."""
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
