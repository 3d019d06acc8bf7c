"""A command shown on a terminal: pseudo-terminals, size, Ctrl-C, Ctrl-Z, and what is left of the terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kit.commands import driver, sweep
from tests.kit.places import PYTHON

# A shell with job control: it runs its arguments as a job, says when that was stopped, and goes on with it after a line.
SHELL = """
import os, signal, subprocess, sys, termios
def says(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())
ours = signal.SIGTTOU
signal.signal(ours, signal.SIG_IGN)
job = subprocess.Popen(sys.argv[1:], process_group=0, preexec_fn=lambda: signal.signal(ours, signal.SIG_DFL))
os.tcsetpgrp(0, job.pid)
modes = termios.tcgetattr(0)
while True:
    status = os.waitpid(job.pid, os.WUNTRACED)[1]
    owner = os.tcgetpgrp(0)
    right = owner == job.pid and termios.tcgetattr(0) == modes
    os.tcsetpgrp(0, os.getpgrp())
    if os.WIFSTOPPED(status):
        says("[stopped", right, "]")
        os.read(0, 100)
        os.tcsetpgrp(0, job.pid)
        os.kill(-job.pid, signal.SIGCONT)
    else:
        says("[ended", right, os.waitstatus_to_exitcode(status), "]")
        break
"""


# Runs its argument twice, side by side.
PAIR = """
import os, sys, threading
from gitbaton.base.system.children import UserCommand, run, signals
ended = []
def one(number):
    command = UserCommand(argv=("sh", "-c", sys.argv[1], "sh", number), cwd=os.getcwd(), env=dict(os.environ))
    ended.append(run(command, started=lambda _: None).exit)
threads = [threading.Thread(target=one, args=(number,)) for number in "12"]
with signals():
    for thread in threads: thread.start()
    for thread in threads: thread.join()
sys.exit(max(ended))
"""


# A shell that starts a program may miss a Ctrl-C in that moment.
READY = f"""exec {PYTHON} -SEc 'import signal, sys, time; signal.signal(2, signal.SIG_DFL)
print("ready" + sys.argv[1], flush=True); time.sleep(60)' "$1" """


class Screen:
    """A shell on a terminal of its own that runs a command through the driver; ``shown`` is what the terminal showed."""

    def __init__(self, place: Path, line: str, *, wrap: str = "", words: Sequence[str] = (), **options: Any) -> None:
        self.place, self.shown = place, b""
        self.master, self.slave = pty.openpty()
        self.resize(31, 97)
        words = [sys.executable, "-c", *words] if words else driver(place / "result", "sh", "-c", line, **options)
        if wrap:
            words = ["sh", "-c", wrap, "sh", *words]
        self.shell = subprocess.Popen(
            [sys.executable, "-c", SHELL, *words],
            cwd=place,
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.shell.kill()
        self.shell.wait()
        os.close(self.slave)
        os.close(self.master)

    def resize(self, rows: int, columns: int) -> None:
        """Another size."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: bytes) -> None:
        """What somebody types."""
        os.write(self.master, keys)

    def until(self, text: bytes) -> None:
        """Wait until something is shown."""
        deadline = time.monotonic() + 60
        while text not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} was not shown: {self.shown!r}"
            if select.select([self.master], [], [], 0.05)[0]:
                self.shown += os.read(self.master, 1 << 16)

    def number(self) -> int:
        """The process that runs the command."""
        return int((self.place / "result.driver").read_text())

    def end(self, code: int = 0) -> list[Any]:
        """Wait for the end; what the driver found. The terminal must be as it was, and the job's turn."""
        self.until(b"[ended")
        self.until(b"]\r\n")
        assert f"[ended True {code} ]".encode() in self.shown, self.shown
        made: list[Any] = json.loads((self.place / "result").read_text())
        return made


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder for a command; what wrote its process id into a ``*.pid`` there is ended afterwards."""
    (tmp_path / "place").mkdir()
    yield tmp_path / "place"
    sweep(tmp_path / "place")


@pytest.mark.deep
def test_a_command_sees_a_terminal_of_our_size(place: Path) -> None:
    line = "test ! -t 0 && test -t 1 && test -t 2 && stty size <&1 && stty size <&2; printf 'a\\n\\033[1mb\\r\\n'"
    with Screen(place, line) as screen:
        assert screen.end() == [0, None, False, False, "31 97\n31 97\na\n\x1b[1mb\r\n"]
    assert screen.shown.startswith(b"31 97\r\n31 97\r\na\r\n\x1b[1mb\r\r\n[ended")


@pytest.mark.deep
def test_only_what_is_a_terminal_is_one_for_the_command(place: Path) -> None:
    with Screen(place, "test -t 1; echo $?; test -t 2; echo $? >&2", wrap='"$@" > out') as screen:
        screen.end()
    assert (place / "out").read_text() == "1\n" and screen.shown.startswith(b"0\r\n[ended")


def test_another_size_is_passed_on(place: Path) -> None:
    line = "trap 's=$(stty size <&2)' WINCH; s=; echo ready; until test \"$s\" = '50 120'; do sleep 0.02; done; echo $s"
    with Screen(place, line) as screen:
        screen.until(b"ready")
        screen.resize(50, 120)
        assert screen.end() == [0, None, False, False, "ready\n50 120\n"]


def test_control_c_reaches_the_command(place: Path) -> None:
    with Screen(place, READY) as screen:
        screen.until(b"ready")
        screen.press(b"\x03")
        assert screen.end() == [130, "SIGINT", False, True, "ready\n"]


@pytest.mark.deep
def test_a_command_has_no_terminal_to_ask_at(place: Path) -> None:
    line = "read -r x < /dev/tty; echo no $?; read -r y; echo no $?"
    with Screen(place, line) as screen:
        screen.press(b"a password\n")
        code, _, _, _, out = screen.end()
    assert code == 0 and out.count("no ") == 2 and "no 0" not in out


@pytest.mark.deep
def test_control_z_stops_all_and_fg_goes_on(place: Path) -> None:
    line = "echo ready; until test -e go; do echo >> ticks; sleep 0.01; done; echo done"
    with Screen(place, line, timeout=3) as screen:
        screen.until(b"ready")
        screen.press(b"\x1a")
        screen.until(b"[stopped True ]")
        ticks = (place / "ticks").read_text() if (place / "ticks").exists() else ""
        time.sleep(3)  # does not count
        assert not ticks or (place / "ticks").read_text() == ticks
        (place / "go").touch()
        screen.press(b"\n")
        assert screen.end() == [0, None, False, False, "ready\ndone\n"]


@pytest.mark.deep
def test_control_c_reaches_commands_side_by_side(place: Path) -> None:
    with Screen(place, "", words=[PAIR, READY]) as screen:
        screen.until(b"ready1")
        screen.until(b"ready2")
        screen.press(b"\x03")
        screen.until(b"[ended True 130 ]")
        assert b"[stopped" not in screen.shown, screen.shown


@pytest.mark.full
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT])
def test_what_a_command_does_to_its_terminal_is_not_done_to_ours(place: Path, number: signal.Signals | None) -> None:
    line = "stty raw -echo <&1; echo ready; " + ("exec sleep 60" if number else "kill -s KILL $$")
    with Screen(place, line) as screen:
        screen.until(b"ready")
        if number is not None:
            os.kill(screen.number(), number)
        assert screen.end()[:4] == [128 + (number or 9), number.name if number else "SIGKILL", False, number is not None]
