"""Objects and refs of long processes: objects written as one kept pack a flush, read through git or libgit2 with a cache in
memory; and one stat that tells whether any process has moved a ref since the last look."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from weakref import WeakSet

from gitbaton.base.errors import GitError, GitTimeoutError
from gitbaton.base.model import Oid
from gitbaton.git import maintenance
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import LARGEST, OID, Kind, Objects, check_size
from gitbaton.git.packfile import Id, New
from gitbaton.git.publish import packed, remove_stale
from gitbaton.git.repo import Repo

TYPE_CHECKING = False
if TYPE_CHECKING:
    Find = Callable[[Id], tuple[Kind, bytes] | None]

Mark = tuple[int, ...]
"""What a ref's file looked like; another look that is equal means that nobody has moved it."""

_YOUNG = 12_000_000  # nanoseconds: a file system's clock may show the same time for two changes as near as this
_ATTEMPTS = 20
_PAUSE = 0.005
_RECENT = 20_000_000  # nanoseconds: a change of the folder may be stamped with a time so long ago
_OVERHEAD = 200  # bytes that an object of the cache takes beside its data
_open: WeakSet[Packs] = WeakSet()


class RefWatch:
    """The refs below ``refs/`` that all work trees of one repository share. Safe in several threads."""

    def __init__(self, repo: Repo) -> None:
        self.common = os.fsencode(repo.layout.common_dir)
        self.algorithm = repo.layout.algorithm
        tables = os.path.join(self.common, b"reftable", b"tables.list")
        self._tables = tables if os.path.exists(tables) else None
        self._packed = os.path.join(self.common, b"packed-refs")
        self._text: tuple[Mark, bytes] = ((), b"")
        self._repo = Repo(repo.layout, repo.git, "binary") if self._tables else repo
        self._own = threading.Lock()

    def path(self, name: str) -> bytes:
        """Return the file to look at for a ref, for ``mark``."""
        return self._tables or os.path.join(self.common, os.fsencode(name))

    def mark(self, path: bytes) -> Mark:
        """Return the mark of a ref's file, or of packed-refs where it has none."""
        try:
            seen = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return self._other()
        return (seen.st_mtime_ns, seen.st_ino, seen.st_size)

    def _other(self) -> Mark:
        try:
            seen = os.stat(self._packed)
        except FileNotFoundError:
            return (0,)
        return (1, seen.st_mtime_ns, seen.st_ino, seen.st_size)

    def look(self, name: str) -> tuple[Mark | None, Oid | None]:
        """Return a mark and what the ref points at, None where it is not there. The mark is older than the look, or None where
        the file is so young that a second change could look the same. Raises GitError when it cannot be read."""
        path = self.path(name)
        mark = self.mark(path)
        oid = self._table(name) if self._tables else self._file(name, path)
        when = mark[-3] if len(mark) > 1 else 0
        return (None if time.time_ns() - when < _YOUNG else mark), oid

    def _file(self, name: str, path: bytes) -> Oid | None:
        try:
            with open(path, "rb", buffering=0) as file:
                text = file.read(128).decode("ascii", "replace").strip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return self._from_packed(name, path)
        except OSError as error:
            raise GitError(f"ref '{name}' cannot be read: {error.strerror}") from None
        if not OID.match(text):
            raise GitError(f"ref '{name}' holds no object id")
        return text

    def _from_packed(self, name: str, path: bytes) -> Oid | None:
        mark = self._other()
        if mark != self._text[0]:
            try:
                with open(self._packed, "rb") as file:
                    self._text = (mark, b"\n" + file.read())
            except FileNotFoundError:
                self._text = (mark, b"")
            except OSError as error:
                raise GitError(f"ref '{name}' cannot be read: {error.strerror}") from None
        text = self._text[1]
        at = text.find(b" " + os.fsencode(name) + b"\n")
        if at < 0:
            # It may have left that file for one of its own since it was looked for there.
            return self._file(name, path) if os.path.isfile(path) else None
        oid = text[text.rfind(b"\n", 0, at) + 1 : at].decode("ascii", "replace")
        if not OID.match(oid):
            raise GitError(f"ref '{name}' holds no object id")
        return oid

    def _table(self, name: str) -> Oid | None:
        with self._own:
            found = self._repo.objects.info(name)
            return found.oid if found is not None else self._repo.objects.refs(name.rpartition("/")[0] + "/").get(name)

    def listing(self, *prefixes: str) -> dict[str, Oid]:
        """Return all refs below prefixes that end in ``/``; see Objects.refs."""
        with self._own:
            return self._repo.objects.refs(*prefixes)

    def close(self) -> None:
        """Close processes."""
        if self._tables:
            self._repo.close()


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
        nothing is stored. ``pause`` is called now and then, so that other threads run."""
        held = list(objects)
        with packed(self.repo, held, pause):
            for number, (kind, oid, data) in enumerate(held):
                if kind == "blob":  # what is new is read soonest, and is in memory already
                    self.remember(oid, kind, data)
                if number % 64 == 0:
                    pause()
            yield

    def read(self, oid: Id) -> tuple[Kind, bytes]:
        """Return kind and bytes of an object. Raises GitError when it is not here or cannot be read."""
        found = self._young.get(oid)
        if found is None:
            found = self._old.get(oid) or self._find(oid) or self._sought(oid)
            self.remember(oid, *found)
        return found

    def _sought(self, oid: Id) -> tuple[Kind, bytes]:
        """Return an object that is in no pack at first sight. While git moves objects from pack to pack, one may be nowhere to
        be seen for a moment."""
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
        """Open the reader of packed objects anew and read an object by it; None where git itself is the door."""
        if isinstance(self.repo.objects, BinaryObjects):
            return None
        from gitbaton.git.libgit2 import packed as reader

        self._find = reader(self.repo.objects_dir)
        return self._find(oid)

    def _ask(self) -> Objects:
        """Return the repository's own door; a process of git's belongs to one of ours and to no other user of the
        repository."""
        door = self.repo.objects
        if not isinstance(door, BinaryObjects):
            return door
        if self._door is None:
            self._door = BinaryObjects(door.git, door.git_dir, door.common_dir, door.algorithm)
        return self._door

    def remember(self, oid: Id, kind: Kind, data: bytes) -> None:
        """Cache an object for the next reads of it."""
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
        remove_stale(self.repo)
        return maintenance.tidy_packs(self.repo)

    def close(self) -> None:
        """Close files and processes."""
        with self._lock:
            self._young, self._old, self._size = {}, {}, 0
            self._find = self._first
            door, self._door = self._door, None
            if door is not None:
                door.close()

    def forked(self) -> None:
        """Leave what was under way to the parent, in a forked child."""
        self._lock = threading.RLock()
        door, self._door = self._door, None
        for item in (door, self.repo.objects):
            if item is not None:
                item.forked()


def _forked() -> None:
    for packs in list(_open):
        packs.forked()


os.register_at_fork(after_in_child=_forked)
