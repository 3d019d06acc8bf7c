"""A terminal of tmux's own: a shell in it, keys, and what it shows."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.kit.repos import Sandbox

PATIENCE = 60.0
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux (apt-get install tmux)")


class Tmux:
    """A shell in a terminal of tmux's own."""

    def __init__(self, box: Sandbox, folder: Path, size: tuple[int, int]) -> None:
        self.base = ["tmux", "-u", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        words = ["new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(box.path), "sh"]
        env = {name: text for name, text in os.environ.items() if name not in ("LINES", "COLUMNS")}  # readline sets them
        subprocess.run([*self.base, *words], check=True, env=env)
        self.type("PS1='ready$ '; clear", "Enter")
        self.until("ready$")

    def __enter__(self) -> Tmux:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self.base, "kill-server"], check=False)

    def type(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        subprocess.run([*self.base, "send-keys", *keys], check=True)

    def shown(self, *options: str) -> str:
        """What is on the screen; ``-e``: with its colours."""
        words = [*self.base, "capture-pane", "-p", *options]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def until(self, text: str) -> str:
        """Wait until a text is on the screen, and what else is then."""
        deadline = time.monotonic() + PATIENCE
        while text not in (shown := self.shown()):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)
        return shown

    def modes(self) -> str:
        """What programs may leave behind: the other screen, the cursor, the mouse, keys."""
        names = [
            "alternate_on",
            "cursor_flag",
            "mouse_any_flag",
            "mouse_sgr_flag",
            "keypad_flag",
            "keypad_cursor_flag",
            "wrap_flag",
        ]
        form = " ".join(f"#{{{name}}}" for name in names)
        return subprocess.run([*self.base, "display", "-p", form], check=True, capture_output=True, text=True).stdout

    def settings(self) -> str:
        """The settings of the terminal, as stty has them."""
        self.type("clear; stty -a; echo 'that is' all", "Enter")
        return self.until("that is all").partition("ready$")[0].rstrip()
