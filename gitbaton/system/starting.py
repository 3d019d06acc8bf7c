"""Child start-up and output: streams, environment, a gate that holds the child until its parent is ready."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import signal
import stat
from collections.abc import Callable, Mapping, Sequence

from gitbaton.errors import GitError
from gitbaton.system import groups, ptys
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Stdin = Literal["inherit", "null"]
else:
    Stdin = str

_GATE, _LOCKS = 3, 20
# Nobody writes to the gate when who holds it has died. A shell changes what it remembers of folders; $2 is what was there.
_SHELL = f"""
read -r word <&{_GATE} || exit 125
exec {_GATE}<&-
{groups.VARIABLE}=$word
export {groups.VARIABLE}
cd -- "$1" || exit 126
if test -n "$2"; then OLDPWD=$2; else unset OLDPWD; fi
shift 2
unset word
exec "$@"
"""
# What a shell takes for its own, or drops because it is no name of a variable.
_TAKEN = ("IFS", "OPTIND", "PPID", "SHELLOPTS", "BASHOPTS", "UID", "EUID", "word")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
KEPT = 1 << 20  # bytes at the end of a stream that are kept
_READ = 1 << 18
_SAFE = 4096  # what a pipe or terminal that can be written to takes without blocking


@value
class Command:
    """A command: its words, the folder (absolute) it begins in, its whole environment. ``timeout`` and ``grace`` in seconds:
    SIGTERM after the one, SIGKILL after the other. ``show``: pass its output on to ours as it comes. ``stdin``: ours or none.
    It sees besides PWD, and GIT_BATON_GROUP, by which its descendants are found."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    timeout: float | None = None
    grace: float = 10.0
    show: bool = True
    stdin: Stdin = "null"


class Begun:
    """A child at the gate: ``pid`` is also its process group, ``mark`` when it began; ``streams`` its output; ``ptys`` as in a
    Group of gitbaton.system.children; ``inside`` the names of the groups that it belongs to already."""

    def __init__(
        self, pid: int, mark: str, gate: int, streams: tuple[Stream, ...], ptys: list[tuple[int, int]], inside: str
    ) -> None:
        self.pid, self.mark, self.streams, self.ptys = pid, mark, streams, ptys
        self._gate: int | None = gate
        self._inside = inside.split()
        self.pidfd = _pidfd(pid)
        self._reaped = False

    def go(self) -> None:
        """Let it begin."""
        if self._gate is not None:
            try:
                os.write(self._gate, os.fsencode(" ".join((*self._inside, groups.name(self.pid, self.mark)))) + b"\n")
            except OSError:  # somebody ended it at the gate
                pass
            self.never()

    def never(self) -> None:
        """Close the gate: who has not been let go ends."""
        if self._gate is not None:
            os.close(self._gate)
            self._gate = None

    def look(self) -> tuple[str, int]:
        """``ended`` and the wait status, ``stopped`` and the signal, or ``runs``. One that has ended keeps its number until
        ``reap``, where the system can do that."""
        try:
            if not hasattr(os, "waitid"):
                pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED)
                self._reaped = pid != 0 and not os.WIFSTOPPED(status)
                return ("runs", 0) if not pid else ("ended", status) if self._reaped else ("stopped", os.WSTOPSIG(status))
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return "runs", 0
            if found.si_code == os.CLD_STOPPED:
                os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG)
                return "stopped", found.si_status
            return "ended", found.si_status << 8 if found.si_code == os.CLD_EXITED else found.si_status
        except ChildProcessError:
            self._reaped = True
            return "ended", 255 << 8

    def reap(self) -> None:
        """Wait for it, and give its number back."""
        if not self._reaped:
            self._reaped = True
            try:
                os.waitpid(self.pid, 0)
            except ChildProcessError:
                pass

    def close(self) -> None:
        """Close what is ours of it."""
        self.never()
        if self.pidfd is not None:
            os.close(self.pidfd)
        for stream in self.streams:
            stream.close()
            if stream.sink is not None:
                stream.sink.close()


def begin(command: Command, locks: Sequence[int], output: Callable[[int, bytes], None] | None) -> Begun:
    """Start a shell that waits at the gate and then becomes the command. Raises GitError."""
    if not command.argv:
        raise GitError("there is no command to start")
    argv, env = _words(command)
    theirs: list[int] = []
    ours: list[int] = []
    ends: list[tuple[int, int]] = []
    try:
        for number in (1, 2):
            pty = ptys.open_like(number) if command.show else None
            mine, other = pty or os.pipe()
            ours.append(mine)
            theirs.append(other)
            ends += [(mine, number)] if pty else []
        reader, gate = os.pipe()
        theirs.append(reader)
        ours.append(gate)
        source = 0 if command.stdin == "inherit" and _open(0) else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        theirs += [source] if source else []
        targets = {0: source, 1: theirs[0], 2: theirs[1], _GATE: reader}
        targets |= {_LOCKS + place: fd for place, fd in enumerate(locks)}
        pid = _spawn(argv, env, targets)
    except BaseException as error:
        for fd in ours:
            os.close(fd)
        if isinstance(error, OSError):
            raise GitError(f"'{command.argv[0]}' cannot be started: {error.strerror}") from None
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    streams = tuple(Stream(n, fd, Sink(n) if command.show else None, output) for n, fd in zip((1, 2), ours, strict=False))
    return Begun(pid, groups.mark(pid) or "", ours[2], streams, ends, env.get(groups.VARIABLE, ""))


