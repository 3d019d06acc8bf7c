"""Reading the chain of a run: every commit is held against the format before anything of it is used."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from gitbaton.codec import plain
from gitbaton.codec.text import MAX_BYTES
from gitbaton.errors import RecordError
from gitbaton.git.objects import MAX_READ, Object, Objects, parse_commit, parse_tree
from gitbaton.journal.codec import decode
from gitbaton.journal.values import BLOBS, TREES, Logged
from gitbaton.model import Oid
from gitbaton.values import replace

RECORD = "record.json"
MAX_RECORDS = 100_000
_STEPS = 64  # records after which the rest of a chain is listed at once
_MODES = {name.encode(): b"40000" for name in TREES} | {name.encode(): b"100644" for name in (*BLOBS, RECORD)}


def read(objects: Objects, root: Oid, run: str, tip: Oid, known: Sequence[Logged]) -> tuple[Logged, ...]:
    """The records of a chain, oldest first, from its root to its tip; ``known``: those of its beginning that were read
    before, if they still are its beginning. The ref's name wins over the stored run.

    Raises RecordError that names the first commit that is not as we write them.
    """
    places = {logged.commit: number for number, logged in enumerate(known, 1)}
    commits, below = _commits(objects, root, tip, places)
    kept = known[: places[below]] if below in places else ()
    trees = objects.read_many([commit[1] for commit in commits], MAX_READ)
    parts = [_parts(oid, tree, objects) for (oid, _), tree in zip(commits, trees, strict=True)]
    raws = objects.read_many([part[RECORD] for part in parts], MAX_BYTES)
    result = list(kept)
    for (oid, _), names, raw in zip(reversed(commits), reversed(parts), reversed(list(raws)), strict=True):
        result.append(_logged(run, oid, names, raw, len(result)))
    return tuple(result)


def _commits(objects: Objects, root: Oid, tip: Oid, known: Collection[Oid]) -> tuple[list[tuple[Oid, Oid]], Oid]:
    """Each commit with its tree, newest first, down to the root or to one that is known; and that one."""
    found: list[tuple[Oid, Oid]] = []
    ahead: Iterator[Object | None] = iter(())
    at = tip
    while at != root and at not in known:
        if len(found) == MAX_RECORDS:
            raise RecordError(f"the chain at {tip} has more than {MAX_RECORDS} records")
        if len(found) == _STEPS:
            rest = objects.first_parents(at)
            ahead = objects.read_many(rest)
        item = next(ahead if len(found) >= _STEPS else objects.read_many([at]), None)
        if item is None or item.oid != at or item.kind != "commit" or item.data is None:
            raise RecordError(f"commit {at} of a run cannot be read")
        commit = parse_commit(item.data)
        if len(commit.parents) not in (1, 2):  # the second one is a commit that is to stay reachable
            raise RecordError(f"commit {at} has {len(commit.parents)} parents and is not a record of a run")
        found.append((at, commit.tree))
        at = commit.parents[0]
    return found, at


def _parts(oid: Oid, tree: Object | None, objects: Objects) -> dict[str, Oid]:
    """What lies beside a record, and the record itself, by name."""
    if tree is None or tree.kind != "tree" or tree.data is None:
        raise RecordError(f"the tree of commit {oid} cannot be read")
    parts: dict[str, Oid] = {}
    for entry in parse_tree(tree.data, objects.algorithm):
        name = entry.name.decode("utf-8", "replace")
        if _MODES.get(entry.name) != entry.mode or name in parts:
            raise RecordError(f"commit {oid} holds '{plain(name)[:60]}', which no record has")
        parts[name] = entry.oid
    if RECORD not in parts:
        raise RecordError(f"commit {oid} holds no {RECORD}")
    return parts


def _logged(run: str, oid: Oid, names: dict[str, Oid], raw: Object | None, seq: int) -> Logged:
    if raw is None or raw.kind != "blob" or raw.data is None:
        raise RecordError(f"the record of commit {oid} cannot be read, or is over the limit of {MAX_BYTES} bytes")
    try:
        record = decode(raw.data)
    except RecordError as error:
        raise RecordError(f"commit {oid}: {error.message}") from None
    if record.seq != seq:
        raise RecordError(f"commit {oid} has number {record.seq} where {seq} is due")
    if record.run != run:
        record = replace(record, run=run)
    return Logged(record=record, commit=oid, parts={name: part for name, part in names.items() if name != RECORD})
