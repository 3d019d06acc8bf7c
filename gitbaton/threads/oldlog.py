"""Older log: the segments that versions before left, which are taken in once; and whether one of these versions is at work."""

from __future__ import annotations

import fcntl
import os

from gitbaton.errors import GitError
from gitbaton.system.files import sync_paths
from gitbaton.threads.logfile import OLD, START, damaged, opened
from gitbaton.threads.logfile import records as read

_SEGMENTS = ("seg-", "free-", "loose-", "new-")  # how names of files begin that may hold a segment, whatever number that has


def names(folder: str) -> list[str]:
    """The files of an older log in a folder; but for locks, which have the names of ours."""
    try:
        return sorted(name for name in os.listdir(folder) if name.startswith((*_SEGMENTS, "state")))
    except FileNotFoundError:
        return []


def refuse_living(folder: str) -> None:
    """Raise GitError when an older gitbaton has its log in a folder open: neither sees what the other puts."""
    try:
        fd = os.open(os.path.join(folder, "state"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        who = _holders(os.fstat(fd).st_ino)
        said = f"process {' and '.join(who)} of an older gitbaton has" if who else "a process of an older gitbaton has"
        raise GitError(f"{said} the threads in '{folder}' open; end it first, or give it the same version") from None
    finally:
        os.close(fd)


def _holders(inode: int) -> list[str]:
    """The processes that have a file locked, where the system tells."""
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            rows = [line.split() for line in file]
    except OSError:
        return []
    found = {row[4] for row in rows if len(row) > 5 and row[1] == "FLOCK" and row[5].endswith(f":{inode}")}
    return sorted(pid for pid in found if pid.isdecimal() and int(pid) > 0)


def records(folder: str) -> list[bytes]:
    """All records of an older log, in order. Raises RecordError, OSError."""
    found = _segments(folder)
    if max(found, default=0) - min(found, default=0) > 1 << 15:
        raise damaged(folder, f"segments {min(found)} and {max(found)} are of one log")
    return [payload for number in sorted(found) for payload in read(found[number], OLD)]


def _segments(folder: str) -> dict[int, str]:
    """The files that hold segments: a file's header says which, its name may be that of an older one."""
    found: dict[int, str] = {}
    for name in reversed(names(folder)):
        path = os.path.join(folder, name)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            head = opened(fd, OLD)
        finally:
            os.close(fd)
        if head is not None:
            found.setdefault(head[0], path)
    return found


def remove(folder: str) -> None:
    """Remove an older log whose records are elsewhere; durably and in order: a power cut leaves none of a segment's without
    those of all that follow it. Raises OSError."""
    found = _segments(folder)
    for number in sorted(found):
        fd = os.open(found[number], os.O_RDWR | os.O_CLOEXEC)
        try:
            os.pwrite(fd, bytes(START), 0)
            os.fsync(fd)
        finally:
            os.close(fd)
    for name in names(folder):
        os.unlink(os.path.join(folder, name))
    sync_paths([folder])
