"""Objects of long processes: written as one kept pack a flush, read through git or libgit2 with a cache in memory."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from gitbaton.errors import GitError, GitTimeoutError
from gitbaton.git import maintenance
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import LARGEST, Id, Kind, New, Objects, check_size
from gitbaton.git.publish import clean, packed
from gitbaton.git.repo import Repo

TYPE_CHECKING = False
if TYPE_CHECKING:
    Find = Callable[[Id], tuple[Kind, bytes] | None]

_ATTEMPTS = 20
_PAUSE = 0.005
_RECENT = 20_000_000  # nanoseconds: a change of the folder may be stamped with a time so long ago
_OVERHEAD = 200  # bytes that an object of the cache takes beside its data
_open: WeakSet[Packs] = WeakSet()


class Packs:
    """The objects of a repository, for one process: what is written comes into packs, what is read stays in memory for a
    while. Any thread may call any method."""

    def __init__(self, repo: Repo, *, cache: int = 64 << 20) -> None:
        self.repo, self.algorithm = repo, repo.layout.algorithm
        self._half = cache // 2
        self._young: dict[Id, tuple[Kind, bytes]] = {}
        self._old: dict[Id, tuple[Kind, bytes]] = {}
        self._size = 0
        self._lock = threading.RLock()
        _open.add(self)
        self._door: BinaryObjects | None = None
        self._find: Find = self._first

    @contextmanager
    def written(self, objects: Iterable[New], pause: Callable[[], object] = int) -> Iterator[None]:
        """Store objects as one pack, on disk when the block begins; objects that are there already may be among them. Git
        removes none of them while it runs: refs name them when it ends. Raises GitError, and what ``objects`` raises; then
        nothing is stored. ``pause`` is called now and then, for whoever shares the interpreter."""
        held = list(objects)
        with packed(self.repo, held, pause):
            for number, (kind, oid, data) in enumerate(held):
                if kind == "blob":  # what is new is read soonest, and is in memory already
                    self.remember(oid, kind, data)
                if number % 64 == 0:
                    pause()
            yield

    def read(self, oid: Id) -> tuple[Kind, bytes]:
        """Kind and bytes of an object. Raises GitError when it is not here or cannot be read."""
        found = self._young.get(oid)
        return found if found is not None else self._read(oid)

    def _read(self, oid: Id) -> tuple[Kind, bytes]:
        found = self._old.get(oid) or self._find(oid) or self._sought(oid)
        self.remember(oid, *found)
        return found

    def _sought(self, oid: Id) -> tuple[Kind, bytes]:
        """An object that is in no pack at first sight. While git moves objects from pack to pack, one may be nowhere to be seen
        for a moment."""
        for _ in range(_ATTEMPTS):
            begun, changed = time.time_ns(), self.repo.object_store()[0]
            found, wrong = self._asked(oid)
            if found is not None:
                return found
            if self.repo.object_store()[0] == changed < begun - _RECENT:
                break
            time.sleep(_PAUSE)
            found = self._first(oid)
            if found is not None:
                return found
        raise wrong or GitError(f"object {oid.hex()} is not here")

    def _asked(self, oid: Id) -> tuple[tuple[Kind, bytes] | None, GitError | None]:
        try:
            with self._lock:
                item = self._ask().read(oid.hex(), LARGEST)
        except GitTimeoutError:
            raise
        except GitError as error:
            return None, error
        if item is None:
            return None, None
        check_size(item.oid, item.kind, item.size)
        return (item.kind, item.data) if item.data is not None else None, None

    def _first(self, oid: Id) -> tuple[Kind, bytes] | None:
        """What reads packed objects where libgit2 is the door, opened anew; git itself is asked elsewhere."""
        if isinstance(self.repo.objects, BinaryObjects):
            return None
        from gitbaton.git.libgit2 import packed as reader

        self._find = reader(self.repo.objects_dir)
        return self._find(oid)

    def _ask(self) -> Objects:
        """The repository's own door; a process of git's belongs to one of ours and to no other user of the repository."""
        door = self.repo.objects
        if not isinstance(door, BinaryObjects):
            return door
        if self._door is None:
            self._door = BinaryObjects(door.git, door.git_dir, door.common_dir, door.algorithm)
        return self._door

    def remember(self, oid: Id, kind: Kind, data: bytes) -> None:
        """Have an object in memory for the next reads of it."""
        size = len(data) + _OVERHEAD
        if size > self._half or oid in self._young:
            return
        with self._lock:
            self._size += size
            if self._size > self._half:
                self._old, self._young, self._size = self._young, {}, size
            self._young[oid] = kind, data

    def tidy(self) -> bool:
        """Start git's packing of packs in the background where there are many; whether it was started. What processes that
        have ended kept is released. Never raises."""
        clean(self.repo)
        return maintenance.tidy_packs(self.repo)

    def close(self) -> None:
        """Let go of files and processes."""
        with self._lock:
            self._young, self._old, self._size = {}, {}, 0
            self._find = self._first
            door, self._door = self._door, None
            if door is not None:
                door.close()

    def forked(self) -> None:
        """In a forked child: what was under way belongs to the parent."""
        self._lock = threading.RLock()
        door, self._door = self._door, None
        for item in (door, self.repo.objects):
            if isinstance(item, BinaryObjects):
                item.forked()


def _forked() -> None:
    for packs in list(_open):
        packs.forked()


os.register_at_fork(after_in_child=_forked)
