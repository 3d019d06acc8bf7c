"""Install and uninstall for coding agents: all their files planned first, applied after, taken back exactly."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from gitbaton.agents.clients import CLIENTS, LEVELS, Client, folder
from gitbaton.errors import BatonError, NoAnswerError, UsageError
from gitbaton.install.agentdraft import Draft, Plan
from gitbaton.install.agentfiles import bytes_of, drop_folders
from gitbaton.install.agentplaces import (
    EVERYWHERE,
    ONLY_USED,
    Place,
    block_target,
    hooks_target,
    path_of,
    place,
    shown,
    skill_paths,
    skill_target,
)
from gitbaton.install.agentrecords import check_all
from gitbaton.install.agentrows import Row, doubled, installed, on_machine, program, row, rows

__all__ = ["Place", "Plan", "Row", "apply", "chosen", "doubled", "named", "place", "places", "plan_install", "plan_uninstall"]
__all__ += ["program", "rows"]


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


def named(names: Sequence[str], where: Place, *, every: bool, install: bool) -> list[Client]:
    """The clients of these names; with ``every`` those found on this machine (``install``), or installed at a level.

    Raises UsageError for a name of none, NoAnswerError when no client is found to install.
    """
    known = {client.name: client for client in CLIENTS}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise UsageError(f"'{wrong[0]}' is not an agent; it can be one of {', '.join(known)}")
    if not every:
        return [known[name] for name in dict.fromkeys(names)]
    found = on_machine(where.env) if install else installed(where)
    if not found and install:
        raise NoAnswerError("no client of a coding agent is found on this machine", "name the agents to install")
    return found


def chosen(where: Place, client: Client, track: str | None) -> str | None:
    """The track of a client's hooks: the one given, none for an empty one, and without (None) the one that they have.

    Raises UsageError when they have several.
    """
    if track is not None:
        return track or None
    there = row(where, client)
    if len(there.tracks) > 1:
        raise UsageError(f"'{there.file}' has hooks for more than one track", "say which with --track; '' is for none")
    return there.tracks[0] if there.tracks else None


def plan_install(
    where: Place,
    clients: Sequence[Client],
    *,
    track: str | None = None,
    agents_md: bool = False,
    trusted: bool = False,
) -> Plan:
    """What install changes at a level; nothing when everything is in place. Raises BatonError for a file it must refuse.

    ``track`` as ``chosen`` takes it; ``trusted``: Codex will be told to trust the hooks.
    """
    draft = Draft(where)
    for client in clients:
        draft.put(hooks_target(where, client, chosen(where, client, track)))
    for path in skill_paths(where, clients, shared=True):
        draft.put(skill_target(where, path))
    if agents_md:
        draft.put(block_target(where))
    return draft.plan(_remarks(where, clients, agents_md=agents_md, trusted=trusted))


def plan_uninstall(where: Place, clients: Sequence[Client], *, every: bool = False) -> Plan:
    """What uninstall takes back at a level; what other agents still need stays. Raises BatonError as install does.

    ``every``: also skills and a block that were left by clients that are not installed any more.
    """
    draft = Draft(where)
    for client in clients:
        draft.take(hooks_target(where, client, None))
    rest = [row(where, client) for client in CLIENTS if client not in clients]
    others = [found.client for found in rest if found.state != "not installed"]
    for found in rest if every else ():
        draft.foreign(found.file, found.foreign)
    for path in skill_paths(where, others, shared=bool(others)):
        draft.spare(path)
    gone = [client for client in CLIENTS if client not in others] if every else clients
    for path in skill_paths(where, gone, shared=not others):
        try:
            target = skill_target(where, path)
        except BatonError:  # nothing that install would have written to
            continue
        draft.take(target)
    if not others and where.root is not None:
        draft.take(block_target(where))
    return draft.plan(_left(where, clients))


def _left(where: Place, clients: Sequence[Client]) -> Iterator[str]:
    """What uninstall leaves behind in a client's own state."""
    for client in clients:
        config = os.path.join(os.path.abspath(folder(client, where.env)), "config.toml")
        real = os.fsencode(f"{os.path.realpath(path_of(where, client))}:")
        if client.name == "codex" and real in (bytes_of(config) or b""):
            yield f"'{shown(where, config)}' still names these hooks below [hooks.state]; without them it lets nothing run"


def apply(plan: Plan, done: Callable[[str], None] = lambda text: None) -> None:
    """Carry out a plan, unless a file has changed meanwhile: then nothing is written. ``done`` is told each step after it.

    Raises BatonError; the steps told by then stay, and the next run goes on from there.
    """
    if not plan.steps:
        return
    about, count = "the records of what is installed cannot be written", 0
    try:
        with plan.records.locked():
            check_all(plan.changes)
            for step in plan.steps:
                about = step.text
                step.run()
                done(step.text)
                count += 1
    except OSError as error:
        stays = [f"{count} of {len(plan.steps)} steps are done and stay; run it again for the rest"] if count else []
        raise BatonError(f"{about}: {error.strerror or error}", *stays) from None
    drop_folders(plan.folders)


def _remarks(where: Place, clients: Sequence[Client], *, agents_md: bool, trusted: bool) -> list[str]:
    """What a user should know after an install."""
    said: list[str] = []
    for client in clients:
        said += [f"{client.title}: {client.trust}"] if where.root is not None and client.trust else []
        said += [f"{client.title}: {client.untrusted}"] if client.untrusted and not trusted else []
        said += [f"{client.title}: {text}" for text in client.remarks]
        if where.root is not None and not client.upward:
            said.append(f"{client.title}: started in a subdirectory it does not see '{client.project}'; --user covers that")
    if where.root is not None:
        said.append("clones and linked work trees have these files only when they are committed")
    else:
        said.append(f"hooks at user level {ONLY_USED}; {EVERYWHERE} lets them act in every repository")
    if agents_md and where.root is not None:
        if _reads_no_agents_md(where.root):
            said.append("Claude Code reads CLAUDE.md and not AGENTS.md where both are; add the line '@AGENTS.md' to it")
        names = '{"context": {"fileName": ["AGENTS.md", "GEMINI.md"]}}'
        said.append(f"Gemini CLI reads AGENTS.md only by a setting: {names}")
    return [*said, "'git baton agent doctor' says whether they run"]


def _reads_no_agents_md(root: str) -> bool:
    """Whether there is a CLAUDE.md that does not lead to AGENTS.md."""
    path = os.path.join(root, "CLAUDE.md")
    same = os.path.realpath(path) == os.path.realpath(os.path.join(root, "AGENTS.md"))
    return os.path.isfile(path) and not same and b"@AGENTS.md" not in (bytes_of(path) or b"")
