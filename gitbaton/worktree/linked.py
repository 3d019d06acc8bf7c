"""Linked work trees: added without files, and removed."""

from __future__ import annotations

from gitbaton.git.repo import Repo
from gitbaton.model import Oid


def add(repo: Repo, place: str, commit: Oid) -> None:
    """Register a linked work tree at ``place``, with HEAD detached at a commit and no files. Raises GitError."""
    repo.settings()  # who may run hooks must know those to switch off
    repo.git.out("worktree", "add", "--detach", "--no-checkout", "--end-of-options", place, commit)


def remove(repo: Repo, place: str) -> None:
    """Remove a linked work tree that was only just made, and its registration."""
    repo.git.run("worktree", "remove", "--force", "--end-of-options", place)
