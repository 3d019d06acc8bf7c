"""Digests of transcript files, for this machine alone: they tell what a stored conversation was made from.

A digest of a text of which only a password is unknown would give the password away to whoever fetched it.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from stat import S_ISREG

from gitbaton.git.repo import clear_old, make_folder, put
from gitbaton.model import Oid
from gitbaton.system.files import read_regular
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hashlib import blake2b

    from gitbaton.git.repo import Repo

KEPT_SECONDS = 14 * 86_400
BLOCK = 1 << 20
_FORGOTTEN = b"forgotten"
_MAX_BYTES = 512
_V1, _V2 = re.compile(r"1 (\w+) (\d+) ([0-9a-f]{64})"), re.compile(r"2 (\w+) (\d+) ([0-9a-f]{64}) ([0-9a-f]{64}) (\d+) (\d+)")


def hasher(data: bytes = b"") -> blake2b:
    """A digest of some bytes. CPython's own BLAKE2 where it is there: importing OpenSSL's costs a start 3 ms."""
    try:
        from _blake2 import blake2b as found
    except ImportError:
        from hashlib import blake2b as found
    made: blake2b = found(data, digest_size=32)
    return made


class Digest:
    """The digest of a file that grows: of its last bytes, and of the ``chain``, which is that of its whole blocks; from these
    it can be gone on with."""

    def __init__(self, size: int = 0, chain: str = "0" * 64) -> None:
        """``size``: of the whole blocks that ``chain`` is of."""
        self.size, self.chain, self._last = size, chain, hasher()

    def update(self, data: bytes) -> None:
        """Go on with some more bytes."""
        while data:
            part = data[: BLOCK - self.size % BLOCK]
            self._last.update(part)
            self.size += len(part)
            if self.size % BLOCK == 0:
                self.chain, self._last = self.hexdigest(), hasher()
            data = data[len(part) :]

    def hexdigest(self) -> str:
        """That of all bytes until now."""
        return hasher(f"{self.chain} {self._last.hexdigest()}".encode()).hexdigest()


@value
class Proof:
    """What says that a stored conversation, its ``commit``, was made from the first ``size`` bytes of a file, which have a
    ``digest``, its whole blocks a ``chain``; ``file``: the device and the number of that file. One of the first kind has no
    chain, and one digest of all."""

    commit: Oid
    size: int
    digest: str
    chain: str = ""
    file: tuple[int, int] = (0, 0)


def load(repo: Repo, ref: str) -> Proof | None:
    """What was noted last of the conversation of a ref; None where nothing was that can be read."""
    noted = _noted(path(repo, ref)).decode("ascii", "replace")
    if found := _V2.fullmatch(noted):
        commit, size, digest, chain, device, inode = found.groups()
        return Proof(commit=commit, size=int(size), digest=digest, chain=chain, file=(int(device), int(inode)))
    if found := _V1.fullmatch(noted):
        commit, size, digest = found.groups()
        return Proof(commit=commit, size=int(size), digest=digest)
    return None


def _noted(name: str) -> bytes:
    try:
        return read_regular(name, _MAX_BYTES).removesuffix(b"\n")
    except OSError:
        return b""


def save(repo: Repo, ref: str, proof: Proof) -> None:
    """Note it, readable by its owner alone, or by those who share the repository; with a conversation's first, what is old
    goes. Never raises: without it the next one compares everything."""
    name = path(repo, ref)
    first = not os.path.lexists(name)
    try:
        _put(repo, name, f"2 {proof.commit} {proof.size} {proof.digest} {proof.chain} {proof.file[0]} {proof.file[1]}".encode())
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
    return _noted(path(repo, ref)) == _FORGOTTEN


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
