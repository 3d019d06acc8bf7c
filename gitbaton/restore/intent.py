"""Crash marker of a restore, and the lock that says whether the restore still runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gitbaton.codec import Json, canonical, in_quotes, parse, path_document, path_of
from gitbaton.errors import GitError, RecordError
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo, lock_file, put
from gitbaton.model import OPS, Oid, Op
from gitbaton.system.files import acquire, read_regular, release
from gitbaton.values import value

LOCK_WAIT = 10.0
_FORMAT = 1


@value
class Intent:
    """``target``: the chain commit whose files come back. ``previous``: what the safety chain pointed at before; ``safety``:
    its new commit, from the moment on at which files may have changed. ``index``: whether entries of the index come
    back, ``seen``: which index that was. ``mark``: what a lock file of ours
    holds. ``root``: the work tree."""

    op: Op
    target: Oid
    previous: Oid | None
    safety: Oid | None
    index: bool
    seen: tuple[str, ...]
    mark: str
    root: str


def path(repo: Repo) -> str:
    """Where the record of a work tree's restore lies."""
    return os.path.join(repo.own_dir, "restore")


def write(repo: Repo, intent: Intent) -> None:
    """Write the record, whole or not at all."""
    document: dict[str, Json] = {
        "v": _FORMAT,
        "op": intent.op,
        "target": intent.target,
        "previous": intent.previous,
        "safety": intent.safety,
        "index": intent.index,
        "seen": list(intent.seen),
        "mark": intent.mark,
        "root": path_document(intent.root),
    }
    put(repo, path(repo), canonical(document), sync=True)


def read(repo: Repo) -> Intent | None:
    """The record of a restore that is under way or was interrupted. Raises RecordError for one that cannot be read."""
    try:
        found = parse(read_regular(path(repo), 1 << 20))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"'{path(repo)}' cannot be read: {error.strerror}") from None
    if not isinstance(found, dict) or found.get("v") != _FORMAT:
        raise RecordError(f"{in_quotes(path(repo))} is not a record of this gitbaton")
    op = next((name for name in OPS if name == found.get("op")), None)
    index = found.get("index")
    ids = {key: found.get(key) for key in ("target", "previous", "safety")}
    seen, mark, root = found.get("seen"), found.get("mark"), found.get("root")
    target, previous, safety = (_oid(ids[key]) for key in ("target", "previous", "safety"))
    if (
        op is None
        or not isinstance(index, bool)
        or target is None
        or not isinstance(seen, list)
        or not isinstance(mark, str)
        or root is None
    ):
        raise RecordError(f"{in_quotes(path(repo))} is malformed")
    return Intent(
        op=op, target=target, previous=previous, safety=safety, index=index, seen=_words(seen), mark=mark, root=path_of(root)
    )


def _oid(found: Json) -> Oid | None:
    return found if isinstance(found, str) and OID.match(found) else None


def _words(found: Sequence[Json]) -> tuple[str, ...]:
    return tuple(str(word) for word in found)


def remove(repo: Repo) -> None:
    """The restore is over."""
    try:
        os.unlink(path(repo))
    except FileNotFoundError:
        pass


def set_aside(repo: Repo) -> str:
    """Move a record that cannot be read out of the way; where it is then."""
    other = path(repo) + ".bad"
    os.replace(path(repo), other)
    return other


def reached(name: str) -> None:
    """Say that a write step of a restore comes next: the audit event ``gitbaton.restore``, with the step's name."""
    sys.audit("gitbaton.restore", name)


@contextmanager
def alone(repo: Repo, wait: float = LOCK_WAIT) -> Iterator[None]:
    """Be the only restore in this work tree. The lock goes with the last process that holds it, so that a git which outlives
    us still counts. Raises GitError when another one holds it for ``wait`` seconds."""
    fd = lock_file(repo, os.path.join(repo.own_dir, "restoring"))
    try:
        if not acquire(fd, wait):
            raise GitError("another restore is at work in this work tree; nothing is changed")
        os.set_inheritable(fd, True)
        try:
            yield
        finally:
            release(fd)  # a git of ours that waits for questions has it, too
    finally:
        os.close(fd)
