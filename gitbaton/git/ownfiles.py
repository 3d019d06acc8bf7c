"""Files of our own below ``baton`` in the git directories, with the modes that core.sharedRepository asks for."""

from __future__ import annotations

import os

from gitbaton.git.run import sync_paths
from gitbaton.git.sharing import mode_of, share

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.repo import Repo


def shared(repo: Repo, path: str | int) -> None:
    """Give a file or folder of ours, or what a descriptor is of, the mode that the repository asks for. Never raises, but for
    what the configuration does."""
    share(path, mode_of(repo.settings().get("core.sharedrepository", [""])[-1]))


def make_folder(repo: Repo, path: str) -> None:
    """Make a folder of ours and those above it. Raises OSError."""
    os.makedirs(path, exist_ok=True)
    while "baton" in path.removeprefix(repo.layout.common_dir).split(os.sep):
        shared(repo, path)
        path = os.path.dirname(path)


def lock_file(repo: Repo, path: str) -> int:
    """A file to lock, made with its folder where there is none; its descriptor. Raises OSError."""
    make_folder(repo, os.path.dirname(path))
    fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    shared(repo, fd)
    return fd


def put(repo: Repo, path: str, data: bytes, *, fresh: str = ".new", mode: int = 0o666, sync: bool = False) -> None:
    """Write a file whole or not at all; its folder is made where there is none. ``fresh``: how its name ends until then. With
    one name what a killed process left goes with the next write; where several write at once each needs its own. ``mode``
    is that of a repository that nobody shares. Raises OSError."""
    make_folder(repo, os.path.dirname(path))
    fd = os.open(path + fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with open(fd, "wb") as file:
        shared(repo, fd)
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(path + fresh, path)
    if sync:
        sync_paths([os.path.dirname(path)])


def add(repo: Repo, path: str, data: bytes) -> None:
    """Write at the end of a file. Raises OSError."""
    with open(path, "ab") as file:
        shared(repo, file.fileno())
        file.write(data)
