"""A step on a terminal: its output is live, it knows the terminal's size, Ctrl-C reaches it, and silence is explained."""

from __future__ import annotations

import pytest

from gitbaton.runs.journal.chain import Journal
from tests.kit import Sandbox
from tests.kit.terminals import Terminal

STEP = ("run", "--run", "r", "--step", "s")
ERASE = b"\r\x1b[K"


def sh(line: str, *options: str) -> tuple[str, ...]:
    """The words that run a shell line as a step."""
    return (*STEP, *options, "--", "sh", "-c", line)


@pytest.mark.full
def test_output_is_live_and_the_command_sees_a_terminal(repo: Sandbox) -> None:
    line = "test -t 1 && test -t 2 && echo one; sleep 0.4; echo two >&2"
    with Terminal(repo.path, *sh(line), env={"NO_COLOR": "1"}) as terminal:
        began = terminal.until(b"one\r\n")
        assert terminal.until(b"two\r\n") - began > 0.25
        assert terminal.end() == 0
    assert terminal.shown.count(b"one") == 1 and b"baton: s: ok in 0." in terminal.shown


@pytest.mark.full
def test_the_command_knows_the_size_and_is_told_of_another(repo: Sandbox) -> None:
    line = "stty size <&1; trap 'stty size <&1; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"
    with Terminal(repo.path, *sh(line), size=(33, 77)) as terminal:
        terminal.until(b"ready")
        assert b"33 77\r\n" in terminal.shown
        terminal.resize(20, 60)
        terminal.until(b"20 60\r\n")
        assert terminal.end() == 0


@pytest.mark.full
def test_a_silent_step_is_explained_until_it_speaks(repo: Sandbox) -> None:
    with Terminal(repo.path, *sh("sleep 1.2; echo spoken"), env={"NO_COLOR": "1"}) as terminal:
        terminal.until(b"s 0:00")
        assert b"spoken" not in terminal.shown
        terminal.until(b"spoken")
        assert terminal.end() == 0
    before, after = terminal.shown.split(b"spoken")
    assert before.endswith(ERASE) and b"s 0:01" in before and b"\x1b[3" not in terminal.shown
    assert after.rstrip().split(b"\r\n")[-1].startswith(b"baton: s: ok in 1.")


@pytest.mark.full
def test_the_status_line_of_a_plan_fits_the_terminal_and_leaves_nothing(repo: Sandbox) -> None:
    name = "a-step-with-a-rather-long-name"
    repo.write("baton.toml", f'[step.first]\nrun = "true"\n[step.{name}]\nrun = "sleep 0.8"\nafter = ["first"]\n')
    with Terminal(repo.path, "run", "--plan", "baton.toml", size=(24, 30), env={"NO_COLOR": "1"}) as terminal:
        terminal.until(b"[2/2] a-step")
        assert terminal.end() == 0
    rows = [row for row in terminal.shown.replace(b"\r\n", b"\n").split(b"\r") if row.startswith(b"\x1b[K[")]
    assert rows and all(len(row.removeprefix(b"\x1b[K").split(b"\n")[0].decode()) < 30 for row in rows)
    last = terminal.shown.rindex(b"[2/2]")
    assert ERASE in terminal.shown[last:]


@pytest.mark.full
def test_no_status_line_and_no_colour_where_they_are_not_wanted(repo: Sandbox) -> None:
    with Terminal(repo.path, *sh("sleep 0.8"), env={"TERM": "dumb"}) as terminal:
        assert terminal.end() == 0
    assert b"\x1b" not in terminal.shown and b"baton: s: ok" in terminal.shown
    with Terminal(repo.path, "--color=never", *sh("true")) as terminal:
        assert terminal.end() == 0
    assert b"\x1b[3" not in terminal.shown


@pytest.mark.full
def test_ctrl_c_reaches_the_command_and_the_run_goes_on_later(repo: Sandbox) -> None:
    repo.write("slow.sh", "if [ -e go ]; then echo done > out.txt; else echo torn > out.txt; exec tail -f said; fi\n")
    repo.write("said", "ready\n")
    step = '[step.slow]\nargv = ["sh", "slow.sh"]\nreads = ["slow.sh"]\nwrites = ["out.txt"]\n'
    repo.write("baton.toml", step + '[step.last]\nrun = "cat out.txt > last.txt"\nafter = ["slow"]\nwrites = ["last.txt"]\n')
    with Terminal(repo.path, "run", "--plan", "baton.toml", "--run", "r") as terminal:
        terminal.until(b"ready")
        terminal.press(b"\x03")
        assert terminal.end() == 130
    assert (
        terminal.shown.rstrip().endswith(b"hint: git baton run --continue r")
        and b"slow: \x1b[31mfailed with 130" in terminal.shown
    )
    with repo.open() as baton:
        records = [logged.record for logged in Journal(baton.repo, author=b"", clock=baton.clock).records("r")]
    assert [(r.type, r.step) for r in records] == [("claim", None), ("begin", "slow"), ("abort", "slow"), ("release", None)]
    assert records[2].text is not None and records[3].state == "stopped"
    assert not (repo.path / "out.txt").exists() and not (repo.path / "last.txt").exists()
    repo.write("go")
    done = repo.baton("run", "--continue")
    assert done.code == 0 and "baton: last: ok" in done.err, done.err
    assert (repo.path / "last.txt").read_text() == "done\n"
