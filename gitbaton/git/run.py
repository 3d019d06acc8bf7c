"""The git binary: one way to start it, with the environment, the time limit and the errors every call shares."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from gitbaton.errors import GitError, GitTimeoutError
from gitbaton.values import value

TIMEOUT = 600.0
_AT_ONCE = 256  # files that are open at a time
_left: set[int] = set()  # processes of ours that nobody waits for
# What `git rev-parse --local-env-vars` names: it belongs to one repository and must not reach another.
LOCAL_ENV = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_INTERNAL_SUPER_PREFIX",
)
_DROPPED = ("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS")
_OWN_ENV = {
    "LC_MESSAGES": "C",
    "LANGUAGE": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_BATON": "0",
}
# Our own calls run no hook of the user's and sign nothing.
_CONFIG = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "core.logAllRefUpdates=false",
    "-c",
    "core.fsmonitor=false",
)


def base_environment(*, strip_local: bool) -> dict[str, str]:
    """The environment for our git calls; ``strip_local`` drops what names a repository other than the one asked for."""
    dropped = {*_DROPPED, "LC_ALL", *(LOCAL_ENV if strip_local else ())}
    # A trace to standard error would end in our error messages; one to a file stays.
    dropped |= {k for k, v in os.environ.items() if k.startswith("GIT_TRACE") and v.lower() in ("1", "2", "true")}
    env = {k: v for k, v in os.environ.items() if k not in dropped}
    if os.environ.get("LC_ALL"):  # git's words must be English, while the user's filters keep their characters
        env |= {"LANG": os.environ["LC_ALL"], "LC_CTYPE": os.environ["LC_ALL"]}
    return env | _OWN_ENV


@value
class Result:
    """What a git command left: exit status, standard output, standard error as text."""

    code: int
    out: bytes
    err: str

    def fatal(self) -> str:
        """Git's own first complaint, without its prefix."""
        for line in self.err.splitlines():
            if line.startswith(("fatal: ", "error: ")):
                return line.split(": ", 1)[1]
        return self.err.strip().splitlines()[0] if self.err.strip() else f"git exited with {self.code}"


class Process:
    """A git command under way; ``finish`` reads it to the end."""

    def __init__(self, argv: Sequence[str], pid: int, out: int, err: int, deadline: float) -> None:
        self.argv, self.pid, self.out, self.err, self.deadline = argv, pid, out, err, deadline

    def finish(self) -> Result:
        """Wait for the command. Raises GitTimeoutError when its time is over; the command is then killed."""
        chunks: list[bytes] = []
        poll = select.poll()
        poll.register(self.out, select.POLLIN)
        try:
            while poll.poll(max(0, int((self.deadline - time.monotonic()) * 1000))):
                chunk = os.read(self.out, 1 << 20)
                if not chunk:
                    break
                chunks.append(chunk)
            else:
                raise GitTimeoutError(f"'git {verb(self.argv)}' did not end in its time and was stopped")
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)  # nobody waits for it any more
            raise
        finally:
            os.close(self.out)
            code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            size = os.lseek(self.err, 0, os.SEEK_END)
            err = os.pread(self.err, min(size, 1 << 20), 0)
            os.close(self.err)
        return Result(code=code, out=b"".join(chunks), err=err.decode("utf-8", "surrogateescape"))

    def stop(self) -> None:
        """End the command and take no interest in what it said."""
        os.kill(self.pid, signal.SIGKILL)
        os.close(self.out)
        os.close(self.err)
        os.waitpid(self.pid, 0)


def verb(argv: Sequence[str]) -> str:
    """The git verb in an argument list of ours, for messages."""
    skip = False
    for word in argv[1:]:
        if skip or word in ("-c", "-C"):
            skip = not skip
        elif not word.startswith("-"):
            return word
    return "git"


def memory_file(data: bytes = b"") -> int:
    """A file descriptor of an unnamed file that holds ``data``, at its beginning."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("gitbaton")
    else:
        import tempfile

        handle, name = tempfile.mkstemp()
        os.unlink(name)
        fd = handle
    write_all(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def write_all(fd: int, data: bytes) -> None:
    """Write bytes, however many calls it takes. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_paths(paths: Iterable[str], *, missing: bool = False) -> None:
    """Have files on disk, and of folders which names they have; with ``missing`` those that are there. Raises OSError."""
    waiting, fds = iter(paths), list[int]()
    while some := list(islice(waiting, _AT_ONCE)):
        try:
            for path in some:
                try:
                    fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                except FileNotFoundError:
                    if not missing:
                        raise
                    continue
                if hasattr(os, "posix_fadvise"):  # all begin to be written before one is waited for
                    os.posix_fadvise(fds[-1], 0, 0, os.POSIX_FADV_DONTNEED)
            for fd in fds:
                os.fsync(fd)
        finally:
            while fds:
                os.close(fds.pop())


