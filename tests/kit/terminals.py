"""A pseudo-terminal with a program on it: what it shows, when, and keys that are pressed meanwhile."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

LIMIT = 20.0  # seconds until a test fails


class Terminal:
    """``git baton WORDS`` with a terminal as all its streams; its size is rows and columns."""

    def __init__(self, cwd: Path, *words: str, env: Mapping[str, str] | None = None, size: tuple[int, int] = (24, 80)) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.shown = b""
        self.settings = termios.tcgetattr(self.slave)
        self.child = subprocess.Popen(
            [sys.executable, "-m", "gitbaton", *words],
            cwd=cwd,
            env={**os.environ, "TERM": "xterm", **(env or {})},
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            preexec_fn=_own_terminal,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self.slave)
        os.close(self.master)

    def resize(self, rows: int, columns: int) -> None:
        """Another size, of which the kernel tells the foreground group."""
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """What somebody types."""
        os.write(self.master, keys)

    def until(self, text: bytes, times: int = 1) -> float:
        """Wait until a text was shown so many times; the moment, in seconds of a clock. Fails after LIMIT."""
        deadline = time.monotonic() + LIMIT
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, f"{text!r} was not shown: {self.shown!r}"
            assert self._more() or self.child.poll() is None, f"it ended without {text!r}: {self.shown!r}"
        return time.monotonic()

    def end(self) -> int:
        """Wait for the program; its exit status. The terminal must be as it was."""
        deadline = time.monotonic() + LIMIT
        while self._more() or self.child.poll() is None:
            assert time.monotonic() < deadline, f"it does not end: {self.shown!r}"
        now = termios.tcgetattr(self.slave)
        assert now == self.settings, "the terminal's settings changed"
        return self.child.returncode

    def _more(self) -> bool:
        if not select.select([self.master], [], [], 0.02)[0]:
            return False
        self.shown += os.read(self.master, 1 << 16)
        return True


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
