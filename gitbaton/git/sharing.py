"""The modes that core.sharedRepository asks for, for files and folders that git does not make itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from gitbaton.git.run import Git

_GROUP, _ALL = 0o660, 0o664
_SHARED = {"true": _GROUP, "group": _GROUP, "1": _GROUP, "yes": _GROUP, "on": _GROUP}
_SHARED.update(dict.fromkeys(("all", "world", "everybody", "2"), _ALL))


def mode_of(said: str) -> int:
    """What a value of core.sharedRepository adds to modes; below zero the mode that it asks for instead; 0 for nothing."""
    said = said.strip().lower()
    if len(said) > 1 and said.startswith("0") and said.isdigit():
        try:
            return -(int(said, 8) & 0o666)
        except ValueError:
            return 0
    return _SHARED.get(said, 0)


def share(path: str | int, mode: int) -> None:
    """Give a file or folder, or what a descriptor is of, that was just made the mode that ``mode_of`` says, as git does. Never
    raises: it may be another user's."""
    if not mode:
        return
    with suppress(OSError):
        found = os.stat(path)
        own = stat.S_IMODE(found.st_mode)
        wanted = abs(mode) if own & 0o200 else abs(mode) & ~0o222
        new = own & ~0o777 | wanted if mode < 0 else own | wanted
        if stat.S_ISDIR(found.st_mode):
            new |= (new & 0o444) >> 2
            new |= stat.S_ISGID if new & 0o060 else 0
        elif own & 0o100:
            new |= (new & 0o444) >> 2
        if new != own:
            os.chmod(path, new)


def sharer(git: Git) -> Callable[[str | int], None]:
    """``share`` for a repository, which is asked once: when the first file is made."""

    @cache
    def mode() -> int:
        return mode_of(git.run("config", "--get", "core.sharedrepository").out.decode("utf-8", "replace"))

    return lambda made: share(made, mode())
