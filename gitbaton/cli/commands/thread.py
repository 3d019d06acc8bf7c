"""``git baton thread``: LangGraph's threads; opening their store, names as typed and shown, what was only fetched."""

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from json import dumps
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, is_hidden, plain, timestamp
from gitbaton.base.errors import BatonError, NoAnswerError
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, key_value
from gitbaton.checkpoints.store.provenance import LINES, of_thread
from gitbaton.checkpoints.store.refs import REMOTES, THREADS, remote_of, remote_ref
from gitbaton.cli.common import AsJson, amount, askable, confirmed, opened, paged, picked, print_json
from gitbaton.cli.look import Column, Look
from gitbaton.cli.options import Argument, Invocation, Option
from gitbaton.langgraph.threads import health
from gitbaton.langgraph.threads.chain import LateWrites, ThreadChain, named
from gitbaton.langgraph.threads.codec import ThreadCheckpoint
from gitbaton.langgraph.threads.decoding import SCREEN, WHOLE, Doc, flat, pretty
from gitbaton.langgraph.threads.names import LATE, Cut, cut, late_ref, names_of, ref_of
from gitbaton.langgraph.threads.reports import (
    CheckpointFacts,
    Content,
    ShownValue,
    chosen,
    content,
    joins,
    missing,
    resolve,
    steps,
    threads,
)
from gitbaton.langgraph.threads.store import ThreadStore

AThread = Annotated[str, Argument(metavar="THREAD", help="The thread's id, as 'git baton thread list' shows it.")]
Namespace = Annotated[Optional[str], Option("--ns", metavar="NS", help="A namespace: that of a subgraph (the root's).")]
MOST = 200  # characters of a name
WAITS = "! waits at an interrupt"
_SHELL = re.compile(r"""^\Z|[\s"'\\$`*?\[\]{}()<>|&;~#!]""")
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r", '"': r"\"", "\\": r"\\"}


@contextmanager
def store_of(baton: Baton) -> Iterator[Optional[ThreadStore]]:
    """Open the threads of a repository, what a killed process left in the log among them; None where there are none at all, and
    then nothing is made. That the log cannot be brought into git in the end is a warning."""
    if not os.path.isdir(os.path.join(baton.repo.shared_dir, "wal")) and not baton.repo.objects.refs(THREADS, LATE):
        yield None
        return
    store = ThreadStore(baton.repo)
    try:
        yield store
    except BaseException:
        with suppress(BatonError):
            store.close()
        raise
    try:
        store.close()
    except BatonError as error:
        terminal.warn(f"git does not hold all of it, the log does: {plain(error.message)}")


@contextmanager
def place_of(ctx: Invocation, thread: str, namespace: Optional[str]) -> Iterator[tuple[Baton, ThreadStore, tuple[str, str]]]:
    """Open the repository, its threads, and the thread and namespace that were typed. Raises NotFoundError."""
    with opened(ctx, door=None) as baton, store_of(baton) as store:
        elsewhere = remotes_of(baton)
        if store is None:
            raise missing(thread, elsewhere)
        names = {found for place in store.chains() for found in place}
        namespace = namespace if namespace is None else meant(namespace, names)
        found = chosen(store, meant(thread, names), namespace, elsewhere)
        if foreign(baton, [found]):
            terminal.tell(f"thread {in_quotes(found[0])} is foreign: it came from elsewhere")
        yield baton, store, found


