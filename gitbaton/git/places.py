"""Places of git's files, found without git: a work tree's own folder and the common one, and whether files have changed. It
imports nothing, for what is asked too often for a process of git."""

from __future__ import annotations

import os
from collections.abc import Iterable

STATUS_LINE = "statusline"
"""The file in our folder of a work tree's git directory that keeps the status line."""
_HAPPENING = (  # in the git directory of a work tree: where HEAD is, and what is in progress
    *("HEAD", "BATON_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply"),
    *("sequencer", os.path.join("reftable", "tables.list")),
)
_SHARED = ("packed-refs", os.path.join("reftable", "tables.list"), "config", os.path.join("refs", "notes"))


def found_at(start: str) -> tuple[str, str] | None:
    """Return the git directory that is at or above a folder, and its common one, as far as files say; None where none is.
    A bare repository counts only where no work tree is around it."""
    at, bare = os.path.realpath(start), ""
    ends = os.environ.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep)
    while True:
        link = os.path.join(at, ".git")
        git_dir = os.path.join(at, _said(link).removeprefix("gitdir: ")) if os.path.isfile(link) else link
        if os.path.lexists(os.path.join(git_dir, "HEAD")):
            break
        if not bare and all(os.path.lexists(os.path.join(at, name)) for name in ("HEAD", "objects", "refs")):
            bare = at
        above = os.path.dirname(at)
        if above == at or above in ends:
            git_dir = bare
            break
        at = above
    shared = _said(os.path.join(git_dir, "commondir"))
    return (git_dir, os.path.normpath(os.path.join(git_dir, shared))) if git_dir else None


def moving(git_dir: str, common_dir: str, branch: str | None, names: Iterable[str]) -> list[str]:
    """Return the files and folders that change when HEAD of a work tree moves, a ref of ``names``, or what is in progress: git
    makes and removes a lock file beside each ref that it moves."""
    refs = [f"refs/heads/{branch}"] if branch is not None else []
    beside = (os.path.dirname(os.path.join(common_dir, ref)) for ref in (*refs, *names))
    own = (os.path.join(git_dir, name) for name in _HAPPENING)
    return [*own, *(os.path.join(common_dir, name) for name in _SHARED), *beside]


def looks(paths: Iterable[str]) -> tuple[str, int]:
    """Return the state of files and folders, in words that stay equal as long as none of them changes, and when the newest
    changed, in nanoseconds. Raises OSError where that cannot be known."""
    said, newest = [], 0
    for path in paths:
        try:
            seen = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            said.append("-")
        else:
            said.append(f"{seen.st_ino}.{seen.st_mtime_ns}.{seen.st_size}")
            newest = max(newest, seen.st_mtime_ns)
    return " ".join(said), newest


def _said(path: str) -> str:
    """Return what a small file says; empty where it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return os.fsdecode(file.read(8192)).rstrip("\r\n")
    except OSError:
        return ""
