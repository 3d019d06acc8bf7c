"""Shared parts of the verbs: options, opening the repository, JSON, colours, the pager, questions."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, canonical, escaped, in_quotes, plain
from gitbaton.base.errors import MENDS, DamagedIndexError, NotFoundError, UsageError
from gitbaton.base.model import DoctorFinding, Stored
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import Problem
from gitbaton.cli.options import AFTER, Argument, Globals, Invocation, Option
from gitbaton.git.loose import index_anew
from gitbaton.git.repo import Door, Progress, Repo, discover, silent

if TYPE_CHECKING:
    from gitbaton.checkpoints.store.signatures import Vouched
    from gitbaton.cli.look import Look

NOT_THERE = "put '--' before paths that are not there now"

# Options and arguments of several verbs.
Track = Annotated[
    Optional[str],
    Option("--track", metavar="NAME", help="What '@' stands for; default: the current track, or the only one."),
]
Newest = Annotated[
    Optional[str], Argument(metavar="[CHECKPOINT]", help="Default: the newest of the current track, or the only one.")
]
Tip = Annotated[Optional[str], Argument(metavar="[CHECKPOINT]", help="A track, or as for show; default: the track's newest.")]
From = Annotated[Optional[str], Argument(metavar="[CHECKPOINT]", help="A track, or as for show: list from there on.")]
ARun = Annotated[Optional[str], Argument(metavar="[RUN]", help="Default: the run that this work tree used last.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON.")]
Porcelain = Annotated[bool, Option("--porcelain", help="Print tab-separated output that stays stable.")]
Lines = Annotated[bool, Option("--porcelain", help="Print KEY=VALUE lines that stay stable.")]
Nul = Annotated[bool, Option("-z", help="End fields with NUL; implies --porcelain.")]
DryRun = Annotated[bool, Option("--dry-run", "-n", help="Print the plan; change nothing.")]
Verbose = Annotated[bool, Option("--verbose", "-v", help="List everything, also where that is more than 50 lines.")]

MOST = 50  # lines of one list
_UNITS = ("KiB", "MiB", "GiB", "TiB")
_FEW = 3  # of a kind: they are listed, however many others there are


def located(ctx: Invocation, door: Door | None = "binary") -> Repo:
    """Return the repository that the options before the verb name; nothing is done there. Through the git binary: that is
    cheaper to start than libgit2, which ``door`` None takes where it can, for many small things. Raises NotARepositoryError."""
    options: Globals = ctx.obj
    if options.repo is None or options.repo_root is not None:
        return discover(options.repo_root, door=door, named=True)
    if door != "binary":
        options.repo.reopen(door)
    return options.repo


@contextmanager
def opened(
    ctx: Invocation,
    checkpoint_dir: str | None = None,
    *,
    dry_run: bool = False,
    door: Door | None = "binary",
    talks: str = "",
) -> Iterator[Baton]:
    """Open the repository of ``located``, for a verb that does something there.

    A restore that was killed is recovered first, but not before a dry run. ``talks``: the progress text on standard error of a
    terminal when the verb takes more than a second, until the core knows more; empty: silence.
    """
    if checkpoint_dir == "":
        raise UsageError("--checkpoint-dir is empty")
    place = checkpoint_dir or ctx.obj.checkpoint_dir
    with _talking(talks) as progress, Baton(repo=located(ctx, door), checkpoint_dir=place, progress=progress) as baton:
        if place is not None:
            _ = baton.latest  # refuse a bad directory before anything is written
        warn_all(baton.passed)
        if os.path.lexists(os.path.join(baton.repo.own_dir, "restore")):  # one was killed, or is at work
            from gitbaton.checkpoints.restore import recover

            warn_all(["an interrupted restore waits to be ended"] if dry_run else recover(baton))
        try:
            yield baton
        except DamagedIndexError as error:
            raise DamagedIndexError(error.message, *(error.hints or [index_anew(baton.repo.layout.index)])) from None
        warn_all(list(baton.store.unread.values()))


@contextmanager
def _talking(what: str) -> Iterator[Progress]:
    """Yield a progress callback: a line on standard error of a terminal, erased when the block ends."""
    if not (what and os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb"):
        yield silent
        return
    from gitbaton.cli.waiting import Waiting

    waiting = Waiting()
    waiting(what, 0, 0)
    try:
        yield waiting
    finally:
        waiting.close()


def divided(ctx: Invocation, words: list[str], most: int) -> tuple[list[str], list[str]]:
    """Split words into checkpoints, at most so many, and paths: after ``--`` all are paths, and without it all that is too
    much."""
    after = ctx.meta.get(AFTER)
    count = min(most, len(words)) if after is None else len(words) - after
    if count > most:
        raise UsageError(f"unexpected argument {in_quotes(words[most])}", f"'{ctx.command_path} -h' shows what there is")
    return words[:count], words[count:]


def is_path(place: str, word: str) -> bool:
    """Whether git would take a word for a path, as seen from a directory, without being told."""
    return os.path.lexists(os.path.join(place, word)) or word.startswith(":") or any(c in word for c in "*?[")


def refuse_no_paths(place: str, paths: Iterable[str]) -> None:
    """Refuse a word that does not look like a path and does not stand after ``--``. Raises NotFoundError."""
    for word in paths:
        if not is_path(place, word):
            raise NotFoundError(f"there is no path {in_quotes(word)}", NOT_THERE)


def one_meant(name: Optional[str], track: Optional[str]) -> None:
    """Refuse a checkpoint beside ``--track`` that is not spelled with ``@``."""
    if name is not None and track is not None and not name.startswith("@"):
        raise UsageError(
            f"the checkpoint {in_quotes(name)} and --track exclude each other", "with --track only '@' goes, as in '@~2'"
        )


def checkpoint_of(baton: Baton, name: Optional[str], track: Optional[str]) -> Stored:
    """Return the checkpoint that an argument and ``--track`` mean; by default the newest of the current track, or the only
    one."""
    one_meant(name, track)
    return baton.resolve(name, track)


def tell_error(why: str, hints: Sequence[str]) -> None:
    """Write one line and its hints on standard error, where other lines follow."""
    terminal.tell(f"error: {plain(why)}")
    terminal.tell_hints(hints)


def say_broken(broken: Mapping[str, str]) -> bool:
    """Print each broken ref that was left alone, with the reason; return whether there are none."""
    for ref, why in sorted(broken.items()):
        tell_error(f"{in_quotes(ref)} is left alone: {why}", ())
    if broken:
        terminal.tell(f"hint: {MENDS}")
    return not broken


def broken_document(broken: Mapping[str, str]) -> list[Json]:
    """Return the same as JSON."""
    return [{"ref": ref, "reason": why} for ref, why in sorted(broken.items())]


def left_out(problems: Iterable[Problem]) -> None:
    """Warn of each record that could not be read."""
    for problem in problems:
        terminal.warn(f"{in_quotes(problem.where)} is left out: {plain(problem.reason)}")


def say_findings(found: Sequence[DoctorFinding], *, json: bool) -> int:
    """Print a doctor's findings, each with the line that mends it; return the exit code, 1 where one is a fault."""
    amiss = any(not f.ok for f in found)
    if json:
        print_json({"ok": not amiss, "findings": [picked(f, "name", "ok", "text", "mend", "remark") for f in found]})
    else:
        for f in found:
            terminal.say(f"{'note' if f.remark else 'ok  ' if f.ok else 'MEND'} {f.name}: {plain(f.text)}")
            if f.mend and (f.remark or not f.ok):
                terminal.say(f"     {plain(f.mend)}")
    return int(amiss)


