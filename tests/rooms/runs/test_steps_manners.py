"""What a step leaves alone: folders, links, permissions and bytes of somebody else's."""

from __future__ import annotations

import errno
import os

import pytest

from tests.kit import Sandbox
from tests.kit.moments import Args, at
from tests.kit.steps import Runner, changed, sh
from tests.kit.tiers import some


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    repo.write("src/a", "one\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "sources")
    return Runner(repo)


@pytest.mark.full
@some("isolate", ["none", "tree"], 2)
@some("glob", ["out/**", "out/a", "out/sub/*"], 2)
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


@pytest.mark.deep
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


def test_an_absolute_link_into_the_lane_leads_to_the_same_place_in_the_work_tree(run: Runner) -> None:
    step = sh("s", 'mkdir -p out; ln -s "$PWD/src/a" out/l', reads="src/a", writes="out/**", isolate="tree")
    assert run.go(step).state == "ok"
    assert os.readlink(run.repo.path / "out/l") == os.fspath(run.repo.path.resolve() / "src/a")
    assert run.go(step).state == "cached" and run.read("out/l") == "one\n"
    run.checked()


@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_what_cannot_be_brought_in_is_a_failure_and_no_open_begin(run: Runner, isolate: str) -> None:
    tries = iter(range(99))

    def broken(args: Args) -> None:
        if not next(tries):
            raise OSError(errno.EIO, "Input/output error", args[0])

    with at("open", lambda args: str(args[0]).endswith("out/odd"), broken):
        done = run.go(sh("s", "mkdir -p out; echo x > out/odd", reads="src/a", writes="out/**", isolate=isolate))
    assert (done.state, done.code, run.types()) == ("failed", 125, ["begin", "fail"])
    assert "Input/output error" in done.text and not run.there("out")
    run.checked()


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_a_link_of_the_users_own_that_leads_outside_is_left_alone(run: Runner, isolate: str) -> None:
    out = run.repo.path / "out"
    out.mkdir()
    (out / "l").symlink_to("/etc")
    step = sh("s", "cp src/a out/a", reads="src/a", writes="out/**", isolate=isolate)
    done = run.go(step)
    assert done.state == "ok" and list(run.files(done.logged.parts["writes"])) == ["out/a"]  # type: ignore[union-attr]
    run.repo.write("src/a", "two\n")
    assert run.go(step).state == "ok"
    run.repo.write("src/a", "one\n")
    assert run.go(step).state == "cached"
    assert run.go(changed(step, argv=("sh", "-c", "exit 3"))).code == 3
    assert os.readlink(out / "l") == "/etc"
    assert run.go(changed(step, argv=("sh", "-c", "ln -sfn /usr out/l"))).code == 125
    if isolate == "none":
        assert run.go(changed(step, argv=("sh", "-c", "rm out/l; cp src/a out/a"))).state == "ok"
        run.repo.write("src/a", "four\n")
    assert os.readlink(out / "l") == "/etc" if isolate == "tree" else True
    run.checked()


@pytest.mark.deep
@some("take", ["ours", "theirs"])
@some("store", ["all", "none"])
@some("folder", [True, False])
def test_an_edit_is_decided_for_either_side_and_both_are_kept(run: Runner, take: str, store: str, folder: bool) -> None:
    step = sh("s", "mkdir -p out; cp src/a out/app", reads="src/a", writes="out/**", store=store)
    run.go(step)
    edited = "out/app/x" if folder else "out/app"
    (run.repo.path / "out/app").unlink()
    run.repo.write(edited, "mine\n")
    if store == "all" or folder:
        assert run.go(step).code == 78
    assert run.go(step, take=take).good
    assert run.read("out/app" if take == "ours" else edited) == ("one\n" if take == "ours" else "mine\n")
    assert run.go(step).state == "cached"
    run.repo.git("gc", "-q", "--prune=now")
    kept = [run.files(lg.parts["orphan"]) for lg in run.records() if "orphan" in lg.parts]
    assert {edited: "mine"} in kept
    run.checked()


def test_what_is_put_back_over_somebody_elses_bytes_keeps_them(run: Runner) -> None:
    run.repo.write("f", "mine\n")
    done = run.go(sh("s", "echo other > f; echo x > new", reads="src/a", on_undeclared="restore"))
    assert done.state == "ok" and run.read("f") == "mine\n" and not run.there("new")
    run.repo.git("gc", "-q", "--prune=now")
    assert run.files(done.logged.parts["undeclared-after"]) == {"f": "other", "new": "x"}  # type: ignore[union-attr]
    said = [event.text for event in run.told("orphan")]
    assert said == [f"put back: {path} (what stood there is in the journal)" for path in ("f", "new")]
    run.checked()


def bits(run: Runner, name: str) -> int:
    return (run.repo.path / name).stat().st_mode & 0o777


@pytest.mark.deep
@some("filemode", ["true", "false"])
@some("isolate", ["none", "tree"])
def test_permissions_stay_or_are_those_that_the_command_gave(run: Runner, isolate: str, filemode: str) -> None:
    run.repo.git("config", "core.filemode", filemode)
    line = (
        "mkdir -p out; rm -f out/key; (umask 077; cp src/a out/key); cp src/a out/tool; chmod 750 out/tool; exit $(cat src/x)"
    )
    run.repo.write("src/x", "0")
    step = sh("s", line, reads="src/**", writes="out/**", isolate=isolate)
    assert run.go(step).state == "ok"
    assert [oct(bits(run, name)) for name in ("out/key", "out/tool")] == ["0o600", "0o750"]
    run.repo.write("src/a", "two\n")
    assert run.go(step).state == "ok" and bits(run, "out/key") == 0o600
    run.repo.write("src/a", "one\n")
    assert run.go(step).state == "cached" and run.read("out/key") == "one\n"
    assert [oct(bits(run, name)) for name in ("out/key", "out/tool")] == ["0o600", "0o750"]
    run.repo.write("src/x", "1")
    assert run.go(changed(step, argv=("sh", "-c", "mkdir -p out; echo x > out/key; exit 1"))).code == 1
    assert [oct(bits(run, name)) for name in ("out/key", "out/tool")] == ["0o600", "0o750"]
    run.checked()


def test_much_that_is_untracked_is_watched_and_not_all_stored(run: Runner) -> None:
    """At most 64 MiB, the smallest files first."""
    for number, size in enumerate((2000, 2001, 15 << 20, 50 << 20)):
        os.truncate(run.repo.write(f"big{number}", f"{number}" * 2000), size)
    done = run.go(sh("s", "echo x > big0; echo x > big3; chmod 600 big1", reads="src/a", on_undeclared="restore"))
    assert done.state == "ok" and run.read("big0") == "0" * 2000 and run.read("big3") == "x\n"
    (end,) = [lg.record for lg in run.records() if lg.record.type == "end"]
    assert {u.path: u.before is not None for u in end.undeclared} == {"big0": True, "big3": False}
    assert "not kept: big3" in [event.text for event in run.told("warning")]
    run.checked()


@pytest.mark.deep
def test_a_result_that_would_be_a_failure_now_is_not_served(run: Runner) -> None:
    stray = sh("s", "cp src/a out; echo x >> stray", reads="src/a", writes="out")
    run.go(stray)
    assert run.go(changed(stray, on_undeclared="fail")).code == 125
    empty = sh("e", "exit 0", reads="src/a", writes="dist/**", allow_empty=True)
    assert run.go(empty).state == "ok" and run.go(empty).state == "cached"
    assert run.go(changed(empty, allow_empty=False)).code == 125


def test_what_no_tree_can_hold_is_named(run: Runner) -> None:
    line = "mkdir -p out/empty; mkfifo out/pipe; git init -q out/nested; rm -rf out/nested/.git/hooks; echo x > out/a"
    assert run.go(sh("s", line, reads="src/a", writes="out/**", isolate="tree")).state == "ok" and run.there("out/empty")
    assert [event.text for event in run.told("warning")] == ["not brought back: out/nested/.git, out/pipe"]


@pytest.mark.deep
@some("isolate", ["none", "tree"])
@some("glob", ["lg", "lf/g", "lf", "lf/**", "lo"])
def test_what_links_lead_to_is_read(run: Runner, glob: str, isolate: str) -> None:
    run.repo.write("real/g", "one\n")
    away = run.outside / "o"
    away.write_text("one\n")
    for link, to in (("lg", "real/g"), ("lf", "real"), ("lo", os.fspath(away))):
        (run.repo.path / link).symlink_to(to)
    step = sh("s", "cat lg lf/g lo > out", reads=glob, writes="out", isolate=isolate, verify="true")
    assert run.go(step).state == "ok"
    assert run.go(step).state == "cached"
    run.repo.write("real/g", "two\n")
    away.write_text("two\n")
    done = run.go(step)
    assert done.state == "ok" and done.cause is not None and done.cause.kind == "input"
    assert run.go(step).state == "cached"
    run.checked()
