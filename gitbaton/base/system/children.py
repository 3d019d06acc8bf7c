"""User commands: each a subprocess in a session of its own; output is passed on and kept, time limited, signals relayed."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import stat
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from gitbaton.base.errors import GitError
from gitbaton.base.system.groups import ChildEnding, ChildProcess, end, marked
from gitbaton.base.values import TYPE_CHECKING, value

if TYPE_CHECKING:
    import subprocess
    from types import FrameType
    from typing import Any

    Handler = Callable[[int, FrameType | None], Any] | int

_TICK = 0.5
_SOON = 0.02  # how often what is being ended is looked at
_BLIND = 0.01  # how often the end of a child is looked for where the kernel does not tell
_AFTER = 0.25  # seconds for which output is waited for after the command itself has ended
_LOCKS = 20  # the first number of an inherited lock: a jobserver of make may have 3 and 4
_KEPT = 1 << 20  # bytes at the end of a stream that are kept
_READ = 1 << 18
_SAFE = 4096  # what a pipe or terminal that can be written to takes without blocking
_MISSING = (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOEXEC)
# What cannot be executed is left to a shell: it says why, gives 126 or 127, and runs a script without a first line.
_SHELL = 'cd -- "$1" || exit 126; shift; case $1 in -*) set -- env -- "$@";; esac; exec "$@"'
SAME = 0.25  # git passes a Ctrl-C on to us that we have got from the terminal, too
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@value
class UserCommand:
    """A command: its words, the folder (absolute) it begins in, its whole environment. ``timeout`` and ``grace`` in seconds:
    SIGTERM after the one, SIGKILL after the other. ``show``: pass its output on to ours as it comes; where ours is a terminal,
    it writes to one of the same size. It reads nothing, and no terminal controls it. It sees besides PWD, and
    GIT_BATON_GROUP, by which its descendants are found."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    timeout: float | None = None
    grace: float = 10.0
    show: bool = True


@value
class CommandResult:
    """Result of a command. ``exit`` as a shell gives it: 128 and the signal's number when one ended it, 127 when there is no
    such program, 126 when it cannot be executed. ``signal``: that signal's name. ``timeout``: its time was over.
    ``interrupted``: it, or this process, was asked to end. ``out`` and ``err``: the last mebibyte of ``out_bytes`` and
    ``err_bytes``. ``faults``: for people, which stream of ours could not be written, but for a reader that went away.
    ``asked``: the first signal by which it was asked to end, 0 for none."""

    exit: int
    signal: str | None
    timeout: bool
    interrupted: bool
    duration_ms: int
    out: bytes
    out_bytes: int
    err: bytes
    err_bytes: int
    faults: tuple[str, ...] = ()
    asked: int = 0


def run(
    command: UserCommand,
    *,
    started: Callable[[ChildProcess], None],
    tick: Callable[[float], None] | None = None,
    output: Callable[[int, bytes], None] | None = None,
    locks: Sequence[int] = (),
    begun: Callable[[], None] | None = None,
) -> CommandResult:
    """Run a command to its end. ``started`` is called twice: before the command begins, with the word in its environment, so
    that it can be found from the start, and with its process, when that is known. Where the first call raises, the command
    never begins; ``begun`` is called when it has.

    ``tick`` gets the seconds since the beginning after each half second without output; ``output`` gets the stream (1 or 2) and
    its bytes before they are passed on. The command inherits the descriptors ``locks`` and no other of ours. What it left
    running is ended when it failed, ran out of time or was interrupted, and left alone when it succeeded; an exception of a
    callback ends the command, too. Raises GitError when not even a shell can be started."""
    with signals():
        return _RunningCommand(command, tick).all(started, output, locks, begun)


