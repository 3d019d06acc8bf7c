"""What a power cut leaves of segments of the write-ahead log while they are dropped."""

from __future__ import annotations

import os
import random
import tempfile

import pytest

from gitbaton.threads import walfile
from gitbaton.threads.wal import Wal
from tests.deep.test_threads_wal_crash import Disk
from tests.kit import examples
from tests.rooms.threads.test_threads_wal import MEMORY, append, kill, read, small

__all__ = ["small"]


def test_a_power_cut_while_segments_are_dropped_leaves_the_newest(small: None) -> None:
    """What is found again is in git already: of two records of one checkpoint the older one alone would undo the newer."""
    chance, live = random.Random(11), [b"first", b"second", b"third", b"fourth"]
    for _ in range(examples(60, 6)):
        with tempfile.TemporaryDirectory(dir=MEMORY) as top, pytest.MonkeyPatch.context() as patch:
            disk, cuts = Disk(os.path.join(top, "wal"), patch), list[str]()
            wal = Wal(disk.folder)
            for payload in live:
                append(wal, payload)
                with wal.lock():
                    last = wal.rotate()

            def cut(fd: int, disk: Disk = disk, cuts: list[str] = cuts, top: str = top) -> None:
                cuts.append(os.path.join(top, str(len(cuts))))
                disk.after_power_cut(chance, cuts[-1])
                disk.sync(fd)

            patch.setattr(walfile, "fdatasync", cut)
            with wal.lock():
                wal.drop(last)
            kill(wal)
            assert len(cuts) >= len(live)
            for folder in cuts:
                wal = Wal(folder, sync=False)
                found = read(wal)
                kill(wal)
                assert found == live[len(live) - len(found) :]
