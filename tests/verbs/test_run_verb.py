"""``git baton run`` and the decisions of a person: command lines, exit codes, what is said, and what ``--json`` prints."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.agents import Client
from tests.kit.commands import runs, until
from tests.kit.tiers import some
from tests.rooms.runs.test_run_events import valid

BUILD = ("--step", "build", "--run", "r", "--reads", "a.txt", "--writes", "out.txt")
COPY = ("--", "sh", "-c", "echo said; echo told >&2; echo x >> ../count; cp a.txt out.txt")


def count(repo: Sandbox, name: str = "count") -> int:
    """How often a command ran that leaves a line beside the repository each time."""
    path = repo.path.parent / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def refs(repo: Sandbox) -> str:
    return repo.git("for-each-ref", "refs/baton")


def files(repo: Sandbox) -> dict[str, bytes]:
    """Every file of the repository, git's own included."""
    found = (p for p in repo.path.rglob("*") if p.is_file())
    return {str(p.relative_to(repo.path)): p.read_bytes() for p in found}


@some(
    ("words", "said"),
    [
        ((), "none of --step, --plan and --continue is given"),
        (("--step", "a", "--plan", "p", "--", "true"), "--step and --plan exclude each other"),
        (("--plan", "p", "--continue"), "--plan and --continue exclude each other"),
        (("--step", "a"), "--step has no command"),
        (("--step", "a", "--"), "--step has no command"),
        (("--step", "a", "npm", "run"), "unexpected argument 'npm'"),
        (("--step", "a", "r", "--", "true"), "unexpected argument 'r'"),
        (("--plan", "p", "--", "true"), "--plan takes no command"),
        (("--plan", "p", "r"), "unexpected argument 'r'"),
        (("--plan", "p", "--reads", "x"), "--plan and --reads exclude each other"),
        (("--plan", "p", "--no-cache"), "--plan and --no-cache exclude each other"),
        (("--step", "a", "--jobs", "2", "--", "true"), "--step and --jobs exclude each other"),
        (("--step", "a", "-n", "--", "true"), "--step and --dry-run exclude each other"),
        (("--continue", "r", "s"), "unexpected argument 's'"),
        (("--continue", "r", "--run", "s"), "unexpected argument 'r'"),
        (("--continue", "r", "--only", "s"), "--continue and --only exclude each other"),
        (("--continue", "--", "true"), "--continue takes no command"),
        (("--step", "a", "--effect", "twice", "--", "true"), "step 'a': effect is 'twice'"),
        (("--step", "a", "--probe", "true", "--", "true"), "step 'a': probe is given, but the step has no effect"),
        (("--step", "a", "--timeout", "soon", "--", "true"), "--timeout is 'soon'"),
        (("--step", "a", "--backoff", "1s,y2", "--", "true"), "--backoff is '1s,y2'"),
        (("--step", "a", "--retry-on", "256", "--", "true"), "--retry-on is '256'"),
        (("--step", "a", "--take", "mine", "--", "true"), "--take is 'mine'; it can be 'ours' or 'theirs'"),
        (("--step", "a", "--wait", "x", "--", "true"), "--wait is 'x'"),
        (("--step", "a", "--max-runs", "0", "--", "true"), "--max-runs is 0"),
        (("--step", "a", "--writes", "../x", "--", "true"), "glob '../x' leaves the work tree"),
        (("--step", "a", "--reads", ".git/config", "--", "true"), "glob '.git/config'"),
        (("--step", "../a", "--", "true"), "step '../a': it is no name for a step"),
        (("--step", "a", "--after", "a", "--", "true"), "step 'a': it waits for itself"),
        (("--step", "a", "--after", "gone", "--run", "r", "--", "true"), "step 'a' waits for 'gone'"),
        (("--step", "a", "--cwd", "/tmp", "--", "true"), "step 'a': cwd is '/tmp'"),
        (("--step", "a", "--run", "../x", "--", "true"), "'../x' is not a run's name"),
        (("--step", "a", "--run", "", "--", "true"), "'' is not a run's name"),
        (("--plan", "gone.toml"), "cannot read"),
        (("--plan", "bad.toml"), "'"),
        (("--step", "a", "--frob", "--", "true"), "unknown option '--frob'"),
        (("--key", "--", "true"), "none of --step"),
    ],
    15,
)
def test_a_command_line_that_cannot_be_meant_is_refused_before_anything_runs(
    repo: Sandbox, words: tuple[str, ...], said: str
) -> None:
    repo.write("bad.toml", '[step.a]\nrun = "touch ran"\nafter = ["b"]\n[step.b]\nrun = "true"\nafter = ["a"]\n')
    cut = words.index("--") if "--" in words else len(words)
    words = (*words[:cut], *(("--", "touch", "ran") if words[cut:] == ("--", "true") else words[cut:]))
    done = repo.here("run", *words)
    assert done.code == 129, done
    first, *hints = done.err.splitlines()
    assert first.startswith("fatal: ") and said in first, first
    assert all(hint.startswith("hint: ") for hint in hints) and done.out == ""
    assert refs(repo) == "" and not (repo.path / "ran").exists()


