"""``git baton sync``."""

from typing import Annotated, Optional

import typer

from gitbaton import mirrors, sync
from gitbaton.baton import Baton
from gitbaton.commands import exchanging
from gitbaton.commands.common import AsJson, opened, print_json, tell_error, warn_all
from gitbaton.commands.exchanging import TIMEOUT, Agreement, Tracks, choice_of, connected, remote_of
from gitbaton.git.remotes import Remote
from gitbaton.sync.push import Manner


def command(
    ctx: typer.Context,
    words: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[REMOTE] [TRACK]...", help="A configured remote, a URL, a path or a bundle's file."),
    ] = None,
    track: Tracks = None,
    transcripts: Annotated[bool, typer.Option("--with-transcripts", help="Also exchange conversations.")] = False,
    threads: Annotated[bool, typer.Option("--threads", help="Also exchange threads: all, or those that are named.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a first push.")] = False,
    scan: Annotated[bool, typer.Option("--scan/--no-scan", help="Look for secrets in what the remote lacks.")] = True,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long the whole exchange may take.")] = TIMEOUT,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the plan; change nothing here or there.")] = False,
    json: AsJson = False,
) -> int:
    """Fetch, join and push tracks, by default all that are here or there; again when somebody was faster.

    With --threads a name that is no track here or there is a thread's: then only the threads and tracks that are named count.
    A joined track has the checkpoints of both sides in the order of time, and is the same on all machines. A bundle is fetched
    and joined.
    """
    words, named = words or [], [*(words or [])[1:], *(track or [])]
    with opened(ctx, dry_run=dry_run) as baton:
        remote = remote_of(baton, words, pushing=False, verb="sync", threads=threads)
        choice = choice_of(named, transcripts=transcripts, threads=threads)
        manner = Manner(agree=Agreement(remote, yes=yes), scan=scan, write=not dry_run, partly=True)
        with connected(baton, remote, timeout, dry_run=dry_run) as line:
            choice = sync.named(baton, line, choice, named, write=not dry_run)
            done = sync.sync(baton, line, choice, manner)
            if json:
                _print(remote, done, dry_run=dry_run)
                code = 1 if _refused(done) else 0
            else:
                code = _say(baton, remote, done, dry_run=dry_run)
        if not dry_run:
            warn_all([*baton.refresh(), *mirrors.refresh(baton)])
    return code


def _refused(done: sync.Synced) -> bool:
    broken = done.gathered.broken or done.joining.broken
    return broken or bool(done.failure) or any(part.refused for part in done.pushing)


def _print(remote: Remote, done: sync.Synced, *, dry_run: bool) -> None:
    print_json(
        {
            "remote": remote.shown,
            "dry_run": dry_run,
            "fetched": exchanging.gathered_document(done.gathered),
            "joined": exchanging.joining_document(done.joining),
            "pushed": [exchanging.pushing_document(part) for part in done.pushing],
            "failure": done.failure,
            "rounds": done.rounds,
        }
    )


def _say(baton: Baton, remote: Remote, done: sync.Synced, *, dry_run: bool) -> int:
    """What was done; the exit code."""
    whole = exchanging.say_gathered(remote, done.gathered, news_only=True)
    whole = exchanging.say_joining(baton, done.joining, dry_run=dry_run) and whole
    for part in done.pushing:
        whole = exchanging.say_pushing(baton, remote, part, dry_run=dry_run) and whole
    if done.failure:
        tell_error(f"not pushed: {done.failure}", ())
    exchanging.say_apart(done.apart, done.pushing)
    return 0 if whole and not done.failure else 1
