"""Files and folders of ours that are something else by now, or another user's: they are named, and left alone."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress

from gitbaton.codec import plain
from gitbaton.git import questions
from gitbaton.git.objects import in_the_way
from gitbaton.git.publish import WORKSHOP
from gitbaton.git.repo import Repo
from gitbaton.mirror import NAMES, Place
from gitbaton.store import CURRENT
from gitbaton.system.files import kind_of
from gitbaton.values import value
from gitbaton.worktree.capture import OURS
from gitbaton.worktree.crashmarker import LARGEST, NAME

_FOLDERS = (
    *("attempts", "broken", "claims", "foreign", "foreign-runs", "held", "hooks", "isolated", "lanes", "lanes.new", "late"),
    *("deleted", "lock", "pushed", "sessions", "tmp", "transcripts", "wal"),
)
_FILES = (
    *("agents", "boot", "detached", "expect", "files.cache", "flock", "index-facts", "installed", "late-hook"),
    *("late-hook-waits", "latest", "log", "log.old", "modes", "newest", "page.html", "paused", "pruned", "pruning", "quiet"),
    *("repacking", "restore", "restoring", "revision", "rewritten", "run", "worktree"),
)
_SWEPT = ("isolated", "tmp")  # what lies there and is ours has a name by which it is known
_COPIES = ("broken", "lanes", "lanes.new")  # of what is the user's, or git's


@value
class Odd:
    """What stands in the place of something of ours, or is not the owner's, why, and a command that mends it."""

    path: str
    why: str
    mend: str


def odd(repo: Repo, where: Place | None) -> Iterator[Odd]:
    """All that is odd in the folders of ours of every work tree, and at the places of LATEST (``where``). Only looks."""
    common = repo.layout.common_dir
    owner = None if repo.settings().get("core.sharedrepository") else os.stat(common).st_uid
    for _, git_dir, _ in questions.worktrees(repo):
        if current := in_the_way(git_dir, CURRENT):
            yield _other(repo, os.path.join(git_dir, CURRENT), f"is {current}, and no ref")
        top = os.path.join(git_dir, "baton")
        try:
            found = os.lstat(top)
        except OSError:
            continue
        if stat.S_ISDIR(found.st_mode):
            yield from _theirs(top, found, owner)
            yield from _below(repo, top, owner, 0)
        else:
            yield _other(repo, top, f"is {kind_of(found.st_mode)}, and no folder of ours")
    for path in (os.path.join(where.directory, name) for name in NAMES) if where is not None else ():
        with suppress(OSError):
            if not stat.S_ISREG(mode := os.lstat(path).st_mode):
                yield _other(repo, path, f"is {kind_of(mode)}, and no file of ours")


def aside(repo: Repo, path: str) -> str:
    """The command that puts what is in the way of ours where nobody looks for it."""
    target = os.path.join(repo.layout.common_dir, f"{os.path.basename(path)}.odd")
    return f"mv {shlex.quote(path)} {shlex.quote(target)}"


def _below(repo: Repo, folder: str, owner: int | None, depth: int) -> Iterator[Odd]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        yield Odd(path=folder, why=f"cannot be read: {error.strerror}", mend=f"chmod u+rwx {shlex.quote(folder)}")
        return
    for entry in entries:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:  # it has just gone
            continue
        wrong = _wrong(entry.name, os.path.basename(folder), found, depth)
        if wrong:
            yield _other(repo, entry.path, wrong)
            continue
        yield from _theirs(entry.path, found, owner)
        if stat.S_ISDIR(found.st_mode) and entry.name not in _COPIES and os.path.basename(folder) != "tmp":
            yield from _below(repo, entry.path, owner, depth + 1)


def _wrong(name: str, folder: str, found: os.stat_result, depth: int) -> str:
    """Why an entry of a folder of ours is none of ours; empty where it may be."""
    is_folder, is_file = stat.S_ISDIR(found.st_mode), stat.S_ISREG(found.st_mode)
    swept = folder if depth == 1 and folder in _SWEPT else ""
    kinds = _FILES if depth == 0 else (name,) if swept == "isolated" else ()  # of which no folder is ours
    if not (is_folder or is_file) or (is_folder and name in kinds) or (is_file and depth == 0 and name in _FOLDERS):
        return f"is {kind_of(found.st_mode)}, and no {'folder' if depth == 0 and name in _FOLDERS else 'file'} of ours"
    if swept and not {"isolated": NAME.match(name), "tmp": OURS.match(name) or name.startswith(WORKSHOP)}[swept]:
        return "has no name that we give, and stays"
    return "is larger than what we write there" if swept == "isolated" and found.st_size > LARGEST else ""


def _other(repo: Repo, path: str, why: str) -> Odd:
    return Odd(path=path, why=why, mend=aside(repo, path))


def _theirs(path: str, found: os.stat_result, owner: int | None) -> Iterator[Odd]:
    """What is not the repository's owner's, or may not be read."""
    if owner is not None and found.st_uid != owner:
        mend = f"sudo chown -h {owner} {shlex.quote(plain(path))}"
        yield Odd(path=path, why=f"belongs to user {found.st_uid}, and the repository to user {owner}", mend=mend)
    elif found.st_uid == os.geteuid() and found.st_mode & 0o600 != 0o600 and stat.S_ISREG(found.st_mode):
        yield Odd(path=path, why="may not be read and written by its owner", mend=f"chmod u+rw {shlex.quote(path)}")
