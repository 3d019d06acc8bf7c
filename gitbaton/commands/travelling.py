"""What push, fetch and sync say of threads."""

from collections.abc import Sequence

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, counted, plain
from gitbaton.git.remotes import Remote
from gitbaton.sync.threads import called
from gitbaton.sync.values import FetchedThread, JoinedThread, Move
from gitbaton.threads.names import LATE


def moved(move: Move) -> str:
    """What a push moves of a thread."""
    name = called((move.thread or "", move.namespace))
    return f"late writes of {name}" if move.ref.startswith(LATE) else name


def say_fetched(remote: Remote, rows: Sequence[FetchedThread], *, news_only: bool = False) -> None:
    """One line for each thread of a fetch."""
    there = plain(remote.shown)
    for row in rows:
        said = {
            "new": f"new, {counted(row.count, 'checkpoint')}",
            "newer": f"{row.count} newer" if row.count else "newer writes",
            "rewritten": f"rewritten, {row.count} newer",
            "same": "same",
            "gone": f"gone at {there}",
            "pruned": f"gone at {there}, and what was fetched of it, too",
        }
        name = called((row.thread, row.namespace))
        if row.state == "broken":
            terminal.warn(f"{name} of {there} is left out: {row.reason}")
        elif not (news_only and row.state == "same"):
            terminal.say(f"{name}: {said[row.state]}")


def say_joined(baton: Baton, rows: Sequence[JoinedThread], *, dry_run: bool) -> None:
    """One line for each thread that changed."""
    would = "would be " if dry_run else ""
    for row in rows:
        name = called((row.thread, row.namespace))
        parts = [f"{row.added} {would}joined"] if row.added else []
        parts += [f"{row.changed} {would}changed"] if row.changed else []
        parts += [f"{row.removed} {would}removed"] if row.removed else []
        was = f" (was {baton.short(row.was)})" if row.was is not None and (row.removed or row.changed) else ""
        back = "; it was deleted here, and went on there" if row.back else ""
        if parts:
            terminal.say(f"{name}: {', '.join(parts)}{was}{back}")
        if row.problem:
            terminal.warn(f"{name} is not joined: {row.problem}")


def fetched_documents(rows: Sequence[FetchedThread]) -> list[Json]:
    """The JSON objects of threads in a fetch."""
    return [
        {"thread": r.thread, "namespace": r.namespace, "state": r.state, "count": r.count, "reason": r.reason} for r in rows
    ]


def joined_documents(rows: Sequence[JoinedThread]) -> list[Json]:
    """The JSON objects of threads in a join."""
    return [
        {
            "thread": row.thread,
            "namespace": row.namespace,
            "added": row.added,
            "changed": row.changed,
            "removed": row.removed,
            "was": row.was,
            "back": row.back,
            "problem": row.problem,
        }
        for row in rows
    ]
