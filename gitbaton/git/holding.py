"""A new commit of ours and what it names: on disk, and in a pack that git keeps, until a ref has moved there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from gitbaton.git.binary import BinaryObjects
from gitbaton.git.durable import Durable
from gitbaton.git.loose import stow
from gitbaton.git.maintenance import PACKS, tidy_packs
from gitbaton.git.objects import NewObject
from gitbaton.git.publish import kept
from gitbaton.model import Oid


class Holder:
    """Holds one commit after the other for ``disk``, which moves the refs."""

    def __init__(self, disk: Durable) -> None:
        self.disk, self.repo, self._packs = disk, disk.repo, 0

    @contextmanager
    def held(
        self, fresh: Sequence[NewObject], trees: Iterable[Oid], blobs: Iterable[Oid], known: Sequence[Oid], *, walk: bool
    ) -> Iterator[None]:
        """While the block runs, what a new commit names is on disk and in a pack that git keeps, as ``publish.kept`` has it.
        ``fresh``: objects that may be nowhere yet, the commit last; ``trees`` and ``blobs``: what it names, but with ``walk``
        for other commits; ``known``: what refs hold. Raises CollectedError."""
        if walk or isinstance(self.repo.objects, BinaryObjects):
            words = [fresh[-1].oid, *(f"^{oid}" for oid in known)]
            with kept(self.repo, words, walk=True, how="always", fresh=fresh):
                yield
            return
        stow(self.repo, fresh)
        new, folder = {item.oid for item in fresh}, self.disk.folder
        try:
            due = [oid for oid in dict.fromkeys(self.disk.below(trees, blobs)) if oid not in new]
            loose = {oid: path for oid in due if os.path.exists(path := os.path.join(folder, oid[:2], oid[2:]))}
            self.disk.check([oid for oid in due if oid not in loose])
            also = [*loose.values(), *sorted({os.path.dirname(path) for path in loose.values()})]
            with kept(self.repo, [*loose, *new], walk=False, how="always", also=also):
                yield
            self.disk.known([*due, *new])
        finally:
            place = self.repo.quarantine()
            for oid in new:
                os.unlink(os.path.join(place, oid[:2], oid[2:]))
        self._packs += 1
        if self._packs % PACKS == 0:
            tidy_packs(self.repo)
