"""A pack-writing process: deflating there does not hold up a busy interpreter here."""

from __future__ import annotations

import fcntl
import marshal
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from gitbaton.errors import GitError
from gitbaton.git.objects import Algorithm
from gitbaton.git.packfile import Entry, Id, Packing
from gitbaton.system.files import write_all
from gitbaton.system.process import spawn

_TIMEOUT = 60.0  # seconds in which it takes, or says, something
_LENGTH = 8
_VERSION = 2  # of what is said: the process may be of a newer gitbaton, put in place while this program runs
_MOST = 64 << 20  # bytes of objects that go through the pipe; more are packed here
_PIPE = 1 << 20
# Only the standard library and this package are wanted, and a folder of packages must not hide a module of the former.
_CODE = "import sys; sys.path.append({!r}); from gitbaton.git.packer import serve; serve()"


class Made:
    """A pack that was made elsewhere; as Packing."""

    def __init__(self, algorithm: Algorithm, pack: bytes, index: bytes, offsets: dict[Id, int]) -> None:
        self.algorithm, self.offsets, self._pack, self._index = algorithm, offsets, pack, index

    def parts(self) -> Iterator[bytes]:
        """The pack, in one part."""
        yield self._pack

    def index(self) -> bytes:
        """The index of version 2."""
        return self._index


class Packer:
    """Makes packs in a process of its own, which begins with the first and ends with this object or its process."""

    def __init__(self) -> None:
        self._pid = self._writer = self._reader = 0
        self._lock = threading.Lock()
        self._closed = False

    @staticmethod
    def possible() -> bool:
        """Whether there is a Python to start and a processor for it."""
        name = os.path.basename(sys.executable or "")
        plain = name.startswith(("python", "pypy")) and not getattr(sys, "frozen", False)
        return plain and len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else "12") > 1

    def start(self) -> None:
        """Begin the process, so that it is there when it is wanted. Never raises."""
        with self._lock, self._trying():
            self._ready()

    def pack(self, algorithm: Algorithm, parts: Iterable[Sequence[Entry]]) -> Made | None:
        """A pack of objects, which are sent as they come, and its index; None when it cannot be made here: then whoever wants
        it makes it. All of ``parts`` are taken in either case. Raises what they raise."""
        size, ids = 0, set[Id]()
        with self._lock:
            try:
                with self._trying():
                    self._ready()
                for part in parts:
                    size += sum([len(item[2]) for item in part])
                    ids.update([item[1] for item in part])
                    if size > _MOST:
                        self._end()
                    with self._trying():
                        self._send(algorithm, part)
                with self._trying():
                    self._send(algorithm, ())
                    made = Made(algorithm, *marshal.loads(self._answer())) if self._pid else None
                    if made is not None and made.offsets.keys() == ids:
                        return made
                self._end()
            except BaseException:  # its answer would be taken for that to the next question
                self._end()
                raise
        return None

    @contextmanager
    def _trying(self) -> Iterator[None]:
        """Where the process fails, there is none any more."""
        try:
            yield
        except (OSError, EOFError, ValueError, TypeError, GitError):
            self._end()

    def _ready(self) -> None:
        """Have a process; not where one thread closed this while another had it in hand: nobody would end a new one."""
        if not self._closed and not self._pid:
            self._begin()

    def _send(self, algorithm: Algorithm, part: Sequence[Entry]) -> None:
        if self._pid:
            asked = marshal.dumps((_VERSION, algorithm, list(part)))
            self._ask(len(asked).to_bytes(_LENGTH, "big") + asked)

    def _begin(self) -> None:
        home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        argv = [sys.executable, "-I", "-S", "-c", _CODE.format(home)]
        source, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        with suppress(OSError, AttributeError):  # more than that is for some users only, and some systems have one size
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _PIPE)
        self._reader, out = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            self._pid = spawn(argv, os.environ, source, out, null, detached=True)
        finally:
            for fd in (source, out, null):
                os.close(fd)

    def _ask(self, data: bytes) -> None:
        """Raises EOFError when nobody reads it in time, OSError when nobody is there."""
        deadline, view, poll = time.monotonic() + _TIMEOUT, memoryview(data), select.poll()
        poll.register(self._writer, select.POLLOUT)
        # A program may have SIGPIPE as C has it; a process beside it that is killed must not end it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
        try:
            while view:
                if not poll.poll(max(0, int((deadline - time.monotonic()) * 1000))):
                    raise EOFError
                view = view[os.write(self._writer, view) :]
        except BrokenPipeError:
            if signal.SIGPIPE in signal.sigpending():
                signal.sigwait([signal.SIGPIPE])
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _answer(self) -> bytes:
        """What the process says. Raises EOFError when it ends before, or takes too long."""
        deadline, poll = time.monotonic() + _TIMEOUT, select.poll()
        poll.register(self._reader, select.POLLIN)
        parts, length, wanted = list[bytes](), 0, _LENGTH
        while length < wanted:
            chunk = b""
            if poll.poll(max(0, int((deadline - time.monotonic()) * 1000))):
                chunk = os.read(self._reader, 1 << 20)
            if not chunk:
                raise EOFError
            parts.append(chunk)
            length += len(chunk)
            if wanted == _LENGTH <= length:
                parts = [b"".join(parts)]
                wanted += int.from_bytes(parts[0][:_LENGTH], "big")
        return b"".join(parts)[_LENGTH:]

    def close(self) -> None:
        """End the process, after the pack that it may be making; no other begins."""
        with self._lock:
            self._closed = True
            self._end()

    def _end(self) -> None:
        pid, ends = self._pid, (self._writer, self._reader)
        self._pid = self._writer = self._reader = 0
        for fd in ends:
            if fd:
                os.close(fd)
        if pid:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):  # the program around us waits for all its children
                pass

    def forked(self) -> None:
        """In a forked child: the process is the parent's, and ends when only the parent has let go of it."""
        self._pid = 0
        self._end()


def serve() -> None:
    """Make packs of what comes in until there is no more."""
    source, out = sys.stdin.fileno(), sys.stdout.fileno()
    packing, added = Packing("sha1"), list[bytes]()
    while head := _exactly(source, _LENGTH):
        version, algorithm, objects = marshal.loads(_exactly(source, int.from_bytes(head, "big")))
        if version != _VERSION:
            return
        if not added:
            packing = Packing(algorithm)
        added += map(packing.add, objects)
        if not objects:
            pack = packing.whole(added)
            said = marshal.dumps((pack, packing.index(), packing.offsets))
            write_all(out, len(said).to_bytes(_LENGTH, "big") + said)
            added = []


def _exactly(fd: int, size: int) -> bytes:
    """So many bytes; none when there are no more."""
    parts = []
    while size:
        chunk = os.read(fd, min(size, 1 << 20))
        if not chunk:
            return b""
        parts.append(chunk)
        size -= len(chunk)
    return b"".join(parts)
