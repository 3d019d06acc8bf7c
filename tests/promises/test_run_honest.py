"""What a run says of itself is true: whose exit status it is, which effects stand that its plan does not name, who holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gitbaton.base.system import groups
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.planned import toml
from tests.kit.tiers import some

OURS = (75, 76, 77, 78, 79, 124, 125)


def log(repo: Sandbox) -> list[str]:
    """What was done outside."""
    path = repo.path.parent / "log"
    return path.read_text().split() if path.exists() else []


@some("code", OURS)
def test_an_exit_status_of_a_command_is_not_taken_for_one_of_ours(repo: Sandbox, code: int) -> None:
    line = f"exit {code}"
    one = repo.baton("run", "--run", "s", "--step", "a", "--", "sh", "-c", line)
    assert one.code == 1 and f"a: failed with {code} (its command's own exit status; git baton exits with 1)" in one.err
    repo.write("p.toml", toml({"a": {"run": line}, "b": {"run": "touch b"}}))
    both = repo.baton("run", "--run", "p", "--plan", "p.toml")
    assert both.code == 1 and not (repo.path / "b").exists(), "it is no gate, by which only what depends on it is kept"
    assert repo.baton("run", "--run", "s", "--step", "a", "--json", "--", "sh", "-c", line).code == 1
    assert f"failed with {code}" in repo.ok("run", "show", "s").out


def test_a_retry_on_an_exit_status_means_the_commands_own(repo: Sandbox) -> None:
    line = "echo try >> ../log; test $GIT_BATON_ATTEMPT = 2 || exit 75"
    done = repo.baton("run", "--step", "a", "--retries", "3", "--retry-on", "75", "--backoff", "1ms", "--", "sh", "-c", line)
    assert done.code == 0 and len(log(repo)) == 2


def effect(name: str, **more: str) -> dict[str, Any]:
    return {"run": f"echo {name} >> ../log", "reads": ["a.txt"], "effect": "once", **more}


@some("renamed", [True, False])
def test_an_effect_that_stands_is_told_when_its_step_leaves_the_plan(repo: Sandbox, renamed: bool) -> None:
    undo = "echo undo >> ../log"
    plan = {"build": {"run": "true", "reads": ["a.txt"]}, "deploy": effect("deploy", compensate=undo), "mail": effect("mail")}
    repo.write("p.toml", toml(plan))
    assert "any more" not in repo.ok("run", "--plan", "p.toml").err
    plan.pop("mail")
    deploy = plan.pop("deploy")
    repo.write("p.toml", toml({**plan, "release": deploy} if renamed else plan))
    deployed = "baton: deploy: its effect stands, and the plan does not name the step any more; "
    for words in (("--plan", "p.toml", "--dry-run"), ("--plan", "p.toml"), ("--plan", "p.toml")):
        told = repo.ok("run", *words)
        assert deployed + "'git baton run compensate deploy' undoes it\n" in told.err
        assert "mail: its effect stands, and the plan does not name the step any more; nothing undoes it" in told.err
    assert "any more" not in repo.ok("run", "--plan", "p.toml", "--dry-run", "--json").err
    assert deployed in repo.ok("run", "repair", "--step", "build").err
    repo.ok("run", "compensate", "deploy")
    repo.ok("run", "settle", "mail", "--undone")
    again = repo.ok("run", "--plan", "p.toml")
    assert "any more" not in again.err and log(repo) == ["deploy", "mail", *["deploy"] * renamed, "undo"]


def test_an_effect_that_stands_alone_ends_a_run_as_one_that_nothing_undoes(repo: Sandbox) -> None:
    plan = {"deploy": effect("deploy"), "build": {"run": "true", "reads": ["a.txt"]}}
    repo.write("p.toml", toml(plan))
    repo.ok("run", "--plan", "p.toml", "--run", "r")
    repo.write("a.txt", "changed\n")
    anew = repo.baton("run", "--plan", "p.toml", "--run", "r")
    repo.write("p.toml", toml({"build": plan["build"]}))
    gone = repo.baton("run", "--plan", "p.toml", "--run", "r")
    assert "deploy: step 'deploy' has an effect that nothing undoes" in anew.err and "deploy: its effect stands" in gone.err
    assert (anew.code, gone.code) == (0, 0) and log(repo) == ["deploy", "deploy"]


def test_an_effect_that_nobody_knows_of_is_told_when_its_step_leaves_the_plan(repo: Sandbox) -> None:
    deploy = {**effect("deploy"), "run": "echo deploy >> ../log; exit 3"}
    repo.write("p.toml", toml({"build": {"run": "true"}, "deploy": deploy}))
    assert repo.baton("run", "--plan", "p.toml").code == 3
    repo.write("p.toml", toml({"build": {"run": "true"}}))
    told = repo.baton("run", "--plan", "p.toml")
    assert "deploy: nobody knows whether its effect happened, and the plan does not name the step any more" in told.err


def test_a_step_of_the_command_line_is_missed_by_no_plan(repo: Sandbox) -> None:
    repo.write("p.toml", toml({"build": {"run": "true"}}))
    repo.ok("run", "--plan", "p.toml", "--run", "r")
    repo.ok("run", "--run", "r", "--step", "deploy", "--effect", "once", "--", "sh", "-c", "echo deploy >> ../log")
    assert "any more" not in repo.ok("run", "--plan", "p.toml", "--run", "r").err and log(repo) == ["deploy"]


@contextmanager
def at_work(repo: Sandbox, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that is at the command of a step, which ends when the file ``go`` is there."""
    place = repo.path.parent
    for name in ("on", "go"):
        (place / name).unlink(missing_ok=True)
    with subprocess.Popen([sys.executable, "-m", "gitbaton", "run", *words], cwd=repo.path, start_new_session=True) as other:
        try:
            until((place / "on").exists)
            yield other
        finally:
            (place / "go").touch()
            other.send_signal(signal.SIGCONT)
            other.wait(60)


