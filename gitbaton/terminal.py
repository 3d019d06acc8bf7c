"""The screen: standard output and error, git's message prefixes, colour and the pager."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PAGER_ENV = {"LESS": "FRX", "LV": "-c"}
COLORS = {
    "green": "\x1b[32m",
    "pending": "\x1b[33m",
    "stale": "\x1b[33m",
    "failed": "\x1b[31m",
    "id": "\x1b[33m",
    "drift": "\x1b[36m",
}
_RESET = "\x1b[m"


def say(text: str) -> None:
    """One line of what the caller asked for, on standard output."""
    sys.stdout.write(text + "\n")


def write(text: str) -> None:
    """Output as it is."""
    sys.stdout.write(text)


def emit(data: bytes) -> None:
    """Bytes for a program that reads standard output, at once."""
    sys.stdout.flush()
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def read_input(limit: int) -> bytes:
    """What another program wrote to standard input, at most ``limit`` bytes; nothing from a terminal."""
    if os.isatty(0):
        return b""
    chunks: list[bytes] = []
    while limit > 0 and (chunk := os.read(0, min(limit, 1 << 20))):
        chunks.append(chunk)
        limit -= len(chunk)
    return b"".join(chunks)


def await_input() -> None:
    """Wait until standard input can be read. Ctrl-C is heard at any moment: Python only notes a signal, and a plain read that
    begins in that instant would go on waiting."""
    import select
    import signal

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        while 0 not in select.select([0, reader], [], [])[0]:
            os.read(reader, 64)
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def warn(text: str) -> None:
    """``warning: ...`` on standard error, in one line that drives no terminal."""
    from gitbaton.codec import plain

    tell("warning: " + plain(" ".join(text.split("\n"))))


def tell(text: str) -> None:
    """One line on standard error."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")


def prepare() -> None:
    """Make standard output and error take any text, and never a traceback for a closed pipe or a missing stream."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
        elif name == "stdout" and not hasattr(stream.buffer, "raw"):
            # PYTHONUNBUFFERED: Python would take half a write for a whole one when the reader goes
            sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)
        else:
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def paint(text: str, color: str | None, *, on: bool) -> str:
    """Text in a colour, when colours are on."""
    return f"{COLORS[color]}{text}{_RESET}" if on and color in COLORS and text.strip() else text


@contextmanager
def pager(command: str, env: Mapping[str, str]) -> Iterator[None]:
    """Send standard output through the user's pager (an empty command or ``cat`` means none)."""
    if command in ("", "cat"):
        yield
        return
    import subprocess

    child = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env={**PAGER_ENV, **env}, text=True)
    assert child.stdin is not None
    screen, sys.stdout = sys.stdout, child.stdin
    try:
        yield
    except BrokenPipeError:
        pass  # the reader has seen enough
    finally:
        sys.stdout = screen
        try:
            child.stdin.close()
        except BrokenPipeError:
            pass
        child.wait()
