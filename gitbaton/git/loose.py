"""Loose objects written without a process, where they are few. Many, or those of a shared store, are left to git."""

from __future__ import annotations

import os
import stat
import time
import zlib
from _thread import allocate_lock  # threading is dear to import
from collections.abc import Sequence

from gitbaton.errors import GitError
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import NewObject, Objects
from gitbaton.git.repo import Repo
from gitbaton.git.torn import is_whole
from gitbaton.model import Oid
from gitbaton.system.files import write_all

FEW = 32
_RECENT = 32 << 20  # bytes of objects that are remembered
_ATTEMPTS = 4
_umask: list[int] = []
_recent: dict[Oid, NewObject] = {}  # the oldest first
_lock = allocate_lock()


def remember(objects: Sequence[NewObject]) -> None:
    """Know what was written and no ref holds yet: where git collects it before one does, it is written again."""
    with _lock:
        for item in objects:
            _recent.pop(item.oid, None)
            _recent[item.oid] = item
        size = sum(len(item.data) for item in _recent.values())
        while size > _RECENT:
            size -= len(_recent.pop(next(iter(_recent))).data)


def lately() -> list[NewObject]:
    """What this process has written lately, whatever the store; the oldest is not remembered where it was much."""
    with _lock:
        return list(_recent.values())


def write_few(door: Objects, objects: Sequence[NewObject]) -> None:
    """As ``door.write``; a few objects become files without a process. They are remembered. Raises GitError."""
    remember(objects)
    if not isinstance(door, BinaryObjects) or len(objects) > FEW:
        door.write(objects)
        return
    folder = door.git.env.get("GIT_OBJECT_DIRECTORY") or os.path.join(door.common_dir, "objects")
    try:
        if _is_shared(folder):
            door.write(objects)
            return
        for item in objects:
            _write(folder, item)
    except OSError as error:
        raise GitError(f"an object cannot be written: {error.strerror}") from None


def stow(repo: Repo, objects: Sequence[NewObject]) -> None:
    """Write objects into the quarantine of a repository, from where they are published. Raises GitError."""
    put_in(repo.quarantine(), objects)


def put_in(folder: str, objects: Sequence[NewObject]) -> None:
    """Write objects into a folder of objects, a file each. Raises GitError."""
    try:
        for item in objects:
            _write(folder, item)
    except OSError as error:
        raise GitError(f"an object cannot be written: {error.strerror}") from None


def _is_shared(folder: str) -> bool:
    """Whether the store is open to more people than our umask allows: git then sets modes by core.sharedRepository."""
    if not _umask:
        _umask.append(os.umask(0o022))
        os.umask(_umask[0])
    mode = os.stat(folder).st_mode
    return bool(mode & stat.S_ISGID or mode & 0o777 & _umask[0])


def _write(folder: str, item: NewObject) -> None:
    """One object, whole or not at all, under git's own name for what is under way, which gc removes."""
    place = os.path.join(folder, item.oid[:2])
    path = os.path.join(place, item.oid[2:])
    if os.path.exists(path) and is_whole(path):  # not the torn one that a power cut leaves
        return
    raw = zlib.compress(b"%s %d\0" % (item.kind.encode(), len(item.data)) + item.data, 1)
    fresh = os.path.join(place, f"tmp_obj_{os.getpid()}{time.monotonic_ns()}")
    for attempt in range(_ATTEMPTS):
        try:
            os.makedirs(place, exist_ok=True)
            _fill(fresh, raw)
            os.rename(fresh, path)
            return
        except FileNotFoundError:  # a gc has just removed a folder that it found empty
            if attempt == _ATTEMPTS - 1:
                raise


def _fill(fresh: str, raw: bytes) -> None:
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
    try:
        write_all(fd, raw)
    except OSError:
        os.unlink(fresh)
        raise
    finally:
        os.close(fd)
