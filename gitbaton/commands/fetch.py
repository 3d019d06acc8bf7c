"""``git baton fetch``."""

from typing import Annotated, Optional

from gitbaton import sync, terminal
from gitbaton.cli.common import AsJson, Verbose, looking, opened, print_json, tell_error, warn_all
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.codec import in_quotes
from gitbaton.commands.exchanging import TIMEOUT, Timeout, Tracks, exchange, gathered_document, say_apart, say_gathered
from gitbaton.errors import RecordError
from gitbaton.sync.items import said


def command(
    ctx: Call,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL, a path or a bundle's file."),
    ] = None,
    track: Tracks = None,
    prune: Annotated[bool, Option("--prune", help="Drop what was fetched of what is gone there.")] = False,
    transcripts: Annotated[bool, Option("--with-transcripts", help="Also fetch conversations.")] = False,
    threads: Annotated[bool, Option("--threads", help="Also fetch threads: all, or those that are named.")] = False,
    runs: Annotated[bool, Option("--runs", help="Also fetch the journals of runs.")] = False,
    timeout: Timeout = TIMEOUT,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Fetch tracks from a remote, by default all, and change none of the tracks here.

    They land below refs/baton/remotes/. 'git baton sync' joins them, and so does the first snapshot of a track that is only
    there. With --threads a name that is no track there is a thread's: then only the threads and tracks that are named come.

    What is only fetched is shown as foreign. --prune drops what was fetched of tracks (with --runs of runs, with --threads of
    threads, too) that are gone there. A file made by 'git bundle' will do for REMOTE.

    Examples:
        git baton fetch origin
    """
    kinds = {"transcripts": transcripts, "threads": threads, "runs": runs}
    with opened(ctx, talks="" if json else "looking at tracks") as baton:
        with exchange(baton, "fetch", words, track, timeout, **kinds) as (remote, line, choice):
            seen, found = sync.fetch(baton, line, choice, prune=prune)
        problem = ""  # why nothing of what the remote has can be joined
        try:
            said(baton.store, seen)
        except RecordError as error:
            problem = error.message
        whole = not problem and not found.broken
        if json:
            print_json({"remote": remote.shown, **gathered_document(found), "problem": problem})
        else:
            say_gathered(looking(ctx, baton), remote, found, verbose=verbose)
            if not (found.rows or found.strange):
                terminal.say(f"{in_quotes(remote.shown)} has no tracks")
            if problem:
                tell_error(problem, ())
            say_apart(found.apart)
        warn_all(baton.refresh())
    return 0 if whole else 1
