"""``git baton push``."""

from functools import partial
from typing import Annotated, Optional

from gitbaton import sync
from gitbaton.cli.common import AsJson, Verbose, looking, opened, print_json
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.commands.exchanging import (
    TIMEOUT,
    DryRun,
    Scan,
    Timeout,
    Tracks,
    Yes,
    ask_consent,
    exchange,
    pushing_document,
    say_apart,
    say_pushing,
)
from gitbaton.errors import UsageError
from gitbaton.render import in_shell
from gitbaton.sync.push import Manner


def command(
    ctx: Call,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL or a path; default: as git chooses."),
    ] = None,
    track: Tracks = None,
    transcripts: Annotated[
        bool, Option("--with-transcripts", help="Also push the conversations that the checkpoints name.")
    ] = False,
    threads: Annotated[bool, Option("--threads", help="Also push threads: all, or those that are named.")] = False,
    runs: Annotated[bool, Option("--runs", help="Also push the journals of runs.")] = False,
    prune: Annotated[bool, Option("--prune", help="Delete threads there that were deleted here.")] = False,
    yes: Yes = False,
    scan: Scan = True,
    timeout: Timeout = TIMEOUT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Push tracks to a remote, by default all: what it lacks, with pins, tombstones and notes.

    With --threads a name that is no track here or there is a thread's: then only the threads and tracks that are named go.
    The first push of a track, run or thread shows what becomes public and asks; without a terminal it needs --yes or
    baton.push. Where the remote has checkpoints that are not here, it is refused: 'git baton sync'.

    REMOTE is a configured name, a URL or a path; without it the one that git would push to. The question names what becomes
    public beyond the branches of the remote: commits, untracked files, bytes. A clone's own first push asks, too, where it
    would make such private things public.

    Every message, file and file name that the remote lacks is looked through for secrets first (in files only for formats that
    nothing else has, in compressed ones for none), and one stops the push, unless --no-scan is given. Safety checkpoints are
    never sent. --timeout bounds the whole exchange (60 seconds). Exits with 1 when the remote refuses or cannot be reached.

    Examples:
        git baton push origin --dry-run
        git baton push origin parser --yes
    """
    if prune and not threads:
        raise UsageError("--prune deletes threads, and needs --threads")
    kinds = {"transcripts": transcripts, "threads": threads, "runs": runs, "prune": prune}
    with (
        opened(ctx, dry_run=dry_run, talks="" if json else "looking at tracks") as baton,
        exchange(baton, "push", words, track, timeout, dry_run=dry_run, **kinds) as (remote, line, choice),
    ):
        agree = partial(ask_consent, remote, yes=yes)
        done = sync.push(baton, line, choice, Manner(agree=agree, scan=scan, write=not dry_run))
        if json:
            print_json({"remote": remote.shown, "dry_run": dry_run, "places": [pushing_document(part) for part in done]})
        else:
            look, hint = looking(ctx, baton), f"git baton sync {in_shell(remote.shown)}"
            for part in done:
                say_pushing(look, baton, remote, part, verbose=verbose, dry_run=dry_run, hint=hint)
            say_apart({ref: why for part in done for ref, why in part.apart.items()}, done)
    return 1 if any(part.refused for part in done) else 0  # something did not reach the remote that should have
