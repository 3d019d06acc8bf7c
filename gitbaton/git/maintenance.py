"""Many checkpoints leave many loose objects; past a few thousand git packs them, while nobody waits."""

from __future__ import annotations

import fcntl
import os

from gitbaton.errors import GitError
from gitbaton.git.repo import Repo
from gitbaton.git.run import spawn

MANY = 4096
_SAMPLE = "17"  # the folder that git itself counts for gc.auto: one of 256
_HELD = 9  # the descriptor by which git holds the lock until it ends


def tidy(repo: Repo) -> bool:
    """Start ``git repack --geometric`` where there are many loose objects, in the background; whether it was started.

    Nothing is pruned: objects that nothing refers to are packed, too. Not with ``gc.auto=0``, in a partial clone, while one
    is at work, or where objects go somewhere else. Never raises.
    """
    if "GIT_OBJECT_DIRECTORY" in repo.git.env:
        return False
    try:
        if len(os.listdir(os.path.join(repo.layout.common_dir, "objects", _SAMPLE))) * 256 <= MANY:
            return False
        if _unwanted(repo):
            return False
        return _start(repo)
    except (OSError, GitError):
        return False


def _unwanted(repo: Repo) -> bool:
    """Whether the user wants no packing, or git cannot do it: a partial clone has packs that it cannot roll up."""
    pattern = r"^(gc\.auto|extensions\.partialclone|remote\..*\.promisor)$"
    items = repo.git.run("config", "-z", "--get-regexp", pattern).out.split(b"\0")
    found = dict(item.split(b"\n", 1) for item in items if b"\n" in item)
    return found.pop(b"gc.auto", b"").strip() == b"0" or bool(found)


def _start(repo: Repo) -> bool:
    lock = os.open(os.path.join(repo.shared_dir, "repacking"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        argv = repo.git.argv("repack", "-q", "-d", "-l", "--geometric=2", "--no-write-bitmap-index")
        spawn(argv, repo.git.env, null, null, null, {lock: _HELD}, detached=True)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(null)
        os.close(lock)
