"""``status`` on a terminal: a screen of it, watched until a key; and ``git baton`` alone, which says how to go on."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.state import snap
from tests.kit.talks import Talk
from tests.kit.terminals import Terminal

OTHER, BACK = b"\x1b[?1049h", b"\x1b[?1049l"


def shown(repo: Sandbox, *words: str, size: tuple[int, int]) -> str:
    with Terminal(repo.path, *words, size=size) as screen:
        assert screen.end() == 0
        return screen.shown.decode().replace("\r\n", "\n")


@pytest.mark.full
def test_at_most_a_screen_of_rows_on_a_terminal(repo: Sandbox) -> None:
    for number in range(6):
        snap(repo, f"t{number}", f"step {number}")
    repo.ok("tracks", "use", "t1")
    rows = shown(repo, "--color=never", "status", size=(6, 80)).splitlines()
    assert [row.split()[-1] for row in rows[1:4]] == ["1", "5", "4"], "the current one, then the newest"
    assert rows[4] == "6 tracks, 3 not shown (--all).  t1: = home" and len(rows) == 5
    assert len(shown(repo, "status", "--all", size=(6, 80)).splitlines()) == 8
    assert len(repo.ok("status").out.splitlines()) == 8, "what is no terminal has no height"
    repo.git("symbolic-ref", "--delete", "BATON_HEAD")
    assert repo.ok("status").out.splitlines()[-1] == "6 tracks"


@pytest.mark.full
def test_a_watch_draws_again_when_something_moves(repo: Sandbox) -> None:
    snap(repo, "t", "the first step")
    with Terminal(repo.path, "--color=never", "status", "--watch", size=(10, 80)) as screen:
        screen.until(b"the first step")
        assert screen.shown.startswith(OTHER) and BACK not in screen.shown
        snap(repo, "t", "the second step")
        screen.until(b"the second step")
        repo.git("checkout", "-q", "-b", "aside")
        screen.until(b"! branch switched")
        screen.resize(10, 40)
        screen.until(b"  TRACK  AGE  TESTS  STEP")
        screen.press(b"xq")
        assert screen.end() == 0 and screen.shown.endswith(BACK)


@pytest.mark.full
def test_ctrl_c_ends_a_watch_and_the_terminal_is_as_it_was(repo: Sandbox) -> None:
    snap(repo)
    with Terminal(repo.path, "status", "--watch") as screen:
        screen.until(b"q leaves")
        ticks = _spent(screen.child.pid)
        time.sleep(10)
        assert _spent(screen.child.pid) - ticks <= 0.1 * os.sysconf("SC_CLK_TCK"), "under 1 % of a core"
        screen.press(b"\x03")
        assert screen.end() == 130 and screen.shown.endswith(BACK)


def _spent(pid: int) -> int:
    """Ticks of a processor that a process and its children took."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]))


