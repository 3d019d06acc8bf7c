"""``git baton export`` and ``import``."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.clients import NAMES
from gitbaton.base.codec import Json, bare, counted, first_line, in_quotes, plain, timestamp
from gitbaton.base.errors import BatonError, NoAnswerError, UsageError
from gitbaton.care.tools import porting
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store.state import follow_later
from gitbaton.cli.common import AsJson, Verbose, amount, askable, confirmed, looking, opened, print_json, warn_all
from gitbaton.cli.options import Argument, Invocation, Option

if TYPE_CHECKING:
    from datetime import datetime

    from gitbaton.care.tools.importing import ImportPlan, ImportResult, SessionImport
    from gitbaton.cli.look import Look

_PAST = "what a client has on record: git baton import --all --dry-run"


def command(
    ctx: Invocation,
    history: Annotated[
        bool, Option("--history", help="Also context_checkpoint_<timestamp>_<label>.md and .json for every checkpoint.")
    ] = False,
    checkpoint_dir: Annotated[
        Optional[str], Option(metavar="DIR", help="Where to write: below the root, or absolute (runtime/checkpoints).")
    ] = None,
) -> int:
    """Write LATEST.md and LATEST.json again; with --history every checkpoint as files.

    Git ignores these files, and they are never read as truth. A file that git tracks is not written over; exit 1 says that
    something was left out.

    Examples:
        git baton export
        git baton export --history
    """
    with opened(ctx, checkpoint_dir, talks="looking at checkpoints") as baton:
        warnings = porting.export(baton, history=history)
    warn_all(warnings)
    return 1 if warnings else 0


def take_in(
    ctx: Invocation,
    folder: Annotated[
        Optional[str], Argument(metavar="DIR", help="A folder with LATEST.json or context_checkpoint_*.json.")
    ] = None,
    client: Annotated[
        Optional[list[str]],
        Option(
            "--client",
            metavar="CLIENT",
            help="What it has on record of this repository; may repeat.",
        ),
    ] = None,
    everything: Annotated[bool, Option("--all", help="The same of every client.")] = False,
    moved: Annotated[
        Optional[list[str]], Option("--from", metavar="PATH", help="Where the repository was before; may repeat.")
    ] = None,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Only print what would be imported.")] = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Take in the conversations that a client has on record, or the checkpoints of an older, file-based folder.

    With --client the client's own transcripts of this repository, in any of its work trees, become conversations here, redacted
    line by line, without files. 'log --all' lists their turns, 'show' and 'transcript show' show them, and 'blame' and 'why'
    tell the prompt of each commit that a turn is seen to have made. The plan is shown first, and asked for; without a terminal
    it needs --yes. A second time takes in what is new.

    CLIENT is one whose transcripts can be read: claude, codex, gemini, opencode, copilot, kilo, qwen or droid. A commit is a
    turn's only where the output of a command in it names it, and it is here with that subject and of that time, or was
    rewritten since. What hooks have recorded is not taken in again, a conversation or turn that was forgotten neither, and a
    link out of the client's folder is not followed. A turn that may still go on is left for the next time.

    From a folder, each checkpoint keeps its words and its time; its author is 'gitbaton <gitbaton@localhost>'. Nothing in the
    folder is run or followed, and a file that cannot be understood is named and nothing is done. A second time adds nothing.
    The folder's current track becomes the current one where none is.

    Examples:
        git baton import --client claude --dry-run
        git baton import --all --yes
        git baton import older
    """
    clients = list(client or ())
    if clients or everything:
        if folder is not None:
            raise UsageError(f"{'--client' if clients else '--all'} and the folder {in_quotes(folder)} exclude each other")
        return _from_clients(
            ctx, clients, moved or [], everything=everything, yes=yes, dry_run=dry_run, verbose=verbose, json=json
        )
    for option, given in (("--from", moved), ("--yes", yes), ("--dry-run", dry_run), ("--verbose", verbose), ("--json", json)):
        if given:
            raise UsageError(f"{option} goes with --client or --all", _PAST)
    if folder is None:
        raise UsageError("name a client or a folder", _PAST)
    if folder in NAMES and not os.path.lexists(folder):
        raise UsageError(
            f"there is no folder {in_quotes(folder)}", f"of the client: git baton import --client {folder} --dry-run"
        )
    if os.path.isfile(folder):
        parent = os.path.dirname(folder) or "."
        older, bundle = (
            f"name its folder: git baton import {in_shell(parent)}",
            f"of a bundle: git baton fetch {in_shell(folder)}",
        )
        hint = older if folder.endswith(".json") else _PAST if folder.endswith(".jsonl") else bundle
        raise UsageError(f"{in_quotes(folder)} is a file and no folder", hint)
    with opened(ctx, talks="looking at checkpoints") as baton:
        done = porting.import_folder(baton, os.path.abspath(folder))
    warn_all(done.warnings)
    for track, count in done.added:
        said = "nothing new" if count == 0 else f"{count} new checkpoint{'' if count == 1 else 's'}"
        terminal.say(f"{bare(track)}: {said}")
    if done.current is not None:
        terminal.say(f"current track: {plain(done.current)}")
    if not done.added:
        terminal.say("no checkpoints there")
    return 0


_LISTED = 10  # sessions that a plan names


