"""Deleted tracks: where each ended that went whole, so that it can come back while git has its commits."""

from __future__ import annotations

import os

from gitbaton.codec import Json, canonical, encode_track, in_quotes, parse
from gitbaton.errors import RecordError
from gitbaton.git.objects import OID
from gitbaton.git.repo import Repo, put
from gitbaton.model import Oid
from gitbaton.system.files import read_regular, remove
from gitbaton.values import value

_MAX = 64 << 20
_FORMAT = 1


@value
class Deleted:
    """A track that went: its newest commit ``tip``, and those of its checkpoints that were made here, ``ours``."""

    tip: Oid
    ours: frozenset[Oid]


def note(repo: Repo, track: str, gone: Deleted) -> None:
    """Note where a track ends, before it goes; of several of one name the newest counts. Raises OSError."""
    ours: list[Json] = [*sorted(gone.ours)]
    put(repo, _path(repo, track), canonical({"v": _FORMAT, "tip": gone.tip, "ours": ours}), sync=True)


def find(repo: Repo, track: str) -> Deleted | None:
    """Where the track of that name ended that went last; None where none is known. Raises RecordError."""
    path = _path(repo, track)
    try:
        found = parse(read_regular(path, _MAX))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"{in_quotes(path)} cannot be read: {error.strerror}") from None
    known = found if isinstance(found, dict) and found.get("v") == _FORMAT else {}
    tip, ours = known.get("tip"), known.get("ours")
    if not (isinstance(tip, str) and OID.match(tip) and isinstance(ours, list)):
        raise RecordError(f"{in_quotes(path)} is not what gitbaton writes")
    return Deleted(tip=tip, ours=frozenset(oid for oid in ours if isinstance(oid, str)))


def drop(repo: Repo, track: str) -> None:
    """Take a note back: the track is there again. Raises OSError."""
    remove(_path(repo, track))


def _path(repo: Repo, track: str) -> str:
    return os.path.join(repo.shared_dir, "deleted", encode_track(track))
