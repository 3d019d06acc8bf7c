"""``git baton agent``."""

import os
from typing import Annotated, Optional

import typer

from gitbaton import terminal
from gitbaton.agents.clients import CLIENTS, Client
from gitbaton.codec import Json, check_track, path_document, plain
from gitbaton.commands.common import one_of, opened, print_json, print_plan
from gitbaton.errors import BatonError, NoAnswerError, NotARepositoryError, UsageError
from gitbaton.install import agents, trust
from gitbaton.install.agents import Place

TAKEN = {  # which options an action takes
    "install": {"user", "project", "all", "track", "agents-md", "trust", "dry-run"},
    "uninstall": {"user", "project", "all", "dry-run"},
    "list": {"json"},
    "doctor": {"json"},
}


def command(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="(install | uninstall) AGENT... | list | doctor", help="What to do, for which agents."),
    ],
    user: Annotated[bool, typer.Option("--user", help="In your home folder: for every repository.")] = False,
    project: Annotated[bool, typer.Option("--project", help="In this work tree; the default.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Every client found here; every one that is installed.")] = False,
    track: Annotated[Optional[str], typer.Option(metavar="NAME", help="The track that the hooks write.")] = None,
    agents_md: Annotated[bool, typer.Option("--agents-md", help="Also a marked block in AGENTS.md.")] = False,
    give: Annotated[bool, typer.Option("--trust", help="Let Codex trust these hooks, through its app server.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the plan; change nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON (list, doctor).")] = False,
) -> int:
    """Join coding agents on: claude, codex, gemini, opencode, copilot, cursor.

    Their hooks take checkpoints and tell the model where things stand.
    """
    given = {"user": user, "project": project, "all": every, "track": track is not None, "agents-md": agents_md}
    _check(words, {**given, "trust": give, "dry-run": dry_run, "json": json})
    one_of(user=user, project=project)
    if words[0] in ("list", "doctor"):
        places = _places(ctx)
        return _list(places, json=json) if words[0] == "list" else _doctor(places, json=json)
    if agents_md and user:
        raise UsageError("--agents-md is for a project, not for --user")
    where = _places(ctx, user=user, project=not user)[0]
    clients = _clients(words[1:], where, every=every, install=words[0] == "install")
    if words[0] == "uninstall":
        return _carry_out(agents.plan_uninstall(where, clients), dry_run, "nothing of ours is installed")
    track = check_track(track) if track is not None else None
    plan = agents.plan_install(where, clients, track=track, agents_md=agents_md)
    codex = _codex(where, clients) if give else None
    _carry_out(plan, dry_run, "everything is in place")
    for text in () if dry_run else agents.doubled(agents.rows(_both(ctx, where))):
        terminal.warn(text)
    if codex is not None:
        _trust(codex, where, track, dry_run)
    return 0


def _check(words: list[str], given: dict[str, bool]) -> None:
    """Refuse an action that is none, and options and words that it does not take."""
    taken = TAKEN.get(words[0])
    if taken is None:
        names = ", ".join(f"'{name}'" for name in TAKEN)
        raise UsageError(f"'{plain(words[0])}' is not understood; it can be one of {names}")
    wrong = [name for name, on in given.items() if on and name not in taken]
    if wrong:
        raise UsageError(f"--{wrong[0]} is not for '{words[0]}'")
    if "all" not in taken and len(words) > 1:
        raise UsageError(f"unexpected argument '{plain(words[1])}'")
    if "all" in taken and given["all"] == (len(words) > 1):
        raise UsageError(f"'{words[0]}' takes the names of agents, or --all")


def _places(ctx: typer.Context, *, user: bool = True, project: bool = True) -> list[Place]:
    """The levels asked for; without a work tree the user's alone, unless only the project's is asked for."""
    own = [agents.place("user", os.environ, None, None, None)] if user else []
    if not project:
        return own
    try:
        with opened(ctx) as baton:
            layout, shared = baton.repo.layout, baton.repo.shared_dir
            if user and layout.root is None:
                return own
            return [agents.place("project", os.environ, layout.root, layout.git_dir, shared), *own]
    except NotARepositoryError:
        if not user:
            raise
        return own


