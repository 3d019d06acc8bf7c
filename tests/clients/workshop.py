"""Where a real client works: a repository with a manual checkpoint and drift, a HOME of its own, our hooks in its settings."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import queue
import shutil
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.terminal import Screen
from tests.kit import Outcome, Sandbox

TRACK = "work"
STEP = "parser done"
NEXT = "pytest -q tests/test_parser.py"
NOTE = "the lexer keeps its positions"
PATIENCE = 600.0  # seconds; on a busy machine one client takes a minute of it to start
WRAPPER = """#!/bin/sh
[ "$1" = hook ] || exec {program} "$@"
kept=$(mktemp {log}/XXXXXXXX) || exit 0
cat > "$kept.in"
began=$(date +%s%N)
{program} "$@" < "$kept.in" > "$kept.out" 2> "$kept.err"
code=$?
printf '%s\\t%s\\t%s\\t%s\\t%s\\n' "$2" "$3" "$began" "$(date +%s%N)" "$code" > "$kept.row"
cat "$kept.out"
exit $code
"""


@dataclass(frozen=True)
class HookRun:
    """One call of our hook by the client: what went in and out, and how long it took."""

    agent: str
    event: str
    began: int
    seconds: float
    code: int
    payload: Any
    out: str
    err: str


class Workshop:
    """The repository ``repo``, the client's ``home``, and what our hooks did there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home-of-client"
        self.log = folder / "hooks"
        self.bin = folder / "bin"
        for place in (self.home, self.log, self.bin, folder / "tmp"):
            place.mkdir(parents=True)
        wrapper = self.bin / "git-baton"
        wrapper.write_text(WRAPPER.format(program=_program(), log=self.log))
        wrapper.chmod(0o755)
        self.repo = Sandbox.init(folder / "project")
        self._prepare()

    def _prepare(self) -> None:
        self.repo.write("src/lexer.py", "POSITIONS = True\n")
        self.repo.write("src/parser.py", "def parse(): ...\n")
        self.repo.commit("parser")
        words = ("--track", TRACK, "--step", STEP, "--next-cmd", NEXT, "--note", NOTE, "--validation", "green")
        self.repo.ok("snapshot", *words, "--decision", "no backtracking")
        self.drift()

    def drift(self) -> None:
        """One commit more, and a changed file."""
        self.repo.write("README", self.repo.head())
        self.repo.git("add", "README")
        self.repo.git("commit", "-q", "-m", "readme")
        self.repo.write("src/parser.py", f"def parse(): return {time.monotonic_ns()}\n")

    @property
    def env(self) -> dict[str, str]:
        """What a client sees: no identity of git, no way out to the network."""
        nowhere = "http://127.0.0.1:9"
        found = {name: os.environ[name] for name in ("PATH", "LC_ALL", "TZ", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES")}
        found |= {"HOME": str(self.home), "TERM": "xterm-256color", "TMPDIR": str(self.folder / "tmp"), "SHELL": "/bin/sh"}
        found |= {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "http_proxy": nowhere, "https_proxy": nowhere}
        found |= {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
        return {**found, "PATH": f"{self.bin}{os.pathsep}{found['PATH']}"}

    def install(self, *words: str, env: Mapping[str, str] | None = None) -> Outcome:
        """``git baton agent install``, as the user of the client types it."""
        done = self.run(str(self.bin / "git-baton"), "agent", "install", *words, env=env)
        assert done.code == 0, f"agent install {' '.join(words)}: {done.code}\n{done.out}\n{done.err}"
        return done

    def run(self, *argv: str, env: Mapping[str, str] | None = None, stdin: str = "", cwd: Path | None = None) -> Outcome:
        """A program in the client's environment; it and all it started are gone afterwards."""
        with self._process(argv, env, cwd) as child:
            try:
                out, err = child.communicate(stdin, PATIENCE)
            except subprocess.TimeoutExpired:
                _end(child)
                out, err = child.communicate()
                raise AssertionError(f"{argv[0]} did not end in {PATIENCE} s\n{out}\n{err}") from None
        return Outcome(child.returncode, out, err)

    @contextmanager
    def talk(self, *argv: str, env: Mapping[str, str] | None = None) -> Iterator[Dialogue]:
        """A program that reads and writes a JSON value a line, until the block ends."""
        with self._process(argv, env, None) as child:
            yield Dialogue(child)

    @contextmanager
    def terminal(self, *argv: str, env: Mapping[str, str] | None = None) -> Iterator[Screen]:
        """A program on a terminal of its own, until the block ends."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        whole = {**self.env, **(env or {})}
        with subprocess.Popen(
            argv, cwd=self.repo.path, env=whole, stdin=slave, stdout=slave, stderr=slave, preexec_fn=_own_terminal
        ) as child:
            os.close(slave)
            try:
                yield Screen(master, child)
            finally:
                _end(child)
        os.close(master)

    @contextmanager
    def _process(
        self, argv: tuple[str, ...], env: Mapping[str, str] | None, cwd: Path | None
    ) -> Iterator[subprocess.Popen[str]]:
        pipe = subprocess.PIPE
        with subprocess.Popen(
            argv,
            cwd=cwd or self.repo.path,
            env={**self.env, **(env or {})},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        ) as child:
            try:
                yield child
            finally:
                _end(child)

    def hooks(self, event: str | None = None) -> list[HookRun]:
        """The calls of our hook that ended, in the order in which they began."""
        runs = [_hook_run(row) for row in self.log.glob("*.row")]
        return sorted((run for run in runs if event in (None, run.event)), key=lambda run: run.began)

    def await_hook(self, event: str, count: int = 1) -> None:
        """Until so many calls of our hook for an event have ended."""
        deadline = time.monotonic() + PATIENCE
        while len(self.hooks(event)) < count:
            assert time.monotonic() < deadline, f"no {event} among {[run.event for run in self.hooks()]}"
            time.sleep(0.02)

    def await_words(self, words: bytes) -> None:
        """Until the client has written some words to a file of its own: what it is told and what it has on record differ."""
        deadline = time.monotonic() + PATIENCE
        while not any(words in file.read_bytes() for file in self.home.rglob("*") if file.is_file()):
            assert time.monotonic() < deadline, f"{words!r} is in no file of the client"
            time.sleep(0.05)

    def checkpoints(self) -> list[dict[str, Any]]:
        """The track's checkpoints, newest first, as ``git baton log --json`` gives them."""
        found: list[dict[str, Any]] = self.repo.ok("log", TRACK, "--json").json["checkpoints"]
        return found


class Dialogue:
    """A running program, by lines: a JSON value, or else a text."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self.child = child
        self.heard: list[Any] = []
        self._lines: queue.Queue[Any] = queue.Queue()
        self._errors: list[str] = []
        for work in (self._listen, self._drain):
            threading.Thread(target=work, daemon=True).start()

    def _listen(self) -> None:
        assert self.child.stdout
        for line in self.child.stdout:
            self._lines.put(json.loads(line) if line.startswith("{") else line)
        self._lines.put(None)

    def _drain(self) -> None:
        assert self.child.stderr
        self._errors += self.child.stderr

    def say(self, value: Any) -> None:
        """One line."""
        assert self.child.stdin
        self.child.stdin.write(json.dumps(value) + "\n")
        self.child.stdin.flush()

    def wait(self, wanted: Callable[[Any], bool]) -> Any:
        """The next JSON value for which ``wanted`` holds."""
        return self._next(lambda heard: isinstance(heard, dict) and wanted(heard))

    def wait_line(self, wanted: Callable[[str], bool]) -> str:
        """The next line of text for which ``wanted`` holds."""
        return str(self._next(lambda heard: isinstance(heard, str) and wanted(heard)))

    def _next(self, wanted: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                value = self._lines.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                value = None
            assert value is not None, f"waited in vain: {self.heard[-3:]} {''.join(self._errors)[-2000:]}"
            self.heard.append(value)
            if wanted(value):
                return value

    def hang_up(self) -> None:
        """Close its input."""
        assert self.child.stdin
        self.child.stdin.close()

    def end(self) -> int:
        """Close its input; the exit status."""
        self.hang_up()
        return self.child.wait(PATIENCE)


def _program() -> str:
    found = shutil.which("git-baton")
    assert found, "the console script git-baton is not installed beside this Python"
    return found


def client(name: str) -> str:
    """A client's program: in the folder that GITBATON_TEST_CLIENTS names, or on PATH; without one the test is skipped."""
    found = shutil.which(name, path=os.environ.get("GITBATON_TEST_CLIENTS")) or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} on PATH or in the folder that GITBATON_TEST_CLIENTS names")
    return found


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _end(child: subprocess.Popen[Any]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _hook_run(row: Path) -> HookRun:
    agent, event, began, ended, code = row.read_text().rstrip("\n").split("\t")
    raw = row.with_suffix(".in").read_text()
    return HookRun(
        agent=agent,
        event=event,
        began=int(began),
        seconds=(int(ended) - int(began)) / 1e9,
        code=int(code),
        payload=json.loads(raw) if raw.strip() else None,
        out=row.with_suffix(".out").read_text(),
        err=row.with_suffix(".err").read_text(),
    )
