"""What is left of the log of threads when processes are killed, and when the power goes."""

from __future__ import annotations

import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.errors import RecordError
from gitbaton.threads import log as module
from gitbaton.threads.log import Log
from tests.kit import examples
from tests.rooms.threads.test_threads_log import MEMORY, QUICK, append, flush, kill, memory, read, small

__all__ = ["memory", "small"]

EVENTS = ("open", "pwrite", "write", "rename", "unlink", "fsync", "fdatasync", "mkdir", "rmdir", "listdir", "close")


def die_after(calls: int) -> None:
    """Be gone at one of the following calls of the system: of what is written, only half is."""
    left = [calls]

    def counted(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **named: object) -> object:
            left[0] -= 1
            if left[0] < 0:
                os._exit(9)
            return real(*args, **named)

        return call

    real = os.pwrite
    for name in EVENTS:
        setattr(os, name, counted(getattr(os, name)))
    module.fdatasync = os.fdatasync
    module.open = counted(open)  # type: ignore[attr-defined]
    pwrite = os.pwrite

    def half_write(fd: int, raw: Any, pos: int) -> int:
        if left[0] == 0:
            real(fd, raw[: len(raw) // 2], pos)
        return pwrite(fd, raw, pos)

    os.pwrite = half_write


def work_until_killed(folder: str, pipe: int) -> None:
    """Append and drop, and say what is acknowledged (+) or may be gone (-)."""
    write = os.write
    wal = Log(folder)

    def put(payload: bytes) -> None:
        append(wal, payload)
        write(pipe, b"+" + payload[:2] + b"\n")

    for payload in BIG:
        put(payload)
    with wal.lock():
        wal.read()
        n = wal.rotate()
    put(b"between")
    with wal.prepared(n):
        put(b"meanwhile")
        with wal.lock():
            wal.read()
            for payload in (b"first", *BIG):
                write(pipe, b"-" + payload[:2] + b"\n")
            wal.drop(n)
    put(b"last")


BIG = [b"%d," % number * 600 for number in range(4)]
NAMED = {payload[:2]: payload for payload in (b"first", *BIG, b"between", b"meanwhile", b"last", b"after", b"end")}


def killed_at(calls: int, work: Callable[[int], object]) -> tuple[bool, list[bytes]]:
    """Do something in a process that is killed after so many calls; whether it came to its end, and what it said."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        leave, code = os._exit, 70
        try:
            die_after(calls)
            work(theirs)
            code = 0
        finally:
            leave(code)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        said = pipe.read().split()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 9)
    return code == 0, said


def test_killed_at_any_step_the_others_go_on_and_nothing_is_lost(memory: Path, small: None) -> None:
    calls, done = 0, False
    while not done:
        folder = str(memory / str(calls))
        witness = Log(folder)
        append(witness, b"first")
        done, said = killed_at(calls, partial(work_until_killed, folder))
        acknowledged = [b"first", *(NAMED[name[1:]] for name in said if name[:1] == b"+")]
        dropped = [NAMED[name[1:]] for name in said if name[:1] == b"-"]
        seen = [b"first", *(flushed_half(witness) if calls & 2 else []), *append(witness, b"after")]
        check_survivors(seen, acknowledged, dropped)
        again = Log(folder)  # one who comes while others are there
        acknowledged.append(b"after")
        others = read(again)
        check_survivors(others, acknowledged, dropped)
        assert others == [*seen, b"after"][-len(others) :]
        kill(witness, again)
        last = Log(folder)  # and one who comes when nobody is
        found = append(last, b"end")
        check_survivors(found, acknowledged, dropped)
        kill(last)
        calls += examples(1, 2)
    assert calls > 35


def flushed_half(wal: Log) -> list[bytes]:
    """Rotate, before anything is written over what a killed process left; what was read."""
    with wal.lock():
        found = [payload for _, payload in wal.read()]
        wal.rotate()
    return found


def test_killed_while_it_opens_or_closes(memory: Path, small: None) -> None:
    calls, done = 0, False

    def come_and_go(folder: str, _: int) -> None:
        wal = Log(folder)
        read(wal)
        wal.close(lambda: flush(wal))

    while not done:
        folder = str(memory / str(calls))
        kill(wal := Log(folder))
        wal = Log(folder)
        append(wal, b"first")
        kill(wal)
        done, _ = killed_at(calls, partial(come_and_go, folder))
        last = Log(folder)
        assert read(last) in ([b"first"], []) if calls > 8 else read(last) == [b"first"]
        last.close(partial(flush, last))
        assert not os.path.exists(folder)
        calls += examples(1, 2)
    assert calls > 15


def check_survivors(found: list[bytes], acknowledged: list[bytes], dropped: list[bytes]) -> None:
    """Nothing acknowledged is missing but what was dropped, nothing is torn or twice, and at most one comes in addition."""
    assert len(set(found)) == len(found)
    assert [item for item in acknowledged if item in found or item not in dropped] == [i for i in found if i in acknowledged]
    assert all(item in NAMED.values() for item in found)
    assert len([item for item in found if item not in acknowledged]) <= 1


def test_writers_are_killed_at_random_moments(tmp_path: Path) -> None:
    folder, chance = str(tmp_path / "wal"), random.Random(7)
    witness, seen, promised = Log(folder), set[bytes](), set[bytes]()
    for turn in range(examples(100, 6)):
        children = []
        for name in range(2):
            ours, theirs = os.pipe()
            pid = os.fork()
            if not pid:
                write_for_ever(folder, theirs, b"%d.%d." % (turn, name))
            os.close(theirs)
            children.append((pid, ours))
        time.sleep(0.01 + chance.random() * 0.03)
        for pid, _ in children:
            os.kill(pid, signal.SIGKILL)
        for pid, ours in children:
            os.waitpid(pid, 0)
            with open(ours, "rb") as pipe:
                promised.update(line for line in pipe.read().split(b"\n")[:-1])
        for payload in read(witness):
            key, _, body = payload.partition(b" ")
            assert body == key * 100 and key not in seen
            seen.add(key)
        assert promised <= seen
        if turn % 2:
            kill(witness)
            witness = Log(folder)
            found = {payload.partition(b" ")[0] for payload in read(witness)}
            assert seen <= found and len(found - seen) <= 1  # one was written, and its writer killed before it said so
            seen = found
    assert promised
    flush(witness)
    witness.close()
    assert not os.path.exists(folder)


def write_for_ever(folder: str, pipe: int, prefix: bytes) -> None:
    wal, number = Log(folder), 0
    while True:
        number += 1
        name = prefix + b"%d" % number
        append(wal, name + b" " + name * 100)
        os.write(pipe, name + b"\n")


class Disk:
    """What of a folder is on disk: files as they were when last brought there, and names as of any moment since they were."""

    def __init__(self, folder: str, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.now: dict[int, bytes] = {}
        self.names: list[dict[str, int]] = [{}]
        self.look()
        self.names, self.files = self.names[-1:], dict(self.now)  # what is found after a power cut is on disk
        patch.setattr(module, "fdatasync", self.sync)
        patch.setattr(os, "fsync", self.sync)
        for name in ("rename", "unlink"):
            patch.setattr(os, name, self.noted(getattr(os, name)))

    def noted(self, call: Callable[..., None]) -> Callable[..., None]:
        def then_look(*args: str) -> None:
            call(*args)
            self.look()

        return then_look

    def sync(self, fd: int) -> None:
        self.look()
        inode = os.fstat(fd).st_ino
        if inode == os.stat(self.folder).st_ino:
            self.names = self.names[-1:]
        elif inode in self.now:
            self.files[inode] = self.now[inode]

    def look(self) -> None:
        """Note what is there now."""
        names: dict[str, int] = {}
        for entry in os.scandir(self.folder) if os.path.isdir(self.folder) else ():
            if entry.name.startswith("log"):
                names[entry.name] = entry.inode()
                self.now[entry.inode()] = Path(entry.path).read_bytes()
        if names != self.names[-1]:
            self.names.append(names)

    def after_power_cut(self, chance: random.Random, target: str) -> None:
        """The folder as it may be found: each sector of each file old or new, names of any moment since they were synced."""
        self.look()
        os.mkdir(target)
        for name, inode in chance.choice(self.names).items():
            new, old = self.now[inode], self.files.get(inode, b"").ljust(len(self.now[inode]), b"\0")
            taken = chance.choice([0.0, 0.1, 0.5, 0.9, 1.0])
            parts = [(new if chance.random() < taken else old)[at : at + 512] for at in range(0, len(new), 512)]
            Path(target, name).write_bytes(b"".join(parts))


CUTS = st.lists(st.tuples(st.sampled_from("aaaaasssdrk"), st.sampled_from([1, 20, 200, 500, 900, 3000])), max_size=25)


@settings(QUICK, max_examples=examples(2000, 90))
@given(steps=CUTS, seed=st.integers(0, 1 << 30), twice=CUTS)
def test_after_a_power_cut_what_was_synced_is_there_and_nothing_else(
    steps: list[tuple[str, int]], seed: int, twice: list[tuple[str, int]], small: None
) -> None:
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=MEMORY) as top:
        before: list[bytes] = []
        for turn, todo in enumerate((steps, twice, steps)):
            folder, following = (os.path.join(top, str(number)) for number in (turn, turn + 1))
            with pytest.MonkeyPatch.context() as patch:
                disk = Disk(folder, patch)
                wal = Log(folder)
                live = read(wal)
                assert live == before
                synced, wal = cut_work(wal, todo, live, turn)
                disk.after_power_cut(chance, following)
                kill(wal)
            shutil.copytree(following, f"{following}.copy")
            wal = Log(f"{following}.copy", sync=False)
            before = read(wal)
            kill(wal)
            assert before == live[: len(before)] and len(before) >= synced


def cut_work(wal: Log, steps: list[tuple[str, int]], live: list[bytes], turn: int) -> tuple[int, Log]:
    """Do what is asked; how many of the live records are synced, and who has the log open in the end."""
    synced, segments, token = len(live), [0] * len(live), 0
    for number, (step, size) in enumerate(steps):
        if step == "a":
            payload = (b"%d.%d." % (turn, number) * size)[: max(size, 8)]
            with wal.lock():
                wal.read()
                token = wal.append(payload)
                live.append(payload)
                segments.append(wal.segment)
        elif step == "s":
            wal.sync(token)
            synced = len(live)
        elif step == "k":  # killed, but the power stays: who comes next must not build on what is not on disk
            kill(wal)
            wal, token = Log(wal.folder), 0
            with wal.lock():
                found = wal.read()
            assert [payload for _, payload in found] == live
            synced, segments = len(live), [segment for segment, _ in found]
        else:
            with wal.lock():
                wal.read()
                n = wal.rotate()
                if step == "d":
                    keep = [at for at, segment in enumerate(segments) if segment >= n]
                    live[:] = [live[at] for at in keep]
                    segments = [segments[at] for at in keep]
                    synced = len(live)
                    wal.drop(n)
    return synced, wal


def test_cut_or_flipped_at_every_byte(memory: Path, small: None) -> None:
    wal = Log(str(memory / "wal"))
    append(wal, *(records := [b"%d" % number * 20 for number in range(4)]))
    kill(wal)
    whole = (memory / "wal" / "log").read_bytes()
    ends = [32 + 28 * number for number in range(5)]
    for at in range(ends[-1] + 9):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        for raw in (whole[:at], whole[:at] + bytes(4096 - at), bytes(flipped)):
            (memory / "wal" / "log").write_bytes(raw)
            if raw[:24] != whole[:24]:
                with pytest.raises(RecordError, match="is damaged: it does not begin as one does"):
                    read(wal := Log(str(memory / "wal"), sync=False))
                kill(wal)
                continue
            untold = raw == bytes(flipped) and 24 <= at < 32  # between header and records nothing is told
            intact = len(records) if untold else max(sum(end <= at for end in ends) - 1, 0)
            assert survivors(memory / "wal") == records[:intact], at


def survivors(folder: Path) -> list[bytes]:
    wal = Log(str(folder), sync=False)
    found = read(wal)
    assert append(wal, b"more") == [] and read(wal) == []
    kill(wal)
    wal = Log(str(folder), sync=False)
    assert read(wal) == [*found, b"more"]
    kill(wal)
    return found