@pytest.mark.parametrize(
    "words", [("run", "--continue"), ("run", "--continue", "r"), ("run", "approve", "s"), ("run", "settle", "s", "--done")]
)
def test_a_run_that_is_not_there(repo: Sandbox, words: tuple[str, ...]) -> None:
    done = repo.here(*words)
    assert done.code == 2 and done.err.startswith("fatal: there is no run")


def test_a_repository_without_a_work_tree(repo: Sandbox, tmp_path: Path) -> None:
    bare = Sandbox.init(tmp_path / "bare.git", "--bare")
    done = bare.here("run", "--step", "a", "--", "true")
    assert done.code == 129 and "no work tree" in done.err


def test_the_exit_status_and_the_output_are_the_commands_own(repo: Sandbox) -> None:
    done = repo.baton("run", "--step", "a", "--run", "r", "--", "sh", "-c", "echo said; echo told >&2; exit 3")
    assert (done.code, done.out) == (3, "said\n")
    assert done.err == "baton: a: runs\ntold\nbaton: a: failed with 3\n"


@pytest.mark.deep
def test_a_result_is_served_with_what_was_said(repo: Sandbox) -> None:
    first = repo.baton("run", *BUILD, *COPY)
    (repo.path / "out.txt").unlink()
    again = repo.baton("run", *BUILD, *COPY)
    assert (first.code, again.code, count(repo)) == (0, 0, 1)
    assert (first.out, again.out) == ("said\n", "said\n")
    assert first.err.startswith("baton: build: runs\ntold\nbaton: build: ok in ")
    assert again.err.startswith("told\nbaton: build: cached ") and len(again.err.split()[-1]) == 7
    assert (repo.path / "out.txt").read_text() == "one\n"


@pytest.mark.deep
def test_globs_and_the_folder_are_those_of_the_caller(repo: Sandbox) -> None:
    repo.write("sub/in.txt", "in\n")
    words = ("run", "--run", "r", "--step", "s", "--reads", "in.txt", "--writes", "../made/**")
    line = "mkdir -p ../made && cp in.txt ../made/out && pwd"
    done = repo.baton(*words, "--", "sh", "-c", line, cwd=repo.path / "sub")
    assert done.code == 0 and (repo.path / "made/out").read_text() == "in\n"
    assert done.out.strip().endswith("/sub")
    repo.write("in.txt", "another\n")
    assert "cached" in repo.baton(*words, "--", "sh", "-c", line, cwd=repo.path / "sub").err


@pytest.mark.deep
def test_json_is_an_event_a_line_and_nothing_else(repo: Sandbox) -> None:
    done = repo.baton("run", *BUILD, "--json", *COPY)
    events = valid(done.out)
    assert (done.code, done.err) == (0, "")
    assert [e["event"] for e in events if e["event"] in ("start", "ok", "finished")] == ["start", "ok", "finished"]
    assert events[-1] == {"v": 1, "run": "r", "event": "finished", "code": 0, "states": {"build": "ok"}}
    again = valid(repo.baton("run", *BUILD, "--json", *COPY).out)
    assert again[-1]["states"] == {"build": "cached"}
    failed = repo.baton("run", "--json", "--run", "r", "--step", "bad", "--retries", "1", "--backoff", "1ms", "--", "false")
    events = valid(failed.out)
    assert failed.code == 1 and events[-1]["states"] == {"bad": "failed"} and events[-1]["code"] == 1
    assert [e["attempt"] for e in events if e["event"] == "failed"] == [1, 2]
    assert [e["wait_ms"] for e in events if e["event"] == "retry"] == [1]


@pytest.mark.deep
def test_a_failure_says_when_it_is_tried_again(repo: Sandbox) -> None:
    words = ("run", "--run", "r", "--step", "s", "--retries", "2", "--backoff", "10ms", "--", "false")
    said = repo.baton(*words).err.splitlines()
    assert said == [
        "baton: s: runs",
        "baton: s: failed with 1, attempt 1 of 3; again in 0.01 s",
        "baton: s: failed with 1, attempt 2 of 3; again in 0.02 s",
        "baton: s: failed with 1, attempt 3 of 3",
    ]


