"""Refs as they lie on disk, also those that git cannot read, and one put in the place of a broken one by git's own protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from glob import escape, glob

from gitbaton.errors import RefConflictError
from gitbaton.git import reffiles
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.system.files import sync_paths
from gitbaton.values import value

_PACKED = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64}) refs/[^\0-\x20\x7f]+\n|\^(?:[0-9a-f]{40}|[0-9a-f]{64})\n|#.*\n")
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
        text, _, packed = os.fsdecode(line).rstrip("\n").partition(" ")
        if packed.startswith("refs/"):
            found[packed] = Lying(name=packed, oid=text if OID.match(text) else None)
    for name in sorted(reffiles.lying(repo, "refs")):
        path = os.path.join(common, name)
        if os.path.isfile(path):
            raw = _read(path)
            text = raw.decode("ascii", "replace").rstrip()
            found[name] = Lying(name=name, oid=text if OID.match(text) and text.strip("0") else None, raw=raw)
    return found


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def packed_lines(repo: Repo) -> list[bytes]:
    """The lines of git's file of packed refs, with their ends."""
    try:
        with open(os.path.join(repo.layout.common_dir, "packed-refs"), "rb") as file:
            return file.readlines()
    except FileNotFoundError:
        return []


def bad_lines(repo: Repo) -> list[bytes]:
    """Those that git cannot read: one of them, and git reads no ref at all."""
    return [line for line in packed_lines(repo) if not _PACKED.match(line)]


def lacks_end(line: bytes) -> bool:
    """Whether all that a bad line lacks is its end: the file was cut."""
    return not line.endswith(b"\n") and _PACKED.match(line + b"\n") is not None


def put_file(repo: Repo, name: str, data: bytes | None, expected: bytes | None = None) -> None:
    """Put bytes in the place of a file of git's in the common directory, or take it away (None), as git does it: under the lock
    beside it, whole or not at all, on disk. ``expected``: what it must hold. Raises RefConflictError, OSError."""
    path = os.path.join(repo.layout.common_dir, *name.split("/"))
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
    for place in (common, *glob(os.path.join(escape(common), "worktrees", "*"))):
        for name in _PSEUDO:
            yield from re.findall(r"\b[0-9a-f]{40,64}\b", _read(os.path.join(place, name)).decode("ascii", "replace"))
        logs = os.path.join(place, "logs")
        for path in (os.path.join(folder, file_name) for folder, _, files in os.walk(logs) for file_name in files):
            if not os.path.relpath(path, logs).startswith(own):
                with open(path, "rb") as file:
                    yield from (oid for line in file.read().splitlines() for oid in logged(line))
