"""``git baton threads``."""

from collections.abc import Mapping

import typer

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, counted, plain, timestamp
from gitbaton.commands.common import AsJson, opened, paged, print_json
from gitbaton.commands.threading import fetched, listed, name, store_of, unusable
from gitbaton.render import age
from gitbaton.threads.reports import Summary, joins, threads

_CHECKED = 50  # threads that were only fetched, and are looked through before anything is promised of them


def command(ctx: typer.Context, json: AsJson = False) -> int:
    """List the threads of LangGraph that are stored here, newest first.

    What a process has put and git does not hold yet is in the list, too. An id that a shell would change is quoted as git
    quotes paths; the other commands take it so.
    """
    with opened(ctx, door=None) as baton:
        with store_of(baton) as store:
            rows, wrong = threads(store) if store is not None else ([], {})
        here = {(row.thread, row.namespace) for row in rows} | wrong.keys()
        elsewhere = {place: remotes for place, remotes in sorted(fetched(baton).items()) if place not in here}
        if json:
            rows_: list[Json] = [_document(row) for row in rows]
            more: list[Json] = [
                {"thread": thread, "namespace": space, "remotes": [*remotes]} for (thread, space), remotes in elsewhere.items()
            ]
            print_json({"threads": rows_, "fetched": more})
        else:
            _list(ctx, baton, rows, elsewhere)
    for (thread, space), reason in wrong.items():
        terminal.warn(f"'{_named(thread, space)}' is left out: {plain(reason)}")
    return 0


def _list(ctx: typer.Context, baton: Baton, rows: list[Summary], elsewhere: Mapping[tuple[str, str], list[str]]) -> None:
    with paged(ctx, baton) as paint:
        for row in rows:
            terminal.say(_line(baton, row, paint("waits at an interrupt", "pending") if row.waits else ""))
        for number, ((thread, space), remotes) in enumerate(elsewhere.items()):
            wrong = unusable(baton, (thread, space), remotes[0]) if number < _CHECKED else ""
            said = f"broken there: {plain(wrong)}" if wrong else joins(remotes[0])
            terminal.say(f"{_named(thread, space)} fetched from {name(', '.join(remotes))} only: {said}")


def _named(thread: str, namespace: str) -> str:
    return listed(thread) + (f" [{listed(namespace)}]" if namespace else "")


def _line(baton: Baton, row: Summary, waits: str) -> str:
    told = row.facts
    ago = age(told.ts, baton.clock()) if told.ts is not None else "at an unknown time"
    last = " ".join(part for part in (told.source, f"step {told.step}" if told.step else "") if part)
    said = ", ".join(part for part in (f"{ago}: {last}" if last else ago, waits) if part)
    return f"{_named(row.thread, row.namespace)} {counted(row.count, 'checkpoint')}, {said}"


def _document(row: Summary) -> Json:
    told = row.facts
    return {
        "thread": row.thread,
        "namespace": row.namespace,
        "checkpoints": row.count,
        "newest": row.newest.id,
        "ts": timestamp(told.ts) if told.ts is not None else None,
        "source": told.source or None,
        "step": step if isinstance(step := told.metadata.get("step"), int) else None,
        "interrupt": row.waits,
    }
