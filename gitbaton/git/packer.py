"""A process that makes packs: beside a busy interpreter, which deflating would hold up."""

from __future__ import annotations

import marshal
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from gitbaton.errors import GitError
from gitbaton.git.objects import Algorithm
from gitbaton.git.packfile import Entry, Id, Packing
from gitbaton.git.run import spawn, write_all

_TIMEOUT = 60.0  # seconds for one pack
_LENGTH = 8
_MOST = 64 << 20  # bytes of objects that go through the pipe; more are packed here
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

    def pack(self, algorithm: Algorithm, objects: Sequence[Entry]) -> Made | None:
        """A pack of objects and its index; None when it cannot be made here: then the caller makes it."""
        if sum(len(item[2]) for item in objects) > _MOST:
            return None
        with self._lock:
            if self._closed:  # by one thread while another had it in hand: nobody would end a new process
                return None
            try:
                if not self._pid:
                    self._begin()
                asked = marshal.dumps((algorithm, list(objects)))
                deadline = time.monotonic() + _TIMEOUT
                self._ask(len(asked).to_bytes(_LENGTH, "big") + asked, deadline)
                return Made(algorithm, *marshal.loads(self._answer(deadline)))
            except (OSError, EOFError, ValueError, TypeError, GitError):
                self._end()
                return None
            except BaseException:  # its answer would be taken for that to the next question
                self._end()
                raise

    def _begin(self) -> None:
        home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        argv = [sys.executable, "-I", "-S", "-c", _CODE.format(home)]
        source, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._reader, out = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            self._pid = spawn(argv, os.environ, source, out, null, detached=True)
        finally:
            for fd in (source, out, null):
                os.close(fd)

    def _ask(self, data: bytes, deadline: float) -> None:
        """Raises EOFError when nobody reads it in time, OSError when nobody is there."""
        view, poll = memoryview(data), select.poll()
        poll.register(self._writer, select.POLLOUT)
        while view:
            if not poll.poll(max(0, int((deadline - time.monotonic()) * 1000))):
                raise EOFError
            view = view[os.write(self._writer, view) :]

    def _answer(self, deadline: float) -> bytes:
        """What the process says. Raises EOFError when it ends before, or takes too long."""
        poll = select.poll()
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
    while head := _exactly(source, _LENGTH):
        algorithm, objects = marshal.loads(_exactly(source, int.from_bytes(head, "big")))
        packing = Packing(algorithm, objects)
        pack = b"".join(packing.parts())
        said = marshal.dumps((pack, packing.index(), packing.offsets))
        write_all(out, len(said).to_bytes(_LENGTH, "big") + said)


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