def picked(item: object, *names: str) -> dict[str, Json]:
    """Return some attributes of a value as a JSON object."""
    found = ((name, getattr(item, name)) for name in names)
    return {name: list(each) if isinstance(each, tuple) else each for name, each in found}


def print_json(value: dict[str, Json]) -> None:
    """Print one JSON object with its version."""
    terminal.write(escaped(canonical({"v": 1, **value}).decode("utf-8")))


def print_json_list(name: str, items: Sequence[str], rest: dict[str, Json]) -> None:
    """Print one JSON object as ``print_json`` does: its first field a list, of the texts of objects, and the ``rest``."""
    told = escaped(canonical({"v": 1, name: ["@"] if items else [], **rest}).decode("utf-8"))
    head, _, tail = told.partition('    "@"\n')
    terminal.write(head)
    for number, item in enumerate(items, 1):
        terminal.write("    " + item.rstrip("\n").replace("\n", "\n    ") + (",\n" if number < len(items) else "\n"))
    terminal.write(tail)


def refuse(*rules: tuple[bool, str] | tuple[bool, str, str]) -> None:
    """Raise UsageError for the first rule that holds, with its text and its hint."""
    for holds, *said in rules:
        if holds:
            raise UsageError(*said)


def one_of(**choices: bool) -> None:
    """Refuse options that exclude each other."""
    given = [f"--{name}" for name, value in choices.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other")


def colours(ctx: Invocation, baton: Baton, *, tty: bool | None = None) -> dict[str, str]:
    """Return the colours of output to a terminal, or not, by default standard output, for ``terminal.paint``; empty for none:
    Raises UsageError."""
    when = ctx.obj.color
    if when == "auto":
        if tty is None:
            tty = sys.stdout.isatty() or "GIT_PAGER_IN_USE" in os.environ
        if not tty or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
            return {}
    if when == "never" or (when == "auto" and not baton.repo.wants_color(tty=True)):
        return {}
    return terminal.COLORS | baton.repo.colors()


def looking(ctx: Invocation, baton: Baton, *, fd: int = 1) -> Look:
    """Return the look of a screen on standard output, or error: its colours, its width, and the time."""
    from gitbaton.cli.look import Look

    return Look(baton, colours(ctx, baton, tty=os.isatty(fd) if fd != 1 else None), fd=fd)


@contextmanager
def paged(ctx: Invocation, baton: Baton) -> Iterator[Look]:
    """Send long output through the user's pager when standard output is a terminal; yield its look."""
    look = looking(ctx, baton)
    with through_pager(ctx, baton.repo.pager):
        yield look


@contextmanager
def through_pager(ctx: Invocation, chosen: Callable[[], str]) -> Iterator[None]:
    """Send standard output through a pager, where it is a terminal and none is at work yet."""
    if not ctx.obj.pager or not sys.stdout.isatty() or "GIT_PAGER_IN_USE" in os.environ:
        yield
        return
    with terminal.pager(chosen(), {**os.environ, "GIT_PAGER_IN_USE": "true"}):
        yield


def summed(
    rows: Iterable[tuple[str, str]],
    words: Mapping[str, tuple[str, str]],
    *,
    verbose: bool,
    lists: str,
    start: str = "",
    named: Sequence[str] = (),
    names: str = "",
) -> Iterator[str]:
    """Yield a list of (kind, line), line by line; where there are more than 50, and it is not ``verbose``, in brief.

    Then those of a kind of which there are few, or that has no words, or is ``named``, are listed, 50 at most. One line counts
    all by their kinds: ``words`` say of a kind what stands around the number, as ("wrote {}", "file") for "wrote 30,000 files".
    ``start`` stands before it; ``lists`` is the command that lists them all, ``names`` the one for those that are named.
    """
    found = list(rows)
    counts = Counter(kind for kind, _ in found)
    if verbose or len(found) <= MOST:
        yield from (text for _, text in found)
        return
    shown = [text for kind, text in found if kind in named or is_listed(kind, counts, words, verbose=verbose)]
    yield from shown[:MOST]
    if len(shown) > MOST:
        yield f"and {len(shown) - MOST:,} more ({names or lists} lists them)"
    said = []
    for kind, (form, noun) in words.items():
        many = counts[kind]
        if many:
            said.append(form.format(f"{many:,} {noun}{'' if many == 1 else 's'}" if noun else f"{many:,}"))
    if said:
        yield f"{start}{', '.join(said)} ({lists} lists them)"


def is_listed(kind: str, counts: Mapping[str, int], words: Mapping[str, object], *, verbose: bool) -> bool:
    """Whether ``summed`` shows the lines of a kind, by how many lines there are of each."""
    return verbose or sum(counts.values()) <= MOST or kind not in words or counts[kind] <= _FEW


def amount(count: int) -> str:
    """Return a number of bytes for people, as ``12.3 KiB``."""
    if count < 1024:
        return f"{count} bytes" if count != 1 else "1 byte"
    power = next((power for power in range(1, len(_UNITS)) if count / 1024**power < 1000), len(_UNITS))
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}"


