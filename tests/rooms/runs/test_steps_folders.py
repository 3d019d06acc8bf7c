"""Folders of outputs: empty ones, and the permissions of all, come back from a copy, a retry, a hit and a kill."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gitbaton.runs.journal.values import Step
from tests.kit import Sandbox
from tests.kit.steps import Runner, changed, sh
from tests.kit.tiers import some

MAKE = (
    "mkdir -p build/obj/deep/er build/shared build/private build/gone-dry; echo c > build/conf; echo k > build/private/key;"
    " chmod 2775 build/shared build/obj/deep; chmod 700 build/private; chmod 750 build/obj/deep/er; ln -s obj build/link"
)


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    repo.write("src/a", "one\n")
    return Runner(repo)


def folders(place: Path) -> dict[str, str]:
    """Every folder below a place, with its permissions, and every link to one."""
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(place))] = f"-> {os.readlink(path)}"
        elif path.is_dir():
            found[str(path.relative_to(place))] = f"{path.stat().st_mode & 0o7777:o}"
    return found


def build(isolate: str = "none", **more: object) -> Step:
    return sh("build", MAKE, reads="src/a", writes="build/**", isolate=isolate, **more)


WANTED = {
    "gone-dry": "755",
    "link": "-> obj",
    "obj": "755",
    "obj/deep": "2775",
    "obj/deep/er": "750",
    "private": "700",
    "shared": "2775",
}


@pytest.fixture(autouse=True)
def mask() -> object:
    old = os.umask(0o022)
    yield
    os.umask(old)


@some("isolate", ["tree", "none"], 2)
def test_the_folders_of_a_result_are_those_that_the_command_made(run: Runner, isolate: str) -> None:
    place, step = run.repo.path / "build", build(isolate)
    assert run.go(step).state == "ok" and folders(place) == WANTED and not run.told("warning")
    assert run.go(step).state == "cached" and folders(place) == WANTED
    shutil.rmtree(place)
    assert run.go(step).state == "cached" and folders(place) == WANTED, "served"
    for name in ("gone-dry", "obj/deep/er"):
        (place / name).rmdir()
    (place / "shared").chmod(0o711)
    assert run.go(step).state == "cached" and folders(place) == {**WANTED, "shared": "711"}, "what somebody set stays"
    (place / "theirs").mkdir()
    assert run.go(step).state == "cached" and folders(place) == {**WANTED, "shared": "711", "theirs": "755"}
    run.checked()


@some("isolate", ["tree", "none"], 2)
def test_a_command_finds_no_folder_of_its_last_result(run: Runner, isolate: str) -> None:
    strict = sh("build", "mkdir build build/obj; echo $(cat src/a) > build/conf", reads="src/a", writes="build/**")
    strict, place = changed(strict, isolate=isolate), run.repo.path / "build"
    assert run.go(strict).state == "ok"
    run.repo.write("src/a", "two\n")
    assert run.go(strict).state == "ok" and folders(place) == {"obj": "755"}
    assert run.go(strict).state == "cached"
    run.repo.write("src/a", "one\n")
    shutil.rmtree(place)
    assert run.go(strict).state == "cached" and folders(place) == {"obj": "755"} and run.read("build/conf") == "one\n"
    run.checked()


def test_what_a_failed_attempt_left_half_is_gone_before_the_next_and_after_the_last(run: Runner) -> None:
    line = (
        'mkdir build/half || exit 9; chmod 700 build; rmdir build/stays; test "$GIT_BATON_ATTEMPT" = 3 && echo c > build/conf'
    )
    step = sh("build", line, reads="src/a", writes="build/**", isolate="auto", retries=1)
    place = run.repo.path / "build"
    (place / "stays").mkdir(parents=True)
    before = folders(run.repo.path / "build")
    done = run.go(step)
    assert done.code == 1 and folders(place) == before and place.stat().st_mode & 0o777 == 0o755
    done = run.go(changed(step, retries=2))
    assert done.state == "ok" and folders(place) == {"half": "755"} and place.stat().st_mode & 0o777 == 0o700
    run.checked()


def test_a_result_without_some_folders_of_the_last_one_removes_them_when_it_is_served(run: Runner) -> None:
    step = sh("build", 'mkdir -p "build/$(cat src/a)"; echo x > build/conf', reads="src/a", writes="build/**", isolate="tree")
    place = run.repo.path / "build"
    for text in ("one", "two", "one", "two"):
        run.repo.write("src/a", f"{text}\n")
        assert run.go(step).good and folders(place) == {text: "755"}


@some("point", ["in-command", "after-command", "before-end", "in-bring-back", "in-materialize"], 2)
@some("isolate", ["none", "tree"], 2)
def test_a_kill_leaves_no_folder_that_the_next_attempt_would_trip_over(run: Runner, point: str, isolate: str) -> None:
    strict = sh("build", "mkdir build build/obj; sleep 0.2; echo c > build/conf", reads="src/a", writes="build/**")
    strict = changed(strict, isolate=isolate)
    run.killed(point, strict)
    done = run.go(strict)
    assert done.good and folders(run.repo.path / "build") == {"obj": "755"}
    run.checked()


def test_what_came_from_elsewhere_gets_no_more_than_a_folder_that_is_made_has(run: Runner) -> None:
    from gitbaton.base.values import replace
    from gitbaton.runs.outputs import recorded_folders

    step = sh("build", "mkdir -p build/open; chmod 2777 build/open; echo x > build/x", reads="src/a", writes="build/**")
    assert run.go(step).state == "ok"
    end = run.state("build").end
    assert end is not None and recorded_folders(end) == {"build/open": 0o2777}
    assert recorded_folders(replace(end, foreign=True)) == {"build/open": 0o755}
