"""Crash marker: what a command made on disk for itself, so that the next one removes (`sweep`) what a killed one left."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import GitError
from gitbaton.base.system.files import (
    TOKEN,
    TOKENS,
    acquire,
    closing_fd,
    names_in,
    open_folder,
    open_lasting,
    read_regular,
    remove,
    write_atomic,
)
from gitbaton.base.system.groups import ChildProcess, boot, end
from gitbaton.git.repo import Repo, has_folder, make_folder, shared

_PREFIX = "baton-step-"
NAME = re.compile(r"baton-step-[0-9a-f]{16}\Z")
_FOLDER = "isolated"
LARGEST, _LONGEST = 1 << 24, 8192  # bytes of a marker that is read, and of what a folder says
_BEGUN = (".git.new", f"{TOKEN}.new", "locked")  # what git, and we, write first; with what is empty yet it is nobody's work


class Marker:
    """A new folder at ``path``, in ``folder``, where it must become a work tree of the repository, or else in one of ours in
    the system's temporary directory; and what else is made for it, which its crash marker names before it is made. Where this
    process is killed before ``remove``, ``sweep`` removes all of it. ``lock_fd``: the marker, locked; a git that makes a part
    of it holds the lock, too. Raises GitError."""

    def __init__(self, repo: Repo, folder: str | None = None) -> None:
        self.name = _PREFIX + os.urandom(8).hex()
        if folder is None:
            import tempfile

        top = os.path.join(os.path.realpath(tempfile.gettempdir() if folder is None else folder), self.name)
        self.path = os.path.join(top, self.name) if folder is None else top
        self.lock_fd = -1
        self._places: list[str] = []
        self._file = os.path.join(repo.shared_dir, _FOLDER, self.name)
        try:
            make_folder(repo, os.path.dirname(self._file))
            self.lock_fd = _create(self._file)
            shared(repo, self.lock_fd)
            self._say(["host", socket.gethostname(), boot()])
            self.add(top)
            os.mkdir(top, 0o700)
            if folder is None:
                write_atomic(os.path.join(top, TOKEN), _token(repo, self.name))
                os.mkdir(self.path, 0o700)
        except (OSError, GitError) as error:
            self.remove()
            why = error.strerror if isinstance(error, OSError) else error
            raise GitError(f"the folder {in_quotes(self.path)} cannot be made: {why}") from None

    def add(self, *places: str) -> None:
        """Name more that is to be made; on disk when this returns. Raises GitError."""
        self._places += places
        self._say(*(["place", place] for place in places), lasting=True)

    def runs(self, child: ChildProcess) -> None:
        """Name the command that runs there, to be ended before all is removed. Raises GitError."""
        self._say(["child", child.word, child.pid, child.mark])

    def _say(self, *lines: Sequence[object], lasting: bool = False) -> None:
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
        with closing_fd(fd):
            return _remove(self._file, self._places)


def _token(repo: Repo, name: str) -> bytes:
    """Return the text of a folder of ours: its marker, and its repository, for a copy has its markers, too."""
    return os.fsencode(f"{name} {os.path.realpath(repo.layout.common_dir)}\n")


def _create(path: str) -> int:
    """Return a new file, locked: its descriptor. Raises OSError."""
    while True:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
        acquire(fd, None)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # somebody swept it before it was locked


def sweep(repo: Repo) -> None:
    """Remove what killed processes of this machine left: everything that an unlocked crash marker names and that says itself
    that it was made for it. A command that still runs there is ended first. Never raises."""
    for path, places, child in _left(repo):
        with suppress(OSError):
            if _believed(repo, path, places) and (child is None or end(child, 0.0)):  # not while we came of it ourselves
                _remove(path, places)


def left(repo: Repo) -> tuple[tuple[str, bool, str], ...]:
    """Return the folders that crash markers name first, whether ``sweep`` would remove them, and the markers. Never raises."""
    return tuple((places[0], _believed(repo, path, places), path) for path, places, _ in _left(repo) if places)


def _left(repo: Repo) -> Iterator[tuple[str, list[str], ChildProcess | None]]:
    """Yield each unlocked crash marker of this machine, and what it names; locked until the next is asked for."""
    folder = os.path.join(repo.shared_dir, _FOLDER)
    names = sorted(names_in(folder)) if has_folder(repo, folder) else []
    for path in (os.path.join(folder, name) for name in names if NAME.match(name)):
        with suppress(OSError), closing_fd(open_lasting(path, make=False)) as fd:  # it may be gone, another user's, or no file
            found = os.fstat(fd)
            if found.st_uid == os.geteuid() and found.st_size <= LARGEST and acquire(fd):
                places, child, here = _read(os.pread(fd, LARGEST, 0))
                if here:
                    yield path, places, child


def _believed(repo: Repo, marker: str, places: list[str]) -> bool:
    """Whether everything that a marker names, and that is there, was made for it."""
    return all(_made(repo, os.path.basename(marker), place, first=place is places[0]) for place in places)


def _made(repo: Repo, token: str, place: str, *, first: bool) -> bool:
    """Whether a folder was made for the marker of this name, or is not there: it has that name, or that and more, is ours, and
    is empty but for what is made first, or says so itself: by a file of ours, or as a work tree and its registration do of
    each other. The first, which may lie anywhere, must say that it is of this repository: a copy of it has its markers, too."""
    above, name = os.path.split(place)
    try:
        if not os.path.isabs(place) or os.path.realpath(above) != above:
            return False
        found = os.lstat(place)
        named = name == token or (name.startswith(token + "-") and not first)
        if not named or not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            return False
        with _readable(place, found.st_mode) as folder:
            said = {name: _said(name, folder) for name in TOKENS}
            if all(entry in _BEGUN or said.get(entry) == b"" for entry in os.listdir(folder)):
                return True
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    if said[TOKEN]:
        return said[TOKEN] == _token(repo, token)
    leads = [os.fsdecode(said[name]).removeprefix("gitdir: ").rstrip("\n") for name in (".git", "gitdir")]
    if first:
        return os.path.realpath(leads[0]) == os.path.join(os.path.realpath(repo.layout.common_dir), "worktrees", token)
    return any(part == token or part.startswith(token + "-") for text in leads for part in text.split(os.sep))


def _said(name: str, folder: int) -> bytes:
    """Return the text of a file in a folder; a space where it cannot be read, nothing where it is empty or not there."""
    try:
        return read_regular(name, _LONGEST, folder=folder)
    except FileNotFoundError:
        return b""
    except OSError:
        return b" "


@contextmanager
def _readable(place: str, mode: int) -> Iterator[int]:
    """Yield a folder's descriptor, also where a command took its permissions away."""
    try:
        fd = open_folder(place)
    except PermissionError:
        os.chmod(place, 0o700)
        fd = open_folder(place)
    else:
        mode = 0
    try:
        yield fd
    finally:
        if mode:
            os.fchmod(fd, stat.S_IMODE(mode))
        os.close(fd)


def _read(data: bytes) -> tuple[list[str], ChildProcess | None, bool]:
    """Return what a marker names: places, the command that ran there last, and whether all that was on this machine (the same
    boot is the same machine, whatever its name). A line that a power cut tore says nothing."""
    places, child, here = [], None, True
    for line in data.splitlines():
        with suppress(ValueError, TypeError, IndexError, RecursionError):
            kind, *words = json.loads(line)
            if kind == "place":
                places.append(str(words[0]))
            elif kind == "child":
                child = ChildProcess(word=str(words[0]), pid=int(words[1]), mark=str(words[2]))
            elif kind == "host":
                here = words[0] == socket.gethostname() or (bool(words[1]) and words[1] == boot())
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
