"""What is another place's is left alone: plans that are no files, moved work trees, other runs' results, killed lanes."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gitbaton.base.errors import UsageError
from gitbaton.base.values import replace
from gitbaton.runs import plans
from gitbaton.runs.decide import present
from gitbaton.runs.effects import recover
from gitbaton.runs.journal.values import Cause
from gitbaton.runs.plans import opened
from tests.kit import Sandbox
from tests.kit.moments import at
from tests.kit.steps import Runner, changed, listing, sh


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


def test_the_path_of_a_fetched_plan_is_not_opened(run: Runner) -> None:
    text = b'[step.a]\nrun = "true"\nwrites = ["x"]\n'
    run.repo.write("baton.toml", "another")
    with run.open() as ctx, at("open", lambda args: str(args[0]).endswith("baton.toml"), lambda args: pytest.fail(args[0])):
        claim = ctx.append(ctx.record("claim", key=None, plan="baton.toml"), blobs={"plan.toml": text})
        plan = opened(ctx, replace(claim, foreign=True))
    assert plan.steps[0].name == "a" and plan.path == "baton.toml"


@pytest.mark.full
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


@pytest.mark.deep
def test_a_file_that_holds_the_text_of_a_digest_is_no_digest(run: Runner) -> None:
    text = f"gitbaton digest 1\nsha256 {'0' * 64}\nsize 7\n"
    step = sh("a", f"printf %s '{text}' > out; echo ran >> $X/ran", reads="src/**", writes="out")
    assert [run.go(step).state for _ in range(2)] == ["ok", "cached"]
    run.repo.write("out", "edited")
    assert run.go(step).state == "conflict" and run.read("out") == "edited"
    (run.repo.path / "out").unlink()
    assert run.go(step).state == "ok" and run.read("out") == text and len(run.lines("ran")) == 2


@pytest.mark.deep
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


BUILD = sh("build", "mkdir -p dist; cat src/a > dist/a; echo b > dist/b; rm -f dist/old", reads="src/**", writes="dist/**")


@pytest.mark.deep
@pytest.mark.parametrize("before", [False, True])
def test_a_killed_lane_leaves_what_somebody_wrote_meanwhile(run: Runner, before: bool) -> None:
    step = changed(BUILD, isolate="tree")
    if before:
        assert run.go(step).state == "ok"
        run.repo.write("src/a", "two\n")
    assert run.killed("in-command", step)
    run.repo.write("dist/notes", "precious\n")
    if before:
        run.repo.write("dist/a", "by hand\n")
        assert run.go(step).state == "conflict" and run.read("dist/a") == "by hand\n"
    else:
        assert run.go(step).state == "ok"
    assert run.read("dist/notes") == "precious\n" and not run.told("orphan")


@pytest.mark.deep
def test_what_a_killed_lane_had_brought_is_taken_back(run: Runner) -> None:
    run.repo.write("dist/old", "old\n")
    assert run.killed("before-end", changed(BUILD, isolate="tree"))
    assert not run.there("dist/old") and run.read("dist/a") == "one\n"
    run.repo.write("dist/b", "by hand\n")
    run.repo.write("src/a", "two\n")
    with run.open() as ctx, ctx.hold(), ctx.claimed("build", ("dist/**",)) as claim:
        assert recover(ctx, claim, BUILD, present(ctx, BUILD)) is None
    assert listing(run.repo.path / "dist") == {"b": b"by hand\n", "old": b"old\n"}
    (orphan,) = [lg.parts["orphan"] for lg in run.records() if lg.record.type == "abort"]
    assert run.files(orphan) == {"dist/a": "one"}


@pytest.mark.deep
def test_a_begin_that_was_fetched_removes_nothing_here(run: Runner) -> None:
    """Not even one from a machine of the same name and a work tree of the same path."""
    assert run.go(BUILD).state == "ok"
    run.repo.write("src/a", "two\n")
    assert run.killed("in-command", BUILD)
    here, there = run.repo.path, run.repo.path.parent / "there"
    os.rename(here, there)
    run.repo = Sandbox.init(here)
    run.repo.git("fetch", "-q", "../there", "refs/baton/runs/*:refs/baton/remotes/origin/runs/*")
    run.repo.write("src/a", "two\n")
    run.repo.write("dist/mine", "precious\n")
    with run.open() as ctx:
        ctx.journal.adopt("r1")
    assert run.go(BUILD, foreign=True).state == "ok"
    assert run.read("dist/mine") == "precious\n" and run.read("dist/a") == "two\n"


@pytest.mark.deep
def test_a_repository_that_was_moved_knows_its_torn_files(run: Runner) -> None:
    assert run.killed("after-command", BUILD)
    moved = run.repo.path.parent / "moved"
    os.rename(run.repo.path, moved)
    run.repo = Sandbox(moved)
    run.repo.write("src/a", "two\n")
    assert run.go(changed(BUILD, argv=("sh", "-c", "ls dist > $X/seen; mkdir -p dist; cat src/a > dist/c"))).state == "ok"
    assert run.lines("seen") == [] and listing(moved / "dist") == {"c": b"two\n"}


@pytest.mark.deep
def test_another_work_tree_goes_on_and_the_first_knows_its_torn_files(run: Runner) -> None:
    line = f'test -e "$X/on" && {{ {BUILD.argv[2]}; }} || {{ mkdir -p dist; echo half > dist/a; }}'
    torn = changed(BUILD, argv=("sh", "-c", line))
    run.repo.commit("one")
    run.repo.git("worktree", "add", "-q", "--detach", "../second")
    assert run.killed("after-command", torn)
    first, run.repo = run.repo, Sandbox(run.repo.path.parent / "second")
    (run.outside / "on").touch()
    run.repo.write("dist/theirs", "theirs\n")
    assert run.go(torn).state == "ok" and run.read("dist/a") == "one\n" and run.read("dist/theirs") == "theirs\n"
    run.repo = first
    assert run.read("dist/a") == "half\n"
    assert run.go(torn).state == "cached" and run.read("dist/a") == "one\n"
    assert run.go(torn).state == "cached" and run.types()[-1] in ("abort", "end")
    run.checked()
