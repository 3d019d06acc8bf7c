"""Ignored files that ``.worktreeinclude`` lists, copied into a new work tree: by reflink where the file system can, never over
what is there, and through no symbolic link."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from gitbaton.base.system.files import closing_fd, open_below
from gitbaton.base.values import value
from gitbaton.git.repo import Repo
from gitbaton.git.run import zsplit
from gitbaton.git.worktree.dirsync import Copier
from gitbaton.git.worktree.untracked import ignored, regular

FILE = ".worktreeinclude"  # at the top of a work tree, in the syntax of gitignore, as clients and other tools have it


@value
class Included:
    """Files that were copied, or are to be, and those that are left out, each with the reason. ``exposed``: of those that were
    copied the ones that git does not ignore in the new work tree."""

    paths: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    exposed: tuple[str, ...] = ()


def listed(repo: Repo, ours: Callable[[str], bool]) -> Included:
    """Return the files of this work tree that its ``.worktreeinclude`` lists and git ignores, but for those that are ``ours``.
    None where that file is no regular one. Raises GitError."""
    root = repo.layout.root
    if root is None or not os.path.lexists(os.path.join(root, FILE)):
        return Included()
    if not regular(os.path.join(root, FILE)):
        return Included(left_out=((FILE, "it is no regular file, and lists nothing"),))
    asked = repo.git.run("ls-files", "-o", "-i", "-z", f"--exclude-from={os.path.join(root, FILE)}")
    if asked.code != 0:
        return Included(left_out=((FILE, f"it lists nothing: {asked.fatal()}"),))
    named = zsplit(asked.out)
    found = ignored(repo.git, named) if named else []
    paths, left_out = list[str](), list[tuple[str, str]]()
    for path in (path.removeprefix("./") for path in found):
        if path.endswith("/"):
            left_out.append((path, "it is a repository of its own"))
        elif os.path.islink(os.path.join(root, path)):
            left_out.append((path, "it is a symbolic link"))
        elif not regular(os.path.join(root, path)):
            left_out.append((path, "it is no regular file"))
        elif not ours(path):
            paths.append(path)
    return Included(paths=tuple(paths), left_out=tuple(left_out))


def copied(repo: Repo, paths: Sequence[str], other: Repo) -> Included:
    """Copy files of this work tree to the same paths of another one, with modes and times; what is there stays as it is. Raises
    GitError."""
    copier, done, left_out = Copier(), list[str](), list[tuple[str, str]]()
    for path in paths:
        try:
            _copy(copier, repo.layout.root or "", other.layout.root or "", path)
            done.append(path)
        except FileExistsError:
            left_out.append((path, "something is there already, and stays"))
        except OSError as error:
            left_out.append((path, error.strerror or str(error)))
    hidden = {path.removeprefix("./") for path in ignored(other.git, done)} if done else set[str]()
    return Included(paths=tuple(done), left_out=tuple(left_out), exposed=tuple(path for path in done if path not in hidden))


def _copy(copier: Copier, root: str, place: str, path: str) -> None:
    *folders, name = path.split("/")
    with closing_fd(open_below(root, folders)) as source:
        made = partial(_like, root, folders)
        with closing_fd(open_below(place, folders, made, lambda _: 0o700)) as target:
            try:
                copier.file(name, source, target)
            except FileExistsError:
                raise
            except OSError:
                with suppress(OSError):  # half of it would look like the whole
                    os.unlink(name, dir_fd=target)
                raise


def _like(root: str, folders: Sequence[str], fd: int, depth: int) -> None:
    """Give a folder that was made the permissions of the one that it stands for."""
    with closing_fd(open_below(root, folders[: depth + 1])) as source:
        os.fchmod(fd, stat.S_IMODE(os.fstat(source).st_mode))
