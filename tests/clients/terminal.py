"""A client on a terminal of its own: what it shows, and keys."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from threading import Thread

PATIENCE = 300.0
_CONTROL = re.compile(rb"\x1b\[[0-9;?<>=]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b.")


class Screen:
    """The other side of a program's terminal."""

    def __init__(self, master: int, child: subprocess.Popen[bytes]) -> None:
        self.master, self.child = master, child
        self.raw = b""
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                ready = select.select([self.master], [], [], 0.1)[0]
                block = os.read(self.master, 1 << 16) if ready else None
            except OSError:
                return
            if block == b"" or (block is None and self.child.poll() is not None):
                return
            self.raw += block or b""

    @property
    def text(self) -> str:
        """All that was shown, without colours and places; blanks are dropped, because they are places."""
        return self._text(0)

    def _text(self, since: int) -> str:
        return _CONTROL.sub(b"", self.raw[since:]).decode("utf-8", "replace").replace(" ", "")

    def until(self, words: str, since: int = 0) -> None:
        """Wait until words are shown, after the first ``since`` bytes of all that was."""
        deadline = time.monotonic() + PATIENCE
        while words.replace(" ", "") not in self._text(since):
            assert time.monotonic() < deadline and self.child.poll() is None, f"no {words!r} in:\n{self.text[-3000:]}"
            time.sleep(0.05)

    def type(self, words: str) -> None:
        """Words, and Enter once the last of them is shown; keys that come too fast would be taken for pasted text. Of the
        others a letter may be missing: where the same one stood there before, it is not drawn again."""
        since = len(self.raw)
        os.write(self.master, words.encode())
        self.until(words.split()[-1], since)
        time.sleep(0.3)
        os.write(self.master, b"\r")

    def ended(self) -> None:
        """Wait for the end of the program."""
        self.child.wait(PATIENCE)
        self._thread.join(5)
