"""A saver is cut short, or its process is killed: every put and every write that it acknowledged is there, and whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langgraph.graph")

from gitbaton.langgraph import GitSaver
from tests.kit import Sandbox
from tests.kit.places import ROOT
from tests.kit.plug import Recording, needs_strace, record
from tests.kit.plugdisk import KILLED, MODELS, Cut
from tests.kit.plugjudge import LOST, TORN, Problem, check, clean, whole
from tests.kit.processes import in_child
from tests.kit.saverjobs import count, digest, early, fork, forking, probe
from tests.kit.saverkit import config, ids, number, put
from tests.kit.tiers import FULL, some

SAVER = """
import os, sys
from gitbaton.langgraph import GitSaver
from tests.kit.saverkit import config, number, put
place, begin, end, fsync = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "yes"
saver = GitSaver(place, fsync=fsync)
for n in range(begin, end):
    put(saver, number(n), {"n": n, "big": "x" * 3000}, versions={"n": n, "big": n}, parent=number(n - 1) if n else None)
    saver.put_writes(config(id=number(n)), [("c", n)], f"task {n}")
    os.write(1, b"%d\\n" % n)
    if n == 3:
        saver.flush()
saver.close()
os.write(1, b"closed\\n")
"""


def recorded(top: Path, *words: str) -> Recording:
    """What a program does to a disk, on which it finds this package."""
    needs_strace()
    found = record(top, top, sys.executable, "-W", "ignore", "-c", *words, env={"PYTHONPATH": os.fspath(ROOT)})
    assert found.ended.code == 0, found.ended
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the threads are, on a disk of their own."""
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk/threads.git"


@some("fsync", ["yes", "no"], share=0)
def test_what_a_saver_acknowledged_is_there(place: Path, fsync: str) -> None:
    """It puts, flushes into git, goes on and closes; without fsync, a kill takes nothing either."""
    env = {**os.environ, "PYTHONPATH": os.fspath(ROOT)}
    words = ("-W", "ignore", "-c", SAVER, os.fspath(place))
    subprocess.run([sys.executable, *words, "0", "2", fsync], check=True, capture_output=True, env=env)
    recording = recorded(place.parent, SAVER, os.fspath(place), "2", "6", fsync)
    acks = [n for n, op in enumerate(recording.ops) if op.kind == "said"]

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        bare = Sandbox(place)
        yield from whole(bare)
        yield from clean(bare)
        sure = 2 + min(4, sum(ack < cut.at for ack in acks))
        with GitSaver(place) as saver:
            yield from read(saver, sure)
            put(saver, number(6), {"n": 6}, versions={"n": 6}, parent=number(5))
            saver.flush()
            yield from read(saver, sure)
        with GitSaver(place) as saver:
            yield from read(saver, sure)
            if saver.get_tuple(config(id=number(6))) is None:
                yield Problem(LOST, "a put after the cut is gone")
        assert not (place / "baton/wal").exists()
        yield from whole(bare)
        yield from clean(bare)

    check(recording, judge, models=MODELS if fsync == "yes" else (KILLED,), states=400 if FULL else 20)


def read(saver: GitSaver, sure: int) -> Iterator[Problem]:
    """What of six puts is there; the first ``sure`` must be, and all must be whole."""
    for n in range(6):
        found = saver.get_tuple(config(id=number(n)))
        if found is None:
            if n < sure:
                yield Problem(LOST, f"put {n} was acknowledged and is gone")
            continue
        if found.checkpoint["channel_values"] != {"n": n, "big": "x" * 3000}:
            yield Problem(TORN, f"put {n} is not whole")
        if n < sure and found.pending_writes != [(f"task {n}", "c", n)]:
            yield Problem(LOST, f"the writes of {n} were acknowledged and are gone")


STEPS = 3
GRAPH = "import sys; from tests.kit.saverjobs import count; count(sys.argv[1], sys.argv[2], int(sys.argv[3]))"


def test_a_graph_goes_on_where_it_was_and_no_finished_task_runs_again(place: Path) -> None:
    ledger = place.parent / "ledger"
    recording = recorded(place.parent, GRAPH, os.fspath(place), os.fspath(ledger), str(STEPS))

    def judge(cut: Cut, acknowledged: bool) -> Iterator[Problem]:
        noted = lines(ledger)
        if place.exists():
            everything_noted_is_there(place, noted)
        count(os.fspath(place), os.fspath(ledger), STEPS)
        noted = lines(ledger)
        assert noted[-1] == ["done"]
        nothing_runs_again(noted)
        everything_noted_is_there(place, noted)
        with GitSaver(place) as saver:
            last = saver.get(config())
        assert last is not None and last["channel_values"]["n"] == STEPS
        assert last["channel_values"]["log"] == [f"{side}{n}" for n in range(STEPS) for side in ("left", "right")]
        assert not (place / "baton/wal").exists()
        yield from whole(Sandbox(place))

    check(recording, judge, models=(KILLED,), near="/ledger$|/baton/wal/", states=400 if FULL else 20)


