"""A command in its own process group: streams, gate, environment, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from gitbaton.base.errors import GitError
from gitbaton.base.system import groups
from gitbaton.base.system.children import SAME, CommandResult, UserCommand, forward, signals
from gitbaton.base.system.groups import ChildProcess
from tests.kit.commands import driver, noted, ran, runs, sh, sweep, until
from tests.kit.hurry import stand_still
from tests.kit.tiers import some


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder for a command; what wrote its process id into a ``*.pid`` there is ended afterwards."""
    (tmp_path / "place").mkdir()
    yield tmp_path / "place"
    sweep(tmp_path / "place")


def test_output_is_passed_on_untouched_and_kept(place: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    raw = bytes(range(256)) * 300
    (place / "raw").write_bytes(raw)
    seen: list[tuple[int, bytes]] = []
    ended = ran(sh("cat raw; cat raw raw >&2; exit 3", place), output=lambda number, data: seen.append((number, data)))
    assert capfdbinary.readouterr() == (raw, raw * 2)
    assert (ended.exit, ended.signal, ended.timeout, ended.interrupted) == (3, None, False, False)
    assert (ended.out, ended.out_bytes, ended.err, ended.err_bytes) == (raw, len(raw), raw * 2, len(raw) * 2)
    assert [b"".join(d for n, d in seen if n == number) for number in (1, 2)] == [raw, raw * 2]


def test_output_is_passed_on_at_once(place: Path) -> None:
    with subprocess.Popen(
        driver(place / "result", "sh", "-c", "printf a; read -r x < fifo; printf b"), cwd=place, stdout=subprocess.PIPE
    ) as process:
        os.mkfifo(place / "fifo")
        assert process.stdout is not None
        assert os.read(process.stdout.fileno(), 9) == b"a"  # the command waits for us
        (place / "fifo").write_text("go\n")
        assert process.stdout.read() == b"b"


def test_only_the_end_of_much_output_is_kept(place: Path) -> None:
    command = sh("seq 1 400000; echo end", place, show=False)
    plain = subprocess.run(command.argv, capture_output=True, check=True).stdout
    ended = ran(command)
    assert ended.out == plain[-(1 << 20) :] and ended.out_bytes == len(plain)
    ended = ran(UserCommand(argv=("dd", "if=/dev/zero", "bs=1", "count=30000"), cwd=str(place), env=os.environ, show=False))
    assert ended.out == b"\0" * 30000


@pytest.mark.parametrize(
    ("argv", "code", "name"),
    [
        (("./missing",), 127, None),
        (("no-such-program-anywhere",), 127, None),
        (("./plain",), 126, None),
        (("-x",), 127, None),
        (("./script", "a b", "*"), 7, None),
        (("sh", "-c", "kill -s USR1 $$"), 128 + signal.SIGUSR1, "SIGUSR1"),
        (("sh", "-c", "kill -s KILL $$"), 137, "SIGKILL"),
    ],
)
def test_exit_statuses_are_those_of_a_shell(place: Path, argv: tuple[str, ...], code: int, name: str | None) -> None:
    (place / "plain").write_text("text")
    (place / "script").write_text('test "$1,$2" = "a b,*" && exit 7\n')  # no #! line
    (place / "script").chmod(0o755)
    ended = ran(UserCommand(argv=argv, cwd=str(place), env=os.environ, show=False))
    assert (ended.exit, ended.signal) == (code, name)


def test_a_folder_that_is_not_there_is_126_and_no_words_at_all_an_error(place: Path) -> None:
    began = ran(UserCommand(argv=("touch", "x"), cwd=str(place / "gone"), env=os.environ, show=False))
    assert began.exit == 126 and not (place / "x").exists()
    with pytest.raises(GitError, match="cannot be started"):
        ran(UserCommand(argv=("a\0b",), cwd=str(place), env=os.environ))


def test_the_environment_is_the_one_given(place: Path) -> None:
    odd = {"a.b": "c=d", "IFS": "x", "OPTIND": "7", "word": "w", "BASH_FUNC_f%%": "() { :\n}"}
    env = {"PATH": os.environ["PATH"], "A": "1\n2", "EMPTY": "", **odd}
    for more in ({}, {"OLDPWD": "/old", "PWD": "/stale"}, {groups.VARIABLE: "1:2"}):
        seen: list[ChildProcess] = []
        command = UserCommand(argv=("cat", "/proc/self/environ"), cwd=str(place), env={**env, **more}, show=False)
        ended = ran(command, started=seen.append)
        got = dict(item.split("=", 1) for item in ended.out.decode().split("\0")[:-1])
        inside = [*more.get(groups.VARIABLE, "").split(), seen[0].word]
        assert got == {**env, **more, "PWD": str(place), groups.VARIABLE: " ".join(inside)}


def test_only_standard_streams_and_locks_are_inherited(place: Path) -> None:
    (place / "lock").touch()
    lock, other = os.open(place / "lock", os.O_RDWR), os.open(place / "lock", os.O_RDWR)
    try:
        os.set_inheritable(other, True)
        ended = ran(sh("for n in /proc/$$/fd/*; do readlink $n; done", place, show=False), locks=[lock])
    finally:
        os.close(lock)
        os.close(other)
    found = ended.out.decode().split("\n")[:-1]
    assert found[0] == "/dev/null" and [f[:5] for f in found[1:3]] == ["pipe:"] * 2 and found[3:] == [str(place / "lock")]


def test_a_command_begins_after_it_was_noted_and_never_without_that(place: Path) -> None:
    there: list[object] = []

    def started(child: ChildProcess) -> None:
        there.extend([(place / "x").exists() and not child.pid, child.alive()])
        if child.pid:
            (place / "go").touch()

    order: list[str] = []
    line = "until test -e go; do sleep 0.01; done; touch x"
    assert ran(sh(line, place), started=started, begun=lambda: order.append("begun")).exit == 0
    assert there == [False, False, False, True] and (place / "x").exists() and order == ["begun"]

    def refused(child: ChildProcess) -> None:
        raise KeyError(child)

    with pytest.raises(KeyError) as caught:
        ran(sh("touch y", place), started=refused)
    assert not caught.value.args[0].alive() and not (place / "y").exists()
    killed = subprocess.run(driver(place / "result", "touch", str(place / "z"), die="before"))
    assert killed.returncode == -signal.SIGKILL
    assert not noted(place / "result").alive() and not (place / "z").exists()


def test_what_raises_from_a_callback_ends_the_command(place: Path) -> None:
    def output(number: int, data: bytes) -> None:
        raise KeyError(number, data)

    with pytest.raises(KeyError):
        ran(sh("echo $$ > own.pid; echo hello; exec sleep 60", place, show=False), output=output)
    assert not runs(place / "own.pid")


def test_a_reader_that_goes_away_does_not_end_the_step(place: Path) -> None:
    line = "yes | head -c 3000000; echo done >&2; touch finished"
    with subprocess.Popen(
        driver(place / "result", "sh", "-c", line), cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b"done\n"
    code, _, _, interrupted, out = json.loads((place / "result").read_text())
    assert (process.returncode, code, interrupted) == (0, 0, False)
    assert out == "y\n" * (1 << 19) and (place / "finished").exists()


@pytest.mark.deep
def test_a_reader_that_does_not_read_holds_up_neither_limit_nor_signal(place: Path) -> None:
    for options, sent in (({"timeout": 1}, None), ({}, signal.SIGTERM)):
        result = place / f"result{sent}"
        with subprocess.Popen(driver(result, "yes", **options), cwd=place, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.read(2) == b"y\n"
            if sent:
                process.send_signal(sent)
            until(lambda: not noted(result).alive())  # noqa: B023
            process.stdout.read()
        code, name, timeout, interrupted, _ = json.loads(result.read_text())
        assert (code, name, timeout, interrupted) == (143, "SIGTERM", sent is None, sent is not None)


@pytest.mark.deep
@some("patient", [True, False])
def test_a_reader_that_comes_late_gets_all_unless_nobody_wants_to_wait(place: Path, patient: bool) -> None:
    line = "echo $$ > own.pid; head -c 100000 /dev/zero"
    with subprocess.Popen(driver(place / "result", "sh", "-c", line), cwd=place, stdout=subprocess.PIPE) as process:
        until(lambda: (place / "own.pid").exists() and not runs(place / "own.pid"))
        time.sleep(0.35)
        assert process.poll() is None and process.stdout is not None
        if patient:
            assert process.stdout.read() == b"\0" * 100000
        else:
            process.send_signal(signal.SIGTERM)
        until(lambda: process.poll() is not None)
    code, _, _, interrupted, out = json.loads((place / "result").read_text())
    assert (code, interrupted, len(out)) == (0, not patient, 100000)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_us_reaches_the_group(place: Path, number: signal.Signals) -> None:
    before = [signal.getsignal(n) for n in (*signals_used(), signal.SIGPIPE)]
    ended = ran(sh("exec sleep 60", place), begun=lambda: os.kill(os.getpid(), number))
    assert (ended.exit, ended.signal, ended.interrupted) == (128 + number, number.name, True)
    assert [signal.getsignal(n) for n in (*signals_used(), signal.SIGPIPE)] == before


def signals_used() -> tuple[signal.Signals, ...]:
    return (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH)


@pytest.mark.deep
def test_who_does_not_heed_a_signal_is_ended_after_the_grace_or_at_the_second(place: Path) -> None:
    line = "trap '' INT; echo $$ > own.pid; while :; do sleep 1; done"
    for grace, times in ((0.2, 1), (60.0, 2)):

        def press(times: int = times) -> None:
            until(lambda: (place / "own.pid").exists())
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(SAME + 0.02)

        ended = ran(sh(line, place, grace=grace), begun=press)
        assert (ended.exit, ended.interrupted) == (143, True) and ended.duration_ms < 60_000
        (place / "own.pid").unlink()


def test_a_command_that_answers_a_signal_in_its_own_way_is_still_interrupted(place: Path) -> None:
    line = "trap 'exit 2' INT; touch ready; while :; do sleep 0.01; done"

    def press() -> None:
        until(lambda: (place / "ready").exists())
        os.kill(os.getpid(), signal.SIGINT)

    ended = ran(sh(line, place), begun=press)
    assert (ended.exit, ended.signal, ended.interrupted) == (2, None, True)


def test_the_same_signal_from_the_terminal_and_from_git_is_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_still(monkeypatch, (place / "over").exists)
    line = "trap 'echo one' INT; touch ready; until test -e over; do sleep 0.01; done"

    def press() -> None:
        until(lambda: (place / "ready").exists())
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
        (place / "over").touch()

    ended = ran(sh(line, place, show=False), begun=press)
    assert (ended.exit, ended.out, ended.interrupted) == (0, b"one\n", True)


def test_a_signal_that_finds_no_command_does_what_it_did_before() -> None:
    with pytest.raises(KeyboardInterrupt), signals():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    assert forward(signal.SIGINT) == 0


def test_several_at_once_in_threads(place: Path) -> None:
    ended: dict[int, CommandResult] = {}

    def one(number: int) -> None:
        ended[number] = ran(sh(f"echo {number}; touch {number}; exec sleep 60", place, show=False))

    threads = [Thread(target=one, args=(number,)) for number in range(4)]
    with signals():
        for thread in threads:
            thread.start()
        until(lambda: len(list(place.glob("[0-3]"))) == 4)
        os.kill(os.getpid(), signal.SIGTERM)
        for thread in threads:
            thread.join()
    assert {n: (e.out, e.exit, e.interrupted) for n, e in ended.items()} == {n: (b"%d\n" % n, 143, True) for n in range(4)}


@pytest.mark.deep
def test_ticks_come_when_there_is_no_output(place: Path) -> None:
    ticks: list[float] = []

    def tick(seconds: float) -> None:
        ticks.append(seconds)
        (place / "go").touch()

    assert ran(sh("until test -e go; do sleep 0.01; done", place), tick=tick).exit == 0
    assert ticks[0] >= 0.5


def test_a_system_that_does_not_tell_of_ends_is_asked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.delattr(os, "waitid")
    ended = ran(sh("echo a; exec >&- 2>&-; sleep 0.1; exit 3", place, show=False))
    assert (ended.exit, ended.out) == (3, b"a\n")
    ended = ran(sh("exec sleep 60", place, show=False), begun=lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert (ended.exit, ended.interrupted) == (143, True)
    with pytest.raises(GitError, match="no command"):
        ran(UserCommand(argv=(), cwd=str(place), env={}))


def test_a_system_without_pseudo_terminals_or_descriptors(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    tried: list[int] = []

    def none_left(*_: object) -> tuple[int, int]:
        tried.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(termios, "tcgetattr", lambda fd: [0] * 7)
    monkeypatch.setattr(termios, "tcgetwinsize", lambda fd: (24, 80))
    before = sorted(os.listdir("/proc/self/fd"))
    for module, name in ((os, "openpty"), (termios, "tcsetattr")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, none_left)
            assert ran(sh("echo out; test -t 1", place)).exit == 1 and tried == [1, 1]
        assert capfdbinary.readouterr() == (b"out\n", b"")
        tried.clear()
    monkeypatch.setattr(os, "pipe", none_left)
    monkeypatch.setattr(os, "openpty", none_left)
    with pytest.raises(GitError, match="'sh' cannot be started: No space left on device"):
        ran(sh("echo out", place))
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_the_descriptors_of_a_run_are_closed_again(place: Path) -> None:
    ran(sh("exit 1", place))
    before = sorted(os.listdir("/proc/self/fd"))
    for line in ("exit 0", "exit 1", "kill $$"):
        ran(sh(line, place))
    assert sorted(os.listdir("/proc/self/fd")) == before
