"""The progress line: long work is said on a terminal, in one line that leaves nothing behind; nowhere else a byte of it."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest

from gitbaton.cli.columns import width
from gitbaton.cli.waiting import said
from tests.kit import Sandbox
from tests.kit.tables import each
from tests.kit.terminals import Terminal

ERASE = b"\r\x1b[K"
NOW = {"GIT_PROGRESS_DELAY": "0", "NO_COLOR": "1"}


def left(shown: bytes) -> list[str]:
    """What stands on the screen in the end, but for empty lines."""
    rows = [row.rpartition(ERASE)[2].decode() for row in shown.split(b"\r\n")]
    return [row for row in rows if row]


class Gate:
    """A clean filter that waits until it may go on."""

    def __init__(self, repo: Sandbox, folder: Path) -> None:
        self.path = folder / "gate"
        os.mkfifo(self.path)
        repo.git("config", "filter.slow.clean", f"cat {shlex.quote(str(self.path))} >/dev/null; cat")
        repo.write(".gitattributes", "*.slow filter=slow\n")
        repo.write("x.slow", "x\n")

    def open(self) -> None:
        """Let the filter go on."""
        self.path.write_bytes(b"")


@pytest.fixture
def gate(repo: Sandbox, tmp_path: Path) -> Gate:
    return Gate(repo, tmp_path)


@pytest.mark.deep
def test_long_work_is_said_and_the_result_takes_its_place(repo: Sandbox, gate: Gate) -> None:
    with Terminal(repo.path, "snapshot", "--track", "t", "done", env=NOW) as terminal:
        terminal.until(b"capturing 2 files  50 %  0 s")
        gate.open()
        assert terminal.end() == 0
        assert [row.split(" ")[::2] for row in left(terminal.shown)] == [["t", "done"]]
    repo.fsck()


@pytest.mark.full
def test_time_goes_on_while_git_is_waited_for_and_the_line_fits(repo: Sandbox, gate: Gate) -> None:
    with Terminal(repo.path, "snapshot", "--track", "t", "done", env=NOW, size=(24, 20)) as terminal:
        terminal.until("capturi…  50 %  1 s".encode())
        gate.open()
        assert terminal.end() == 0
        drawn = [row.partition(b"\r\n")[0].decode() for row in terminal.shown.split(ERASE)]
        assert all(width(row) < 20 for row in drawn[:-1])


@pytest.mark.deep
def test_ctrl_c_leaves_a_clean_line(repo: Sandbox, gate: Gate) -> None:
    with Terminal(repo.path, "snapshot", "--track", "t", "done", env=NOW) as terminal:
        terminal.until(b"capturing")
        terminal.press(b"\x03")
        assert terminal.end() == 130
        assert left(terminal.shown) == []


def test_an_error_takes_its_place_too(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "done")
    with Terminal(repo.path, "restore", "t~7", env=NOW) as terminal:
        assert terminal.end() == 2
        assert ERASE in terminal.shown and left(terminal.shown)[0].startswith("fatal: ")


@pytest.mark.full
def test_the_screen_is_gits_once_git_writes_on_it(repo: Sandbox) -> None:
    repo.write("a", "one\n")
    repo.ok("snapshot", "--track", "t", "done")
    repo.write("a", "two\n")
    pager = {"GIT_PAGER": "cat; sleep 0.5; echo end"}
    with Terminal(repo.path, "diff", env={**NOW, **pager}) as terminal:
        assert terminal.end() == 0
        drawn, _, shown = terminal.shown.partition(b"diff --git")
        assert drawn.endswith(ERASE) and b"+two" in shown and shown.endswith(b"end\r\n") and ERASE not in shown


@pytest.mark.full
@each(
    "words",
    [
        ("verify", "--quiet"),
        ("status", "--porcelain"),
        ("snapshot", "done", "--json"),
        ("snapshot", "done", "--porcelain"),
        ("restore", "--json"),
        ("du", "--json"),
    ],
)
def test_nothing_is_said_for_programs(repo: Sandbox, words: tuple[str, ...]) -> None:
    repo.ok("snapshot", "--track", "t", "first")
    with Terminal(repo.path, *words, env=NOW) as terminal:
        assert terminal.end() == 0 and b"\x1b" not in terminal.shown


@pytest.mark.deep
def test_nothing_is_said_where_no_line_can_be_erased(repo: Sandbox) -> None:
    with Terminal(repo.path, "snapshot", "--track", "t", "done", env={**NOW, "TERM": "dumb"}) as terminal:
        assert terminal.end() == 0 and b"\x1b" not in terminal.shown
    assert repo.ok("snapshot", "again", env={**NOW, "TERM": "xterm"}).err == ""


@pytest.mark.full
def test_a_question_stays_to_be_read(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("init", "-q", "--bare", str(tmp_path / "there"))
    repo.ok("snapshot", "--track", "t", "done")
    with Terminal(repo.path, "push", str(tmp_path / "there"), env=NOW) as terminal:
        terminal.until(b"push? [y/N] ")
        time.sleep(0.5)  # more than the line is drawn again after
        terminal.press(b"y\n")
        assert terminal.end() == 0
        asked = terminal.shown.partition(b"push? [y/N] ")[2].partition(b"y\r\n")
        assert asked[0] == b"" and asked[1]
        assert "push 't': new, 1 checkpoint" in left(asked[2])[0]


@each(
    "what, done, total, seconds, room, line",
    [
        ("capturing files", 18_600, 30_000, 11.9, 80, "capturing 30,000 files  62 %  11 s"),
        ("capturing files", 0, 30_000, 1, 80, "capturing 30,000 files  1 s"),
        ("capturing files", 0, 0, 125, 80, "capturing files  2 min 5 s"),
        ("capturing files", 1, 1, 2, 80, "capturing files  2 s"),
        ("capturing files", 31_000, 30_000, 2, 80, "capturing 30,000 files  100 %  2 s"),
        ("capturing files", 18_600, 30_000, 11, 30, "capturing 30,000…  62 %  11 s"),
        ("capturing files", 18_600, 30_000, 11, 18, "capturing…  11 s"),
        ("capturing files", 18_600, 30_000, 11, 12, ""),
        ("asking \x1b[2J", 0, 0, 3, 80, "asking ?[2J  3 s"),
    ],
)
def test_the_line(what: str, done: int, total: int, seconds: float, room: int, line: str) -> None:
    assert said(what, done, total, seconds, room) == line


@pytest.fixture
def there(repo: Sandbox, tmp_path: Path) -> str:
    """An empty repository beside one with a checkpoint."""
    repo.git("init", "-q", "--bare", str(tmp_path / "there"))
    repo.ok("snapshot", "--track", "t", "done")
    return str(tmp_path / "there")


@pytest.mark.deep
def test_a_password_is_asked_for_on_a_line_of_its_own(repo: Sandbox, there: str, tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\nprintf "Password: " >/dev/tty; read -r _ </dev/tty; shift; exec sh -c "$*"\n')
    ssh.chmod(0o755)
    env = {**NOW, "GIT_SSH_COMMAND": shlex.quote(str(ssh)), "GIT_SSH_VARIANT": "simple"}
    with Terminal(repo.path, "push", "--yes", f"host:{there}", env=env) as terminal:
        for number in (1, 2):  # git connects to look, and to push
            terminal.until(b"Password: ", number)
            time.sleep(0.4)  # more than the line is drawn again after
            terminal.press(b"word\n")
        assert terminal.end() == 0
    asked = terminal.shown.split(b"Password: ")[1:]
    assert len(asked) == 2 and all(text.startswith(b"word\r\n") for text in asked)


@pytest.mark.deep
def test_a_refusal_says_the_same_with_a_progress_line(repo: Sandbox, there: str) -> None:
    hook = Path(there, "hooks/pre-receive")
    hook.write_text("#!/bin/sh\nsleep 0.5; echo 'Total 5 is too many' >&2; exit 1\n")
    hook.chmod(0o755)
    plain = repo.baton("push", "--yes", there)
    with Terminal(repo.path, "push", "--yes", there, env=NOW, size=(24, 200)) as terminal:
        assert terminal.end() == plain.code == 1
        assert ERASE in terminal.shown
    assert left(terminal.shown)[-len(plain.err.splitlines()) :] == plain.err.splitlines()
    assert "Total 5 is too many" in plain.err
