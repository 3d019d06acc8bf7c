"""Whoever flushes in the background makes way for one who is about to come back from the disk."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gitbaton.errors import GitError
from gitbaton.threads import log, store
from gitbaton.threads.log import Log


def test_who_waits_for_the_disk_says_when_it_is_likely_to_be_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wal, told = Log(str(tmp_path / "wal")), list[float]()

    def disk(fd: int) -> None:
        told.append(wal.back - time.perf_counter())
        time.sleep(0.01)

    monkeypatch.setattr(log, "fdatasync", disk)
    for _ in range(20):
        put(wal)
        assert wal.back == 0
    assert told[0] <= 0 and 0.002 < told[-1] < 1
    monkeypatch.setattr(log, "fdatasync", refuse)
    with pytest.raises(GitError, match="disk"):
        put(wal)
    assert wal.back == 0
    with pytest.raises(GitError, match="disk"):
        wal.close()


def refuse(fd: int) -> None:
    raise OSError(5, "Input/output error")


def put(wal: Log) -> None:
    with wal.lock():
        wal.read()
        token = wal.append(b"a record")
    wal.sync(token)


def test_a_flush_in_the_background_rests_when_somebody_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now, rests = [100.0], list[float]()
    clock = SimpleNamespace(perf_counter=lambda: now[0], sleep=rests.append)
    monkeypatch.setattr(store, "time", clock)
    core: Any = SimpleNamespace(wal=SimpleNamespace(back=0.0))
    give_way = store.way_giver(core)
    for later, back, resting in (
        (0.00005, 0.0, False),  # nobody waits
        (0.00005, 100.0101, False),  # not yet
        (0.00005, 100.0001, True),  # any moment
        (0.00005, 99.0, False),  # the disk stalls
        (0.0003, 0.0, True),  # for long enough
    ):
        now[0] += later
        core.wal.back = back
        before = len(rests)
        give_way()
        assert (len(rests) > before) == resting, (later, back)