def _words(command: Command) -> tuple[list[str], dict[str, str]]:
    """The words of the gate's shell, and the environment to start it with."""
    env = dict(command.env)
    odd = [name for name in env if name in _TAKEN or not _NAME.match(name)]
    words = list(command.argv)
    if odd or words[0].startswith("-"):
        kept = [f"{name}={env.pop(name)}" for name in odd]
        if "=" not in words[0]:
            words = ["env", *(["--"] if not kept else []), *kept, *words]
    return ["sh", "-c", _SHELL, "sh", command.cwd, env.get("OLDPWD", ""), *words], env


def _spawn(argv: list[str], env: Mapping[str, str], targets: Mapping[int, int]) -> int:
    copies = {target: fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for target, fd in targets.items()}
    actions: list[tuple[int, int] | tuple[int, int, int]] = [(os.POSIX_SPAWN_CLOSE, fd) for fd in _inherited()]
    actions += [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in copies.items()]
    own = [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU]  # what Python itself, and who passes signals on, switch off
    try:
        return os.posix_spawn("/bin/sh", argv, env, file_actions=actions, setpgroup=0, setsigdef=own)
    except (OSError, ValueError) as error:
        raise GitError(f"'{argv[6]}' cannot be started: {error}") from None
    finally:
        for fd in copies.values():
            os.close(fd)


def _inherited() -> list[int]:
    """Descriptors of ours that a program which we start would inherit, beside the standard streams."""
    found = []
    for entry in os.listdir("/dev/fd"):
        try:
            if int(entry) > 2 and not fcntl.fcntl(int(entry), fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                found.append(int(entry))
        except OSError:
            continue
    return found


def _open(fd: int) -> bool:
    try:
        os.fstat(fd)
        return True
    except OSError:
        return False


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:
        return None


class Sink:
    """One of our own streams. ``lost``: nobody reads it any more, or it cannot be written; then all is swallowed. ``fault``:
    why it cannot be written."""

    def __init__(self, fd: int) -> None:
        self.fd, self.lost, self.fault = fd, False, ""
        self._own = False
        self._most = _SAFE
        try:
            mode = os.fstat(fd).st_mode
        except OSError:  # whoever started us has closed it
            self.lost = True
            return
        if stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not ptys.is_terminal(fd)):
            self._most = _READ
        elif stat.S_ISFIFO(mode):
            # A description of our own may be non-blocking; that of the descriptor belongs to others, too.
            try:
                self.fd = os.open(f"/proc/self/fd/{self.fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return
            self._own, self._most = True, _READ

    def write(self, data: memoryview) -> int:
        """Write what can be written without waiting; how many bytes that were."""
        if self.lost:
            return len(data)
        try:
            if self._most == _SAFE and not _writable(self.fd):
                return 0
            return os.write(self.fd, data[: self._most])
        except BlockingIOError:
            return 0
        except OSError as error:
            self.lost = True
            self.fault = "" if error.errno == errno.EPIPE else error.strerror or str(error)
            return len(data)

    def close(self) -> None:
        """Close what was opened for it."""
        if self._own:
            os.close(self.fd)


class Stream:
    """One stream of a child: ``source``, our end of it; ``kept``, the last bytes, of ``count`` in all; ``pending``, what is
    read and not yet passed on."""

    def __init__(self, number: int, source: int, sink: Sink | None, output: Callable[[int, bytes], None] | None) -> None:
        self.number, self.source, self.sink = number, source, sink
        self._output = output
        self._kept = bytearray()
        self.count = 0
        self.open = True
        self.pending = memoryview(b"")
        self.owed: int | None = None

    def events(self) -> tuple[int, int] | None:
        """The descriptor to wait for, and what for."""
        if len(self.pending) and self.sink is not None:
            return self.sink.fd, select.POLLOUT
        return (self.source, select.POLLIN) if self.open else None

    def move(self) -> bool:
        """Pass on what is pending, else read what is there and pass that on; whether anything moved. Not to be called when
        nothing is there, or it waits."""
        if len(self.pending):
            return self._pass()
        try:
            data = os.read(self.source, _READ)
        except OSError:  # EIO: nobody holds the other end of the pseudo-terminal
            data = b""
        if not data:
            self.open = False
            return False
        self._keep(data)
        if self._output is not None:
            self._output(self.number, data)
        if self.sink is not None:
            self.pending = memoryview(data)
            self._pass()
        return True

    def _pass(self) -> bool:
        sent = self.sink.write(self.pending) if self.sink is not None else len(self.pending)
        self.pending = self.pending[sent:]
        return sent > 0

    def _keep(self, data: bytes) -> None:
        self.count += len(data)
        if self.owed is not None:
            self.owed -= len(data)
        self._kept += data[-KEPT:]
        if len(self._kept) > 4 * KEPT:
            del self._kept[:-KEPT]

    def owe(self) -> None:
        """The child has ended: what is there now is still its own and to be read."""
        self.owed = ptys.waiting(self.source)

    def give_up(self) -> None:
        """Pass nothing on any more, if that has to be waited for."""
        if len(self.pending) and self.sink is not None:
            self.sink.lost = True
            self.pending = memoryview(b"")

    def settled(self) -> bool:
        """Whether all that the child itself wrote has been read and passed on."""
        return not len(self.pending) and (not self.open or (self.owed is not None and self.owed <= 0))

    @property
    def kept(self) -> bytes:
        """The end of what came."""
        return bytes(self._kept[-KEPT:])

    def close(self) -> None:
        """Close our end."""
        os.close(self.source)


def _writable(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))
