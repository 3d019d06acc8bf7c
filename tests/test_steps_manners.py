"""What a step leaves alone: folders, links, permissions and bytes of somebody else's."""

from __future__ import annotations

import pytest

from tests.support import Sandbox
from tests.support.steps import Runner, changed, sh


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    repo.write("src/a", "one\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "sources")
    return Runner(repo)


@pytest.mark.parametrize("isolate", ["none", "tree"])
@pytest.mark.parametrize("glob", ["out/**", "out/a", "out/sub/*"])
def test_a_folder_that_was_there_stays_when_nothing_is_left_in_it(run: Runner, glob: str, isolate: str) -> None:
    (run.repo.path / "out").mkdir()
    line = '[ -d out ] || exit 9; mkdir -p out/sub; echo $(cat src/a) > out/a; cp out/a out/sub/a; [ "$GIT_BATON_ATTEMPT" = 2 ]'
    step = sh("s", line, reads="src/a", writes=glob, retries=1, isolate=isolate, on_undeclared="restore")
    done = run.go(step)
    assert (done.state, done.code) == ("ok", 0), done.text
    run.repo.write("src/a", "two\n")
    assert run.go(changed(step, retries=0)).code == 1
    assert run.there("out")
    run.checked()


def test_a_folder_that_only_the_step_made_goes_with_its_files(run: Runner) -> None:
    step = sh("s", 'mkdir out; echo x > out/a; [ "$GIT_BATON_ATTEMPT" = 2 ]', reads="src/a", writes="out/**", retries=1)
    assert run.go(step).state == "ok"


def test_a_folder_that_was_there_survives_a_kill(run: Runner) -> None:
    (run.repo.path / "out").mkdir()
    step = sh("s", "echo x > out/a", reads="src/a", writes="out/**")
    assert run.killed("after-command", step)
    assert run.go(step).state == "ok"
    assert run.types() == ["begin", "abort", "begin", "end"]


def test_what_is_put_back_leaves_the_folder_that_it_was_put_in(run: Runner) -> None:
    (run.repo.path / "mine").mkdir()
    done = run.go(sh("s", "echo x > mine/stray", reads="src/a", on_undeclared="restore"))
    assert done.state == "ok" and run.there("mine") and not run.there("mine/stray")
