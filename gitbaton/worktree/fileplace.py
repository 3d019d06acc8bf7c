"""Compare-and-swap of one file: exchange, check what stood there, then remove it or undo the exchange."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator

from gitbaton.system.files import NEW, write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_EXCHANGE = 2  # RENAME_EXCHANGE
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)
_renameat2: list[Any] = []

Bits = tuple[int, bool]  # permissions of a file that is made, and whether they hold whatever the umask is


def permissions(path: str, folder: int | None = None) -> int | None:
    """The permission bits of a regular file; None where there is none."""
    try:
        found = os.lstat(path, dir_fd=folder).st_mode
    except OSError:
        return None
    return found & 0o777 if stat.S_ISREG(found) else None


def bits(executable: bool | None, there: int | None, made: int | None) -> Bits:
    """Those of a file that comes in the place of one with the bits ``there``: who may read and write it stays. A new one has
    those with which it was ``made``, as far as the umask lets it. ``executable``: None where git does not look at that."""
    runs = bool((made if made is not None else there or 0) & 0o100) if executable is None else executable
    if there is not None:
        return (there if bool(there & 0o100) == runs else there & 0o666 | ((there & 0o666) >> 2 & 0o111 if runs else 0)), True
    if made is not None and bool(made & 0o100) == runs:
        return made, False
    return (0o777 if runs else 0o666), False


def write(folder: int, name: str, bits: Bits, pieces: Iterator[bytes]) -> None:
    """Make a file. Raises OSError."""
    fd = os.open(name, NEW, bits[0] & 0o700 if bits[1] else bits[0], dir_fd=folder)
    try:
        for piece in pieces:
            write_all(fd, piece)
        if bits[1]:
            os.fchmod(fd, bits[0])
    finally:
        os.close(fd)


def create(folder: int, fresh: str, name: str) -> bool:
    """Give the file ``fresh`` another name in its folder, if nothing has it; whether it has it now. Raises OSError."""
    try:
        os.link(fresh, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if exists(folder, name):
            return False
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True
    os.unlink(fresh, dir_fd=folder)
    return True


def replace(folder: int, fresh: str, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """Put the file ``fresh`` in the place of ``name``, which stands under ``old`` for a moment; if ``expected`` says of it
    there that it is another one than was looked at, both go back. Whether it was replaced. Raises OSError."""
    if is_folder(folder, name):
        return False
    ours = os.lstat(fresh, dir_fd=folder).st_ino
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
        if os.lstat(old, dir_fd=folder).st_ino != ours:  # another one was put there meanwhile: the newer stays, none is lost
            _exchange(folder, old, name)
        else:
            os.unlink(old, dir_fd=folder)
    except FileNotFoundError:
        if not exists(folder, name):
            create(folder, old, name)
    return False


def _replace_linked(folder: int, fresh: str, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """The same where the system cannot exchange two files: a second name keeps what stands there until it was looked at."""
    try:
        os.link(name, old, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.unlink(fresh, dir_fd=folder)
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        same = expected(name)
        if same:
            os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.unlink(fresh, dir_fd=folder)
        return same
    if expected(old):
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
        if expected(old):
            os.unlink(old, dir_fd=folder)
            return True
        os.rename(old, name, src_dir_fd=folder, dst_dir_fd=folder)
        return False
    os.unlink(old, dir_fd=folder)
    os.unlink(fresh, dir_fd=folder)
    return False


def remove(folder: int, old: str, name: str, expected: Callable[[str], bool]) -> bool:
    """Remove a file: it is moved aside to ``old``, and back if ``expected`` does not know it there. Raises OSError."""
    if is_folder(folder, name):
        return False
    try:
        os.rename(name, old, src_dir_fd=folder, dst_dir_fd=folder)
    except FileNotFoundError:
        return False
    if expected(old):
        os.unlink(old, dir_fd=folder)
        return True
    create(folder, old, name)
    return False


def exists(folder: int, name: str) -> bool:
    """Whether something stands at a name of an open folder."""
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def is_folder(folder: int, name: str) -> bool:
    """Whether a folder stands at a name of an open folder."""
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)
    except FileNotFoundError:
        return False


def _exchange(folder: int, one: str, other: str) -> bool:
    """Exchange two names in one step; False where the system cannot. Raises OSError."""
    if not _renameat2:
        _renameat2.append(_load())
    if _renameat2[0] is None:
        return False
    import ctypes

    if _renameat2[0](folder, os.fsencode(one), folder, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number), one, None, other)


def _load() -> Any:
    try:
        import ctypes

        return ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, AttributeError):
        return None
