"""``git baton thread list``."""

from gitbaton import terminal
from gitbaton.cli.common import AsJson, opened, paged, picked, print_json
from gitbaton.cli.look import Column
from gitbaton.cli.options import Call
from gitbaton.codec import Json, counted, in_quotes, plain
from gitbaton.commands.threads import WAITS, fetched, foreign, listed, name, said_document, store_of, unusable
from gitbaton.threads.reports import joins, threads

_CHECKED = 50  # threads that were only fetched, and are looked through before anything is promised of them


def command(ctx: Call, json: AsJson = False) -> int:
    """List the threads of LangGraph that are stored here, newest first.

    What a process has put and git does not hold yet is in the list, too. Before one into which no program of here has put
    anything stands '>'. An id that a shell would change is quoted as git
    quotes paths; the other commands take it so.

    Each has the number of its checkpoints, the newest one's age, source and step, and whether it waits at an interrupt.

    Examples:
        git baton thread list
    """
    with opened(ctx, door=None) as baton:
        with store_of(baton) as store:
            rows, wrong = threads(store) if store is not None else ([], {})
        strange = foreign(baton, ((row.thread, row.namespace) for row in rows))
        here = {(row.thread, row.namespace) for row in rows} | wrong.keys()
        elsewhere = {place: remotes for place, remotes in sorted(fetched(baton).items()) if place not in here}
        if json:
            there: list[Json] = []
            for row in rows:
                head = {**picked(row, "thread", "namespace"), "checkpoints": row.count, "newest": row.newest.id}
                head |= {"foreign": True} if (row.thread, row.namespace) in strange else {}
                there.append({**head, **said_document(row.facts), "interrupt": row.waits})
            more: list[Json] = [
                {"thread": thread, "namespace": space, "remotes": [*remotes]} for (thread, space), remotes in elsewhere.items()
            ]
            print_json({"threads": there, "fetched": more})
        else:
            with paged(ctx, baton) as look:
                cells = []
                for row in rows:
                    told, many = row.facts, counted(row.count, "checkpoint")
                    last = " ".join(part for part in (told.source, f"step {told.step}" if told.step else "") if part)
                    state = ((WAITS if row.waits else "", "waiting"), (f"  {last}" if last and row.waits else last, ""))
                    named = (
                        ("> " * ((row.thread, row.namespace) in strange), "foreign"),
                        (_named(row.thread, row.namespace), ""),
                    )
                    cells.append((named, look.age(told.ts), many, state))
                for text in look.table((Column(), Column(right=True, goes=1), Column(goes=2), Column()), cells):
                    terminal.say(text)
                there_only = []
                for number, ((thread, space), remotes) in enumerate(elsewhere.items()):
                    why = unusable(baton, (thread, space), remotes[0]) if number < _CHECKED else ""
                    said = f"broken there: {plain(why)}" if why else joins(remotes[0])
                    named = (("> ", "foreign"), (_named(thread, space), ""))
                    there_only.append((named, f"fetched from {name(', '.join(remotes))} only: {said}"))
                for text in look.table((Column(), Column()), there_only):
                    terminal.say(text)
    for (thread, space), reason in wrong.items():
        terminal.warn(f"{in_quotes(_named(thread, space))} is left out: {plain(reason)}")
    return 0


def _named(thread: str, namespace: str) -> str:
    return listed(thread) + (f" [{listed(namespace)}]" if namespace else "")
