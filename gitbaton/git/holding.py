"""Durable commits of long processes: what a commit names is on disk, and kept from gc, until its ref has moved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gitbaton.errors import CollectedError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.durable import Durable
from gitbaton.git.loose import stow
from gitbaton.git.maintenance import PACKS, tidy_packs
from gitbaton.git.objects import NewObject, RefChange, parse_tree
from gitbaton.git.publish import fsync, kept, kept_here
from gitbaton.git.repo import Repo
from gitbaton.model import Oid

_MAX_TREE = 64 << 20
_LINK = b"160000"


class Holder:
    """Moves refs of one repository to one new commit after the other, and knows which objects are on disk already."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self._disk, self._packs = repo, Durable(repo), 0
        self._known: set[Oid] = set()

    def close(self) -> None:
        """Let go of handles."""
        self._disk.close()

    def known(self, oids: Iterable[Oid]) -> None:
        """Say that objects are on disk, with all below them: a ref that was written here already holds them."""
        self._known.update(oids)

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
        for other commits; ``known``: what refs hold. Raises CollectedError, and as Objects.update.
        """
        how = fsync(self.repo)
        git = walk or isinstance(self.repo.objects, BinaryObjects)
        words = [fresh[-1].oid, *(f"^{oid}" for oid in known)]
        with kept(self.repo, words, walk=True, how=how, fresh=fresh) if git else self._held(fresh, trees, blobs):
            if how == "never":
                self.repo.objects.update([change])
            else:
                self._disk.update_all([change], names=how == "always")
        self._packs += 1
        if self._packs % PACKS == 0:
            tidy_packs(self.repo)

    @contextmanager
    def _held(self, fresh: Sequence[NewObject], trees: Iterable[Oid], blobs: Iterable[Oid]) -> Iterator[None]:
        """The same without a process: few objects are new, and all of them are named."""
        stow(self.repo, fresh)
        new, folder = {item.oid for item in fresh}, self.repo.objects_dir
        try:
            due = [oid for oid in dict.fromkeys(self._below(trees, blobs)) if oid not in new]
            loose = {oid: path for oid in due if os.path.exists(path := os.path.join(folder, oid[:2], oid[2:]))}
            packed = [oid for oid in due if oid not in loose]
            for oid, found in zip(packed, self.repo.objects.read_many(packed, 0), strict=True):
                if found is None:
                    raise _gone(oid)
            files = [*loose.values(), *sorted({os.path.dirname(path) for path in loose.values()})]
            with kept_here(self.repo, {*loose, *new}, files, how=fsync(self.repo)):
                yield
            self._known.update(due, new)
        finally:
            place = self.repo.quarantine()
            for oid in new:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(place, oid[:2], oid[2:]))

    def _below(self, trees: Iterable[Oid], blobs: Iterable[Oid]) -> list[Oid]:
        """Trees, with all below them, and blobs, as far as they are not known to be on disk. Raises CollectedError."""
        found: list[Oid] = []
        seen: set[Oid] = set()

        def visit(tree: Oid) -> None:
            if tree in self._known or tree in seen:
                return
            seen.add(tree)
            item = self.repo.objects.read(tree, _MAX_TREE)
            if item is None or item.kind != "tree" or item.data is None:
                raise _gone(tree)
            for entry in parse_tree(item.data, self.repo.objects.algorithm):
                if entry.is_tree:
                    visit(entry.oid)
                elif entry.mode != _LINK and entry.oid not in self._known:
                    found.append(entry.oid)
            found.append(tree)

        for oid in trees:
            visit(oid)
        return [*found, *(oid for oid in blobs if oid not in self._known)]


def _gone(oid: Oid) -> CollectedError:
    said = f"git collected object {oid} before it was recorded; nothing is recorded"
    return CollectedError(said, "'git gc --prune=now' is not safe beside other commands")
