"""Where coding agents' files are: the levels, and which of their files hold which part of ours."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from gitbaton.agents.clients import Client, Level, folder
from gitbaton.agents.settings import MalformedError
from gitbaton.errors import BatonError
from gitbaton.install.agentfiles import File, look
from gitbaton.install.agentmerge import Found
from gitbaton.install.agentparts import PLUGIN_MARK, SKILL_MARK, Block, Hooks, Part, Whole
from gitbaton.values import value

SHARED_SKILLS = ".agents/skills"
SKILL = "gitbaton/SKILL.md"
ONLY_USED = "act only in a repository where gitbaton is used already: it has a checkpoint, or settings of its own call us"
EVERYWHERE = "'git config --global baton.everywhere true'"


@value
class Place:
    """Where to install: a level, the work tree's root at project level, the user's environment, the file of records.

    ``others``: files of records of other levels, which may know the same files.
    """

    level: Level
    root: str | None
    git_dir: str | None
    env: Mapping[str, str]
    records: str
    others: tuple[str, ...] = ()


@value
class Target:
    """A file and what of ours goes into it; ``about`` says it to the user."""

    file: File
    part: Part
    about: str


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
        others = (project,) if project is not None else ()
        return Place(level=level, root=None, git_dir=None, env=env, records=own, others=others)
    if root is None or project is None:
        raise BatonError("this repository has no work tree, so there is no project level", "install with --user")
    return Place(level=level, root=root, git_dir=git_dir, env=env, records=project, others=(own,))


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


def _look(where: Place, path: str) -> File:
    return look(path, shown(where, path), inside=where.root, git_dir=where.git_dir)


def hooks_target(where: Place, client: Client, track: str | None) -> Target:
    """The file with a client's hooks. Raises BatonError for one that is not read."""
    part: Part = Hooks(client, track)
    about = f"the hooks of {client.title}"
    if client.shape == "plugin":
        part, about = Whole("gitbaton.js", PLUGIN_MARK, track), f"the plugin of {client.title}"
    return Target(file=_look(where, path_of(where, client)), part=part, about=about)


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
    return Target(file=_look(where, path), part=Whole("SKILL.md", SKILL_MARK), about="the skill")


def block_target(where: Place) -> Target:
    """AGENTS.md, at project level. Raises BatonError for one that is not read."""
    file = _look(where, os.path.join(where.root or "", "AGENTS.md"))
    return Target(file=file, part=Block(), about="the block for agents")


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
