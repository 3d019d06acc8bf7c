"""What a step must not lose: work done in a copy, the last good outputs, the copy itself, and what is said of all that."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.cli.commands.reporting import EventLines
from gitbaton.runs.attempt import perform
from gitbaton.runs.journal.values import Plan
from gitbaton.runs.plans import output
from tests.kit import Sandbox
from tests.kit.steps import Runner, changed, sh
from tests.kit.tiers import some

SOURCES = {"reads": "src/**", "writes": "out/**"}


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    repo.write("src/a", "one\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "sources")
    return Runner(repo)


def warned(run: Runner) -> list[str]:
    """The warnings since the last look."""
    said = [event.text for event in run.told("warning")]
    run.events.clear()
    return said


def commits(run: Runner) -> str:
    return run.repo.git("rev-list", "--all", "--not", "--glob=refs/baton/*")


@pytest.mark.deep
@pytest.mark.parametrize("option", ["", "--object-format=sha256", "--ref-format=reftable"])
def test_what_is_done_in_a_copy_is_kept_and_said(
    tmp_path: Path, option: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "reftable" in option:
        new = request.getfixturevalue("new_git")
        monkeypatch.setenv("PATH", os.path.dirname(new) + os.pathsep + os.environ["PATH"])
    repo = Sandbox.init(tmp_path / "repo", *([option] if option else []))
    repo.commit("first", a_txt="one\n")
    run = Runner(repo)
    repo.git("config", "baton.maxFileSize", "1000")
    line = "echo v2 > a.txt; echo r > report; ln -s report link; head -c 2000 /dev/zero > big; git add .; git commit -qm rel"
    done = run.go(sh("rel", line, isolate="tree"))
    assert done.state == "ok" and done.logged is not None and run.read("a.txt") == "one\n" and not run.there("report")
    (said,) = run.told("not-brought-back")
    assert said.text == "a.txt, big, link, report"
    big, made = warned(run)
    assert big == "'big' is not kept: it is larger than baton.maxFileSize, or cannot be read"
    words, _, commit = made.rpartition(" ")
    assert words == "made commits in its copy, which are on no branch:"
    assert commit not in commits(run) and repo.git("rev-parse", f"{done.logged.commit}^2") == commit
    assert run.files(done.logged.parts["undeclared-after"]) == {"a.txt": "v2", "report": "r", "link": "report"}
    assert run.files(done.logged.parts["undeclared"]) == {"a.txt": "one"}
    after = {u.path: u.after for u in done.logged.record.undeclared}
    assert after.pop("big") is None
    for oid in after.values():
        repo.git("cat-file", "-e", str(oid))
    run.checked()
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert repo.git("log", "-1", "--format=%s", commit) == "rel"
    run.checked()


@pytest.mark.parametrize(
    "line", ["git checkout -q -b side; git commit -q --allow-empty -m x", "git checkout -q HEAD~1", "git reset -q --hard HEAD"]
)
def test_commits_that_are_on_a_branch_need_not_be_kept(run: Runner, line: str) -> None:
    done = run.go(sh("s", line, isolate="tree"))
    assert done.state == "ok" and done.logged is not None and warned(run) == []
    assert len(run.repo.git("rev-list", "--parents", "-1", done.logged.commit).split()) == 2


@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_commits_of_a_step_that_fails_are_kept(run: Runner, isolate: str) -> None:
    before = run.repo.head()
    done = run.go(sh("s", "git commit -q --allow-empty -m x; exit 3", isolate=isolate))
    assert done.code == 3 and done.logged is not None
    assert (len(warned(run)) == 1) == (isolate == "tree") == (run.repo.head() == before)


def test_what_is_put_back_in_place_is_kept_too(run: Runner) -> None:
    run.repo.write("wip", "mine\n")
    done = run.go(sh("s", "echo scribble > wip; echo new > stray", on_undeclared="restore"))
    assert done.logged is not None and run.read("wip") == "mine\n" and not run.there("stray")
    assert run.files(done.logged.parts["undeclared"]) == {"wip": "mine"}
    assert run.files(done.logged.parts["undeclared-after"]) == {"stray": "new", "wip": "scribble"}
    run.checked()


BUILD = sh("b", "mkdir -p out; [ ! -e out/x ] || exit 9; cat src/a > out/x; cat src/a > out/$(cat src/a)", **SOURCES)
FAILS = "[ ! -e out/x ] || exit 9; mkdir -p out; echo torn > out/x; echo torn > out/torn; exit 1"


def listing(run: Runner) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted((run.repo.path / "out").iterdir())}


@pytest.mark.full
@some("isolate", ["none", "tree"])
@some("line", ["false", FAILS, FAILS.replace("exit 1", "kill $$")])
def test_a_failed_rebuild_leaves_the_last_good_outputs(run: Runner, line: str, isolate: str) -> None:
    run.repo.write("out/theirs", "before\n")
    run.go(BUILD)
    good = listing(run)
    assert good == {"one": "one\n", "theirs": "before\n", "x": "one\n"}
    run.repo.write("src/a", "two\n")
    bad = changed(BUILD, argv=("sh", "-c", line), isolate=isolate, retries=1)
    for _ in range(2):
        assert run.go(bad).code not in (0, 9) and listing(run) == good
    assert run.go(BUILD).state == "ok" and listing(run) == {"theirs": "before\n", "two": "two\n", "x": "two\n"}
    run.repo.write("src/a", "one\n")
    assert run.go(BUILD).state == "cached" and listing(run) == good
    assert warned(run) == []
    run.checked()


POINTS = ("after-begin", "in-clearing", "in-command", "after-command", "in-bring-back")


@pytest.mark.full
@some("isolate", ["none", "tree"])
@some("point", POINTS)
def test_a_killed_rebuild_leaves_the_last_good_outputs(run: Runner, point: str, isolate: str) -> None:
    run.go(BUILD)
    good = listing(run)
    run.repo.write("src/a", "two\n")
    again = changed(BUILD, argv=("sh", "-c", BUILD.argv[2] + "; echo y > out/y"), isolate=isolate)
    assert run.killed(point, again) == (
        (point != "in-bring-back" or isolate == "tree") and (point != "in-clearing" or isolate == "none")
    )
    bad = changed(BUILD, argv=("sh", "-c", FAILS), isolate=isolate, extra=("bad",))
    if run.types("b")[-1] == "begin":
        assert run.go(bad).code == 1 and listing(run) == good
    assert run.go(again).good and listing(run) == {"two": "two\n", "x": "two\n", "y": "y\n"}
    run.checked()


@pytest.mark.full
@pytest.mark.parametrize("point", ["after-fail", "after-command"])
def test_a_failed_rebuild_that_is_killed_leaves_the_last_good_outputs_to_the_next_one(run: Runner, point: str) -> None:
    run.repo.write("out/theirs", "before\n")
    run.go(BUILD)
    good = listing(run)
    run.repo.write("src/a", "two\n")
    bad = changed(BUILD, argv=("sh", "-c", FAILS))
    assert run.killed(point, bad) and listing(run) == {"theirs": "before\n", "torn": "torn\n", "x": "torn\n"}
    for _ in range(2):
        assert run.go(bad).code == 1 and listing(run) == good
    assert warned(run) == []
    run.checked()


@pytest.mark.deep
def test_edits_of_outputs_come_back_when_a_forced_rebuild_fails(run: Runner) -> None:
    run.go(BUILD)
    run.repo.write("out/x", "by hand\n")
    run.repo.write("src/a", "two\n")
    bad = changed(BUILD, argv=("sh", "-c", FAILS))
    assert run.go(bad).code == 78
    assert run.go(bad, take="ours").code == 1
    assert listing(run) == {"one": "one\n", "x": "by hand\n"}
    run.checked()


REMOVES = (
    'rm -rf "$PWD"',
    'git worktree remove -f "$PWD"',
    'rm -rf "$PWD"; ln -s / "$PWD"',
    'rm -rf "$(git rev-parse --git-dir)"',
)


@pytest.mark.deep
@pytest.mark.parametrize("line", REMOVES)
def test_a_step_that_removes_its_copy_fails_and_the_next_one_has_a_new_one(run: Runner, line: str) -> None:
    step = sh("gone", f"{line}; exit ${{CODE:-0}}", isolate="tree", **SOURCES)
    after = sh("next", "mkdir -p out; cat src/a > out/x", isolate="tree", **SOURCES)
    with run.open() as ctx:
        plan = Plan(steps=(step, after))
        done = perform(ctx, step, plan)
        assert (done.state, done.code) == ("failed", 125) and ctx.logged()[-1].record.type == "fail"
        assert perform(ctx, after, plan).state == "ok"
    assert run.read("out/x") == "one\n" and run.read("src/a") == "one\n"
    seven = changed(step, argv=("sh", "-c", f"{line}; exit 7"))
    assert run.go(seven).code == 7
    assert [path.name for path in run.repo.path.parent.iterdir() if path.name.startswith("gitbaton")] == []
    assert run.repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    run.checked()


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_a_step_that_removes_the_folder_it_runs_in(run: Runner, isolate: str) -> None:
    run.repo.write("sub/x", "x\n")
    step = sh("s", 'rm -rf "$PWD"', isolate=isolate, cwd="sub", writes="sub/x")
    assert run.go(step).code == 125 and run.read("sub/x") == "x\n"
    assert run.go(changed(step, allow_empty=True)).state == "ok" and not run.there("sub/x")
    run.checked()


@pytest.mark.deep
def test_a_hit_says_that_its_output_was_cut(run: Runner) -> None:
    step = sh("s", "seq 1 300000; echo short >&2", reads="src/**")
    run.go(step)
    assert warned(run) == []
    done = run.go(step)
    assert done.logged is not None
    with run.open() as ctx:
        size = len(output(ctx.objects, done.logged)[0])
    assert size <= 1 << 20 and warned(run) == [f"its output was 1988895 bytes long; only the last {size} are kept"]


def test_output_that_cannot_be_written_is_named(run: Runner) -> None:
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        done = run.go(sh("s", "seq 1 10; exit 3", reads="src/**"), show=True)
        text = "its output could not be written: No space left on device"
        os._exit(done.code if warned(run) == [text] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def test_a_hit_whose_output_cannot_be_written_is_a_hit(run: Runner) -> None:
    step = sh("s", "seq 1 10", reads="src/**")
    run.go(step)
    run.events.clear()
    run.go(step)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        os.dup2(write, 2)
        sys.stderr = os.fdopen(2, "w", buffering=1)
        with Baton(run.repo.path) as baton:
            show = EventLines(baton, "r1", live=False, colors={})
            for event in run.events:
                show(event)
        os._exit(0)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with os.fdopen(read) as said:
        assert said.read().splitlines()[-1] == "baton: s: its output could not be written: No space left on device"


@pytest.mark.deep
def test_an_output_that_is_kept_by_digest_only_survives_a_failure(run: Runner) -> None:
    step = changed(BUILD, store="none", isolate="auto")
    run.go(step)
    good = listing(run)
    bad = changed(step, argv=("sh", "-c", FAILS))
    done = run.go(bad)
    assert done.code == 1 and listing(run) == good and warned(run) == []
    assert run.go(changed(bad, isolate="none")).code == 1
    assert warned(run) == [f"'out/{name}' could not be put back: nothing but its digest is kept" for name in ("one", "x")]
    run.checked()


@pytest.mark.deep
def test_a_reads_glob_that_matches_nothing_is_named_once(run: Runner) -> None:
    step = changed(sh("s", "false", retries=2), reads=("src/**", "srx/**"))
    run.go(step)
    assert warned(run) == ["reads 'srx/**' matches nothing"]
    assert run.go(changed(step, argv=("true",))).state == "ok" and len(warned(run)) == 1


def test_the_copy_is_said_once_for_a_run_of_a_step(run: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    step = sh("s", "false", retries=2, isolate="auto", writes="out/x")
    run.go(step)
    way = next(e.text for e in run.told("isolation") if e.text != "none")
    with Baton(run.repo.path) as baton:
        show = EventLines(baton, "r1", live=False, colors={})
        for event in [*run.events, *run.events]:
            show(event)
        show.close()
    said = [line for line in capfd.readouterr().err.splitlines() if "copy" in line]
    assert said == [f"baton: s: runs in a copy of the work tree ({way})"] * 2
