"""Reading runs: every commit of a chain is held against the format first; results of other runs are found by their key."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.codec import plain
from gitbaton.codec.text import MAX_BYTES
from gitbaton.errors import BatonError, GitError, RecordError
from gitbaton.git.objects import MAX_READ, Object, Objects, parse_commit, parse_tree
from gitbaton.git.repo import Repo
from gitbaton.journal.codec import decode
from gitbaton.journal.values import BLOBS, TREES, Logged
from gitbaton.model import Oid
from gitbaton.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Runs(Protocol):
        """The runs of a repository: gitbaton.journal.chain.Journal."""

        repo: Repo

        def refs(self) -> dict[str, Oid]:
            """The local runs and their newest commits."""

        def records(self, run: str) -> tuple[Logged, ...]:
            """The records of a run, oldest first."""


RECORD = "record.json"
MAX_RECORDS = 100_000
_STEPS = 64  # records after which the rest of a chain is listed at once
_MODES = {name.encode(): b"40000" for name in TREES} | {name.encode(): b"100644" for name in (*BLOBS, RECORD)}
_END = re.compile(r": end[ ,].*key ([0-9a-f]{12})\Z")


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


class Finder:
    """An index of the ends of all local runs by the first digits of their keys, brought up to date when it is asked."""

    def __init__(self, journal: Runs) -> None:
        self._journal = journal
        self._seen: dict[str, Oid] = {}
        self._ends: dict[str, set[Oid]] = {}

    def find(self, key: str, but: str) -> Logged | None:
        """See Journal.find."""
        refs = {run: oid for run, oid in self._journal.refs().items() if run != but}
        self._list(refs)
        commits = self._ends.get(key[:12])
        found: list[Logged] = []
        for run in refs if commits else ():
            try:
                records = self._journal.records(run)
            except BatonError:
                continue  # a run that is broken, or was dropped meanwhile, has nothing to serve
            found += [logged for logged in records if logged.commit in (commits or ()) and _servable(logged, key)]
        return max(found, key=lambda logged: logged.record.started, default=None)

    def _list(self, refs: dict[str, Oid]) -> None:
        """Take in the commits that came since the last question."""
        new = {run: oid for run, oid in refs.items() if self._seen.get(run) != oid}
        try:
            self._take(new, refs)
        except GitError:  # a run that cannot be read hides no other
            for run, oid in new.items():
                with suppress(GitError):
                    self._take({run: oid}, refs)

    def _take(self, new: Mapping[str, Oid], refs: Mapping[str, Oid]) -> None:
        if not new:
            return
        lines = [*new.values(), *(f"^{oid}" for run, oid in self._seen.items() if refs.get(run) == oid)]
        stdin = "".join(f"{line}\n" for line in lines).encode()
        raw = self._journal.repo.git.out("rev-list", "--first-parent", "--stdin", "--format=%s", stdin=stdin)
        rows = raw.decode("utf-8", "replace").split("\n")[:-1]
        for commit, text in zip(rows[::2], rows[1::2], strict=False):
            match = _END.search(text)
            if match:
                self._ends.setdefault(match.group(1), set()).add(commit.removeprefix("commit "))
        self._seen |= new


def _servable(logged: Logged, key: str) -> bool:
    """Whether a record is a result with that key that another run may serve."""
    r = logged.record
    return (
        r.type == "end"
        and r.key == key
        and r.effect in (None, "none")
        and r.stable is not False
        and not logged.foreign
        and r.writes is not None
        and r.writes.tree is not None
    )
