"""Threads of LangGraph (thread, prune, scan): opening their store, names as typed and shown, what was only fetched."""

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.cli.common import opened
from gitbaton.cli.options import Argument, Call, Option
from gitbaton.codec import Json, in_quotes, is_hidden, plain, timestamp
from gitbaton.errors import BatonError
from gitbaton.store.provenance import LINES, of_thread
from gitbaton.store.refs import REMOTES, THREADS, remote_of, remote_ref
from gitbaton.threads.chain import Chain, Late, named
from gitbaton.threads.codec import Entry
from gitbaton.threads.health import reader
from gitbaton.threads.health import unusable as reason
from gitbaton.threads.names import LATE, Cut, cut, late_ref, names_of, ref_of
from gitbaton.threads.reports import Facts, chosen, missing
from gitbaton.threads.store import ThreadStore

AThread = Annotated[str, Argument(metavar="THREAD", help="The thread's id, as 'git baton thread list' shows it.")]
Namespace = Annotated[Optional[str], Option("--ns", metavar="NS", help="A namespace: that of a subgraph (the root's).")]
EXTRA = "pip install 'gitbaton[langgraph]' shows values"
MOST = 200  # characters of a name
WAITS = "! waits at an interrupt"
_SHELL = re.compile(r"""^\Z|[\s"'\\$`*?\[\]{}()<>|&;~#!]""")
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r", '"': r"\"", "\\": r"\\"}


@contextmanager
def store_of(baton: Baton) -> Iterator[Optional[ThreadStore]]:
    """The threads of a repository, what a killed process left in the log among them; None where there are none at all, and
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
def place_of(ctx: Call, thread: str, namespace: Optional[str]) -> Iterator[tuple[Baton, ThreadStore, tuple[str, str]]]:
    """The repository, its threads, and the thread and namespace that somebody typed. Raises NotFoundError."""
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
    """Those of some threads and namespaces that came from elsewhere: git has them, and no program of here has put into them."""
    refs = baton.repo.objects.refs(THREADS)
    return {at for at in places if (ref := ref_of(*at)) in refs and not baton.store.ours.has(LINES, of_thread(ref))}


def remotes_of(baton: Baton) -> dict[str, list[str]]:
    """The remotes that have each thread, as they were fetched."""
    return {place[0]: remotes for place, remotes in fetched(baton).items()}


def fetched(baton: Baton) -> dict[tuple[str, str], list[str]]:
    """The threads and namespaces that were fetched, each with the remotes that have it."""
    found: dict[tuple[str, str], list[str]] = {}
    read, algorithm = reader(baton.repo.objects), baton.repo.layout.algorithm
    for ref, oid in baton.repo.objects.refs(REMOTES).items():
        remote, rest = remote_of(ref) or ("", "")
        place = names_of(f"refs/baton/{rest}") if rest.startswith("threads/") else None
        if place is not None:
            with suppress(BatonError):
                place = named(place, Chain(read, algorithm, bytes.fromhex(oid)).head()) if cut(rest) else place
            found.setdefault(place, []).append(remote)
    return found


def listed(text: str) -> str:
    """A thread's or namespace's name in a list, to be typed from it: C-quoted, as git quotes a path, where a shell would not
    leave it as it is. On a terminal a long one is cut."""
    text = _quoted(text)
    return text if len(text) <= MOST or not sys.stdout.isatty() else text[:MOST] + "..."


def meant(text: str, names: Collection[str]) -> str:
    """The one of these names that somebody typed, who may have copied it from a list; what was typed, where it is none."""
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
    """A thread's, namespace's or channel's name for people."""
    return plain(text if len(text) <= MOST else text[:MOST] + "...")


def said_document(told: Facts) -> dict[str, Json]:
    """The JSON of what a checkpoint says of itself: when it was made, by what, and in which step."""
    ts, step = told.ts, told.metadata.get("step")
    when = timestamp(ts) if ts is not None else None
    return {"ts": when, "source": told.source or None, "step": step if isinstance(step, int) else None}


def unusable(baton: Baton, place: tuple[str, str], remote: str) -> str:
    """Why nobody can use a thread that was fetched from a remote; empty where all is well."""
    objects, algorithm = baton.repo.objects, baton.repo.layout.algorithm
    ends = (remote_ref(remote, ref(*place).removeprefix("refs/baton/")) for ref in (ref_of, late_ref))
    tip, late = (bytes.fromhex(found.oid) if found is not None else None for found in map(objects.info, ends))
    return reason(Chain(reader(objects), algorithm, tip), Late(reader(objects), algorithm, late))


def commit_of(entry: Entry) -> Optional[str]:
    """The commit of a checkpoint; None while git does not hold it."""
    return entry.commit.hex() if entry.commit is not None else None
