"""Packs of long processes: one durable pack a flush, and cheap reads."""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from weakref import WeakSet

from gitbaton.errors import GitError, GitTimeoutError
from gitbaton.git import maintenance
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import Kind, Objects
from gitbaton.git.packer import Packer
from gitbaton.git.packfile import Entry, Id, Packing, hasher
from gitbaton.git.packkeep import Kept, Shelf
from gitbaton.git.packread import Mapped, Packed
from gitbaton.git.repo import Repo
from gitbaton.git.sizes import LARGEST, check_size

_ATTEMPTS = 20
_PAUSE = 0.005
_RECENT = 20_000_000  # nanoseconds: a change of the folder may be stamped with a time so long ago
_WHOLE = 4096  # bytes up to which one call with a copy costs less than two
_NAME = {"commit": b"commit", "tree": b"tree", "blob": b"blob", "tag": b"tag"}
_OVERHEAD = 200  # bytes that an object of the cache takes beside its data
_KNOWN = 1 << 16  # objects of packs of our own whose places are kept in memory,
_OPEN = 128  # and packs: each is an open file
_AT_ONCE = 48, 1 << 18  # objects, and bytes of them, that are sent to the process beside
_PLACE = 40  # bits of a place in a pack
_open: WeakSet[Packs] = WeakSet()


