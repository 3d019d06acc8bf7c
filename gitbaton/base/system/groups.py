"""Children of ours by word and process: when one began, whether anything of it still runs, and how to end it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress

from gitbaton.base.system.files import closing_fd, memory_file
from gitbaton.base.system.process import spawn
from gitbaton.base.values import value

VARIABLE = "GIT_BATON_GROUP"  # in a child's environment: its word, after those of the children that it is part of
_BOOT = "/proc/sys/kernel/random/boot_id"
_UNKILLABLE = 5.0  # seconds that a process may take to die of SIGKILL
_PAUSE = 0.02


def marked(env: Mapping[str, str], word: str) -> dict[str, str]:
    """Return an environment with a child's word after those of the children that it is part of."""
    return {**env, VARIABLE: " ".join((*env.get(VARIABLE, "").split(), word))}


def boot() -> str:
    """Return the id of this boot of the machine; empty where the kernel does not say."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def mark(pid: int) -> str | None:
    """Return the start mark of a process, by which a reused process id is noticed; None when it does not run."""
    found = _found(pid)
    return found.mark if found is not None and not found.zombie else None


def is_stopped(pid: int, mark: str) -> bool:
    """Whether a process is stopped (SIGSTOP, Ctrl-Z, a debugger): it continues only on SIGCONT."""
    found = _found(pid)
    return found is not None and found.mark == mark and found.stopped


def _found(pid: int) -> _Process | None:
    """Return the process with an id, a zombie, too; None where there is none."""
    return _look(pid) if _linux() else _listed(pid).get(pid)


@value
class ChildProcess:
    """A command that was started, or is to be: the word in its environment, and, once it is known, its process (which heads a
    session and a process group) and that process's start mark. The word finds what came of it also where it left its session,
    the process also what changed its environment."""

    word: str
    pid: int = 0
    mark: str = ""

    @classmethod
    def of(cls, word: str, pid: int) -> ChildProcess:
        """Return the child that runs as a process now, or has just ended."""
        found = _found(pid)
        return cls(word=word, pid=pid, mark=found.mark if found is not None else "")

    def alive(self) -> bool:
        """Whether the command, its session, or a process that left that, still runs."""
        return bool(self.members())

    def members(self) -> dict[int, str]:
        """Return the running processes of it with their start marks: itself, its session, their children, and processes that
        have the word in their environment."""
        table = _table()
        head = table.get(self.pid)
        # The kernel gives no number to a process that is still that of a session or group; so the head, also a dead one that
        # nobody has waited for, tells whose it is. Without a head only the environment does.
        ours = head is not None and head.mark == self.mark
        since = _ticks(self.mark)
        found = {p.pid for p in table.values() if _ticks(p.mark) >= since and _says(p.pid, self.word)}
        if ours or (self.pid and head is None and any(self.pid in table[pid].heads for pid in found)):
            found |= {p.pid for p in table.values() if self.pid in p.heads}
        below: dict[int, list[int]] = {}
        for p in table.values():
            below.setdefault(p.parent, []).append(p.pid)
        stack = list(found)
        while stack:
            for pid in below.get(stack.pop(), ()):
                if pid not in found:
                    found.add(pid)
                    stack.append(pid)
        return {pid: table[pid].mark for pid in found if not table[pid].zombie}


def end(child: ChildProcess, grace: float) -> bool:
    """End a child and all that came of it: SIGTERM, after ``grace`` seconds SIGKILL; whether nothing of it runs any more. A
    process that has been given the same number since is left alone. Nothing is done, and the answer is False, when this very
    process came of it."""
    ending = ChildEnding(child, grace)
    while not ending.done():
        time.sleep(_PAUSE)
    return not ending.left


class ChildEnding:
    """The end of a child, step by step, for a caller that does something else meanwhile. ``left``: what still runs."""

    def __init__(self, child: ChildProcess, grace: float) -> None:
        self._child = child
        self._kill_at = time.monotonic() + grace
        self.left = child.members()
        self._ours = os.getpid() in self.left
        self._send(signal.SIGTERM)

    def done(self) -> bool:
        """Whether the end is reached; to be called every now and then until then."""
        now = time.monotonic()
        if self._ours or not self.left:
            return True
        late = now >= self._kill_at
        running = _still(self.left)
        if running and not late:
            self.left = running
            return False
        # What has ended may have left others behind.
        self.left = self._child.members()
        self._send(signal.SIGKILL if late else signal.SIGTERM)
        return not self.left or now >= self._kill_at + _UNKILLABLE

    def _send(self, number: signal.Signals) -> None:
        if self._ours:
            return
        for pid in _still(self.left):
            for each in (number, signal.SIGCONT):  # a stopped process heeds SIGTERM only when it goes on
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, each)


class _Process:
    """A running process. ``heads``: the first of its group and that of its session."""

    __slots__ = ("heads", "mark", "parent", "pid", "stopped", "zombie")

    def __init__(self, pid: int, parent: int, heads: tuple[int, ...], state: str, mark: str) -> None:
        self.pid, self.parent, self.heads, self.mark = pid, parent, heads, mark
        self.zombie, self.stopped = state[:1] in ("Z", "X"), state[:1] in ("T", "t")


def _ticks(mark: str) -> int:
    """Return the start time of a mark, in ticks of the kernel; its children began no earlier. 0 where it cannot be told."""
    number = mark.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _still(known: dict[int, str]) -> dict[int, str]:
    """Return those of some processes that still run."""
    if not known:
        return {}
    table = {pid: _look(pid) for pid in known} if _linux() else _listed()
    running = {pid: found for pid in known if (found := table.get(pid)) is not None and not found.zombie}
    return {pid: found.mark for pid, found in running.items() if found.mark == known[pid]}


def _linux() -> bool:
    return os.path.exists("/proc/self/stat")


def _table() -> dict[int, _Process]:
    if not _linux():
        return _listed()
    numbers = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]
    return {pid: found for pid in numbers if (found := _look(pid)) is not None}


def _look(pid: int) -> _Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 20:
        return None
    if not _boots:
        _boots.append(boot())
    heads = (int(fields[2]), int(fields[3]))
    return _Process(pid, int(fields[1]), heads, fields[0].decode(), f"{int(fields[19])}.{_boots[0][:8]}")


_boots: list[str] = []  # this boot's, once it was asked for


def _says(pid: int, word: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            given = file.read()
    except OSError:
        return False
    wanted = word.encode()
    if wanted not in given:
        return False
    prefix = VARIABLE.encode() + b"="
    return any(v.startswith(prefix) and wanted in v[len(prefix) :].split() for v in given.split(b"\0"))


def _listed(pid: int | None = None) -> dict[int, _Process]:
    """The processes as ``ps`` lists them."""
    which = ["-ax"] if pid is None else ["-p", str(pid)]
    with closing_fd(memory_file()) as out, closing_fd(os.open(os.devnull, os.O_RDWR)) as null:
        words = ["ps", *which, "-o", "pid=,ppid=,pgid=,stat=,lstart="]
        os.waitpid(spawn(words, {**os.environ, "LC_ALL": "C", "TZ": "UTC"}, null, out, null), 0)
        text = os.pread(out, os.lseek(out, 0, os.SEEK_END), 0).decode("ascii", "replace")
    rows = (line.split(None, 4) for line in text.splitlines())
    return {int(r[0]): _Process(int(r[0]), int(r[1]), (int(r[2]),), r[3], "-".join(r[4].split())) for r in rows if len(r) == 5}
