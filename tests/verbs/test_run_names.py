"""Which run a plan goes on with, what is refused, and what `steps` still shows where something cannot be read."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from gitbaton.runs import plans
from gitbaton.runs.claims import Claims
from tests.kit import Sandbox
from tests.kit.moments import Args, at
from tests.kit.planned import Planned

PLAN = '[step.s]\nrun = "true"\nreads = ["a"]\n'


@pytest.fixture
def repo(tmp_path: Path) -> Sandbox:
    box = Sandbox.init(tmp_path / "repo")
    for name in ("a", "b"):
        box.write(f"{name}.toml", PLAN)
    box.write("a", "a\n")
    return box


def names(repo: Sandbox) -> list[str]:
    return [line.rpartition("/")[2] for line in repo.git("for-each-ref", "--format=%(refname)", "refs/baton/runs").splitlines()]


@pytest.mark.deep
def test_a_run_that_is_in_use_is_refused(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (("--plan", "b.toml", "--run", "r"), ("--step", "x", "--run", "s", "--", "true")):
        assert repo.here("run", *words).code == 0
    before = repo.git("for-each-ref", "refs/baton")
    found = repo.here("run", "--plan", "a.toml", "--run", "r")
    assert found.code == 129 and "run 'r' is in use: it is of plan 'b.toml'" in found.err and "name another" in found.err
    monkeypatch.setenv("GIT_BATON_RUN", "r")
    found = repo.here("run", "--plan", "a.toml", "--run", "s")
    assert found.code == 129 and "run 's' is in use: it is of single steps 'x'" in found.err
    assert repo.here("run", "--plan", "a.toml", "-n").code == 129
    assert repo.git("for-each-ref", "refs/baton") == before
    assert repo.here("run", "--plan", "./b.toml", "--run", "r").code == 0


@pytest.mark.deep
def test_a_plan_goes_on_with_its_own_run(repo: Sandbox) -> None:
    for plan in ("a.toml", "b.toml", "a.toml", "b.toml"):
        assert repo.here("run", "--plan", plan).code == 0
    assert len(names(repo)) == 2, "each plan has one run, whichever was used last"
    assert repo.here("run", "--step", "x", "--run", "own", "--", "true").code == 0
    assert repo.here("run", "--plan", "a.toml").code == 0
    assert len(names(repo)) == 3


def test_a_track_that_cannot_be_is_refused_before_a_step_runs(repo: Sandbox) -> None:
    for name in ("HEAD", "a..b"):
        repo.write("p.toml", f'[step.s]\nrun = "touch ran"\ncheckpoint = "{name}"\n')
        for words in (("--plan", "p.toml"), ("--step", "s", "--checkpoint", name, "--", "touch", "ran")):
            done = repo.here("run", *words)
            assert done.code == 129 and f"a new track cannot be called '{name}'" in done.err
    assert not (repo.path / "ran").exists() and repo.git("for-each-ref", "refs/baton") == ""
    repo.ok("snapshot", "--track", "t", "one")
    repo.git("update-ref", "refs/baton/tracks/HEAD", "refs/baton/tracks/t")  # as earlier versions made one
    assert repo.here("run", "--step", "s", "--checkpoint", "HEAD", "--", "touch", "ran").code == 0
    assert "step=run: s ok\n" in repo.ok("resume", "--porcelain", "--track", "HEAD").out.replace(names(repo)[0], "run")


def test_what_was_refused_names_no_run_that_is_none(repo: Sandbox) -> None:
    repo.write("bad.toml", "[step.s]\n")
    last = json.loads(repo.here("run", "--plan", "bad.toml", "--json").out.splitlines()[-1])
    assert last["event"] == "finished" and last["run"] is None and last["code"] == 129


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--step", "x", "--jobs", "0", "--", "true"), "--step and --jobs exclude each other"),
        (("--step", "x", "--max-wall", "0", "--", "true"), "--max-wall must be more than nothing"),
        (("--step", "x", "--reads", "/etc", "--", "true"), "on a command line to the current directory"),
    ],
)
def test_what_is_refused(repo: Sandbox, words: tuple[str, ...], said: str) -> None:
    found = repo.here("run", *words)
    assert found.code == 129 and said in found.err and not names(repo)


def test_a_mark_of_byte_order_before_a_plan_is_passed_over() -> None:
    assert plans.read(b"\xef\xbb\xbf" + PLAN.encode(), "/").steps[0].name == "s"


@pytest.mark.deep
def test_one_that_cannot_be_read_does_not_hide_the_others(repo: Sandbox) -> None:
    def refuse(args: Args) -> None:  # as for anybody but root
        raise PermissionError(errno.EACCES, "Permission denied", args[0])

    repo.write("b", "b\n")
    with Planned(repo, {"s": {"run": "true", "reads": ["a"]}, "t": {"run": "true", "reads": ["b"]}}) as run:
        assert run.go().code == 0
        repo.write("a", "changed\n")
        with at("open", lambda args: str(args[0]).endswith("/a"), refuse):
            lines = run.look()
            found = repo.here("run", "show").out.splitlines()
    assert (lines["s"].state, lines["t"].state) == ("unreadable", "ok")
    assert "  x it cannot be told: 'a' cannot be read: Permission denied" in found[0] and "  + ok" in found[1]


def test_a_step_that_only_was_given_up_is_listed(repo: Sandbox) -> None:
    with Planned(repo) as run:
        assert run.single("t", "kill -INT $PPID; kill -INT $$").code == 130
        assert [logged.record.type for logged in run.records()] == ["begin", "abort"]
        assert run.look()["t"].state == "crashed"


def test_claims_are_looked_at_where_nothing_can_be_written(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with Planned(repo, {"s": {"run": "true", "reads": ["a"]}}) as run:
        assert run.go().code == 0
        monkeypatch.setattr("os.access", lambda path, mode: False)
        with at("open", lambda args: str(args[0]).endswith("claims/lock"), lambda _: pytest.fail("the lock cannot be taken")):
            assert Claims(run.baton.repo).others() == ()
