"""T13: no prompt, no editor, no gpg, no hanging; the pager and colours as git has them."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
import tty
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.tiers import some

SNAPSHOT = ("snapshot", "--track", "t", "--step", "s")
BATON = [sys.executable, "-m", "gitbaton"]


def on_terminal(repo: Sandbox, *words: str, env: dict[str, str] | None = None, raw: bool = False) -> tuple[int, str]:
    """A command with a terminal as all its streams; exit status and what the terminal showed. Fails after 20 s."""
    master, slave = pty.openpty()
    if raw:
        tty.setraw(slave)
    before = termios.tcgetattr(slave)

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with subprocess.Popen(
        [*BATON, *words],
        cwd=repo.path,
        env={**os.environ, "TERM": "xterm", **(env or {})},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=own_terminal,
    ) as child:
        shown = _read(master, child)
    assert termios.tcgetattr(slave) == before
    os.close(slave)
    os.close(master)
    return child.returncode, shown.replace("\r\n", "\n")


def _read(master: int, child: subprocess.Popen[bytes]) -> str:
    chunks, deadline = [], time.monotonic() + 60
    while True:
        ready = select.select([master], [], [], 0.05)[0]
        if ready:
            chunks.append(os.read(master, 1 << 16))
        elif child.poll() is not None:
            return b"".join(chunks).decode()
        elif time.monotonic() > deadline:
            child.kill()
            raise AssertionError(f"still running after 20 s; it showed {b''.join(chunks)!r}")


def tool(path: Path, text: str) -> str:
    """A program that leaves the file ``used`` beside it, then does ``text``."""
    path.write_text(f'#!/bin/sh\ntouch "{path.parent}/used"\n{text}\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def trapped(repo: Sandbox, tmp_path: Path) -> Sandbox:
    """A repository whose gpg, editors, askpass and credential helpers hang or fail, and leave a trace."""
    hang = tool(tmp_path / "hang", "sleep 600")
    for key, value in {
        "commit.gpgSign": "true",
        "tag.gpgSign": "true",
        "push.gpgSign": "true",
        "gpg.program": tool(tmp_path / "gpg", "exit 1"),
        "core.editor": hang,
        "sequence.editor": hang,
        "core.askPass": hang,
        "credential.helper": f"!{hang}",
    }.items():
        repo.git("config", key, value)
    return repo


@pytest.mark.full
@some("raw", [False, True], ids=["cooked", "raw"])
def test_t13_nothing_asks_signs_or_edits_on_a_terminal(trapped: Sandbox, tmp_path: Path, raw: bool) -> None:
    for words in (SNAPSHOT, ("resume", "--live"), ("verify",), ("status",), ("tracks", "use", "t")):
        code, shown = on_terminal(trapped, *words, raw=raw)
        assert code == 0 and "fatal" not in shown, shown
    assert not (tmp_path / "used").exists()


@pytest.mark.deep
def test_t13_nothing_asks_signs_or_edits_without_a_terminal(trapped: Sandbox, tmp_path: Path) -> None:
    for words in (SNAPSHOT, ("resume", "--live"), ("log",), ("show",)):
        with subprocess.Popen([*BATON, *words], cwd=trapped.path, stdin=subprocess.DEVNULL, start_new_session=True) as child:
            assert child.wait(60) == 0
    assert not (tmp_path / "used").exists()
    assert "gpgsig" not in trapped.git("cat-file", "commit", "refs/baton/tracks/t")


@some("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_t13_closed_streams(repo: Sandbox, closed: str) -> None:
    for words in (SNAPSHOT, ("resume",), ("status",)):
        done = repo.run("sh", "-c", f'exec "$@" {closed}', "sh", *BATON, *words)
        assert done.code == 0 and "Traceback" not in done.err
    assert repo.git("log", "--first-parent", "--format=%s", "-1", "refs/baton/tracks/t") == "s"
    repo.fsck()


@pytest.fixture
def paging(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """A checkpoint, and a pager that leaves a trace and marks what it shows."""
    repo.ok(*SNAPSHOT)
    monkeypatch.setenv("PAGER", tool(tmp_path / "pager", "sed 's/^/paged: /'"))
    return repo


@pytest.mark.deep
def test_long_output_goes_through_the_pager_on_a_terminal(paging: Sandbox, tmp_path: Path) -> None:
    for words in (("log",), ("show",), ("tracks",)):
        code, shown = on_terminal(paging, *words)
        assert code == 0 and all(line.startswith("paged: ") for line in shown.splitlines()), shown
    assert (tmp_path / "used").exists()


@some("words", [("--no-pager", "log"), ("resume",), ("verify",), ("status",), SNAPSHOT], share=0)
def test_what_is_short_or_asked_not_to_is_not_paged(paging: Sandbox, tmp_path: Path, words: tuple[str, ...]) -> None:
    assert on_terminal(paging, *words)[0] == 0
    assert not (tmp_path / "used").exists()


@pytest.mark.deep
def test_nothing_is_paged_without_a_terminal_or_inside_a_pager(paging: Sandbox, tmp_path: Path) -> None:
    assert "paged" not in paging.ok("log").out
    assert "paged" not in on_terminal(paging, "log", env={"GIT_PAGER_IN_USE": "1"})[1]
    assert "paged" not in on_terminal(paging, "log", env={"GIT_PAGER": "cat"})[1]
    assert "paged" not in on_terminal(paging, "log", env={"GIT_PAGER": ""})[1]
    assert not (tmp_path / "used").exists()


@pytest.mark.deep
def test_the_pager_is_chosen_as_git_chooses_it(paging: Sandbox, tmp_path: Path) -> None:
    paging.git("config", "core.pager", tool(tmp_path / "other", "sed 's/^/core: /'"))
    assert on_terminal(paging, "log")[1].startswith("core: ")
    assert on_terminal(paging, "log", env={"GIT_PAGER": "sed 's/^/env: /'"})[1].startswith("env: ")


@pytest.mark.deep
def test_a_pager_that_leaves_early_is_no_error(paging: Sandbox) -> None:
    for command in ("true", "head -n 1", "exit 3"):
        code, shown = on_terminal(paging, "log", env={"GIT_PAGER": command})
        assert code == 0 and "Traceback" not in shown and "BrokenPipe" not in shown


ESC = "\x1b["


@pytest.mark.full
def test_colours_follow_git(repo: Sandbox) -> None:
    repo.ok(*SNAPSHOT, "--validation", "green")
    assert ESC in on_terminal(repo, "--no-pager", "log")[1] and ESC in on_terminal(repo, "status")[1]
    assert ESC not in on_terminal(repo, "--color=never", "status")[1]
    assert ESC not in on_terminal(repo, "status", env={"NO_COLOR": "1"})[1]
    assert ESC not in on_terminal(repo, "status", env={"TERM": "dumb"})[1]
    assert ESC in on_terminal(repo, "--color", "status", env={"NO_COLOR": "1"})[1]
    assert ESC not in repo.ok("status").out and ESC not in repo.ok("log").out
    assert ESC in repo.ok("--color=always", "status").out and ESC in repo.ok("--color", "log").out
    for value, tinted in (("false", False), ("never", False), ("auto", True), ("true", True)):
        repo.git("config", "color.ui", value)
        assert (ESC in on_terminal(repo, "status")[1]) == tinted
        assert ESC not in repo.ok("status").out
    repo.git("config", "color.ui", "never")
    repo.git("config", "color.baton", "auto")
    assert ESC in on_terminal(repo, "status")[1]
    for words in (("resume",), ("status", "--porcelain"), ("status", "--json"), ("log", "--json"), ("log", "-z")):
        assert ESC not in on_terminal(repo, "--no-pager", *words)[1]


@pytest.mark.deep
def test_t13_ctrl_c_ends_with_130_and_one_line_at_most(repo: Sandbox, tmp_path: Path) -> None:
    flag = tmp_path / "filtering"
    repo.git("config", "filter.slow.clean", f"touch '{flag}'; sleep 30; cat")
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.write("x.slow", "x\n")
    with subprocess.Popen([*BATON, *SNAPSHOT], cwd=repo.path, stderr=subprocess.PIPE, start_new_session=True) as child:
        until(flag.exists)
        os.killpg(child.pid, signal.SIGINT)
        err = child.communicate(timeout=60)[1]
    assert child.returncode == 130 and b"Traceback" not in err and err.count(b"\n") <= 1
    assert repo.try_git("rev-parse", "-q", "--verify", "refs/baton/tracks/t").code == 1
    assert not list((repo.path / ".git/baton/tmp").iterdir())


@pytest.mark.deep
def test_a_closed_pipe_ends_with_141_and_says_nothing(repo: Sandbox) -> None:
    for _ in range(3):
        repo.ok(*SNAPSHOT, "--note", "n" * 60_000)
    for words in (("resume", "--json"), ("log", "--json"), ("show",), ("log", "-z")):
        with subprocess.Popen([*BATON, *words], cwd=repo.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            assert child.stdout is not None and child.stderr is not None
            child.stdout.close()
            assert child.stderr.read() == b""
        assert child.returncode == 141, words
