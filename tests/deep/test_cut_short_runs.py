"""A step is cut short: going on gives what a clean run gives, every effect is as it was promised, outputs are old or new."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from gitbaton.git.worktree.crashmarker import sweep
from gitbaton.runs.context import Done
from gitbaton.runs.effects import settle
from gitbaton.runs.journal.values import Step
from tests.kit import Sandbox
from tests.kit.cutkit import Scene
from tests.kit.places import ROOT
from tests.kit.plug import Recording, needs_strace, record
from tests.kit.plugdisk import KILLED, Cut
from tests.kit.plugjudge import LOST, Problem, check, clean, goes_on, now, spoken, whole
from tests.kit.saverjobs import fork
from tests.kit.steps import Runner, changed, listing, sh
from tests.kit.tiers import FULL, some

STEP = 'mkdir -p out; cp a.txt out/a; date +%s.%N >out/when; echo ran >>"$LEDGER"'


@some("effect", ["once", "none"], share=0)
def test_a_step_of_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effect: str) -> None:
    """Acknowledged, it never runs again and its outputs are there; else it runs, or asks whether it did."""
    scene, once = Scene(tmp_path), effect == "once"
    world = scene.top / "world"
    monkeypatch.setenv("LEDGER", os.fspath(world))
    words = ("--run", "r", "--step", "build", "--reads", "a.txt", "--writes", "out/**", "--effect", effect)
    argv = ("run", *words, "--", "sh", "-c", STEP)
    recording = scene.run(*argv)
    outputs = {f"out/{each}": (scene.box.path / f"out/{each}").read_bytes() for each in ("a", "when")}
    ran = next(n for n, op in enumerate(recording.ops) if op.kind == "write" and recording.paths[op.file][-1] == "world")

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        happened = cut.at > ran
        world.write_bytes(b"ran\n" * happened)  # the world outside has no plug
        yield from whole(scene.box)
        yield from clean(scene.box)
        done, problems = spoken(scene.box, *argv, good=(0, 76) if once and not acknowledged else (0,))
        yield from problems
        again = world.read_bytes().count(b"ran") - happened
        if again and (acknowledged or (once and happened)):
            yield Problem(LOST, f"it was {'acknowledged' if acknowledged else 'done'}, and ran again (exit {done.code})")
        have = now(scene.box.path)
        if acknowledged and not problems and any(have.get(path) != data for path, data in outputs.items()):
            yield Problem(LOST, "its outputs are not there")
        if done.code == 0 and have.get("out/a") != b"one\n":
            yield Problem(LOST, "exit 0, and its output is not there")
        yield from spoken(scene.box, "steps", "r")[1]
        yield from goes_on(scene.box)

    check(recording, judge)


ONCE = 'echo "do $GIT_BATON_IDEMPOTENCY_KEY" >> "$X/log"'
KEYED = f'grep -qs "$GIT_BATON_IDEMPOTENCY_KEY" "$X/log" || {ONCE}'
PROBE = 'touch "$X/log"; grep -q "$GIT_BATON_IDEMPOTENCY_KEY" "$X/log"'
WHOLE = "echo b | cmp -s - out/second/b"


class Case(NamedTuple):
    isolate: str = "none"
    effect: str = "none"
    probe: str | None = None
    verify: str | None = None


CASES = {
    "plain": Case(),
    "idempotent": Case("none", "idempotent"),
    "idempotent-tree": Case("tree", "idempotent"),
    "once": Case("none", "once"),
    "once-probed": Case("none", "once", PROBE),
    "once-verified": Case("none", "once", PROBE, WHOLE),
    "once-verified-tree": Case("tree", "once", PROBE, WHOLE),
}


def chain(case: Case, pause: str = "") -> tuple[Step, Step, Step]:
    """Three steps, each on what the one before made; the second has the effect, and writes two files not at once."""
    isolate, do = case.isolate, {"none": "true", "idempotent": KEYED, "once": ONCE}[case.effect]
    first = sh("first", "mkdir -p out; cat src/a.txt > out/first", reads="src/**", writes="out/first", isolate=isolate)
    line = f"mkdir -p out/second; echo torn > out/second/a; {do}; {pause} cat out/first > out/second/a; echo b > out/second/b"
    second = sh("second", line, reads="out/first", writes="out/second/**", after="first", isolate=isolate)
    second = changed(second, effect=case.effect, probe=case.probe, verify=case.verify)
    last = sh("last", "cat out/second/* > out/last", reads="out/second/**", writes="out/last", after="second", isolate=isolate)
    return first, second, last


def prepared(repo: Sandbox) -> Runner:
    repo.write("src/a.txt", "one\n")
    repo.write("out/second/theirs", "was there before\n")
    repo.write("wip.txt", "somebody's\n")
    return Runner(repo)


WANTED = {
    "a.txt": b"one\n",
    "src/a.txt": b"one\n",
    "wip.txt": b"somebody's\n",
    "out/first": b"one\n",
    "out/second/a": b"one\n",
    "out/second/b": b"b\n",
    "out/second/theirs": b"was there before\n",
    "out/last": b"one\nb\nwas there before\n",
}


def outputs(repo: Sandbox) -> dict[str, bytes]:
    """All files, but for those that a swap of one that is right already was killed at: they are kept until the next swap."""
    return {path: data for path, data in listing(repo.path).items() if "/.baton-" not in path}


def finished(run: Runner, steps: tuple[Step, ...], effects: int) -> None:
    """All is as after a clean run."""
    done = run.go(*steps)
    assert done.good, done
    assert outputs(run.repo) == WANTED
    assert len(run.lines("log")) == effects
    assert [run.go(step).state for step in steps] == ["cached"] * 3
    run.checked()


def work(place: str, case: str, first: int) -> None:
    """Carry out the chain of a case, in a process that is recorded."""
    assert Runner(Sandbox(Path(place))).go(*chain(CASES[case])[first:]).good
    os.write(1, b"done\n")


def recorded(repo: Sandbox, case: str, first: int = 0) -> Recording:
    """The chain of a case, from one of its steps on."""
    needs_strace()
    code = f"from tests.deep.test_cut_short_runs import work; work({os.fspath(repo.path)!r}, {case!r}, {first})"
    found = record(repo.path.parent, repo.path, sys.executable, "-c", code, env={"PYTHONPATH": os.fspath(ROOT)})
    assert found.ended.code == 0, found.ended
    return found


@pytest.fixture
def repo(tmp_path: Path) -> Sandbox:
    """A repository on a disk of its own, with the world outside beside it."""
    return Sandbox.begun(tmp_path / "disk/repo")


def told(run: Runner, step: Step, done: Done) -> None:
    """Nobody knows whether it happened, or whether its outputs are whole: a person looks, makes them so, and says it."""
    assert (done.state, done.code, done.step.name) == ("unknown", 76, "second")
    happened = run.lines("log")
    assert run.go(step).code == 76 and run.lines("log") == happened, "asked again, it asks again"
    if happened:
        run.repo.write("out/second/a", "one\n")
        run.repo.write("out/second/b", "b\n")
    with run.open() as ctx:
        assert settle(ctx, step, bool(happened)).state == "ok"


@some("case", CASES, share={"idempotent", "once", "once-verified-tree"})
def test_going_on_gives_what_a_clean_run_gives(repo: Sandbox, case: str) -> None:
    """The second step's effect, too: once done, it is never done again, and where nobody can know that, a person is asked."""
    steps, effect, asked = chain(CASES[case]), CASES[case].effect, list[int]()
    prepared(repo).go(steps[0])
    recording = recorded(repo, case, first=1)

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        run = Runner(repo)
        with run.open() as ctx:
            sweep(ctx.repo)  # as every 'git baton run' does first
        if acknowledged:
            assert [run.go(step).state for step in steps] == ["cached"] * 3
        state = run.state("second")
        torn = run.there("out/second/a") and state.begun is not None
        done = run.go(*steps)
        if done.code == 76:
            assert effect == "once"
            asked.append(cut.at)
            told(run, steps[1], done)
        finished(run, steps, effect != "none")
        begins = [logged.record for logged in run.records() if (logged.record.step, logged.record.type) == ("second", "begin")]
        assert len(begins) <= 2 and len({record.idem for record in begins}) == 1
        if torn and effect == "none":
            aborted = next(logged for logged in run.records() if logged.record.type == "abort")
            assert "out/second/a" in run.files(aborted.parts["orphan"]), "what was torn is kept"
        yield from whole(repo)

    check(recording, judge, models=(KILLED,), near="out/second/|outside/log")
    assert effect != "once" or asked or case == "once-verified"  # there its verification answers


