"""The screen: standard output and error, git's message prefixes, colour and the pager."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

PAGER_ENV = {"LESS": "FRX", "LV": "-c"}
_BOLD, _DIM, _RED, _GREEN = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"
_YELLOW, _MAGENTA, _CYAN, _RESET = "\x1b[33m", "\x1b[35m", "\x1b[36m", "\x1b[m"
# No bracketed paste, resizes, mouse, focus or keys of kitty's; lines wrap, the first screen, a cursor.
_AS_BEFORE = b"".join(b"\x1b[?%dl" % mode for mode in (2004, 2048, 1000, 1003, 1015, 1006, 1004))
_AS_BEFORE += b"\x1b[?7h\x1b[<u\x1b[?1049l\x1b[?25h"
COLORS = {
    "id": _BOLD,  # as many digits as are unique
    "current": _BOLD,  # the current track
    "manual": _BOLD,
    "green": _GREEN,
    "failed": _RED,
    "stale": _YELLOW,
    "pending": _DIM,  # nothing is known
    "waiting": _YELLOW,  # for somebody
    "home": _DIM,
    "drift": _YELLOW,
    "restored": _CYAN,
    "foreign": _MAGENTA,  # what stands before words from elsewhere
    "heading": _DIM,
    "match": _BOLD + _RED,  # what was looked for
}
"""What has a colour of its own, and which; ``color.baton.<name>`` is another."""
waiting: Callable[[], None] | None = None  # takes the progress line away, while there may be one
paging = False  # the screen is a pager's


def still() -> None:
    """Take the progress line away, before anything else is written."""
    if waiting is not None:
        waiting()


def say(text: str) -> None:
    """Write one line of what the caller asked for, on standard output."""
    write(text + "\n")


def say_lines(texts: Iterable[str]) -> None:
    """Write lines of what the caller asked for, each as it comes."""
    for text in texts:
        say(text)


def tell_hints(texts: Iterable[str]) -> None:
    """Write each text as ``hint: ...`` on standard error, in one line that drives no terminal."""
    from gitbaton.base.codec import plain

    for text in texts:
        tell("hint: " + plain(text))


def write(text: str) -> None:
    """Write output as it is."""
    still()
    sys.stdout.write(text)


def emit(data: bytes) -> None:
    """Write bytes for a program that reads standard output, at once."""
    still()
    sys.stdout.flush()
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def read_input(limit: int) -> bytes:
    """Read standard input, at most ``limit`` bytes; nothing from a terminal."""
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
    """Write ``warning: ...`` on standard error, in one line that drives no terminal."""
    from gitbaton.base.codec import plain

    tell("warning: " + plain(" ".join(text.split("\n"))))


def copy_in_tmux(text: str) -> None:
    """Give a text to tmux, where this runs in it, for itself and the terminal outside: it hears no program's own request."""
    if os.environ.get("TMUX"):
        from gitbaton.base.errors import GitError
        from gitbaton.base.system.process import detach

        with suppress(GitError):
            detach(["tmux", "load-buffer", "-w", "-"], os.environ, text.encode())


@contextmanager
def given_back() -> Iterator[None]:
    """Restore the terminal whatever ends this process meanwhile, kill -9 included: another process waits for that."""
    import signal
    import termios

    before = termios.tcgetattr(0)
    ended, alive = os.pipe()  # no program that is started has the end that is held open here
    pid = os.fork()
    if pid == 0:
        try:
            for name in ("INT", "TERM", "HUP", "QUIT", "TSTP", "TTOU"):
                signal.signal(signal.Signals[f"SIG{name}"], signal.SIG_IGN)
            for fd in {*map(int, os.listdir("/dev/fd"))} - {0, 1, 2, ended}:
                with suppress(OSError):  # else a git that reads until its input ends would never end
                    os.close(fd)
            os.read(ended, 1)
            if termios.tcgetattr(0) != before:
                os.write(2, _AS_BEFORE)
                termios.tcsetattr(0, termios.TCSANOW, before)
        finally:
            os._exit(0)
    os.close(ended)
    try:
        yield
    finally:
        os.close(alive)
        os.waitpid(pid, 0)


def tell(text: str) -> None:
    """Write one line on standard error."""
    still()
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


def paint(text: str, slot: str | None, *, on: Mapping[str, str]) -> str:
    """Return a text in the colour of a slot of COLORS, as ``on`` has it; that is empty where colours are off."""
    return f"{on[slot]}{text}{_RESET}" if slot and on.get(slot) and text.strip() else text


@contextmanager
def pager(command: str, env: Mapping[str, str]) -> Iterator[None]:
    """Send standard output through the user's pager (an empty command or ``cat`` means none)."""
    if command in ("", "cat"):
        yield
        return
    from gitbaton.base.system.process import spawn

    global paging
    still()
    reader, writer = os.pipe()
    pipe = open(writer, "w", encoding="utf-8", errors="surrogateescape")
    try:
        pid = spawn(["/bin/sh", "-c", command], {**PAGER_ENV, **env}, reader, 1, 2)
    finally:
        os.close(reader)
    screen, sys.stdout, paging = sys.stdout, pipe, True
    try:
        yield
    except BrokenPipeError:
        pass  # the reader has seen enough
    finally:
        sys.stdout, paging = screen, False
        with suppress(BrokenPipeError):
            pipe.close()
        os.waitpid(pid, 0)