PLAN = """
[step.lint]
run = "cp src lint"
reads = ["src"]
writes = ["lint"]

[step.build]
run = "cat lint lib > built"
reads = ["lib", "lint"]
writes = ["built"]
after = ["lint"]
"""


def plan(repo: Sandbox, text: str = PLAN) -> None:
    repo.write("src", "1\n")
    repo.write("lib", "1\n")
    repo.write("baton.toml", text)


@pytest.mark.deep
def test_a_plan_runs_is_served_and_goes_on_where_it_failed(repo: Sandbox) -> None:
    plan(repo)
    (repo.path / "lib").unlink()
    first = repo.baton("run", "--plan", "baton.toml")
    assert first.code == 1 and "baton: lint: ok in " in first.err and "baton: build: failed with 1" in first.err
    repo.write("lib", "2\n")
    second = repo.baton("run", "--continue")
    assert second.code == 0 and "baton: lint: cached " in second.err and "baton: build: ok in " in second.err
    repo.write("lib", "3\n")
    third = repo.baton("run", "--plan", "baton.toml")
    assert third.code == 0 and "baton: build: runs: 'lib' changed\n" in third.err
    assert (repo.path / "built").read_text() == "1\n3\n"
    assert first.err.startswith("baton: run 'r-2") and first.err.splitlines()[0].endswith(": 2 steps")
    assert len(refs(repo).splitlines()) == 1  # one run all the time
    last = repo.baton("run", "--continue")
    assert last.code == 0 and last.err.endswith(" is finished\n") and last.err.startswith("baton: run 'r-2")


@pytest.mark.deep
def test_a_dry_run_says_what_would_run_and_why_and_leaves_nothing(repo: Sandbox) -> None:
    plan(repo)
    before = files(repo)
    done = repo.here("run", "--plan", str(repo.path / "baton.toml"), "--run", "r", "--dry-run")
    assert done.out.splitlines()[0] == "lint: would run: it has no result", done
    assert done.code == 0 and files(repo) == before
    assert repo.baton("run", "--plan", "baton.toml", "--run", "r").code == 0
    repo.write("src", "2\n")
    before = files(repo)
    shown = repo.baton("run", "--plan", "baton.toml", "-n")
    assert shown.out == "lint: would run: 'src' changed\nbuild: would run if lint gives something else\n"
    rows = repo.baton("run", "--plan", "baton.toml", "-n", "--json").json
    assert [(row["step"], row["would"]) for row in rows["steps"]] == [("lint", "run"), ("build", "depends")]
    assert rows["run"] == "r" and files(repo) == before


@pytest.mark.deep
def test_only_a_step_and_what_it_needs(repo: Sandbox) -> None:
    plan(repo, PLAN + '[step.docs]\nrun = "touch docs"\nwrites = ["docs"]\n')
    done = repo.baton("run", "--plan", "baton.toml", "--only", "build", "--jobs", "2")
    assert done.code == 0 and (repo.path / "built").exists() and not (repo.path / "docs").exists()
    assert repo.here("run", "--plan", str(repo.path / "baton.toml"), "--only", "dcs").code == 129


def test_what_a_plan_gets_wrong_is_said_with_its_line(repo: Sandbox) -> None:
    plan(repo, PLAN.replace('after = ["lint"]', 'after = ["lnt"]'))
    done = repo.here("run", "--plan", str(repo.path / "baton.toml"))
    assert done.code == 129 and "line 11" in done.err and "'lnt'" in done.err and refs(repo) == ""


def gated(repo: Sandbox, *words: str) -> Outcome:
    return repo.baton("run", "--run", "r", "--step", "go", "--gate", "read it", *words, "--", "touch", "went")


@pytest.mark.deep
def test_a_gate_waits_and_is_opened(repo: Sandbox) -> None:
    first = gated(repo)
    assert first.code == 75 and not (repo.path / "went").exists()
    assert first.err == "baton: go: waits at the gate: read it\nhint: git baton run approve go\n"
    opened = repo.baton("run", "approve", "go")
    assert (opened.code, opened.err) == (0, "baton: go: approved\n")
    assert gated(repo).code == 0 and (repo.path / "went").exists()
    assert repo.here("run", "approve", "go").code == 1


