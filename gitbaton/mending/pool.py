"""What lies in a repository and nobody of the user's reaches: the commits and records among which a chain is found again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

from gitbaton.codec import decode
from gitbaton.errors import BatonError, RecordError
from gitbaton.git.objects import Commit, parse_commit
from gitbaton.git.tornfiles import listed
from gitbaton.mending.heap import Heap
from gitbaton.model import Checkpoint, Oid, Stored
from gitbaton.store import Store
from gitbaton.store.values import MAX_COMMIT

_JSON = b'{\n  "v": 1,\n'


class Pool:
    """The objects of a repository but those of ``theirs``, looked through once and only where something is sought."""

    def __init__(self, heap: Heap, store: Store, theirs: Collection[Oid]) -> None:
        self.heap, self.store, self.theirs = heap, store, theirs

    @cached_property
    def _listed(self) -> dict[Oid, tuple[str, int]]:
        found = listed(self.store.repo)
        self.heap.find(oid for spare in self.heap.packed for oid in spare.oids() if oid not in found)
        found |= {oid: (item.kind, len(item.data)) for oid, item in self.heap.made.items()}
        return {oid: what for oid, what in found.items() if oid not in self.theirs}

    def _of(self, kind: str, most: int) -> Iterator[tuple[Oid, bytes]]:
        oids = [oid for oid, (is_, size) in self._listed.items() if is_ == kind and size <= most]
        for oid, found in zip(oids, self.heap.read_many(oids, most), strict=True):
            if found is not None and found.data is not None:
                yield oid, found.data

    @cached_property
    def commits(self) -> dict[Oid, Commit]:
        """Every commit, taken apart."""
        found: dict[Oid, Commit] = {}
        for oid, data in self._of("commit", MAX_COMMIT):
            try:
                found[oid] = parse_commit(data)
            except RecordError:
                continue
        return found

    @cached_property
    def trees(self) -> tuple[Oid, ...]:
        """Every tree that could be that of a record of a run."""
        return tuple(oid for oid, data in self._of("tree", MAX_COMMIT) if b" record.json\0" in data)

    @cached_property
    def sides(self) -> tuple[Oid, ...]:
        """Every tree that could lie beside the index of a checkpoint."""
        names = (b" after\0", b" raw\0", b" flags\0", b" touched\0", b"40000 1\0", b"40000 2\0", b"40000 3\0")
        return tuple(oid for oid, data in self._of("tree", MAX_COMMIT) if any(name in data for name in names))

    @cached_property
    def records(self) -> dict[Oid, bytes]:
        """Every blob that begins as a record of ours does."""
        return {oid: data for oid, data in self._of("blob", MAX_COMMIT) if data.startswith(_JSON)}

    @cached_property
    def checkpoints(self) -> dict[Oid, list[Stored]]:
        """Every commit that is a checkpoint, by the checkpoint's id: one that was written again has several."""
        found: dict[Oid, list[Stored]] = {}
        for oid in self.commits:
            try:
                stored = self.store.stored(self.heap.read(oid, MAX_COMMIT), None, oid)
            except BatonError:
                continue
            found.setdefault(stored.id, []).append(stored)
        return found

    @cached_property
    def texts(self) -> dict[Oid, tuple[Checkpoint, bytes]]:
        """Every blob that is a checkpoint's JSON, by its id."""
        found: dict[Oid, tuple[Checkpoint, bytes]] = {}
        for oid, data in self.records.items():
            try:
                found[oid] = decode(data), data
            except RecordError:
                continue
        return found
