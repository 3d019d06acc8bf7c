"""Swap of one file: put the old one aside and look at it, put the new one into the free place, or put the old one back.

Nothing is written over: what another process wrote in between was moved, not overwritten, or it stands where the new file is
refused. A name is one in the open ``folder``, or an absolute path elsewhere on its file system.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import cache

from gitbaton.system.files import NEW, Signature, open_below, signature, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

Identity = tuple[int, ...]  # inode, mode, size and time of content: what of a signature stays when a file gets another name
Bits = tuple[int, bool]  # permissions of a file that is made, and whether they hold whatever the umask is
_EXCHANGE = 2  # RENAME_EXCHANGE
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_COPY = (errno.ENOSPC, errno.ENOENT, errno.EDQUOT)  # what refuses a link and would refuse a copy
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def look_at(name: str, folder: int | None = None) -> Signature | None:
    """What tells a file from what it is after it was written; None where there is none."""
    try:
        return signature(os.lstat(name, dir_fd=folder))
    except OSError:
        return None


def mode_at(folder: int | None, name: str) -> int:
    """The mode of what stands at a name; 0 where nothing does."""
    seen = look_at(name, folder)
    return seen[4] if seen is not None else 0


def identity(seen: Signature) -> Identity:
    """What of a signature stays when a file gets another name."""
    return seen[0], seen[4], seen[1], seen[2]


def is_same(name: str, expected: Identity, folder: int | None = None) -> bool:
    """Whether a file has an identity; if not, it was written late, or is another one. Raises OSError."""
    return identity(signature(os.lstat(name, dir_fd=folder))) == expected


def temporary_name(path: str) -> str:
    """The name beside a path of the file that is to come there; a killed writer leaves it."""
    import hashlib

    return f".baton-{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}.new"


def permissions(old: int, runs: bool | None) -> int:
    """Those of a file that comes in the place of one with the mode ``old``: who may read and write it stays. ``runs``: whether
    who may read it may execute it; None where git does not look at that."""
    return old & 0o777 if runs is None else old & 0o666 | (old >> 2 & 0o111 if runs else 0)


def write(folder: int, name: str, bits: Bits, pieces: Iterable[bytes]) -> None:
    """Make a file, whole or not at all unless this process is killed. Raises OSError."""
    fd = os.open(name, NEW, bits[0] & 0o700 if bits[1] else bits[0], dir_fd=folder)
    try:
        for piece in pieces:
            write_all(fd, piece)
        if bits[1]:
            with suppress(PermissionError):  # a file system that knows one mode for all
                os.fchmod(fd, bits[0])
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(fd)


def put(folder: int, source: str, name: str) -> bool:
    """Give a file a name that nothing has; False where something has it. Raises OSError.

    Without hard links a file that is beside its place is renamed, so that it is never torn, and one from elsewhere is copied.
    """
    beside = not os.path.isabs(source)
    try:
        os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno in _NO_COPY or (beside and error.errno not in _NO_LINKS):
            raise
        if mode_at(folder, name):
            return False
        if beside:
            os.rename(source, name, src_dir_fd=folder, dst_dir_fd=folder)
            return True
        if not _copy(folder, source, name):
            return False
    os.unlink(source, dir_fd=folder)
    return True


def _copy(folder: int, source: str, name: str) -> bool:
    """Put a copy of a file or link where nothing stands; False where something does. Raises OSError."""
    mode = os.lstat(source).st_mode
    try:
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), name, dir_fd=folder)
        else:
            with open(source, "rb") as file:
                write(folder, name, (stat.S_IMODE(mode), True), iter(lambda: file.read(1 << 20), b""))
    except FileExistsError:
        return False
    return True


def put_aside(folder: int, name: str, place: str, expected: Callable[[str], bool]) -> bool:
    """Take a file out of its place; whether ``expected`` knows it where it is then. Raises OSError."""
    os.rename(name, place, src_dir_fd=folder, dst_dir_fd=folder)
    return expected(place)


def remove(folder: int, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """Put a file aside to ``old``, and remove it, or put it back if ``expected`` does not know it there; whether it is removed.
    Raises OSError."""
    if stat.S_ISDIR(mode_at(folder, name)):
        return False
    known = put_aside(folder, name, old, expected)
    if known:
        os.unlink(old, dir_fd=folder)
    else:
        put(folder, old, name)
    return known


def replace(folder: int, fresh: str, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """Exchange ``name`` for the file ``fresh``, and remove it from ``old``, or put it back if ``expected`` does not know it
    there; whether it is replaced. If not, ``fresh`` may be left. Raises OSError."""
    if stat.S_ISDIR(mode_at(folder, name)):
        return False
    ours = identity(signature(os.lstat(fresh, dir_fd=folder)))
    # From here on the file is whole: one that is found as `old` is not torn.
    os.rename(fresh, old, src_dir_fd=folder, dst_dir_fd=folder)
    try:
        exchanged = _exchange(folder, old, name)
    except FileNotFoundError:  # it was removed after it was looked at
        os.unlink(old, dir_fd=folder)
        return False
    if not exchanged:
        os.rename(old, fresh, src_dir_fd=folder, dst_dir_fd=folder)
        return _replace_linked(folder, fresh, old, name, expected)
    if expected(old):
        os.unlink(old, dir_fd=folder)
        return True
    try:
        _exchange(folder, old, name)
        if is_same(old, ours, folder):
            os.unlink(old, dir_fd=folder)
        else:  # another one was put there meanwhile: the newer stays, none is lost
            _exchange(folder, old, name)
    except FileNotFoundError:
        if not mode_at(folder, name):
            put(folder, old, name)
    return False


def _replace_linked(folder: int, fresh: str, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """The same where the system cannot exchange two files: a second name keeps what stands there until it was looked at."""
    try:
        os.link(name, old, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if not expected(name):
            return False
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    known = expected(old)
    if known:
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        if not expected(old):  # it was written late
            os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)
            return False
    os.unlink(old, dir_fd=folder)
    return known


def _exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names in one step; False where the system cannot. Raises OSError."""
    call = _renameat2()
    if call is None:
        return False
    import ctypes

    if call(folder, os.fsencode(one), folder, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), one, None, other)


@cache
def _renameat2() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return None


def prune(root: str, folders: Sequence[str], above: int = 0, keep: Collection[str] = ()) -> None:
    """Remove empty folders from the deepest up, as long as they are empty, deeper than ``above`` and none to ``keep``."""
    for depth in range(len(folders), above, -1):
        if keep and "/".join(folders[:depth]) in keep:
            return
        try:
            parent = open_below(root, folders[: depth - 1])
        except OSError:
            return
        try:
            os.rmdir(folders[depth - 1], dir_fd=parent)
        except OSError:
            return
        finally:
            os.close(parent)
