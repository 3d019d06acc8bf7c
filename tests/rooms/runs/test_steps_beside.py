"""Steps beside others: several in one process, somebody who edits meanwhile, signals, links that lead out, checkpoints."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from gitbaton.runs.attempt import perform
from gitbaton.runs.claims import Claims
from gitbaton.runs.context import Done
from gitbaton.runs.journal.values import Plan
from tests.kit import Sandbox
from tests.kit.commands import until
from tests.kit.steps import Runner, changed, counted, sh


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    repo.write("src/a.txt", "one\n")
    return Runner(repo)


MEET = 'touch "$X/$GIT_BATON_STEP"; for n in $(seq 600); do test -e "$X/a" -a -e "$X/b" && break; sleep 0.1; done'


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["auto", "none"])
def test_steps_of_one_process_go_side_by_side(run: Runner, isolate: str) -> None:
    line = MEET + "; test $n != 600; mkdir -p out; echo $GIT_BATON_STEP > out/$GIT_BATON_STEP"
    steps = [sh(name, line, reads="src/**", writes=f"out/{name}", isolate=isolate) for name in "ab"]
    done: list[Done] = []
    with run.open() as ctx:
        plan = Plan(steps=tuple(steps))
        threads = [threading.Thread(target=lambda step=s: done.append(perform(ctx, step, plan))) for s in steps]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [d.state for d in done] == ["ok", "ok"]
    records = [d.logged.record for d in done if d.logged is not None]
    assert [r.undeclared for r in records] == [(), ()]
    assert isolate == "none" or {r.isolation for r in records} - {"none"}
    assert run.read("out/a") == "a\n" and run.read("out/b") == "b\n"
    run.checked()


@pytest.mark.deep
def test_r40_two_processes_at_one_step_do_it_once(run: Runner) -> None:
    step = sh("build", counted("sleep 0.3; mkdir -p out; cat src/* > out/x"), reads="src/**", writes="out/**")
    children = []
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            os._exit({"ok": 10, "cached": 11}.get(run.go(step).state, 1))
        children.append(pid)
    assert sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children) == [10, 11]
    assert run.lines("ran") == ["build"] and run.types() == ["begin", "end"]
    run.checked()


def test_the_copies_that_steps_side_by_side_have_go_when_an_interrupt_ends_the_process(run: Runner) -> None:
    with run.open() as ctx, ctx.workshop() as shop:
        assert run.repo.git("worktree", "list").count("baton-step-") == 1
        ctx.close()
        assert "baton-step-" not in run.repo.git("worktree", "list") and not os.path.lexists(shop.lane.path)


@pytest.mark.deep
def test_auto_is_apart_where_somebody_else_is_at_work_and_on_another_attempt(run: Runner) -> None:
    step = sh("build", "mkdir -p out; echo x > out/x; test $GIT_BATON_ATTEMPT = 2", reads="src/**", writes="out/**", retries=1)
    run.go(changed(step, isolate="auto"))
    ways = [lg.record.isolation for lg in run.records() if lg.record.type == "begin"]
    assert ways[0] == "none" and ways[1] in ("copy", "reflink")
    pid = os.fork()
    if pid == 0:
        with run.open() as ctx, Claims(ctx.repo).take("other", "step", ("elsewhere/**",)):
            (run.outside / "held").write_text("")
            time.sleep(600)
        os._exit(0)
    try:
        until((run.outside / "held").exists)
        done = run.go(sh("lint", "echo x > lint", reads="src/**", writes="lint", isolate="auto"))
        assert done.logged is not None and done.logged.record.isolation != "none"
        done = run.go(sh("release", "echo x > report", reads="src/**", isolate="auto"))
        assert done.logged is not None and done.logged.record.isolation == "none" and run.there("report")
        taken = run.go(sh("clash", "true", writes="elsewhere/x"))
        assert (taken.state, taken.code) == ("conflict", 78) and "'step' of run 'other'" in taken.text
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.deep
def test_r06_a_lane_does_not_see_what_moves_meanwhile(run: Runner) -> None:
    top = run.repo.path
    line = counted(f"mkdir -p out; echo late >> '{top}/src/a.txt'; cat src/a.txt > out/x")
    step = sh("build", line, reads="src/**", writes="out/**", isolate="tree")
    done = run.go(step)
    assert done.logged is not None and done.logged.record.stable is True and run.read("out/x") == "one\n"
    assert run.go(step).state == "ok" and run.read("out/x") == "one\nlate\n"
    run.repo.write("src/a.txt", "one\n")
    assert run.go(step).state == "cached" and run.read("out/x") == "one\n"
    run.checked()


@pytest.mark.deep
def test_r29_an_output_edited_while_the_step_runs_apart(run: Runner) -> None:
    top = run.repo.path
    step = sh("build", "mkdir -p out; cat src/* > out/x; cat src/* > out/y", reads="src/**", writes="out/**", isolate="tree")
    run.go(step)
    run.repo.write("src/a.txt", "two\n")
    edit = changed(step, argv=("sh", "-c", f"{step.argv[2]}; echo 'by hand' > '{top}/out/x'"))
    done = run.go(edit)
    assert (done.state, done.code) == ("conflict", 78)
    assert run.read("out/x") == "by hand\n" and run.read("out/y") == "two\n"
    end = run.state("build").end
    assert end is not None and run.files(end.parts["writes"]) == {"out/x": "two", "out/y": "two"}
    assert done.logged is not None and run.files(done.logged.parts["orphan"]) == {"out/x": "by hand"}
    assert run.go(edit).code == 78 and run.go(edit, take="ours").state == "cached" and run.read("out/x") == "two\n"
    run.checked()


@pytest.mark.deep
def test_an_interrupted_step_is_given_up_and_its_files_are_put_back(run: Runner) -> None:
    step = sh("build", "mkdir -p out; echo torn > out/x; sleep 60", reads="src/**", writes="out/**", retries=3)
    pid = os.fork()
    if pid == 0:
        done = run.go(step)
        os._exit(done.code if done.state == "interrupted" else 1)
    until(lambda: run.there("out/x"))
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGTERM
    assert run.types() == ["begin", "abort"] and not run.there("out/x")
    assert run.files(run.records()[-1].parts["orphan"]) == {"out/x": "torn"}
    run.checked()


@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_a_link_that_leads_out_is_no_output(run: Runner, isolate: str) -> None:
    step = sh(
        "build", "mkdir -p out; ln -s /etc/hostname out/x; echo y > out/y", reads="src/**", writes="out/**", isolate=isolate
    )
    done = run.go(step)
    assert (done.state, done.code) == ("failed", 125) and "leads out" in done.text
    assert not run.there("out/x") and not run.there("out/y")
    run.checked()


@pytest.mark.deep
def test_each_step_can_leave_a_checkpoint(run: Runner) -> None:
    good = sh("build", "true", reads="src/**", checkpoint="work")
    bad = sh("test", "exit 5", reads="src/**", after="build", checkpoint="work")
    run.steps |= {"build": good, "test": bad}
    run.go(good, bad)
    with run.repo.open() as baton:
        newest = baton.tip("work").checkpoint
        assert (newest.step, newest.validation) == ("r1: test failed (exit 5)", "failed")
        assert newest.next_cmd == "git baton run --continue r1"
        assert baton.store.current() is None
    assert run.repo.git("rev-list", "--count", "--first-parent", "refs/baton/tracks/work") == "3"


@pytest.mark.full
@pytest.mark.parametrize("option", ["--object-format=sha256", "--ref-format=reftable"])
def test_it_works_in_repositories_that_libgit2_cannot_open(
    tmp_path: Path, option: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "reftable" in option:
        new = request.getfixturevalue("new_git")
        monkeypatch.setenv("PATH", os.path.dirname(new) + os.pathsep + os.environ["PATH"])
    repo = Sandbox.init(tmp_path / "odd", option)
    repo.commit("first", a_txt="one\n")
    repo.write("src/a.txt", "one\n")
    run = Runner(repo)
    line = "mkdir -p out; cat src/* > out/$GIT_BATON_STEP"
    for isolate in ("none", "tree"):
        step = sh(isolate, line, reads="src/**", writes=f"out/{isolate}", effect="idempotent", isolate=isolate)
        assert run.killed("after-command", step)
        assert run.go(step).state == "ok" and run.go(step).state == "cached"
    run.checked()