def lines(path: Path) -> list[list[Any]]:
    """What was noted; of the last line, half may be there."""
    text = path.read_text() if path.exists() else ""
    if text and not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]
        path.write_text(text)
    return [json.loads(line) for line in text.splitlines()]


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


def test_two_writers_are_killed_and_a_third_who_has_it_open_goes_on(place: Path) -> None:
    """Both are killed as soon as they have said that some puts are acknowledged, wherever they are then."""
    promised = set[str]()
    with GitSaver(place) as witness:
        for turn in range(4):
            put(witness, number(turn), {"who": turn})
            promised.add(number(turn))
            reader, writer = os.pipe()
            starts = [(2 * turn + who + 1) * 10_000 for who in range(2)]
            children = [fork(partial(write_for_ever, place, (reader, writer), each)) for each in starts]
            os.close(writer)
            with open(reader, encoding="ascii") as pipe:
                promised.update(pipe.readline().strip() for _ in range(5 + 2 * turn))
                for child in children:
                    os.kill(child, signal.SIGKILL)
                promised.update(pipe.read().split())
            assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [-signal.SIGKILL] * 2
            everything_is_whole(witness, promised)
            if turn % 2:
                witness.flush()
    with GitSaver(place) as saver:
        everything_is_whole(saver, promised)
    Sandbox(place).fsck()
    assert not (place / "baton/wal").exists()


def write_for_ever(place: Path, pipe: tuple[int, int], start: int) -> None:
    """Put, and say what was acknowledged; now and then all goes into git."""
    os.close(pipe[0])
    with GitSaver(place) as saver:
        for n in range(start, start + 9000):
            put(saver, number(n), {"who": n})
            os.write(pipe[1], f"{number(n)}\n".encode())
            if n % 4 == 3:
                saver.flush()


def everything_is_whole(saver: GitSaver, promised: set[str]) -> None:
    """All that was acknowledged is there, once, and what is there is whole."""
    found = list(saver.list(config()))
    assert ids(found) == sorted(set(ids(found)), reverse=True) and promised <= set(ids(found))
    assert all(item.checkpoint["id"] == number(item.checkpoint["channel_values"]["who"]) for item in found)


MODES = {
    "writes first": "abc",  # acknowledged, then killed in the put
    "put first": "abc",  # the writes come to a checkpoint that is not the newest any more
    "put only": "abc",  # the checkpoint after it holds what the task did
    "neither": "abbc",  # nothing was acknowledged: no saver can know of it
}


@pytest.mark.parametrize("mode", MODES)
def test_a_task_whose_writes_are_acknowledged_never_runs_again(tmp_path: Path, mode: str) -> None:
    """The probe of langgraph#8039: killed at the put after a task, whatever the order in which threads bring it and the task's
    writes; then resumed in a new process."""
    words = str(tmp_path / "threads.git"), str(tmp_path / "ledger")
    assert in_child(lambda: probe(*words, mode)) == -signal.SIGKILL
    assert in_child(lambda: probe(*words, "")) == 0
    *ran, done = lines(tmp_path / "ledger")
    assert "".join(name for (name,) in ran) == MODES[mode] and done == ["done", "a", "b", "c"]


def test_writes_that_came_before_their_checkpoint_survive(tmp_path: Path) -> None:
    place = tmp_path / "threads.git"
    assert in_child(lambda: early(str(place), number(5))) == -signal.SIGKILL
    for n in range(3):
        with GitSaver(place) as saver:
            assert (saver.get_tuple(config(id=number(5))) is None) == (n < 2)
            if n == 1:
                put(saver, number(5), {"a": 1})
            found = saver.get_tuple(config())
            assert n == 0 or (found is not None and found.pending_writes == [("task", "a", "early")])


def test_processes_that_are_forks_go_on_with_what_was_open(tmp_path: Path) -> None:
    bare = Sandbox(tmp_path / "threads.git")
    assert in_child(lambda: forking(str(bare.path))) == 0
    assert bare.git("rev-list", "--count", "refs/baton/threads/=t/_") == "61"
    bare.fsck()
