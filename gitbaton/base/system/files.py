"""Files: atomic writes, fsync, locks, group sharing, copies, signatures that tell whether a file has changed; our own data."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice

from gitbaton.base.errors import BatonError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

DATA = os.path.abspath(os.path.join(__file__, "../../../data"))  # what the package brings along

Signature = tuple[int, int, int, int, int]

# Without O_NONBLOCK, a pipe that took the place of a file would be waited for; a terminal must not become ours.
_STAY = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | _STAY  # no symbolic link is followed
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

RACY_NS = 50_000_000  # a file that changed so shortly before it was read may change again and keep its times
_LOOK = 0.5  # seconds between two looks of who waits for a lock
_COARSE_NS = 2_000_000_000  # where times are whole seconds
NO_FILE = (errno.EINVAL, errno.ENXIO, errno.EISDIR)  # what opening says of what is neither a file nor a link
_BLOCK = 1 << 20
_MOUNTS = "/proc/self/mountinfo"
TOKEN = ".gitbaton"  # of a folder of ours that lies anywhere: it says for what it was made
TOKENS = (TOKEN, ".git", "gitdir")  # what says whose a folder is goes last: who is killed before that begins anew
_KINDS = ((stat.S_ISREG, "a file"), (stat.S_ISDIR, "a folder"), (stat.S_ISLNK, "a symbolic link"), (stat.S_ISFIFO, "a pipe"))
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


def state_home(env: Mapping[str, str]) -> str | None:
    """Return the folder for the user's state, as the XDG specification has it; None without a home folder."""
    state, home = env.get("XDG_STATE_HOME", ""), env["HOME"] if "HOME" in env else os.path.expanduser("~")
    if os.path.isabs(state):  # the specification has others ignored
        return os.path.abspath(state)
    return os.path.abspath(os.path.join(home, ".local", "state")) if os.path.isabs(home) else None


