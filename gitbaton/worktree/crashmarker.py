"""Crash marker: what a command made on disk for itself, so that the next one removes (`sweep`) what a killed one left."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gitbaton.codec import in_quotes
from gitbaton.errors import GitError
from gitbaton.git.repo import Repo, make_folder, shared
from gitbaton.system.files import acquire, remove
from gitbaton.system.groups import Child, boot, end

_PREFIX = "baton-step-"
_FOLDER = "isolated"


class Marker:
    """A new folder at ``path``, below ``folder`` or the system's temporary directory, and what else is made for it, which its
    crash marker names before it is made. Where this process is killed before ``remove``, ``sweep`` removes all of it.
    ``lock_fd``: the marker, locked; a git that makes a part of it holds the lock, too. Raises GitError."""

    def __init__(self, repo: Repo, folder: str | None = None) -> None:
        if folder is None:
            import tempfile

            folder = tempfile.gettempdir()
        self.name = _PREFIX + os.urandom(8).hex()
        self.path = os.path.join(os.path.realpath(folder), self.name)
        self.lock_fd = -1
        self._places: list[str] = []
        self._file = os.path.join(repo.shared_dir, _FOLDER, self.name)
        try:
            make_folder(repo, os.path.dirname(self._file))
            self.lock_fd = _create(self._file)
            shared(repo, self.lock_fd)
            self._say(["host", socket.gethostname(), boot()])
            self.add(self.path)
            os.mkdir(self.path, 0o700)
        except (OSError, GitError) as error:
            self.remove()
            why = error.strerror if isinstance(error, OSError) else error
            raise GitError(f"the folder {in_quotes(self.path)} cannot be made: {why}") from None

    def add(self, *places: str) -> None:
        """Name more that is to be made; on disk when this returns. Raises GitError."""
        self._places += places
        self._say(*(["place", place] for place in places), lasting=True)

    def runs(self, child: Child) -> None:
        """Name the command that runs there, to be ended before all is removed. Raises GitError."""
        self._say(["child", child.word, child.pid, child.mark])

    def _say(self, *lines: Sequence[object], lasting: bool = False) -> None:
        import json

        try:
            os.write(self.lock_fd, "".join(json.dumps(line) + "\n" for line in lines).encode())
            if lasting:
                os.fsync(self.lock_fd)
        except OSError as error:
            raise GitError(f"{in_quotes(self._file)} cannot be written: {error.strerror}") from None

    def remove(self) -> bool:
        """Remove all of it, and then the marker; whether nothing is left. A second time does nothing."""
        if self.lock_fd < 0:
            return True
        fd, self.lock_fd = self.lock_fd, -1
        try:
            return _remove(self._file, self._places)
        finally:
            os.close(fd)


def _create(path: str) -> int:
    """A new file, locked: its descriptor. Raises OSError."""
    while True:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
        acquire(fd, None)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # somebody swept it before it was locked


def sweep(repo: Repo) -> None:
    """Remove what killed processes of this machine left: everything that a crash marker names which nobody has locked. A
    command that still runs there is ended first. Never raises."""
    for path, places, child in _left(repo):
        with suppress(OSError):
            if child is None or end(child, 0.0):  # not while this very process came of it
                _remove(path, places)


def left(repo: Repo) -> tuple[str, ...]:
    """The folders that ``sweep`` would remove. Never raises."""
    return tuple(place for _, places, _ in _left(repo) for place in places[:1])


def _left(repo: Repo) -> Iterator[tuple[str, list[str], Child | None]]:
    """Each crash marker of this machine that nobody has locked, and what it names; locked until the next is asked for."""
    folder = os.path.join(repo.shared_dir, _FOLDER)
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # gone meanwhile, or another user's
            continue
        try:
            if acquire(fd):
                places, child, here = _read(os.pread(fd, 1 << 24, 0))
                if here:
                    yield path, [place for place in places if os.path.basename(place).startswith(name)], child
        except OSError:
            continue
        finally:
            os.close(fd)


def _read(data: bytes) -> tuple[list[str], Child | None, bool]:
    """What a marker names: places, the command that ran there last, and whether all that was on this machine (the same boot is
    the same machine, whatever its name). A line that a power cut tore says nothing."""
    import json

    places, child, here = [], None, True
    for line in data.splitlines():
        try:
            kind, *words = json.loads(line)
            if kind == "place":
                places.append(str(words[0]))
            elif kind == "child":
                child = Child(word=str(words[0]), pid=int(words[1]), mark=str(words[2]))
            elif kind == "host":
                here = words[0] == socket.gethostname() or (bool(words[1]) and words[1] == boot())
        except (ValueError, TypeError, IndexError):
            continue
    return places, child, here


def _remove(marker: str, places: list[str]) -> bool:
    """Remove some places, also where a command took its own permissions away, the folders that registrations (all but the first
    place) were in, where they are empty, and the marker that names them; it stays where something of them does."""
    for place in places:
        with suppress(OSError):
            remove(place)
    for place in places[1:]:
        with suppress(OSError):
            os.rmdir(os.path.dirname(place))
    left = any(os.path.lexists(place) for place in places)
    if not left:
        with suppress(OSError):
            os.unlink(marker)
    return not left