def print_plan(
    texts: list[str],
    *,
    dry_run: bool,
    nothing: str,
    verbose: bool = True,
    to: Callable[[str], None] = terminal.say,
) -> None:
    """Print the steps of a plan, one a line, as done or as they would be done; many that begin with the same word are summed
    up."""
    rows = [(text.partition(" ")[0], f"would {text}" if dry_run else text) for text in texts]
    words = {word: (f"{word} {{}}", "") for word, _ in rows}
    for text in summed(rows, words, start="would " if dry_run else "", verbose=verbose, lists="--verbose"):
        to(plain(text))
    if not texts:
        to(nothing)


def askable() -> bool:
    """Whether standard input and error are a terminal, so that a question can be answered."""
    return os.isatty(0) and os.isatty(2)


def answer(prompt: str) -> str:
    """Ask on standard error, and return a line typed on the terminal."""
    terminal.still()
    sys.stdout.flush()
    sys.stderr.write(prompt)
    sys.stderr.flush()
    terminal.await_input()
    return sys.stdin.readline().strip()


def confirmed(question: str) -> bool:
    """Whether the answer on the terminal is yes; anything else is no."""
    return answer(f"{question} [y/N] ").lower() in ("y", "yes")


def tell_foreign(baton: Baton, *stored: Stored) -> None:
    """Say on standard error which of some checkpoints are foreign, and which are not the newest because that cannot be read."""
    for one in stored:
        said = baton.store.unread.pop(one.checkpoint.track, "")
        warn_all([said] if said else [])
        if one.foreign_words:
            signed = signature_of(baton, one)
            told = f"; {signed.words}" if signed is not None else ""
            terminal.tell(f"checkpoint {baton.short(one.id)} is foreign: it, or its words, came from elsewhere{told}")


def signature_of(baton: Baton, stored: Stored) -> Vouched | None:
    """Return the verdict on a checkpoint's signature; None where nothing is to be said of it: checkpoints are not signed here,
    and none of its track has a signature."""
    if not (baton.settings.sign or baton.store.has_signatures(stored.checkpoint.track)):
        return None
    from gitbaton.checkpoints.store.signatures import told

    return told(baton.store, stored)


def warn_all(warnings: tuple[str, ...] | list[str]) -> None:
    """Write each as ``warning: ...`` on standard error."""
    for text in warnings:
        terminal.warn(text)


class _SignalError(BaseException):
    """A signal that ends this process once what it started is cleared away."""


@contextmanager
def ended_by_signal() -> Iterator[None]:
    """Unwind on SIGTERM and SIGHUP as on Ctrl-C, and then end the process as they would have."""
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]

    def leave(number: int, _: object) -> None:
        raise _SignalError(number)

    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    except _SignalError as end:
        signal.signal(end.args[0], signal.SIG_DFL)
        os.kill(os.getpid(), end.args[0])
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
