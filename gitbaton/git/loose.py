"""Loose objects: written without a process, where they are few; what was written lately; and torn ones, as a power cut leaves
them: git takes any file for the object."""

from __future__ import annotations

import os
import stat
import time
import zlib
from _thread import allocate_lock  # threading is dear to import
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress

from gitbaton.base.errors import GitError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import names_in, read_or_none, read_regular, write_atomic
from gitbaton.base.system.groups import boot
from gitbaton.git.objects import Algorithm, NewObject, digest, parse_tree
from gitbaton.git.run import quoted

STAMP = "boot"  # in our folder of the common directory
_CHUNK = 1 << 20
FEW = 32
FEW_BYTES = 1 << 20
_RECENT = 32 << 20  # bytes of objects that are remembered
_ATTEMPTS = 20
_umask: list[int] = []
_recent: dict[Oid, NewObject] = {}  # the oldest first
_size = 0  # of their bytes
_lock = allocate_lock()


def is_whole(path: str) -> bool:
    """Whether a loose object's file holds as many bytes as it says; also where there is none, or it may not be read."""
    try:
        with open(path, "rb") as file:
            inflate, size, wanted = zlib.decompressobj(), 0, -1
            while data := inflate.unconsumed_tail or file.read(_CHUNK):
                part = inflate.decompress(data, _CHUNK)
                if wanted < 0:
                    head, _, part = part.partition(b"\0")
                    wanted = int(head.rpartition(b" ")[2])
                size += len(part)
                if inflate.eof:
                    break
            return inflate.eof and size == wanted
    except (zlib.error, ValueError):
        return False
    except OSError:
        return True


def is_hollow(path: str) -> bool:
    """Whether a file is empty or begins with a zero byte, as after a power cut: one byte is read, so it is no proof."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(1) in (b"", b"\0")
    except PermissionError:
        return False


def is_known(folder: str) -> bool:
    """Whether the objects that git wrote since this machine was started are verified, as a stamp file says; also where one
    start cannot be told from another."""
    try:
        return read_regular(os.path.join(folder, STAMP), 4096).decode("ascii", "replace") == boot()
    except OSError:
        return not boot()


def index_is_torn(path: str, algorithm: Algorithm) -> bool:
    """Whether an index does not begin as one, or does not end with the digest of what it holds, which git itself does not look
    at. One that git wrote without a digest is not, nor one that may not be read."""
    raw = read_or_none(path, follow=True)
    if raw is None:
        return False
    width = len(digest(algorithm, b""))
    if len(raw) < 12 + width or not raw.startswith(b"DIRC"):
        return True
    return bool(raw[-width:].strip(b"\0")) and digest(algorithm, raw[:-width]) != raw[-width:]


def index_anew(path: str) -> str:
    """Return the command line that puts a damaged index aside and makes it anew from HEAD; a merge that is under way goes on.
    Where we may only not read it, the one that changes that."""
    if os.path.lexists(path) and not os.access(path, os.R_OK):
        return f"chmod u+rw {quoted(path)}"
    busy = os.path.lexists(os.path.join(os.path.dirname(path), "MERGE_HEAD"))  # which `git reset` would end
    return f"mv {quoted(path)} {quoted(path + '.torn')} && {'git read-tree HEAD' if busy else 'git reset'}"


def remember(objects: Sequence[NewObject]) -> None:
    """Know what was written and no ref holds yet: where git collects it before one does, it is written again."""
    global _size
    with _lock:
        for item in objects:
            _size += len(item.data) if _recent.pop(item.oid, None) is None else 0
            _recent[item.oid] = item
        while _size > _RECENT:
            _size -= len(_recent.pop(next(iter(_recent))).data)


def lately() -> list[NewObject]:
    """Return the objects that this process has written lately, in any store; of many only the newest 32 MiB."""
    with _lock:
        return list(_recent.values())


def few_below(oids: Iterable[Oid], algorithm: Algorithm, held: Container[Oid]) -> list[NewObject] | None:
    """Return the objects ``oids``, and all below these trees, but for what is ``held`` with all below it; None where they are
    not few, or not all were written lately."""
    found: dict[Oid, NewObject] = {}
    waiting, size = list(oids), 0
    while waiting:
        oid = waiting.pop()
        if oid in held or oid in found:
            continue
        item = _recent.get(oid)
        if item is None or len(found) == FEW or size > FEW_BYTES:
            return None
        found[oid], size = item, size + len(item.data)
        waiting += _below(item, algorithm)
    return list(found.values())


def hold(oids: Iterable[Oid], algorithm: Algorithm, held: set[Oid]) -> None:
    """Add to what is ``held`` objects that a ref holds now, and what of all below them was written lately."""
    waiting = list(oids)
    while waiting:
        oid = waiting.pop()
        if oid not in held:
            held.add(oid)
            item = _recent.get(oid)
            waiting += _below(item, algorithm) if item is not None else ()


def _below(item: NewObject, algorithm: Algorithm) -> list[Oid]:
    return [entry.oid for entry in parse_tree(item.data, algorithm)] if item.kind == "tree" else []


def put_in(folder: str, objects: Sequence[NewObject], *, sync: bool = False) -> None:
    """Write objects into a folder of objects, a file each; with ``sync`` those that were not there are on disk when it returns.
    Raises GitError."""
    try:
        for item in objects:
            _write(folder, item, sync)
    except OSError as error:
        raise GitError(f"an object cannot be written: {error.strerror}") from None


def drop_torn(folder: str, oids: Iterable[Oid]) -> None:
    """Remove the files of objects that a power cut left torn, before they are written again: git takes any file for the
    object."""
    there: dict[str, set[str]] = {}
    for oid in oids:
        place, name = oid[:2], oid[2:]
        if place not in there:  # a look at each folder, and not at each object: they may be thousands
            there[place] = names_in(os.path.join(folder, place))  # none, where git says what is wrong with it
        if name in there[place] and not is_whole(path := os.path.join(folder, place, name)):
            with suppress(FileNotFoundError):
                os.unlink(path)


def is_shared(folder: str) -> bool:
    """Whether the store is open to more people than our umask allows: git then sets modes by core.sharedRepository."""
    if not _umask:
        _umask.append(os.umask(0o022))
        os.umask(_umask[0])
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return True  # git says what is wrong
    return bool(mode & stat.S_ISGID or mode & 0o777 & _umask[0])


def _write(folder: str, item: NewObject, sync: bool) -> None:
    """Write one object that is not there, whole or not at all, under git's own name for a temporary file, which gc removes."""
    place = os.path.join(folder, item.oid[:2])
    path = os.path.join(place, item.oid[2:])
    if os.path.exists(path) and is_whole(path):  # not the torn one that a power cut leaves
        return
    raw = zlib.compress(b"%s %d\0" % (item.kind.encode(), len(item.data)) + item.data, 1)
    fresh = os.path.join(place, f"tmp_obj_{os.getpid()}{time.monotonic_ns()}")
    for attempt in range(_ATTEMPTS):
        try:
            os.makedirs(place, exist_ok=True)
            write_atomic(path, raw, temporary=fresh, mode=0o444, sync=sync)
            return
        except (FileNotFoundError, FileExistsError):  # a gc has just removed a folder that it found empty
            if attempt == _ATTEMPTS - 1:
                raise
