"""Pseudo-terminals, and the terminal of this process: its foreground group and its size."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios

_SIZE = b"\0" * 8


def is_terminal(fd: int) -> bool:
    """Whether a descriptor of ours is open and a terminal."""
    try:
        return os.isatty(fd)
    except OSError:
        return False


def open_like(fd: int) -> tuple[int, int] | None:
    """A pseudo-terminal with the size and the modes of ``fd``, except that bytes pass it as they are: our end, and the end for
    a child. None where ``fd`` is no terminal, or the system has no more of them."""
    if not is_terminal(fd):
        return None
    try:
        modes = termios.tcgetattr(fd)
        ours, theirs = os.openpty()
    except (OSError, termios.error):
        return None
    modes[1] &= ~termios.OPOST  # the real terminal does what is to be done with line ends, and once
    modes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    resize(ours, size(fd))
    return ours, theirs


def size(fd: int) -> bytes:
    """Rows, columns and pixels of a terminal, as the kernel gives them."""
    try:
        return fcntl.ioctl(fd, termios.TIOCGWINSZ, _SIZE)
    except OSError:
        return _SIZE


def resize(fd: int, size: bytes) -> None:
    """Give a pseudo-terminal a size."""
    try:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, size)
    except OSError:
        pass


def waiting(fd: int) -> int:
    """How many bytes can be read from a pipe or pseudo-terminal at once."""
    try:
        return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4), sys.byteorder)
    except OSError:
        return 0


class Turn:
    """Whose turn it is on the terminal that controls this process: ours, or that of a process group of ours."""

    def __init__(self) -> None:
        self.fd = next((fd for fd in (0, 2, 1) if _foreground(fd) is not None), None)
        self.given: int | None = None
        self._modes: list[object] | None = None

    def ours(self) -> bool:
        """Whether this process stands in the foreground of a terminal."""
        return self.fd is not None and _foreground(self.fd) == os.getpgrp()

    def owner(self) -> int | None:
        """The process group in the foreground."""
        return _foreground(self.fd) if self.fd is not None else None

    def give(self, pgid: int) -> bool:
        """Put a group into the foreground, if we are there; whether it is."""
        if self.fd is None or not self.ours():
            return False
        self._modes = _modes(self.fd)
        if not _put(self.fd, pgid):
            return False
        self.given = pgid
        return True

    def take(self) -> None:
        """Put ourselves into the foreground again, with the terminal's modes as they were, if we had given it away."""
        if self.fd is None or self.given is None:
            return
        self.given = None
        if _put(self.fd, os.getpgrp()) and self._modes is not None and _modes(self.fd) != self._modes:
            try:
                termios.tcsetattr(self.fd, termios.TCSADRAIN, self._modes)  # type: ignore[arg-type]
            except termios.error:
                pass


def _modes(fd: int) -> list[object] | None:
    try:
        return termios.tcgetattr(fd)
    except termios.error:
        return None


def _foreground(fd: int) -> int | None:
    """The process group in the foreground of a terminal; None when it is not the one that controls this process."""
    try:
        return os.tcgetpgrp(fd)
    except OSError:
        return None


def _put(fd: int, pgid: int) -> bool:
    # Who asks for this from the background is stopped by SIGTTOU, unless it is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        os.tcsetpgrp(fd, pgid)
        return True
    except OSError:
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
