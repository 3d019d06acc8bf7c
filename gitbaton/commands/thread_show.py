"""``git baton thread show``."""

import re
from collections.abc import Iterator
from json import dumps
from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.cli.common import AsJson, paged, picked
from gitbaton.cli.look import Look
from gitbaton.cli.options import Argument, Call
from gitbaton.commands.retaining import amount
from gitbaton.commands.threads import EXTRA, AThread, Namespace, commit_of, name, place_of, said_document
from gitbaton.render import key_value
from gitbaton.threads.decoding import SCREEN, WHOLE, Doc, flat, pretty
from gitbaton.threads.reports import Content, Shown, content, resolve

_VERSION = re.compile(r"0*([0-9]+)\.[0-9]\.?[0-9]*\Z")  # 0...04.0.7597: the rest tells versions of one number apart
_TOLD = ("source", "step", "run_id")


def command(
    ctx: Call,
    thread: AThread,
    checkpoint: Annotated[
        Optional[str], Argument(metavar="[CHECKPOINT]", help="Default: the newest.", show_default=False)
    ] = None,
    namespace: Namespace = None,
    json: AsJson = False,
) -> int:
    """Show a checkpoint of a thread: its metadata, the values of its channels, and the writes of tasks that wait.

    CHECKPOINT is an id or its first four or more characters, @~3 (three before the newest), or a commit of the thread's chain.
    Nothing that was stored is executed or constructed; pickled and encrypted values are named and not opened.

    Examples:
        git baton thread show demo
        git baton thread show demo @~1 --json
    """
    with place_of(ctx, thread, namespace) as (baton, store, place):
        entry = resolve(store, *place, checkpoint if checkpoint is not None else "@")
        found = content(store, place, entry, WHOLE if json else SCREEN, baton.redactor)
        if json:
            entry, told = found.entry, found.facts
            head = {
                "v": 1,
                "thread": place[0],
                "namespace": place[1],
                **picked(entry, "id", "parent"),
                "commit": commit_of(entry),
            }
            channels = [{**_stored(shown, "name"), "version": told.version(shown.name) or None} for shown in found.channels]
            writes = [
                {"task_path": path, "task_id": task, "index": shown.index, **_stored(shown, "channel")}
                for path, task, shown_of in found.tasks
                for shown in shown_of
            ]
            ts = said_document(told)["ts"]
            whole = {**head, "ts": ts, "metadata": found.metadata, "channels": channels, "writes": writes}
            terminal.write(dumps(whole, indent=2, allow_nan=False) + "\n")
            return 0
        with paged(ctx, baton) as look:
            for text in _shown(found, place, look):
                terminal.say(text)
        if found.unread:
            terminal.tell(f"hint: {EXTRA}")
    return 0


def _shown(found: Content, place: tuple[str, str], look: Look) -> Iterator[str]:
    """The lines of a checkpoint."""
    entry, told = found.entry, found.facts
    yield look.paint(f"checkpoint {name(entry.id)}", "id")
    when = look.beside(told.ts) if told.ts is not None else ""
    pairs = [("thread", name(place[0])), ("namespace", name(place[1])), ("parent", name(entry.parent or ""))]
    pairs += [("commit", commit_of(entry) or "not yet in git"), ("created", when)]
    for key, text in pairs:
        yield key_value(key, text)
    for key, doc in found.metadata.items():
        called = key if key in _TOLD else f"metadata.{name(key)}"
        yield key_value(called, doc if isinstance(doc, str) and doc.isprintable() else flat(doc))
    yield f"channels={len(found.channels)}"
    for shown in found.channels:
        version = _VERSION.sub(r"\1", told.version(shown.name))
        yield from _value(shown, f"version {version}" if version else "")
    yield f"writes={sum(len(writes) for _, _, writes in found.tasks)}"
    for path, task, writes in found.tasks:
        yield f"  task {name(task)}{f' {name(path)}' if path else ''}"
        for shown in writes:
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
