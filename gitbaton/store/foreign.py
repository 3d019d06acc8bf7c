"""Foreign marks: the checkpoints of a track that came from elsewhere and that no local snapshot has followed yet."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gitbaton.codec import encode_track
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo, put
from gitbaton.model import Oid

_NONE: frozenset[Oid] = frozenset()


class Marks:
    """The files as last read, each anew when it has changed: a question costs one look at the file's state."""

    def __init__(self, repo: Repo) -> None:
        self._folder = os.path.join(repo.shared_dir, "foreign")
        self._known: dict[str, tuple[tuple[int, int, int], frozenset[Oid]]] = {}

    def of(self, track: str) -> frozenset[Oid]:
        """The ids that are foreign in a track."""
        path = os.path.join(self._folder, encode_track(track))
        try:
            state = os.stat(path)
        except OSError:
            return _NONE
        mark = state.st_ino, state.st_mtime_ns, state.st_size
        known = self._known.get(track)
        if known is None or known[0] != mark:
            known = self._known[track] = mark, _read(path)
        return known[1]


def _read(path: str) -> frozenset[Oid]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return frozenset(line for line in file.read().split("\n") if OID.match(line))
    except OSError:
        return _NONE


def marked(repo: Repo, track: str) -> frozenset[Oid]:
    """The ids of a track's checkpoints that are foreign."""
    return Marks(repo).of(track)


def mark(repo: Repo, track: str, ids: Iterable[Oid]) -> None:
    """Say that checkpoints of a track are foreign; before its chain holds them. Called with the lock held. Raises OSError."""
    known = marked(repo, track)
    more = known.union(ids)
    if more == known:
        return
    path = os.path.join(repo.shared_dir, "foreign", encode_track(track))  # `.new` is no track's: `.` is encoded
    put(repo, path, "".join(f"{oid}\n" for oid in sorted(more)).encode("ascii"))


def clear(repo: Repo, track: str) -> None:
    """Say that no checkpoint of a track is foreign any more, because a local one follows. Called with the lock held."""
    try:
        os.unlink(os.path.join(repo.shared_dir, "foreign", encode_track(track)))
    except OSError:
        return  # it stays foreign until the next one