def _both(ctx: typer.Context, where: Place) -> list[Place]:
    """Both levels, as far as there are two."""
    return [where, *(place for place in _places(ctx) if place.level != where.level)]


def _clients(names: list[str], where: Place, *, every: bool, install: bool) -> list[Client]:
    known = {client.name: client for client in CLIENTS}
    wrong = [name for name in names if name not in known]
    if wrong:
        raise UsageError(f"'{plain(wrong[0])}' is not an agent; it can be one of {', '.join(known)}")
    if not every:
        return [known[name] for name in dict.fromkeys(names)]
    found = agents.on_machine(where.env) if install else agents.installed(where)
    if not found and install:
        raise NoAnswerError("no client of a coding agent is found on this machine", "name the agents to install")
    return found


def _carry_out(plan: agents.Plan, dry_run: bool, nothing: str) -> int:
    if not dry_run:
        agents.apply(plan)
    print_plan([step.text for step in plan.steps], dry_run=dry_run, nothing=nothing)
    for notice in plan.notices:
        terminal.warn(notice)
    for remark in plan.remarks:
        terminal.tell(f"hint: {plain(remark)}")
    return 0


def _codex(where: Place, clients: list[Client]) -> str:
    """Codex's program. Raises before anything is written where trust cannot be given."""
    client = next((client for client in clients if client.name == "codex"), None)
    if client is None:
        raise UsageError("--trust is for codex")
    found = agents.program(client, where.env)
    if found is None:
        raise BatonError("--trust needs codex, and it is not on PATH", "install without --trust, and use /hooks in codex")
    return found


def _trust(codex: str, where: Place, track: str | None, dry_run: bool) -> None:
    client = next(client for client in CLIENTS if client.name == "codex")
    wanted = trust.wanted(client, track)
    if dry_run:
        terminal.say(f"would let codex trust our {len(wanted)} hooks, through its app server")
        return
    count = trust.give(codex, where.env, where.root or os.getcwd(), agents.path_of(where, client), wanted)
    terminal.say(f"codex trusts our {len(wanted)} hooks, {count} of them anew" if count else "codex trusts our hooks already")


def _list(places: list[Place], *, json: bool) -> int:
    env = places[0].env
    rows = agents.rows(places)
    on_path = {client.name: agents.program(client, env) is not None for client in CLIENTS}
    if json:
        items: list[Json] = [_document(r, on_path=on_path[r.client.name]) for r in rows]
        print_json({"agents": items})
        return 0
    for r in rows:
        client = "on PATH" if on_path[r.client.name] else "not on PATH"
        terminal.say(plain(f"{r.client.name:<9} {r.level:<8} {r.state:<14} {r.file} ({client}){_tracks(r)}"))
    return 0


def _document(row: agents.Row, *, on_path: bool) -> Json:
    said: dict[str, Json] = {"agent": row.client.name, "level": row.level, "file": path_document(row.path)}
    return {**said, "state": row.state, "tracks": list(row.tracks), "client_on_path": on_path, "reason": row.reason}


def _tracks(row: agents.Row) -> str:
    names = [f"'{name}'" for name in row.tracks if name is not None]
    return f", track {', '.join(names)}" if names else f": {row.reason}" if row.reason else ""


def _doctor(places: list[Place], *, json: bool) -> int:
    from gitbaton.install.agentdoctor import examine

    found = examine(places, os.getcwd())
    amiss = any(not f.ok for f in found)
    if json:
        rows: list[Json] = [{"name": f.name, "ok": f.ok, "text": f.text, "mend": f.mend} for f in found]
        print_json({"ok": not amiss, "findings": rows})
        return 1 if amiss else 0
    for f in found:
        terminal.say(f"{'ok  ' if f.ok else 'MEND'} {f.name}: {plain(f.text)}")
        if f.mend and not f.ok:
            terminal.say(f"     {plain(f.mend)}")
    return 1 if amiss else 0
