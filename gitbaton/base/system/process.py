"""Processes: spawned without forking Python, then read to their end within a time limit, or detached."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from gitbaton.base.errors import GitError, GitTimeoutError
from gitbaton.base.system.files import closing_fd, memory_file, remove_folder
from gitbaton.base.values import replace, value

# The current directory may hold a module of ours by name only.
_REMOVE = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; from gitbaton.base.system.files import remove_folder;"
    "remove_folder(sys.argv[1])"
)
_MANY = 200  # files that are not waited for to be removed
_left: set[int] = set()  # processes of ours that nobody waits for


@value
class Result:
    """Result of a git command: exit status, standard output, standard error as text."""

    code: int
    out: bytes
    err: str

    def fatal(self) -> str:
        """Return git's first complaint, without its prefix; a path that is outside is named once."""
        for line in self.err.splitlines():
            if line.startswith(("fatal: ", "error: ")):
                return re.sub(r"\A(.+): (?='\1' is outside repository)", "", line.split(": ", 1)[1])
        return self.err.strip().splitlines()[0] if self.err.strip() else f"git exited with {self.code}"


class Process:
    """A git command under way; ``finish`` reads it to the end."""

    def __init__(self, argv: Sequence[str], pid: int, out: int, err: int, deadline: float) -> None:
        self.argv, self.pid, self.out, self.err, self.deadline = argv, pid, out, err, deadline
        self.ended = False  # its output

    def pieces(self, most: int = 1 << 20) -> Iterator[bytes]:
        """Yield the output as it comes, up to its end, or that of its time: ``finish`` then raises."""
        poll = select.poll()
        poll.register(self.out, select.POLLIN)
        while not self.ended and poll.poll(max(0, int((self.deadline - time.monotonic()) * 1000))):
            piece = os.read(self.out, most)
            self.ended = not piece
            if piece:
                yield piece

    def finish(self, heard: Callable[[bytes], object] | None = None) -> Result:
        """Wait for the command; ``heard`` gets each piece of its output. Raises GitTimeoutError when its time is over; the
        command is then killed."""
        chunks: list[bytes] = []
        try:
            for chunk in self.pieces():
                chunks.append(chunk)
                if heard is not None:
                    heard(chunk)
            if not self.ended:
                raise GitTimeoutError(f"'git {verb(self.argv)}' did not end in its time and was stopped")
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)  # nobody waits for it any more
            raise
        finally:
            code, err = self.reap()
        return Result(code=code, out=b"".join(chunks), err=err)

    def reap(self) -> tuple[int, str]:
        """Wait for the command, of which no more output is read; return its exit status and what it complained of."""
        os.close(self.out)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with closing_fd(self.err):
            err = os.pread(self.err, min(os.lseek(self.err, 0, os.SEEK_END), 1 << 20), 0)
        return code, err.decode("utf-8", "surrogateescape")

    def stop(self) -> None:
        """Kill the command, whatever it says."""
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.out)
        os.close(self.err)
        os.waitpid(self.pid, 0)


def together(processes: Iterable[Process]) -> list[Result]:
    """Wait for several commands, as ``finish`` for one; none of them waits for us to read another. Where one cannot be started
    meanwhile, the others are stopped."""
    said, left = dict[int, list[bytes]](), list[Process]()
    poll, talking = select.poll(), dict[int, Process]()
    try:
        for process in processes:
            left.append(process)
            said[process.out], talking[process.out] = [], process
            poll.register(process.out, select.POLLIN)
        while talking:
            seconds = min(process.deadline for process in talking.values()) - time.monotonic()
            ready = poll.poll(max(0, int(seconds * 1000)))
            for fd, _ in ready:
                piece = os.read(fd, 1 << 20)
                said[fd].append(piece)
                if not piece:
                    talking.pop(fd).ended = True
                    poll.unregister(fd)
            if not ready:  # one is over its time, and says so below
                break
        rest = [left.pop(0).finish() for _ in said]
        return [replace(last, out=b"".join([*parts, last.out])) for parts, last in zip(said.values(), rest, strict=True)]
    except BaseException:
        for process in left:
            process.stop()
        raise


def verb(argv: Sequence[str]) -> str:
    """Return the git verb of an argument list, for messages."""
    skip = False
    for word in argv[1:]:
        if skip or word in ("-c", "-C"):
            skip = not skip
        elif not word.startswith("-"):
            return word
    return "git"


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdin: int,
    out: int,
    err: int,
    more: Mapping[int, int] | None = None,
    *,
    detached: bool = False,
    group: bool = False,
) -> int:
    """Start a program with three descriptors as its standard streams, and ``more`` of ours under other numbers; return its
    process id. posix_spawn: no fork of Python. ``detached``: in a session of its own, which is not waited for; ``group``: as
    the head of a process group. Raises GitError."""
    # A caller with a closed standard stream gets its number for a new descriptor, and one dup2 would close another's source.
    low = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (stdin, out, err) if fd < 3]
    moved = iter(low)
    actions = [(os.POSIX_SPAWN_DUP2, fd if fd > 2 else next(moved), target) for target, fd in enumerate((stdin, out, err))]
    actions += [(os.POSIX_SPAWN_DUP2, fd, target) for fd, target in (more or {}).items()]
    try:
        where = {"setsid": True} if detached else {"setpgroup": 0} if group else {}
        return os.posix_spawnp(argv[0], list(argv), env, file_actions=actions, setsigdef=[signal.SIGPIPE], **where)
    except (FileNotFoundError, NotADirectoryError):  # the latter where PATH names a file
        raise GitError(f"'{argv[0]}' is not on PATH") from None
    except (OSError, ValueError, RuntimeError) as error:  # too many words; a NUL in one; no setsid on this system
        raise GitError(f"'{argv[0]}' cannot be started: {error}") from None
    finally:
        for fd in low:
            os.close(fd)


