"""Folders and copies of our own, without ``shutil``: importing it costs a hook 3 ms, for compressors that nobody uses."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_BLOCK = 1 << 20


def remove(folder: str) -> None:
    """Remove a folder of ours, as far as it can be removed. Never raises."""
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                remove(entry.path)
            else:
                _unlink(entry.path)
        os.rmdir(folder)
    except OSError:
        return


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def copy(reader: BinaryIO, writer: BinaryIO) -> None:
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
