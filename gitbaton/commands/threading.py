"""Threads of LangGraph (threads, thread, prune, scan): opening their store, names as typed and shown, what was only fetched."""

import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Optional

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, plain, timestamp
from gitbaton.errors import BatonError
from gitbaton.store.refs import REMOTES, THREADS, remote_of, remote_ref
from gitbaton.threads.chain import Chain
from gitbaton.threads.commits import named
from gitbaton.threads.health import reader
from gitbaton.threads.names import Cut, cut, late_ref, names_of, ref_of
from gitbaton.threads.reports import Facts
from gitbaton.threads.store import ThreadStore

EXTRA = "pip install 'gitbaton[langgraph]' shows values"
MOST = 200  # characters of a name
_SHELL = re.compile(r"""^\Z|[\s"'\\$`*?\[\]{}()<>|&;~#!]""")
_ESCAPES = {"\a": r"\a", "\b": r"\b", "\t": r"\t", "\n": r"\n", "\v": r"\v", "\f": r"\f", "\r": r"\r", '"': r"\"", "\\": r"\\"}


@contextmanager
def store_of(baton: Baton) -> Iterator[Optional[ThreadStore]]:
    """The threads of a repository, what a killed process left in the log among them; None where there are none at all, and
    then nothing is made. That the log cannot be brought into git in the end is a warning."""
    if not os.path.isdir(os.path.join(baton.repo.shared_dir, "wal")) and not baton.repo.objects.refs(THREADS):
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
    if text.isprintable() and not _SHELL.search(text):
        return text
    octal = {c: "".join(f"\\{byte:03o}" for byte in c.encode("utf-8", "surrogatepass")) for c in text if not c.isprintable()}
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
    from gitbaton.sync.threeway import Place, Side, broken

    objects = baton.repo.objects
    ends = (remote_ref(remote, ref(*place).removeprefix("refs/baton/")) for ref in (ref_of, late_ref))
    tip, late = (found.oid if found is not None else None for found in map(objects.info, ends))
    return broken(Side(reader(objects), baton.repo.layout.algorithm, Place(tip=tip, late=late)))
