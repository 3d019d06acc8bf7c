"""``git baton thread``."""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from json import dumps
from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, counted, plain, timestamp
from gitbaton.commands.columns import padded, width
from gitbaton.commands.common import AsJson, opened, paged, picked, print_json
from gitbaton.commands.options import Argument, Call, Option
from gitbaton.commands.retaining import amount
from gitbaton.commands.threading import EXTRA, fetched, meant, name, said_document, store_of
from gitbaton.errors import BatonError, UsageError
from gitbaton.render import age, in_shell, key_value
from gitbaton.threads.decoding import SCREEN, WHOLE, Doc, flat, pretty
from gitbaton.threads.reports import Content, Facts, Shown, Step, chosen, content, missing, resolve, steps
from gitbaton.threads.store import ThreadStore
from gitbaton.threads.values import Entry

_VERSION = re.compile(r"0*([0-9]+)\.[0-9]\.?[0-9]*\Z")  # 0...04.0.7597: the rest tells versions of one number apart
_TOLD = ("source", "step", "run_id")
Paint = Callable[[str, Optional[str]], str]


def command(
    ctx: Call,
    action: Annotated[
        str, Argument(metavar="show|log|delete", help="Show one checkpoint; list them, newest first; delete all.")
    ],
    thread: Annotated[str, Argument(metavar="THREAD", help="The thread's id, as 'git baton threads' lists it.")],
    checkpoint: Annotated[
        Optional[str], Argument(metavar="[CHECKPOINT]", help="show: default: the newest.", show_default=False)
    ] = None,
    namespace: Annotated[
        Optional[str], Option("--ns", metavar="NS", help="A namespace: that of a subgraph (the root's).")
    ] = None,
    limit: Annotated[Optional[int], Option("-n", "--max-count", metavar="N", min=0, help="log: list at most N.")] = None,
    json: AsJson = False,
) -> int:
    """Show a checkpoint of a thread of LangGraph, list a thread's checkpoints, or delete it in all namespaces.

    CHECKPOINT is an id or its first four or more characters, @~3 (three before the newest), or a commit of the thread's chain.
    Nothing that was stored is executed or constructed; pickled and encrypted values are named and not opened.
    """
    _check(action, thread, checkpoint, namespace, limit)
    with opened(ctx, door=None) as baton, store_of(baton) as store:
        elsewhere = {place[0]: remotes for place, remotes in fetched(baton).items()}
        if store is None:
            raise missing(thread, elsewhere)
        names = {found for place in store.chains() for found in place}
        thread, namespace = meant(thread, names), namespace if namespace is None else meant(namespace, names)
        if action == "delete":
            _delete(store, thread, elsewhere, json=json)
            return 0
        place = chosen(store, thread, namespace, elsewhere)
        if action == "log":
            _log(ctx, baton, steps(store, *place, limit), place, json=json)
            return 0
        entry = resolve(store, *place, checkpoint if checkpoint is not None else "@")
        found = content(store, place, entry, WHOLE if json else SCREEN, baton.redactor)
        _show(ctx, baton, found, place, json=json)
    return 0


def _check(action: str, thread: str, checkpoint: Optional[str], namespace: Optional[str], limit: Optional[int]) -> None:
    """Refuse what does not go together."""
    if action not in ("show", "log", "delete"):
        raise UsageError(f"'{plain(action)}' is not understood; it can be 'show', 'log' or 'delete'")
    if action != "show" and checkpoint is not None:
        hint = f"to show that checkpoint: git baton thread show {in_shell(thread)} {in_shell(checkpoint)}"
        raise UsageError(f"unexpected argument '{plain(checkpoint)}'", hint)
    if action != "log" and limit is not None:
        raise UsageError(f"--max-count does not go with '{action}'")
    if action == "delete" and namespace is not None:
        raise UsageError("--ns does not go with 'delete': a thread goes as a whole")


def _delete(store: ThreadStore, thread: str, elsewhere: dict[str, list[str]], *, json: bool) -> None:
    places = store.chains(thread)
    if not places:
        raise missing(thread, elsewhere, {found for found, _ in store.chains()})
    count = 0
    for place in places:
        with suppress(BatonError):  # what cannot be read goes as well
            count += sum(1 for _ in store.walk(*place))
    store.delete(thread)
    remotes = sorted(elsewhere.get(thread, ()))
    if json:
        there: list[Json] = [*remotes]
        print_json({"thread": thread, "deleted": count, "remotes": there})
        return
    terminal.say(f"thread '{name(thread)}' deleted: {counted(count, 'checkpoint')}")
    for remote in remotes:
        terminal.tell(
            f"hint: '{name(remote)}' may have it still; 'git baton push --threads --prune {in_shell(remote)}' deletes it there"
        )


