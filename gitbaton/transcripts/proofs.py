"""Digests of transcript files, for this machine alone: they tell what a stored conversation was made from.

A digest of a text of which only a password is unknown would give the password away to whoever fetched it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from stat import S_ISREG

from gitbaton.git.repo import clear_old, make_folder, put
from gitbaton.model import Oid
from gitbaton.system.files import read_regular

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import blake2b

    from gitbaton.git.repo import Repo

KEPT_SECONDS = 14 * 86_400
_FORGOTTEN = b"forgotten"
_MAX_BYTES = 256
_DIGITS = 64


def hasher() -> blake2b:
    """A digest of nothing yet. CPython's own BLAKE2 where it is there: importing OpenSSL's costs a start 3 ms."""
    try:
        from _blake2 import blake2b as found
    except ImportError:
        from hashlib import blake2b as found
    made: blake2b = found(digest_size=32)
    return made


def proof(commit: Oid, size: int, digest: str) -> bytes:
    """What says that a stored conversation was made from the first ``size`` bytes of a file, which have this digest."""
    return f"1 {commit} {size} {digest}".encode()


def tells_another(noted: bytes, now: bytes) -> bool:
    """Whether what was noted is of the same conversation, as long, and with another digest: the file was rewritten."""
    return noted != now and noted[:-_DIGITS] == now[:-_DIGITS]


def load(repo: Repo, ref: str) -> bytes:
    """What was noted last of the conversation of a ref; empty where nothing was that can be read."""
    return _noted(path(repo, ref))


def _noted(name: str) -> bytes:
    try:
        return read_regular(name, _MAX_BYTES).removesuffix(b"\n")
    except OSError:
        return b""


def save(repo: Repo, ref: str, noted: bytes) -> None:
    """Note it, readable by its owner alone, or by those who share the repository; with a conversation's first, what is old
    goes. Never raises: without it the next one compares everything."""
    name = path(repo, ref)
    first = not os.path.lexists(name)
    try:
        _put(repo, name, noted)
    except OSError:
        return
    if first:
        prune(repo)


def forget(repo: Repo, ref: str) -> None:
    """Note instead that the conversation was forgotten, so that no hook stores it again from the client's file, of which all is
    still there. Raises OSError."""
    _put(repo, path(repo, ref), _FORGOTTEN)


def _put(repo: Repo, name: str, data: bytes) -> None:
    make_folder(repo, repo.shared_dir)
    make_folder(repo, os.path.dirname(name), mode=0o700)
    put(repo, name, data + b"\n", fresh=f".{os.getpid()}", mode=0o600)


def forgotten(repo: Repo, ref: str) -> bool:
    """Whether the conversation of a ref was forgotten: only its positions are recorded from then on."""
    return load(repo, ref) == _FORGOTTEN


def path(repo: Repo, ref: str) -> str:
    """The file of a conversation's ref, ``<common dir>/baton/transcripts/<agent>/<session, encoded>``."""
    return os.path.join(repo.shared_dir, ref.removeprefix("refs/baton/"))


def prune(repo: Repo) -> None:
    """Remove what was noted two weeks ago and not since, but never that one was forgotten. Never raises."""
    since, top = time.time() - KEPT_SECONDS, os.path.join(repo.shared_dir, "transcripts")
    with suppress(OSError):
        for folder in [os.path.join(top, agent) for agent in os.listdir(top)]:

            def goes(name: str, found: os.stat_result, folder: str = folder) -> bool:
                old = S_ISREG(found.st_mode) and found.st_mtime < since
                return old and _noted(os.path.join(folder, name)) != _FORGOTTEN

            clear_old(repo, folder, goes)
