"""A graph that is killed at random loses nothing that was acknowledged, and a task that is finished never runs again."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox, examples
from tests.kit.saverjobs import Jobs, digest
from tests.kit.saverkit import config, ids, number, put

pytest.importorskip("langgraph.graph")

from gitbaton.langgraph import GitSaver


@pytest.fixture(scope="module")
def jobs() -> Iterator[Jobs]:
    with Jobs() as started:
        yield started


def lines(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def everything_noted_is_there(place: Path, noted: list[list[Any]]) -> None:
    """Each acknowledged put and write, whole."""
    with GitSaver(place, fsync=False) as saver:
        for kind, id, *words in (line for line in noted if line[0] in ("put", "writes")):
            found = saver.get_tuple(config(id=id))
            if kind == "put":
                assert found is not None and digest(found.checkpoint["channel_values"]) == words[0]
            elif found is not None:  # else its checkpoint was not acknowledged
                assert len([w for w in found.pending_writes or () if w[0] == words[0]]) == words[1]
        listed = list(saver.list(config()))
        assert ids(listed) == sorted(ids(listed), reverse=True)


def nothing_runs_again(noted: list[list[Any]]) -> None:
    """No node runs after its writes were acknowledged."""
    finished = set()
    for kind, *words in noted:
        if kind == "writes":
            finished.add(words[1])
        assert kind != "ran" or words[2] not in finished


def killed_until_done(jobs: Jobs, folder: Path, kills: int, steps: int, seed: int) -> int:
    """Kill the counting graph that many times, then let it end; how often it was killed before its end."""
    rng, place, ledger = random.Random(seed), folder / "threads.git", folder / "ledger"
    words = {"place": str(place), "ledger": str(ledger), "steps": steps, "fsync": True}
    killed = 0
    for n in range(kills):
        codes = jobs.run(("count", words), kill=rng.uniform(0.005, 0.15))
        killed += codes == [-9]
        if n % 3 == 2:  # else the next process finds what this one left
            everything_noted_is_there(place, lines(ledger))
        nothing_runs_again(lines(ledger))
        if ["done"] in lines(ledger):
            break
    assert jobs.run(("count", words)) == [0]
    noted = lines(ledger)
    assert noted[-1] == ["done"]
    everything_noted_is_there(place, noted)
    nothing_runs_again(noted)
    with GitSaver(place) as saver:
        last = saver.get(config())
        assert last is not None and last["channel_values"]["n"] == steps
        assert last["channel_values"]["log"] == [f"{side}{n}" for n in range(steps) for side in ("left", "right")]
    Sandbox(place).fsck()
    assert not (place / "baton/wal").exists()
    return killed


def test_r49_a_graph_killed_at_random_loses_nothing(jobs: Jobs, tmp_path: Path) -> None:
    wanted, killed, seed = examples(100, 8), 0, 0
    while killed < wanted:
        folder = tmp_path / str(seed)
        folder.mkdir()
        killed += killed_until_done(jobs, folder, wanted - killed, 100, seed)
        seed += 1
    assert killed >= wanted


def test_gap_crash_leaves_whole_checkpoints_only(jobs: Jobs, tmp_path: Path) -> None:
    """Killed between puts that nobody waits for on disk: what was acknowledged is there, what is there is whole."""
    place, started = tmp_path / "threads.git", time.monotonic()
    for n in range(examples(20, 3)):
        words = [{"place": str(place), "who": who, "puts": 100_000, "fsync": False} for who in (n % 5 * 2, n % 5 * 2 + 1)]
        assert jobs.run(*(("putting", each) for each in words), kill=0.1) == [-9, -9]
        with GitSaver(place, fsync=False) as saver:
            for item in saver.list(config()):
                values = item.checkpoint["channel_values"]
                assert item.checkpoint["id"] == number(values["n"] * 10 + values["who"])
                assert item.pending_writes in ([], [(f"task {values['who']}", "n", values["n"])])
    assert time.monotonic() - started < 60
    Sandbox(place).fsck()


def test_gap_processes(jobs: Jobs, tmp_path: Path) -> None:
    """Four processes on one thread: every put of each is there at once, and in the end."""
    place, puts = tmp_path / "threads.git", examples(250, 40)
    words = [{"place": str(place), "who": who, "puts": puts, "fsync": True} for who in range(4)]
    assert jobs.run(*(("putting", each) for each in words)) == [0, 0, 0, 0]
    wanted = sorted((number(n * 10 + who) for n in range(puts) for who in range(4)), reverse=True)
    with GitSaver(place) as saver:
        found = list(saver.list(config()))
        assert ids(found) == wanted and len(wanted) == 4 * puts
        assert all(len(item.pending_writes or ()) == 1 for item in found)
    bare = Sandbox(place)
    assert bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == str(4 * puts)
    bare.fsck()


def test_gap_processes_that_are_forks_share_what_was_open(jobs: Jobs, tmp_path: Path) -> None:
    assert jobs.run(("forking", {"place": str(tmp_path / "threads.git")})) == [0]
    assert Sandbox(tmp_path / "threads.git").git("rev-list", "--count", "refs/baton/threads/=t/_") == "61"
    Sandbox(tmp_path / "threads.git").fsck()


MODES = {
    "writes first": "abc",  # acknowledged, then killed in the put
    "put first": "abc",  # the writes come to a checkpoint that is not the newest any more
    "put only": "abc",  # the checkpoint after it holds what the task did
    "neither": "abbc",  # nothing was acknowledged: no saver can know of it
}


@pytest.mark.parametrize("mode", MODES)
def test_r50_a_task_whose_writes_are_acknowledged_never_runs_again(jobs: Jobs, tmp_path: Path, mode: str) -> None:
    """The probe of langgraph#8039: killed at the put after a task, whatever the order in which threads bring it and the task's
    writes; then resumed in a new process."""
    words = {"place": str(tmp_path / "threads.git"), "ledger": str(tmp_path / "ledger")}
    assert jobs.run(("probe", {**words, "mode": mode})) == [-9]
    assert jobs.run(("probe", {**words, "mode": ""})) == [0]
    *ran, done = lines(tmp_path / "ledger")
    assert "".join(name for (name,) in ran) == MODES[mode] and done == ["done", "a", "b", "c"]


def test_r50_writes_that_came_before_their_checkpoint_survive(jobs: Jobs, tmp_path: Path) -> None:
    place = tmp_path / "threads.git"
    assert jobs.run(("early", {"place": str(place), "id": number(5)})) == [-9]
    for n in range(3):
        with GitSaver(place) as saver:
            assert (saver.get_tuple(config(id=number(5))) is None) == (n < 2)
            if n == 1:
                put(saver, number(5), {"a": 1})
            found = saver.get_tuple(config())
            assert n == 0 or (found is not None and found.pending_writes == [("task", "a", "early")])
