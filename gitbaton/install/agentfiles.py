"""Files of other programs that install changes: looked at first, and written whole, with what they have kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from gitbaton.errors import BatonError
from gitbaton.system.files import write_atomic
from gitbaton.values import value

MAX_BYTES = 4 << 20


@value
class File:
    """A file as it was looked at. ``shown`` is its name for the user, ``real`` where its bytes are; None: it is not there.

    ``owner``: its user and group; ``links``: how many names it has.
    """

    shown: str
    real: str
    data: bytes | None
    mode: int
    owner: tuple[int, int] | None = None
    links: int = 1


def look(path: str, shown: str, *, inside: str | None = None, git_dir: str | None = None) -> File:
    """A file that may be changed, symbolic links followed; ``inside``: it must not lead out of that directory.

    Raises BatonError in one line for what is not read: a directory, a device, a file that is too large or not ours to read,
    a link that leads out of the work tree or into ``git_dir``.
    """
    real = os.path.realpath(path)
    if inside is not None and not _below(real, os.path.realpath(inside)):
        raise BatonError(f"'{shown}' leads out of the work tree, to '{real}'")
    if git_dir is not None and _below(real, os.path.realpath(git_dir)):
        raise BatonError(f"'{shown}' leads into the repository's own directory")
    try:
        data, found = _read(real, shown)
    except FileNotFoundError:
        return File(shown=shown, real=real, data=None, mode=_new_mode())
    except OSError as error:
        raise BatonError(f"'{shown}' cannot be read: {error.strerror}") from None
    mode, owner = stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)
    return File(shown=shown, real=real, data=data, mode=mode, owner=owner, links=found.st_nlink)


def _read(path: str, shown: str) -> tuple[bytes, os.stat_result]:
    """The bytes of a plain file of no great size. Raises BatonError for any other, OSError."""
    found = os.stat(path)
    _plain(found, shown)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())  # another one may stand there by now
        _plain(found, shown)
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise BatonError(f"'{shown}' is over {MAX_BYTES >> 20} MiB")
    return data, found


def _plain(found: os.stat_result, shown: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise BatonError(f"'{shown}' is {'a directory' if stat.S_ISDIR(found.st_mode) else 'not a plain file'}")


def bytes_of(path: str) -> bytes | None:
    """The bytes of a plain file, symbolic links followed; None when there is none, or one that is too large."""
    try:
        return _read(path, path)[0]
    except (OSError, ValueError, BatonError):
        return None


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))


def check_writable(file: File, *, gone: bool) -> None:
    """Raise BatonError when a file cannot be written (``gone``: removed) or would not stay what it is."""
    folder = os.path.dirname(file.real)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise BatonError(f"'{file.shown}' cannot be written: '{folder}' is not a directory")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BatonError(f"'{file.shown}' cannot be written: '{folder}' may not be changed")
    if file.data is None:
        return
    if not file.mode & 0o222 or not os.access(file.real, os.W_OK):
        raise BatonError(f"'{file.shown}' is read-only, and is left as it is")
    if gone:
        return
    if file.links > 1:
        raise BatonError(f"'{file.shown}' is one of {file.links} names of a file (hard links), and is left as it is")
    if file.owner is not None and os.geteuid() != 0:
        user, group = file.owner
        if user != os.geteuid() or group not in (os.getegid(), *os.getgroups()):
            raise BatonError(f"'{file.shown}' belongs to somebody else, and is left as it is")


def _new_mode() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return 0o666 & ~mask


def check_unchanged(file: File, after: bytes | None) -> bool:
    """Whether the file has the bytes it is to have already. Raises BatonError when it is not what it was, either."""
    try:
        now: bytes | None = _read(file.real, file.shown)[0]
    except FileNotFoundError:
        now = None
    except OSError as error:
        raise BatonError(f"'{file.shown}' cannot be read: {error.strerror}") from None
    if now not in (file.data, after):
        raise BatonError(f"'{file.shown}' has just been changed by somebody else, and is left as it is", "run it again")
    return now == after


def write(path: str, data: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write a file whole or not at all, with its mode and owner. Raises OSError."""

    def made(fd: int) -> None:
        found = os.fstat(fd)
        if owner is not None and owner != (found.st_uid, found.st_gid):
            os.fchown(fd, *owner)
        os.fchmod(fd, mode)

    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    write_atomic(path, data, temporary=temporary, mode=mode & 0o600, sync=True, made=made)


def make_folders(folder: str) -> list[str]:
    """Make a folder and those above it; the ones that were not there. Raises OSError."""
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    made = []
    for path in reversed(missing):
        try:
            os.mkdir(path)
        except FileExistsError:  # somebody else was faster
            continue
        made.append(path)
    return made


def drop_folders(folders: Iterable[str]) -> None:
    """Remove folders that we made, unless somebody has put something into them."""
    for folder in sorted(set(folders), key=len, reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            continue
