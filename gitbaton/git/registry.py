"""The user's list of repositories with checkpoints: a file in the user's state folder, a path in JSON a line."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from gitbaton.base.system.files import closing_fd, state_home, write_atomic
from gitbaton.git.repo import Layout, Repo

_OPEN = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST = 1 << 20  # bytes of the list that are read


def registry() -> str | None:
    """Return where the list is; None where there is no home folder."""
    state = state_home(os.environ)
    return os.path.join(state, "gitbaton", "repositories") if state is not None else None


def place_of(layout: Layout) -> str:
    """Return the path that stands for a repository: its main work tree, or its git directory where none is beside that."""
    if layout.root is not None and layout.git_dir == layout.common_dir:
        return layout.root
    above, name = os.path.split(layout.common_dir)
    return above if name == ".git" else layout.common_dir


def listed() -> list[str]:
    """Return the paths of the list that are there still. Raises OSError for a list that cannot be read."""
    return [path for path in _listed() if any(os.path.lexists(os.path.join(path, name)) for name in (".git", "HEAD"))]


def remember(repo: Repo) -> None:
    """Add a repository to the list; not with ``GIT_BATON=0`` or ``baton.registry=false``. Never raises."""
    path, place = registry(), place_of(repo.layout)
    if path is None or os.environ.get("GIT_BATON") == "0" or not repo.boolean("baton.registry", default=True):
        return
    with suppress(OSError):
        if place not in _listed():
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with closing_fd(os.open(path, _OPEN, 0o600)) as fd:
                os.write(fd, (json.dumps(place) + "\n").encode())


def forget(place: str) -> None:
    """Take a repository out of the list, with those that are gone; the file goes when it is empty. Raises OSError."""
    path, left = registry(), [one for one in listed() if one != place]
    if path is not None and left:
        write_atomic(path, "".join(json.dumps(one) + "\n" for one in left).encode(), mode=0o600)
    elif path is not None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):
            os.rmdir(os.path.dirname(path))


def _listed() -> list[str]:
    path, found = registry(), dict[str, None]()
    if path is not None and os.path.isfile(path):
        with open(path, "rb") as file:
            rows = file.read(_MOST).splitlines()
        for row in rows:
            with suppress(ValueError):
                one = json.loads(row)
                if isinstance(one, str) and os.path.isabs(one) and "\0" not in one:
                    found[one] = None
    return [*found]
