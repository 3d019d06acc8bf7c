"""``git baton sync``."""

from functools import partial
from typing import Annotated, Optional

from gitbaton import sync
from gitbaton.cli.common import AsJson, Verbose, looking, opened, print_json, tell_error, warn_all
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.codec import Json
from gitbaton.commands import exchanging
from gitbaton.commands.exchanging import TIMEOUT, DryRun, Scan, Timeout, Tracks, Yes, ask_consent, exchange
from gitbaton.retention import removing
from gitbaton.sync.push import Manner


def command(
    ctx: Call,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL, a path or a bundle's file."),
    ] = None,
    track: Tracks = None,
    transcripts: Annotated[bool, Option("--with-transcripts", help="Also exchange conversations.")] = False,
    threads: Annotated[bool, Option("--threads", help="Also exchange threads: all, or those that are named.")] = False,
    yes: Yes = False,
    scan: Scan = True,
    timeout: Timeout = TIMEOUT,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Fetch, join and push tracks, by default all that are here or there; again when somebody was faster.

    With --threads a name that is no track here or there is a thread's: then only the threads and tracks that are named count.
    A joined track has the checkpoints of both sides in the order of time, and is the same on all machines. A bundle is fetched
    and joined.

    A checkpoint dated more than ten minutes in the future is listed and left out. With --threads each thread has, by id, the
    checkpoints of both sides, less what either removed since they last met.

    Examples:
        git baton sync origin --yes
    """
    kinds = {"transcripts": transcripts, "threads": threads}
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at tracks") as baton:
        with exchange(baton, "sync", words, track, timeout, dry_run=dry_run, **kinds) as (remote, line, choice):
            manner = Manner(agree=partial(ask_consent, remote, yes=yes), scan=scan, write=not dry_run, partly=True)
            done = sync.sync(baton, line, choice, manner)
            if json:
                moved: dict[str, Json] = {"fetched": exchanging.gathered_document(done.gathered)}
                moved["joined"] = exchanging.joining_document(done.joining)
                moved["pushed"] = [exchanging.pushing_document(part) for part in done.pushing]
                ends: dict[str, Json] = {"failure": done.failure, "rounds": done.rounds}
                print_json({"remote": remote.shown, "dry_run": dry_run, **moved, **ends})
            else:
                look = looking(ctx, baton)
                exchanging.say_gathered(look, remote, done.gathered, verbose=verbose, news_only=True)
                exchanging.say_joining(look, baton, done.joining, verbose=verbose, dry_run=dry_run)
                for part in done.pushing:
                    exchanging.say_pushing(look, baton, remote, part, verbose=verbose, dry_run=dry_run)
                if done.failure:
                    tell_error(f"not pushed: {done.failure}", ())
                exchanging.say_apart(done.apart, done.pushing)
        if not dry_run:
            warn_all([*baton.refresh(), *removing.refresh(baton)])
    parts = (done.gathered.broken, done.joining.broken, done.failure, *(part.refused for part in done.pushing))
    return 1 if any(parts) else 0
