"""Digests of transcript files, for this machine alone: they tell what a stored conversation was made from.

A digest of a text of which only a password is unknown would give the password away to whoever fetched it.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

from gitbaton.git.repo import make_folder, put, shared
from gitbaton.model import Oid
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import blake2b

    from gitbaton.git.repo import Repo

KEPT_SECONDS = 14 * 86_400
_FORM = re.compile(rb"1 ([0-9a-f]{40}|[0-9a-f]{64}) ([1-9][0-9]{0,14}) ([0-9a-f]{64})\n\Z")
_FORGOTTEN = b"forgotten\n"
_MAX_BYTES = 256


@value
class Proof:
    """The commit of a stored conversation was made from the first ``size`` bytes of a file, which have this digest."""

    commit: Oid
    size: int
    digest: str


def hasher() -> blake2b:
    """A digest of nothing yet. CPython's own BLAKE2 where it is there: importing OpenSSL's costs a start 3 ms."""
    try:
        from _blake2 import blake2b as found
    except ImportError:
        from hashlib import blake2b as found
    made: blake2b = found(digest_size=32)
    return made


def load(repo: Repo, ref: str) -> Proof | None:
    """What was noted last of the conversation of a ref; None where nothing readable was."""
    try:
        with open(path(repo, ref), "rb") as file:
            match = _FORM.match(file.read(_MAX_BYTES))
    except OSError:
        return None
    if match is None:
        return None
    commit, size, digest = match.groups()
    return Proof(commit=commit.decode(), size=int(size), digest=digest.decode())


def save(repo: Repo, ref: str, proof: Proof) -> None:
    """Note it, readable by its owner alone, or by those who share the repository; with a conversation's first, what is old
    goes. Never raises: without it the next one compares everything."""
    name = path(repo, ref)
    first = not os.path.lexists(name)
    try:
        _put(repo, name, f"1 {proof.commit} {proof.size} {proof.digest}\n".encode())
    except OSError:
        return
    if first:
        prune(repo)


def forget(repo: Repo, ref: str) -> None:
    """Note instead that the conversation was forgotten, so that no hook stores it again from the client's file, of which all is
    still there. Raises OSError."""
    _put(repo, path(repo, ref), _FORGOTTEN)


def _put(repo: Repo, name: str, data: bytes) -> None:
    for folder in (os.path.dirname(os.path.dirname(name)), os.path.dirname(name)):
        if not os.path.isdir(folder):
            make_folder(repo, os.path.dirname(folder))
            os.makedirs(folder, mode=0o700, exist_ok=True)
            shared(repo, folder)
    put(repo, name, data, fresh=f".{os.getpid()}", mode=0o600)


def forgotten(repo: Repo, ref: str) -> bool:
    """Whether the conversation of a ref was forgotten: only its positions are recorded from then on."""
    return _says_forgotten(path(repo, ref))


def _says_forgotten(name: str) -> bool:
    try:
        with open(name, "rb") as file:
            return file.read(_MAX_BYTES) == _FORGOTTEN
    except OSError:
        return False


def path(repo: Repo, ref: str) -> str:
    """The file of a conversation's ref, ``<common dir>/baton/transcripts/<agent>/<session, encoded>``."""
    return os.path.join(repo.shared_dir, ref.removeprefix("refs/baton/"))


def prune(repo: Repo) -> None:
    """Remove what was noted two weeks ago and not since, but never that one was forgotten. Never raises."""
    with suppress(OSError):
        for folder in list(os.scandir(os.path.join(repo.shared_dir, "transcripts"))):
            for entry in list(os.scandir(folder.path)):
                old = entry.stat(follow_symlinks=False).st_mtime < time.time() - KEPT_SECONDS
                if old and not _says_forgotten(entry.path):
                    os.unlink(entry.path)
