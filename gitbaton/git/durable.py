"""Durable writes: objects and refs that are on disk when the call returns, the objects before any ref names them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Sequence

from gitbaton.errors import CollectedError, GitError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import Objects, RefChange, parse_tree
from gitbaton.git.repo import Repo
from gitbaton.model import Oid

_OLD = 120.0  # seconds after which the kernel has long written a file by itself (it waits for 30)
_BATCH = 256
_THREADS = 8
_SLOW = 0.0002  # seconds for a file; a thread costs less
_MOST_REFS = 1 << 16
_MAX_TREE = 64 << 20
_TREE, _LINK = b"40000", b"160000"


class Durable:
    """The objects and refs of one repository, written durably whichever door it was opened with."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.folder = repo.objects_dir
        self._kept: set[Oid] = set()
        self._folders: set[str] = set()
        self._settled: dict[str, Oid | None] = {}  # refs that this object has on disk, and what they point at
        self._refs: Objects | None = None
        self._slow = False  # whether the disk was, the last time
        self._packs: int | None = None  # when packs were last looked at: the time of their folder

    def keep(self, trees: Iterable[Oid], blobs: Iterable[Oid] = ()) -> None:
        """Make sure that trees, with all below them, and blobs are here and on disk. Raises CollectedError."""
        self._sync(self.below(trees, blobs))

    def below(self, trees: Iterable[Oid], blobs: Iterable[Oid]) -> list[Oid]:
        """Trees, with all below them, and blobs, as far as they are not known to be on disk."""
        found: list[Oid] = []
        seen: set[Oid] = set()

        def visit(tree: Oid) -> None:
            if tree in self._kept or tree in seen:
                return
            seen.add(tree)
            item = self.repo.objects.read(tree, _MAX_TREE)
            if item is None or item.kind != "tree" or item.data is None:
                raise _gone(tree)
            for entry in parse_tree(item.data, self.repo.objects.algorithm):
                if entry.mode == _TREE:
                    visit(entry.oid)
                elif entry.mode != _LINK and entry.oid not in self._kept:
                    found.append(entry.oid)
            found.append(tree)

        for oid in trees:
            visit(oid)
        return [*found, *(oid for oid in blobs if oid not in self._kept)]

    def known(self, oids: Iterable[Oid]) -> None:
        """Say that objects are on disk, with all below them: a ref that was written here already holds them."""
        self._kept.update(oids)

    def _sync(self, oids: Sequence[Oid]) -> None:
        """Have the files of loose objects on disk, and the folders that name them."""
        now, folders, looked = time.time(), set[str](), self._packs
        todo = list(dict.fromkeys(oids))
        for start in range(0, len(todo), _BATCH):
            paths = {oid: os.path.join(self.folder, oid[:2], oid[2:]) for oid in todo[start : start + _BATCH]}
            packed = [oid for oid, path in paths.items() if not os.path.exists(path)]
            self.check(packed)
            looked, packs = self._new_packs(looked) if packed else (looked, [])
            found = sorted(path for path in (*paths.values(), *packs) if not _is_old(path, now))
            near = {os.path.dirname(path) for path in found} - folders
            self._flush([*found, *sorted(near), *([self.folder] if near - self._folders else [])])
            folders |= near
        self._folders |= folders
        self._kept.update(todo)
        self._packs = looked

    def check(self, oids: Sequence[Oid]) -> None:
        """Make sure that objects are here that have no file of their own. Raises CollectedError."""
        for oid, found in zip(oids, self.repo.objects.read_many(oids, 0), strict=True):
            if found is None:
                raise _gone(oid)

    def _new_packs(self, looked: int | None) -> tuple[int | None, list[str]]:
        """The files of packs, if any came since the last look, and when this one was; git brings packs to disk, but not their
        names."""
        place = os.path.join(self.folder, "pack")
        try:
            changed = os.stat(place).st_mtime_ns
            names = [name for name in os.listdir(place) if name.endswith((".pack", ".idx"))] if changed != looked else []
        except OSError:
            return looked, []
        return changed, [os.path.join(place, name) for name in names]

    def update(self, change: RefChange) -> None:
        """Move one ref, durably; as Objects.update."""
        self.update_all([change])

    def update_all(self, *transactions: Sequence[RefChange], names: bool = True) -> None:
        """Move refs, durably; as Objects.update. Without ``names`` only their bytes are waited for: a ref is whole, and may be
        the one of before."""
        if self._refs is None:
            self._refs = self._door()
        changes = [change for changes in transactions for change in changes]
        for change in changes:
            self._settled.pop(change.name, None)
        self._refs.update(*transactions)
        if not names:
            return
        common = self.repo.layout.common_dir
        if os.path.isdir(os.path.join(common, "reftable")):
            self._folder(os.path.join(common, "reftable"))
        else:
            for folder in dict.fromkeys(os.path.dirname(self._file(change.name)) for change in changes):
                self._named(folder, os.path.join(common, "refs"))
            if any(change.new is None for change in changes):  # git writes packed-refs anew without it
                self._folder(common)
        self._settle(changes)

    def confirm(self, changes: Sequence[RefChange]) -> None:
        """Have on disk that refs are where they are to be already, by whoever moved them: it may have been killed before it had
        them there. Those that were brought there by this object cost nothing. Raises GitError."""
        due = [change for change in changes if self._settled.get(change.name) != change.new]
        if due and not self._tables():
            packed = False
            for change in due:
                path = self._file(change.name)
                packed = packed or not os.path.isfile(path)
                self._flush([path])
                self._up(os.path.dirname(path))
            self._packed(also=packed)
        self._settle(due)

    def emptied(self, folders: Iterable[str]) -> None:
        """Have on disk that refs below folders are gone, by whoever removed them. Raises GitError."""
        if not self._tables():
            for folder in folders:
                self._up(self._file(folder.rstrip("/")))
            self._packed(also=True)

    def _tables(self) -> bool:
        """Have the tables of refs on disk, where the repository has such."""
        place = os.path.join(self.repo.layout.common_dir, "reftable")
        if not os.path.isdir(place):
            return False
        self._flush([*(os.path.join(place, name) for name in sorted(os.listdir(place))), place])
        return True

    def _packed(self, *, also: bool) -> None:
        """Have git's file of packed refs on disk, and its name."""
        if also:
            common = self.repo.layout.common_dir
            self._flush([os.path.join(common, "packed-refs"), common])

    def _up(self, folder: str) -> None:
        """Have on disk which names a folder has, and all above it that are for refs."""
        top = os.path.join(self.repo.layout.common_dir, "refs")
        while folder.startswith(top):
            self._folder(folder)
            folder = os.path.dirname(folder)

    def _file(self, ref: str) -> str:
        return os.path.join(self.repo.layout.common_dir, *ref.split("/"))

    def _settle(self, changes: Sequence[RefChange]) -> None:
        """Remember where refs are on disk."""
        if len(self._settled) > _MOST_REFS:
            self._settled.clear()
        self._settled.update({change.name: change.new for change in changes})

    def _named(self, folder: str, top: str) -> None:
        """Have on disk which refs a folder has, and where it is new, that it is there."""
        try:
            mark = f"{folder}\0{os.stat(folder).st_ino}"  # git removes one that is empty, and another comes in its place
        except OSError:
            return
        new = mark not in self._folders
        self._folders.add(mark)
        while folder.startswith(top):
            self._folder(folder)
            folder = os.path.dirname(folder)
            if not new:
                break

    def _door(self) -> Objects:
        """The door of the repository, of a kind that has a ref on disk before it takes the old one's place."""
        if isinstance(self.repo.objects, BinaryObjects):
            self.repo.settings()  # who writes must know the hooks to switch off
            git, layout = self.repo.git.changed({}, "core.fsync=all", "core.fsyncMethod=fsync"), self.repo.layout
            return BinaryObjects(git, layout.git_dir, layout.common_dir, layout.algorithm)
        from gitbaton.git.libgit2 import durable

        return durable(self.repo.layout.git_dir)

    def _folder(self, path: str) -> None:
        """Have on disk which names a folder has. One that is gone has none."""
        if os.path.isdir(path):
            self._flush([path])

    def _flush(self, paths: Sequence[str]) -> None:
        """Have files and folders on disk, where it is slow side by side: the disk then empties its own cache once for many of
        them. Raises GitError."""
        fds: list[int] = []
        try:
            for path in paths:
                try:
                    fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                except FileNotFoundError:  # git has just moved it into a pack that is on disk
                    continue
                if hasattr(os, "posix_fadvise"):  # all begin to be written before one is waited for
                    os.posix_fadvise(fds[-1], 0, 0, os.POSIX_FADV_DONTNEED)
            begun = time.perf_counter()
            (_side_by_side if self._slow else _one_by_one)(fds)
            self._slow = time.perf_counter() - begun > _SLOW * len(fds)
        except OSError as error:
            raise GitError(f"an object or a ref cannot be brought to disk: {error.strerror}") from None
        finally:
            for fd in fds:
                os.close(fd)

    def close(self) -> None:
        """Let go of handles."""
        refs, self._refs = self._refs, None
        if refs is not None:
            refs.close()


def _is_old(path: str, now: float) -> bool:
    """Whether a file is long on disk, or not there: git has its object in a pack."""
    try:
        return now - os.stat(path).st_mtime > _OLD
    except FileNotFoundError:
        return True


def _one_by_one(fds: Iterable[int]) -> None:
    for fd in fds:
        os.fsync(fd)


def _side_by_side(fds: Sequence[int]) -> None:
    wrong: list[OSError] = []
    waiting = iter(fds)

    def work() -> None:
        try:
            _one_by_one(waiting)
        except OSError as error:
            wrong.append(error)

    helpers = [threading.Thread(target=work) for _ in range(min(len(fds), _THREADS) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if wrong:
        raise wrong[0]


def _gone(oid: Oid) -> CollectedError:
    said = f"git collected object {oid} before it was recorded; nothing is recorded"
    return CollectedError(said, "'git gc --prune=now' is not safe beside other commands")
