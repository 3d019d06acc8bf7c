"""Rewritten commits: the old and new ids that post-rewrite keeps in ``<common dir>/baton/rewritten``."""

from __future__ import annotations

import os

from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo, add, put
from gitbaton.model import Oid
from gitbaton.system.files import open_regular, read_regular

KEPT = 1000
_TRIM_BYTES = 200 << 10
_TAIL = 1 << 20


def pairs(repo: Repo) -> dict[Oid, Oid]:
    """Old and new ids of the last rewrites."""
    try:
        with open(open_regular(_path(repo)), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            lines = file.read(_TAIL).decode("ascii", "replace").splitlines()[-KEPT:]
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {r[0]: r[1] for r in rows if len(r) == 2 and OID.match(r[0]) and OID.match(r[1])}


def rewritten(repo: Repo) -> dict[bytes, bytes]:
    """What commits were called before git-filter-repo rewrote them, by their new ids, as its own record says; empty where it
    was never at work."""
    try:
        lines = read_regular(os.path.join(repo.layout.common_dir, "filter-repo", "commit-map")).splitlines()
    except OSError:
        return {}
    rows = (line.split() for line in lines)
    return {row[1]: row[0] for row in rows if len(row) == 2 and row[0] != row[1] and row[1].strip(b"0")}


def successor(known: dict[Oid, Oid], oid: Oid) -> Oid:
    """The commit that ``oid`` became, over any number of rewrites; where they lead in a circle, where it closes."""
    seen = {oid}
    while (after := known.get(oid)) is not None:
        oid = after
        if oid in seen:
            break
        seen.add(oid)
    return oid


def settle(repo: Repo, oid: Oid) -> None:
    """A checkpoint was taken on a commit that had been rewritten before, and came back: from now on it is itself again."""
    if pairs(repo).get(oid, oid) != oid:
        add(repo, _path(repo), f"{oid} {oid}\n".encode())


def trim(repo: Repo) -> None:
    """Keep the newest pairs of a file that has grown. Called with the lock held; a hook may add a pair meanwhile."""
    path = _path(repo)
    try:
        if os.lstat(path).st_size < _TRIM_BYTES:
            return
        lines = read_regular(path).splitlines(keepends=True)[-KEPT:]
        put(repo, path, b"".join(lines), fresh=f".{os.getpid()}")
    except OSError:
        return  # nothing depends on its size


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "rewritten")
