"""``git baton agent``."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Optional

from gitbaton.agents.install import agentdoctor, agents, levels, plugins
from gitbaton.agents.install.levels import Place
from gitbaton.agents.install.plan import InstallPlan, apply, refuse_others, share
from gitbaton.base import terminal
from gitbaton.base.codec import Json, check_new_track, in_quotes, path_document, plain
from gitbaton.base.errors import BatonError, NotARepositoryError, UsageError
from gitbaton.base.model import DoctorFinding
from gitbaton.checkpoints.render import first_few, some
from gitbaton.checkpoints.store.state import silence
from gitbaton.cli.columns import fitted
from gitbaton.cli.common import DryRun, one_of, opened, picked, print_json, print_plan, say_findings, warn_all
from gitbaton.cli.options import Argument, Invocation, Option
from gitbaton.git import questions
from gitbaton.git.repo import Repo

_LINE_FOR_ALL = "git baton agent install claude --user --statusline"
TAKEN = {  # which options an action takes
    "install": {"user", "project", "plugin", "all", "track", "agents-md", "no-agents-md", "trust", "statusline", "dry-run"},
    "uninstall": {"user", "project", "plugin", "all", "dry-run"},
    "list": {"json"},
    "doctor": {"json"},
}


def command(
    ctx: Invocation,
    words: Annotated[
        list[str],
        Argument(metavar="(install | uninstall) AGENT... | list | doctor", help="What to do, for which agents."),
    ],
    user: Annotated[bool, Option("--user", help="In your home folder: for every repository.")] = False,
    project: Annotated[bool, Option("--project", help="In this work tree; the default.")] = False,
    plugin: Annotated[bool, Option("--plugin", help="As a plugin in your home folder: for every repository.")] = False,
    every: Annotated[bool, Option("--all", help="Every client found here; every one that is installed.")] = False,
    track: Annotated[Optional[str], Option(metavar="NAME", help="The hooks' track, '' for none; not given: as it is.")] = None,
    agents_md: Annotated[
        Optional[bool], Option("--agents-md/--no-agents-md", help="A marked block in AGENTS.md; default: where that is.")
    ] = None,
    give: Annotated[bool, Option("--trust", help="Let Codex trust these hooks, through its app server.")] = False,
    line: Annotated[
        bool, Option("--statusline", help="Also 'git baton statusline' as status line, where none is set.")
    ] = False,
    dry_run: DryRun = False,
    json: Annotated[bool, Option("--json", help="Print JSON (list, doctor).")] = False,
) -> int:
    """Join coding agents on: claude, codex, gemini, opencode, copilot, cursor, kilo, qwen, droid.

    Their hooks take checkpoints and tell the model where things stand.

    An install merges our hooks into the client's own settings and writes the skill that tells the agent when to take a
    checkpoint; AGENTS.md gets a block that says the same, where that file is (--agents-md makes it, --no-agents-md leaves it).
    What else is in those files stays byte for byte, twice is once, and uninstall removes exactly ours. --project (the default)
    writes below the root of the work tree, --user below the home directory; hooks there act only where gitbaton is used already
    (see baton.everywhere). --plugin writes a plugin into the client's folder instead, with hooks, skill and a command, and lets
    the client take it; it acts in every repository in which the client works. An install without --track keeps the one that is
    there, and --track '' takes it away. --trust tells Codex to trust our hooks, and no others, through its own app server.
    --statusline lets Claude Code, and with --user Copilot, show 'git baton statusline'; one that is set already stays, and is
    named. 'agent doctor' says what would not run, and exits with 1 then.

    Examples:
        git baton agent list
        git baton agent install claude --dry-run
        git baton agent uninstall claude --dry-run
    """
    given = {
        "user": user,
        "project": project,
        "plugin": plugin,
        "all": every,
        "track": track is not None,
        "agents-md": agents_md is True,
        "statusline": line,
    }
    _check(words, {**given, "no-agents-md": agents_md is False, "trust": give, "dry-run": dry_run, "json": json})
    one_of(user=user, project=project, plugin=plugin)
    if words[0] == "list":
        return _list(_places(ctx), json=json)
    if words[0] == "doctor":
        return say_findings([*agentdoctor.examine(_places(ctx), os.getcwd()), *_paused(ctx)], json=json)
    if agents_md and (user or plugin):
        raise UsageError("--agents-md is for a project, not for --" + ("user" if user else "plugin"))
    if plugin and line:
        raise UsageError("--statusline is not for --plugin: no client takes a status line from a plugin", _LINE_FOR_ALL)
    if plugin and track is not None:
        raise UsageError("--track is not for --plugin: its hooks are the same in every repository")
    install, every = words[0] == "install", every or len(words) == 1
    where = _places(ctx, user=user or plugin, project=not (user or plugin))[0]
    clients = agents.named(words[1:], where, every=every, install=install, plugin=plugin)
    if line and not any(client.line[1] for client in clients):
        having = [client.name for client in levels.CLIENTS if client.line[1]]
        raise UsageError(f"--statusline is for {' and '.join(having)}: no other client has one", _LINE_FOR_ALL)
    if plugin:
        plan = agents.plan_plugins(where, clients, install=install, trusted=give)
    elif install:
        track = check_new_track(track, kept=_is_there(ctx, track)) if track else track
        plan = agents.plan_install(where, clients, track=track, agents_md=agents_md, trusted=give, line=line)
    else:
        plan = agents.plan_uninstall(where, clients, every=every)
    question = agentdoctor.trust_question(where, clients, track, os.getcwd(), plugin=plugin) if give else None
    nothing = "nothing of ours is installed" if not plan.remarks else "there is nothing that an uninstall takes away"
    _carry_out(ctx, where, plan, dry_run, "everything is in place" if install else nothing)
    if install and not dry_run:
        warn_all(levels.doubled(plugins.rows(_places(ctx))))
    if question is not None:
        offered = f"would let codex trust our {len(question.wanted)} hooks, through its app server"
        terminal.say(offered if dry_run else agentdoctor.give_trust(question))
    return 0


def _check(words: list[str], given: dict[str, bool]) -> None:
    """Refuse an action that is none, and options and words that it does not take."""
    taken = TAKEN.get(words[0])
    if taken is None:
        names = ", ".join(f"'{name}'" for name in TAKEN)
        raise UsageError(f"{in_quotes(words[0])} is not understood; it can be one of {names}")
    wrong = [name for name, on in given.items() if on and name not in taken]
    if wrong:
        raise UsageError(f"--{wrong[0]} is not for '{words[0]}'")
    if "all" not in taken and len(words) > 1:
        raise UsageError(f"unexpected argument {in_quotes(words[1])}")
    if "all" in taken and given["all"] == (len(words) > 1) and not (given["plugin"] and len(words) == 1):
        act = words[0]
        hints = () if len(words) > 1 else (f"git baton agent {act} claude", "which there are: git baton agent list")
        raise UsageError(f"'{words[0]}' takes the names of agents, or --all", *hints)


def _paused(ctx: Invocation) -> list[DoctorFinding]:
    """The remark that the hooks of the repository here are paused."""
    try:
        with opened(ctx) as baton:
            return silence(baton.repo, baton.clock())
    except BatonError:
        return []


def _places(ctx: Invocation, *, user: bool = True, project: bool = True) -> list[Place]:
    """The levels asked for, the project's first; of both, those that there are."""
    try:
        with opened(ctx) as baton:
            layout, shared = baton.repo.layout, baton.repo.shared_dir
            refuse_others(baton.repo, shared)
            return levels.places(os.environ, layout.root, layout.git_dir, shared, user=user, project=project)
    except NotARepositoryError:
        if not user:
            raise
    except BatonError:
        if project:
            raise
    return levels.places(os.environ, None, None, None, user=True, project=False)