def _show(ctx: Call, baton: Baton, found: Content, place: tuple[str, str], *, json: bool) -> None:
    if json:
        entry, told = found.entry, found.facts
        head = {"v": 1, "thread": place[0], "namespace": place[1], **picked(entry, "id", "parent"), "commit": _commit(entry)}
        channels = [{**_stored(shown, "name"), "version": told.version(shown.name) or None} for shown in found.channels]
        writes = [
            {"task_path": task.path, "task_id": task.id, "index": shown.index, **_stored(shown, "channel")}
            for task in found.tasks
            for shown in task.writes
        ]
        ts = said_document(told)["ts"]
        whole = {**head, "ts": ts, "metadata": found.metadata, "channels": channels, "writes": writes}
        terminal.write(dumps(whole, indent=2, allow_nan=False) + "\n")
        return
    with paged(ctx, baton) as paint:
        for text in _shown(baton, found, place, paint):
            terminal.say(text)
    if found.unread:
        terminal.tell(f"hint: {EXTRA}")


def _log(ctx: Call, baton: Baton, rows: list[Step], place: tuple[str, str], *, json: bool) -> None:
    if json:
        listed: list[Json] = []
        for step in rows:
            row = {**picked(step.entry, "id", "parent"), "commit": _commit(step.entry), **said_document(step.facts)}
            row |= {"run_id": step.facts.run or None, "changed": [*step.changed], "writes": step.writes}
            listed.append({**row, "interrupt": step.waits, "fork": step.fork})
        print_json({"thread": place[0], "namespace": place[1], "checkpoints": listed})
        return
    cells = [(_ago(baton, step.facts), f"{step.facts.source or '?'} {step.facts.step}".rstrip()) for step in rows]
    wide = [max((width(cell[number]) for cell in cells), default=0) for number in (0, 1)]
    with paged(ctx, baton) as paint:
        for step, (ago, made) in zip(rows, cells, strict=True):
            words = [paint(name(step.entry.id), "id"), padded(ago, wide[0], right=True), padded(made, wide[1], right=False)]
            words += [", ".join(map(name, step.changed))] if step.changed else []
            words += [counted(step.writes, "write")] if step.writes else []
            words += [paint("waits at an interrupt", "pending")] if step.waits else []
            words += [f"run {step.facts.run}"] if step.facts.run else []
            parent = f"{name(step.entry.parent or '')}{', which is not here' if step.gone else ''}"
            words += [paint(f"(from {parent})", "drift")] if step.fork else []
            terminal.say("  ".join(words).rstrip())


def _commit(entry: Entry) -> Optional[str]:
    return entry.commit.hex() if entry.commit is not None else None


def _ago(baton: Baton, told: Facts) -> str:
    return age(told.ts, baton.clock()) if told.ts is not None else "?"


def _shown(baton: Baton, found: Content, place: tuple[str, str], paint: Paint) -> Iterator[str]:
    """The lines of a checkpoint."""
    entry, told = found.entry, found.facts
    yield paint(f"checkpoint {name(entry.id)}", "id")
    when = f"{timestamp(told.ts)} ({_ago(baton, told)})" if told.ts is not None else ""
    pairs = [("thread", name(place[0])), ("namespace", name(place[1])), ("parent", name(entry.parent or ""))]
    pairs += [("commit", _commit(entry) or "not yet in git"), ("created", when)]
    for key, text in pairs:
        yield key_value(key, text)
    for key, doc in found.metadata.items():
        called = key if key in _TOLD else f"metadata.{name(key)}"
        yield key_value(called, doc if isinstance(doc, str) and doc.isprintable() else flat(doc))
    yield f"channels={len(found.channels)}"
    for shown in found.channels:
        version = _VERSION.sub(r"\1", told.version(shown.name))
        yield from _value(shown, f"version {version}" if version else "")
    yield f"writes={sum(len(task.writes) for task in found.tasks)}"
    for task in found.tasks:
        yield f"  task {name(task.id)}{f' {name(task.path)}' if task.path else ''}"
        for shown in task.writes:
            yield from _value(shown, f"index {shown.index}", "    ")


def _value(shown: Shown, more: str, indent: str = "  ") -> Iterator[str]:
    """A value: its name, and the value or why there is none, then its type and size."""
    what = ", ".join(part for part in (name(shown.kind), amount(shown.size), more, shown.why) if part)
    yield f"{indent}{name(shown.name)} ({what})"
    if not shown.why:
        yield from (f"{indent}  {row}" for row in pretty(shown.doc))


def _stored(shown: Shown, called: str) -> dict[str, Doc]:
    held: dict[str, Doc] = {"value": shown.doc} if not shown.why else {"why": shown.why}
    return {called: shown.name, "type": shown.kind, "size": shown.size, **held}