def leave(
    argv: Sequence[str], env: Mapping[str, str], stdin: int, out: int, err: int, more: Mapping[int, int] | None = None
) -> None:
    """Start a program, as ``spawn``, that is not waited for. Zombies of earlier ones are reaped: in a process that lives for
    weeks they would pile up."""
    for pid in _left.copy():
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # the program around us waits for all its children
            ended = True
        if ended:
            _left.discard(pid)
    _left.add(spawn(argv, env, stdin, out, err, more, detached=True))


def detach(argv: Sequence[str], env: Mapping[str, str], stdin: bytes) -> None:
    """Start a program that is not waited for, its input from memory, its output nowhere. Raises GitError."""
    with closing_fd(memory_file(stdin)) as source, closing_fd(os.open(os.devnull, os.O_WRONLY)) as sink:
        leave(argv, env, source, sink, sink)


def leave_to_verb(place: str, *words: str) -> None:
    """Start a verb of ours, which is not waited for and says nothing, in the repository at a place; nothing where this process
    is no command of ours. Raises GitError and OSError."""
    if os.path.isfile(sys.argv[0]):
        detach([sys.executable, sys.argv[0], "--repo-root", place, *words], os.environ, b"")


def remove_later(folder: str) -> None:
    """Remove a folder of ours, as far as it can be removed; many files by a detached process. Never raises."""
    files = (name for _, _, names in os.walk(folder) for name in names)
    if next(islice(files, _MANY, None), None) is not None:
        gone = folder + ".gone"
        try:
            os.mkdir(gone)
            os.rename(folder, os.path.join(gone, "all"))  # nobody takes it for one in use
            detach([sys.executable or "", "-c", _REMOVE, gone], os.environ, b"")
            return
        except (OSError, GitError):
            remove_folder(gone)
    remove_folder(folder)


def begin(
    argv: Sequence[str], env: Mapping[str, str], timeout: float, stdin: bytes | int = b"", *, detached: bool = False
) -> Process:
    """Start a program with known input, bytes or an open file, for ``timeout`` seconds; ``detached`` as for ``spawn``. Raises
    GitError when it cannot be started."""
    fds: list[int] = []
    try:
        fds += os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # a child started early goes on while another is read
                fcntl.fcntl(fds[0], fcntl.F_SETPIPE_SZ, 1 << 20)
        fds.append(memory_file())
        if isinstance(stdin, int):
            fds.append(os.dup(stdin))
        else:
            fds.append(memory_file(stdin) if stdin else os.open(os.devnull, os.O_RDONLY))
        reader, writer, err, source = fds
        pid = spawn(argv, env, source, writer, err, detached=detached)
    except BaseException as error:
        for fd in fds:
            os.close(fd)
        if isinstance(error, OSError):
            raise GitError(f"'{argv[0]}' cannot be started: {error.strerror}") from None
        raise
    os.close(writer)
    os.close(source)
    return Process(argv, pid, reader, err, time.monotonic() + timeout)


class Coprocess:
    """Program that answers requests line by line; ``name`` is what errors call it. ``dead`` after an error: an answer that came
    too late would answer the next question. ``group``: in a process group of its own, where it outlives a Ctrl-C that we do."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], timeout: float, *, group: bool = False) -> None:
        self.name, self.timeout, self.dead, self.buffer = name, timeout, False, bytearray()
        self.reader, out = os.pipe()
        stdin, self.writer = os.pipe()
        self.err = memory_file()
        with closing_fd(out), closing_fd(stdin):
            try:
                self.pid = spawn(argv, env, stdin, out, self.err, group=group)
            except BaseException:
                for fd in (self.reader, self.writer, self.err):
                    os.close(fd)
                raise
        self.poll = select.poll()
        self.poll.register(self.reader, select.POLLIN)

    def line(self, deadline: float) -> bytes:
        """Return the next line that it says. Raises GitError at its end."""
        while (end := self.buffer.find(b"\n")) < 0:
            self.more(deadline)
        answer = bytes(self.buffer[:end])
        del self.buffer[: end + 1]
        return answer

    def more(self, deadline: float) -> None:
        """Wait for more that it says. Raises GitError at its end."""
        self.dead = True  # until it has answered: whoever is interrupted while it waits must not wait again
        if not self.poll.poll(max(0, int((deadline - time.monotonic()) * 1000))):
            raise GitTimeoutError(f"'{self.name}' did not answer in its time and was stopped")
        chunk = os.read(self.reader, 1 << 20)
        self.buffer += chunk
        self.dead = not chunk
        if not chunk:
            said = os.pread(self.err, 4096, 0).decode("utf-8", "replace").strip().splitlines()
            reason = said[-1].removeprefix("fatal: ").removeprefix("error: ") if said else "no answer"
            raise GitError(f"'{self.name}' ended early: {reason}")

    def leave(self) -> None:
        """Close our ends of the pipes in a forked child: else the parent would wait for the program's end as long as the child
        lives."""
        for fd in (self.writer, self.reader, self.err):
            os.close(fd)

    def close(self) -> None:
        """End the program and wait for it."""
        if self.dead:
            os.kill(self.pid, signal.SIGKILL)
        for fd in (self.writer, self.reader, self.err):
            os.close(fd)
        os.waitpid(self.pid, 0)
