"""``git baton push``."""

from collections.abc import Sequence
from typing import Annotated, Optional

import typer

from gitbaton import sync
from gitbaton.commands.common import AsJson, opened, print_json
from gitbaton.commands.exchanging import (
    TIMEOUT,
    Agreement,
    Tracks,
    choice_of,
    connected,
    pushing_document,
    remote_of,
    say_apart,
    say_pushing,
)
from gitbaton.errors import UsageError
from gitbaton.render import in_shell
from gitbaton.sync.push import Manner
from gitbaton.sync.values import Pushing


def command(
    ctx: typer.Context,
    words: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL or a path; default: as git chooses."),
    ] = None,
    track: Tracks = None,
    transcripts: Annotated[
        bool, typer.Option("--with-transcripts", help="Also push the conversations that the checkpoints name.")
    ] = False,
    threads: Annotated[bool, typer.Option("--threads", help="Also push threads: all, or those that are named.")] = False,
    runs: Annotated[bool, typer.Option("--runs", help="Also push the journals of runs.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete threads there that were deleted here.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a first push.")] = False,
    scan: Annotated[bool, typer.Option("--scan/--no-scan", help="Look for secrets in what the remote lacks.")] = True,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long the whole exchange may take.")] = TIMEOUT,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the plan; change nothing here or there.")] = False,
    json: AsJson = False,
) -> int:
    """Push tracks to a remote, by default all: what it lacks, with pins, tombstones and notes.

    With --threads a name that is no track here or there is a thread's: then only the threads and tracks that are named go.
    The first push of a track, run or thread shows what becomes public and asks; without a terminal it needs --yes or
    baton.push. Where the remote has checkpoints that are not here, it is refused: 'git baton sync'.
    """
    if prune and not threads:
        raise UsageError("--prune deletes threads, and needs --threads")
    words, named = words or [], [*(words or [])[1:], *(track or [])]
    with opened(ctx, dry_run=dry_run) as baton:
        remote = remote_of(baton, words, pushing=True, verb="push", threads=threads)
        choice = choice_of(named, transcripts=transcripts, threads=threads, runs=runs, prune=prune)
        agree = Agreement(remote, yes=yes)
        with connected(baton, remote, timeout, dry_run=dry_run) as line:
            choice = sync.named(baton, line, choice, named, places=remote.push, write=not dry_run)
            done = sync.push(baton, line, choice, Manner(agree=agree, scan=scan, write=not dry_run))
            if json:
                print_json({"remote": remote.shown, "dry_run": dry_run, "places": [pushing_document(part) for part in done]})
                return _code(done)
            for part in done:
                say_pushing(baton, remote, part, dry_run=dry_run, hint=f"git baton sync {in_shell(remote.shown)}")
            say_apart({ref: why for part in done for ref, why in part.apart.items()}, done)
    return _code(done)


def _code(done: Sequence[Pushing]) -> int:
    """1 where something did not reach the remote that should have."""
    return 1 if any(part.refused for part in done) else 0
