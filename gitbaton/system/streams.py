"""Child output: forwarded as it comes, with its tail kept."""

from __future__ import annotations

import errno
import os
import select
import stat
from collections.abc import Callable

from gitbaton.system import ptys

KEPT = 1 << 20  # bytes at the end of a stream that are kept
_READ = 1 << 18
_SAFE = 4096  # what a pipe or terminal that can be written to takes without blocking


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
            self._reopen()

    def _reopen(self) -> None:
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