def _carry_out(ctx: Invocation, where: Place, plan: InstallPlan, dry_run: bool, nothing: str) -> None:
    if dry_run or not plan.steps:
        print_plan([step.text for step in plan.steps], dry_run=dry_run, nothing=nothing)
    else:
        apply(plan, lambda text: terminal.say(plain(text)))
    warn_all(plan.notices)
    tracked = list[str]()
    if where.level == "project":
        with opened(ctx) as baton:
            tracked += _tracked(baton.repo, plan)
            if not dry_run:
                share(baton.repo)
    terminal.tell_hints([*tracked, *plan.remarks])


def _is_there(ctx: Invocation, track: str) -> bool:
    """Whether a track of this name is in this repository."""
    with suppress(BatonError), opened(ctx) as baton:
        return baton.store.has(track)
    return False


def _tracked(repo: Repo, plan: InstallPlan) -> Iterator[str]:
    """Say which of the files that a plan changes git tracks."""
    root = os.path.realpath(repo.layout.root or "")
    if found := questions.tracked(repo, tuple(os.path.relpath(path, root) for path in plan.changed)):
        names, verb = some(len(found), first_few(found)), "is" if len(found) == 1 else "are"
        yield f"{names} {verb} tracked by git: it is a change in your work tree until you commit it"


def _list(places: list[Place], *, json: bool) -> int:
    rows = plugins.rows(places)
    here = {row.client.name: levels.program(row.client, places[0].env) is not None for row in rows}
    if json:
        print_json({"agents": [_document(row, here=here[row.client.name]) for row in rows]})
    else:
        for row in rows:
            client = "on PATH" if here[row.client.name] else "not on PATH"
            names = [f"'{name}'" for name in row.tracks if name is not None]
            more = f", track {', '.join(names)}" if names else f": {row.reason}" if row.reason else ""
            more = f", {row.names[0]}{more}" if row.level == "plugin" else more + ", status line" * bool(row.line)
            terminal.say(fitted(plain(f"{row.client.name:<9} {row.level:<8} {row.state:<14} {row.file} ({client}){more}")))
    return 0


def _document(row: levels.Row, *, here: bool) -> Json:
    """Return the JSON of a client at a level; ``here``: whether its program is on PATH."""
    return {
        "agent": row.client.name,
        "level": row.level,
        **({"plugin": row.names[0]} if row.level == "plugin" else {}),
        "file": path_document(row.path),
        **picked(row, "state", "tracks"),
        "client_on_path": here,
        "reason": row.reason,
        "statusline": bool(row.line),
    }