def _from_clients(
    ctx: Invocation,
    names: list[str],
    moved: list[str],
    *,
    everything: bool,
    yes: bool,
    dry_run: bool,
    verbose: bool,
    json: bool,
) -> int:
    from gitbaton.care.tools.importing import apply, clients_with_past, plan

    clients = clients_with_past()
    for name in names:
        if name not in clients:
            known = f"{', '.join(map(repr, clients[:-1]))} or {clients[-1]!r}"
            raise UsageError(f"--client is {in_quotes(name)}; it can be {known}")
    with (
        opened(ctx, dry_run=dry_run, talks="" if json else "looking at sessions") as baton,
        tempfile.TemporaryDirectory(prefix="gitbaton-") as scratch,
    ):
        told = baton.repo.progress
        made = plan(
            baton,
            clients if everything else names,
            os.environ,
            scratch,
            moved,
            lambda at, all: told("reading sessions", at, all),
        )
        result = None
        if not dry_run and made.sessions:
            if not yes:
                if not askable():
                    hint = "--dry-run prints the plan; --yes answers"
                    raise UsageError("nothing is imported without asking, and there is no terminal", hint)
                look = looking(ctx, baton, fd=2)
                for text in planned(baton, look, made, verbose=verbose):
                    terminal.tell(text)
                if not confirmed("import them?"):
                    raise NoAnswerError("nothing is imported")
            result = apply(baton, made)
            if result.sessions:
                with suppress(BatonError, OSError):  # a search builds what was not
                    follow_later(baton.repo, begin=True)
        if json:
            print_json(_document(baton, made, result, dry_run=dry_run))
        elif result is None:
            terminal.say_lines(planned(baton, looking(ctx, baton), made, verbose=verbose))
        else:
            terminal.say_lines(_done(result))
        problems = [baton.redactor.text(plain(text)) for text in (*made.problems, *(result.problems if result else ()))]
    warn_all(problems)
    return 1 if result is not None and result.problems else 0


def planned(baton: Baton, look: "Look", made: "ImportPlan", *, verbose: bool) -> Iterator[str]:
    """Yield a plan, one line for each of the newest sessions, and the sums."""
    from gitbaton.cli.look import Column

    shown = made.sessions[::-1] if verbose else made.sessions[: -_LISTED - 1 : -1]
    rows = []
    for one in shown:
        first = one.turns[0].turn
        grown = "goes on" if one.grows else ""
        amounts = (counted(len(one.turns), "turn"), counted(one.commits, "commit") if one.commits else "", amount(one.fresh))
        words = plain(first_line(baton.redactor.text(first.prompt)))
        rows.append((one.source.client, look.age(_at(first.since)), *amounts, grown, words))
    right = Column(right=True)
    yield from look.table((Column(), right, right, right, right, Column(), Column()), rows)
    if len(made.sessions) > len(shown):
        yield f"and {counted(len(made.sessions) - len(shown), 'session')} more; --verbose lists them"
    yield from _sums(made)


def _sums(made: "ImportPlan") -> Iterator[str]:
    turns, commits = sum(len(one.turns) for one in made.sessions), sum(one.commits for one in made.sessions)
    if made.sessions:
        sums = counted(turns, "turn"), counted(commits, "commit"), amount(sum(one.fresh for one in made.sessions))
        yield f"{counted(len(made.sessions), 'session')} to import: {', '.join(sums)}"
    else:
        yield f"nothing to import of {', '.join(made.clients)}"
    for count, text in (
        (made.there, "here already"),
        (made.forgotten, "forgotten, and left out"),
        (made.going_on, "may still be at work: the last turn is left for the next time"),
    ):
        if count:
            yield f"{counted(count, 'session')} {text}"


def _done(result: "ImportResult") -> Iterator[str]:
    yield (
        f"imported {counted(result.sessions, 'session')}: {counted(result.turns, 'turn')}, {counted(result.commits, 'commit')},"
        f" {amount(result.bytes)}"
    )
    if result.turns:
        yield "'git baton log --kind imported' lists them"


def _at(seconds: float) -> "datetime":
    from datetime import UTC, datetime

    return datetime.fromtimestamp(max(0.0, seconds), UTC)


def _document(baton: Baton, made: "ImportPlan", result: "ImportResult | None", *, dry_run: bool) -> dict[str, Json]:
    sessions: list[Json] = [_session_document(baton, one) for one in made.sessions]
    done: Json = None
    if result is not None:
        done = {name: getattr(result, name) for name in ("sessions", "turns", "commits", "bytes")}
    problems: list[Json] = [baton.redactor.text(text) for text in (*made.problems, *(result.problems if result else ()))]
    return {
        "dry_run": dry_run,
        "clients": list(made.clients),
        "sessions": sessions,
        "there": made.there,
        "forgotten": made.forgotten,
        "going_on": made.going_on,
        "problems": problems,
        "imported": done,
    }


def _session_document(baton: Baton, one: "SessionImport") -> Json:
    turns: list[Json] = [
        {
            "since": timestamp(_at(found.turn.since)),
            "until": timestamp(_at(found.turn.until)),
            "prompt": baton.redactor.text(found.turn.prompt),
            "commits": list(found.commits),
        }
        for found in one.turns
    ]
    return {
        "client": one.source.client,
        "session": one.source.session,
        "turns": turns,
        "known": one.known,
        "bytes": one.fresh,
        "grows": one.grows,
        "going_on": one.going_on,
    }
