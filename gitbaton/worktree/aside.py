"""Move files aside and back; notice late writes."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time

from gitbaton.git.repo import Repo, make_folder
from gitbaton.system.files import NEW

Mark = tuple[int, ...]
LIST = "list"  # of what is aside: `inode mode size mtime TAB path NUL`, in the order of the names


def mark(root: str, path: str) -> Mark:
    """What tells a file from what it is after it was written; empty where there is none."""
    try:
        found = os.lstat(os.path.join(root, path))
    except OSError:
        return ()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def permissions(old: int, new: int, repo: Repo) -> int:
    """Those of a file that replaces another: who may read and write it stays, who may execute it is what git says, where git
    looks at that."""
    if not repo.boolean("core.filemode", default=True):
        return old & 0o777
    return old & 0o666 | ((old & 0o666) >> 2 & 0o111 if new & 0o100 else 0)


def seen(place: str) -> Mark:
    """What of a mark stays when a file is moved."""
    found = os.lstat(place)
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def put(source: str, name: str, folder: int) -> None:
    """Link a file into a free place. Raises FileExistsError where it is not free."""
    try:
        os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
        os.unlink(source)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.ENOENT, errno.EDQUOT):
            raise
        _copy(source, name, folder)  # a file system without hard links, or one that lies elsewhere


def _copy(source: str, name: str, folder: int) -> None:
    """Put a copy of a file or link into a free place. Raises FileExistsError where it is not free."""
    found = os.lstat(source)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(source), name, dir_fd=folder)
        os.unlink(source)
        return
    fd = os.open(name, NEW, stat.S_IMODE(found.st_mode), dir_fd=folder)
    try:
        with open(fd, "wb") as target, open(source, "rb") as file:
            shutil.copyfileobj(file, target, 1 << 20)
            os.fchmod(target.fileno(), stat.S_IMODE(found.st_mode))
    except OSError:
        os.unlink(name, dir_fd=folder)
        raise
    os.unlink(source)


def is_late(place: str, expected: Mark) -> bool:
    """Whether a file that was moved aside was written since."""
    return os.path.lexists(place) and seen(place) != expected


def keep(repo: Repo, path: str, place: str) -> str:
    """Keep a file under a name of its own."""
    parent = os.path.join(repo.own_dir, "late")
    make_folder(repo, parent)
    kept = os.path.join(parent, f"{time.time_ns()}.{os.getpid()}.{os.path.basename(place)}")
    os.rename(place, kept)
    return f"'{path}' was written while it was replaced; those bytes are in '{kept}'"


def rescue(repo: Repo) -> list[str]:
    """After a restore that was killed: keep what was written into files that it had moved aside; what should be said.

    Only while no restore is at work in this work tree.
    """
    said = []
    parent = os.path.join(repo.own_dir, "tmp")
    try:
        folders = sorted(os.listdir(parent))
    except OSError:
        return []
    for folder in folders:
        aside = os.path.join(parent, folder, "aside")
        try:
            with open(os.path.join(aside, LIST), "rb") as file:
                rows = os.fsdecode(file.read()).split("\0")[:-1]
        except OSError:
            continue
        for number, row in enumerate(rows):
            numbers, _, path = row.partition("\t")
            place = os.path.join(aside, str(number))
            if is_late(place, tuple(int(part) for part in numbers.split(" ") if part.isdecimal())):
                said.append(keep(repo, path, place))
        shutil.rmtree(os.path.join(parent, folder), ignore_errors=True)
    return said
