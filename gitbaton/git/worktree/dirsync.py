"""Directory sync: makes one tree of files equal to another, again and again, at one stat a file on each side, and copies files
with mode and times, by reflink where the file system can."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress

from gitbaton.base.system.files import (
    NEW,
    Signature,
    closing_fd,
    lasting,
    open_below,
    open_folder,
    open_regular,
    open_unlocked,
    remove,
    signature,
    write_all,
)
from gitbaton.git.worktree.swap import stat_signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    Stats = dict[str, os.stat_result]
    # Of the original, of the copy; whether the original may have changed since and look the same.
    Pair = tuple[Signature, Signature, bool]

_TICK = 20_000_000  # the kernel's clock of files goes on every 10 ms at the latest
_BLOCK = 1 << 20
_LINK = b"gitdir: "
_KINDS = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
_MOVED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)  # something else has taken its place


class Tree:
    """A tree below ``target``, which ``sync`` makes equal to the one below ``source``: files with modes and times, symbolic
    links as they are, empty folders, too. ``.git`` at the top and the folders in ``skip`` (real paths) are left alone.

    ``adopt`` takes the folder and the text of each ``.git`` file further down, and returns whether it has written the copy's.
    Everything raises OSError for what it cannot do in ``target``.
    """

    def __init__(self, source: str, target: str, skip: Collection[str], adopt: Callable[[str, bytes], bool]) -> None:
        self.source, self.target, self.skip, self._adopt = source, target, skip, adopt
        self.copier = Copier()
        self.left_out: list[str] = []
        self._known: dict[str, dict[str, Pair]] = {}  # files of the copy as the last sync left them, by folder and name
        self._settled = 0
        self._skipped: dict[str, set[str]] = {"": {".git"}}
        for place in skip:
            if place.startswith(source + os.sep):
                folder, name = os.path.split(place[len(source) + 1 :])
                self._skipped.setdefault(folder, set()).add(name)

    def sync(self) -> None:
        """Make ``target`` equal to ``source`` as it is now. A file that changes meanwhile is as it was at some moment, or as
        the next call finds it."""
        self.left_out = []
        made: dict[str, dict[str, Pair]] = {}
        with closing_fd(open_folder(self.source)) as here, closing_fd(open_folder(self.target)) as there:
            self._folder(here, there, "", made)
            _set_time(there, os.fstat(here))
        self._known, self._settled = made, time.time_ns()

    def _folder(self, here: int, there: int, path: str, made: dict[str, dict[str, Pair]]) -> None:
        now, known, pairs = time.time_ns(), self._known.get(path, {}), made.setdefault(path, {})
        theirs = {n: s for n, s in self._listed(here, path).items() if stat.S_IFMT(s.st_mode) in _KINDS}
        ours = self._listed(there, path)
        for name, old in ours.items():
            if name not in theirs or stat.S_IFMT(theirs[name].st_mode) != stat.S_IFMT(old.st_mode):
                remove(name, there)
        for name, found in theirs.items():
            kind = stat.S_IFMT(found.st_mode)
            if kind == stat.S_IFDIR:
                self._deeper(name, here, there, path, made, found)
                continue
            copy, pair = ours.get(name), known.get(name)
            if pair is not None and copy is not None and pair[:2] == (signature(found), signature(copy)):
                if not pair[2] and _settled(pair[1][3], self._settled):
                    pairs[name] = pair
                    continue
                if _same(name, here, there, kind):
                    pairs[name] = (*pair[:2], not _settled(pair[0][3], now))
                    continue
            remove(name, there)
            self._copy(name, here, there, path, pairs, kind)

    def _deeper(
        self, name: str, here: int, there: int, path: str, made: dict[str, dict[str, Pair]], found: os.stat_result
    ) -> None:
        """Sync a folder, and what it holds."""
        below = f"{path}/{name}" if path else name
        try:
            source = open_folder(name, here)
        except OSError:
            self.left_out.append(below)
            remove(name, there)
            return
        with closing_fd(source), closing_fd(_open_own(name, there)) as target:
            self._folder(source, target, below, made)
            if os.fstat(target).st_mode != found.st_mode:
                os.fchmod(target, stat.S_IMODE(found.st_mode))
            _set_time(target, found)

    def _copy(self, name: str, here: int, there: int, path: str, pairs: dict[str, Pair], kind: int) -> None:
        """Copy a file or link; one that has just gone, or become something else, is left to the next time."""
        began = time.time_ns()
        try:
            if name == ".git" and kind == stat.S_IFREG and path and self._adopted(here, path):
                found, made = os.lstat(name, dir_fd=here), os.lstat(name, dir_fd=there)
            elif kind == stat.S_IFLNK:
                found, made = self.copier.link(name, here, there)
            else:
                found, made = self.copier.file(name, here, there)
        except OSError as error:
            if error.errno == errno.EACCES:
                self.left_out.append(f"{path}/{name}" if path else name)
            elif error.errno not in _MOVED:
                raise
            remove(name, there)
        else:
            pairs[name] = (signature(found), signature(made), not _settled(found.st_ctime_ns, began))

    def _adopted(self, here: int, path: str) -> bool:
        with open(open_regular(".git", here), "rb") as file:
            text = file.read(8192)
        return text.startswith(_LINK) and self._adopt(path, text)

    def _listed(self, fd: int, path: str) -> Stats:
        """Return the entries of a folder, each with its stat."""
        skipped, found = self._skipped.get(path, ()), {}
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.name not in skipped:
                    try:
                        found[entry.name] = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
        return found

    def changed(self) -> dict[str, tuple[Signature | None, bool]]:
        """Return the files and links in ``target`` that are new, changed or gone since ``sync``, less those of nested
        repositories' own: each with the signature of the one in ``source`` if that is as it was then, and whether one is in
        ``target`` now."""
        found: dict[str, tuple[Signature | None, bool]] = {}
        gone = dict(self._known)
        with closing_fd(open_folder(self.target)) as fd:
            self._compare(fd, "", gone, found)
        for folder, files in gone.items():
            for name, pair in files.items() if ".git" not in folder.split("/") else ():
                path = os.path.join(folder, name)
                there = stat_signature(os.path.join(self.source, path)) if name != ".git" else None
                if there is not None and not stat.S_ISDIR(there[4]):
                    found[path] = (there if there == pair[0] else None, False)
        return found

    def _compare(
        self, fd: int, path: str, gone: dict[str, dict[str, Pair]], found: dict[str, tuple[Signature | None, bool]]
    ) -> None:
        """Compare a folder of the copy; what is not met is left in ``gone``."""
        prefix, left, suspects = path + "/" if path else "", dict(gone.get(path, {})), {}
        gone[path] = left
        for name, at in self._listed(fd, path).items():
            if name == ".git":
                continue
            if stat.S_ISDIR(at.st_mode):
                with closing_fd(_open_own(name, fd)) as below:
                    self._compare(below, prefix + name, gone, found)
            elif (pair := left.pop(name, None)) is not None:
                moved = pair[1] != signature(at)
                if moved or (not pair[2] and not _settled(pair[1][3], self._settled)):
                    suspects[name] = (pair[0], moved, at.st_mode)
            elif stat.S_IFMT(at.st_mode) in _KINDS:
                found[prefix + name] = (None, True)
        if suspects:
            differing = self._differing(fd, path, suspects)
            found |= {prefix + name: (then, stat.S_IFMT(suspects[name][2]) in _KINDS) for name, then in differing}

    def _differing(
        self, fd: int, path: str, suspects: dict[str, tuple[Signature, bool, int]]
    ) -> Iterator[tuple[str, Signature | None]]:
        """Yield those files of a folder that are not as in ``source``, with the signature that they have there if it is the
        one given. If it is not, the file's own times must do, which say whether it has moved."""
        try:
            here = open_below(self.source, path.split("/") if path else [])
        except OSError:
            yield from ((name, None) for name, (_, moved, _) in suspects.items() if moved)
            return
        with closing_fd(here):
            for name, (then, moved, mode) in suspects.items():
                same = stat_signature(name, here) == then and mode == then[4] and _same(name, here, fd, stat.S_IFMT(mode))
                still = stat_signature(name, here) == then
                if (moved or still) and not (still and same):
                    yield name, then if still else None


