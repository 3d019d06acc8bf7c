"""``git baton thread log``."""

from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.cli.common import AsJson, paged, picked, print_json
from gitbaton.cli.look import Column
from gitbaton.cli.options import Call, Option
from gitbaton.codec import Json, counted
from gitbaton.commands.threads import WAITS, AThread, Namespace, commit_of, name, place_of, said_document
from gitbaton.threads.reports import steps


def command(
    ctx: Call,
    thread: AThread,
    namespace: Namespace = None,
    limit: Annotated[Optional[int], Option("-n", "--max-count", metavar="N", min=0, help="List at most N.")] = None,
    json: AsJson = False,
) -> int:
    """List a thread's checkpoints, newest first: when, by what, the channels that changed, and where it forks.

    Examples:
        git baton thread log demo -n 5
    """
    with place_of(ctx, thread, namespace) as (baton, store, place):
        rows = steps(store, *place, limit)
        if json:
            listed: list[Json] = []
            for step in rows:
                row = {**picked(step.entry, "id", "parent"), "commit": commit_of(step.entry), **said_document(step.facts)}
                row |= {"run_id": step.facts.run or None, "changed": [*step.changed], "writes": step.writes}
                listed.append({**row, "interrupt": step.waits, "fork": step.fork})
            print_json({"thread": place[0], "namespace": place[1], "checkpoints": listed})
            return 0
        cells = []
        with paged(ctx, baton) as look:
            for step in rows:
                parent = f"{name(step.entry.parent or '')}{', which is not here' if step.gone else ''}"
                parts = [(WAITS, "waiting")] if step.waits else []
                parts += [(f"(from {parent})", "drift")] if step.fork else []
                parts += [(", ".join(map(name, step.changed)), "")] if step.changed else []
                parts += [(counted(step.writes, "write"), "")] if step.writes else []
                parts += [(f"run {step.facts.run}", "")] if step.facts.run else []
                said = tuple(piece for part in parts for piece in (("  ", ""), part))[1:]
                made = f"{step.facts.source or '?'} {step.facts.step}".rstrip()
                cells.append((((name(step.entry.id), "id"),), look.age(step.facts.ts), made, said))
            for text in look.table((Column(), Column(right=True, goes=1), Column(), Column()), cells):
                terminal.say(text)
    return 0