@pytest.mark.deep
def test_a_watch_wants_a_terminal(repo: Sandbox) -> None:
    snap(repo)
    for words in (("--watch",), ("--watch", "--all")):
        done = repo.baton("status", *words)
        assert (done.code, done.err.count("\n")) == (129, 2) and "--watch draws on a terminal" in done.err
    assert repo.baton("status", "--watch", "--json").err.startswith("fatal: --watch and --json exclude each other")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[list[str]]:
    """A server of tmux of this test's own."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not here")
    words = ["tmux", "-u", "-S", str(tmp_path / "tmux"), "-f", os.devnull]
    yield words
    subprocess.run([*words, "kill-server"], capture_output=True)


@pytest.mark.deep
def test_a_watch_in_a_real_terminal(repo: Sandbox, tmux: list[str]) -> None:
    def screen() -> str:
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout

    snap(repo, "t", "step " * 40)
    begin = ["new-session", "-d", "-x", "80", "-y", "12", "-c", str(repo.path), "sh"]
    subprocess.run([*tmux, *begin], check=True, env={**os.environ, "PS1": "$ ", "TERM": "xterm"})
    subprocess.run([*tmux, "send-keys", "echo before; git-baton status --watch; echo code $?", "Enter"], check=True)
    until(lambda: "q leaves" in screen())
    rows = screen().splitlines()
    assert rows[0].startswith("  TRACK") and rows[1].endswith("\u2026") and "before" not in screen()
    subprocess.run([*tmux, "resize-window", "-x", "60", "-y", "12"], check=True)
    until(lambda: "WHO" not in screen() and screen().splitlines()[1].endswith("\u2026"))
    subprocess.run([*tmux, "send-keys", "q"], check=True)
    until(lambda: "code 0" in screen())
    assert "before" in screen() and "TRACK" not in screen(), "the other screen is gone"


def test_alone_in_a_new_repository(repo: Sandbox) -> None:
    done = repo.ok()
    assert done.out.splitlines()[0] == "No checkpoints here yet." and len(done.out.splitlines()) == 3
    assert 'git baton snapshot "what is done" --next-cmd "what is next"' in done.out and done.err == ""
    assert max(map(len, repo.ok(env={"COLUMNS": "60"}).out.splitlines())) <= 60


def test_alone_outside_a_repository(repo: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    done = repo.baton(cwd=tmp_path / "elsewhere")
    assert (done.code, done.err) == (0, "") and "is not in a git repository\n'git init' begins one" in done.out
    assert repo.baton("--repo-root", str(tmp_path / "elsewhere")).code == 128, "who names a place means it"
    assert repo.ok("--version").out.startswith("git-baton ") and repo.ok("--version").out.count("\n") == 1


@pytest.mark.full
def test_what_failed_before_files_changed_is_stale(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "main", "begin")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("go")
    talk.edit("num.py", "1\n")
    talk.run("pytest -q", "1 failed in 0.10s\n", 1)
    talk.stop()
    assert "x pytest 1 failed" in repo.ok("status").out and "x pytest 1 failed" in repo.ok().out
    repo.write("num.py", "2\n")
    for words in (["status"], []):
        out = repo.ok(*words).out
        assert "~ 1 failed, stale" in out and "x pytest" not in out


@pytest.mark.deep
def test_alone_with_a_checkpoint(repo: Sandbox) -> None:
    snap(repo, "parser", "lexer done", "--validation", "green", "--next-cmd", "pytest -x")
    assert repo.ok().out == "parser  lexer done\n        + green  just now  = home\nnext    pytest -x\n"
    repo.write("new.txt", "x\n")
    assert repo.ok().out.splitlines()[1:] == [
        "        ~ stale  just now  ! 1 file changed",
        "next    pytest -x",
        "'git baton diff' shows what changed since",
    ]
    snap(repo, "docs", "site builds")
    assert repo.ok().out.splitlines()[-1] == 'git baton snapshot "what is done" --next-cmd "what is next"'
    repo.git("symbolic-ref", "--delete", "BATON_HEAD")
    out = repo.ok().out
    assert out.startswith("2 tracks, and none is current in this work tree.\n")
    assert "git baton tracks use docs" in out and repo.ok("tracks", "use", "docs").code == 0


@pytest.mark.deep
def test_alone_names_what_others_may_have_pushed_and_runs_that_are_not_finished(repo: Sandbox, tmp_path: Path) -> None:
    Sandbox.init(tmp_path / "far.git", "--bare")
    repo.git("remote", "add", "origin", str(tmp_path / "far.git"))
    assert "git baton fetch " in repo.ok().out and repo.ok("fetch").code == 0
    assert repo.baton("run", "--step", "one", "--run", "r", "--", "false").code == 1
    for _ in range(2):
        rows = repo.ok().out.splitlines()
        assert rows[-1] == "run 'r' is not finished: git baton run --continue r" and len(rows) <= 5
        snap(repo, "docs", "site builds")
    repo.baton("run", "--step", "one", "--run", "s", "--", "false")
    assert repo.ok().out.splitlines()[-1] == "2 runs are not finished: git baton run list"


@pytest.mark.deep
def test_where_only_head_moved_no_diff_is_hinted_at(repo: Sandbox) -> None:
    snap(repo, "t", "one")
    was = repo.git("rev-parse", "--short=10", "HEAD")
    repo.git("commit", "-q", "--allow-empty", "-m", "empty")
    log = f"'git log --oneline --left-right {was}...' shows what happened to HEAD; no file has changed"
    assert repo.ok().out.splitlines()[2] == log and repo.baton("verify").err.startswith(f"hint: {log}; ")
    assert repo.git("log", "--oneline", "--left-right", f"{was}...").startswith("> ")
    repo.git("switch", "-q", "-c", "other", was)
    assert repo.ok().out.splitlines()[2] == "'git switch main' goes back to its branch"
    repo.write("a.txt", "changed\n")
    assert repo.ok().out.splitlines()[2] == "'git baton diff' shows what changed since"


@pytest.mark.deep
def test_alone_words_from_elsewhere_are_quoted(repo: Sandbox, tmp_path: Path) -> None:
    theirs = Sandbox.begun(tmp_path / "theirs")
    snap(theirs, "work", "their step", "--next-cmd", "rm -rf here")
    repo.git("fetch", "-q", str(theirs.path), "+refs/baton/tracks/*:refs/baton/remotes/origin/tracks/*")
    rows = repo.ok().out.splitlines()
    assert rows[0] == "> work  > their step" and rows[2] == "next    > rm -rf here"
