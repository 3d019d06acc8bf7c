"""Locks of git's: the file ``NAME.lock`` that a process makes beside what it writes, and leaves behind when it is killed."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence

from gitbaton.base.codec import counted, in_quotes
from gitbaton.base.system.files import read_or_none
from gitbaton.git import questions
from gitbaton.git.repo import Repo

_CRASHED = "a git process may have crashed in this repository earlier: remove the file manually to continue"
_FILES = ("index", "HEAD", "config", "config.worktree", "packed-refs", "shallow")
_IN_THE_WAY = re.compile(r"Unable to create '(.+?\.lock)': File exists")
MARK = "gitbaton "  # what a lock of ours begins with; our process has it not open, and is no git
# Gits that look, or wait, for long, and write nothing that has such a lock.
_LOOKING = frozenset(("blame", "cat-file", "daemon", "diff", "fsmonitor--daemon", "grep", "log", "rev-list", "show"))
_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


def describe(path: str, found: str | None) -> tuple[str, str]:
    """Return what to say of a lock that does not go away, and the hint; git's own words, with its age and the process that
    was ``found`` to hold it, as ``holder`` returns it."""
    old = _age(path)
    if found:
        return f"{in_quotes(path)} is held by {found}", "wait until that process has ended"
    if found is None:
        return (
            f"{in_quotes(path)} is {old} old",
            f"another git process seems to be running in this repository; if none is, {_CRASHED}",
        )
    return f"{in_quotes(path)} is {old} old, and no process here holds it", _CRASHED


def why_held(said: str) -> list[str]:
    """Return, as a hint, what is known of the lock that git's words say is in the way; none where they say something else."""
    path = _IN_THE_WAY.search(said)
    return ["; ".join(describe(path[1], holder(path[1])))] if path is not None else []


def stale(repo: Repo, older: float) -> Iterator[tuple[str, str, str]]:
    """Yield the locks of git's own files that are older than so many seconds and that no process is seen to hold, each with
    its words and the hint."""
    common = repo.layout.common_dir
    folders = dict.fromkeys([common, *(git_dir for _, git_dir, _ in questions.worktrees(repo))])
    paths = [os.path.join(folder, name + ".lock") for folder in folders for name in _FILES]
    places = [os.path.join(common, "refs"), *(os.path.join(folder, "reftable") for folder in folders)]
    for folder, _, names in (found for place in places for found in os.walk(place)):
        paths += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".lock")]
    for path in paths:
        try:
            old = time.time() - os.lstat(path).st_mtime > older
        except OSError:
            continue
        if old and not (found := holder(path)):
            yield path, *describe(path, found)


def holder(path: str) -> str | None:
    """Return the process that holds a lock: it has the file open, is named in it, or is a git at work here from before it
    was made. Empty: there is none; None: that cannot be seen."""
    try:
        made, real, ours = os.lstat(path).st_mtime, os.path.realpath(path), _marked(path)
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
        with open("/proc/stat", encoding="ascii", errors="replace") as file:
            booted = next(float(line.split()[1]) for line in file if line.startswith("btime "))
    except (OSError, StopIteration):
        return None
    found, doubt, top = "", False, os.path.dirname(real)
    places = tuple(os.path.join(place, "") for place in (top.partition("/.git/")[0].removesuffix("/.git"), top))
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = os.fsdecode(file.read()).split("\0")[:-1]
        except OSError:
            continue
        git = os.path.basename(command[0]).startswith("git") and _verb(command) not in _LOOKING if command else False
        # Not ours, the git that we are a subcommand of, what we began, or what is younger than the lock. One above these may
        # be a 'git commit' whose hook has begun us.
        if (
            pid in (os.getpid(), os.getppid())
            or int(fields[1]) == os.getpid()
            or booted + int(fields[19]) / os.sysconf("SC_CLK_TCK") > made + 1
        ):
            continue
        if pid == ours:
            return _process(pid, command)
        try:
            opened = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
            here = git and os.path.join(os.readlink(f"/proc/{pid}/cwd"), "").startswith(places)
        except PermissionError:
            doubt = doubt or git
            continue
        except OSError:  # it has just ended
            continue
        if real in opened or here:
            found = _process(pid, command)
    return found or (None if doubt else "")


def _verb(command: Sequence[str]) -> str:
    """Return the command of a git process; empty where that cannot be told."""
    words = iter(command[1:])
    for word in words:
        if word in ("-C", "-c"):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return ""


def _process(pid: int, command: Sequence[str]) -> str:
    return f"process {pid} ({in_quotes(' '.join(command[:4]))})"


def _marked(path: str) -> int | None:
    """Return the process of gitbaton's that a lock of ours names."""
    text = (read_or_none(path, 200) or b"").decode("ascii", "replace")
    number = text.removeprefix(MARK).split()[:1] if text.startswith(MARK) else []
    return int(number[0]) if number and number[0].isdecimal() else None


def _age(path: str) -> str:
    try:
        seconds = int(max(0.0, time.time() - os.lstat(path).st_mtime))
    except OSError:
        seconds = 0
    size, unit = next((row for row in _UNITS if seconds >= row[0]), _UNITS[-1])
    return counted(seconds // size, unit)