class Packs:
    """The objects of a repository, for one process: what is written comes into packs, what is read stays in memory for a
    while. Any thread may call any method."""

    def __init__(self, repo: Repo, *, cache: int = 64 << 20) -> None:
        self.repo, self.algorithm = repo, repo.layout.algorithm
        self._hash = hasher(self.algorithm)
        self._half = cache // 2
        self._young: dict[Id, tuple[Kind, bytes]] = {}
        self._old: dict[Id, tuple[Kind, bytes]] = {}
        self._size = 0
        # Pack and place in one number each: a tuple is looked at by every collection of garbage.
        self._own: dict[Id, int] = {}
        self._mapped: dict[int, Mapped] = {}
        self._written: deque[tuple[int, list[Id]]] = deque()
        self._count = 0
        self._lock = threading.RLock()
        self._shelf = Shelf(repo)
        _open.add(self)
        self._door: BinaryObjects | None = None
        self._find = self._finder()
        self._packer: Packer | None = None
        self._shelf.clean()

    def id(self, kind: Kind, data: bytes) -> Id:
        """The id git gives to an object."""
        if len(data) < _WHOLE:
            return self._hash(b"%b %d\0%b" % (_NAME[kind], len(data), data)).digest()
        made = self._hash(b"%b %d\0" % (_NAME[kind], len(data)))
        made.update(data)
        return made.digest()

    def write(self, objects: Iterable[Entry], pause: Callable[[], object] | None = None) -> Kept:
        """Store objects as one pack, on disk when this returns; objects that are there already may be among them. Git removes
        none of them until the answer's ``release`` was called, after refs name them. Raises GitError, and what ``objects``
        raises; then nothing is stored.

        A fourth element of an object may name another, before it, that it is much like. ``pause`` is called now and then, for
        whoever shares the interpreter.
        """
        packer, held = self._packer, list[Entry]()
        made = None
        if packer is not None:
            made = packer.pack(self.algorithm, _parts(objects, held, pause))
        else:
            held += objects
        if not held:
            return Kept("", self._shelf.kept)
        packing = made or Packing(self.algorithm, held, pause)
        mapped, kept = self._shelf.store(packing)
        with self._lock:
            self._know(mapped, packing.offsets)
        for number, (kind, oid, data, *_) in enumerate(held):
            if kind == "blob":  # what is new is read soonest, and is in memory already
                self.remember(oid, kind, data)
            if pause is not None and number % _AT_ONCE[0] == 0:
                pause()
        return kept

    def _know(self, mapped: Mapped, offsets: Mapping[Id, int]) -> None:
        self._count = number = self._count + 1
        self._mapped[number] = mapped
        high = number << _PLACE
        self._own.update({oid: high | at for oid, at in offsets.items()})
        self._written.append((number, list(offsets)))
        while (len(self._own) > _KNOWN or len(self._written) > _OPEN) and len(self._written) > 1:
            self._forget(*self._written.popleft())

    def hurry(self, on: bool) -> None:
        """Have packs made in a process beside this one, where there can be one, until that is not wanted any more."""
        packer = self._packer
        if on and packer is None and Packer.possible():
            self._packer = packer = Packer()
            packer.start()
        elif not on and packer is not None:
            self._packer = None
            packer.close()

    def _forget(self, number: int, ids: Iterable[Id]) -> None:
        del self._mapped[number]
        for oid in ids:
            if self._own[oid] >> _PLACE == number:
                del self._own[oid]

    def read(self, oid: Id) -> tuple[Kind, bytes]:
        """Kind and bytes of an object. Raises GitError when it is not here or cannot be read."""
        found = self._young.get(oid)
        return found if found is not None else self._read(oid)

    def _read(self, oid: Id) -> tuple[Kind, bytes]:
        found = self._old.get(oid)
        if found is None:
            found = self._kept(oid, self._own.get(oid, 0)) or self._find(oid) or self._sought(oid)
        self.remember(oid, *found)
        return found

    def _kept(self, oid: Id, place: int) -> tuple[Kind, bytes] | None:
        """An object of a pack of our own; None where another thread has let go of the pack."""
        mapped = self._mapped.get(place >> _PLACE)
        try:
            return mapped.read(place & (1 << _PLACE) - 1) if mapped is not None else None
        except (zlib.error, ValueError, LookupError) as error:
            raise GitError(f"object {oid.hex()} cannot be read: {error}") from None

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
            self._find = self._finder()
            found = self._find(oid)
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

    def _finder(self) -> Callable[[Id], tuple[Kind, bytes] | None]:
        """What reads packed objects: libgit2 where it is the door, else we ourselves."""
        if isinstance(self.repo.objects, BinaryObjects):
            width = 20 if self.algorithm == "sha1" else 32
            return Packed(self.repo.objects_dir, width, self._shelf.bases).find
        from gitbaton.git.libgit2 import packed

        return packed(self.repo.objects_dir)

    def _reopened(self, oid: Id) -> tuple[Kind, bytes] | None:
        """What is read after all was closed opens it again."""
        self._find = self._finder()
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
        self._shelf.clean()
        with self._lock:  # a pack that git has removed takes room on the disk while it is mapped
            while self._written and not os.path.exists(f"{self._mapped[self._written[0][0]].path}.pack"):
                self._forget(*self._written.popleft())
        return maintenance.tidy_packs(self.repo)

    def close(self) -> None:
        """Let go of files and processes; what was written and not released is no longer kept."""
        self.hurry(False)  # not under the lock: who waits for that process may need it
        with self._lock:
            for kept in list(self._shelf.kept):
                kept.release()
            self._own.clear()
            self._mapped.clear()
            self._written.clear()
            self._young, self._old, self._size = {}, {}, 0
            self._find = self._reopened
            door, self._door = self._door, None
            if door is not None:
                door.close()

    def forked(self) -> None:
        """In a forked child: what was under way belongs to the parent."""
        self._lock = threading.RLock()
        self._shelf.kept.clear()
        if self._packer is not None:
            self._packer.forked()
            self._packer = None
        door, self._door = self._door, None
        for item in (door, self.repo.objects):
            if isinstance(item, BinaryObjects):
                item.forked()


def _parts(objects: Iterable[Entry], held: list[Entry], pause: Callable[[], object] | None) -> Iterator[list[Entry]]:
    """Objects, some at a time; ``held`` has all that were taken."""
    part, size = list[Entry](), 0
    for item in objects:
        part.append(item)
        size += len(item[2])
        if len(part) >= _AT_ONCE[0] or size > _AT_ONCE[1]:
            held += part
            yield part
            part, size = [], 0
            if pause is not None:
                pause()
    if part:
        held += part
        yield part


def _forked() -> None:
    for packs in list(_open):
        packs.forked()


os.register_at_fork(after_in_child=_forked)
