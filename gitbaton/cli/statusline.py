"""Status line: what a client tells on standard input, and the line that was shown last, kept while nothing it says has changed.

A line that is kept costs little more than Python's start, so this module imports little and asks no git.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import cache

from gitbaton.base import terminal
from gitbaton.git import places

NEAR = 75.0  # percent of the context, from where on a compaction is near
LASTING = 60.0  # seconds for which a line is kept at most: it holds an age, and settings that are not looked at
_HEADER = b"gitbaton statusline 1"
_FRESH, _COARSE = 0.05, 2.0  # seconds within which a file may change twice without another time, here and on coarse clocks
_PATIENCE = (0.05, 2.0)  # seconds for the first bytes from a pipe: of anybody, and of a client, which writes them
_CLIENTS = ("CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID", "COPILOT_CLI")
_ELSEWHERE = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY")
_MOST = 1 << 20  # bytes of standard input, and of a kept line
# What a line depends on beside files and the command line.
_ABOUT = ("COLUMNS", "NO_COLOR", "TERM", "LC_ALL", "LC_CTYPE", "LANG", "GIT_BATON_TRACK", "PYTHONUTF8")


class StatusInput:
    """Input of a status line, as a client writes it: the folder that its user is in (None: it names none), how full the context
    is, in percent (0.0: it does not say), and whether it is a client's."""

    def __init__(self, fields: dict[str, object]) -> None:
        workspace, window = (fields.get(name) for name in ("workspace", "context_window"))
        inner = workspace if isinstance(workspace, dict) else {}
        named = (inner.get("current_dir"), fields.get("cwd"), inner.get("project_dir"))
        self.place = next(
            (word for word in named if isinstance(word, str) and os.path.isabs(word) and os.path.isdir(word)), None
        )
        known = window if isinstance(window, dict) else {}
        # Copilot counts in the other one what all requests came to.
        used = (known.get(name) for name in ("current_context_used_percentage", "used_percentage"))
        self.full = next((min(float(number), 100.0) for number in used if isinstance(number, int | float)), 0.0)
        self.client = bool(fields)


class StatusLine:
    """One call: what its command line and standard input say, and the line that is kept for it."""

    def __init__(self, words: Sequence[str]) -> None:
        self.told = StatusInput(_fields(_input()))
        self.near = self.told.full >= NEAR
        columns = os.get_terminal_size(1).columns if os.isatty(1) else None
        about = (list(words), [os.environ.get(name) for name in _ABOUT], columns, self.near, self.told.client)
        self._key = ascii(about).encode("ascii")

    def again(self) -> bytes | None:
        """Return the line that was shown last, where it still holds; empty where there is nothing to show; None where that
        must be looked at. Raises OSError, ValueError."""
        if self.told.place is None and any(name in os.environ for name in _ELSEWHERE):
            return None
        found = places.found_at(self.told.place or os.getcwd())
        if found is None or not _used(found[1]):
            return b""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(os.path.join(found[0], "baton", places.STATUS_LINE), flags)
        with open(fd, "rb") as file:
            own = os.fstat(fd).st_uid == os.geteuid()
            *about, until, state, paths, line = file.read(_MOST).split(b"\0\0")
        now = time.time()
        if not own or about != self._about(found[0]) or not now < float(until) <= now + LASTING or not _is_harmless(line):
            return None
        return line if places.looks(map(os.fsdecode, paths.split(b"\0")))[0].encode() == state else None

    def kept(self, git_dir: str, paths: Sequence[str], state: tuple[str, int], seconds: float, line: bytes) -> bytes | None:
        """Return the bytes that keep a line for so many seconds at most, while ``paths`` are in this state; None where one of
        them has changed so lately that the next change might not be seen."""
        now, changed = time.time(), state[1] / 1e9
        if now - changed < (_COARSE if state[1] % 1_000_000_000 == 0 else _FRESH):
            return None
        until, listed = str(now + min(seconds, LASTING)).encode(), b"\0".join(map(os.fsencode, paths))
        return b"\0\0".join((*self._about(git_dir), until, state[0].encode(), listed, line))

    def _about(self, git_dir: str) -> list[bytes]:
        return [_HEADER, self._key, os.fsencode(os.path.realpath(git_dir))]


@cache
def asked() -> StatusLine:
    """Return what this process is asked; standard input is read once."""
    return StatusLine(sys.argv[1:])


def shown_again() -> bool:
    """Whether the line that was shown last still holds, and is shown, or there is nothing to show. Never raises."""
    try:
        line = asked().again()
    except (OSError, ValueError):
        return False
    if line is None:
        return False
    terminal.emit(line)
    return True


def _is_harmless(line: bytes) -> bool:
    """Whether a line is whole, and drives a terminal to nothing but colours."""
    first, *rest = line.decode("utf-8").replace("\n", "").replace("\u200d", "").split("\x1b[")
    parts = [part.partition("m") for part in rest]
    return (
        line.endswith(b"\n")
        and first.isprintable()
        and all(not code.strip("0123456789;") and text.isprintable() for code, _, text in parts)
    )


def _used(common_dir: str) -> bool:
    """Whether gitbaton was used in a repository, or a track was brought to it; also where only git can say."""
    if any(os.path.lexists(os.path.join(common_dir, *names)) for names in (("baton",), ("refs", "baton"), ("reftable",))):
        return True
    try:
        with open(os.path.join(common_dir, "packed-refs"), "rb") as file:
            return b" refs/baton/" in file.read()
    except OSError:
        return False


def _input() -> bytes:
    """Read standard input where a client writes it, without a wait for anything else, or for the end of what is whole."""
    import select
    import stat

    try:
        kind = os.fstat(0).st_mode
    except OSError:
        return b""
    if stat.S_ISCHR(kind):  # a terminal, or /dev/null
        return b""
    waits = not stat.S_ISREG(kind)
    until = time.monotonic() + _PATIENCE[any(name in os.environ for name in _CLIENTS)]
    found = b""
    while len(found) < _MOST:
        if waits and not select.select([0], [], [], max(until - time.monotonic(), 0))[0]:
            break
        part = os.read(0, 1 << 16)
        found += part
        if not part or (found.rstrip()[-1:] == b"}" and _fields(found)):
            break
    return found


def _fields(data: bytes) -> dict[str, object]:
    """Return the object that standard input holds; an empty one for anything else."""
    if not data.strip():
        return {}
    import json

    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