def _settled(ctime: int, moment: int) -> bool:
    return lasting(ctime, moment, _TICK)


def _open_own(name: str, above: int) -> int:
    """Open a folder of the copy, made where it is missing, in which we may do everything."""
    try:
        fd = open_unlocked(name, above)
    except FileNotFoundError:
        os.mkdir(name, 0o700, dir_fd=above)
        fd = open_folder(name, above)
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    if mode & 0o700 != 0o700:
        os.fchmod(fd, mode | 0o700)
    return fd


def _set_time(fd: int, wanted: os.stat_result) -> None:
    if os.fstat(fd).st_mtime_ns != wanted.st_mtime_ns:
        os.utime(fd, ns=(wanted.st_atime_ns, wanted.st_mtime_ns))


def _same(name: str, here: int, there: int, kind: int) -> bool:
    """Whether two files or links have the same content. A ``.git`` file of ours differs from theirs."""
    with suppress(OSError):
        if kind == stat.S_IFLNK:
            return os.readlink(name, dir_fd=here) == os.readlink(name, dir_fd=there)
        with open(open_regular(name, here), "rb") as one, open(open_regular(name, there), "rb") as other:
            while (block := one.read(_BLOCK)) == other.read(_BLOCK):
                if not block:
                    return True
    return name == ".git"