def test_outputs_that_are_put_in_place_are_old_or_new(repo: Sandbox) -> None:
    """A result that is known already replaces the files of another one."""
    run, steps, turns, edited = prepared(repo), chain(CASES["plain"]), count(), list[Path]()
    run.go(*steps)
    run.repo.write("src/a.txt", "two\n")
    run.go(*steps)
    run.repo.write("src/a.txt", "one\n")
    old = listing(repo.path)
    assert old["out/second/a"] == b"two\n"
    recording = recorded(repo, "plain")
    assert listing(repo.path) == WANTED

    def judge(cut: Cut, acknowledged: bool) -> tuple[Problem, ...]:
        have, mine = listing(repo.path), b"an edit that nobody has"
        assert all(have.get(path) in (old[path], WANTED[path]) for path in WANTED), have
        strange = have.keys() - WANTED.keys()
        assert all("/.baton-" in path for path in strange), strange
        aside = [path for path in strange if path.endswith(".old") and next(turns) % 2]
        for path in aside:  # somebody had it open, and wrote into it still
            edited.append(repo.write(path, mine))
        assert Runner(repo).go(*steps).good
        assert outputs(repo) == WANTED and all(listing(repo.path).get(path) == mine for path in aside)
        return ()

    check(recording, judge, models=(KILLED,), states=400 if FULL else 24, near=r"repo/out/.*\.old$")
    assert edited


