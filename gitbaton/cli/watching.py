"""Watch: a screen of its own that is drawn again when what it shows may have moved, without a busy loop."""

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Sequence

TICK = 0.5  # seconds between two looks at a few files
STALE = 60.0  # seconds until it is drawn again though nothing moved: ages grow, and files may have changed
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h\x1b[?1049l"  # other screen, no cursor, no wrapping
_HOME, _CLEAR, _BELOW = "\x1b[H", "\x1b[K", "\x1b[J"

Draw = Callable[[], tuple[Sequence[str], Callable[[], bool]]]


def watch(draw: Draw) -> int:
    """Show lines until somebody types ``q`` (0) or Ctrl-C (KeyboardInterrupt); the terminal stays as it was. ``draw`` gives
    the lines, and what says whether they still hold."""
    keys = os.isatty(0)
    settings = termios.tcgetattr(0) if keys else []
    asked = [signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)]
    stop = signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # else the other screen stays behind
    try:
        if keys:
            quiet = [*settings]
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(0, termios.TCSADRAIN, quiet)
        _write(_ENTER)
        while True:
            size, until = os.get_terminal_size(1), time.monotonic() + STALE
            lines, holds = draw()
            rows = [*lines[: max(size.lines - 1, 1)], f"{time.strftime('%H:%M')}  q leaves"]
            # Cleared first: after a full line the cursor still stands on its last character.
            _write(_HOME + "\n".join(_CLEAR + row for row in rows) + _BELOW)
            while holds() and os.get_terminal_size(1) == size and time.monotonic() < until:
                if not keys:
                    time.sleep(TICK)
                elif select.select([0], [], [], TICK)[0]:
                    typed = os.read(0, 1024)
                    if not typed or b"q" in typed:
                        return 0
    finally:
        _write(_LEAVE)
        if keys:
            termios.tcsetattr(0, termios.TCSADRAIN, settings)
        for number, handler in zip((signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP), (*asked, stop), strict=True):
            signal.signal(number, handler)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
