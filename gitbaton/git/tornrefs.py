"""Refs as they lie on disk, also those that git cannot read, and one put in the place of a broken one by git's own protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from gitbaton.errors import RefConflictError
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.system.files import sync_paths
from gitbaton.values import value

_PACKED = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64}) refs/[^\0-\x20\x7f]+\Z|\^(?:[0-9a-f]{40}|[0-9a-f]{64})\Z|#")
_LOG = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) [^\t]*> \d+ [-+]\d{4}(?:\t.*)?\Z")
_PSEUDO = ("HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")


@value
class Lying:
    """A ref as it lies on disk. ``oid``: what it points at, None where it holds no id; ``raw``: its file's bytes, None where it
    is packed."""

    name: str
    oid: Oid | None
    raw: bytes | None = None


def lying(repo: Repo) -> dict[str, Lying]:
    """Every ref below ``refs/`` that all work trees share, by name."""
    common = repo.layout.common_dir
    if os.path.isdir(os.path.join(common, "reftable")):
        refs = repo.objects.refs("refs/")
        return {name: Lying(name=name, oid=oid if oid.strip("0") else None) for name, oid in refs.items()}
    found: dict[str, Lying] = {}
    for line in packed_lines(repo):
        text, _, packed = os.fsdecode(line).partition(" ")
        if packed.startswith("refs/"):
            found[packed] = Lying(name=packed, oid=text if OID.match(text) else None)
    for folder, folders, files in os.walk(os.path.join(common, "refs")):
        folders.sort()
        for file in files:
            path = os.path.join(folder, file)
            name = os.path.relpath(path, common)
            if not file.endswith(".lock") and os.path.isfile(path):
                found[name] = _lying(name, path)
    return found


def _lying(name: str, path: str) -> Lying:
    raw = _read(path)
    text = raw.decode("ascii", "replace").rstrip()
    whole = OID.match(text) is not None and bool(text.strip("0"))
    return Lying(name=name, oid=text if whole else None, raw=raw)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 16)
    except OSError:
        return b""


def packed_lines(repo: Repo) -> list[bytes]:
    """The lines of git's file of packed refs."""
    try:
        with open(os.path.join(repo.layout.common_dir, "packed-refs"), "rb") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def bad_lines(repo: Repo) -> list[bytes]:
    """Those that git cannot read: one of them, and git reads no ref at all."""
    return [line for line in packed_lines(repo) if not _PACKED.match(line)]


def without_lines(repo: Repo, gone: Iterable[bytes]) -> None:
    """Write git's file of packed refs anew without some lines, under its lock. Raises RefConflictError, OSError."""
    path, gone = os.path.join(repo.layout.common_dir, "packed-refs"), frozenset(gone)
    kept = [line for line in packed_lines(repo) if line not in gone]
    _under_lock(path, b"".join(line + b"\n" for line in kept))


def put_ref(repo: Repo, name: str, oid: Oid | None, raw: bytes) -> None:
    """Put a file with an id in the place of a ref's file that holds ``raw`` and no id, or take the file away (None), as git
    does it: under the lock beside it, whole or not at all, on disk. Raises RefConflictError, OSError."""
    path = os.path.join(repo.layout.common_dir, *name.split("/"))
    _under_lock(path, f"{oid}\n".encode() if oid is not None else None, raw)


def put_log(repo: Repo, name: str, lines: Iterable[bytes]) -> None:
    """Write the log of a ref of ours anew. Raises RefConflictError, OSError."""
    _under_lock(os.path.join(repo.layout.common_dir, "logs", *name.split("/")), b"".join(line + b"\n" for line in lines))


def _under_lock(path: str, data: bytes | None, expected: bytes | None = None) -> None:
    lock = path + ".lock"
    try:
        fd = os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise RefConflictError(f"'{lock}' is there: another process writes it, or one was killed") from None
    if expected is not None and _read(path) != expected:
        os.close(fd)
        os.unlink(lock)
        raise RefConflictError(f"'{path}' was written meanwhile")
    with open(fd, "wb") as file:
        file.write(data or b"")
        file.flush()
        os.fsync(file.fileno())
    if data is not None:
        os.replace(lock, path)
    else:
        if os.path.lexists(path):
            os.unlink(path)
        os.unlink(lock)
    sync_paths([os.path.dirname(path)])


def log_of(repo: Repo, name: str) -> tuple[list[bytes], list[bytes]]:
    """The lines of a ref's log that are as git writes them, and the others."""
    try:
        with open(os.path.join(repo.layout.common_dir, "logs", *name.split("/")), "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return [], []
    return [line for line in lines if _LOG.match(line)], [line for line in lines if not _LOG.match(line)]


def logged(line: bytes) -> list[Oid]:
    """What a ref pointed at before and after a line of its log."""
    found = _LOG.match(line)
    return [oid.decode() for oid in found.groups() if oid.strip(b"0")] if found is not None else []


def beside(repo: Repo, ours: Iterable[str]) -> Iterator[Oid]:
    """The ids beside refs that keep objects of the user's: HEAD and its like in each work tree, and every log of refs but
    ``ours``."""
    common, own = repo.layout.common_dir, tuple(ours)
    places = [common, *_folders(os.path.join(common, "worktrees"))]
    for place in places:
        for name in _PSEUDO:
            try:
                with open(os.path.join(place, name), "rb") as file:
                    yield from (
                        text for text in re.findall(r"\b[0-9a-f]{40,64}\b", file.read(1 << 20).decode("ascii", "replace"))
                    )
            except OSError:
                continue
        for folder, _, files in os.walk(os.path.join(place, "logs")):
            for file_name in files:
                name = os.path.relpath(os.path.join(folder, file_name), os.path.join(place, "logs"))
                if not name.startswith(own):
                    with open(os.path.join(folder, file_name), "rb") as file:
                        yield from (oid for line in file.read().splitlines() for oid in logged(line))


def _folders(parent: str) -> list[str]:
    return [os.path.join(parent, name) for name in sorted(os.listdir(parent))] if os.path.isdir(parent) else []
