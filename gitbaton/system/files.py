"""Files: atomic writes, fsync, locks, group sharing, copies, signatures that tell whether a file has changed; our own data."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice

from gitbaton.errors import BatonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data")  # what the package brings along

Signature = tuple[int, int, int, int, int]

# No symbolic link is followed. Without O_NONBLOCK, a pipe that took the place of a file would be waited for.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

RACY_NS = 50_000_000  # a file that changed so shortly before it was read may change again and keep its times
_COARSE_NS = 2_000_000_000  # where times are whole seconds
_BLOCK = 1 << 20
_AT_ONCE = 256  # files that are open at a time
_GROUP, _ALL = 0o660, 0o664
_SHARED = {"true": _GROUP, "group": _GROUP, "1": _GROUP, "yes": _GROUP, "on": _GROUP}
_SHARED.update(dict.fromkeys(("all", "world", "everybody", "2"), _ALL))


def shipped(*names: str) -> str:
    """A text of the package's ``data``. Raises BatonError when it is missing."""
    try:
        with open(os.path.join(DATA, *names), encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise BatonError(f"'{error.filename}' of this installation of gitbaton cannot be read: {error.strerror}") from None


def write_atomic(
    path: str,
    data: bytes,
    *,
    folder: int | None = None,
    temporary: str = "",
    mode: int = 0o666,
    sync: bool = False,
    times: tuple[int, int] | None = None,
    made: Callable[[int], object] | None = None,
) -> None:
    """Write a file whole or not at all; a link that stands in its place is replaced, never followed. Raises OSError.

    ``folder``: an open folder that both names are below, unless they are absolute. ``temporary``: the name until then;
    default: with ``.new`` behind it. With one name what a killed process left goes with the next write; where several write at
    once each needs its own. ``made`` gets the descriptor of the new file before anything is in it. ``times``: of access and
    content, in nanoseconds. ``sync``: it is on disk, with its name, when the call returns.
    """
    temporary = temporary or path + ".new"
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=folder)
    fd = os.open(temporary, NEW, mode, dir_fd=folder)
    try:
        try:
            if made is not None:
                made(fd)
            write_all(fd, data)
            if times is not None:
                os.utime(fd, ns=times)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if sync and folder is not None:
        os.fsync(folder)
    elif sync:
        sync_paths([os.path.dirname(path)])


def open_folder(name: str, above: int | None = None) -> int:
    """A descriptor of a folder that is not a symbolic link. Raises OSError."""
    return os.open(name, FOLDER, dir_fd=above)


def open_below(root: str, folders: Sequence[str], made: Callable[[int, int], object] | None = None) -> int:
    """A descriptor of a folder below ``root``, reached through no symbolic link. Raises OSError.

    With ``made`` folders that are not there are made, one by one; it is told of each: its descriptor and its depth, 0 first.
    """
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for depth, part in enumerate(folders):
        try:
            fresh = False
            if made is not None:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=at)
                    fresh = True
            deeper = open_folder(part, at)
        finally:
            os.close(at)
        at = deeper
        if made is not None and fresh:
            made(at, depth)
    return at