class _RunningCommand:
    """One command under way. ``signals``: what was passed on to it and when; ``paused``: seconds for which all was stopped."""

    def __init__(self, command: UserCommand, tick: Callable[[float], None] | None) -> None:
        self.command, self.tick = command, tick
        self.child = ChildProcess(word=os.urandom(8).hex())
        self.process: subprocess.Popen[bytes] | None = None
        self.pidfd: int | None = None
        self.streams: tuple[_Stream, ...] = ()
        self.signals: list[tuple[int, float]] = []
        self.code: int | None = None
        self.timeout = False
        self.ending: ChildEnding | None = None
        self.began = self.told = time.monotonic()
        self.ended_at, self.paused, self.heeded = 0.0, 0.0, 0

    def all(
        self,
        started: Callable[[ChildProcess], None],
        output: Callable[[int, bytes], None] | None,
        locks: Sequence[int],
        begun: Callable[[], None] | None,
    ) -> CommandResult:
        started(self.child)
        _running.append(self)  # a signal that arrives while it is being started is kept for it
        try:
            self._start(output, locks)
            started(self.child)
            if begun is not None:
                begun()
            while not self._over():
                self._once()
            return self._told()
        finally:
            self._close()

    def _start(self, output: Callable[[int, bytes], None] | None, locks: Sequence[int]) -> None:
        ours: list[int] = []
        theirs: list[int] = []
        held = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _LOCKS) for fd in locks]
        try:
            for number in (1, 2):
                mine, other = (_terminal_like(number) if self.command.show else None) or os.pipe()
                ours.append(mine)
                theirs.append(other)
            self.process = _popen(self.command, self.child.word, theirs, held)
        except BaseException as error:
            for fd in ours:
                os.close(fd)
            if isinstance(error, (OSError, ValueError)):  # ValueError: a NUL in a word
                why = error.strerror if isinstance(error, OSError) else error
                raise GitError(f"'{''.join(self.command.argv[:1])}' cannot be started: {why}") from None
            raise
        finally:
            for fd in (*theirs, *held):
                os.close(fd)
        self.began = self.told = time.monotonic()
        self.streams = tuple(_Stream(n, fd, self.command.show, output) for n, fd in zip((1, 2), ours, strict=True))
        self.child = ChildProcess.of(self.child.word, self.process.pid)
        for number, _ in self.signals:
            self.send(number)
        with suppress(OSError, AttributeError):  # not every system has them
            self.pidfd = os.pidfd_open(self.process.pid)

    def send(self, number: int) -> None:
        """Send a signal to the command's process group; its number is its own until it has been waited for."""
        if self.process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def resize(self) -> None:
        """Give its terminals the size that ours have now."""
        for stream in self.streams:
            if stream.terminal:
                with suppress(termios.error):
                    termios.tcsetwinsize(stream.source, termios.tcgetwinsize(stream.number))
        if any(stream.terminal for stream in self.streams):
            self.send(signal.SIGWINCH)

    def _close(self) -> None:
        """End the command and close what is open, whatever happened."""
        if self.process is not None and self.code is None:
            end(self.child, self.command.grace)
        _running.remove(self)
        if self.process is not None:
            self.process.wait()
        if self.pidfd is not None:
            os.close(self.pidfd)
        for stream in self.streams:
            os.close(stream.source)

    def _once(self) -> None:
        """Wait until something happens, and do what is to be done about it."""
        import selectors

        with selectors.PollSelector() as poll:
            for stream in self.streams:
                if stream.pending:
                    poll.register(stream.number, selectors.EVENT_WRITE, stream)
                elif stream.open:
                    poll.register(stream.source, selectors.EVENT_READ, stream)
            if self.pidfd is not None and self.code is None:
                poll.register(self.pidfd, selectors.EVENT_READ)
            ready = poll.select(self._patience(time.monotonic()))
        now = time.monotonic()
        for key, _ in ready:
            if key.data is not None and key.data.move():
                self.told = now
        if self.code is None:
            self._look(now)
        if self.code is None:
            self._limits(now)
            if self.tick is not None and now - self.told >= _TICK:
                self.told = now
                self.tick(now - self.began)

    def _patience(self, now: float) -> float:
        """Seconds until there is something to do that nothing tells of."""
        if self.code is not None:
            return _SOON if self.ending is not None else max(0.0, min(0.05, self.ended_at + _AFTER - now))
        least = _SOON if self.ending is not None else 0.05 if self.signals else _TICK
        if self.tick is not None:
            least = min(least, self.told + _TICK - now)
        if self.command.timeout is not None and not self.timeout:
            least = min(least, self._deadline() - now)
        if self.pidfd is None:
            least = min(least, _BLIND)
        return max(0.0, least)

    def _deadline(self) -> float:
        return self.began + (self.command.timeout or 0.0) + self.paused

    def _look(self, now: float) -> None:
        """Notice that the command has ended."""
        self.code = self._exit()
        if self.code is None:
            return
        self.ended_at, self.heeded = now, len(self.signals)
        for stream in self.streams:
            stream.owe()
        if self.code or self.timeout or self.signals:
            self.ending = self.ending or ChildEnding(self.child, self.command.grace)

    def _exit(self) -> int | None:
        """The exit status, a signal's number negative; None while it runs. Where the system can do that it keeps its number
        until the end: what is left of its group is known by it."""
        assert self.process is not None
        if not hasattr(os, "waitid"):
            return self.process.poll()
        try:
            found = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # the program around us waits for all its children
            return 255
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def _limits(self, now: float) -> None:
        """End a command that is out of time, or does not heed signals."""
        if self.ending is None:
            self.timeout = self.command.timeout is not None and now >= self._deadline()
            told = self.signals
            if self.timeout or len(told) > 1 or (told and now >= told[0][1] + self.command.grace):
                self.ending = ChildEnding(self.child, self.command.grace)

    def _over(self) -> bool:
        ended = self.ending is None or self.ending.done()
        if self.code is None or not ended:
            return False
        if len(self.signals) > self.heeded:
            for stream in self.streams:  # somebody does not want to wait for the readers of our output
                stream.give_up()
        if all(not stream.open and not stream.pending for stream in self.streams):
            return True
        return time.monotonic() >= self.ended_at + _AFTER and all(stream.settled() for stream in self.streams)

    def _told(self) -> CommandResult:
        out, err = self.streams
        code = self.code or 0
        return CommandResult(
            exit=128 - code if code < 0 else code,
            signal=_name(-code) if code < 0 else None,
            timeout=self.timeout,
            interrupted=bool(self.signals),
            asked=self.signals[0][0] if self.signals else 0,
            duration_ms=int((self.ended_at - self.began) * 1000),
            out=bytes(out.kept[-_KEPT:]),
            out_bytes=out.count,
            err=bytes(err.kept[-_KEPT:]),
            err_bytes=err.count,
            faults=tuple(
                f"its {name} could not be written: {stream.fault}"
                for name, stream in zip(("output", "error output"), self.streams, strict=True)
                if stream.fault
            ),
        )


