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

    Nothing is pruned: objects that nothing refers to are packed, too. Not with ``gc.auto=0``, nor while one is at work, nor
    where objects go somewhere else. Never raises.
    """
    if "GIT_OBJECT_DIRECTORY" in repo.git.env:
        return False
    try:
        if len(os.listdir(os.path.join(repo.layout.common_dir, "objects", _SAMPLE))) * 256 <= MANY:
            return False
        if repo.git.run("config", "--type=int", "gc.auto").out.strip() == b"0":
            return False
        return _start(repo)
    except (OSError, GitError):
        return False


def _start(repo: Repo) -> bool:
    lock = os.open(os.path.join(repo.shared_dir, "repacking"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        argv = repo.git.argv("repack", "-q", "-d", "-l", "--geometric=2")
        spawn(argv, repo.git.env, null, null, null, {lock: _HELD}, detached=True)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(null)
        os.close(lock)
