"""Small files of one line: up to which commit a run is foreign, and which run a work tree used last."""

from __future__ import annotations

import os

from gitbaton.codec import encode_track
from gitbaton.git import repo as git
from gitbaton.git.repo import Repo
from gitbaton.model import Oid

_LINE = 200


def line(path: str) -> str | None:
    """The one line of a file; None where there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read(_LINE).strip() or None
    except OSError:
        return None


def put(repo: Repo, path: str, text: str) -> bool:
    """Write a file of one line, whole or not at all; whether it could be."""
    try:
        git.put(repo, path, f"{text}\n".encode("ascii"), fresh=f".{os.getpid()}.new")
    except (OSError, UnicodeEncodeError):
        return False
    return True


def _path(repo: Repo, run: str) -> str:
    return os.path.join(repo.shared_dir, "foreign-runs", encode_track(run))


def until(repo: Repo, run: str) -> Oid | None:
    """The newest commit of a run as it was adopted; while it is the newest of all, all are foreign."""
    return line(_path(repo, run))


def note(repo: Repo, run: str, commit: Oid) -> None:
    """Say, before it is made local, that a run is foreign up to a commit. Raises OSError."""
    path = _path(repo, run)
    if not put(repo, path, commit):
        raise OSError(f"'{path}' cannot be written")


def clear(repo: Repo, run: str) -> None:
    """Say that no record of a run is foreign any more."""
    try:
        os.unlink(_path(repo, run))
    except OSError:
        return  # it names a commit that is not the newest any more