def write_atomic(
    path: str,
    data: bytes | Iterable[bytes],
    *,
    folder: int | None = None,
    temporary: str = "",
    mode: int = 0o666,
    sync: bool = False,
    times: tuple[int, int] | None = None,
    made: Callable[[int], object] | None = None,
) -> None:
    """Write a file whole or not at all, its content perhaps in pieces; a link that stands in its place is replaced, never
    followed. Raises OSError.

    ``folder``: an open folder that both names are below, unless they are absolute. ``temporary``: the name until then;
    default: with ``.new`` behind it. With one name what a killed process left goes with the next write; where several write at
    once each needs its own. ``made`` gets the descriptor of the new file before anything is in it. ``times``: of access and
    content, in nanoseconds. ``sync``: it is on disk, with its name, when the call returns.
    """
    temporary = temporary or path + ".new"
    try:
        try:
            fd = os.open(temporary, NEW, mode, dir_fd=folder)
        except FileExistsError:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            fd = os.open(temporary, NEW, mode, dir_fd=folder)
    except OSError as error:
        error.filename = path  # the name that the caller knows
        raise
    try:
        with closing_fd(fd):
            if made is not None:
                made(fd)
            for piece in (data,) if isinstance(data, bytes) else data:
                write_all(fd, piece)
            if times is not None:
                os.utime(fd, ns=times)
            if sync:
                os.fsync(fd)
        os.replace(temporary, path, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    if sync and folder is not None:
        os.fsync(folder)
    elif sync:
        sync_paths([os.path.dirname(path)])


def write_first(path: str, data: bytes, *, mode: int, made: Callable[[int], object] | None = None) -> None:
    """Write a file whole where there is none, on disk when the call returns; one that is there, or that another process was
    first with, stays. Raises OSError."""
    fresh = f"{path}.{os.getpid()}.new"
    try:
        write_atomic(fresh, data, mode=mode, sync=True, made=made)
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
    sync_paths([os.path.dirname(path)])


class closing_fd:
    """Context manager of an open file descriptor, which is closed when the block ends: as a class, since many files are opened
    so, and a generator takes five times as long."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def open_folder(name: str, above: int | None = None) -> int:
    """A descriptor of a folder that is not a symbolic link. Raises OSError."""
    return os.open(name, FOLDER, dir_fd=above)


def open_below(
    root: str,
    folders: Sequence[str],
    made: Callable[[int, int], object] | None = None,
    mode: Callable[[int], int] = lambda depth: 0o777,
) -> int:
    """A descriptor of a folder below ``root``, reached through no symbolic link. Raises OSError.

    With ``made`` folders that are not there are made, one by one; it is told of each: its descriptor and its depth, 0 first.
    ``mode`` gives the permissions of one to be made, as far as the umask lets it.
    """
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for depth, part in enumerate(folders):
        try:
            fresh = False
            if made is not None:
                with suppress(FileExistsError):
                    os.mkdir(part, mode(depth), dir_fd=at)
                    fresh = True
            deeper = open_folder(part, at)
        finally:
            os.close(at)
        at = deeper
        if made is not None and fresh:
            made(at, depth)
    return at


class OddError(OSError):
    """Error of something else in the place of a file or folder."""

    def __str__(self) -> str:
        return f"'{self.filename}': {self.strerror}" if self.filename else str(self.strerror)


def kind_of(mode: int) -> str:
    """Return the kind of a file in words, by its mode."""
    known = (word for test, word in _KINDS if test(mode))
    return next(known, "a socket" if stat.S_ISSOCK(mode) else "a device")


def _opened(name: str, flags: int, mode: int, folder: int | None) -> int:
    try:
        fd = os.open(name, flags, mode, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):
            raise
        try:
            found = os.lstat(name, dir_fd=folder).st_mode
        except OSError:
            raise error from None
        raise OddError(error.errno, f"it is {kind_of(found)}", name) from None
    found = os.fstat(fd).st_mode
    if not stat.S_ISREG(found):
        os.close(fd)
        raise OddError(errno.EINVAL, f"it is {kind_of(found)}", name)
    return fd


def open_regular(name: str, folder: int | None = None, *, follow: bool = False) -> int:
    """A descriptor to read a regular file, which is no symbolic link unless one is to be followed. Raises OSError, at once,
    where it is something else."""
    return _opened(name, os.O_RDONLY | _STAY if follow else READ, 0, folder)


def read_regular(name: str, limit: int = -1, *, folder: int | None = None, follow: bool = False) -> bytes:
    """The first bytes of such a file, at most ``limit`` (-1: all). Raises OSError."""
    with open(open_regular(name, folder, follow=follow), "rb", buffering=0) as file:
        return file.read(limit) or b""


def read_or_none(name: str, limit: int = -1, *, follow: bool = False) -> bytes | None:
    """The first bytes of such a file, as ``read_regular``; None where there is none to be read."""
    try:
        return read_regular(name, limit, follow=follow)
    except OSError:
        return None


def names_in(folder: str) -> set[str]:
    """The names in a folder; none where it cannot be listed."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def open_lasting(name: str, *, append: bool = False, make: bool = True) -> int:
    """A descriptor to read and write a regular file that stays in its place, made where there is none, and is no symbolic link;
    with ``append`` what is written goes to its end. Raises OSError, at once, where it is something else."""
    flags = os.O_RDWR | os.O_NOFOLLOW | _STAY | (os.O_CREAT if make else 0) | (os.O_APPEND if append else 0)
    return _opened(name, flags, 0o666, None)


def open_file(root: str, path: str) -> int | None:
    """A descriptor of the regular file at a path, reached through no symbolic link; None when there is none to be read."""
    *folders, name = path.split("/")
    try:
        with closing_fd(open_below(root, folders)) as folder:
            return open_regular(name, folder)
    except OSError:
        return None


def acquire(fd: int, wait: float | None = 0.0, *, shared: bool = False, meanwhile: Callable[[], object] | None = None) -> bool:
    """Take the lock of an open file: at once, within ``wait`` seconds, or whenever it is free (None); whether it is taken.
    ``meanwhile`` is called every now and then while it is waited for, and may raise.

    A waiter stands in the kernel's queue: with polling, newcomers overtook old waiters for a minute. Raises OSError."""
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(fd, how if wait is None and meanwhile is None else how | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        if wait is not None and wait <= 0:
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
    until = time.monotonic() + wait if wait is not None else None
    while not taken.wait(_LOOK if until is None else min(_LOOK, max(until - time.monotonic(), 0))):
        if meanwhile is not None:
            meanwhile()
        if until is not None and time.monotonic() >= until:
            return False
    return True


def release(fd: int) -> None:
    """Release the lock of an open file, also where another process has inherited the descriptor."""
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
    """Fsync files and folders; with ``missing`` those that are there. Raises OSError."""
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


def open_unlocked(name: str, above: int | None) -> int:
    """A descriptor of a folder of ours, of which the permissions that it takes to open it are given back. Raises OSError."""
    try:
        return open_folder(name, above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        return open_folder(name, above)


def remove(name: str, above: int | None = None) -> None:
    """Remove a file or a folder with all that is in it, also where its permissions are gone, as far as that goes; ``name`` is
    one in the open folder ``above``, or a path. A link goes, and not what it leads to; another file system stays. Raises
    OSError where something stays."""
    try:
        os.unlink(name, dir_fd=above)
        return
    except FileNotFoundError:
        return
    except OSError:
        found = os.lstat(name, dir_fd=above)
        if not stat.S_ISDIR(found.st_mode):
            raise
    if found.st_dev != (os.fstat(above) if above is not None else os.stat(os.path.dirname(name) or ".")).st_dev:
        raise OSError(errno.EBUSY, "another file system is mounted there", name)
    with closing_fd(open_unlocked(name, above)) as fd:
        if found.st_mode & 0o700 != 0o700:
            with suppress(PermissionError):  # another's, of those who share the repository
                os.fchmod(fd, 0o700)
        for entry in sorted(os.listdir(fd), key=TOKENS.__contains__):
            with suppress(OSError):
                remove(entry, fd)
    os.rmdir(name, dir_fd=above)


def remove_folder(folder: str) -> None:
    """Remove a folder of ours, as ``remove``; a link in its place stays. Never raises."""
    with suppress(OSError):
        if not os.path.islink(folder):
            remove(folder)


def sweep(folder: int, goes: Callable[[str, os.stat_result], bool]) -> None:
    """Remove from an open folder what ``goes``, by its name and state, where nothing is mounted in it. Never raises."""
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                found = os.lstat(name, dir_fd=folder)
                if goes(name, found) and not (stat.S_ISDIR(found.st_mode) and _mounted(folder, name)):
                    remove(name, folder)


def _mounted(folder: int, name: str) -> bool:
    """Whether a file system is mounted at or below a folder, where the system tells: a part of the same file system has no
    other device by which to know it."""
    try:
        top = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name) + "/"
    except OSError:
        return False
    return any((place + "/").startswith(top) for place in mount_points())


def mount_points() -> set[str]:
    """Return the folders at which anything is mounted; none where the system does not tell."""
    try:
        with open(_MOUNTS, "rb") as file:
            places = [line.split(b" ", 5)[4] for line in file]
    except (OSError, IndexError):
        return set()
    for code, char in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        places = [place.replace(code, char) for place in places]
    return {os.fsdecode(place) for place in places}


def copy_rest(reader: BinaryIO, writer: BinaryIO) -> None:
    """Copy the rest of a file. Raises OSError."""
    while block := reader.read(_BLOCK):
        writer.write(block)


def born(path: str) -> datetime | None:
    """Return the time of the last write of a file, in microseconds; None where there is none."""
    try:
        at = os.lstat(path).st_mtime_ns
    except OSError:
        return None
    return datetime.fromtimestamp(at // 1_000_000_000, UTC).replace(microsecond=at // 1000 % 1_000_000)


def be_born(path: str, when: datetime | None = None) -> None:
    """Make an empty file with the time of this very moment, or of ``when``: the kernel's own time would be the same for all
    files of some milliseconds."""
    fresh, now = f"{path}.{os.getpid()}", time.time_ns()
    if when is not None:
        now = (int(when.timestamp()) * 1_000_000 + when.microsecond) * 1000
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    fd = os.open(fresh, NEW, 0o666)
    try:
        os.utime(fd, ns=(now, now))
        os.link(fresh, path)
    except FileExistsError:
        pass  # another process of this work tree was first
    finally:
        os.close(fd)
        os.unlink(fresh)


def umask() -> int:
    """The umask of this process. Where the system does not tell, it is set for a moment, to what keeps all to ourselves."""
    with suppress(OSError, ValueError), open("/proc/self/status", "rb") as file:
        for line in islice(file, 8):
            if line.startswith(b"Umask:"):
                return int(line[6:], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def mode_of(said: str) -> int:
    """Return the bits that a value of core.sharedRepository adds to modes; below zero the mode that it asks for instead; 0 for
    nothing."""
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
        found = os.stat(path) if isinstance(path, int) else os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            return
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


def give(path: str | int, user: int, group: int) -> None:
    """Give a folder or an empty file that was just made, or what a descriptor is of, to another user, if it is ours: root's.
    Raises OSError."""
    found = os.fstat(path) if isinstance(path, int) else os.lstat(path)
    empty = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not found.st_size  # it gives away nothing
    if user != found.st_uid == 0 and (empty or stat.S_ISDIR(found.st_mode)):
        if isinstance(path, int):
            os.fchown(path, user, group)
        else:
            os.chown(path, user, group, follow_symlinks=False)


def signature(stat: os.stat_result) -> Signature:
    """Return a signature that is equal while a file is unchanged: inode, size, times of content and inode in nanoseconds,
    mode."""
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_mode)


def lasting(ctime: int, moment: int, racy: int = RACY_NS) -> bool:
    """Whether a file with this change time can no longer change after ``moment`` and keep it; all in nanoseconds."""
    return ctime < moment - (racy if ctime % 1_000_000_000 else _COARSE_NS)


def settled(found: Signature, before: int) -> bool:
    """Whether a signature taken at ``before`` (nanoseconds) must be another one after every later change."""
    return lasting(found[3], before) and not before - RACY_NS <= found[2] <= before