@pytest.mark.deep
def test_who_takes_over_is_told_of_a_run_that_is_not_finished(repo: Sandbox) -> None:
    gated(repo)
    assert "\nrun 'r' is not finished: git baton run --continue r\n" in repo.ok("resume").out
    assert "run 'r'" not in Client("claude", repo.path).fire("start")  # nobody has written words
    with repo.open() as baton:
        baton.snapshot("S", track="t")
    why, would = "'go' waits at its gate", "wait at the gate of step 'go': 'git baton run approve go --run r' opens it"
    told = repo.here("resume", "--porcelain").out.splitlines()
    assert told[-2:] == [f"run=r: {why}", f"run_continue=git baton run --continue r ({would})"]
    assert repo.here("resume", "--json").json["runs"] == [{"run": "r", "why": [why], "would": [would]}]
    text = Client("claude", repo.path).fire("start")
    assert f"run 'r' is not finished: {why}\n  'git baton run --continue r' would: {would}\n" in text
    repo.here("run", "approve", "go")
    gated(repo)
    assert repo.here("resume", "--json").json["runs"] == [] and "run=" not in repo.here("resume", "--porcelain").out
    assert "not finished" not in Client("claude", repo.path).fire("start")


@pytest.mark.deep
def test_a_gate_that_is_rejected_stays_closed(repo: Sandbox) -> None:
    gated(repo)
    done = repo.baton("run", "approve", "go", "--reject", "--json")
    assert done.code == 0 and [e["event"] for e in valid(done.out)] == ["settled", "finished"]
    assert gated(repo).code == 1 and not (repo.path / "went").exists()
    assert repo.here("run", "approve", "gone").code == 2


@pytest.mark.deep
def test_an_unknown_outcome_is_settled_by_a_person(repo: Sandbox) -> None:
    step = ("run", "--run", "r", "--step", "pub", "--key", "1", "--effect", "once", "--", "sh", "-c", "echo x >> ../count")
    killed = repo.baton(*step, env={"GIT_BATON_CRASH_AT": "after-command"})
    assert killed.code == -9 and count(repo) == 1
    asked = repo.baton(*step)
    assert asked.code == 76 and asked.err.endswith("'git baton run settle pub --undone'\n"), asked.err
    assert repo.here("run", "settle", "pub").code == 129 and repo.here("run", "settle", "pub", "--done", "--undone").code == 129
    done = repo.baton("run", "settle", "pub", "--done")
    assert done.code == 0, done.err
    assert "cached" in repo.baton(*step).err and count(repo) == 1
    assert repo.here("run", "settle", "pub", "--done").code == 1


@pytest.mark.deep
def test_what_a_killed_isolated_step_left_goes_with_the_next_run_and_nothing_of_a_living_one(repo: Sandbox) -> None:
    above = repo.path.parent

    def slow(name: str) -> subprocess.Popen[bytes]:
        line = f"echo $$ > '{above}/{name}'; until test -e '{above}/go'; do sleep 0.02; done; echo {name} > {name}.txt"
        words = ("run", "--run", name, "--isolate", "tree", "--writes", f"{name}.txt", "--step", "slow", "--", "sh", "-c", line)
        child = subprocess.Popen([sys.executable, "-m", "gitbaton", *words], cwd=repo.path, stderr=subprocess.DEVNULL)
        until((above / name).exists)
        return child

    def trees() -> set[str]:
        listed = {row.split()[0] for row in repo.git("worktree", "list").splitlines()[1:]}
        assert listed == {str(path) for path in above.iterdir() if path.name.startswith("baton-step-")}
        return listed

    with slow("living") as living:
        its = trees()
        with slow("dead") as dead:
            dead.kill()
        assert len(trees()) == 2 and runs(above / "dead")
        assert repo.baton("run", "--run", "other", "--step", "quick", "--", "true").code == 0
        assert trees() == its and not runs(above / "dead") and runs(above / "living")
        (above / "go").touch()
    assert living.returncode == 0 and not trees()
    assert (repo.path / "living.txt").read_text() == "living\n" and not (repo.path / "dead.txt").exists()


