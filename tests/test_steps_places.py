"""What is another place's is left alone: plans that are no files, moved work trees, other runs' results, killed lanes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitbaton.errors import UsageError
from gitbaton.running import plans
from gitbaton.running.taking import opened
from gitbaton.values import replace
from tests.support import Sandbox
from tests.support.steps import Runner


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
