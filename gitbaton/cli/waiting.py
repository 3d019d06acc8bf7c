"""Progress line on standard error, and a screen that is drawn anew while it is watched; both are erased at the end."""

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Optional

from gitbaton.base import terminal
from gitbaton.base.codec import plain
from gitbaton.cli.columns import cut, screen, width

ERASE = "\r\x1b[K"
DELAY = 1.0  # seconds until it is shown; GIT_PROGRESS_DELAY, git's own variable, says otherwise
_AGAIN = 0.2  # seconds between two looks


def spent(seconds: float) -> str:
    """Return a duration of so many seconds: ``8.1 s``, ``2 min 5 s``, ``1 h 2 min``."""
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def said(what: str, done: int, total: int, seconds: float, room: int) -> str:
    """Return ``capturing 30,000 files 62 % 11 s`` in less than so many columns: the words are cut first. ``what`` ends in what
    is counted; without a total there is neither number nor percentage."""
    what = plain(what)
    verb, _, things = what.rpartition(" ")
    text = f"{verb} {total:,} {things}" if total > 1 else what
    share = f"  {min(done, total) * 100 // total} %" if total > 1 and done else ""
    time = f"  {int(seconds)} s" if seconds < 60 else f"  {spent(seconds)}"
    for end in (share + time, time):
        left = room - 1 - width(end)  # a full last column makes some terminals begin another line
        if left >= 8:
            return cut(text, left) + end
    return ""


class Waiting:
    """Progress line for ``Repo.progress``. An alarm draws the line in the main thread, whatever that waits for; any other
    output ends it first, and the next word of the core begins it again."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.work: tuple[str, int, int] = ("", 0, 0)
        self.shown = ""
        self.armed = False
        given = os.environ.get("GIT_PROGRESS_DELAY", "")
        self.delay = float(given[:9]) if given.isdecimal() else DELAY
        self._before = signal.signal(signal.SIGALRM, self._look)
        signal.siginterrupt(signal.SIGALRM, False)  # no call of a library is cut short

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take the current work and how far it is; an empty text hides the line, so that other output can follow."""
        self.work = (what, done, total)
        if not what:
            self.still()
        elif not (self.armed or terminal.paging):
            self.armed = True
            terminal.waiting = self.still
            signal.setitimer(signal.ITIMER_REAL, max(self.began + self.delay - time.monotonic(), 0.001), _AGAIN)

    def _look(self, _number: int, _frame: Optional[FrameType]) -> None:
        """Show the line as it is now; at the bytes, as what is interrupted may be writing to the stream."""
        if not self.armed or not _in_front():
            return
        line = said(*self.work, time.monotonic() - self.began, screen(2)[0] or 80)
        if line != self.shown:
            self._write(ERASE + line)
            self.shown = line

    def still(self) -> None:
        """Erase the line: other output follows, or all is done."""
        self.armed, terminal.waiting = False, None
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.shown:
            self.shown = ""
            self._write(ERASE)

    def close(self) -> None:
        """Erase the line and restore the signal handler."""
        self.still()
        signal.signal(signal.SIGALRM, self._before)

    def _write(self, text: str) -> None:
        try:
            os.write(2, text.encode("utf-8", "replace"))
        except OSError:
            return


def _in_front() -> bool:
    """Whether this process may draw: one in the background leaves the screen alone."""
    try:
        return os.tcgetpgrp(2) == os.getpgrp()
    except OSError:  # not our controlling terminal
        return True


TICK = 0.5  # seconds between two looks at a few files
STALE = 60.0  # seconds until it is drawn again though nothing moved: ages grow, and files may have changed
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"  # other screen, no cursor, no wrapping
_HOME, _CLEAR, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"

Draw = Callable[[], tuple[Sequence[str], Callable[[], bool]]]


def watch(draw: Draw) -> int:
    """Show lines until ``q`` (0) or Ctrl-C (KeyboardInterrupt) is typed; the terminal stays as it was. ``draw`` returns the
    lines, and a function that tells whether they still hold."""
    keys = os.isatty(0)
    settings = termios.tcgetattr(0) if keys else []
    asked = [signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)]
    stop = signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # else the other screen stays behind
    try:
        if keys:
            quiet = [*settings]
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(0, termios.TCSADRAIN, quiet)
        _draw(_ENTER)
        while True:
            size, until = os.get_terminal_size(1), time.monotonic() + STALE
            lines, holds = draw()
            rows = [*lines[: max(size.lines - 1, 1)], f"{time.strftime('%H:%M')}  q leaves"]
            # Cleared first: after a full line the cursor still stands on its last character.
            _draw(_HOME + "\n".join(_CLEAR + row for row in rows) + _BELOW)
            while holds() and os.get_terminal_size(1) == size and time.monotonic() < until:
                if not keys:
                    time.sleep(TICK)
                elif select.select([0], [], [], TICK)[0]:
                    typed = os.read(0, 1024)
                    if not typed or b"q" in typed:
                        return 0
    finally:
        _draw(_LEAVE)
        if keys:
            termios.tcsetattr(0, termios.TCSADRAIN, settings)
        for number, handler in zip((signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP), (*asked, stop), strict=True):
            signal.signal(number, handler)


def _draw(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
