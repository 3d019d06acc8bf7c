"""Held bytes: what did not go through its clean filter as it is, in files of the git directory that no object holds.

A checkpoint names them by a stand-in, a blob with a token: a keyed digest of path and bytes, which tells nothing without the
key. Nothing that is pushed, exported or shown reads them.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, suppress

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError, StaleError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import (
    NEW,
    acquire,
    closing_fd,
    open_file,
    open_regular,
    read_regular,
    remove,
    sweep,
    sync_paths,
    write_all,
    write_first,
)
from gitbaton.base.values import value
from gitbaton.git.objects import Objects
from gitbaton.git.repo import Repo, folder_of_ours, make_folder

_TEXT = re.compile(rb"gitbaton held 1\ntoken ([0-9a-f]{64})\nfilter ([^\n]{0,1000})\nas (unfiltered|cleaned)\n\Z")
LONGEST = 2048  # bytes of such a text
_TOKEN = re.compile(r"[0-9a-f]{64}\Z")
_KEY, _NEW = "key", ".new"
_KEY_BYTES = 32
_CHUNK = 1 << 20
_ATTEMPTS = 5
_LEFTOVER = 3600.0


@value
class HeldBytes:
    """The content of a stand-in: the token of the bytes, and the filter that they stood behind; none where git ignores the
    path. ``cleaned``: the filter ran, and what it made is in the checkpoint; a checkout of that only gives other bytes."""

    token: str
    driver: str
    cleaned: bool

    @property
    def text(self) -> bytes:
        """The stand-in."""
        way = b"cleaned" if self.cleaned else b"unfiltered"
        return b"gitbaton held 1\ntoken %s\nfilter %s\nas %s\n" % (self.token.encode(), os.fsencode(self.driver), way)

    @property
    def reason(self) -> str:
        """Why the bytes are not where the checkpoint is read."""
        if not self.driver:
            return "it was ignored, and its bytes stayed where they were taken"
        if self.cleaned:
            return f"its exact bytes stayed where they were taken; filter {in_quotes(self.driver)} makes others"
        return f"its bytes did not pass filter {in_quotes(self.driver)} and stayed where they were taken"


class HeldOid(str):
    """The id of a stand-in, among ids of blobs that hold bytes themselves."""

    __slots__ = ()


def parse_held(data: bytes) -> HeldBytes | None:
    """Return what a stand-in says; None for any other blob."""
    found = _TEXT.match(data) if len(data) <= LONGEST else None
    if found is None:
        return None
    return HeldBytes(token=found[1].decode(), driver=os.fsdecode(found[2]), cleaned=found[3] == b"cleaned")


def read_held(objects: Objects, oid: Oid) -> HeldBytes | None:
    """Return what a stand-in says; None where the object is not one, or not here."""
    found = objects.read(oid, LONGEST)
    return parse_held(found.data) if found is not None and found.kind == "blob" and found.data is not None else None


def moved(repo: Repo, root: str, kept: Mapping[str, Oid]) -> list[str]:
    """Return the paths at which a work tree has other bytes than are held here for their stand-ins, or none; what is held
    elsewhere is not compared. Raises GitError."""
    store, found = HeldStore(repo), []
    for path, oid in kept.items():
        held = read_held(repo.objects, oid)
        if held is None or not store.has(held):
            continue
        fd = open_file(root, path)
        if fd is None:
            found.append(path)
            continue
        with open(fd, "rb", buffering=0) as file:
            now, _ = store.hold(path, file.fileno(), held.driver, cleaned=held.cleaned, store=False)
        found += [path] if now.token != held.token else []
    return found


def exact_bytes(repo: Repo, path: str, oid: Oid) -> bytes:
    """Return the exact bytes of a path, from a blob or from where a stand-in says that they are kept. Raises GitError when they
    are gone."""
    if isinstance(oid, HeldOid):
        held = read_held(repo.objects, oid)
        if held is None:
            raise GitError(f"{in_quotes(path)}: object {oid} does not say where its bytes are")
        return HeldStore(repo).read(path, held)
    found = repo.objects.read(oid, 1 << 40)
    if found is None or found.kind != "blob" or found.data is None:
        raise GitError(f"{in_quotes(path)}: object {oid} cannot be read")
    return found.data


class HeldStore:
    """The held bytes of a repository: one file for all that is equal at a path, which its linked work trees share."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.folder = self.target = os.path.join(repo.shared_dir, "held")
        if repo.own_dir != os.path.join(repo.layout.git_dir, "baton"):  # nothing of a dry run is to stay
            self.target = os.path.join(repo.own_dir, "held")
        self._key: bytes | None = None
        self._waiting: dict[str, str] = {}  # files that are not on disk yet, by their tokens

    def hold(
        self, path: str, fd: int, driver: str, *, cleaned: bool, store: bool = True, wait: bool = True
    ) -> tuple[HeldBytes, Oid]:
        """Keep what an open file holds, on disk when the call returns, or without ``wait`` when ``sync`` does, for ``path``
        alone; and the id that these bytes have as a blob, which is not written. Without ``store`` only the token is made.
        Raises StaleError for a file that never is still, GitError."""
        try:
            key = self._own_key()
            for _ in range(_ATTEMPTS):
                token, oid = self._read(key, path, fd, None)
                if not store or self._renewed(token) or self._written(key, path, fd, wait=wait) == token:
                    return HeldBytes(token=token, driver=driver, cleaned=cleaned), oid
        except OSError as error:
            why = error.strerror or error
            raise GitError(f"{in_quotes(path)} cannot be kept in '{self.folder}': {why}") from None
        raise StaleError(f"{in_quotes(path)} changes each time it is read", paths=(path,))

    def sync(self) -> None:
        """Fsync all that was held without a wait. Raises GitError."""
        try:
            if self._waiting:
                sync_paths(os.path.join(self.target, fresh) for fresh in self._waiting.values())
                with self._opened(self.target) as folder:
                    for token, fresh in self._waiting.items():
                        os.replace(fresh, token, src_dir_fd=folder, dst_dir_fd=folder)
                    os.fsync(folder)
            self._waiting.clear()
        except OSError as error:
            raise GitError(f"'{self.folder}' cannot be written: {error.strerror or error}") from None

    def read(self, path: str, held: HeldBytes) -> bytes:
        """Return the bytes that were held at ``path``. Raises GitError where they are not here, or are not these."""
        data = next((found for place in self._places if (found := self._file(place, held.token)) is not None), None)
        if data is None:
            raise GitError(f"{in_quotes(path)}: {held.reason}")
        import hmac  # late, as all that is loaded with it: most captures hold nothing

        made = hmac.new(self._own_key(), os.fsencode(path) + b"\0", "sha256")
        made.update(data)
        if not hmac.compare_digest(made.hexdigest(), held.token):
            raise GitError(f"{in_quotes(path)}: what is held for it in '{self.folder}' is damaged, or another path's")
        return data

    def names(self) -> dict[str, int]:
        """Return the tokens of what is held, each with its bytes on disk."""
        found = {}
        with suppress(OSError), self._opened(self.folder) as folder:
            for name in filter(_TOKEN.match, os.listdir(folder)):
                found[name] = os.lstat(name, dir_fd=folder).st_blocks * 512
        return found

    def sweep(self, named: Callable[[], Collection[str]]) -> int:
        """Remove what is held and not ``named``; how many files went. None do while another process is between holding bytes
        and naming them. Raises OSError, and what ``named`` raises."""
        if not self.names() or not self._locked(shared=False):
            return 0
        try:
            return self._swept(named())
        finally:
            self._unlock()

    def _swept(self, named: Collection[str]) -> int:
        gone = self.names().keys() - set(named)
        with self._opened(self.folder) as folder:
            for token in gone:
                remove(token, folder)
            # And what killed processes left.
            sweep(folder, lambda name, found: name.startswith(_NEW) and time.time() - found.st_mtime > _LEFTOVER)
            os.fsync(folder)
        return len(gone)

    def _opened(self, place: str) -> AbstractContextManager[int]:
        """Provide a descriptor of a folder of these, reached through no link. Raises OSError."""
        return closing_fd(folder_of_ours(self.repo, place))

    @property
    def _places(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.folder, self.target)))

    def _file(self, place: str, name: str) -> bytes | None:
        """Return a file of one of these folders; None where there is none to be read."""
        with suppress(OSError), self._opened(place) as folder:
            return read_regular(name, folder=folder)
        return None

    def has(self, held: HeldBytes) -> bool:
        """Whether the bytes are here."""
        return self._there(held.token)

    def _there(self, token: str) -> bool:
        for place in self._places:
            with suppress(OSError), self._opened(place) as folder:
                if stat.S_ISREG(os.lstat(token, dir_fd=folder).st_mode):
                    return True
        return False

    def _locked(self, *, shared: bool) -> bool:
        """Take the lock of the folder, which goes with the repository: shared, by a process that holds bytes which nothing
        names yet, or alone, if no process does. Raises OSError."""
        if self.repo.held_lock is None:
            with self._opened(self.folder) as folder:
                self.repo.held_lock = open_regular(_KEY, folder)
            self.repo.at_close.append(self._unlock)
        return acquire(self.repo.held_lock, None if shared else 0.0, shared=shared)

    def _unlock(self) -> None:
        fd, self.repo.held_lock = self.repo.held_lock, None
        if fd is not None:
            os.close(fd)

    def _own_key(self) -> bytes:
        """Return the key of this repository, made where there is none. Raises OSError, GitError."""
        if self._key is None:
            if self.target == self.folder or self._file(self.folder, _KEY) is None:
                self._make()
            self._key = self._file(self.folder, _KEY) or self._file(self.target, _KEY)
            if self._key is None or len(self._key) < _KEY_BYTES:
                raise GitError(f"'{os.path.join(self.folder, _KEY)}' is no key: what is held cannot be told from other bytes")
        if self.target != self.folder and not os.path.isdir(self.target):
            self._make()
        return self._key

    def _make(self) -> None:
        """Make the folder, for its owner alone, and the key, where they are not there."""
        make_folder(self.repo, os.path.dirname(self.target))
        with suppress(FileExistsError):
            os.mkdir(self.target, 0o700)
            sync_paths([os.path.dirname(self.target)])
        os.close(folder_of_ours(self.repo, self.target))  # which raises where a link is in its place
        key = os.path.join(self.target, _KEY)
        if not os.path.lexists(key):
            write_first(key, os.urandom(_KEY_BYTES), mode=0o600)

    def _renewed(self, token: str) -> bool:
        """Whether a file is there already; it stays until this process has named it."""
        if self.target == self.folder:
            self._locked(shared=True)
        return self._there(token)

    def _written(self, key: bytes, path: str, fd: int, *, wait: bool) -> str:
        """Copy an open file under the token of what was copied."""
        with self._opened(self.target) as folder:
            fresh = _fresh()
            new = os.open(fresh, NEW, 0o600, dir_fd=folder)
            try:
                with closing_fd(new):
                    token, _ = self._read(key, path, fd, new)
                    if wait:
                        os.fsync(new)
                if not wait:
                    self._waiting[token] = fresh
                    return token
                os.replace(fresh, token, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(fresh, dir_fd=folder)
                raise
            os.fsync(folder)
        return token

    def _read(self, key: bytes, path: str, fd: int, target: int | None) -> tuple[str, Oid]:
        """Return the token of what an open file holds at a path, and its id as a blob; the bytes go to ``target``, too."""
        import hashlib
        import hmac

        made = hmac.new(key, os.fsencode(path) + b"\0", hashlib.sha256)
        size = os.fstat(fd).st_size
        blob = hashlib.new(self.repo.layout.algorithm, b"blob %d\0" % size, usedforsecurity=False)
        os.lseek(fd, 0, os.SEEK_SET)
        while chunk := os.read(fd, _CHUNK):
            made.update(chunk)
            blob.update(chunk)
            if target is not None:
                write_all(target, chunk)
        return made.hexdigest(), blob.hexdigest()


def _fresh() -> str:
    return f"{_NEW}.{os.getpid()}.{time.monotonic_ns()}"