_FICLONE = 0x40049409  # of linux/fs.h
_CANNOT = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
_SMALL = 1 << 16
_CHUNK = 1 << 16
_TRIES = 3


class Copier:
    """A copier of files and symbolic links from one folder to another, which remembers on which devices reflinks fail.

    ``cloned``: whether one was made so.
    """

    def __init__(self) -> None:
        self.cloned = False
        self._unable = set[int]()

    def link(self, name: str, source: int, target: int) -> tuple[os.stat_result, os.stat_result]:
        """Make a symbolic link in the folder ``target`` like the one in ``source``: what both are then. Raises OSError."""
        found = os.lstat(name, dir_fd=source)
        os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
        os.utime(name, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=target, follow_symlinks=False)
        return found, os.lstat(name, dir_fd=target)

    def file(self, name: str, source: int, target: int) -> tuple[os.stat_result, os.stat_result]:
        """Make a regular file in the folder ``target`` like the one in ``source``: what the old one was before it was read,
        and what the new one is. One that changes meanwhile is read again, a few times. Raises OSError."""
        with closing_fd(open_regular(name, source)) as reader:
            found = os.fstat(reader)
            with closing_fd(os.open(name, NEW, found.st_mode & 0o7777, dir_fd=target)) as writer:
                for _ in range(_TRIES):
                    self._fill(reader, writer, found)
                    if found.st_size > _SMALL and signature(now := os.fstat(reader)) != signature(found):
                        found = now
                        os.ftruncate(writer, 0)
                        continue
                    break
                os.utime(writer, ns=(found.st_atime_ns, found.st_mtime_ns))
                made = os.fstat(writer)
                if made.st_mode != found.st_mode:
                    os.fchmod(writer, found.st_mode & 0o7777)
                    made = os.fstat(writer)
        return found, made

    def _fill(self, reader: int, writer: int, found: os.stat_result) -> None:
        """Copy the bytes that a file has now; what is appended meanwhile is left for the next time."""
        if sys.platform == "linux" and found.st_size > 16384 and found.st_dev not in self._unable:
            try:
                fcntl.ioctl(writer, _FICLONE, reader)
                self.cloned = True
                return
            except OSError as error:
                if error.errno not in _CANNOT:
                    raise
                self._unable.add(found.st_dev)
        _stream(reader, writer, found.st_size)


def _stream(reader: int, writer: int, size: int) -> None:
    """Copy a file as far as it went when it was looked at, holes left out. Raises OSError."""
    at = 0
    while at < size:
        try:
            at = os.lseek(reader, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                break
            os.lseek(reader, at, os.SEEK_SET)  # the file system does not know of holes
        block = os.read(reader, min(_CHUNK, max(0, size - at)))
        if not block:
            break
        os.lseek(writer, at, os.SEEK_SET)
        write_all(writer, block)
        at += len(block)
    os.ftruncate(writer, min(size, os.fstat(reader).st_size))
