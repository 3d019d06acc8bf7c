"""Pause: the hooks of a repository are silent for a while; the file ``<common dir>/baton/paused`` says until when."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime

from gitbaton.git.repo import Repo, put
from gitbaton.system.files import read_regular, remove
from gitbaton.values import value

_FORMAT = re.compile(rb"gitbaton paused 1\nuntil (-|[0-9]{1,12})\nsince ([0-9]{1,12})\n")  # hook scripts read its second line


@value
class Pause:
    """Since when hooks are silent, and until when; None: until somebody ends it."""

    since: datetime
    until: datetime | None


def paused(repo: Repo, now: datetime) -> Pause | None:
    """The pause of a repository that goes on at a moment; None where its hooks act. A file that cannot be read silences
    nothing. Never raises."""
    try:
        found = _FORMAT.fullmatch(read_regular(_path(repo), 1 << 10))
    except OSError:
        return None
    if found is None:
        return None
    until = None if found[1] == b"-" else _moment(found[1])
    return Pause(since=_moment(found[2]), until=until) if until is None or until > now else None


def pause(repo: Repo, now: datetime, until: datetime | None) -> Pause:
    """Silence the hooks of a repository from now on, in all its work trees; a pause before this one ends. Raises OSError."""
    ends = "-" if until is None else int(until.timestamp())
    put(repo, _path(repo), f"gitbaton paused 1\nuntil {ends}\nsince {int(now.timestamp())}\n".encode())
    return Pause(since=now, until=until)


def end(repo: Repo, now: datetime) -> Pause | None:
    """Let the hooks act again; the pause that ended, None where there was none. Raises OSError."""
    before = paused(repo, now)
    remove(_path(repo))
    return before


def told(pause: Pause) -> str:
    """A pause in words; its end as a local time."""
    until = "until somebody ends it" if pause.until is None else f"until {pause.until.astimezone():%Y-%m-%d %H:%M}"
    return f"the hooks of this repository are silent {until}"


def _path(repo: Repo) -> str:
    return os.path.join(repo.shared_dir, "paused")


def _moment(seconds: bytes) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)