def open_regular(name: str, folder: int | None = None) -> int:
    """A descriptor to read a regular file that is no symbolic link. Raises OSError, also where it is something else."""
    fd = os.open(name, READ, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", name)
    return fd


def open_file(root: str, path: str) -> int | None:
    """A descriptor of the regular file at a path, reached through no symbolic link; None when there is none to be read."""
    *folders, name = path.split("/")
    try:
        folder = open_below(root, folders)
    except OSError:
        return None
    try:
        return open_regular(name, folder)
    except OSError:
        return None
    finally:
        os.close(folder)


def acquire(fd: int, wait: float | None = 0.0, *, shared: bool = False) -> bool:
    """Take the lock of an open file: at once, within ``wait`` seconds, or whenever it is free (None); whether it is taken.

    Who waits stands in the kernel's queue: with polling, newcomers overtook old waiters for a minute. Raises OSError.
    """
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, how if wait is None else how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        if not wait:
            return False
    import threading

    own, taken = os.dup(fd), threading.Event()

    def queue() -> None:
        try:
            fcntl.flock(own, how)
            taken.set()
        finally:
            os.close(own)  # the lock stays with `fd`, or goes with it when nobody waits any more

    threading.Thread(target=queue, daemon=True).start()
    return taken.wait(wait)


def release(fd: int) -> None:
    """Give the lock of an open file back, also where another process has inherited the descriptor."""
    fcntl.flock(fd, fcntl.LOCK_UN)


def memory_file(data: bytes = b"") -> int:
    """A file descriptor of an unnamed file that holds ``data``, at its beginning."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("gitbaton")
    else:
        import tempfile

        handle, name = tempfile.mkstemp()
        os.unlink(name)
        fd = handle
    write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def write_all(fd: int, data: bytes) -> None:
    """Write bytes, however many calls it takes. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_paths(paths: Iterable[str], *, missing: bool = False) -> None:
    """Have files on disk, and of folders which names they have; with ``missing`` those that are there. Raises OSError."""
    waiting, fds = iter(paths), list[int]()
    while some := list(islice(waiting, _AT_ONCE)):
        try:
            for path in some:
                try:
                    fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                except FileNotFoundError:
                    if not missing:
                        raise
                    continue
                if hasattr(os, "posix_fadvise"):  # all begin to be written before one is waited for
                    os.posix_fadvise(fds[-1], 0, 0, os.POSIX_FADV_DONTNEED)
            for fd in fds:
                os.fsync(fd)
        finally:
            while fds:
                os.close(fds.pop())


def remove(name: str, above: int | None = None) -> None:
    """Remove a file or a folder with all that is in it, also where its permissions are gone, as far as that goes; ``name`` is
    one in the open folder ``above``, or a path. A link goes, and not what it leads to. Raises OSError where something stays."""
    try:
        os.unlink(name, dir_fd=above)
        return
    except FileNotFoundError:
        return
    except OSError:
        if not stat.S_ISDIR(os.lstat(name, dir_fd=above).st_mode):
            raise
    try:
        fd = open_folder(name, above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        fd = open_folder(name, above)
    try:
        with suppress(PermissionError):  # another's, of those who share the repository
            os.fchmod(fd, 0o700)
        for entry in os.listdir(fd):
            with suppress(OSError):
                remove(entry, fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=above)


def remove_folder(folder: str) -> None:
    """As ``remove``, of a folder of ours; a link in its place stays. Never raises."""
    with suppress(OSError):
        if not os.path.islink(folder):
            remove(folder)


def copy_rest(reader: BinaryIO, writer: BinaryIO) -> None:
    """Copy the rest of a file. Raises OSError."""
    while block := reader.read(_BLOCK):
        writer.write(block)


def born(path: str) -> datetime | None:
    """When a file was last written, in microseconds; None where there is none."""
    try:
        at = os.stat(path).st_mtime_ns
    except OSError:
        return None
    return datetime.fromtimestamp(at // 1_000_000_000, UTC).replace(microsecond=at // 1000 % 1_000_000)


def be_born(path: str) -> None:
    """Make an empty file of this very moment: the kernel's own time would be the same for all files of some milliseconds."""
    fresh, now = f"{path}.{os.getpid()}", time.time_ns()
    os.close(os.open(fresh, os.O_CREAT | os.O_WRONLY, 0o666))
    os.utime(fresh, ns=(now, now))
    try:
        os.link(fresh, path)
    except FileExistsError:
        pass  # another process of this work tree was first
    finally:
        os.unlink(fresh)


def mode_of(said: str) -> int:
    """What a value of core.sharedRepository adds to modes; below zero the mode that it asks for instead; 0 for nothing."""
    said = said.strip().lower()
    if len(said) > 1 and said.startswith("0") and said.isdigit():
        try:
            return -(int(said, 8) & 0o666)
        except ValueError:
            return 0
    return _SHARED.get(said, 0)


def share(path: str | int, mode: int) -> None:
    """Give a file or folder, or what a descriptor is of, that was just made the mode that ``mode_of`` says, as git does. Never
    raises: it may be another user's."""
    if not mode:
        return
    with suppress(OSError):
        found = os.stat(path)
        own = stat.S_IMODE(found.st_mode)
        wanted = abs(mode) if own & 0o200 else abs(mode) & ~0o222
        new = own & ~0o777 | wanted if mode < 0 else own | wanted
        if stat.S_ISDIR(found.st_mode):
            new |= (new & 0o444) >> 2
            new |= stat.S_ISGID if new & 0o060 else 0
        elif own & 0o100:
            new |= (new & 0o444) >> 2
        if new != own:
            os.chmod(path, new)


def signature(stat: os.stat_result) -> Signature:
    """What says that a file is unchanged: inode, size, times of content and inode in nanoseconds, mode."""
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode)


def lasting(ctime: int, moment: int, racy: int = RACY_NS) -> bool:
    """Whether a file with this change time can no longer change after ``moment`` and keep it; all in nanoseconds."""
    return ctime < moment - (racy if ctime % 1_000_000_000 else _COARSE_NS)


def settled(found: Signature, before: int) -> bool:
    """Whether a signature taken at ``before`` (nanoseconds) must be another one after every later change."""
    return lasting(found[3], before) and not before - RACY_NS <= found[2] <= before
