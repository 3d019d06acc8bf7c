"""What push, fetch and sync share: the remote that is meant, the question before a first push, and what they say."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Annotated, Optional

import typer

from gitbaton import sync, terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, check_track, counted, plain, timestamp
from gitbaton.commands import travelling
from gitbaton.commands.common import apart_document, askable, confirmed, print_plan, tell_error, told_apart, warn_all
from gitbaton.commands.travelling import moved
from gitbaton.errors import MENDS, UsageError
from gitbaton.git.remotes import Connection, Remote, find, names
from gitbaton.render import in_shell, line
from gitbaton.sync.threads import called
from gitbaton.sync.values import Choice, Exposure, FetchedRun, Gathered, Joining, Late, Move, Pushing

TIMEOUT = 60.0
Tracks = Annotated[
    Optional[list[str]], typer.Option("--track", metavar="NAME", help="Only this track, as a TRACK after REMOTE; may repeat.")
]
_NAMED = 20  # threads that are named; there may be thousands
_UNITS = ("bytes", "KiB", "MiB", "GiB")


def remote_of(baton: Baton, words: Sequence[str], *, pushing: bool, verb: str, threads: bool = False) -> Remote:
    """The remote that the first word means. Raises UsageError, which says so where it is a track, or one of the ``threads``."""
    word = words[0] if words else None
    if word is not None and word not in names(baton.repo) and not _is_repository(word):
        kind = "track" if word in baton.store.chains()[0] else "thread" if threads and sync.is_thread(baton, word) else ""
        if kind:
            said, there = f"'{plain(word)}' is a {kind} and no remote", names(baton.repo)
            if not there:
                raise UsageError(said, "no remote is configured: name a URL or a path before it")
            option = f"--threads {in_shell(there[0])}" if threads else "--track"
            raise UsageError(said, f"to {verb} only that: git baton {verb} {option} {in_shell(word)}")
    remote = find(baton.repo, word, os.getcwd(), pushing=pushing)
    if pushing and not remote.push:
        raise UsageError(f"'{plain(remote.shown)}' is a bundle, which cannot be pushed to", "git bundle create makes one")
    return remote


def _is_repository(word: str) -> bool:
    """Whether a path has what a repository or a bundle has; a folder that is called like a track has not."""
    return os.path.isfile(word) or any(os.path.exists(os.path.join(word, name)) for name in ("HEAD", ".git"))


def choice_of(
    named: Sequence[str], *, transcripts: bool = False, threads: bool = False, runs: bool = False, prune: bool = False
) -> Choice:
    """What the names and the options choose; with threads only ``sync.named`` tells what names mean."""
    tracks = tuple(dict.fromkeys(check_track(word) for word in ([] if threads else named))) or None
    return Choice(tracks=tracks, transcripts=transcripts, threads=threads, runs=runs, prune=prune)


@contextmanager
def connected(baton: Baton, remote: Remote, seconds: float, *, dry_run: bool = False) -> Iterator[Connection]:
    """The exchange with a remote; in a dry run what comes lands in a folder that is removed."""
    import tempfile

    if not 0 < seconds < 1e9:
        raise UsageError(f"--timeout is '{seconds:g}'; it must be a number of seconds above 0")
    with tempfile.TemporaryDirectory(prefix="gitbaton-") if dry_run else nullcontext() as folder:
        if folder is not None:
            baton.redirect(folder)
        yield Connection(baton.repo, remote, seconds, prompts=askable())


def size(count: int) -> str:
    """A number of bytes for people."""
    number, unit = float(count), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}" if unit else f"{count} bytes"


def say_public(remote: Remote, public: Exposure) -> None:
    """What a first push makes public, on standard error."""
    names = [*(f"'{plain(track)}'" for track in public.tracks), *(f"run '{run}'" for run in public.runs)]
    terminal.tell(
        f"first push of {_listed(names, public.threads)} to {plain(remote.shown)}; beyond what its refs hold this makes public:"
    )
    parts = [counted(public.checkpoints, "checkpoint"), counted(public.commits, "unpublished commit")]
    parts += [counted(public.untracked, "untracked file")]
    parts = parts if public.tracks else []
    parts += [f"{counted(public.records, 'record')} with what the steps read, wrote and printed"] if public.runs else []
    parts += [f"{counted(public.states, 'checkpoint')} of threads with all their values"] if public.threads else []
    terminal.tell("  " + ", ".join([*parts, size(public.bytes)]))


def _listed(names: Sequence[str], threads: Sequence[str]) -> str:
    """Names, and those of threads as far as anybody reads them."""
    shown = [*names, *(called((thread, "")) for thread in threads[:_NAMED])]
    left = len(threads) - _NAMED
    return ", ".join(shown) + (f" and {counted(left, 'more thread')}" if left > 0 else "")


class Agreement:
    """The answer to the question before a first push: given by --yes, or on the terminal; without one it is no."""

    def __init__(self, remote: Remote, *, yes: bool) -> None:
        self.remote, self.yes, self.asked = remote, yes, False

    def __call__(self, public: Exposure) -> bool:
        """Say what becomes public, and whether it may."""
        say_public(self.remote, public)
        if self.yes:
            return True
        if not askable():
            return False
        self.asked = True
        return confirmed("push?")


def say_gathered(remote: Remote, found: Gathered, *, news_only: bool = False) -> bool:
    """One line for each track of a fetch; whether all could be used."""
    for row in found.rows:
        name, step = plain(row.track), line(row.step)
        said = {
            "new": f"new, {counted(row.count, 'checkpoint')}: > {step}",
            "newer": f"{row.count} newer: > {step}",
            "rewritten": f"rewritten, {row.count} newer: > {step}",
            "same": "same",
            "gone": f"gone at {plain(remote.shown)}",
            "pruned": f"gone at {plain(remote.shown)}, and what was fetched of it, too",
        }
        if row.state in said and not (news_only and row.state == "same"):
            terminal.say(f"{name}: {said[row.state]}")
        elif row.state == "broken":
            terminal.warn(f"track '{name}' of {plain(remote.shown)} is left out: {row.reason}")
        if not news_only:
            say_late(row.track, row.late)
    for ran in found.runs:
        _say_run(remote, ran)
    travelling.say_fetched(remote, found.threads, news_only=news_only)
    for ref in found.strange:
        terminal.warn(f"'{plain(ref)}' of {plain(remote.shown)} is left out: the name is not one that gitbaton writes")
    return not found.broken


def _say_run(remote: Remote, ran: FetchedRun) -> None:
    """One line for a run of a fetch."""
    said = {
        "new": f"new, {counted(ran.count, 'record')}",
        "newer": f"{ran.count} newer",
        "rewritten": f"rewritten, {counted(ran.count, 'record')}",
        "same": "same",
        "gone": f"gone at {plain(remote.shown)}",
        "pruned": f"gone at {plain(remote.shown)}, and what was fetched of it, too",
    }
    if ran.state == "broken":
        terminal.warn(f"run '{ran.run}' of {plain(remote.shown)} is left out: {ran.reason}")
    else:
        terminal.say(f"run '{ran.run}': {said[ran.state]}")


def say_late(track: str, late: Sequence[Late]) -> None:
    """Checkpoints from the future, each as a warning."""
    for item in late:
        when = timestamp(item.created)
        terminal.warn(f"checkpoint {item.id} of '{plain(track)}' is from the future ({when}): it is not joined before then")


def say_joining(baton: Baton, found: Joining, *, dry_run: bool) -> bool:
    """One line for each track that changed; whether all could be joined."""
    would = "would be " if dry_run else ""
    for row in found.rows:
        parts = [f"{row.added} {would}joined"] if row.added else []
        was = f" (was {baton.short(row.was)})" if row.was is not None else ""
        parts += [f"{row.removed} {would}removed{was}"] if row.removed else []
        if parts:
            terminal.say(f"{plain(row.track)}: {', '.join(parts)}")
        if row.problem:
            terminal.warn(f"track '{plain(row.track)}' is not joined: {plain(row.problem)}")
        say_late(row.track, row.late)
    travelling.say_joined(baton, found.threads, dry_run=dry_run)
    warn_all(found.warnings)
    return not found.broken


def say_pushing(baton: Baton, remote: Remote, done: Pushing, *, dry_run: bool, hint: str = "") -> bool:
    """The moves of a push, and why it, or a part of it, was refused; whether nothing was. ``hint``: for what was refused."""
    texts = [_push_text(move) for move in done.moves if move.changes]
    if dry_run and done.exposure is not None:
        say_public(remote, done.exposure)
    if not done.failure and (dry_run or not (done.hits or _halted(done))):
        print_plan(texts, dry_run=dry_run, nothing="nothing to push")
    warn_all(done.warnings)
    refused = [move for move in done.moves if move.action == "refused"]
    for move in refused:
        terminal.tell(f"refused: {plain(move.reason)}")
    for text in dict.fromkeys(move.hint or hint for move in refused):
        if text and text != MENDS:
            terminal.tell(f"hint: {text}")
    if done.failure:
        tell_error(f"not pushed: {done.failure}", ())
    if done.keeps:
        why = f"'{remote.shown}' keeps {done.keeps}: it refuses rewriting"
        tell_error(why, ("whoever runs it can let our refs be rewritten or remove them there",))
    if done.hits:
        _tell_hits(baton, done)
    if done.declined or done.private:
        names = [f"'{track}'" for track in done.declined]
        what = "nothing is pushed" if _halted(done) else "not pushed: " + _listed(names, done.private)
        tell_error(f"{what}: nobody agreed to make it public", ("--yes agrees; so does 'git config baton.push true'",))
    return not done.refused


def say_apart(broken: Mapping[str, str], pushed: Sequence[Pushing] = ()) -> None:
    """The refs here that were left alone because they are broken, each with why, and what mends them and those whose refusal
    was said already."""
    refused = {move.ref for part in pushed for move in part.moves if move.broken}
    rest = {ref: why for ref, why in broken.items() if ref not in refused}
    if told_apart(rest) and refused:
        terminal.tell(f"hint: {MENDS}")


def _push_text(move: Move) -> str:
    """What a push does with one ref, in words."""
    name = f"'{move.track}'" if move.track is not None else f"run '{move.run}'" if move.run is not None else move.ref
    name = moved(move) if move.thread is not None else name
    counts = [counted(move.count, "record" if move.run is not None else "checkpoint")] if move.count else []
    counts += [f"{move.dropped} removed"] if move.dropped and move.action in ("rewrite", "delete") else []
    private = [counted(move.commits, "unpublished commit")] if move.commits else []
    private += [counted(move.untracked, "untracked file")] if move.untracked else []
    said = "; ".join(", ".join(part) for part in ([move.action, *counts], private) if part)
    return f"push {name}: {said}{f' [{move.ref}]' if name != move.ref else ''}"


def _tell_hits(baton: Baton, done: Pushing) -> None:
    """Where each secret stands, and what can be done."""
    from gitbaton.commands.finding import REMOVE, hit_place, placed, removes, states
    from gitbaton.scanning import scanner

    text = scanner(baton).text
    places = list(placed(done.hits, states(baton, done.hits)))
    for hit, state in places:
        which = "checkpoint " if hit.checkpoint else ""
        place = text(hit_place(baton, hit, state))
        terminal.tell(f"secret: {which}{place}: {hit.kind} {plain(hit.shown)}".rstrip())
    hints = ["'git config --add baton.redactAllow REGEX' names what is none"]
    hints += ["'git baton forget CHECKPOINT' removes a checkpoint"] if any(hit.checkpoint for hit in done.hits) else []
    hints += [REMOVE] if removes(places) else []
    tell_error(f"nothing is pushed: {counted(len(done.hits), 'secret')} would leave", (*hints, "--no-scan pushes all the same"))


def _halted(done: Pushing) -> bool:
    """Whether nothing was sent because nobody agreed."""
    tracks = any((move.track or move.run) in done.declined for move in done.moves)
    return tracks or any(move.thread in done.private for move in done.moves)


def gathered_document(found: Gathered) -> dict[str, Json]:
    """The JSON object of a fetch."""
    rows: list[Json] = [
        {
            "track": row.track,
            "state": row.state,
            "count": row.count,
            "step": row.step,
            "reason": row.reason,
            "future": _late_document(row.late),
        }
        for row in found.rows
    ]
    ran: list[Json] = [{"run": r.run, "state": r.state, "count": r.count, "reason": r.reason} for r in found.runs]
    threads: list[Json] = travelling.fetched_documents(found.threads)
    return {
        "tracks": rows,
        "runs": ran,
        "threads": threads,
        "left_out": list(found.strange),
        "others": found.others,
        "broken": apart_document(found.apart),
    }


def joining_document(found: Joining) -> dict[str, Json]:
    """The JSON object of a join."""
    rows: list[Json] = [
        {
            "track": row.track,
            "added": row.added,
            "removed": row.removed,
            "was": row.was,
            "problem": row.problem,
            "future": _late_document(row.late),
        }
        for row in found.rows
    ]
    return {"tracks": rows, "threads": travelling.joined_documents(found.threads), "warnings": list(found.warnings)}


def _late_document(late: Sequence[Late]) -> list[Json]:
    return [{"id": item.id, "created": timestamp(item.created)} for item in late]


def pushing_document(done: Pushing) -> dict[str, Json]:
    """The JSON object of a push to one place."""
    public: Optional[dict[str, Json]] = None
    if done.exposure is not None:
        e = done.exposure
        public = {
            "tracks": list(e.tracks),
            "checkpoints": e.checkpoints,
            "commits": e.commits,
            "untracked": e.untracked,
            "bytes": e.bytes,
            "runs": list(e.runs),
            "records": e.records,
            "threads": list(e.threads),
            "states": e.states,
        }
    moves: list[Json] = [_move_document(move) for move in done.moves]
    hits: list[Json] = [
        {"checkpoint": h.checkpoint, "commit": h.commit, "path": h.path, "line": h.line, "kind": h.kind} for h in done.hits
    ]
    return {
        "moves": moves,
        "first": public,
        "declined": list(done.declined),
        "private": list(done.private),
        "hits": hits,
        "warnings": list(done.warnings),
        "failure": done.failure,
        "keeps": done.keeps,
        "broken": apart_document(done.apart),
    }


def _move_document(m: Move) -> Json:
    return {
        "ref": m.ref,
        "track": m.track,
        "run": m.run,
        "thread": m.thread,
        "namespace": m.namespace,
        "action": m.action,
        "old": m.seen,
        "new": m.new,
        "count": m.count,
        "dropped": m.dropped,
        "forgotten": m.forgotten,
        "commits": m.commits,
        "untracked": m.untracked,
        "reason": m.reason,
    }