def _popen(command: UserCommand, word: str, streams: Sequence[int], locks: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; what cannot be executed, through a shell. Raises OSError and ValueError."""
    import subprocess

    if not command.argv:
        raise ValueError("there is no command")
    env = {**marked(command.env, word), "PWD": command.cwd}

    def start(argv: Sequence[str], cwd: str | None) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=streams[0],
            stderr=streams[1],
            pass_fds=locks,
            start_new_session=True,
        )

    try:
        return start(command.argv, command.cwd)
    except OSError as error:
        if error.errno not in _MISSING:
            raise
        return start(["/bin/sh", "-c", _SHELL, "sh", command.cwd, *command.argv], None)


def _terminal_like(fd: int) -> tuple[int, int] | None:
    """A pseudo-terminal with the size and the modes of ``fd``, except that bytes pass it as they are: our end, and the end for
    a child. None where ``fd`` is no terminal, or the system has no more of them."""
    ends: tuple[int, ...] = ()
    try:
        modes, size = termios.tcgetattr(fd), termios.tcgetwinsize(fd)
        ends = ours, theirs = os.openpty()
        modes[1] &= ~termios.OPOST  # the real terminal does what is to be done with line ends, and once
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        termios.tcsetwinsize(ours, size)
    except (OSError, termios.error):
        for end_ in ends:
            os.close(end_)
        return None
    return ours, theirs


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


class _Stream:
    """One stream of a child: ``source``, our end of it; ``kept``, at least the last mebibyte, of ``count`` bytes in all;
    ``pending``, what is read and not yet passed on to our own stream ``number``. ``lost``: that has no reader any more, or
    cannot be written; then all is swallowed. ``fault``: why it cannot be written."""

    def __init__(self, number: int, source: int, show: bool, output: Callable[[int, bytes], None] | None) -> None:
        self.number, self.source, self._output = number, source, output
        self.terminal = os.isatty(source)
        self.kept = bytearray()
        self.count = 0
        self.open, self.lost, self.fault = True, False, ""
        self.pending = memoryview(b"")
        self._owed: int | None = None
        self._show, self._most = show, _SAFE
        try:
            if stat.S_ISREG(os.fstat(number).st_mode):
                self._most = _READ
        except OSError:  # whoever started us has closed it
            self.lost = show

    def move(self) -> bool:
        """Pass on what is pending, else read what is there; whether anything moved. Not to be called when nothing is there, or
        it waits."""
        if self.pending:
            return self._pass()
        try:
            data = os.read(self.source, _READ)
        except OSError:  # EIO: nobody holds the other end of the pseudo-terminal
            data = b""
        if not data:
            self.open = False
            return False
        self.count += len(data)
        if self._owed is not None:
            self._owed -= len(data)
        self.kept += data
        if len(self.kept) > 4 * _KEPT:
            del self.kept[:-_KEPT]
        if self._output is not None:
            self._output(self.number, data)
        if self._show and not self.lost:
            self.pending = memoryview(data)
        return True

    def _pass(self) -> bool:
        before = len(self.pending)
        try:
            self.pending = self.pending[os.write(self.number, self.pending[: self._most]) :]
            while self.pending and select.select((), (self.number,), (), 0)[1]:
                self.pending = self.pending[os.write(self.number, self.pending[: self._most]) :]
        except BlockingIOError:
            pass
        except OSError as error:
            self.lost, self.pending = True, memoryview(b"")
            self.fault = "" if error.errno == errno.EPIPE else error.strerror or str(error)
        return len(self.pending) < before

    def owe(self) -> None:
        """Note how much of the output is still to be read when the child has ended."""
        try:
            self._owed = int.from_bytes(fcntl.ioctl(self.source, termios.FIONREAD, bytes(4)), sys.byteorder)
        except OSError:
            self._owed = 0

    def give_up(self) -> None:
        """Pass nothing on any more, if that has to be waited for."""
        if self.pending:
            self.lost, self.pending = True, memoryview(b"")

    def settled(self) -> bool:
        """Whether the output of the child itself has been read and passed on."""
        return not self.pending and (not self.open or (self._owed is not None and self._owed <= 0))


_running: list[_RunningCommand] = []
_handling: list[int] = []  # the signals that are passed on


def forward(signum: int) -> int:
    """Pass a signal on to every command that ``run`` has under way in this process; how many there were."""
    commands = list(_running)
    for command in commands:
        if signum in ENDING:
            command.signals.append((signum, time.monotonic()))
        command.send(signum)
    return len(commands)


@contextmanager
def signals() -> Iterator[None]:
    """Pass on signals of the main thread while the block runs: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP and SIGWINCH go to the
    commands that run, and SIGPIPE does nothing. A signal that finds no command does what it would have done without us. In
    another thread, or inside such a block, nothing is changed."""
    before = {} if _handling else _install()
    _handling.extend(before)
    try:
        yield
    finally:
        if before:
            _handling.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def _install() -> dict[int, Handler]:
    """Install our handlers; return those that were there; none in another thread than the main one."""
    before: dict[int, Handler] = {}
    last: dict[int, float] = {}

    def ending(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        twice, last[number] = number in last and now - last[number] < SAME, now
        if twice or forward(number):
            return
        handler = before[number]
        if callable(handler):
            handler(number, frame)
            return
        ours = signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, ours)

    def resizing(_number: int, _frame: FrameType | None) -> None:
        for command in list(_running):
            command.resize()

    wanted: dict[int, Handler] = dict.fromkeys(ENDING, ending)
    wanted |= {signal.SIGTSTP: _suspend, signal.SIGWINCH: resizing, signal.SIGPIPE: signal.SIG_IGN}
    for number, handler in wanted.items():
        there = signal.getsignal(number)
        # What whoever started us has switched off stays off: nohup, or a shell's background job.
        if there is None or (there == signal.SIG_IGN and number != signal.SIGPIPE):
            continue
        try:
            signal.signal(number, handler)
        except ValueError:  # not the main thread
            return {}
        before[number] = there
    return before


def _suspend(_number: int, _frame: FrameType | None) -> None:
    """Stop the commands and then this process, as Ctrl-Z does; when it goes on they go on, too."""
    commands, began = list(_running), time.monotonic()
    for command in commands:
        command.send(signal.SIGSTOP)
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)
    for command in commands:
        command.paused += time.monotonic() - began
        command.send(signal.SIGCONT)
