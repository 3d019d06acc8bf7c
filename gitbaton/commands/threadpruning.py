"""``git baton prune --threads``: checkpoints of LangGraph's threads that nobody needs any more."""

from collections.abc import Iterator, Sequence

import typer

from gitbaton import terminal
from gitbaton.codec import Json, counted, timestamp
from gitbaton.commands.common import apart_document, opened, paged, print_json, told_apart
from gitbaton.commands.retaining import amount, consented, laid_out
from gitbaton.commands.threading import meant, name, store_of
from gitbaton.errors import BatonError
from gitbaton.retention.rules import Rules
from gitbaton.retention.threads import Part, Plan, apply, broken, plan, weighed
from gitbaton.threads.reports import Facts, facts, missing
from gitbaton.threads.store import ThreadStore
from gitbaton.threads.values import Entry

_Key = tuple[str, str, str]  # of a checkpoint: its thread, its namespace, its id


def prune(ctx: typer.Context, threads: Sequence[str], rules: Rules, *, ask: bool, dry_run: bool, json: bool) -> int:
    """Remove, or only say what would be removed."""
    with opened(ctx, dry_run=dry_run, door=None) as baton, store_of(baton) as store:
        if store is None:
            if threads:
                raise missing(threads[0], {})
            made, told = Plan(parts=(), bytes=0), {}
        else:
            names = {thread for thread, _ in store.chains()}
            wanted = [meant(thread, names) for thread in threads]
            made = plan(store, wanted, rules)
            told = dict[_Key, Facts]()

            def show(made: Plan) -> None:
                told.update(_facts(store, made))
                laid_out(ctx, baton, planned(weighed(store, baton.repo, made), told), json=json)

            def carry_out(made: Plan) -> Plan:
                try:
                    return apply(store, made)
                except BatonError:
                    left = broken(store, made)
                    if not left:
                        raise
                return apply(store, plan(store, wanted, rules, left))

            if ask and not made.empty:
                made = consented(made, lambda: plan(store, wanted, rules), show, carry_out, "remove them?")
            else:
                told |= _facts(store, made) if json or dry_run else {}
                made = weighed(store, baton.repo, made) if dry_run else carry_out(made)
        if json:
            print_json(document(made, told, dry_run=dry_run))
        else:
            with paged(ctx, baton):
                for text in planned(made, told) if dry_run else done(made):
                    terminal.say(text)
    return 0 if told_apart(made.broken) else 1


def _facts(store: ThreadStore, made: Plan) -> dict[_Key, Facts]:
    every = [(part, entry) for part in made.parts for entry in (*(entry for entry, _ in part.keep), *part.remove)]
    return {_key(part, entry): facts(store, entry) for part, entry in every}


def _key(part: Part, entry: Entry) -> _Key:
    return part.thread, part.namespace, entry.id


def _named(part: Part) -> str:
    return f"thread '{name(part.thread)}'" + (f" namespace '{name(part.namespace)}'" if part.namespace else "")


def planned(made: Plan, told: dict[_Key, Facts]) -> Iterator[str]:
    """What would stay and go, one line each, and what that would free."""
    for part in made.parts:
        yield f"{_named(part)}: {counted(len(part.remove), 'checkpoint')} to remove, {len(part.keep)} to keep"
        for entry, reasons in part.keep:
            yield f"keep {_said(part, entry, told)}: {', '.join(reasons)}"
        for entry in part.remove:
            yield f"remove {_said(part, entry, told)}"
    yield (
        f"about {amount(made.bytes or 0)} would be free once git has collected garbage"
        if not made.empty
        else "nothing to remove"
    )


def _said(part: Part, entry: Entry, told: dict[_Key, Facts]) -> str:
    known = told[_key(part, entry)]
    return f"{name(entry.id)} {known.source} {known.step}".rstrip()


def done(made: Plan) -> Iterator[str]:
    """What was removed."""
    for part in made.parts:
        if part.remove:
            yield f"{_named(part)}: {counted(len(part.remove), 'checkpoint')} removed, {len(part.keep)} kept"
    if made.empty:
        yield "nothing to remove"
    else:
        yield "their bytes are free once git has collected garbage; 'git gc' does, in its own time"


def document(made: Plan, told: dict[_Key, Facts], *, dry_run: bool) -> dict[str, Json]:
    """The JSON of a plan, carried out or not."""
    rows: list[Json] = []
    for part in made.parts:
        kept: list[Json] = [{**_row(part, entry, told), "reasons": [*reasons]} for entry, reasons in part.keep]
        gone: list[Json] = [_row(part, entry, told) for entry in part.remove]
        rows.append({"thread": part.thread, "namespace": part.namespace, "keep": kept, "remove": gone})
    return {"dry_run": dry_run, "threads": rows, "bytes": made.bytes, "broken": apart_document(made.broken)}


def _row(part: Part, entry: Entry, told: dict[_Key, Facts]) -> dict[str, Json]:
    known = told[_key(part, entry)]
    return {"id": entry.id, "ts": timestamp(known.ts) if known.ts is not None else None}