SLOW = "touch ../on; until test -e ../go; do sleep 0.01; done; echo ran >> ../log; cp a.txt out"
STEP = ("--run", "r", "--step", "a", "--reads", "a.txt", "--writes", "out", "--", "sh", "-c", SLOW)
WHICH = some("words", [("--run", "r", "--plan", "p.toml"), STEP, ("--continue", "r")])


@pytest.fixture
def slow(repo: Sandbox) -> Sandbox:
    repo.write("p.toml", toml({"a": {"run": SLOW, "reads": ["a.txt"], "writes": ["out"]}}))
    return repo


@WHICH
def test_a_second_runner_waits_as_long_as_it_is_told_and_names_the_first(slow: Sandbox, words: tuple[str, ...]) -> None:
    with at_work(slow, *(STEP if words is STEP else ("--run", "r", "--plan", "p.toml"))) as other:
        for wait in ("0", "300ms"):
            refused = slow.baton("run", "--wait", wait, *words)
            assert refused.code == 78 and f"process {other.pid} on " in refused.err, refused
            assert ("waits for it" in refused.err) and "stopped" not in refused.err
        if words[0] == "--run":
            assert slow.baton("run", "--max-wall", "300ms", *words).code == 78
        os.kill(other.pid, signal.SIGSTOP)
        until(lambda: is_stopped(other.pid))
        for more in ((), ("--wait", "300ms")):
            refused = slow.baton("run", *more, *words)
            assert refused.code == 78 and f"process {other.pid} on " in refused.err and "which is stopped" in refused.err
            assert f"'kill -CONT {other.pid}' lets it go on" in refused.err
        os.kill(other.pid, signal.SIGCONT)
        (slow.path.parent / "go").touch()
        served = slow.baton("run", "--wait", "1m", *words)
        assert served.code == 0 and log(slow) == ["ran"], served


def is_stopped(pid: int) -> bool:
    return groups.is_stopped(pid, groups.mark(pid) or "")


def test_a_holder_that_is_stopped_while_it_is_waited_for_is_named(slow: Sandbox) -> None:
    told = slow.path.parent / "told"
    with at_work(slow, *STEP) as other, open(told, "wb") as file:
        words = [sys.executable, "-m", "gitbaton", "run", *STEP]
        with subprocess.Popen(words, cwd=slow.path, stderr=file, stdout=file) as second:
            until(lambda: f"process {other.pid} on".encode() in told.read_bytes())
            os.kill(other.pid, signal.SIGSTOP)
            assert second.wait(60) == 78
    assert b"which is stopped" in told.read_bytes() and log(slow) == ["ran"]


@WHICH
def test_a_holder_that_is_killed_gives_its_turn_away(slow: Sandbox, words: tuple[str, ...]) -> None:
    with at_work(slow, *(STEP if words is STEP else ("--run", "r", "--plan", "p.toml"))) as other:
        os.kill(other.pid, signal.SIGKILL)
        other.wait(60)
        (slow.path.parent / "go").touch()
        done = slow.baton("run", "--wait", "0", *words)
    assert done.code == 0 and set(log(slow)) == {"ran"}, done


def test_who_settles_waits_as_long_as_it_is_told(slow: Sandbox) -> None:
    with at_work(slow, *STEP) as other:
        refused = slow.baton("run", "settle", "a", "--undone", "--wait", "0")
        assert refused.code == 78 and f"(process {other.pid} on " in refused.err, refused


@pytest.mark.deep
def test_who_settles_or_repairs_does_not_wait_for_a_stopped_holder(slow: Sandbox) -> None:
    once = (*STEP[:4], "--effect", "once", *STEP[4:])
    with at_work(slow, *once) as other:
        os.kill(other.pid, signal.SIGSTOP)
        until(lambda: is_stopped(other.pid))
        for words in (("settle", "a", "--undone"), ("compensate", "a"), ("repair", "--step", "a")):
            for more in ((), ("--wait", "10ms")):
                refused = slow.baton("run", *words, *more)
                assert refused.code == 78 and "stopped" in refused.err and "--wait SECONDS" in refused.err, refused


@some("text", ['{"v": 1}', "", "torn", '{"run": "r", "pid": 1, "start": "7.x"}'])
def test_a_turn_of_which_nothing_can_be_read_is_waited_for_and_refused_all_the_same(slow: Sandbox, text: str) -> None:
    with at_work(slow, "--run", "r", "--plan", "p.toml"):
        (slow.path / ".git/baton/lock/run-r").write_text(text)
        refused = slow.baton("run", "--run", "r", "--plan", "p.toml", "--wait", "0")
        assert refused.code == 78 and "another process works on run 'r'" in refused.err
