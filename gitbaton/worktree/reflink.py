"""File copies that keep mode and times: by reflink where the file system can, else byte by byte."""

from __future__ import annotations

import errno
import fcntl
import os
import sys

from gitbaton.system.files import NEW, open_regular, signature, write_all

_FICLONE = 0x40049409  # of linux/fs.h
_CANNOT = {errno.EOPNOTSUPP, errno.EXDEV, errno.EINVAL, errno.ENOTTY, errno.ENOSYS, errno.EPERM}
_SMALL = 1 << 16
_BLOCK = 1 << 16
_TRIES = 3


class Copier:
    """Copies files and symbolic links from one folder to another, and remembers on which devices reflinks fail.

    ``cloned``: whether one was made so."""

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
        reader = open_regular(name, source)
        try:
            found = os.fstat(reader)
            writer = os.open(name, NEW, found.st_mode & 0o7777, dir_fd=target)
            try:
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
            finally:
                os.close(writer)
        finally:
            os.close(reader)
        return found, made

    def _fill(self, reader: int, writer: int, found: os.stat_result) -> None:
        """The bytes that a file has now; what somebody appends meanwhile is left for the next time."""
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
    """A file as far as it went when it was looked at, holes left out. Raises OSError."""
    at = 0
    while at < size:
        try:
            at = os.lseek(reader, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                break
            os.lseek(reader, at, os.SEEK_SET)  # the file system does not know of holes
        block = os.read(reader, min(_BLOCK, max(0, size - at)))
        if not block:
            break
        os.lseek(writer, at, os.SEEK_SET)
        write_all(writer, block)
        at += len(block)
    os.ftruncate(writer, min(size, os.fstat(reader).st_size))
