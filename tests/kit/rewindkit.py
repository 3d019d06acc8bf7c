"""What the rewind tests share: the real process on a terminal of a size, answered prompt by prompt."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Mapping
from pathlib import Path

from gitbaton.agents import transcripts
from gitbaton.base.clients import HookEvent
from gitbaton.base.codec import transcript_text
from gitbaton.base.model import Agent, Stored
from tests.kit import Sandbox

WHICH, WHAT, SURE = "Enter to leave] ", "[q]uit? ", "go on? [y/N] "
SESSION = "e8b31b82-3a88-40ec-b500-13cf0a0662a6"
PATIENCE = 30.0
COLOR = re.compile(r"\x1b\[[0-9;]*m")


class Screen:
    """``git baton rewind --list`` on a pseudo-terminal of so many rows and columns; ``raw``: keys reach it as they are."""

    PROGRAM = (sys.executable, "-m", "gitbaton")

    def __init__(
        self,
        box: Sandbox,
        *words: str,
        size: tuple[int, int] = (24, 120),
        env: Mapping[str, str] | None = None,
        raw: bool = False,
        before: tuple[str, ...] = (),
        program: tuple[str, ...] = PROGRAM,
        listed: bool = True,
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        if raw:
            tty.setraw(slave)

        def own_terminal() -> None:
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs are told to ignore it
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.child = subprocess.Popen(
            [*program, *before, "rewind", *(["--list"] if listed else []), *words],
            cwd=box.path,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **(env or {})},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=own_terminal,
        )
        os.close(slave)
        self.shown = ""

    def __del__(self) -> None:
        """A test that fails in the middle leaves no process behind."""
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def until(self, text: str) -> str:
        """What is shown up to a text, which is waited for."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.shown:
            assert self._more(deadline), f"it ended with {self.child.wait()} before {text!r}; it showed {self.shown!r}"
        seen, _, self.shown = self.shown.partition(text)
        return seen

    def answer(self, prompt: str, text: str) -> str:
        """Wait for a prompt and type a text; what was shown before the prompt."""
        seen = self.until(prompt)
        self.type(text)
        return seen

    def type(self, text: str) -> None:
        os.write(self.master, text.encode("utf-8", "surrogateescape"))

    def end(self) -> tuple[int, str]:
        """The exit status and what else was shown."""
        deadline = time.monotonic() + PATIENCE
        while self._more(deadline):
            pass
        os.close(self.master)
        return self.child.wait(PATIENCE), self.shown

    def _more(self, deadline: float) -> bool:
        """Read on; False at the end. Fails the test when nothing ends."""
        while not select.select([self.master], [], [], 0.1)[0]:
            if time.monotonic() > deadline:
                os.killpg(self.child.pid, signal.SIGKILL)
                self.child.wait()
                raise AssertionError(f"nothing happens; it showed {self.shown!r}")
        try:
            chunk = os.read(self.master, 1 << 16)
        except OSError:  # the last process has let go of the terminal
            return False
        self.shown += chunk.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(chunk)


def take(box: Sandbox, step: str, track: str = "t", **words: object) -> Stored:
    """A checkpoint, by the API: quicker than a process."""
    with box.open(door="binary") as baton:
        return baton.snapshot(step, track=track, **words).stored


def three(repo: Sandbox) -> Sandbox:
    """The repository with three checkpoints of a track, the second one green and labelled."""
    take(repo, "first step")
    repo.write("a.txt", "one\ntwo\n")
    repo.write("b.txt", "b\n")
    take(repo, "second step", validation="green", label="good")
    repo.write("a.txt", "three\n")
    take(repo, "third step")
    return repo


def steps(shown: str) -> list[str]:
    """The lines of a list, from the number on."""
    return [row for row in COLOR.sub("", shown).splitlines() if re.match(r" *\d+ ", row)]


def spoken_to(box: Sandbox, home: Path, step: str = "talked", track: str = "t", agent: str = "claude") -> Stored:
    """A checkpoint that knows of a conversation, whose file its client keeps; made by hand after Claude Code's format."""
    path = home / f".claude/projects/-there/{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = [("user", "u-1", None, "please mend it"), ("assistant", "u-2", "u-1", "mended")]
    rows = [
        {"type": kind, "uuid": key, "parentUuid": above, "sessionId": SESSION, "message": {"role": kind, "content": text}}
        for kind, key, above, text in said
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    event = HookEvent(agent="claude", name="Stop", moment="turn", session=SESSION, transcript=str(path))
    with box.open(door="binary") as baton:
        found = transcripts.record(baton, event, "position", None)
        assert found is not None
        return baton.snapshot(
            step, track=track, agent=Agent(name=agent, session=SESSION, transcript=transcript_text(found))
        ).stored
