"""Object store of file sets: what is there already, and what goes into the quarantine until a ref holds it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

from gitbaton.git.loose import drop_torn, remember
from gitbaton.git.objects import NewObject
from gitbaton.git.repo import Repo
from gitbaton.git.torn import is_hollow
from gitbaton.model import Oid

MANY = 100  # objects of which it is worth asking whether the store has them
_OLD = 86400.0  # seconds; gc takes unreferenced objects of two weeks
_LARGE = 1 << 20  # and as many bytes


class ObjectStore:
    """The object store of a repository. What was found in it is looked for again each time, because git may collect what
    nothing refers to yet: loose objects by listing their folders, packed ones when a pack has gone."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.folder = repo.objects_dir
        self._packed: set[Oid] = set()
        self._mark = -1
        self._packs: set[str] = set()
        self._fresh: set[Oid] = set()

    def missing(self, oids: Iterable[Oid]) -> set[Oid]:
        """Those of the ids that name no object any more. Raises GitError."""
        rest = self._not_loose(set(oids) - self.repo.stowed)
        mark = self.repo.object_store()[0]
        if mark != self._mark:
            packs = {name for name in _names(os.path.join(self.folder, "pack")) if name.endswith(".idx")}
            if not self._packs <= packs:
                self._packed.clear()
            self._mark, self._packs = mark, packs
        rest -= self._packed
        if not rest:
            return set()
        # A process of its own: one that has a removed pack open still finds what was in it.
        names = sorted(rest)
        stdin = "".join(f"{oid}\n" for oid in names).encode()
        # Its type, which git has to look for in the object: of a torn one it would give the name.
        lines = self.repo.git.out("cat-file", "--batch-check=%(objecttype)", "--buffer", stdin=stdin).split(b"\n")
        gone = {oid for oid, line in zip(names, lines, strict=False) if line.endswith(b"missing")}
        if self.repo.object_store()[0] == mark:  # else a pack may have come and gone since they were listed
            self._packed |= rest - gone
        return gone

    def _not_loose(self, oids: set[Oid]) -> set[Oid]:
        """The ids of no loose object; old ones among the others count as new from now on, as with git, so that
        no gc takes them."""
        folders: dict[str, set[str]] = {}
        rest = set()
        for oid in oids:
            names = folders.get(oid[:2])
            if names is None:
                names = folders[oid[:2]] = _names(os.path.join(self.folder, oid[:2]))
            if oid[2:] not in names or (oid not in self._fresh and not self._renew(oid)):
                rest.add(oid)
        return rest

    def _renew(self, oid: Oid) -> bool:
        """Make an old loose object a new one; False when it is gone, or hollow."""
        path = os.path.join(self.folder, oid[:2], oid[2:])
        try:
            if is_hollow(path):
                return False
            if time.time() - os.stat(path).st_mtime > _OLD:
                os.utime(path)
        except FileNotFoundError:
            return False
        except OSError:  # somebody else's, in a shared repository
            pass
        self._fresh.add(oid)
        return True

    def write(self, objects: Sequence[NewObject]) -> None:
        """Store objects, those that are there left out where there are many or they are large. Raises GitError."""
        every = {o.oid: o for o in objects}
        remember(objects)  # also what is there already: it may be what another process left, and git collects that
        many = len(every) > MANY or sum(len(o.data) for o in objects) > _LARGE
        gone = self.missing(every) if many else self._not_loose(every.keys() - self.repo.stowed)  # packs are not asked for few
        if gone:
            drop_torn(self.folder, gone)
            self.repo.stow([every[oid] for oid in gone])

    def stream(self, fd: int) -> Oid:
        """Store the rest of an open file as a blob, without holding it. Raises GitError."""
        from gitbaton.worktree.rawbytes import hashed

        return hashed(self.repo.writing(self.repo.git), fd)


def _names(folder: str) -> set[str]:
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()
