"""A new commit of ours and what it names: on disk, and in a pack that git keeps, until a ref has moved there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gitbaton.git.binary import BinaryObjects
from gitbaton.git.durable import Durable
from gitbaton.git.loose import stow
from gitbaton.git.maintenance import PACKS, tidy_packs
from gitbaton.git.objects import NewObject, RefChange
from gitbaton.git.publish import fsync, kept, kept_here
from gitbaton.git.repo import Repo
from gitbaton.model import Oid


class Holder:
    """Moves refs of one repository to one new commit after the other; ``disk`` knows what is on disk already."""

    def __init__(self, repo: Repo, disk: Durable) -> None:
        self.repo, self.disk, self._packs = repo, disk, 0

    def move(
        self,
        change: RefChange,
        fresh: Sequence[NewObject],
        trees: Iterable[Oid],
        blobs: Iterable[Oid],
        known: Sequence[Oid],
        *,
        walk: bool,
    ) -> None:
        """Move a ref to a new commit; what is waited for is as ``baton.fsync`` says.

        ``fresh``: objects that may be nowhere yet, the commit last; ``trees`` and ``blobs``: what it names, but with ``walk``
        for other commits; ``known``: what refs hold. Raises CollectedError, and as Durable.update.
        """
        how = fsync(self.repo)
        git = walk or isinstance(self.repo.objects, BinaryObjects)
        words = [fresh[-1].oid, *(f"^{oid}" for oid in known)]
        with kept(self.repo, words, walk=True, how=how, fresh=fresh) if git else self._held(fresh, trees, blobs):
            if how == "never":
                self.repo.objects.update([change])
            else:
                self.disk.update_all([change], names=how == "always")
        self._packs += 1
        if self._packs % PACKS == 0:
            tidy_packs(self.repo)

    @contextmanager
    def _held(self, fresh: Sequence[NewObject], trees: Iterable[Oid], blobs: Iterable[Oid]) -> Iterator[None]:
        """The same without a process: few objects are new, and all of them are named."""
        stow(self.repo, fresh)
        new, folder = {item.oid for item in fresh}, self.disk.folder
        try:
            due = [oid for oid in dict.fromkeys(self.disk.below(trees, blobs)) if oid not in new]
            loose = {oid: path for oid in due if os.path.exists(path := os.path.join(folder, oid[:2], oid[2:]))}
            self.disk.check([oid for oid in due if oid not in loose])
            files = [*loose.values(), *sorted({os.path.dirname(path) for path in loose.values()})]
            with kept_here(self.repo, {*loose, *new}, files, how=fsync(self.repo)):
                yield
            self.disk.known([*due, *new])
        finally:
            place = self.repo.quarantine()
            for oid in new:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, oid[:2], oid[2:]))
