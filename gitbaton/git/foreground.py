"""Foreground git: the user's own command, with the user's terminal, environment, settings and pager."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from gitbaton.git.repo import Repo
from gitbaton.git.run import BORROWED, LOCAL_ENV, borrowing
from gitbaton.system.process import spawn

# What says which repository is meant, where its parts are not at their usual places.
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", BORROWED)


def environment(repo: Repo, *, elsewhere: bool) -> dict[str, str]:
    """The user's environment for a command on ``repo``; ``elsewhere``: not the repository of the current directory."""
    if not elsewhere:
        return dict(os.environ)
    places = {name: repo.git.env[name] for name in _PLACES if name in repo.git.env}
    return {k: v for k, v in os.environ.items() if k not in LOCAL_ENV} | places


def with_objects(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment in which git also finds the objects that lie in ``folder``."""
    return {**env, **borrowing(env, folder)}


def run(words: Sequence[str], env: Mapping[str, str]) -> int:
    """Run ``git`` with the streams of this process and wait for it; its exit status, 128+N where signal N ended it.

    Ctrl-C is git's to answer: its pager may still hold the terminal. Raises GitError when it cannot be started.
    """
    pid = spawn(["git", *words], env, 0, 1, 2)
    while True:
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        except KeyboardInterrupt:
            continue
        return code if code >= 0 else 128 - code
