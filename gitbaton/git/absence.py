"""Errors of opening a repository: why git finds none, or refuses the one that is there."""

from __future__ import annotations

import os

from gitbaton.errors import NotARepositoryError
from gitbaton.git.run import Git
from gitbaton.system.process import Result


def no_repository(git: Git, result: Result) -> NotARepositoryError:
    """Git's own reason and advice (dubious ownership, a broken file), or that nothing is there."""
    if "not a git repository (or any" in result.err or "cannot change to" in result.err:
        closed = _closed(git.directory) if "GIT_DIR" not in git.env else None
        said = f"'{closed}' cannot be read: Permission denied" if closed else f"'{git.directory}' is not in a git repository"
        return NotARepositoryError(said)
    if "safe.bareRepository is" in result.err:
        return NotARepositoryError(result.fatal(), "name it: git --git-dir=PATH baton ...")
    said_, message = [line for line in result.err.splitlines() if line.strip()], result.fatal()
    if message.endswith(":"):  # what it found stands below, a line each
        found = [line.strip() for line in said_[1:] if line.startswith("\t")]
        return NotARepositoryError(f"{message} {', '.join(found)}", *_advice(message, found))
    return NotARepositoryError(message, *(line.strip() for line in said_[1:] if line not in said_[:1]))


def _advice(message: str, found: list[str]) -> list[str]:
    return ["a newer git knows it"] if "unknown repository extension" in message and found else []


def _closed(folder: str) -> str | None:
    """The folder of a repository, at or above a path, that we may not look into: git goes on above it."""
    while True:
        place = os.path.join(folder, ".git")
        try:
            os.stat(os.path.join(place, "HEAD"))
        except PermissionError:
            return place if os.path.isdir(place) else folder
        except OSError:
            pass
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)