def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    stdin: int,
    out: int,
    err: int,
    more: Mapping[int, int] | None = None,
    *,
    detached: bool = False,
) -> int:
    """Start a program with three descriptors as its standard streams, and ``more`` of ours under other numbers; its process
    id. posix_spawn: no fork of Python. ``detached``: in a session of its own, for one that nobody waits for."""
    # A caller with a closed standard stream gets its number for a new descriptor, and one dup2 would close another's source.
    low = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (stdin, out, err) if fd < 3]
    moved = iter(low)
    actions = [(os.POSIX_SPAWN_DUP2, fd if fd > 2 else next(moved), target) for target, fd in enumerate((stdin, out, err))]
    actions += [(os.POSIX_SPAWN_DUP2, fd, target) for fd, target in (more or {}).items()]
    try:
        return os.posix_spawnp(argv[0], list(argv), env, file_actions=actions, setsid=detached, setsigdef=[signal.SIGPIPE])
    except FileNotFoundError:
        raise GitError(f"'{argv[0]}' is not on PATH") from None
    except (OSError, ValueError, RuntimeError) as error:  # too many words; a NUL in one; no setsid on this system
        raise GitError(f"'{argv[0]}' cannot be started: {error}") from None
    finally:
        for fd in low:
            os.close(fd)


def leave(
    argv: Sequence[str], env: Mapping[str, str], stdin: int, out: int, err: int, more: Mapping[int, int] | None = None
) -> None:
    """As ``spawn``, a program that nobody waits for. What is left of earlier ones that have ended goes: in a process
    that lives for weeks they would pile up."""
    for pid in _left.copy():
        try:
            ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:  # the program around us waits for all its children
            ended = True
        if ended:
            _left.discard(pid)
    _left.add(spawn(argv, env, stdin, out, err, more, detached=True))


def detach(argv: Sequence[str], env: Mapping[str, str], stdin: bytes) -> None:
    """Start a program that nobody waits for, its input from memory, its output nowhere. Raises GitError."""
    source, sink = memory_file(stdin), os.open(os.devnull, os.O_WRONLY)
    try:
        leave(argv, env, source, sink, sink)
    finally:
        os.close(source)
        os.close(sink)


def begin(
    argv: Sequence[str], env: Mapping[str, str], timeout: float, stdin: bytes = b"", *, detached: bool = False
) -> Process:
    """Start a program whose input is known, for a time; ``detached`` as for ``spawn``. Raises GitError when it cannot be
    started."""
    fds: list[int] = []
    try:
        fds += os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with suppress(OSError):  # a child started early goes on while another is read
                fcntl.fcntl(fds[0], fcntl.F_SETPIPE_SZ, 1 << 20)
        fds.append(memory_file())
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


class Git:
    """The binary, bound to a directory and an environment."""

    def __init__(
        self, directory: str, env: Mapping[str, str], *, config: tuple[str, ...] = (), timeout: float = TIMEOUT
    ) -> None:
        self.directory, self.env, self.config, self.timeout = directory, env, config, timeout

    def argv(self, *args: str) -> list[str]:
        """The whole command line of one call."""
        settings = [word for setting in self.config for word in ("-c", setting)]
        return ["git", "-C", self.directory, *_CONFIG, *settings, *args]

    def start(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Process:
        """Start a command whose input is known; commands started together run together."""
        return begin(self.argv(*args), {**self.env, **(env or {})}, self.timeout, stdin)

    def run(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Result:
        """Run a command to its end, whatever its exit status."""
        return self.start(*args, stdin=stdin, env=env).finish()

    def out(self, *args: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """The output of a command that must succeed. Raises GitError with git's own words."""
        return checked(self.run(*args, stdin=stdin, env=env), args[0])

    def changed(self, env: Mapping[str, str], *config: str, directory: str | None = None) -> Git:
        """The same with more environment and more ``key=value`` settings, perhaps at another place."""
        place = self.directory if directory is None else directory
        return Git(place, {**self.env, **env}, config=(*self.config, *config), timeout=self.timeout)


def checked(result: Result, name: str) -> bytes:
    """The output of a finished command, or GitError with git's own first complaint."""
    if result.code != 0:
        raise GitError(f"'git {name}' failed: {result.fatal()}")
    return result.out


def zsplit(raw: bytes) -> list[str]:
    """The NUL-ended fields of git's ``-z`` output, decoded as paths."""
    return [os.fsdecode(field) for field in raw.split(b"\0")[:-1]]