def test_what_outlives_a_step_that_is_killed_is_ended_and_what_it_tore_is_kept(repo: Sandbox) -> None:
    run, pipe = prepared(repo), repo.path.parent / "outside/pipe"
    os.mkfifo(pipe)
    steps = chain(CASES["plain"], pause='echo $$ >"$X/pipe"; sleep 30;')
    run.go(steps[0])
    child = fork(lambda: run.go(steps[1]))
    shell = int(pipe.read_text())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert run.read("out/second/a") == "torn\n" and not ended(shell)
    steps = chain(CASES["plain"])
    with run.open() as ctx:
        assert ctx.step_state("second").begun is not None
    finished(run, steps, 0)
    assert ended(shell)
    aborted = next(logged for logged in run.records() if logged.record.type == "abort")
    assert "out/second/a" in run.files(aborted.parts["orphan"])


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_a_person_who_denies_what_the_probe_said_leaves_nothing_torn(repo: Sandbox) -> None:
    run, case = prepared(repo), Case("tree", "once", PROBE, 'test "$(cat out/second/a)" = one')
    steps = chain(case)
    run.go(steps[0])
    (repo.path / "out/second").mkdir(exist_ok=True)
    assert run.killed("in-bring-back", steps[1])
    (repo.path / "out/second/a").unlink()
    repo.write("out/second/b", "b\n")
    assert run.go(*steps).code == 76
    (run.outside / "log").unlink()  # undone by hand
    with run.open() as ctx:
        settle(ctx, steps[1], False)
    assert not run.there("out/second/b") and run.there("out/second/theirs")
    finished(run, steps, 1)
