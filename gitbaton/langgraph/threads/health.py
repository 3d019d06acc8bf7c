"""Health of threads, read-only: chains that cannot be read, and a log that no process brings into git."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, GitError, RecordError
from gitbaton.base.model import Oid
from gitbaton.base.values import value
from gitbaton.git import objectlists
from gitbaton.git.objects import LARGEST, Algorithm, Kind, Objects, check_size
from gitbaton.git.repo import Repo
from gitbaton.langgraph.threads import logfile
from gitbaton.langgraph.threads.chain import LateWrites, ThreadChain, named
from gitbaton.langgraph.threads.codec import Id, Put, ThreadCheckpoint, decode, loads, typed_of
from gitbaton.langgraph.threads.names import LATE, THREADS, Cut, late_ref, names_of, ref_of


@value
class CheckedRef:
    """Check of a thread's ref: how many checkpoints its chain has, and why it cannot be read; empty where it can."""

    ref: str
    thread: str
    namespace: str
    count: int
    wrong: str


def checked(objects: Objects, algorithm: Algorithm, refs: Mapping[str, Oid]) -> Iterator[CheckedRef]:
    """Read every chain and all late writes whole."""
    read = reader(objects)
    for ref, oid in sorted(refs.items()):
        names = names_of(ref)
        if names is None:
            continue
        count, wrong = 0, ""
        try:
            if ref.startswith(THREADS):
                chain = ThreadChain(read, algorithm, bytes.fromhex(oid))
                count, names = len(chain.verify()), named(names, chain.head())
                wrong = "it does not say its name" if any(isinstance(name, Cut) for name in names) else ""
            elif ref.startswith(LATE):
                late = LateWrites(read, algorithm, bytes.fromhex(oid))
                for id in list(late.ids()):
                    late.of(id)
        except BatonError as error:
            wrong = error.message
        yield CheckedRef(ref=ref, thread=names[0], namespace=names[1], count=count, wrong=wrong)


def wrong(repo: Repo, place: tuple[str, str] | None = None) -> dict[str, str]:
    """Return the refs of threads that hold no id, each with why; of one namespace those that lead to what cannot be read,
    too."""
    prefixes = (THREADS, LATE) if place is None else (ref_of(*place), late_ref(*place))
    refs = objectlists.all_refs(repo, *prefixes)
    found = {ref: "it holds no id" for ref, oid in refs.items() if not oid.strip("0")}
    rest = {ref: oid for ref, oid in refs.items() if ref not in found and place is not None}
    found |= {row.ref: row.wrong for row in checked(repo.objects, repo.layout.algorithm, rest) if row.wrong}
    for ref, oid in rest.items():
        why = objectlists.unreadable(repo, [oid]) if ref not in found else ""
        found |= {ref: why} if why else {}
    return found


def reader(objects: Objects) -> Callable[[Id], tuple[Kind, bytes]]:
    """Return a function that reads objects for chains and late writes."""

    def read(oid: Id) -> tuple[Kind, bytes]:
        found = objects.read(oid.hex(), LARGEST)
        if found is not None:
            check_size(found.oid, found.kind, found.size)
        if found is None or found.data is None:
            raise GitError(f"object {oid.hex()} is missing or cannot be read")
        return found.kind, found.data

    return read


def unusable(chain: ThreadChain, late: LateWrites, *known: ThreadChain) -> str:
    """Return why a chain and the writes beside it cannot be used; empty where everything is as we write it. Only what ``known``
    chains lack is read, with all that it holds."""
    try:
        found, seen = chain.verify(*known), set[Id]()
        for entry in found:
            if entry.names != found[0].names:
                return f"checkpoint {in_quotes(entry.id[:100])} is of a thread with another name"
            _look(chain, entry)
            for oid in {*entry.channels.values()} - seen:
                typed_of(chain.blob(oid))
                seen.add(oid)
            chain.rows(entry)
        for id in late.ids():
            late.of(id)
    except BatonError as error:
        return error.message
    return ""


def _look(chain: ThreadChain, entry: ThreadCheckpoint) -> None:
    """Raise RecordError where a saver would refuse what a checkpoint says of itself. What is encrypted only it can open."""
    from gitbaton.langgraph.threads.decoding import opaque, opened, readable

    for kind, text in (("ck", entry.ck), ("md", entry.md)):
        found: object = loads(text) if text else None
        if not text:
            typed = typed_of(chain.blob(entry.rest[kind]))
            if opaque(typed[0]) or (typed[0] == "msgpack" and not readable()):
                continue
            try:
                found = opened(typed)
            except ValueError as error:
                raise RecordError(f"checkpoint '{entry.id[:100]}' is {error}") from None
        if not isinstance(found, dict):
            place = "content" if kind == "ck" else "metadata"
            raise RecordError(f"checkpoint '{entry.id[:100]}' holds no JSON object where its {place} should be")
        if kind == "ck" and found.get("id") != entry.id:
            raise RecordError(f"checkpoint '{entry.id[:100]}' says that it is another")


def waiting(folder: str) -> int:
    """Count the records in the log in a folder, of processes that live or not."""
    try:
        return len(_records(folder))
    except (BatonError, OSError):
        return 0


def stuck(folder: str, objects: Objects) -> dict[str, str]:
    """Return the threads of which the log in a folder has a checkpoint that cannot be brought into git, and why: it holds a
    value of the one before it that is neither in the log nor in git."""
    puts, held = list[Put](), set[Id]()
    with suppress(BatonError, OSError):  # what is wrong with the log itself is said by whoever opens it
        for record in map(decode, _records(folder)):
            if isinstance(record, Put):
                puts.append(record)
                held.update(record.blobs)
    needed = {oid: put.thread for put in puts for oid in put.entry.channels.values() if oid not in held}
    there = objects.read_many([oid.hex() for oid in needed], 0)
    missing = [oid for oid, found in zip(needed, there, strict=True) if found is None]
    return {needed[oid]: f"object {oid.hex()} is missing" for oid in missing}


def _records(folder: str) -> list[bytes]:
    return [*logfile.old_records(folder), *(raw for raw in logfile.records(os.path.join(folder, "log")) if raw != logfile.BUMP)]