def foreign(baton: Baton, places: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the threads and namespaces of some that came from elsewhere: git has them, and no program of here has put into
    them."""
    refs = baton.repo.objects.refs(THREADS)
    return {at for at in places if (ref := ref_of(*at)) in refs and not baton.store.ours.has(LINES, of_thread(ref))}


def remotes_of(baton: Baton) -> dict[str, list[str]]:
    """Return the remotes that have each thread, as they were fetched."""
    return {place[0]: remotes for place, remotes in fetched(baton).items()}


def fetched(baton: Baton) -> dict[tuple[str, str], list[str]]:
    """Return the threads and namespaces that were fetched, each with the remotes that have it."""
    found: dict[tuple[str, str], list[str]] = {}
    read, algorithm = health.reader(baton.repo.objects), baton.repo.layout.algorithm
    for ref, oid in baton.repo.objects.refs(REMOTES).items():
        remote, rest = remote_of(ref) or ("", "")
        place = names_of(f"refs/baton/{rest}") if rest.startswith("threads/") else None
        if place is not None:
            with suppress(BatonError):
                place = named(place, ThreadChain(read, algorithm, bytes.fromhex(oid)).head()) if cut(rest) else place
            found.setdefault(place, []).append(remote)
    return found


def listed(text: str) -> str:
    """Quote a thread's or namespace's name for a list, to be typed from it: C-quoted, as git quotes a path, where a shell would
    not leave it as it is. On a terminal a long one is cut."""
    text = _quoted(text)
    return text if len(text) <= MOST or not sys.stdout.isatty() else text[:MOST] + "..."


def meant(text: str, names: Collection[str]) -> str:
    """Return the one of these names that was typed, perhaps as a list quotes it; the typed text, where it is none."""
    if text in names or not text.startswith('"'):
        return text
    return next((name for name in names if not isinstance(name, Cut) and _quoted(name) == text), text)


def _quoted(text: str) -> str:
    odd = {c for c in text if not c.isprintable() or is_hidden(c)}
    if not odd and not _SHELL.search(text):
        return text
    octal = {c: "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass")) for c in odd}
    return '"' + "".join(_ESCAPES.get(c) or octal.get(c, c) for c in text) + '"'


def name(text: str) -> str:
    """Return a thread's, namespace's or channel's name for people."""
    return plain(text if len(text) <= MOST else text[:MOST] + "...")


def said_document(told: CheckpointFacts) -> dict[str, Json]:
    """Return the JSON of a checkpoint's own facts: when it was made, by what, and in which step."""
    ts, step = told.ts, told.metadata.get("step")
    when = timestamp(ts) if ts is not None else None
    return {"ts": when, "source": told.source or None, "step": step if isinstance(step, int) else None}


def unusable(baton: Baton, place: tuple[str, str], remote: str) -> str:
    """Return why a thread that was fetched from a remote is unusable; empty where all is well."""
    objects, read, algorithm = baton.repo.objects, health.reader(baton.repo.objects), baton.repo.layout.algorithm
    ends = (remote_ref(remote, ref(*place).removeprefix("refs/baton/")) for ref in (ref_of, late_ref))
    tip, late = (bytes.fromhex(found.oid) if found is not None else None for found in map(objects.info, ends))
    return health.unusable(ThreadChain(read, algorithm, tip), LateWrites(read, algorithm, late))


def commit_of(entry: ThreadCheckpoint) -> Optional[str]:
    """Return the commit of a checkpoint; None while git does not hold it."""
    return entry.commit.hex() if entry.commit is not None else None


_CHECKED = 50  # threads that were only fetched, and are looked through before anything is promised of them


def list_threads(ctx: Invocation, json: AsJson = False) -> int:
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
            there = [
                {
                    **picked(row, "thread", "namespace"),
                    "checkpoints": row.count,
                    "newest": row.newest.id,
                    **({"foreign": True} if (row.thread, row.namespace) in strange else {}),
                    **said_document(row.facts),
                    "interrupt": row.waits,
                }
                for row in rows
            ]
            more = [{"thread": thread, "namespace": space, "remotes": names} for (thread, space), names in elsewhere.items()]
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
                terminal.say_lines(look.table((Column(), Column(right=True, goes=1), Column(goes=2), Column()), cells))
                there_only = []
                for number, ((thread, space), remotes) in enumerate(elsewhere.items()):
                    why = unusable(baton, (thread, space), remotes[0]) if number < _CHECKED else ""
                    said = f"broken there: {plain(why)}" if why else joins(remotes[0])
                    named = (("> ", "foreign"), (_named(thread, space), ""))
                    there_only.append((named, f"fetched from {name(', '.join(remotes))} only: {said}"))
                terminal.say_lines(look.table((Column(), Column()), there_only))
    for (thread, space), reason in wrong.items():
        terminal.warn(f"{in_quotes(_named(thread, space))} is left out: {plain(reason)}")
    return 0


def _named(thread: str, namespace: str) -> str:
    return listed(thread) + (f" [{listed(namespace)}]" if namespace else "")


def log_thread(
    ctx: Invocation,
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
            listed = [
                {
                    **picked(step.entry, "id", "parent"),
                    "commit": commit_of(step.entry),
                    **said_document(step.facts),
                    "run_id": step.facts.run or None,
                    "changed": [*step.changed],
                    "writes": step.writes,
                    "interrupt": step.waits,
                    "fork": step.fork,
                }
                for step in rows
            ]
            print_json({"thread": place[0], "namespace": place[1], "checkpoints": listed})
            return 0
        cells = []
        with paged(ctx, baton) as look:
            for step in rows:
                parent = f"{name(step.entry.parent or '')}{', which is not here' if step.gone else ''}"
                facts = (
                    (step.waits, WAITS, "waiting"),
                    (step.fork, f"(from {parent})", "drift"),
                    (step.changed, ", ".join(map(name, step.changed)), ""),
                    (step.writes, counted(step.writes, "write"), ""),
                    (step.facts.run, f"run {step.facts.run}", ""),
                )
                said = tuple(piece for there, *part in facts if there for piece in (("  ", ""), (part[0], part[1])))[1:]
                made = f"{step.facts.source or '?'} {step.facts.step}".rstrip()
                cells.append((((name(step.entry.id), "id"),), look.age(step.facts.ts), made, said))
            terminal.say_lines(look.table((Column(), Column(right=True, goes=1), Column(), Column()), cells))
    return 0


_VERSION = re.compile(r"0*([0-9]+)\.[0-9]\.?[0-9]*\Z")  # 0...04.0.7597: the rest tells versions of one number apart
_TOLD = ("source", "step", "run_id")


def show_thread(
    ctx: Invocation,
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
            channels = [{**_stored(shown, "name"), "version": told.version(shown.name) or None} for shown in found.channels]
            writes = [
                {"task_path": path, "task_id": task, "index": shown.index, **_stored(shown, "channel")}
                for path, task, shown_of in found.tasks
                for shown in shown_of
            ]
            whole = {
                "v": 1,
                "thread": place[0],
                "namespace": place[1],
                **picked(entry, "id", "parent"),
                "commit": commit_of(entry),
                "ts": said_document(told)["ts"],
                "metadata": found.metadata,
                "channels": channels,
                "writes": writes,
            }
            terminal.write(dumps(whole, indent=2, allow_nan=False) + "\n")
            return 0
        with paged(ctx, baton) as look:
            terminal.say_lines(_shown(found, place, look))
        if found.unread:
            from gitbaton.base.system.extras import adding

            terminal.tell(f"hint: to show values: {adding('langgraph')}")
    return 0


def _shown(found: Content, place: tuple[str, str], look: Look) -> Iterator[str]:
    """The lines of a checkpoint."""
    entry, told = found.entry, found.facts
    yield look.paint(f"checkpoint {name(entry.id)}", "id")
    when = look.beside(told.ts) if told.ts is not None else ""
    pairs = (
        ("thread", name(place[0])),
        ("namespace", name(place[1])),
        ("parent", name(entry.parent or "")),
        ("commit", commit_of(entry) or "not yet in git"),
        ("created", when),
    )
    yield from (key_value(*pair) for pair in pairs)
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


def _value(shown: ShownValue, more: str, indent: str = "  ") -> Iterator[str]:
    """A value: its name, and the value or why there is none, then its type and size."""
    what = ", ".join(part for part in (name(shown.kind), amount(shown.size), more, shown.why) if part)
    yield f"{indent}{name(shown.name)} ({what})"
    if not shown.why:
        yield from (f"{indent}  {row}" for row in pretty(shown.doc))


def _stored(shown: ShownValue, called: str) -> dict[str, Doc]:
    held: dict[str, Doc] = {"value": shown.doc} if not shown.why else {"why": shown.why}
    return {called: shown.name, "type": shown.kind, "size": shown.size, **held}


def delete_thread(
    ctx: Invocation,
    thread: AThread,
    yes: Annotated[bool, Option("--yes", "-y", help="On a terminal: do not ask.")] = False,
    json: AsJson = False,
) -> int:
    """Delete a thread in all its namespaces, what cannot be read of it, too.

    On a terminal it asks first, but not with --json. Where a part cannot be read, it says how many checkpoints it has at least.

    A saver's delete_thread does the same; on remotes it stays until a push prunes it there.

    Where a thread was deleted while a run of it went on, what that run has written since goes.

    Examples:
        git baton thread delete demo
    """
    with opened(ctx, door=None) as baton, store_of(baton) as store:
        elsewhere = remotes_of(baton)
        if store is None:
            raise missing(thread, elsewhere)
        thread = meant(thread, {found for place in store.chains() for found in place})
        places = store.chains(thread)
        if not places and not store.remains(thread):
            raise missing(thread, elsewhere, {found for found, _ in store.chains()})
        count, least = 0, ""
        for place in places:
            try:
                for _ in store.walk(*place):
                    count += 1
            except BatonError:  # what cannot be read goes as well
                least = "at least "
        what = least + counted(count, "checkpoint") if places else "writes but no checkpoint"
        if not (yes or json) and askable() and not confirmed(f"delete thread {in_quotes(name(thread))} with {what}?"):
            raise NoAnswerError("nothing is deleted")
        store.delete(thread)
        remotes = sorted(elsewhere.get(thread, ()))
        if json:
            print_json({"thread": thread, "deleted": count, **({"complete": False} if least else {}), "remotes": remotes})
            return 0
        terminal.say(f"thread {in_quotes(name(thread))} deleted: {what}")
        for remote in remotes:
            there_too = f"'git baton push --threads --prune {in_shell(remote)}' deletes it there"
            terminal.tell(f"hint: {in_quotes(name(remote))} may have it still; {there_too}")
    return 0
