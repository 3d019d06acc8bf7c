"""The end of a command and of what came of it: time limits, what is left running, who may be ended."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.base.system import groups
from gitbaton.base.system.groups import ChildProcess, end
from gitbaton.base.values import replace
from tests.kit.commands import driver, noted, ran, runs, sh, sweep, until
from tests.kit.hurry import stand_still
from tests.kit.places import PYTHON


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder for a command; what wrote its process id into a ``*.pid`` there is ended afterwards."""
    (tmp_path / "place").mkdir()
    yield tmp_path / "place"
    sweep(tmp_path / "place")


@pytest.mark.deep
def test_r36_timeout_kills_grandchildren(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("same", "session", "orphan", "bare")
    stand_still(monkeypatch, lambda: all((place / f"{name}.pid").exists() for name in names))
    line = """
        trap '' TERM
        (trap '' TERM; echo $$ > ignored; sh -c 'echo $$ > same.pid; trap "" TERM; while :; do sleep 1; done') &
        setsid sh -c 'trap "" TERM; echo $$ > session.pid; while :; do sleep 1; done' &
        (setsid sh -c 'echo $$ > orphan.pid; exec sleep 60' &)
        echo out
        env -i "$(command -v setsid)" /bin/sh -c 'echo $$ > bare.pid; exec /bin/sleep 60' &
        while :; do sleep 1; done
    """
    ended = ran(sh(line, place, timeout=0.1, grace=0.3, show=False))
    assert (ended.exit, ended.signal, ended.timeout, ended.interrupted) == (137, "SIGKILL", True, False)
    assert ended.out == b"out\n" and ended.duration_ms >= 400
    for name in names:
        assert not runs(place / f"{name}.pid"), name


@pytest.mark.deep
def test_a_timeout_asks_first_and_output_on_the_way_out_is_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "trap 'echo cleaned; exit 5' TERM; echo on; touch ready; while :; do sleep 0.01; done"
    with monkeypatch.context() as patch:
        stand_still(patch, (place / "ready").exists)
        ended = ran(sh(line, place, timeout=0.1, grace=60, show=False))
    assert (ended.exit, ended.timeout, ended.out) == (5, True, b"on\ncleaned\n")
    stand_still(monkeypatch, lambda: (place / "own.pid").exists() and "\nState:\tT" in status(place / "own.pid"))
    ended = ran(sh("echo $$ > own.pid; kill -s STOP $$", place, timeout=0.1, grace=60, show=False))
    assert (ended.exit, ended.timeout) == (143, True), "TERM wakes who was stopped"


def status(noted: Path) -> str:
    """What the system tells of the process that wrote its number into a file; nothing before."""
    number = noted.read_text().strip()
    return Path(f"/proc/{number}/status").read_text() if number else ""


@pytest.mark.deep
def test_what_a_step_that_succeeded_left_running_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bytes] = []
    stand_still(monkeypatch, lambda: b"late" in b"".join(said))
    line = "sh -c 'echo $$ > daemon.pid; exec sleep 60' & (sleep 0.05; echo late) & head -c 300000 /dev/zero"
    ended = ran(sh(line, place, show=False), output=lambda _, data: said.append(data))
    assert ended.exit == 0 and ended.out == b"\0" * 300000 + b"late\n"
    assert runs(place / "daemon.pid")


def test_what_a_step_that_failed_left_running_is_ended(place: Path) -> None:
    line = "sh -c 'echo $$ > daemon.pid; exec sleep 60' & until test -s daemon.pid; do sleep 0.01; done; exit 4"
    ended = ran(sh(line, place, show=False))
    assert ended.exit == 4 and not runs(place / "daemon.pid")


def test_end_and_alive_know_a_child_by_its_beginning(place: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        child = ChildProcess.of(str(place), other.pid)
        for wrong in ("1" + child.mark, child.mark.split(".")[0] + ".ffffffff", "", "x y"):
            forged = replace(child, mark=wrong)
            assert not forged.alive() and end(forged, 0.1)
        assert other.poll() is None and child.alive()
        assert end(child, 5)
        assert other.wait() == -signal.SIGTERM
        assert not child.alive() and groups.mark(other.pid) is None


def test_what_a_child_left_is_found_also_where_it_ended_before_it_was_looked_at(place: Path) -> None:
    """Nobody has waited for it, and what is left of its session says nothing in its environment."""
    line = "env -i /bin/sh -c 'echo $$ > bare.pid; exec /bin/sleep 60' & until test -s bare.pid; do :; done"
    with subprocess.Popen(["sh", "-c", line], cwd=place, start_new_session=True) as head:
        os.waitid(os.P_PID, head.pid, os.WEXITED | os.WNOWAIT)
        child = ChildProcess.of("a word that nobody has", head.pid)
        assert child.alive() and end(child, 5)
    assert not runs(place / "bare.pid")


@pytest.mark.deep
def test_a_child_whose_parent_was_killed_is_found_and_ended(place: Path) -> None:
    one, two = (f"sh -c 'echo $$ > {name}.pid; exec sleep 60' & " for name in ("group", "session"))
    for last in ("exec sleep 60", "until test -s group.pid -a -s session.pid; do sleep 0.01; done; exit 0"):
        with subprocess.Popen(
            driver(place / "result", "sh", "-c", f"{one} setsid {two} echo $$ > head.pid; {last}"), cwd=place
        ) as process:
            until(lambda: all((place / f"{n}.pid").exists() for n in ("group", "session", "head")))
            until(lambda: noted(place / "result").pid)
            process.kill()
        child = noted(place / "result")
        until(lambda: runs(place / "head.pid") == last.startswith("exec"))  # noqa: B023
        assert child.alive() and runs(place / "group.pid") and runs(place / "session.pid")
        assert end(child, 5)
        assert not child.alive()
        for name in ("group", "session", "head"):
            assert not runs(place / f"{name}.pid"), name
            (place / f"{name}.pid").unlink()


def test_a_child_of_a_parent_that_was_killed_before_it_knew_its_number_is_found_by_its_word(place: Path) -> None:
    line = "echo $$ > head.pid; sh -c 'echo $$ > below.pid; exec sleep 60'"
    with subprocess.Popen(driver(place / "result", "sh", "-c", line, die="started"), cwd=place):
        until(lambda: (place / "below.pid").exists() and runs(place / "below.pid"))
    child = replace(noted(place / "result"), pid=0, mark="")
    assert child.alive() and end(child, 5)
    assert not runs(place / "head.pid") and not runs(place / "below.pid")


def test_nobody_ends_the_command_that_it_is_part_of(place: Path) -> None:
    program = "import sys; from gitbaton.base.system.groups import ChildProcess as C, end; print(end(C(word=sys.argv[1]), 0.1))"
    ended = ran(sh(f"{PYTHON} -c '{program}' $GIT_BATON_GROUP", place, show=False))
    assert (ended.exit, ended.out) == (0, b"False\n"), ended.err


@pytest.mark.deep
def test_without_proc_the_same_is_asked_of_ps(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: not str(path).startswith("/proc/") and exists(path))
    stand_still(monkeypatch, lambda: all(exists(place / f"{name}.pid") for name in ("same", "child")))
    one, two = (f"sh -c 'echo $$ > {name}.pid; exec sleep 60' & " for name in ("same", "child"))
    ended = ran(sh(f"trap '' TERM; {one} setsid {two} wait; wait", place, timeout=0.1, grace=0.3, show=False))
    assert (ended.exit, ended.timeout) in ((0, True), (137, True))
    assert not runs(place / "same.pid") and not runs(place / "child.pid")
