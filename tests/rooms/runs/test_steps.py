"""One step: when it is served and when it runs, what counts as its result, and what is left when it fails."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable

import pytest

from gitbaton.runs.journal.values import Backoff, Cause
from gitbaton.runs.plans import output
from tests.kit import Sandbox
from tests.kit.moments import Args, at
from tests.kit.steps import Runner, changed, counted, sh


@pytest.fixture
def run(repo: Sandbox) -> Runner:
    repo.write("src/a.txt", "one\n")
    repo.write(".gitignore", "dist/\n")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "sources")
    return Runner(repo)


BUILD = sh(
    "build", counted("mkdir -p dist; cat src/* > dist/out; echo made; echo warned >&2"), reads="src/**", writes="dist/**"
)


def test_r01_a_second_run_is_served_with_its_output(run: Runner) -> None:
    first = run.go(BUILD)
    assert (first.state, first.code) == ("ok", 0)
    again = run.go(BUILD)
    assert (again.state, again.code) == ("cached", 0)
    assert run.lines("ran") == ["build"]
    with run.open() as ctx:
        assert again.logged is not None and output(ctx.objects, again.logged) == (b"made\n", b"warned\n")
    (event,) = run.told("cached")
    assert event.key == first.logged.record.key  # type: ignore[union-attr]
    assert run.types() == ["begin", "end"]
    run.checked()


def test_r02_a_touch_changes_nothing(run: Runner) -> None:
    run.go(BUILD)
    os.utime(run.repo.path / "src/a.txt", (1, 1))
    assert run.go(BUILD).state == "cached"


@pytest.mark.deep
def test_r03_whatever_changes_in_the_inputs_runs_it_again(run: Runner) -> None:
    source = run.repo.path / "src/a.txt"
    (run.repo.path / "src/link").symlink_to("a.txt")
    run.go(BUILD)

    def relink() -> None:
        (run.repo.path / "src/link").unlink()
        (run.repo.path / "src/link").symlink_to("./a.txt")

    changes: list[Callable[[], object]] = [
        lambda: source.write_text("two\n"),
        lambda: source.chmod(0o755),
        relink,
        lambda: run.repo.write("src/new.txt", "new\n"),
        lambda: (run.repo.path / "src/new.txt").unlink(),
    ]
    paths = ["src/a.txt", "src/a.txt", "src/link", "src/new.txt"]
    for number, change in enumerate(changes):
        before = len(run.lines("ran"))
        change()
        done = run.go(BUILD)
        if number == 4:  # without the new file all is as in the third run
            assert done.state == "cached"
            break
        assert (done.state, len(run.lines("ran"))) == ("ok", before + 1)
        assert done.cause is not None and (done.cause.kind, done.cause.path) == ("input", paths[number])
    run.checked()


@pytest.mark.deep
def test_r04_words_and_declared_variables_are_part_of_the_key(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    step = changed(BUILD, env=("MODE",), extra=("node 20",))
    run.go(step)
    monkeypatch.setenv("OTHER", "anything")
    assert run.go(step).state == "cached"
    monkeypatch.setenv("MODE", "debug")
    assert run.go(step).cause == Cause(kind="env", path="MODE", new=run.state("build").end.record.env[0][1])  # type: ignore[union-attr]
    assert run.go(changed(step, extra=("node 22",))).cause == Cause(kind="key", old="node 20", new="node 22")
    assert run.go(sh("build", "mkdir -p dist; :>dist/x", reads="src/**", writes="dist/**", env="MODE")).cause.kind == "argv"  # type: ignore[union-attr]
    assert len(run.lines("ran")) == 3
    assert b"debug" not in run.repo.run("git", "cat-file", "-p", "refs/baton/runs/r1:record.json").out.encode()
    run.checked()


@pytest.mark.deep
def test_r05_a_hit_makes_the_write_set_equal_and_spares_what_is_not_ours(run: Runner) -> None:
    many = changed(BUILD, argv=("sh", "-c", "mkdir -p dist/sub; for w in $(cat src/a.txt); do echo $w > dist/sub/$w; done"))
    run.go(many)
    run.repo.write("src/a.txt", "one two\n")
    run.go(many)
    run.repo.write("dist/mine.txt", "somebody's\n")
    run.repo.write("src/a.txt", "one\n")
    assert run.go(many).state == "cached"
    assert run.there("dist/sub/one") and not run.there("dist/sub/two") and run.read("dist/mine.txt") == "somebody's\n"
    (run.repo.path / "dist/sub/one").unlink()
    assert run.go(many).state == "cached"
    assert run.read("dist/sub/one") == "one\n"
    run.repo.write("src/a.txt", "three\n")
    done = run.go(many)
    assert done.logged is not None and list(run.files(done.logged.parts["writes"])) == ["dist/sub/three"]
    assert run.read("dist/mine.txt") == "somebody's\n"
    run.checked()


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_a_file_that_somebody_wrote_and_the_command_wrote_again_is_an_output(run: Runner, isolate: str) -> None:
    step = sh("build", "mkdir -p dist; for w in $(cat src/a.txt); do echo w > dist/$w; done", reads="src/**", writes="dist/**")
    step = changed(step, isolate=isolate)
    run.go(step)
    run.repo.write("dist/two", "w\n")
    run.repo.write("dist/mine", "w\n")
    run.repo.write("src/a.txt", "one two\n")
    done = run.go(step)
    assert done.logged is not None and list(run.files(done.logged.parts["writes"])) == ["dist/one", "dist/two"]
    run.checked()


def test_r06_inputs_that_move_while_it_runs_make_a_result_that_is_not_served(run: Runner) -> None:
    step = sh(
        "build", counted("mkdir -p dist; cat src/a.txt > dist/out; echo late >> src/a.txt"), reads="src/**", writes="dist/**"
    )
    done = run.go(step)
    assert done.state == "ok" and done.logged is not None and done.logged.record.stable is False
    run.repo.write("src/a.txt", "one\n")
    again = run.go(step)
    assert again.state == "ok" and again.cause == Cause(kind="unstable")
    assert len(run.lines("ran")) == 2


@pytest.mark.deep
def test_r07_success_without_outputs_is_a_failure(run: Runner) -> None:
    step = sh("build", counted("true"), reads="src/**", writes=("dist/**", "other"))
    done = run.go(step)
    assert (done.state, done.code) == ("failed", 125) and "dist/**" in done.text
    assert run.go(step).state == "failed"
    assert len(run.lines("ran")) == 2
    assert run.go(changed(step, allow_empty=True)).state == "ok"
    run.checked()


@pytest.mark.deep
def test_r08_a_failure_is_not_served_and_puts_the_write_set_back(run: Runner) -> None:
    run.repo.write("dist/before", "kept\n")
    step = sh("build", counted("echo torn > dist/out; echo changed > dist/before; exit 3"), reads="src/**", writes="dist/**")
    for count in (1, 2):
        done = run.go(step)
        assert (done.state, done.code, len(run.lines("ran"))) == ("failed", 3, count)
        assert run.read("dist/before") == "kept\n" and not run.there("dist/out")
        assert done.logged is not None
        assert run.files(done.logged.parts["orphan"]) == {"dist/out": "torn", "dist/before": "changed"}
    assert run.types() == ["begin", "fail"] * 2
    run.checked()


@pytest.mark.deep
def test_r09_nothing_declared_is_never_served(run: Runner) -> None:
    step = sh("lint", counted("true"))
    assert [run.go(step).state for _ in range(2)] == ["ok", "ok"]
    assert run.lines("ran") == ["lint", "lint"]
    keyed = changed(step, extra=("v1",))
    assert [run.go(keyed).state for _ in range(2)] == ["ok", "cached"]
    assert run.go(changed(keyed, cache=False)).state == "ok"
    run.checked()


@pytest.mark.deep
def test_r35_waits_grow_and_the_idempotency_key_stays(run: Runner) -> None:
    step = sh(
        "flaky",
        counted('echo "$GIT_BATON_ATTEMPT $GIT_BATON_IDEMPOTENCY_KEY" >> "$X/keys"; test "$GIT_BATON_ATTEMPT" = 4'),
        reads="src/**",
        retries=5,
        backoff=Backoff(first=1.0, factor=3.0, most=5.0),
    )
    assert run.go(step).state == "ok"
    assert run.slept == [1.0, 3.0, 5.0]
    attempts, keys = zip(*(line.split() for line in run.lines("keys")), strict=True)
    assert attempts == ("1", "2", "3", "4") and len(set(keys)) == 1
    assert run.types() == ["begin", "fail"] * 3 + ["begin", "end"]
    run.slept.clear()
    jitter = changed(step, name="other", retries=1, backoff=Backoff(first=4.0, jitter=True))
    assert run.go(jitter).state == "failed" and run.slept == [3.0]
    run.checked()


@pytest.mark.deep
def test_only_the_statuses_that_are_named_are_tried_again(run: Runner) -> None:
    step = sh("flaky", counted("exit 7"), retries=2, retry_on=("1", "timeout"))
    assert run.go(step).code == 7 and len(run.lines("ran")) == 1
    assert run.go(changed(step, retry_on=("7",))).code == 7 and len(run.lines("ran")) == 4
    slow = sh("slow", counted("sleep 5"), retries=1, retry_on=("timeout",), timeout=1.0, grace=0.1)
    done = run.go(slow)
    assert (done.state, done.code) == ("failed", 124) and len(run.lines("ran")) == 6
    run.checked()


def test_r38_catch_is_run_after_the_last_failure_only(run: Runner) -> None:
    step = sh("flaky", "exit 4", retries=2, catch='echo caught >> "$X/caught"; exit 9')
    done = run.go(step)
    assert (done.state, done.code) == ("failed", 4)
    assert run.lines("caught") == ["caught"]
    (event,) = run.told("catch")
    assert event.code == 9


def conflict(repo: Sandbox) -> None:
    """Make ``same.txt`` a conflict, beside whatever else is there: three stages, and the file with its markers."""
    stages = [repo.git("hash-object", "-w", "--stdin", stdin=text) for text in (b"base\n", b"ours\n", b"theirs\n")]
    rows = "".join(f"100644 {oid} {number}\tsame.txt\n" for number, oid in enumerate(stages, 1))
    repo.git("update-index", "--index-info", stdin=rows.encode())
    repo.write("same.txt", "<<<<<<< ours\nours\n=======\ntheirs\n>>>>>>> theirs\n")


@pytest.mark.deep
def test_r26_the_index_and_all_other_work_stay_as_they_are(run: Runner) -> None:
    repo = run.repo
    repo.write("src/a.txt", "staged\n")
    repo.git("add", "src/a.txt")
    repo.write("src/a.txt", "and then changed\n")
    repo.write("wip.txt", "untracked\n")
    repo.write("dist/ignored.txt", "ignored\n")
    conflict(repo)
    index = (repo.path / ".git/index").read_bytes()
    status = repo.git("--no-optional-locks", "status", "--porcelain=v2", "--ignored")
    step = sh("build", "mkdir -p out; echo torn > out/x; exit 1", reads="src/**", writes="out/**", retries=1)
    for isolate in ("none", "tree"):
        assert run.go(changed(step, isolate=isolate)).state == "failed"
        assert (repo.path / ".git/index").read_bytes() == index
        assert repo.git("--no-optional-locks", "status", "--porcelain=v2", "--ignored") == status
        assert "UU" in repo.git("status", "--porcelain") and "<<<<" in run.read("same.txt")
        assert run.read("src/a.txt") == "and then changed\n" and run.read("dist/ignored.txt") == "ignored\n"
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 1
    run.checked()


def test_what_a_copy_of_the_work_tree_is_without_is_said(run: Runner) -> None:
    def refuse(args: Args) -> None:  # as for anybody but root
        raise PermissionError(errno.EACCES, "Permission denied", args[0])

    run.repo.write("wip/secret", "1")
    with at("open", lambda args: args[0] == "secret", refuse):
        assert run.go(changed(sh("build", "echo x > out", writes="out"), isolate="tree")).state == "ok"
    assert [event.text for event in run.told("warning")] == [
        "its copy of the work tree lacks 'wip/secret', which cannot be read"
    ]


@pytest.mark.deep
@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_r27_a_file_that_another_process_appends_to_loses_no_line(run: Runner, isolate: str) -> None:
    live, stop = run.repo.path / "live.txt", threading.Event()

    def append() -> None:
        number = 0
        while not stop.is_set():
            with live.open("a") as file:
                file.write(f"{number}\n")
            number += 1
            time.sleep(0.001)
        live.with_name("count").write_text(str(number))

    writer = threading.Thread(target=append)
    writer.start()
    try:
        step = sh(
            "build", "mkdir -p out; echo x > out/x; test $GIT_BATON_ATTEMPT = 3", reads="src/**", writes="out/**", retries=2
        )
        assert run.go(changed(step, isolate=isolate)).state == "ok"
    finally:
        stop.set()
        writer.join()
    assert live.read_text().split() == [str(n) for n in range(int(run.read("count")))]
    run.checked()


@pytest.mark.deep
def test_r28_a_stray_write_is_reported_put_back_or_a_failure(run: Runner) -> None:
    run.repo.write("wip.txt", "before\n")
    step = sh("build", "mkdir -p dist; :> dist/x; echo scribble > wip.txt; :> stray", reads="src/**", writes="dist/**")
    apart = run.go(changed(step, name="apart", isolate="tree", writes=("dist/x",)))
    assert apart.state == "ok" and apart.logged is not None and not run.there("stray")
    assert [u.path for u in apart.logged.record.undeclared] == ["stray", "wip.txt"] and run.read("wip.txt") == "before\n"
    done = run.go(step)
    assert done.state == "ok" and done.logged is not None
    assert [u.path for u in done.logged.record.undeclared] == ["stray", "wip.txt"]
    assert run.files(done.logged.parts["undeclared"]) == {"wip.txt": "before"}
    assert run.read("wip.txt") == "scribble\n"
    (run.repo.path / "stray").unlink()
    run.repo.write("wip.txt", "before\n")
    fail = changed(step, name="other", on_undeclared="fail", writes=("dist/x",))
    assert run.go(fail).code == 125
    (run.repo.path / "stray").unlink()
    run.repo.write("wip.txt", "before\n")
    assert run.go(changed(fail, on_undeclared="restore")).state == "ok"
    assert run.read("wip.txt") == "before\n" and not run.there("stray")
    run.checked()


@pytest.mark.deep
def test_r29_an_output_edited_by_hand_is_nobodys_to_overwrite(run: Runner) -> None:
    run.go(BUILD)
    run.repo.write("dist/out", "edited by hand\n")
    for _ in range(2):
        done = run.go(BUILD)
        assert (done.state, done.code) == ("conflict", 78)
        assert run.read("dist/out") == "edited by hand\n"
    assert done.logged is not None and run.files(done.logged.parts["orphan"]) == {"dist/out": "edited by hand"}
    run.repo.write("src/a.txt", "two\n")
    assert run.go(BUILD).code == 78 and run.read("dist/out") == "edited by hand\n"
    assert run.types().count("abort") == 1
    assert run.go(BUILD, take="ours").state == "ok" and run.read("dist/out") == "two\n"
    run.checked()


@pytest.mark.deep
def test_r29_theirs_can_be_taken_as_the_output(run: Runner) -> None:
    run.go(BUILD)
    run.repo.write("dist/out", "edited by hand\n")
    assert run.go(BUILD, take="theirs").state == "cached"
    done = run.go(BUILD)
    assert done.state == "cached" and run.read("dist/out") == "edited by hand\n"
    assert done.logged is not None and done.logged.record.nondeterministic
    run.repo.write("dist/out", "edited again\n")
    run.repo.write("src/a.txt", "two\n")
    done = run.go(BUILD, take="theirs")
    assert done.state == "ok" and run.read("dist/out") == "edited again\n"
    assert run.go(BUILD).state == "cached" and len(run.lines("ran")) == 2
    run.checked()


@pytest.mark.deep
def test_the_same_inputs_with_other_outputs_are_noted(run: Runner) -> None:
    step = sh("clock", 'mkdir -p dist; echo "$(date +%N)" > dist/now', reads="src/**", writes="dist/**")
    first = run.go(step)
    again = run.go(step, force=Cause(kind="named"))
    assert first.logged is not None and again.logged is not None
    assert (first.logged.record.nondeterministic, again.logged.record.nondeterministic) == (False, True)
    assert run.go(step).logged.commit == again.logged.commit  # type: ignore[union-attr]


@pytest.mark.deep
def test_another_run_serves_what_has_no_effect(run: Runner) -> None:
    run.go(BUILD)
    done = run.go(BUILD, run="r2")
    assert done.state == "cached" and run.lines("ran") == ["build"]
    assert run.go(BUILD, run="r2").state == "cached"
    run.checked("r2")
    pub = sh("pub", counted("true"), reads="src/**", effect="idempotent")
    assert [run.go(pub, run=name).state for name in ("r1", "r2", "r2")] == ["ok", "ok", "cached"]


@pytest.mark.deep
def test_what_is_kept_by_digest_is_served_only_where_it_lies(run: Runner) -> None:
    step = changed(BUILD, store="none")
    done = run.go(step)
    assert done.logged is not None and done.logged.record.writes is not None
    assert done.logged.record.writes.digests == ("dist/out",)
    assert run.go(step).state == "cached"
    (run.repo.path / "dist/out").unlink()
    assert run.go(step).state == "ok" and run.read("dist/out") == "one\n"
    run.checked()


@pytest.mark.deep
def test_r46_verify_sees_the_files_and_nothing_else(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of the step")
    run.repo.write("scratch.txt", "the step's scratch\n")
    look = 'find . -type f | sort > "$HOME/seen"; env > "$HOME/env"; cat dist/out; exit $(cat dist/code)'
    step = sh(
        "build",
        "mkdir -p dist; cat src/a.txt > dist/out; cat src/code > dist/code; echo all good",
        reads="src/**",
        writes="dist/**",
        verify=look,
    )
    run.repo.write("src/code", "0\n")
    assert run.go(step).state == "ok"
    home = run.repo.path.parent / "home"
    assert (home / "seen").read_text().split() == ["./dist/code", "./dist/out", "./src/a.txt", "./src/code"]
    names = {line.split("=")[0] for line in (home / "env").read_text().splitlines()}
    assert "SECRET" not in names and not any(n.startswith("GIT_BATON_") and n != "GIT_BATON_GROUP" for n in names)
    run.repo.write("src/code", "3\n")
    done = run.go(step)
    assert done.code == 125 and done.logged is not None and done.logged.record.verify_exit == 3
    assert (done.logged.record.text or "").splitlines() == ["its outputs do not pass --verify (exit 3)", "one"]
    assert run.read("dist/code") == "0\n"
    run.checked()
