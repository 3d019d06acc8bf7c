"""What is another place's is left alone: plans that are no files, moved work trees, other runs' results, killed lanes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitbaton.errors import UsageError
from gitbaton.journal.values import Cause
from gitbaton.running import plans
from gitbaton.running.taking import opened
from gitbaton.values import replace
from tests.support import Sandbox
from tests.support.steps import Runner, sh


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    repo.write("src/a", "one\n")
    return Runner(repo)


@contextmanager
def soon() -> Iterator[None]:
    """What takes longer than two seconds waits for something that never comes."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(2)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_plan_that_is_no_regular_file_is_not_waited_for(run: Runner) -> None:
    pipe = run.repo.path / "pipe"
    os.mkfifo(pipe)
    with soon(), pytest.raises(UsageError, match=r"cannot read '.*pipe': it is not a regular file"):
        plans.read(os.fspath(pipe), os.fspath(run.repo.path))
    with run.open() as ctx:
        text = b'[step.a]\nrun = "true"\nwrites = ["x"]\n'
        claim = ctx.append(ctx.record("claim", key="0" * 64, plan="pipe"), blobs={"plan.toml": text})
        with soon(), pytest.raises(UsageError, match="does not keep the text of its plan 'pipe'"):
            opened(ctx, claim)


def test_the_path_of_a_fetched_plan_is_not_opened(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'[step.a]\nrun = "true"\nwrites = ["x"]\n'
    run.repo.write("baton.toml", "another")
    with run.open() as ctx:
        claim = ctx.append(ctx.record("claim", key=None, plan="baton.toml"), blobs={"plan.toml": text})
        assert opened(ctx, replace(claim, foreign=True)).steps[0].name == "a"
        monkeypatch.setattr("gitbaton.running.taking.load", lambda path: pytest.fail(path))
        assert opened(ctx, replace(claim, foreign=True)).path == "baton.toml"


def test_the_text_of_a_digest_is_never_written_into_a_file(run: Runner) -> None:
    """However many there are: a record lists a thousand of them."""
    line = "mkdir -p out; for i in $(seq 1010); do echo $i > out/$i; done; echo ran >> $X/ran"
    run.repo.write("out/1", "of before\n")
    step = sh("a", line, reads="src/**", writes="out/**", store="none")
    assert run.go(step).state == "ok"
    for name in ("out/1", "out/1009"):
        (run.repo.path / name).unlink()
    assert run.go(step).state == "ok" and len(run.lines("ran")) == 2
    assert run.read("out/1") == "1\n" and run.read("out/1009") == "1009\n"
    run.repo.write("src/a", "two\n")
    assert run.go(sh("a", "cat out/1 > $X/seen; " + line, reads="src/**", writes="out/**", store="none")).state == "ok"
    assert run.lines("seen") == ["1"]
    assert run.go(step, force=Cause(kind="named")).state == "ok" and run.go(step).state == "cached"


def test_a_file_that_holds_the_text_of_a_digest_is_no_digest(run: Runner) -> None:
    text = f"gitbaton digest 1\nsha256 {'0' * 64}\nsize 7\n"
    step = sh("a", f"printf %s '{text}' > out; echo ran >> $X/ran", reads="src/**", writes="out")
    assert [run.go(step).state for _ in range(2)] == ["ok", "cached"]
    run.repo.write("out", "edited")
    assert run.go(step).state == "conflict" and run.read("out") == "edited"
    (run.repo.path / "out").unlink()
    assert run.go(step).state == "ok" and run.read("out") == text and len(run.lines("ran")) == 2


def test_a_result_of_another_run_leaves_what_it_did_not_make(run: Runner) -> None:
    step = sh("build", "mkdir -p dist; cat src/a > dist/a", reads="src/**", writes="dist/**")
    assert run.go(step, run="one").state == "ok"
    run.repo.write("dist/notes", "precious\n")
    run.repo.write("dist/a", "by hand\n")
    assert run.go(step, run="two").state == "conflict"
    assert run.read("dist/notes") == "precious\n" and run.read("dist/a") == "by hand\n"
    assert run.go(step, run="two", take="ours").state == "cached" and run.read("dist/notes") == "precious\n"
    run.repo.write("src/a", "two\n")
    assert run.go(step, run="one").state == "ok" and run.read("dist/a") == "two\n"
    run.repo.write("src/a", "one\n")
    assert run.go(step, run="three").state == "cached" and run.read("dist/a") == "one\n"
    assert run.read("dist/notes") == "precious\n"
