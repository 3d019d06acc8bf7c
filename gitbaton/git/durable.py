"""Durable refs: a ref and its name are on disk when the call returns. Git itself syncs neither."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from gitbaton.errors import GitError
from gitbaton.git.binary import SYNCED, BinaryObjects
from gitbaton.git.objects import Objects, RefChange
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.system.files import sync_paths

_MOST_REFS = 1 << 16


def durable_door(repo: Repo, *, lasting: bool = False) -> BinaryObjects:
    """A git whose objects are on disk when they are written, and a ref before it takes the old one's place. ``lasting``: one
    process for all refs."""
    repo.settings()  # who writes must know the hooks to switch off
    layout = repo.layout
    return BinaryObjects(repo.git.changed({}, *SYNCED), layout.git_dir, layout.common_dir, layout.algorithm, lasting=lasting)


class Durable:
    """The refs of one repository, moved durably whichever door it was opened with. ``lasting``: by one process, for
    who moves one ref after the other; it ends with the repository's."""

    def __init__(self, repo: Repo, *, lasting: bool = False) -> None:
        self.repo, self._lasting = repo, lasting
        self._folders: set[str] = set()
        self._settled: dict[str, Oid | None] = {}  # refs that this object has on disk, and what they point at
        self._refs: Objects | None = None

    def update_all(self, *transactions: Sequence[RefChange], names: bool = True) -> None:
        """Move refs, durably; as Objects.update. Without ``names`` only their bytes are waited for: a ref is whole, and may be
        the one of before."""
        if self._refs is None:
            self._refs = durable_door(self.repo, lasting=self._lasting)
            if self._lasting:
                self.repo.at_close.append(self.close)
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
                self._named(folder)
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
            if packed:
                self._packed()
        self._settle(due)

    def emptied(self, folders: Iterable[str]) -> None:
        """Have on disk that refs below folders are gone, by whoever removed them. Raises GitError."""
        if not self._tables():
            for folder in folders:
                self._up(self._file(folder.rstrip("/")))
            self._packed()

    def _tables(self) -> bool:
        """Have the tables of refs on disk, where the repository has such."""
        place = os.path.join(self.repo.layout.common_dir, "reftable")
        if not os.path.isdir(place):
            return False
        self._flush([*(os.path.join(place, name) for name in sorted(os.listdir(place))), place])
        return True

    def _packed(self) -> None:
        """Have git's file of packed refs on disk, and its name."""
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

    def _named(self, folder: str) -> None:
        """Have on disk which refs a folder has, and where it is new, that it is there."""
        try:
            mark = f"{folder}\0{os.stat(folder).st_ino}"  # git removes one that is empty, and another comes in its place
        except OSError:
            return
        if mark in self._folders:
            self._folder(folder)
        else:
            self._folders.add(mark)
            self._up(folder)

    def _folder(self, path: str) -> None:
        """Have on disk which names a folder has. One that is gone has none."""
        if os.path.isdir(path):
            self._flush([path])

    def _flush(self, paths: Sequence[str]) -> None:
        """Have files and folders on disk; git may just have packed a ref. Raises GitError."""
        try:
            sync_paths(paths, missing=True)
        except OSError as error:
            raise GitError(f"a ref cannot be brought to disk: {error.strerror}") from None

    def close(self) -> None:
        """Let go of handles."""
        refs, self._refs = self._refs, None
        if refs is not None:
            refs.close()
