"""Ids: of commits of chains the ids of their checkpoints and HEAD's, in a file below the common directory that may be thrown
away: it saves a lookup by id from reading every record."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from gitbaton.base.errors import BatonError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import read_or_none
from gitbaton.git.objects import digest
from gitbaton.git.repo import Repo, drop, put

MANY = 1000
"""Records from which on it is worth it to keep their ids."""
_HEADER = "gitbaton ids 1"

Ids = tuple[Oid, Oid]  # of a checkpoint, and of HEAD's commit; that is empty where it had none


def read_ids(repo: Repo) -> dict[Oid, Ids]:
    """Return what is kept, by the commit; nothing where the file is not as it was written."""
    head, _, rows = (read_or_none(_path(repo)) or b"").partition(b"\n")
    if head != _seal(rows):
        return {}
    found = (row.split(" ") for row in rows.decode("ascii").splitlines())
    return {commit: (oid, at) for commit, oid, at in found}


def keep_ids(repo: Repo, known: Mapping[Oid, Ids]) -> None:
    """Keep these and no others; a disk that does not take them keeps none. Of several writers one wins."""
    rows = "".join(f"{commit} {oid} {at}\n" for commit, (oid, at) in known.items()).encode("ascii")
    with suppress(OSError, BatonError):
        put(repo, _path(repo), _seal(rows) + b"\n" + rows, fresh=f".{os.getpid()}")


def drop_ids(repo: Repo) -> None:
    """Remove what is kept. Never raises."""
    with suppress(OSError):
        drop(repo, _path(repo))


def _seal(rows: bytes) -> bytes:
    return f"{_HEADER} {digest('sha1', rows).hex()}".encode("ascii")


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "ids")