@pytest.mark.deep
def test_effects_are_compensated_by_name_and_by_run(repo: Sandbox) -> None:
    words = ("run", "--run", "r", "--key", "1", "--effect", "idempotent")
    undo = "echo $GIT_BATON_STEP $GIT_BATON_COMPENSATES $GIT_BATON_IDEMPOTENCY_KEY >> ../undone"
    for name, after in (("one", ()), ("two", ("--after", "one"))):
        assert repo.baton(*words, "--step", name, *after, "--compensate", undo, "--", "true").code == 0
    assert repo.here("run", "compensate").code == 129
    shown = repo.baton("run", "compensate", "one", "-n")
    assert shown.out == f"would undo the effect of 'two': {undo}\nwould undo the effect of 'one': {undo}\n"
    rows = repo.baton("run", "compensate", "--run", "r", "--dry-run", "--json").json["undo"]
    assert [row["step"] for row in rows] == ["two", "one"] and count(repo, "undone") == 0
    done = repo.baton("run", "compensate", "--run", "r")
    assert done.code == 0 and f"baton: two: undoes its effect: {undo}" in done.err
    rows = (repo.path.parent / "undone").read_text().splitlines()
    assert [row.split()[0] for row in rows] == ["two", "one"]
    assert all(len({*row.split()}) == 3 for row in rows)
    assert repo.baton("run", "compensate", "one").code == 1 and count(repo, "undone") == 2


@pytest.mark.deep
def test_another_run_than_the_one_used_last(repo: Sandbox) -> None:
    line = ("--step", "s", "--", "sh", "-c", "echo $GIT_BATON_RUN")
    first = repo.baton("run", *line).out
    assert first.startswith("r-2") and repo.baton("run", *line).out == first
    assert repo.baton("run", *line, env={"GIT_BATON_RUN": "env"}).out == "env\n"
    assert repo.baton("run", *line).out == "env\n"
    assert repo.baton("run", "--run", "named", *line, env={"GIT_BATON_RUN": "env"}).out == "named\n"


@pytest.mark.deep
@pytest.mark.parametrize("packed", [False, True])
def test_an_isolated_step_starts_no_git(repo: Sandbox, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    """Its records and its copy of the work tree need none of their own."""
    if packed:
        repo.git("pack-refs", "--all")
    started: list[str] = []
    spawn = os.posix_spawnp

    def seen(program: str, argv: list[str], *rest: Any, **more: Any) -> int:
        started.append(program)
        return spawn(program, argv, *rest, **more)

    monkeypatch.setattr(os, "posix_spawnp", seen)
    counts = []
    for run, steps in (("one", 2), ("two", 6)):
        rows = (f"[step.s{n}]\nargv = ['touch', 'out/{n}']\nwrites = ['out/{n}']\nisolate = 'tree'\n" for n in range(steps))
        repo.write("plan.toml", "".join(rows))
        (repo.path / "out").mkdir(exist_ok=True)
        started.clear()
        assert repo.here("run", "--plan", "plan.toml", "--run", run).code == 0
        counts.append(len(started))
    assert counts[0] == counts[1] > 0


@pytest.mark.deep
def test_a_check_whose_process_was_killed_is_ended_before_its_folder_goes(repo: Sandbox, tmp_path: Path) -> None:
    said = tmp_path / "check.pid"
    words = [
        sys.executable,
        "-m",
        "gitbaton",
        "run",
        "--run",
        "one",
        "--step",
        "s",
        "--key",
        "x",
        "--verify",
        f"echo $$ > '{said}'; exec sleep 60",
    ]
    with subprocess.Popen([*words, "--", "true"], cwd=repo.path) as killed:
        until(lambda: said.exists() and runs(said))
        killed.kill()
    assert runs(said)
    repo.ok("run", "--run", "two", "--step", "other", "--", "true")
    assert not runs(said)


@pytest.mark.deep
def test_a_failed_plan_says_how_it_goes_on_and_what_it_does_twice(repo: Sandbox) -> None:
    text = '[step.one]\nrun = "true"\n[step.two]\nrun = "true"\nkey = ["1"]\n'
    plan(repo, text + '[step.three]\nafter = ["one", "two"]\nrun = "exit 3"\n')
    done = repo.baton("run", "--plan", "baton.toml", "--run", "r")
    assert done.code == 3 and done.err.splitlines()[-2:] == [
        "hint: run again each time, for they name neither reads nor a key: 'one'",
        "hint: git baton run --continue r",
    ]
    again = repo.baton("run", "--continue", "r").err
    assert "one: runs" in again and "two: cached" in again


@pytest.mark.deep
def test_a_gate_that_no_step_has_come_to_is_not_waited_at(repo: Sandbox) -> None:
    plan = '[step.build]\nrun = "false"\n\n[step.publish]\nrun = "true"\nafter = ["build"]\ngate = "read it"\n'
    repo.write("plan.toml", plan)
    assert repo.baton("run", "--plan", "plan.toml", "--run", "r").code == 1
    rows = repo.ok("run", "show", "r").out.splitlines()
    assert rows[0].startswith("build") and rows[1].startswith("publish") and "never run" in rows[1] and "waiting" not in rows[1]
